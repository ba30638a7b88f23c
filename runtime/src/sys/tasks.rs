//! The kernel threads of this process, as the kernel shows them in /proc.
//!
//! All of it is a moment's: who wants to know more looks twice, and compares.

use std::ffi::CString;
use std::io;

use super::descriptor::{Brief, low, read_all};
use super::place::Maps;
use rustix::fs::{OFlags, RawDir};

/// Bytes for the entries that one system call tells.
const ENTRIES_BYTES: usize = 8 << 10;

/// The ids of all of them.
///
/// Not by std's `read_dir`, which panics if the program closes the descriptor meanwhile.
pub(crate) fn all() -> io::Result<Vec<i32>> {
    low(list)
}

/// Whether a kernel thread of heddle's own has this name. Threads of a program have the program's,
/// which may begin so, too.
pub(crate) fn is_own(name: &str) -> bool {
    const HELPERS: [&str; 8] =
        ["monitor", "steward", "check", "cancel", "blocking", "proxy", "signals", "timers"];
    let rest = name.strip_prefix("heddle-");
    rest.is_some_and(|it| it.parse::<u32>().is_ok() || HELPERS.contains(&it))
}

/// Those of heddle's own: workers, and those that help them. Not the main thread, whose name is the
/// program's.
///
/// # Errors
/// When the kernel shows none.
pub fn own() -> io::Result<Vec<i32>> {
    let main = std::process::id() as i32;
    let mut ids = all()?;
    ids.retain(|&tid| tid != main && name(tid).is_some_and(|it| is_own(&it)));
    Ok(ids)
}

/// Whether there are kernel threads of the program's or the C library's besides the main thread.
pub fn are_others() -> bool {
    let main = std::process::id() as i32;
    let is_other = |tid: i32| {
        tid != main
            && name(tid).is_some_and(|it| !is_own(&it))
            && stat(tid).is_some_and(|it| !it.is_of_kernel && !it.has_ended)
    };
    all().is_ok_and(|ids| ids.into_iter().any(is_other))
}

fn list() -> io::Result<Vec<i32>> {
    let folder = Brief::open_as(c"/proc/self/task", OFlags::DIRECTORY)?;
    let mut space = Vec::with_capacity(ENTRIES_BYTES);
    let mut entries = RawDir::new(&folder, space.spare_capacity_mut());
    let mut ids = Vec::new();
    while let Some(entry) = entries.next() {
        // "." and ".." are among them.
        ids.extend(entry?.file_name().to_str().ok().and_then(|name| name.parse::<i32>().ok()));
    }
    Ok(ids)
}

fn read(tid: i32, file: &str) -> Option<String> {
    // A name may be any bytes.
    let bytes = read_all(&CString::new(format!("/proc/self/task/{tid}/{file}")).ok()?)?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// Its name.
pub(crate) fn name(tid: i32) -> Option<String> {
    Some(read(tid, "comm")?.trim_end().to_owned())
}

/// What the kernel says it does.
pub(crate) struct Stat {
    /// It waits for an event: it is not about to run, nor waits for a disk or a page, as one in the
    /// middle of a call may.
    pub is_asleep: bool,
    /// It is about to be gone.
    pub has_ended: bool,
    /// The kernel has made it for a ring of this process: it runs nothing of the program's.
    pub is_of_kernel: bool,
}

/// What it does.
pub(crate) fn stat(tid: i32) -> Option<Stat> {
    stat_of(&read(tid, "stat")?)
}

/// `PF_IO_WORKER` of the kernel.
const IO_WORKER: u32 = 0x10;

/// The number and the name in brackets come before the state; five numbers between that and the
/// flags.
fn stat_of(line: &str) -> Option<Stat> {
    let mut words = line.rsplit_once(')')?.1.split_ascii_whitespace();
    let state = words.next()?;
    let (is_asleep, has_ended) = (state == "S", matches!(state, "Z" | "X"));
    let flags: u32 = words.nth(5)?.parse().ok()?;
    Some(Stat { is_asleep, has_ended, is_of_kernel: flags & IO_WORKER != 0 })
}

/// Whether a child that it has made runs in this process's memory (`clone` with `CLONE_VM`), where
/// it may wake who waits; or may do so, as the kernel does not tell the caller. Some kernels tell
/// neither who the children are nor what memory they have.
pub(crate) fn has_child_in_memory(tid: i32) -> bool {
    read(tid, "children").is_none_or(|children| {
        children.split_ascii_whitespace().filter_map(|it| it.parse().ok()).any(is_in_memory)
    })
}

/// Whether a process runs in this one's memory, or may do so.
fn is_in_memory(pid: i32) -> bool {
    const KCMP_VM: libc::c_int = 1;
    // SAFETY: numbers.
    let compared = unsafe { libc::syscall(libc::SYS_kcmp, libc::getpid(), pid, KCMP_VM, 0, 0) };
    let is_gone = || io::Error::last_os_error().raw_os_error() == Some(libc::ESRCH);
    compared == 0 || compared < 0 && !is_gone()
}

/// How often it has gone to sleep.
pub(crate) fn sleeps(tid: i32) -> Option<u64> {
    field(&read(tid, "status")?, "voluntary_ctxt_switches:")?.parse().ok()
}

/// The signals for which the process has handlers: bit N - 1 is signal N.
pub(crate) fn caught_signals() -> Option<u64> {
    let status = read_all(c"/proc/self/status")?;
    u64::from_str_radix(field(&String::from_utf8_lossy(&status), "SigCgt:")?, 16).ok()
}

fn field<'a>(status: &'a str, name: &str) -> Option<&'a str> {
    status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim)
}

/// Whether [`waits_at`] does: the numbers of system calls may be those of another machine that this
/// one is emulated on.
pub(crate) fn can_tell() -> bool {
    let line = read(super::task::tid(), "syscall");
    line.is_some_and(|line| number_of(&line) == Some(libc::SYS_read))
}

fn number_of(line: &str) -> Option<libc::c_long> {
    line.split_ascii_whitespace().next()?.parse().ok()
}

/// The word at which it sleeps until a thread of this process wakes it: in the futex call, without
/// a timeout. `None`: it does something else, or the kernel does not say.
pub(crate) fn waits_at(tid: i32, maps: &Maps) -> Option<usize> {
    let (word, is_private) = word_of(&read(tid, "syscall")?)?;
    // The C library waits so for robust mutexes, and for the end of a kernel thread.
    (is_private || maps.is_private(word)).then_some(word)
}

/// Of a line of /proc, the call's number and its arguments: the word, and whether the caller says
/// that no other process has it.
fn word_of(line: &str) -> Option<(usize, bool)> {
    if number_of(line)? != libc::SYS_futex {
        return None;
    }
    let mut words = line.split_ascii_whitespace().skip(1);
    let mut argument = || usize::from_str_radix(words.next()?.strip_prefix("0x")?, 16).ok();
    let (word, operation, _value, timeout) = (argument()?, argument()?, argument()?, argument()?);
    let operation = operation as libc::c_int;
    let command = operation & !(libc::FUTEX_PRIVATE_FLAG | libc::FUTEX_CLOCK_REALTIME);
    let waits = command == libc::FUTEX_WAIT || command == libc::FUTEX_WAIT_BITSET;
    (waits && timeout == 0).then_some((word, operation & libc::FUTEX_PRIVATE_FLAG != 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_wait_without_a_timeout_has_a_word() {
        let call = |number: libc::c_long, operation: libc::c_int, timeout: usize| {
            word_of(&format!("{number} 0x7f00 {operation:#x} 0x2 {timeout:#x} 0x0 0x0 0x1 0x2\n"))
        };
        let (wait, private) = (libc::FUTEX_WAIT, libc::FUTEX_PRIVATE_FLAG);
        let until = libc::FUTEX_WAIT_BITSET | libc::FUTEX_CLOCK_REALTIME;
        assert_eq!(call(libc::SYS_futex, wait | private, 0), Some((0x7f00, true)));
        assert_eq!(call(libc::SYS_futex, until | private, 0), Some((0x7f00, true)));
        assert_eq!(call(libc::SYS_futex, wait, 0), Some((0x7f00, false)));
        assert_eq!(call(libc::SYS_futex, wait | private, 0x7ffe), None, "it ends by itself");
        assert_eq!(call(libc::SYS_futex, libc::FUTEX_LOCK_PI | private, 0), None);
        assert_eq!(call(libc::SYS_read, wait | private, 0), None);
        assert_eq!(word_of("running\n"), None);
        assert_eq!(word_of("-1 0x7ffe 0x7f00\n"), None, "blocked, and in no call");
    }

    #[test]
    fn a_state_and_what_the_kernel_made_are_told() {
        let line = |state, flags| format!("7 (a) S (c) {state} 1 2 3 0 -1 {flags} 5 0 0 0\n");
        let told =
            |state, flags| stat_of(&line(state, flags)).map(|it| (it.is_asleep, it.is_of_kernel));
        assert_eq!(told("S", 0x40_0050), Some((true, true)));
        assert_eq!(told("S", 0x40_0040), Some((true, false)));
        for state in ["R", "D", "T", "t", "Z"] {
            assert_eq!(told(state, 0x40_0040), Some((false, false)), "{state}");
        }
        assert!(stat_of("7 (a").is_none());
        let own = stat(crate::sys::task::tid()).unwrap();
        assert!(!own.is_asleep && !own.is_of_kernel);
    }

    /// More than one system call tells.
    #[test]
    fn all_of_many_are_found() {
        const COUNT: usize = 400;
        let gate = std::sync::Arc::new(std::sync::Barrier::new(COUNT + 1));
        let (sender, ids) = std::sync::mpsc::channel();
        let threads: Vec<_> = (0..COUNT)
            .map(|_| {
                let (gate, sender) = (gate.clone(), sender.clone());
                std::thread::spawn(move || {
                    sender.send(crate::sys::task::tid()).unwrap();
                    gate.wait();
                })
            })
            .collect();
        let ids: Vec<_> = ids.iter().take(COUNT).collect();
        let all = all().unwrap();
        gate.wait();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert!(ids.iter().all(|id| all.contains(id)));
    }

    #[test]
    fn the_caller_is_found_and_does_not_wait() {
        let me = crate::sys::task::tid();
        // The kernel's list may leave some out when others end while it is read.
        assert!((0..100).any(|_| all().unwrap().contains(&me)));
        assert_eq!(waits_at(me, &Maps::default()), None);
        assert!(name(me).is_some_and(|name| !name.is_empty()));
        assert!(sleeps(me).is_some());
        assert!(caught_signals().is_some());
    }
}
