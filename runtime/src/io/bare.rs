//! What a spare worker sleeps in: a word, until a thread first waits for a descriptor there; from
//! then on an epoll set.
//!
//! There may be as many spare workers as threads that block in the kernel, and most of them never
//! see one that waits for a descriptor: so they take no descriptors of the program's limit, and are
//! made with five system calls less. Nor do all sets together take more than a quarter of it: where
//! they would, or there are no descriptors left, threads wait in the kernel ([`wait_a_little`]).
//!
//! Invariant: who has claimed the worker's sleep ends it. The set is made by the worker's own
//! kernel thread while it is awake, before it announces the sleep in which it waits there: so who
//! has claimed that one finds the set. One that comes late, with a sleep that has ended since, may
//! not; what he leaves in the word is for nobody.

use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicBool, AtomicU64};
use std::io;
use std::sync::OnceLock;
use std::time::Duration;

use rustix::process::{Resource, getrlimit};

use super::Epoll;
use super::call::timed_out;
use crate::called::Called;
use crate::sys::{clock, say};
use crate::worker::Worker;

/// Descriptors of a set, and how many sets there are.
const FILES_EACH: u64 = 2;
static SETS: AtomicU64 = AtomicU64::new(0);

/// How long a thread waits at once that nobody can wake, ms.
const LITTLE_MS: u64 = 10;

/// See the file's head.
pub(crate) struct Bare {
    called: Called,
    set: OnceLock<Epoll>,
}

impl Bare {
    pub const fn new() -> Self {
        Bare { called: Called::new(), set: OnceLock::new() }
    }

    /// The set, if there is one.
    #[inline]
    pub fn made(&self) -> Option<&Epoll> {
        self.set.get()
    }

    /// The set; for the worker's own kernel thread.
    ///
    /// # Errors
    /// There are no descriptors.
    pub fn set(&self) -> io::Result<&Epoll> {
        match self.set.get() {
            Some(set) => Ok(set),
            None => {
                let count = SETS.load(Relaxed);
                let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
                if (count + 1) * FILES_EACH > limit / 4 {
                    return Err(rustix::io::Errno::MFILE.into());
                }
                let made = Epoll::new()?;
                SETS.fetch_add(1, Relaxed);
                Ok(self.set.get_or_init(|| made))
            }
        }
    }

    /// Sleeps until an event, a call or for `ns`; called by `worker`, whose this is.
    pub fn wait(&self, worker: &'static Worker, ns: Option<u64>) {
        match self.made() {
            Some(set) => _ = set.wait(worker, ns),
            None => {
                self.called.wait(ns.map(Duration::from_nanos));
                let _called = self.called.take();
            }
        }
    }

    /// Ends the sleep of [`Bare::wait`], which the caller has claimed.
    pub fn signal(&self) {
        match self.made() {
            Some(set) => set.event.signal(),
            None => self.called.call(),
        }
    }
}

/// Where there are no descriptors for a set, which is told once: in the kernel, and no longer than
/// that nobody misses whoever cancels or calls the thread. The wait may end although nothing has
/// happened.
#[cold]
pub fn wait_a_little(entries: &mut [libc::pollfd], deadline: u64) -> io::Result<()> {
    static IS_TOLD: AtomicBool = AtomicBool::new(false);
    if !IS_TOLD.swap(true, Relaxed) {
        say::line(format_args!(
            "heddle: threads wait for more than there are descriptors for (RLIMIT_NOFILE): some \
             look every {LITTLE_MS} ms"
        ));
    }
    let left = if deadline == 0 { u64::MAX } else { deadline.saturating_sub(clock::now_ns()) };
    let ms = left.div_ceil(1_000_000).min(LITTLE_MS) as i32;
    // SAFETY: valid entries.
    match unsafe { libc::poll(entries.as_mut_ptr(), entries.len() as libc::nfds_t, ms) } {
        0 if deadline != 0 && clock::now_ns() >= deadline => Err(timed_out()),
        0.. => Ok(()),
        _ => match io::Error::last_os_error() {
            error if error.kind() == io::ErrorKind::Interrupted => Ok(()),
            error => Err(error),
        },
    }
}
