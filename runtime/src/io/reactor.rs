//! The reactor of a worker: io_uring or epoll, chosen when the worker starts.

use std::io;

use super::bare::Bare;
use super::{epoll, uring};
use crate::config::Io;
use crate::control::{Control, Outcome};
use crate::worker::Worker;

/// What a descriptor is waited for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Interest {
    /// Something to read, a connection to accept, or the end.
    Read,
    /// Room to write, or a connection made.
    Write,
}

impl Interest {
    /// What `poll` calls it.
    pub fn poll_flags(self) -> i16 {
        match self {
            Interest::Read => libc::POLLIN | libc::POLLRDHUP,
            Interest::Write => libc::POLLOUT,
        }
    }
}

/// How one worker waits for the outside world.
pub(crate) enum Reactor {
    /// Completions in shared memory.
    Uring(Box<uring::Uring>),
    /// Readiness by epoll.
    Epoll(Box<epoll::Epoll>),
    /// The same, once somebody waits: a spare worker's.
    Bare(Box<Bare>),
}

impl Reactor {
    /// Makes the reactor of the calling kernel thread. Full threads have no use for a ring, nor has
    /// a spare worker (`None`): there may be many, and a ring is a quarter of a megabyte.
    pub fn new(io: Option<Io>, all_are_full: bool) -> io::Result<Self> {
        let Some(io) = io else { return Ok(Reactor::Bare(Box::new(Bare::new()))) };
        match io {
            Io::Epoll => Ok(Reactor::Epoll(Box::new(epoll::Epoll::new()?))),
            Io::Uring => Ok(Reactor::Uring(uring::Uring::new()?)),
            Io::Auto if all_are_full || crate::arch::on_valgrind() => {
                Ok(Reactor::Epoll(Box::new(epoll::Epoll::new()?)))
            }
            Io::Auto => match uring::Uring::new() {
                Ok(ring) => Ok(Reactor::Uring(ring)),
                Err(_refused) => Ok(Reactor::Epoll(Box::new(epoll::Epoll::new()?))),
            },
        }
    }

    /// Takes in what has completed, without sleeping.
    pub fn poll(&self, worker: &'static Worker) {
        #[cfg(feature = "sim")]
        if crate::sim::poll(worker) {
            return;
        }
        match self {
            Reactor::Uring(ring) => ring.poll(worker),
            Reactor::Epoll(epoll) => epoll.poll(worker),
            Reactor::Bare(bare) => {
                if let Some(epoll) = bare.made() {
                    epoll.poll(worker);
                }
            }
        }
    }

    /// Sleeps until something completes, [`Reactor::signal`] is called, or `ns` have passed.
    pub fn wait(&self, worker: &'static Worker, ns: Option<u64>) {
        #[cfg(feature = "sim")]
        if crate::sim::wait(worker, ns) {
            return;
        }
        match self {
            Reactor::Uring(ring) => ring.wait(worker, ns),
            Reactor::Epoll(epoll) => _ = epoll.wait(worker, ns),
            Reactor::Bare(bare) => bare.wait(worker, ns),
        }
    }

    /// Ends the sleep of [`Reactor::wait`]; called by anybody.
    pub fn signal(&self) {
        #[cfg(feature = "sim")]
        if crate::sim::signal(self) {
            return;
        }
        match self {
            Reactor::Uring(ring) => ring.event.signal(),
            Reactor::Epoll(epoll) => epoll.event.signal(),
            Reactor::Bare(bare) => bare.signal(),
        }
    }

    /// Threads that wait here.
    pub fn waiting(&self) -> u64 {
        match self {
            Reactor::Uring(ring) => ring.in_flight(),
            Reactor::Epoll(epoll) => epoll.waiting(),
            Reactor::Bare(bare) => bare.made().map_or(0, epoll::Epoll::waiting),
        }
    }

    /// Ends the wait of `thread` for the reason `outcome`. True: it has ended. False: its
    /// completion is on the way and will make it ready.
    pub fn expire(&self, worker: &Worker, thread: &'static Control, outcome: Outcome) -> bool {
        #[cfg(feature = "sim")]
        if let Some(ended) = crate::sim::expire(thread, outcome) {
            return ended;
        }
        match self {
            Reactor::Uring(ring) => {
                ring.cancel(worker, thread, outcome);
                false
            }
            Reactor::Epoll(epoll) => epoll.remove(thread),
            Reactor::Bare(bare) => bare.made().is_some_and(|epoll| epoll.remove(thread)),
        }
    }
}
