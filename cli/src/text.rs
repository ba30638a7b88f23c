//! How numbers and foreign texts are shown to people.
//!
//! Invariant: nothing that another process wrote reaches the terminal unescaped.

use std::borrow::Cow;

/// A text from a table, with control characters and the characters that reorder a line made
/// visible: a thread's name must not be able to move the cursor.
pub fn harmless(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_harmful) {
        return Cow::Borrowed(text);
    }
    let shown = text.chars().map(|c| match is_harmful(c) {
        true => c.escape_default().to_string(),
        false => c.to_string(),
    });
    Cow::Owned(shown.collect())
}

fn is_harmful(c: char) -> bool {
    let reorders = matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}');
    c.is_control() || reorders || matches!(c, '\u{2028}' | '\u{2029}' | '\u{2066}'..='\u{2069}')
}

/// Bytes in the largest fitting unit of 1024: "600", "2.0K", "64K", "1.5M".
pub fn bytes(count: u64) -> String {
    const UNITS: [char; 4] = ['K', 'M', 'G', 'T'];
    if count < 1024 {
        return count.to_string();
    }
    let mut value = count as f64 / 1024.0;
    let mut unit = 0;
    // 1023.5 would be shown as "1024".
    while value >= 1023.5 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    let unit = UNITS[unit];
    // "64K" rather than "64.0K": sizes are round, measured peaks are not.
    if value >= 9.95 || value.fract() == 0.0 {
        format!("{value:.0}{unit}")
    } else {
        format!("{value:.1}{unit}")
    }
}

/// A span of time, three digits of it: "850ns", "12.3ms", "4.56s", "2h05m".
pub fn duration(ns: u64) -> String {
    let seconds = ns / 1_000_000_000;
    match ns {
        0 => "0".into(),
        1..1_000 => format!("{ns}ns"),
        1_000..1_000_000 => digits(ns as f64 / 1e3, "us"),
        1_000_000..1_000_000_000 => digits(ns as f64 / 1e6, "ms"),
        _ if seconds < 100 => digits(ns as f64 / 1e9, "s"),
        _ if seconds < 3600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        _ => format!("{}h{:02}m", seconds / 3600, seconds / 60 % 60),
    }
}

fn digits(value: f64, unit: &str) -> String {
    let decimals = match value {
        v if v < 9.995 => 2,
        v if v < 99.95 => 1,
        _ => 0,
    };
    format!("{value:.decimals$}{unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_made_visible() {
        assert_eq!(harmless("http connection"), "http connection");
        assert_eq!(harmless("détecteur 線"), "détecteur 線");
        assert_eq!(harmless("a\x1b[2Jb\n"), "a\\u{1b}[2Jb\\n");
        assert_eq!(harmless("\u{202e}txt"), "\\u{202e}txt");
    }

    #[test]
    fn bytes_are_short() {
        let shown = [0, 600, 1024, 2000, 65536, 1 << 20, 1_572_864, 10_444_800, 1_048_000, 1 << 42];
        let shown = shown.map(bytes);
        let wanted = ["0", "600", "1K", "2.0K", "64K", "1M", "1.5M", "10M", "1023K", "4T"];
        assert_eq!(shown, wanted);
    }

    #[test]
    fn durations_are_short() {
        let shown = [0, 850, 1_500, 12_345_678, 4_560_000_000, 99_990_000_000, 100_000_000_000];
        let wanted = ["0", "850ns", "1.50us", "12.3ms", "4.56s", "100s", "1m40s"];
        assert_eq!(shown.map(duration), wanted);
        assert_eq!(duration(7_500_000_000_000), "2h05m");
    }
}
