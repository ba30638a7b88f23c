//! Standard input; a read that has to wait blocks only the calling thread.
//!
//! Invariant: descriptor 0 stays as it is: other processes share it, so it is never put into
//! non-blocking mode. A thread reads only when the descriptor is ready, and only one thread of
//! this process waits and reads at a time, so that another can't take the bytes in between.

use std::io::{self, BufRead, BufReader, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::OnceLock;

use super::wait_readable;
use crate::sync::{Mutex, MutexGuard, PoisonError};

/// Standard input, buffered; std's `Stdin`.
#[derive(Debug)]
pub struct Stdin(&'static Mutex<BufReader<Raw>>);

/// Standard input without the buffer.
#[derive(Debug)]
struct Raw(std::fs::File);

impl Read for Raw {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if crate::thread::is_user_level() {
            wait_readable(&self.0, None)?;
        }
        self.0.read(buffer)
    }
}

/// Standard input of the process.
///
/// # Panics
/// When descriptor 0 can't be duplicated.
pub fn stdin() -> Stdin {
    static INPUT: OnceLock<Mutex<BufReader<Raw>>> = OnceLock::new();
    Stdin(INPUT.get_or_init(|| {
        let fd = std::io::stdin().as_fd().try_clone_to_owned();
        let fd = fd.unwrap_or_else(|error| panic!("standard input: {error}"));
        Mutex::new(BufReader::new(Raw(fd.into())))
    }))
}

impl Stdin {
    fn lock(&self) -> MutexGuard<'static, BufReader<Raw>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Appends one line, its end included, to `line`; 0 = the end of the input.
    ///
    /// # Errors
    /// `InvalidData` for text that is not UTF-8, what the kernel says.
    pub fn read_line(&self, line: &mut String) -> io::Result<usize> {
        self.lock().read_line(line)
    }
}

impl Read for Stdin {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.lock().read(buffer)
    }
}

impl AsFd for Stdin {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: descriptor 0 is the process's standard input for as long as it lives.
        unsafe { BorrowedFd::borrow_raw(0) }
    }
}
