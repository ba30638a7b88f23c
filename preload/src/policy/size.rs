//! Sizes of stacks as people write them: "64K", "1.5M" is not one, 65536 is.
//!
//! Invariant: a size is whole bytes between [`STACK_BYTES_MIN`] and [`STACK_BYTES_MAX`].

/// Smallest stack that a policy can ask for: what every C library accepts.
pub const STACK_BYTES_MIN: u32 = 16 << 10;
/// Largest stack that a policy can ask for.
pub const STACK_BYTES_MAX: u32 = 1 << 30;

/// Reads a size: bytes, or with K, M or G (also KiB, MiB, GiB; powers of 1024).
///
/// # Errors
/// What was expected.
///
/// ```
/// assert_eq!(heddle_preload::policy::parse_size("64K"), Ok(65536));
/// assert!(heddle_preload::policy::parse_size("64 kilobytes").is_err());
/// ```
pub fn parse_size(text: &str) -> Result<u32, String> {
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let shift = match text[digits.len()..].trim_start() {
        "" | "B" => 0,
        "K" | "k" | "KiB" => 10,
        "M" | "MiB" => 20,
        "G" | "GiB" => 30,
        _ => return Err(no_size(text)),
    };
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(no_size(text));
    }
    let number: u64 = digits.parse().map_err(|_| no_size(text))?;
    within(number.checked_mul(1 << shift).ok_or_else(|| no_size(text))?)
}

/// A number of bytes as a stack's size.
pub(super) fn within(bytes: u64) -> Result<u32, String> {
    match u32::try_from(bytes) {
        Ok(bytes) if (STACK_BYTES_MIN..=STACK_BYTES_MAX).contains(&bytes) => Ok(bytes),
        _ => Err(format!("a stack of {bytes} bytes: expected 16K to 1G")),
    }
}

fn no_size(text: &str) -> String {
    format!("{text:?} is no size: expected bytes or a number with K, M or G, as \"64K\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_with_their_units() {
        for (text, bytes) in [
            ("65536", 65536),
            ("64K", 65536),
            ("64 KiB", 65536),
            ("64k", 65536),
            ("1M", 1 << 20),
            ("1G", 1 << 30),
            ("16384B", 16384),
        ] {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn other_texts_are_no_sizes() {
        for text in ["", "K", "64X", "-64K", "+64K", "6 4K", "1.5M", "64KB", "99999999999999999999"]
        {
            assert!(parse_size(text).unwrap_err().contains("is no size"), "{text}");
        }
        for text in ["0", "4K", "2G", "17179869183G"] {
            assert!(parse_size(text).is_err(), "{text}");
        }
    }
}
