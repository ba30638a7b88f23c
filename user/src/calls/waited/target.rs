//! What a call waits for: the file that its number meant when the call began.
//!
//! Invariant: between two waits of a call, and in them, its file is kept if the number was closed
//! in one of its waits. It is not after a handler has run: then the call begins anew, with the
//! number, as the kernel does it.

use core::ffi::c_int;

use super::super::{Result, Stop, resumed, resumed_after, shells};
use super::{Done, Kept, Trying};
use crate::errno;
use crate::threads::signals::{self, Then};

/// See the file's head.
pub struct Target {
    /// What the call tries with, now.
    pub fd: c_int,
    number: c_int,
    kept: Option<Kept>,
}

impl Target {
    #[inline]
    pub fn new(number: c_int) -> Self {
        Target { fd: number, number, kept: None }
    }

    /// Whether the number was closed.
    pub fn is_kept(&self) -> bool {
        self.kept.is_some()
    }

    /// What a wait leads to that has ended in this way; `None`: to another one.
    pub fn after(&mut self, done: Done, ended: Result<()>, always: bool) -> Result<Option<Trying>> {
        match (done, ended) {
            (Done::Trying(trying), Ok(())) => return Ok(Some(trying)),
            (Done::Gone, Ok(())) => return Err(Stop::Error(libc::EBADF)),
            (Done::Kept(kept), Ok(()) | Err(Stop::Error(libc::EBADF))) => self.keep(kept),
            (Done::Kept(kept), Err(stop)) => {
                self.keep(kept);
                self.resumed(stop, always)?;
            }
            (done, Err(stop)) => {
                drop(done);
                self.resumed(stop, always)?;
            }
        }
        Ok(None)
    }

    #[cold]
    fn keep(&mut self, kept: Kept) {
        self.fd = kept.fd;
        self.kept = Some(kept);
    }

    /// As [`resumed`].
    pub fn resumed(&mut self, stop: Stop, always: bool) -> Result<()> {
        match self.kept.take() {
            None => resumed(stop, always),
            Some(kept) => {
                self.fd = self.number;
                if let Some(kept) = resumed_with(vec![kept], stop, always)?.pop() {
                    self.keep(kept);
                }
                Ok(())
            }
        }
    }
}

/// As [`resumed`], with what the call keeps: a handler may jump out of it, or end the thread. What
/// it keeps after that.
#[cold]
pub fn resumed_with(kept: Vec<Kept>, stop: Stop, always: bool) -> Result<Vec<Kept>> {
    if stop != Stop::Cancelled || kept.is_empty() {
        return resumed(stop, always).map(|()| kept);
    }
    let here = 0_u8;
    let frame = (&raw const here).addr();
    shells::holds(frame, kept);
    let then = signals::interrupted();
    let kept = errno::kept(|| shells::held(frame));
    resumed_after(then, always)?;
    Ok(if then == Then::GoOn { kept } else { Vec::new() })
}
