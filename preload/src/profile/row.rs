//! One row of a profile: what is known of one kind of thread from all runs so far.
//!
//! Invariant: a size is only ever given from history ([`Row::size_for`]): from a peak that was
//! measured, or from a size that was too small.

use heddle_record::Use;
use serde::Serialize;

use crate::key::Key;

/// No stack is made smaller than this, whatever history says.
pub const TUNED_BYTES_MIN: u32 = 64 << 10;
/// Room beyond one and a half peaks, for what was not seen yet (a signal's frame, a deeper call).
pub const RESERVE_BYTES: u32 = 40 << 10;
/// History never asks for more than this.
pub const TUNED_BYTES_MAX: u32 = 1 << 30;
/// Most bytes of a text in a profile.
pub(super) const TEXT_BYTES_MAX: usize = 4096;

/// How the threads of a kind got their stacks.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Sort {
    /// They asked for no size: `auto` may choose one.
    #[default]
    Default,
    /// They asked for a size: only `force` may choose another.
    Explicit,
    /// The program gave the memory: nobody else may choose.
    User,
    /// The process's first thread, whose stack the kernel makes.
    Main,
}

impl Sort {
    /// All of them.
    pub const ALL: [Sort; 4] = [Sort::Default, Sort::Explicit, Sort::User, Sort::Main];

    /// Its word in files.
    pub const fn word(self) -> &'static str {
        match self {
            Sort::Default => "default",
            Sort::Explicit => "explicit",
            Sort::User => "user",
            Sort::Main => "main",
        }
    }

    /// What a process's account says.
    pub fn of_use(kind: &Use) -> Sort {
        if kind.is_main() {
            Sort::Main
        } else if kind.is_user_stack() {
            Sort::User
        } else if kind.is_explicit() {
            Sort::Explicit
        } else {
            Sort::Default
        }
    }
}

/// What is known of one kind of thread. Sizes are in bytes; counters saturate.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct Row {
    /// Which kind.
    pub key: Key,
    /// Its start function's name, if symbols told.
    pub name: Option<String>,
    /// The file that the start function is in.
    pub module: String,
    /// How its threads got their stacks, the last time.
    pub sort: Sort,
    /// Threads so far.
    pub threads: u64,
    /// Runs in which there were any.
    pub runs: u32,
    /// Deepest use of a stack, 0 if none was measured.
    #[serde(rename = "peak_bytes")]
    pub peak: u32,
    /// Most memory that one stack had.
    #[serde(rename = "resident_bytes")]
    pub resident: u32,
    /// What the last one asked for, the default where it asked for none.
    #[serde(rename = "asked_bytes")]
    pub asked: u32,
    /// What the last one got.
    #[serde(rename = "given_bytes")]
    pub given: u32,
    /// The largest size that was too small, 0 if none was.
    #[serde(rename = "overflowed_bytes")]
    pub overflowed: u32,
    /// When the kind was first seen, in seconds since 1970.
    #[serde(rename = "first_seen_s")]
    pub first_seen: u64,
    /// When it was last seen.
    #[serde(rename = "last_seen_s")]
    pub last_seen: u64,
}

impl Row {
    /// A row for a kind that was never seen.
    pub fn new(key: Key, now: u64) -> Row {
        Row {
            key,
            name: None,
            module: String::new(),
            sort: Sort::Default,
            threads: 0,
            runs: 0,
            peak: 0,
            resident: 0,
            asked: 0,
            given: 0,
            overflowed: 0,
            first_seen: now,
            last_seen: now,
        }
    }

    /// The size that history asks for: one and a half peaks and 40 KiB, at least 64 KiB, and at
    /// least double of what was too small; whole pages. `None` without history, and where a size
    /// cannot be chosen (the first thread, the program's own memory).
    ///
    /// This is the part of the stack below the start function's call; what the C library puts
    /// above it (thread-local storage) comes on top.
    ///
    /// TEK gives its threads what they used, by page (section IV-B); the reserve is ours.
    pub fn size_for(&self) -> Option<u32> {
        self.has_size().then(|| size_of_history(self.peak, self.overflowed))
    }

    /// As [`Row::size_for`] without the least size: that holds for all that a stack is given, with
    /// what libheddle-preload adds to this for the C library and for a signal's frame.
    pub fn need(&self) -> Option<u32> {
        self.has_size().then(|| need_of_history(self.peak, self.overflowed))
    }

    fn has_size(&self) -> bool {
        let has_history = self.peak != 0 || self.overflowed != 0;
        has_history && matches!(self.sort, Sort::Default | Sort::Explicit)
    }

    /// Adds what the threads of one process did. Runs are counted by the caller, who knows which
    /// processes belong together.
    pub(super) fn add(&mut self, kind: &Use, name: Option<&str>, now: u64) {
        self.sort = Sort::of_use(kind);
        self.threads = self.threads.saturating_add(u64::from(kind.created));
        self.peak = self.peak.max(kind.peak);
        self.resident = self.resident.max(kind.resident);
        self.asked = kind.stack_asked;
        self.given = kind.stack_given;
        if kind.has_overflowed() {
            let size = if kind.stack_given == 0 { kind.stack_asked } else { kind.stack_given };
            self.overflowed = self.overflowed.max(size);
        }
        self.last_seen = self.last_seen.max(now);
        if let Some(name) = name {
            self.name = Some(clip(name).to_owned());
        }
        if let (Some(place), _) = kind.places() {
            clip(&place.path).clone_into(&mut self.module);
        }
    }
}

/// The size rule, in whole pages.
pub fn size_of_history(peak: u32, overflowed: u32) -> u32 {
    need_of_history(peak, overflowed).max(TUNED_BYTES_MIN)
}

/// The size rule without the least size, in whole pages.
fn need_of_history(peak: u32, overflowed: u32) -> u32 {
    let by_peak = u64::from(peak) + u64::from(peak / 2) + u64::from(RESERVE_BYTES);
    let bytes = by_peak.max(2 * u64::from(overflowed)).min(u64::from(TUNED_BYTES_MAX));
    let page = rustix::param::page_size() as u64;
    bytes.next_multiple_of(page) as u32
}

/// The text's beginning, as much as a profile keeps.
fn clip(text: &str) -> &str {
    let mut end = text.len().min(TEXT_BYTES_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;
    use heddle_record::layout::{USE_EXPLICIT, USE_MAIN, USE_OVERFLOWED, USE_USER_STACK};

    fn row(peak: u32, overflowed: u32) -> Row {
        Row { peak, overflowed, ..Row::new("ab+0x1".parse().expect("a key"), 7) }
    }

    #[test]
    fn sizes_follow_the_rule() {
        assert_eq!(row(0, 0).size_for(), None, "never without history");
        assert_eq!(row(1, 0).size_for(), Some(64 << 10));
        assert_eq!(row(16 << 10, 0).size_for(), Some(64 << 10));
        assert_eq!(row(100 << 10, 0).size_for(), Some(192 << 10));
        assert_eq!(row(0, 64 << 10).size_for(), Some(128 << 10));
        assert_eq!(row(100 << 10, 128 << 10).size_for(), Some(256 << 10));
        assert_eq!(row(u32::MAX, u32::MAX).size_for(), Some(1 << 30));
    }

    #[test]
    fn a_need_has_no_least_size() {
        assert_eq!(row(0, 0).need(), None);
        assert_eq!(row(1, 0).need(), Some(44 << 10));
        assert_eq!(row(16 << 10, 0).need(), Some(64 << 10));
        assert_eq!(row(0, 64 << 10).need(), Some(128 << 10));
        assert_eq!(row(100 << 10, 0).need(), row(100 << 10, 0).size_for());
    }

    #[test]
    fn what_nobody_may_choose_has_no_size() {
        for sort in Sort::ALL {
            let expected = matches!(sort, Sort::Default | Sort::Explicit);
            assert_eq!(Row { sort, ..row(1, 0) }.size_for().is_some(), expected, "{sort:?}");
        }
    }

    #[test]
    fn accounts_add_up() {
        let mut row = row(5000, 0);
        let kind = Use {
            flags: USE_EXPLICIT,
            start: Some("ab+1 /lib/x".into()),
            created: 3,
            stack_asked: 1 << 20,
            stack_given: 64 << 10,
            peak: 4000,
            resident: 8192,
            ..Use::default()
        };
        row.add(&kind, Some("work"), 9);
        row.add(&Use { flags: USE_OVERFLOWED, peak: 6000, ..kind.clone() }, None, 8);
        assert_eq!((row.threads, row.peak, row.resident), (6, 6000, 8192));
        assert_eq!((row.overflowed, row.sort), (64 << 10, Sort::Default));
        assert_eq!((row.first_seen, row.last_seen), (7, 9));
        assert_eq!((row.name.as_deref(), row.module.as_str()), (Some("work"), "/lib/x"));
        assert_eq!(Sort::of_use(&Use { flags: USE_MAIN, ..kind.clone() }), Sort::Main);
        assert_eq!(Sort::of_use(&Use { flags: USE_USER_STACK | USE_EXPLICIT, ..kind }), Sort::User);
    }
}
