//! What a report advises for a kind of thread.
//!
//! Invariant: nothing is advised without a measured peak, and nothing about stacks that the
//! program or the kernel made itself (the main thread's, or on the program's own memory).

use heddle_preload::profile::size_of_history;
use heddle_record::Zone;

use super::Kind;

/// The size that history gives: the Stack Tuner's own rule.
pub fn enough(peak: u64) -> u64 {
    after_overflow(peak, 0)
}

fn after_overflow(peak: u64, too_small: u64) -> u64 {
    let clipped = |bytes: u64| u32::try_from(bytes).unwrap_or(u32::MAX);
    size_of_history(clipped(peak), clipped(too_small)).into()
}

/// One line about its stack, if there is something to do or to know.
pub fn for_kind(kind: &Kind) -> Option<String> {
    if kind.main || kind.user_stack {
        let near = kind.zone == Zone::High;
        let limit = if kind.main { " (ulimit -s)" } else { "" };
        return near.then(|| format!("{} % used: raise it{limit}", percent(kind)));
    }
    if kind.overflowed && kind.by_policy {
        let (given, next) = (words(kind.stack_given), after_overflow(kind.peak, kind.stack_given));
        let next = words(next);
        return Some(format!("ran into the guard of the policy's {given}: {next} would do"));
    }
    if kind.overflowed {
        let next = after_overflow(kind.peak, kind.stack_given);
        let who = if kind.tuned { "the tuned stack of" } else { "its stack of" };
        let (given, next) = (words(kind.stack_given), words(next));
        let when = if kind.forgotten { "would do" } else { "next time" };
        return Some(format!("ran into the guard of {who} {given}: {next} {when}"));
    }
    match kind.zone {
        Zone::High if kind.tuned && kind.forgotten => Some(format!(
            "{} % used of the tuned size: {} would do",
            percent(kind),
            words(enough(kind.peak))
        )),
        Zone::High if kind.tuned && !kind.by_policy => Some(format!(
            "{} % used of the tuned size: the next run gives {}",
            percent(kind),
            words(enough(kind.peak))
        )),
        Zone::High => {
            let better = words(enough(kind.peak));
            Some(format!("{} % used: raise it, to {better}", percent(kind)))
        }
        Zone::Low if !kind.tuned && enough(kind.peak) < kind.stack_asked => {
            let (asked, peak) = (words(kind.stack_asked), words(kind.peak));
            let better = words(enough(kind.peak));
            Some(format!("asks {asked}, never used more than {peak}: {better} would do"))
        }
        _ => None,
    }
}

fn percent(kind: &Kind) -> u64 {
    kind.used_percent().unwrap_or(0)
}

/// Bytes for a sentence: "8 MiB", "12 KiB", rounded up so that what is said is enough.
pub fn words(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if bytes < 1024 {
        return format!("{bytes} bytes");
    }
    let mut unit = 0;
    let mut size = 1024u64;
    while unit + 1 < UNITS.len() && bytes >= size * 1024 {
        size *= 1024;
        unit += 1;
    }
    // Tenths where they say something.
    let tenths = (u128::from(bytes) * 10).div_ceil(u128::from(size));
    if tenths >= 100 || tenths.is_multiple_of(10) {
        format!("{} {}", tenths.div_ceil(10), UNITS[unit])
    } else {
        format!("{}.{} {}", tenths / 10, tenths % 10, UNITS[unit])
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::kind;
    use super::*;

    #[test]
    fn sizes_read_well() {
        let shown = [0, 900, 1024, 12_288, 12_289, 65_536, 8 << 20, 5_000_000, 3 << 30].map(words);
        let wanted = [
            "0 bytes",
            "900 bytes",
            "1 KiB",
            "12 KiB",
            "13 KiB",
            "64 KiB",
            "8 MiB",
            "4.8 MiB",
            "3 GiB",
        ];
        assert_eq!(shown, wanted);
    }

    #[test]
    fn enough_is_the_rule() {
        assert_eq!(enough(0), 64 << 10);
        assert_eq!(enough(12 << 10), 64 << 10);
        assert_eq!(enough(100 << 10), 192 << 10);
    }

    #[test]
    fn waste_and_danger_are_told() {
        let advice = |asked, given, peak| kind("f", asked, given, peak).advice;
        let waste = advice(8 << 20, 8 << 20, 12 << 10).expect("advice");
        assert_eq!(waste, "asks 8 MiB, never used more than 12 KiB: 64 KiB would do");
        let danger = advice(1 << 20, 1 << 20, 954_204).expect("advice");
        assert_eq!(danger, "90 % used: raise it, to 1.5 MiB");
        assert_eq!(advice(1 << 20, 1 << 20, 500 << 10), None);
        assert_eq!(advice(8 << 20, 64 << 10, 12 << 10), None, "tuned already");
        assert_eq!(advice(64 << 10, 64 << 10, 1000), None, "cannot be less");
        assert_eq!(advice(8 << 20, 8 << 20, 0), None, "nothing was measured");
    }

    #[test]
    fn an_overflow_is_corrected() {
        let mut kind = kind("f", 8 << 20, 64 << 10, 60 << 10);
        kind.overflowed = true;
        let text = for_kind(&kind).expect("advice");
        assert_eq!(text, "ran into the guard of the tuned stack of 64 KiB: 132 KiB next time");
        kind.by_policy = true;
        let text = for_kind(&kind).expect("advice");
        assert_eq!(text, "ran into the guard of the policy's 64 KiB: 132 KiB would do");
        kind.overflowed = false;
        let text = for_kind(&kind).expect("advice");
        assert_eq!(text, "93 % used: raise it, to 132 KiB");
        kind.main = true;
        assert_eq!(for_kind(&kind).as_deref(), Some("93 % used: raise it (ulimit -s)"));
    }
}
