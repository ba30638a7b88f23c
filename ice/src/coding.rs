//! Content codings: which precompressed sibling of a file a client gets.
//!
//! Invariant: `choose` never picks a coding that the client did not accept; identity is the
//! answer to everything that is missing, empty or malformed.

/// A content coding that has precompressed siblings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Coding {
    Brotli,
    Zstd,
    Gzip,
}

impl Coding {
    /// All codings, the one that Ice would rather send first.
    pub const ALL: [Coding; 3] = [Coding::Brotli, Coding::Zstd, Coding::Gzip];

    /// What a sibling's name ends in.
    pub fn suffix(self) -> &'static str {
        match self {
            Coding::Brotli => ".br",
            Coding::Zstd => ".zst",
            Coding::Gzip => ".gz",
        }
    }

    /// The coding's name in HTTP.
    pub fn name(self) -> &'static str {
        match self {
            Coding::Brotli => "br",
            Coding::Zstd => "zstd",
            Coding::Gzip => "gzip",
        }
    }
}

/// Picks the coding with the highest weight among those `available`; `None` is identity.
pub fn choose(accept: Option<&[u8]>, available: impl Fn(Coding) -> bool) -> Option<Coding> {
    let accept = accept?;
    let identity = weight(accept, "identity").unwrap_or(1);
    let mut best = None;
    let mut best_weight = 0;
    for coding in Coding::ALL {
        let weight = weight(accept, coding.name()).unwrap_or(0);
        if weight > best_weight && available(coding) {
            (best, best_weight) = (Some(coding), weight);
        }
    }
    // A client may rank identity above what it merely tolerates.
    let ranked = weight_named(accept, "identity").is_some();
    if ranked && identity > best_weight { None } else { best }
}

/// The weight of a coding in thousandths: its own, else that of `*`, else none.
fn weight(accept: &[u8], name: &str) -> Option<u16> {
    weight_named(accept, name).or_else(|| weight_named(accept, "*"))
}

fn weight_named(accept: &[u8], name: &str) -> Option<u16> {
    accept.split(|&b| b == b',').find_map(|item| {
        let mut parts = item.split(|&b| b == b';');
        let coding = parts.next()?.trim_ascii();
        let same = coding.eq_ignore_ascii_case(name.as_bytes())
            || (name == "gzip" && coding.eq_ignore_ascii_case(b"x-gzip"));
        same.then(|| parts.find_map(quality).unwrap_or(Some(1000)).unwrap_or(0))
    })
}

/// Reads `q=0.5`: `None` for another parameter, `Some(None)` for a malformed weight.
fn quality(parameter: &[u8]) -> Option<Option<u16>> {
    let parameter = parameter.trim_ascii();
    let value = parameter.strip_prefix(b"q=").or_else(|| parameter.strip_prefix(b"Q="))?;
    Some(thousandths(value))
}

fn thousandths(value: &[u8]) -> Option<u16> {
    let (&whole, rest) = value.split_first()?;
    let digits = match rest {
        [] => rest,
        [b'.', digits @ ..] if digits.len() <= 3 => digits,
        _ => return None,
    };
    let mut thousandths = match whole {
        b'0' => 0,
        b'1' => 1000,
        _ => return None,
    };
    let mut unit = 100;
    for digit in digits {
        thousandths += u16::from(char::from(*digit).to_digit(10)? as u8) * unit;
        unit /= 10;
    }
    (thousandths <= 1000).then_some(thousandths)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn any(accept: &str) -> Option<Coding> {
        choose(Some(accept.as_bytes()), |_| true)
    }

    #[test]
    fn picks_the_highest_weight() {
        assert_eq!(any("gzip"), Some(Coding::Gzip));
        assert_eq!(any("gzip, br"), Some(Coding::Brotli));
        assert_eq!(any("gzip;q=1.0, br;q=0.5"), Some(Coding::Gzip));
        assert_eq!(any("zstd;q=0.9,br;q=0.9"), Some(Coding::Brotli));
        assert_eq!(any("*"), Some(Coding::Brotli));
        assert_eq!(any("br;q=0, *"), Some(Coding::Zstd));
        assert_eq!(any("GZIP"), Some(Coding::Gzip));
        assert_eq!(any("x-gzip"), Some(Coding::Gzip));
    }

    #[test]
    fn refuses_what_is_not_accepted() {
        for accept in ["", "deflate", "gzip;q=0", "*;q=0", "gzip;q=nonsense", "gzip;q=1.5", "gzi"] {
            assert_eq!(any(accept), None, "{accept}");
        }
        assert_eq!(choose(None, |_| true), None);
        assert_eq!(choose(Some(b"gzip, br"), |c| c == Coding::Gzip), Some(Coding::Gzip));
        assert_eq!(any("identity;q=1, gzip;q=0.2"), None);
        assert_eq!(any("identity;q=0.2, gzip;q=0.5"), Some(Coding::Gzip));
    }
}
