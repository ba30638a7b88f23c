//! What somebody should look at: a stack near its end, a time-critical thread that waits for a
//! lazy one.
//!
//! Invariant: says only what is known. A lock's owner is believed if the memory at the futex looks
//! like a locked mutex of glibc in every field, and the owner is a thread of the same process.

use std::collections::HashMap;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;

use heddle_record::{Kind, State, Zone};

use super::sample::Row;
use crate::text::{bytes, harmless};

/// A screen has no room for more.
const ADVICE_MAX: usize = 64;
/// Time-critical threads that are asked what they wait for, per sample.
const WAITERS_MAX: usize = 64;

/// One line of advice.
#[derive(Clone, Debug, Eq, PartialEq, serde::Serialize)]
pub struct Advice {
    pub pid: i32,
    /// The id of the thread that it is about.
    pub thread: String,
    pub text: String,
}

/// What there is to say about these threads.
pub fn give(rows: &[Row]) -> Vec<Advice> {
    let mut advice: Vec<Advice> = locks(rows);
    advice.extend(rows.iter().filter_map(stack));
    advice.truncate(ADVICE_MAX);
    advice
}

fn stack(row: &Row) -> Option<Advice> {
    let fields = &row.thread.fields;
    if fields.zone != Zone::High || fields.stack_size == 0 {
        return None;
    }
    let percent = u64::from(fields.stack_peak) * 100 / u64::from(fields.stack_size);
    let size = bytes(fields.stack_size.into());
    let text = format!("{}: stack near its end: {percent} % of {size} used", title(row));
    Some(Advice { pid: row.pid, thread: row.thread.id.to_string(), text })
}

/// "name (4711)".
fn title(row: &Row) -> String {
    format!("{} ({})", harmless(row.name()), row.id())
}

fn locks(rows: &[Row]) -> Vec<Advice> {
    let kernel = |row: &&Row| row.thread.fields.kind == Kind::KernelThread;
    let by_tid: HashMap<(i32, i32), &Row> =
        rows.iter().filter(kernel).map(|row| ((row.pid, row.thread.fields.tid), row)).collect();
    let waits = |row: &&Row| row.is_fast() && row.thread.fields.state == State::Parked;
    let waiters = rows.iter().filter(kernel).filter(waits).take(WAITERS_MAX);
    let advise = |row: &Row| {
        let owner = lock_owner(row.pid, row.thread.fields.tid)?;
        let owner = by_tid.get(&(row.pid, owner)).filter(|owner| !owner.is_fast())?;
        let text = format!(
            "{}: time-critical, waits for a lock that the lazy thread {} holds",
            title(row),
            title(owner)
        );
        Some(Advice { pid: row.pid, thread: row.thread.id.to_string(), text })
    };
    waiters.filter_map(advise).collect()
}

/// Who holds the mutex that a thread sleeps for, if that is what it does.
fn lock_owner(pid: i32, tid: i32) -> Option<i32> {
    let text = fs::read_to_string(format!("/proc/{pid}/task/{tid}/syscall")).ok()?;
    let wait = FutexWait::parse(&text)?;
    let memory = File::open(format!("/proc/{pid}/mem")).ok()?;
    let mut mutex = [0; 20];
    memory.read_exact_at(&mut mutex, wait.address).ok()?;
    wait.owner(&mutex)
}

/// A thread's sleep in the futex system call.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct FutexWait {
    address: u64,
    /// FUTEX_LOCK_PI: the kernel itself knows the owner.
    inherits: bool,
    expected: u32,
    narrow: bool,
}

impl FutexWait {
    /// By the text of /proc/PID/task/TID/syscall: number, six arguments, stack and instruction
    /// pointer; one word for a thread that runs or sleeps elsewhere.
    fn parse(text: &str) -> Option<FutexWait> {
        let mut words = text.split_ascii_whitespace();
        let narrow = match words.next()? {
            "202" if cfg!(target_arch = "x86_64") => false,
            // A 32-bit program.
            "240" if cfg!(target_arch = "x86_64") => true,
            "98" if cfg!(target_arch = "aarch64") => false,
            _ => return None,
        };
        let mut number = || u64::from_str_radix(words.next()?.strip_prefix("0x")?, 16).ok();
        let (address, operation, expected) = (number()?, number()?, number()?);
        // Without FUTEX_PRIVATE_FLAG and FUTEX_CLOCK_REALTIME.
        let inherits = match operation & 0x7f {
            0 | 9 => false,
            6 | 13 => true,
            _ => return None,
        };
        Some(FutexWait { address, inherits, expected: expected as u32, narrow })
    }

    /// The owner, by the 20 bytes at the futex.
    fn owner(&self, bytes: &[u8; 20]) -> Option<i32> {
        let word = |at: usize| {
            u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        if self.inherits {
            const TID_MASK: u32 = 0x3fff_ffff;
            return i32::try_from(word(0) & TID_MASK).ok().filter(|tid| *tid > 0);
        }
        // glibc's __pthread_mutex_s: lock, count, owner, then users and kind, on 32 bits reversed.
        let (lock, owner) = (word(0), word(8));
        let (users, kind) = if self.narrow { (word(16), word(12)) } else { (word(12), word(16)) };
        // Waiters expect 2, "locked, and somebody waits". Kinds: normal, recursive, error-checking,
        // adaptive; above them the flags of lock elision.
        let is_mutex = self.expected == 2 && lock == 2 && users >= 1 && kind & !0x300 <= 3;
        let owner = i32::try_from(owner).ok().filter(|tid| *tid > 0)?;
        is_mutex.then_some(owner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WAIT: &str = "202 0x7ffe0010 0x80 0x2 0x0 0x0 0x0 0x7ffd 0x7f01\n";

    fn mutex(words: [u32; 5]) -> [u8; 20] {
        let mut bytes = [0; 20];
        for (to, word) in bytes.chunks_mut(4).zip(words) {
            to.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn waits_are_told_from_other_sleeps() {
        let wait = FutexWait::parse(WAIT).expect("a wait");
        assert_eq!((wait.address, wait.expected, wait.inherits), (0x7ffe_0010, 2, false));
        assert_eq!(FutexWait::parse("running\n"), None);
        assert_eq!(FutexWait::parse("0 0x3 0x7f 0x1 0 0 0 0 0"), None);
        assert_eq!(FutexWait::parse(&WAIT.replace("0x80", "0x81")), None, "a wake");
        assert!(FutexWait::parse(&WAIT.replace("0x80", "0x86")).expect("a wait").inherits);
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn only_what_looks_like_a_mutex_has_an_owner() {
        let wait = FutexWait::parse(WAIT).expect("a wait");
        assert_eq!(wait.owner(&mutex([2, 0, 4711, 1, 0])), Some(4711));
        assert_eq!(wait.owner(&mutex([2, 0, 4711, 1, 0x101])), Some(4711));
        assert_eq!(wait.owner(&mutex([2, 0, 0, 1, 0])), None);
        assert_eq!(wait.owner(&mutex([1, 0, 4711, 1, 0])), None);
        assert_eq!(wait.owner(&mutex([2, 0, 4711, 1, 77])), None);
        let other = FutexWait { expected: 0, ..wait };
        assert_eq!(other.owner(&mutex([2, 0, 4711, 1, 0])), None);
        let inherits = FutexWait { inherits: true, ..wait };
        assert_eq!(inherits.owner(&mutex([0x8000_0007, 0, 0, 0, 0])), Some(7));
    }
}
