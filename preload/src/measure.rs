//! How deep a living thread of another process has used its stack.
//!
//! Invariants
//! - Only addresses of the measured process are looked at, by its own files in /proc: the kernel
//!   decides whether this user may.
//! - Whatever a process's table says of a stack, a peak is not larger than that stack, and the
//!   work is bounded ([`STACK_BYTES_MAX`], [`SCAN_BYTES_MAX`]).
//!
//! Two steps, as in the process itself (`c/peak.c`): the kernel says which is the lowest page that
//! was ever touched, and the first word from there on that is not zero is the deepest use. Where
//! the memory may not be read, the page alone counts. A thread may end meanwhile, and its stack
//! become something else: who measures asks afterwards which threads still live
//! ([`Reader::living`](heddle_record::Reader::living)).
//!
//! Stacks of processes without libheddle-preload are not measured: nothing says where they begin.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use heddle_record::StackPlace;

use crate::sys::pagemap::Pagemap;

/// Larger stacks are not measured.
pub const STACK_BYTES_MAX: u64 = 16 << 30;
/// Most bytes of zeros that are read in search of a use; then the page counts.
pub const SCAN_BYTES_MAX: u64 = 64 << 20;
/// Bytes per read, at first: a page usually holds what is looked for.
const READ_BYTES_MIN: usize = 4096;
/// Bytes per read, later: zeroed memory and huge pages are passed quickly.
const READ_BYTES_MAX: usize = 256 << 10;

/// What a stack was used for so far.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Peak {
    /// Deepest use in bytes, counted from the start function's call.
    pub bytes: u64,
    /// Bytes of the stack in memory now.
    pub resident: u64,
    /// To the word; otherwise to the page, which is more than was used.
    pub is_exact: bool,
}

/// Measures stacks of one process.
#[derive(Debug)]
pub struct Meter {
    pagemap: Pagemap,
    /// `None`: the process's memory may not be read.
    memory: Option<File>,
}

impl Meter {
    /// A meter for the process as it is now; after an exec it needs another.
    ///
    /// # Errors
    /// If there is no such process, or this user may not look into it.
    pub fn new(pid: i32) -> io::Result<Meter> {
        let memory = File::open(format!("/proc/{pid}/mem")).ok();
        Ok(Meter { pagemap: Pagemap::open(pid)?, memory })
    }

    /// Whether peaks are found to the word.
    pub fn is_exact(&self) -> bool {
        self.memory.is_some()
    }

    /// How deep this stack was used. `None` if that cannot be known: its bounds are unknown or
    /// impossible, or the process is gone.
    ///
    /// A stack that was used for something else before, and not cleared since, shows that use:
    /// libheddle-preload clears the stacks that the C library reuses.
    pub fn peak(&self, stack: &StackPlace) -> Option<Peak> {
        let range = stack.range()?;
        if range.end - range.start > STACK_BYTES_MAX {
            return None;
        }
        let touched = self.pagemap.touched(range.clone()).ok()?;
        let resident = touched.resident.min(range.end - range.start);
        // Whole pages: the lowest may begin below the stack.
        let page = touched.lowest.map_or(stack.entry, |page| page.clamp(stack.low, stack.entry));
        let word = match &self.memory {
            // What cannot be read any more is no stack any more.
            Some(memory) => first_word(memory, page, stack.entry).ok()?,
            None => None,
        };
        let lowest = word.unwrap_or(page);
        Some(Peak { bytes: stack.entry - lowest, resident, is_exact: word.is_some() })
    }
}

/// Address of the first word in `[from, end)` that is not zero, or `end`; `None` if that cannot
/// be found in the time that there is.
fn first_word(memory: &File, from: u64, end: u64) -> io::Result<Option<u64>> {
    let mut bytes = vec![0; READ_BYTES_MIN];
    let mut at = from;
    while at < end {
        if at - from >= SCAN_BYTES_MAX {
            return Ok(None);
        }
        let length = bytes.len().min(usize::try_from(end - at).unwrap_or(usize::MAX));
        let chunk = &mut bytes[..length];
        memory.read_exact_at(chunk, at)?;
        if let Some(index) = chunk.iter().position(|byte| *byte != 0) {
            let address = at + index as u64;
            // Words lie at multiples of their size, whatever the stack's lowest byte is.
            return Ok(Some((address - address % 8).max(from)));
        }
        at += length as u64;
        bytes.resize((bytes.len() * 4).min(READ_BYTES_MAX), 0);
    }
    Ok(Some(end))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::pagemap::tests::Fresh;

    const STACK: usize = 8 << 20;

    /// Memory as a stack would be, of which the bytes at these offsets were used.
    fn stack(used: &[usize]) -> (Fresh, StackPlace) {
        let mut memory = Fresh::new(STACK);
        for offset in used {
            memory.bytes()[*offset] = 1;
        }
        let (low, high) = (memory.range().start, memory.range().end);
        (memory, StackPlace { low, high, entry: high - 512, ..StackPlace::default() })
    }

    fn meter() -> Meter {
        Meter::new(std::process::id().cast_signed()).expect("ourselves")
    }

    #[test]
    fn a_peak_is_found_to_the_word() {
        let meter = meter();
        assert!(meter.is_exact());
        for depth in [8, 24, 5000, 123_456, STACK - 512] {
            let (memory, place) = stack(&[STACK - 512 - depth, STACK - 600]);
            let peak = meter.peak(&place).expect("a peak");
            assert_eq!(peak.bytes, depth.max(88) as u64);
            assert!(peak.is_exact && peak.resident >= 4096 && peak.resident <= STACK as u64);
            drop(memory);
        }
    }

    #[test]
    fn bytes_in_a_word_count_as_the_word() {
        let (_memory, place) = stack(&[STACK - 512 - 9993]);
        assert_eq!(meter().peak(&place).expect("a peak").bytes, 10_000);
    }

    #[test]
    fn without_its_memory_the_page_counts() {
        let (_memory, place) = stack(&[STACK - 512 - 5000]);
        let meter = Meter { memory: None, ..meter() };
        let peak = meter.peak(&place).expect("a peak");
        assert_eq!((peak.bytes, peak.is_exact), (8192 - 512, false));
    }

    #[test]
    fn touched_zeros_are_no_use() {
        let (mut memory, place) = stack(&[]);
        // Written to, so the pages are there, but nothing is in them.
        std::hint::black_box(memory.bytes())[8192..STACK].fill(0);
        let peak = meter().peak(&place).expect("a peak");
        assert!(peak.is_exact && peak.bytes == 0, "{peak:?}");
    }

    #[test]
    fn impossible_stacks_have_no_peak() {
        let meter = meter();
        assert_eq!(meter.peak(&StackPlace::default()), None);
        let place = |low, high| StackPlace { low, high, entry: high, ..StackPlace::default() };
        assert_eq!(meter.peak(&place(4096, u64::MAX)), None);
        assert_eq!(meter.peak(&place(u64::MAX - 10, u64::MAX)), None);
        let hole = meter.peak(&place(4096, 8192)).expect("nothing there");
        assert_eq!((hole.bytes, hole.resident), (0, 0));
        assert!(Meter::new(1 << 30).is_err());
    }

    #[test]
    fn a_stack_need_not_begin_at_a_page() {
        let (memory, place) = stack(&[1000, 2000]);
        let place = StackPlace { low: place.low + 1003, ..place };
        let peak = meter().peak(&place).expect("a peak");
        assert_eq!(peak.bytes, (STACK - 512 - 2000) as u64, "what lies below is not the stack's");
        drop(memory);
    }
}
