//! How many threads wait for one number, and how many try; and how often it was closed meanwhile.
//!
//! Invariant: between [`Counts::done`], if that allows a try, and the end of the try nobody closes
//! the number by [`Counts::close`], unless he has lost patience. All of it is one word, so that who
//! is about to try and who is about to close can't miss each other. Those who waited when it was
//! closed count no more: the number's next file is nothing to them, however ready it is. Each of
//! them learns that, once, when its wait ends. Where the file was not kept for them they may wait
//! for ever, or until 1023 more of the number's files were closed: then they take another's count,
//! whose try fails. `tests/loom.rs` tries every order.

use core::sync::atomic::Ordering::SeqCst;

use crate::model::AtomicU64;

const BITS: u32 = 18;
/// What the word has of those who wait to read, who wait to write, and who try.
pub const READS: u64 = 1;
pub const WRITES: u64 = READS << BITS;
pub const TRIES: u64 = WRITES << BITS;
const CLOSED: u64 = TRIES << BITS;
/// So often the number is closed until the count begins anew.
const CLOSED_MAX: u64 = u64::MAX / CLOSED;

fn count(word: u64, unit: u64) -> u64 {
    word / unit % (1 << BITS)
}

/// What who closes is to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Closing {
    /// Nobody is counted: close.
    Free,
    /// Let others try, and ask again.
    Later,
    /// Those who were counted are not any more: close.
    Turned,
}

/// See the file's head.
pub struct Counts(AtomicU64);

impl Counts {
    pub const fn new() -> Self {
        Counts(AtomicU64::new(0))
    }

    /// The caller is about to wait; what [`Counts::done`] takes. `unit`: [`READS`] or [`WRITES`].
    pub fn begin(&self, unit: u64) -> u64 {
        // ORDER: SeqCst throughout: the counts stand before what they are for.
        self.0.fetch_add(unit, SeqCst) / CLOSED
    }

    /// The wait is over, and the caller tries until it says [`Counts::leave`] of [`TRIES`]. False:
    /// it must not, for the number was closed since it began, and counts no more.
    pub fn done(&self, unit: u64, closed: u64) -> bool {
        self.less(unit, closed, |word| word + TRIES)
    }

    /// One less of those who have begun with `closed`. False: the number was closed since.
    pub fn leave(&self, unit: u64, closed: u64) -> bool {
        self.less(unit, closed, |word| word)
    }

    /// Whether the number was not closed since those have begun who have begun with `closed`.
    #[inline]
    pub fn is_meant(&self, closed: u64) -> bool {
        self.0.load(SeqCst) / CLOSED == closed
    }

    fn less(&self, unit: u64, closed: u64, then: impl Fn(u64) -> u64) -> bool {
        let is_counted = |word| word / CLOSED == closed && count(word, unit) != 0;
        let turned = |word| is_counted(word).then(|| then(word - unit));
        self.0.fetch_update(SeqCst, SeqCst, turned).is_ok()
    }

    /// Whether nobody waits or tries.
    #[inline]
    pub fn are_none(&self) -> bool {
        self.0.load(SeqCst).is_multiple_of(CLOSED)
    }

    /// The caller is about to close. `is_ready`: whether the file is, to read or to write;
    /// `is_patient`: who tries is waited for. Before those count no more who have begun with some
    /// `closed`, `keep(closed, waits)` is told how many of them wait; the last such word holds.
    pub fn close(
        &self,
        is_ready: impl Fn(bool, bool) -> bool,
        is_patient: bool,
        mut keep: impl FnMut(u64, u64),
    ) -> Closing {
        loop {
            let word = self.0.load(SeqCst);
            if word.is_multiple_of(CLOSED) {
                return Closing::Free;
            }
            let may_try = || is_ready(count(word, READS) != 0, count(word, WRITES) != 0);
            if is_patient && (count(word, TRIES) != 0 || may_try()) {
                return Closing::Later;
            }
            keep(word / CLOSED, count(word, READS) + count(word, WRITES));
            let new = (word / CLOSED + 1) % CLOSED_MAX * CLOSED;
            if self.0.compare_exchange(word, new, SeqCst, SeqCst).is_ok() {
                return Closing::Turned;
            }
        }
    }
}
