//! What /proc says of processes and threads, as far as the Mediator asks.
//!
//! Invariant: nothing here fails loudly: a thread that has ended has no answer.

use std::fs::{self, File};
use std::io::{self, Read};

/// The fields of a thread's or process's `stat` that matter here.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Stat {
    /// 'R', 'S', 'D', 'Z', ...
    pub state: u8,
    /// The parent process.
    pub parent: i32,
    /// How many threads the process has.
    pub threads: i32,
    /// When it started, in clock ticks since boot.
    pub started: u64,
    /// Where the stack of its program begins: another place for each program that the process
    /// runs (exec). 0 where that is not told.
    pub image: u64,
}

impl Stat {
    /// By the text. The name in it may hold anything: fields are counted behind the last ')'.
    pub fn parse(text: &[u8]) -> Option<Stat> {
        let after = text.iter().rposition(|byte| *byte == b')')? + 1;
        let text = std::str::from_utf8(&text[after..]).ok()?;
        let mut fields = text.split_ascii_whitespace();
        Some(Stat {
            state: fields.next()?.bytes().next()?,
            parent: fields.next()?.parse().ok()?,
            threads: fields.nth(15)?.parse().ok()?,
            started: fields.nth(1)?.parse().ok()?,
            image: fields.nth(5).and_then(|it| it.parse().ok()).unwrap_or(0),
        })
    }

    /// Of a process, or of any thread by its own number.
    pub fn of(tid: i32) -> Option<Stat> {
        Stat::read(&format!("/proc/{tid}/stat"))
    }

    /// Of a thread of this process.
    pub fn of_thread(pid: i32, tid: i32) -> Option<Stat> {
        Stat::read(&format!("/proc/{pid}/task/{tid}/stat"))
    }

    /// In three system calls: the Mediator may have to ask for hundreds of threads while those
    /// take its CPU time. What is asked for stands in the first 300 bytes.
    fn read(path: &str) -> Option<Stat> {
        let mut bytes = [0; 512];
        let count = File::open(path).ok()?.read(&mut bytes).ok()?;
        Stat::parse(&bytes[..count])
    }

    /// Whether it runs or waits for a CPU.
    pub fn is_runnable(&self) -> bool {
        self.state == b'R'
    }

    /// Whether the thread has ended; the main one is listed as long as others run.
    pub fn is_ended(&self) -> bool {
        matches!(self.state, b'Z' | b'X')
    }

    /// Whether the process has ended. One is a zombie, too, whose main thread has ended
    /// (`pthread_exit`) while others run.
    pub fn is_over(&self) -> bool {
        self.is_ended() && self.threads <= 1
    }
}

/// CPU time in ns and the number of slices.
pub fn parse_schedstat(text: &[u8]) -> Option<(u64, u64)> {
    let mut numbers = std::str::from_utf8(text).ok()?.split_ascii_whitespace();
    let cpu_ns = numbers.next()?.parse().ok()?;
    Some((cpu_ns, numbers.nth(1)?.parse().ok()?))
}

/// The threads of a process; empty if it is no more.
pub fn threads(pid: i32) -> Vec<i32> {
    numbers(&format!("/proc/{pid}/task"))
}

/// All processes.
pub fn processes() -> Vec<i32> {
    numbers("/proc")
}

fn numbers(folder: &str) -> Vec<i32> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect()
}

/// A thread's name.
pub fn name(pid: i32, tid: i32) -> Option<String> {
    let name = fs::read(format!("/proc/{pid}/task/{tid}/comm")).ok()?;
    Some(String::from_utf8_lossy(name.trim_ascii_end()).into_owned())
}

/// Tells whether any process or thread was made on this machine: much cheaper than looking for it.
#[derive(Debug)]
pub struct Births {
    file: Option<File>,
    last: u64,
    turned: bool,
}

impl Births {
    /// From now on.
    pub fn new() -> Births {
        Births { file: File::open("/proc/loadavg").ok(), last: 0, turned: false }
    }

    /// Whether there was one since the last call; always, if that cannot be known.
    pub fn any(&mut self) -> bool {
        let Some(last) = self.file.as_ref().and_then(|file| last_pid(file).ok().flatten()) else {
            return true;
        };
        self.turned |= last < self.last;
        std::mem::replace(&mut self.last, last) != last
    }

    /// Whether the numbers began from the lowest again since this was asked last, so that one that
    /// was known may have been given to somebody else.
    pub fn have_turned(&mut self) -> bool {
        std::mem::take(&mut self.turned) || self.file.is_none()
    }
}

/// The fifth field is the number that was given to the newest of all.
fn last_pid(file: &File) -> io::Result<Option<u64>> {
    let mut bytes = [0; 128];
    let count = read_again(file, &mut bytes)?;
    let text = std::str::from_utf8(&bytes[..count]).unwrap_or("");
    Ok(text.split_ascii_whitespace().nth(4).and_then(|it| it.parse().ok()))
}

/// Reads a file of /proc from its beginning without opening it again.
pub fn read_again(file: &File, bytes: &mut [u8]) -> io::Result<usize> {
    use std::os::unix::fs::FileExt;
    file.read_at(bytes, 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stat_survives_a_hostile_name() {
        let text = b"7 (a) R) S 42 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4711 20";
        let stat = Stat { state: b'S', parent: 42, threads: 17, started: 4711, image: 0 };
        assert_eq!(Stat::parse(text), Some(stat));
        let longer = [&text[..], b" 21 22 23 24 25 26"].concat();
        assert_eq!(Stat::parse(&longer), Some(Stat { image: 25, ..stat }));
        assert_eq!(Stat::parse(b"7 (x R"), None);
        assert_eq!(Stat::parse(b"7 (x) R 1 2"), None);
        assert_eq!(parse_schedstat(b"1234 99 7\n"), Some((1234, 7)));
        assert_eq!(parse_schedstat(b"1 2"), None);
    }

    #[test]
    fn a_process_outlives_its_main_thread() {
        let stat = |state, threads| Stat { state, parent: 1, threads, started: 2, image: 0 };
        assert!(!stat(b'Z', 2).is_over() && !stat(b'S', 1).is_over());
        assert!(stat(b'Z', 1).is_over() && stat(b'X', 0).is_over());
    }

    #[test]
    fn births_are_noticed() {
        let mut births = Births::new();
        births.any();
        std::thread::spawn(|| ()).join().expect("no panic");
        assert!(births.any());
    }

    #[test]
    fn this_process_is_seen() {
        let pid = std::process::id() as i32;
        assert!(threads(pid).contains(&pid) && processes().contains(&pid));
        assert_eq!(Stat::of(pid).map(|it| it.started), heddle_record::process::start_time(pid));
        assert!(Stat::of(pid).is_some_and(|it| it.threads >= 1 && !it.is_over()));
        assert!(threads(1 << 25).is_empty() && Stat::of(1 << 25).is_none());
    }
}
