//! The epoll reactor: one-shot readiness, for kernels without io_uring and for comparison.
//!
//! Each wait arms its descriptor anew (`EPOLLONESHOT`): one more system call than edge-triggered
//! registration, but right for descriptors that the program closes and reopens behind our back.
//! A wait may end although nothing has happened (the event was of a closed descriptor's file
//! that lives on elsewhere): callers try again.
//!
//! Full threads wait here on workers with a ring too: the worker's ring then watches this set.
//! Anybody may take events in ([`Epoll::poll_for`]) while the worker is blocked in the kernel.
//!
//! Invariants:
//! 1. A thread is linked in the list of its descriptor (`heads[fd]`, through `next` and `prev` of
//!    its control block) exactly while it waits here; `result` says which descriptor and which
//!    interest. So arming and removing cost the same however many threads wait, and nothing is
//!    allocated per wait. One that waits for several has a node in the list of each (`several.rs`).
//!    All of it, and the wait of a thread that is linked, under `lock`.
//! 2. The lock's holder allocates nothing (see `offered.rs`).
//! 3. The event that ends the worker's sleep is cleared by the worker alone: who has sent it relies
//!    on that, and sends no other one.

use core::cell::UnsafeCell;
use core::mem::MaybeUninit;
use core::ptr;
use core::sync::atomic::AtomicUsize;
use core::sync::atomic::Ordering::Relaxed;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};

use rustix::event::epoll::{self, EventData, EventFlags};

use super::reactor::Interest;
use super::several::{List, Node, Several};
use crate::control::{Control, WaitKind};
use crate::raw_lock::RawLock;
use crate::runtime;
use crate::sys::descriptor::{Own, raised};
use crate::sys::epoll as sys;
use crate::sys::event::Event;
use crate::worker::Worker;

/// Events that one system call takes in.
const EVENTS: usize = 256;
/// Descriptors that there is room for at first.
const ROOM_MIN: usize = 256;
/// `EventData` of the eventfd; descriptors are not negative, so no descriptor collides.
const EVENT: u64 = u64::MAX;
/// `Control::result` holds the descriptor and, in bit 0, the interest; so descriptors end here.
const FD_MAX: RawFd = i32::MAX >> 1;
/// `Control::result` of a thread that was taken out.
const NOT_LINKED: i32 = -1;
/// `Control::result` of one that waits for several descriptors.
const SEVERAL: i32 = -2;
/// So many descriptors of one thread are armed before the lock is given to others.
const ARMED_AT_ONCE: usize = 16;
/// What ends a wait whatever it is for.
const ALWAYS: EventFlags = EventFlags::ERR.union(EventFlags::HUP);

/// See the file's head.
pub(crate) struct Epoll {
    set: Own,
    /// Ends the worker's sleep.
    pub event: Event,
    waiting: AtomicUsize,
    lock: RawLock,
    /// Who waits for each descriptor, by its number.
    heads: UnsafeCell<Vec<Head>>,
}

// SAFETY: `heads` is touched only under `lock`.
unsafe impl Sync for Epoll {}

/// Who waits for a descriptor.
#[derive(Clone, Copy)]
struct Head {
    /// The first that waits for it alone.
    alone: *const Control,
    several: List,
    /// Whether it was armed since it was taken out of the set.
    is_armed: bool,
}

impl Head {
    const EMPTY: Head = Head { alone: ptr::null(), several: List::EMPTY, is_armed: false };

    fn is_empty(self) -> bool {
        self.alone.is_null() && self.several.is_empty()
    }

    /// The threads with what they wait for.
    fn waits(self) -> impl Iterator<Item = (&'static Control, EventFlags)> {
        let alone = list(self.alone).map(|waiter| (waiter, events_of(waiter)));
        alone.chain(self.several.nodes().map(|node| (node.thread, node.events)))
    }
}

/// A thread that waits here, for the check of lost events.
#[derive(Clone, Copy)]
pub(crate) struct Waiter {
    pub thread: &'static Control,
    pub fd: RawFd,
    /// What it waits for, as `poll` knows it.
    pub events: i16,
    /// Its activations: another number, another wait.
    pub switches: u32,
}

impl Epoll {
    /// Makes the set.
    pub fn new() -> io::Result<Self> {
        let set = Own::new(raised(|| epoll::create(epoll::CreateFlags::CLOEXEC))?);
        let event = Event::new()?;
        epoll::add(&set, event.as_fd(), EventData::new_u64(EVENT), EventFlags::IN)?;
        Ok(Epoll {
            set,
            event,
            waiting: AtomicUsize::new(0),
            lock: RawLock::new(),
            heads: UnsafeCell::new(Vec::new()),
        })
    }

    /// Threads that wait here.
    pub fn waiting(&self) -> u64 {
        self.waiting.load(Relaxed) as u64
    }

    /// Who waits here, for each descriptor; some may be missing that came meanwhile.
    pub fn waiters(&self) -> Vec<Waiter> {
        let count = self.with(|heads| heads.iter().flat_map(|head| head.waits()).count());
        let mut waiters = Vec::with_capacity(count);
        self.with(|heads| {
            for (fd, head) in heads.iter().enumerate() {
                for (thread, events) in head.waits() {
                    if waiters.len() == waiters.capacity() {
                        return;
                    }
                    let (fd, events) = (fd as RawFd, events.bits() as i16);
                    waiters.push(Waiter { thread, fd, events, switches: thread.switches.get() });
                }
            }
        });
        waiters
    }

    /// Readable while there are events to take in.
    pub fn raw(&self) -> RawFd {
        self.set.as_raw_fd()
    }

    /// As [`Epoll::raw`].
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.set.as_fd()
    }

    fn with<T>(&self, change: impl FnOnce(&mut Vec<Head>) -> T) -> T {
        let _guard = self.lock.lock();
        // SAFETY: the lock is held, and no closure here calls another method that takes it.
        change(unsafe { &mut *self.heads.get() })
    }

    /// Sees to it that `heads` has a place for `fd`.
    fn make_room(&self, fd: RawFd) -> io::Result<()> {
        let index = fd as usize;
        let length = self.with(|heads| heads.len());
        if index < length {
            return Ok(());
        }
        let mut room: Vec<Head> = Vec::new();
        room.try_reserve_exact((index + 1).next_power_of_two().max(ROOM_MIN))?;
        self.with(|heads| {
            if heads.len() < room.capacity() {
                room.extend_from_slice(heads);
                room.resize(room.capacity(), Head::EMPTY);
                core::mem::swap(heads, &mut room);
            }
        });
        Ok(())
    }

    /// Arms `fd` for `thread`, which parks next, if it `is_meant` when [`Epoll::end_waits`] would
    /// find the thread.
    pub fn add(
        &self,
        thread: &'static Control,
        fd: RawFd,
        interest: Interest,
        is_meant: impl Fn() -> bool,
    ) -> io::Result<()> {
        if !(0..=FD_MAX).contains(&fd) {
            return Err(rustix::io::Errno::BADF.into());
        }
        self.make_room(fd)?;
        self.with(|heads| {
            thread.result.store(fd << 1 | i32::from(interest == Interest::Write), Relaxed);
            let after = heads[fd as usize].alone;
            thread.prev.set(ptr::null());
            thread.next.set(after);
            // SAFETY: null or a slot of the slab that is linked in this list.
            if let Some(after) = unsafe { after.as_ref() } {
                after.prev.set(thread);
            }
            heads[fd as usize].alone = thread;
            self.waiting.fetch_add(1, Relaxed);
            let armed = match is_meant() {
                true => self.arm(fd, &mut heads[fd as usize]),
                false => Err(rustix::io::Errno::BADF.into()),
            };
            if armed.is_err() {
                self.unlink(heads, thread);
            }
            armed
        })
    }

    /// Arms all that `wait` is for; its thread, a full one, parks next, and leaves `wait` where it
    /// is until it goes on. A file that is always ready is waited for in vain, as `poll` does it
    /// that has not been asked for reading or writing. `are_meant`: as in [`Epoll::add`].
    pub fn add_several(&self, wait: &Several, are_meant: impl Fn() -> bool) -> io::Result<()> {
        let last = wait.nodes.iter().map(|node| node.fd).max().unwrap_or(-1);
        if !(0..=FD_MAX).contains(&last) {
            return Err(rustix::io::Errno::BADF.into());
        }
        self.make_room(last)?;
        self.with(|_| {
            wait.begin();
            wait.thread.result.store(SEVERAL, Relaxed);
            self.waiting.fetch_add(1, Relaxed);
        });
        for part in wait.nodes.chunks(ARMED_AT_ONCE) {
            self.with(|heads| match wait.thread.result.load(Relaxed) {
                SEVERAL => self.arm_part(heads, wait, part),
                // What is armed has happened by now, and the thread is ready.
                _ => Ok(()),
            })?;
        }
        self.with(|heads| match wait.thread.result.load(Relaxed) {
            SEVERAL if !are_meant() => {
                self.unlink(heads, wait.thread);
                Err(rustix::io::Errno::BADF.into())
            }
            _ => Ok(()),
        })
    }

    /// Arms the next nodes of `wait`; if that fails the wait has ended.
    fn arm_part(&self, heads: &mut [Head], wait: &Several, part: &[Node]) -> io::Result<()> {
        for node in part {
            let head = &mut heads[node.fd as usize];
            wait.link(node, &mut head.several);
            match self.arm(node.fd, head) {
                Err(error) if error.raw_os_error() != Some(libc::EPERM) => {
                    self.unlink(heads, wait.thread);
                    return Err(error);
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Arms `fd` for all threads of its list.
    fn arm(&self, fd: RawFd, head: &mut Head) -> io::Result<()> {
        head.is_armed = true;
        let flags = head.waits().fold(EventFlags::ONESHOT, |flags, (_, events)| flags | events);
        // SAFETY: not negative; if it is not open, the kernel says so.
        let borrowed = unsafe { BorrowedFd::borrow_raw(fd) };
        let data = EventData::new_u64(fd as u64);
        match epoll::modify(&self.set, borrowed, data, flags) {
            Err(rustix::io::Errno::NOENT) => Ok(epoll::add(&self.set, borrowed, data, flags)?),
            other => Ok(other?),
        }
    }

    /// Takes out a thread that is linked.
    fn unlink(&self, heads: &mut [Head], thread: &Control) {
        self.waiting.fetch_sub(1, Relaxed);
        let linked = thread.result.swap(NOT_LINKED, Relaxed);
        if linked == SEVERAL {
            // SAFETY: as `result` says, under the lock.
            let wait = unsafe { Several::of(thread) };
            wait.unlink_all(heads, |head| &mut head.several);
            return;
        }
        let (prev, next) = (thread.prev.get(), thread.next.get());
        // SAFETY: null or slots of the slab that are linked in this list.
        match unsafe { prev.as_ref() } {
            Some(prev) => prev.next.set(next),
            None => heads[(linked >> 1) as usize].alone = next,
        }
        // SAFETY: as above.
        if let Some(next) = unsafe { next.as_ref() } {
            next.prev.set(prev);
        }
    }

    /// Takes `thread` out, which waits here; false if it was made ready.
    ///
    /// Its descriptor may stay armed: the event then finds nobody, or a later waiter, who tries
    /// in vain and waits again.
    pub fn remove(&self, thread: &'static Control) -> bool {
        self.with(|heads| {
            let linked = thread.result.load(Relaxed) != NOT_LINKED;
            if linked {
                self.unlink(heads, thread);
            }
            linked
        })
    }

    /// Ends all waits for `fd`, which is about to be closed, here; called by anybody for `worker`,
    /// which this set belongs to. What is armed, be it for nobody any more, is taken out: a file
    /// that has other descriptors goes on telling this set of its events, and the kernel, which
    /// holds the file while it looks at one, gives it back when the worker's sleep ends. So the
    /// last to close it might not be the one who ends the connection, nor anybody soon.
    pub fn end_waits(&self, worker: &'static Worker, fd: RawFd) {
        self.with(|heads| {
            let head = usize::try_from(fd).ok().and_then(|index| heads.get_mut(index));
            let Some(head) = head else { return };
            let was_armed = core::mem::take(&mut head.is_armed);
            if !head.is_empty() {
                self.wake(heads, worker, fd, ALWAYS);
            }
            if was_armed {
                // SAFETY: not negative; if it is not open, the kernel says so.
                let borrowed = unsafe { BorrowedFd::borrow_raw(fd) };
                // Of another file at the number, or none, the set knows nothing.
                let _ = epoll::delete(&self.set, borrowed);
            }
        });
    }

    /// Takes all events in, without sleeping; called by `worker`, which this set belongs to. A ring
    /// that watches the set tells of each event once, so none may be left here when it sleeps.
    pub fn poll(&self, worker: &'static Worker) {
        while self.waiting() != 0 && self.wait(worker, Some(0)) == EVENTS {}
    }

    /// As [`Epoll::poll`], called by others for `worker`.
    pub fn poll_for(&self, worker: &'static Worker) {
        if self.waiting() != 0 {
            // What is to end the worker's sleep is left to it: it may be about to sleep.
            self.take_in(worker, Some(0), || {});
        }
    }

    /// Sleeps until an event or for `ns`; called by `worker`, which this set belongs to. How many
    /// events there were; at [`EVENTS`] there may be more.
    pub fn wait(&self, worker: &'static Worker, ns: Option<u64>) -> usize {
        self.take_in(worker, ns, || self.event.clear())
    }

    fn take_in(&self, worker: &'static Worker, ns: Option<u64>, wake: impl Fn()) -> usize {
        let mut room = [const { MaybeUninit::uninit() }; EVENTS];
        let events = sys::wait(self.set.as_fd(), &mut room, ns);
        for event in events {
            match event.u64 {
                EVENT => wake(),
                fd => {
                    let flags = EventFlags::from_bits_retain(event.events);
                    self.deliver(worker, fd as RawFd, flags);
                }
            }
        }
        events.len()
    }

    /// Makes the threads ready that waited for what has happened; arms for the others again.
    fn deliver(&self, worker: &'static Worker, fd: RawFd, flags: EventFlags) {
        self.with(|heads| {
            self.wake(heads, worker, fd, flags);
            let rest = &mut heads[fd as usize];
            if !rest.is_empty() && self.arm(fd, rest).is_err() {
                // The descriptor is gone: whoever still waits finds out by trying.
                self.wake(heads, worker, fd, ALWAYS);
            }
        });
    }

    /// Makes the threads ready that wait for something of `flags` to happen to `fd`.
    fn wake(&self, heads: &mut [Head], worker: &'static Worker, fd: RawFd, flags: EventFlags) {
        let Head { alone, several, .. } = heads[fd as usize];
        let mut end = |waiter: &'static Control| {
            self.unlink(heads, waiter);
            // A deadline that passes before the thread runs finds nothing to end.
            waiter.wait.set(WaitKind::None);
            worker.ready_from_io(waiter);
        };
        for waiter in list(alone) {
            if flags.intersects(events_of(waiter) | ALWAYS) {
                end(waiter);
            }
        }
        several.end_each(|node| flags.intersects(node.events | ALWAYS), end);
    }
}

/// Ends all waits of full threads for `fd`, which is about to be closed, as if something had
/// happened to it. Called by anybody who is not pinned.
pub fn end_waits(fd: RawFd) {
    let Some(runtime) = runtime::get() else { return };
    for worker in runtime.workers() {
        if let Some(epoll) = worker.made_readiness() {
            epoll.end_waits(worker, fd);
        }
    }
}

/// What a thread waits for that waits for one descriptor.
fn events_of(thread: &Control) -> EventFlags {
    if thread.result.load(Relaxed) & 1 == 0 {
        EventFlags::IN | EventFlags::RDHUP
    } else {
        EventFlags::OUT
    }
}

/// The threads of a list from `first` on; the one that was returned last may be unlinked.
fn list(first: *const Control) -> impl Iterator<Item = &'static Control> {
    let mut each = first;
    core::iter::from_fn(move || {
        // SAFETY: null or a slot of the slab that is linked in this list.
        let thread = unsafe { each.as_ref() }?;
        each = thread.next.get();
        Some(thread)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One write makes more descriptors ready than one call takes in. What is left then nobody
    /// would tell the worker of.
    #[test]
    fn a_poll_leaves_no_event() {
        let epoll = Epoll::new().unwrap();
        let (one, other) = std::os::unix::net::UnixStream::pair().unwrap();
        let same: Vec<_> = (0..=2 * EVENTS).map(|_| one.try_clone().unwrap()).collect();
        for descriptor in &same {
            let fd = descriptor.as_raw_fd();
            epoll.make_room(fd).unwrap();
            epoll.arm_unheard(fd).unwrap();
        }
        drop(other);
        epoll.waiting.store(1, Relaxed);
        let Some(worker) = crate::runtime::get_or_start().workers().next() else {
            return println!("skip: there are no workers on kernel threads");
        };
        assert_eq!(epoll.wait(worker, Some(0)), EVENTS);
        epoll.poll(worker);
        let mut room = [const { MaybeUninit::uninit() }; EVENTS];
        assert_eq!(sys::wait(epoll.set.as_fd(), &mut room, Some(0)).len(), 0);
    }

    #[test]
    fn what_is_closed_is_armed_no_more() {
        let epoll = Epoll::new().unwrap();
        let (one, _other) = std::os::unix::net::UnixStream::pair().unwrap();
        let fd = one.as_raw_fd();
        epoll.make_room(fd).unwrap();
        epoll.arm_unheard(fd).unwrap();
        let Some(worker) = crate::runtime::get_or_start().workers().next() else {
            return println!("skip: there are no workers on kernel threads");
        };
        epoll.end_waits(worker, fd);
        // It would be refused beside what was there.
        epoll.arm_unheard(fd).unwrap();
    }

    impl Epoll {
        /// For a read of nobody's.
        fn arm_unheard(&self, fd: RawFd) -> io::Result<()> {
            // SAFETY: the test's own descriptor, which is open.
            let borrowed = unsafe { BorrowedFd::borrow_raw(fd) };
            let data = EventData::new_u64(fd as u64);
            self.with(|heads| heads[fd as usize].is_armed = true);
            Ok(epoll::add(&self.set, borrowed, data, EventFlags::IN | EventFlags::ONESHOT)?)
        }
    }
}
