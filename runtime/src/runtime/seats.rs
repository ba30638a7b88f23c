//! How workers get their kernel threads.
//!
//! Invariant: one at a time makes a worker, finds a kernel thread for one, or counts them, under
//! `adding`. It may be held for long, while the C library waits for the program's allocator: so
//! neither the monitor nor a thread on a worker comes here, but who starts the runtime or makes the
//! first full thread.

use std::io;
use std::sync::{MutexGuard, PoisonError};

use super::{Runtime, WORKERS_MAX};
use crate::config::Io;
use crate::handed;
use crate::io::Reactor;
use crate::sched;
use crate::sys::{kernel_thread, task};
use crate::worker::Worker;

/// Alternate signal stack of a worker: the overflow report runs there.
const ALTERNATE_STACK_BYTES: usize = 64 << 10;

impl Runtime {
    pub(super) fn adding(&self) -> MutexGuard<'_, ()> {
        self.adding.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts one more worker and waits until it runs; fails as the kernel refused.
    pub fn add_worker(&'static self) -> io::Result<&'static Worker> {
        let _guard = self.adding();
        self.add_worker_with(Some(self.config.io))
    }

    /// As [`Runtime::add_worker`], to stand in for one that is blocked in the kernel.
    pub fn add_spare(&'static self) -> io::Result<&'static Worker> {
        let _guard = self.adding();
        self.add_worker_with(None)
    }

    /// Has a spare worker ready before the first full thread is there, which may hold what making
    /// one takes. Without it the steward tries again.
    pub fn make_first_spare(&'static self) {
        #[cfg(feature = "sim")]
        if crate::sim::now().is_some() {
            // It would run threads beside the simulation, in an order of its own.
            return;
        }
        let _guard = self.adding();
        if self.made() <= self.regular() {
            let _refused = self.add_worker_with(None);
        }
    }

    fn add_worker_with(&'static self, io: Option<Io>) -> io::Result<&'static Worker> {
        let index = self.made();
        if index == WORKERS_MAX {
            return Err(crate::error::exhausted("workers", WORKERS_MAX as u64));
        }
        let all_are_full = self.config.full_threads;
        let make = move || Worker::new(self, index as u32, Reactor::new(io, all_are_full)?);
        let worker = self.start_kernel_thread(index, make)?;
        self.publish(worker);
        Ok(worker)
    }

    /// Gives an empty seat a kernel thread. The seat is empty until there is one: making it may
    /// take long, and nobody must rely on the worker meanwhile. Fails as well if whoever was about
    /// to leave has stayed.
    pub fn fill(&'static self, worker: &'static Worker) -> io::Result<()> {
        let _guard = self.adding();
        let index = worker.index as usize;
        self.count_in(index);
        let sit = move || match worker.seat.take() {
            true => Ok(worker),
            false => Err(io::ErrorKind::AlreadyExists.into()),
        };
        self.start_kernel_thread(index, sit).map(drop)
    }

    /// Starts a kernel thread that makes, or has, a worker, and waits until it has it.
    fn start_kernel_thread(
        &'static self,
        index: usize,
        make: impl FnOnce() -> io::Result<&'static Worker> + Send + 'static,
    ) -> io::Result<&'static Worker> {
        let (giver, taker) = handed::pair();
        let body = move || {
            let signal_stack = match task::AlternateStack::new(ALTERNATE_STACK_BYTES) {
                Ok(stack) => stack,
                Err(error) => return giver.give(Err(error)),
            };
            match make() {
                Ok(worker) => {
                    task::open_for_worker();
                    worker.sit_down();
                    sched::become_worker(worker);
                    giver.give(Ok(worker));
                    worker.run();
                    sched::leave_worker();
                }
                Err(error) => giver.give(Err(error)),
            }
            drop(signal_stack);
        };
        let name = format!("heddle-{index}");
        let start = || task::start(&name, kernel_thread::STACK_BYTES, body);
        self.steward.making(start).map_err(|error| {
            let text = format!("worker {index}'s kernel thread (RLIMIT_NPROC, RLIMIT_AS): {error}");
            io::Error::new(error.kind(), text)
        })?;
        taker.take().ok_or_else(|| io::Error::other("it ended as it began"))?.map_err(|error| {
            let limit = match error.raw_os_error() {
                Some(libc::ENOMEM) => " (memory, RLIMIT_AS, RLIMIT_MEMLOCK)",
                Some(libc::EMFILE) => " (RLIMIT_NOFILE)",
                _ => "",
            };
            io::Error::new(error.kind(), format!("worker {index}{limit}: {error}"))
        })
    }
}
