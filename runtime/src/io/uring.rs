//! The io_uring reactor: single issuer, deferred task work, completions read from shared memory.
//!
//! Submissions collect until the worker looks around or sleeps, so one system call serves many
//! threads. With deferred task work the kernel completes nothing behind the worker's back; the
//! `TASKRUN` flag in the ring says, without a system call, that it has something to complete.
//!
//! Invariants:
//! 1. Only the worker's kernel thread touches the ring (the kernel insists: single issuer).
//! 2. `user_data` is a control block's address (64-byte aligned), or one of the small tags below.
//! 3. Each entry pushed for a thread completes exactly once and makes it ready exactly once.

use core::cell::{Cell, UnsafeCell};
use core::sync::atomic::Ordering::Relaxed;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, IntoRawFd, RawFd};
use std::sync::OnceLock;

use io_uring::{IoUring, Parameters, opcode, squeue, types};
use rustix::io_uring::{IoringSetupFlags, io_uring_params, io_uring_setup};

use crate::control::{Control, Outcome, WaitKind};
use crate::sched;
use crate::sys::descriptor;
use crate::sys::event::Event;
use crate::worker::Worker;

/// Submissions that collect before the kernel has to be asked.
const SUBMISSIONS: u32 = 1024;
/// Completions that fit without the kernel's overflow list.
const COMPLETIONS: u32 = 16 * 1024;
/// `user_data` of the eventfd's poll.
const TAG_EVENT: u64 = 1;
/// `user_data` of cancellations, whose own result nobody needs.
const TAG_IGNORE: u64 = 2;
/// `user_data` of the poll of the full threads' epoll set.
const TAG_NESTED: u64 = 3;
/// Rounds of submitting after which a full ring is given up.
const SUBMITS_MAX: u32 = 1000;
/// Longest sleep while nothing can end it.
const SLEEP_NS_UNARMED: u64 = 10_000_000;
/// `IORING_ENTER_GETEVENTS`: run deferred task work.
const ENTER_GETEVENTS: u32 = 1;

/// See the file's head.
pub(crate) struct Uring {
    ring: UnsafeCell<IoUring>,
    /// Ends the worker's sleep.
    pub event: Event,
    in_flight: Cell<u64>,
    /// The eventfd's poll is in the ring.
    event_armed: Cell<bool>,
    /// The full threads' epoll set, if there is one.
    watched: Cell<RawFd>,
}

impl Drop for Uring {
    fn drop(&mut self) {
        descriptor::unmark(self.ring.get_mut().as_raw_fd());
    }
}

impl Uring {
    /// Sets a ring up for the calling kernel thread.
    pub fn new() -> io::Result<Box<Self>> {
        let ring = make()?;
        let event = Event::new()?;
        descriptor::mark(ring.as_raw_fd());
        let this = Box::new(Uring {
            ring: UnsafeCell::new(ring),
            event,
            in_flight: Cell::new(0),
            event_armed: Cell::new(false),
            watched: Cell::new(-1),
        });
        this.arm_event();
        Ok(this)
    }

    /// The ring; by invariant 1 nobody else uses it, and no borrow outlives a method here.
    #[allow(clippy::mut_from_ref)]
    fn ring(&self) -> &mut IoUring {
        // SAFETY: see above; completions are copied out before any method is called again.
        unsafe { &mut *self.ring.get() }
    }

    /// Operations that have not completed.
    pub fn in_flight(&self) -> u64 {
        self.in_flight.get()
    }

    /// Queues an operation whose completion makes `thread` ready.
    ///
    /// # Errors
    /// When the kernel takes nothing from a full ring (it is out of memory).
    #[inline]
    pub fn push_for(&self, thread: &'static Control, entry: squeue::Entry) -> io::Result<()> {
        self.push(&entry.user_data(core::ptr::from_ref(thread) as u64))?;
        self.in_flight.set(self.in_flight.get() + 1);
        Ok(())
    }

    #[inline]
    fn push(&self, entry: &squeue::Entry) -> io::Result<()> {
        // SAFETY: the caller parks until the completion, so what the entry points to stays valid.
        match unsafe { self.ring().submission().push(entry) } {
            Ok(()) => Ok(()),
            Err(_full) => self.push_full(entry),
        }
    }

    #[cold]
    fn push_full(&self, entry: &squeue::Entry) -> io::Result<()> {
        for _ in 0..SUBMITS_MAX {
            let submitted = self.ring().submit();
            // SAFETY: as in `push`.
            if unsafe { self.ring().submission().push(entry) }.is_ok() {
                return Ok(());
            }
            match sched::worker() {
                // The kernel may want its completions taken before it goes on.
                Some(worker) => self.poll(worker),
                None => submitted.map(drop)?,
            }
        }
        Err(crate::error::exhausted("submission queue entries", u64::from(SUBMISSIONS)))
    }

    fn push_cancel(&self, user_data: u64) {
        let entry = opcode::AsyncCancel::new(user_data).build();
        // Refused only when the kernel is out of memory: the operation then ends by itself.
        let _ = self.push(&entry.user_data(TAG_IGNORE));
    }

    fn arm_event(&self) {
        let entry = opcode::PollAdd::new(types::Fd(self.event.raw()), libc::POLLIN as u32)
            .multi(true)
            .build();
        self.event_armed.set(self.push(&entry.user_data(TAG_EVENT)).is_ok());
    }

    /// From now on events of the epoll set `set`, the worker's own, end its sleep.
    pub fn watch(&self, set: RawFd) -> io::Result<()> {
        let entry = opcode::PollAdd::new(types::Fd(set), libc::POLLIN as u32).multi(true).build();
        self.push(&entry.user_data(TAG_NESTED))?;
        self.watched.set(set);
        Ok(())
    }

    /// Submits what has collected and takes completions in, without sleeping.
    #[inline]
    pub fn poll(&self, worker: &'static Worker) {
        let ring = self.ring();
        let submission = ring.submission();
        let waiting = submission.len();
        let work = submission.taskrun() || submission.cq_overflow();
        drop(submission);
        if waiting != 0 || work {
            // SAFETY: no argument besides numbers. A failure (EBUSY, EINTR) is retried at the
            // next look: the entries stay queued.
            let _ = unsafe {
                ring.submitter().enter::<libc::sigset_t>(waiting as u32, 0, ENTER_GETEVENTS, None)
            };
        }
        self.reap(worker);
    }

    /// Submits what has collected and sleeps until a completion or for `ns`.
    pub fn wait(&self, worker: &'static Worker, mut ns: Option<u64>) {
        if !self.event_armed.get() {
            // The kernel was out of memory: nobody could end a long sleep.
            self.arm_event();
            ns = Some(ns.unwrap_or(u64::MAX).min(SLEEP_NS_UNARMED));
        }
        let ring = self.ring();
        let _ = match ns {
            None => ring.submit_and_wait(1),
            Some(ns) => {
                let time = types::Timespec::new()
                    .sec(ns / 1_000_000_000)
                    .nsec((ns % 1_000_000_000) as u32);
                ring.submitter().submit_with_args(1, &types::SubmitArgs::new().timespec(&time))
            }
        };
        self.reap(worker);
    }

    fn reap(&self, worker: &'static Worker) {
        loop {
            let Some(completion) = self.ring().completion().next() else { return };
            match completion.user_data() {
                // Not made unreadable: a poll that goes on tells of each signal once.
                TAG_EVENT => {
                    if !io_uring::cqueue::more(completion.flags()) {
                        self.event.clear();
                        self.arm_event();
                    }
                }
                TAG_NESTED => {
                    if !io_uring::cqueue::more(completion.flags()) {
                        // Refused only when the kernel is out of memory; looks find the events.
                        let _ = self.watch(self.watched.get());
                    }
                    worker.nested_is_ready();
                }
                TAG_IGNORE => {}
                address => {
                    // SAFETY: invariant 2: a control block that waits for this completion.
                    let thread = unsafe { &*(address as *const Control) };
                    self.in_flight.set(self.in_flight.get() - 1);
                    complete(worker, thread, completion.result());
                }
            }
        }
    }

    /// Asks the kernel to cancel the operation of `thread`; it completes soon in any case.
    pub fn cancel(&self, _worker: &Worker, thread: &'static Control, outcome: Outcome) {
        thread.outcome.set(outcome);
        self.push_cancel(core::ptr::from_ref(thread) as u64);
    }
}

/// What the kernel gave the first ring; it gives the others the same.
static FIRST: OnceLock<Parameters> = OnceLock::new();

/// A ring with its descriptor where it should be. It is at its low number for no longer than it
/// takes to move it: its memory is mapped after that.
fn make() -> io::Result<IoUring> {
    let Some(first) = FIRST.get() else { return make_first() };
    let mut params = io_uring_params::default();
    params.flags = IoringSetupFlags::SINGLE_ISSUER
        | IoringSetupFlags::DEFER_TASKRUN
        | IoringSetupFlags::TASKRUN_FLAG
        | IoringSetupFlags::CQSIZE;
    params.cq_entries = COMPLETIONS;
    // SAFETY: nothing is passed but the parameters.
    let fd = descriptor::raised(|| unsafe { io_uring_setup(SUBMISSIONS, &mut params) })
        .map_err(|error| refused(error.into()))?;
    debug_assert_eq!(
        (params.sq_entries, params.cq_entries),
        (first.sq_entries(), first.cq_entries())
    );
    // SAFETY: a ring's, which has been asked for with the same sizes and flags as the first.
    unsafe { IoUring::from_fd(fd.into_raw_fd(), first.clone()) }
}

fn make_first() -> io::Result<IoUring> {
    let ring = descriptor::low(|| {
        let ring = IoUring::builder()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .setup_taskrun_flag()
            .setup_cqsize(COMPLETIONS)
            .build(SUBMISSIONS)
            .map_err(refused)?;
        at_its_place(ring)
    })?;
    if !ring.params().is_feature_ext_arg() {
        return Err(io::ErrorKind::Unsupported.into());
    }
    let _ = FIRST.set(ring.params().clone());
    Ok(ring)
}

fn refused(error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("io_uring_setup: {error}"))
}

/// The ring, which nobody has used, with its descriptor where it should be.
fn at_its_place(ring: IoUring) -> io::Result<IoUring> {
    // SAFETY: the ring's own, which is open as long as the ring is.
    let own = unsafe { BorrowedFd::borrow_raw(ring.as_raw_fd()) };
    let Some(copy) = descriptor::copy_above(own) else { return Ok(ring) };
    let params = ring.params().clone();
    // Its memory, too, which is mapped again.
    drop(ring);
    // SAFETY: a ring's, whose parameters these are.
    unsafe { IoUring::from_fd(copy.into_raw_fd(), params) }
}

fn complete(worker: &'static Worker, thread: &'static Control, result: i32) {
    if result != -libc::ECANCELED {
        // It was faster than its cancellation.
        thread.outcome.set(Outcome::Woken);
    }
    thread.result.store(result, Relaxed);
    // A deadline that passes before the thread runs finds nothing to end.
    thread.wait.set(WaitKind::None);
    worker.ready_local(thread);
}

/// One-shot readiness.
pub(super) fn poll_entry(fd: RawFd, flags: i16) -> squeue::Entry {
    opcode::PollAdd::new(types::Fd(fd), flags as u16 as u32).build()
}

/// Receive into a buffer that lives until the completion.
pub(super) fn receive_entry(fd: RawFd, buffer: &mut [u8], flags: i32) -> squeue::Entry {
    let length = buffer.len().min(i32::MAX as usize) as u32;
    opcode::Recv::new(types::Fd(fd), buffer.as_mut_ptr(), length).flags(flags).build()
}
