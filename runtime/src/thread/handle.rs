//! Handles: `JoinHandle` (one per thread, owns the result) and `Thread` (any number, names it).

use core::fmt;
use core::marker::PhantomData;
use core::ptr;
use core::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use heddle_record::{Category, Class, Group};

use super::join::{self, join_until};
use super::{Result, packet};
use crate::control::{CANCEL_ASKED, Control, Outcome};
use crate::sched;
use crate::sys::clock;

/// Names a thread; std's `Thread`.
///
/// It keeps the thread's control block (not its stack's content) from being reused.
pub struct Thread(&'static Control);

// SAFETY: the methods use atomics of the control block only.
unsafe impl Send for Thread {}
// SAFETY: as above.
unsafe impl Sync for Thread {}

impl Clone for Thread {
    fn clone(&self) -> Self {
        Thread::of(self.0)
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        sched::release(self.0);
    }
}

impl fmt::Debug for Thread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Thread").field("id", &self.id()).finish_non_exhaustive()
    }
}

/// The calling thread.
pub fn current() -> Thread {
    Thread::of(sched::current())
}

/// Identifies a thread for the life of the process: slot and generation, as the record has them.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ThreadId(u64);

impl ThreadId {
    /// The number: the slot in the low half, the generation in the high half.
    pub fn as_u64(self) -> u64 {
        self.0
    }
}

impl fmt::Debug for ThreadId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ThreadId({}.{})", self.0 as u32, self.0 >> 32)
    }
}

impl Thread {
    /// A new handle to `control`, which somebody holds a reference to.
    pub(crate) fn of(control: &'static Control) -> Self {
        control.references.fetch_add(1, Relaxed);
        Thread(control)
    }

    /// The handle that takes over a reference which the caller owns.
    ///
    /// # Safety
    /// 1. The caller owns one reference to `control` and gives it up.
    pub(crate) unsafe fn adopt(control: &'static Control) -> Self {
        Thread(control)
    }

    /// The control block; valid as long as the handle.
    pub(crate) fn control(&self) -> &'static Control {
        self.0
    }

    /// Makes the thread time-critical (`Some`, 1 to 99) or lazy (`None`).
    ///
    /// # Errors
    /// `InvalidInput` for a priority out of range.
    pub fn set_priority(&self, priority: Option<u8>) -> std::io::Result<()> {
        if priority.is_some_and(|p| !(1..=99).contains(&p)) {
            let text = format!("priority {}: must be 1 to 99", priority.unwrap_or(0));
            return Err(std::io::Error::new(std::io::ErrorKind::InvalidInput, text));
        }
        let priority = priority.unwrap_or(0);
        crate::sync::raw_mutex::set_base_priority(self.0, priority);
        let record = self.0.record();
        record.set_priority(priority);
        record.set_class(if priority == 0 { Class::Lazy } else { Class::TimeCritical });
        Ok(())
    }

    /// Moves the thread to another scheduling group.
    pub fn set_group(&self, group: Group) {
        self.0.group.store(group as u8, Relaxed);
        self.0.record().set_group(group);
    }

    /// Says what the thread is for.
    pub fn set_role(&self, role: &str) {
        self.0.record().set_role(crate::table::intern_role(role));
    }

    /// Names the thread.
    pub fn set_name(&self, name: &str) {
        self.0.record().set_name(crate::table::intern(name));
    }

    /// Says what the thread does in a GUI.
    pub fn set_category(&self, category: Category) {
        self.0.record().set_category(category);
    }

    /// What the thread's record says now.
    pub fn record(&self) -> Option<heddle_record::Fields> {
        self.0.record().read()
    }

    /// Ends the thread's `park`, or the next one if it is not parked.
    pub fn unpark(&self) {
        super::unpark(self.0);
    }

    /// The thread's id.
    pub fn id(&self) -> ThreadId {
        let generation = self.0.record().generation();
        ThreadId(u64::from(generation) << 32 | u64::from(self.0.slot()))
    }

    /// The thread's name, if it was given one.
    pub fn name(&self) -> Option<String> {
        crate::table::text(self.0.record().read()?.name)
    }

    /// The thread's role, if it was given one.
    pub fn role(&self) -> Option<String> {
        crate::table::role_name(self.0.record().read()?.role)
    }

    /// Asks the thread to end: the blocking call it is in, or the next one, fails with an error
    /// for which [`crate::is_cancelled`] is true; `sleep` and `park` return early.
    pub fn cancel(&self) {
        sched::cancel(self.0);
    }

    /// Whether [`Thread::cancel`] was called.
    pub fn is_cancel_asked(&self) -> bool {
        self.0.cancel.load(Relaxed) & CANCEL_ASKED != 0
    }

    /// The deepest use of the thread's stack so far, in bytes, exact to the byte if the stack was
    /// never used before it; `None` for kernel threads and where the kernel can't tell.
    ///
    /// Costs a system call and a scan of one page.
    pub fn stack_peak_bytes(&self) -> Option<usize> {
        crate::stack::peak::of(self.0)
    }
}

/// How the handle reaches the thread's end and result.
pub(crate) enum Inner<T> {
    /// A user-level thread.
    User {
        thread: Thread,
        result: *mut Result<T>,
        take: unsafe fn(*mut Result<T>) -> Result<T>,
        detach: unsafe fn(&'static Control, *mut Result<T>),
    },
    /// The native backend.
    Native { handle: Option<std::thread::JoinHandle<T>>, thread: Thread },
}

/// Owns the permission to join a thread; std's `JoinHandle`. Dropping it detaches the thread.
pub struct JoinHandle<T> {
    inner: Inner<T>,
    marker: PhantomData<T>,
}

// SAFETY: the result is sent to whoever joins: `T: Send` is asked for by `spawn`.
unsafe impl<T> Send for JoinHandle<T> {}
// SAFETY: `&JoinHandle` gives no access to the result.
unsafe impl<T> Sync for JoinHandle<T> {}

impl<T> fmt::Debug for JoinHandle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JoinHandle").field("thread", self.thread()).finish_non_exhaustive()
    }
}

impl<T> JoinHandle<T> {
    /// The handle of a user-level thread; takes over one reference to it.
    pub(crate) fn user<F>(control: &'static Control, result: *mut Result<T>) -> Self {
        JoinHandle {
            inner: Inner::User {
                thread: Thread(control),
                result,
                take: packet::take_result::<F, T>,
                detach: packet::detach::<F, T>,
            },
            marker: PhantomData,
        }
    }

    /// The handle of a native backend's thread.
    pub(crate) fn native(handle: std::thread::JoinHandle<T>, thread: Thread) -> Self {
        JoinHandle { inner: Inner::Native { handle: Some(handle), thread }, marker: PhantomData }
    }

    /// The thread.
    pub fn thread(&self) -> &Thread {
        match &self.inner {
            Inner::User { thread, .. } | Inner::Native { thread, .. } => thread,
        }
    }

    /// Whether the thread has ended.
    pub fn is_finished(&self) -> bool {
        match &self.inner {
            Inner::User { thread, .. } => join::is_done(thread.0),
            Inner::Native { handle, .. } => handle.as_ref().is_none_or(|h| h.is_finished()),
        }
    }

    /// Waits for the thread's end; its result, or what it panicked with.
    pub fn join(mut self) -> Result<T> {
        match &mut self.inner {
            Inner::User { thread, .. } => {
                let woken = join_until(thread.0, 0);
                debug_assert_eq!(woken, Outcome::Woken);
            }
            Inner::Native { handle, .. } => {
                if let Some(handle) = handle.take() {
                    return handle.join();
                }
            }
        }
        self.take()
    }

    /// As [`JoinHandle::join`], at most for `timeout`; the handle comes back when it passes.
    pub fn join_timeout(self, timeout: Duration) -> core::result::Result<Result<T>, Self> {
        let deadline = clock::deadline_after(timeout);
        if let Inner::User { thread, .. } = &self.inner {
            return match join_until(thread.0, deadline) {
                Outcome::Woken => Ok(self.take()),
                _ => Err(self),
            };
        }
        while !self.is_finished() {
            if clock::now_ns() >= deadline {
                return Err(self);
            }
            std::thread::sleep(Duration::from_micros(200));
        }
        Ok(self.join())
    }

    /// The result of a thread that has ended.
    fn take(self) -> Result<T> {
        let this = core::mem::ManuallyDrop::new(self);
        // SAFETY: `this` is never used or dropped again.
        match unsafe { ptr::read(&this.inner) } {
            // SAFETY: the thread has handed the result over; the handle is consumed.
            Inner::User { result, take, thread, .. } => {
                // SAFETY: as above. `thread` keeps the stack, and so the result, until after it.
                let value = unsafe { take(result) };
                drop(thread);
                value
            }
            Inner::Native { .. } => unreachable!("joined above"),
        }
    }
}

impl<T> Drop for JoinHandle<T> {
    fn drop(&mut self) {
        if let Inner::User { thread, result, detach, .. } = &self.inner {
            // SAFETY: the result was not taken (`take` forgets the handle).
            unsafe { detach(thread.0, *result) };
        }
    }
}
