//! Switching: how a worker goes from one thread to the next.
//!
//! Invariants:
//! 1. Whoever runs has its thread pointer: a full thread that of its block, a light thread and the
//!    scheduler context that of the worker's kernel thread.
//! 2. A full thread is switched to and from by `switch_with_tls` alone, or its like with a segment:
//!    so others see whether it has left its stack.
//! 3. Between a light thread and a full one there is the scheduler context: so a light thread, for
//!    which no floating-point control is set, finds that of the worker.

use core::ptr;
use core::sync::atomic::Ordering::Relaxed;

use heddle_record::State;

use super::{Post, Worker};
use crate::arch::{self, Pointer};
use crate::control::{Control, DROWSY, HIBERNATED, HIBERNATES, Kind, OWN_TLS, TLS_KEPT};
#[cfg(feature = "sim")]
use crate::full;
use crate::sys::{clock, libc_tls};
use crate::{cpu, hibernate, sanitizer, sched};

/// Yields for nobody after which the kernel thread gives up its CPU: a system call takes as long as
/// all of them.
const VAIN_YIELDS: u32 = 32;
/// It gives it up at once where so much time has passed since the yield before: as spin locks do
/// that pause between two yields.
const VAIN_GAP_NS: u64 = 1_000;
/// Time between two yields in the kernel while threads yield to each other.
const GAP_NS: u64 = 20_000;

impl Worker {
    /// The calling thread goes to the end of its queue; the next one runs.
    ///
    /// Inlined up to the switch and without a call on the usual way: just what is live is saved,
    /// and nothing is written below the saved stack pointer, where a line would be missed that no
    /// prefetch has asked for.
    #[inline(always)]
    pub fn yield_now(&'static self, me: &'static Control) {
        #[cfg(feature = "sim")]
        if me.kind.get() == Kind::Full {
            return self.yield_full(me);
        }
        if self.spend() {
            return self.yield_to_scheduler(me);
        }
        if !me.is_critical()
            && let Some(next) = self.queues.rotate(me)
        {
            return self.switch(me, next);
        }
        self.yield_by_rank(me);
    }

    #[cold]
    #[inline(never)]
    fn yield_to_scheduler(&'static self, me: &'static Control) {
        self.queues.push(me);
        self.leave_for_scheduler(me, false);
    }

    /// Yields when the next thread is not simply the next of the caller's group.
    #[cold]
    #[inline(never)]
    fn yield_by_rank(&'static self, me: &'static Control) {
        // A time-critical thread yields only to its equals and betters.
        let priority = me.priority.load(Relaxed);
        if priority > self.queues.fast_priority() && priority != 0 {
            return;
        }
        match self.queues.pop() {
            Some(next) => {
                self.queues.push(me);
                self.switch(me, next);
            }
            // Threads that have not started are the scheduler's to take over.
            None if self.fresh.len() != 0 => self.yield_to_scheduler(me),
            None => {}
        }
    }

    /// Leaves the calling thread, which has published itself to its waker.
    #[inline]
    pub fn park(&'static self, me: &'static Control) {
        let record = me.record();
        record.set_switches(me.switches.get());
        record.set_state(State::Parked);
        if me.flags.get() & HIBERNATES != 0 && me.pinned.get() == 0 && !self.drowsy.admit(me) {
            self.post.set(Post::Hibernate(me));
            return self.to_scheduler(me);
        }
        if self.spend() {
            return self.to_scheduler(me);
        }
        match self.queues.pop() {
            Some(next) => self.switch(me, next),
            None => self.to_scheduler(me),
        }
    }

    /// As `yield_now`, of a full thread, which is pinned.
    ///
    /// Inlined up to the switch, as that is.
    #[inline(always)]
    pub fn yield_full(&'static self, me: &'static Control) {
        if self.spend() || self.queues.len() != 0 || self.fresh.len() != 0 {
            return self.yield_full_to_scheduler(me);
        }
        match self.offered.exchange(me) {
            Some(next) => {
                self.yields.set(self.yields.get() + 1);
                self.switch_full(me, next);
            }
            None => self.yield_in_vain(),
        }
    }

    #[cold]
    #[inline(never)]
    fn yield_full_to_scheduler(&'static self, me: &'static Control) {
        if self.budget.get() == 0 && self.only_yield() {
            self.yield_in_kernel();
        }
        self.offered.push_yielded(me);
        self.to_scheduler(me);
    }

    /// Whether hardly anything else was done since the last look: they may spin for a thread of
    /// another worker that waits for this CPU.
    fn only_yield(&self) -> bool {
        let (switches, others) = (self.budget_full.get(), self.offered.len());
        others != 0 && switches != 0 && self.yields.get() >= switches - switches / 4
    }

    /// Gives up the CPU, unless it has just done so: where nobody else wants it that costs as much
    /// as some twenty switches.
    fn yield_in_kernel(&self) {
        let looked = self.now.get();
        if looked.saturating_sub(self.gave_up.get()) >= GAP_NS {
            self.gave_up.set(looked);
            rustix::thread::sched_yield();
        }
    }

    /// Nobody here has anything to do: who spins may wait for a kernel thread, this process's or
    /// another's, that waits for this CPU.
    #[cold]
    #[inline(never)]
    fn yield_in_vain(&self) {
        let ((count, last), now) = (self.vain_yields.get(), clock::now_ns());
        if count + 1 < VAIN_YIELDS && now.saturating_sub(last) < VAIN_GAP_NS {
            return self.vain_yields.set((count + 1, now));
        }
        rustix::thread::sched_yield();
        self.vain_yields.set((0, clock::now_ns()));
    }

    /// As [`Worker::yield_full`], but those that were preempted do not go first.
    pub fn give_way(&'static self, me: &'static Control) {
        if self.spend() || self.queues.len() != 0 || self.fresh.len() != 0 {
            self.offered.push(me);
            return self.to_scheduler(me);
        }
        if let Some(next) = self.offered.exchange_with_come(me) {
            self.switch(me, next);
        }
    }

    /// As [`Worker::give_way`], to those whose events have come, if nobody else is ready; false:
    /// the worker mostly waits, and does not look for any.
    pub fn give_way_to_events(&'static self, me: &'static Control) -> bool {
        if self.has_no_ready()
            && let Some(set) = self.made_readiness()
        {
            if self.asks.are_in_vain() {
                return false;
            }
            set.poll_for(self);
            self.give_way(me);
        }
        true
    }

    /// As [`Worker::yield_full`], of a thread that is preempted.
    pub fn preempt_full(&'static self, me: &'static Control) {
        if self.spend() || self.queues.len() != 0 || self.fresh.len() != 0 {
            self.offered.push_preempted(me);
            return self.to_scheduler(me);
        }
        if let Some(next) = self.offered.exchange_preempted(me) {
            self.switch(me, next);
        }
    }

    /// As `park`, of a full thread. It may have been made ready before it gets here.
    pub fn park_full(&'static self, me: &'static Control) {
        let record = me.record();
        record.set_switches(me.switches.get());
        record.set_state(State::Parked);
        if self.spend() || self.queues.len() != 0 {
            self.to_scheduler(me);
        } else {
            match self.offered.pop() {
                Some(next) if ptr::eq(next, me) => {}
                Some(next) => self.switch_full(me, next),
                None => self.to_scheduler(me),
            }
        }
        // Its waker may have said so too early.
        record.set_state(State::Ready);
    }

    /// Moves the calling thread, a full one, to a worker where it has a place.
    pub fn move_to(&'static self, me: &'static Control, to: &'static Worker) {
        self.post.set(Post::Moves(me, to));
        self.to_scheduler(me);
    }

    /// Ends the calling thread; its reference is given up once its stack is left.
    pub fn end(&'static self, me: &'static Control) -> ! {
        if me.kind.get() == Kind::Full {
            self.live_full.fetch_sub(1, Relaxed);
        } else {
            self.timers.remove(me);
            self.live.store(self.live.load(Relaxed).wrapping_sub(1), Relaxed);
        }
        self.post.set(Post::Ended(me));
        self.leave_for_scheduler(me, true);
        unreachable!("an ended thread was resumed");
    }

    /// Counts one switch; true when it is time to look around.
    #[inline(always)]
    pub(crate) fn spend(&self) -> bool {
        let left = self.budget.get();
        if left == 0 || self.poll.load(Relaxed) != 0 {
            return true;
        }
        self.budget.set(left - 1);
        false
    }

    #[inline(always)]
    pub(crate) fn switch(&'static self, me: &'static Control, next: &'static Control) {
        self.activate(next);
        if (me.flags.get() | next.flags.get()) & (HIBERNATED | DROWSY | OWN_TLS) != 0
            || (cfg!(feature = "sim") && (moves(me) || moves(next)))
        {
            return self.switch_special(me, next);
        }
        let left = sanitizer::leave(next.stack.get(), next.stack_bytes(), false);
        #[cfg(feature = "sim")]
        let kept = full::keep();
        // SAFETY: `me` is the caller; `next` came out of the run queue, so it was saved or made
        // and not continued since; light threads stay on this kernel thread.
        unsafe { arch::switch(me.context.as_ptr(), next.context.as_ptr()) };
        sanitizer::arrive(left);
        #[cfg(feature = "sim")]
        full::take_up(kept);
    }

    /// As `switch`, from a full thread.
    #[inline(always)]
    fn switch_full(&'static self, me: &'static Control, next: &'static Control) {
        self.activate(next);
        match next.segment() {
            Some(pointer) if !cpu::is_on() && !cfg!(feature = "sim") => {
                let left = sanitizer::leave(next.stack.get(), next.stack_bytes(), false);
                // SAFETY: as in `switch_special`.
                unsafe {
                    arch::switch_to(me.context.as_ptr(), next.context.as_ptr(), pointer);
                }
                sanitizer::arrive(left);
            }
            _ => self.switch_special(me, next),
        }
    }

    /// As `switch`, to a thread that hibernates, or to or from one with TLS of its own.
    #[inline(never)]
    fn switch_special(&'static self, me: &'static Control, next: &'static Control) {
        if cpu::is_on() {
            self.meter.turn(own_tls(me), own_tls(next));
        }
        debug_assert_eq!(moves(me), moves(next), "invariant 3");
        let pointer = self.wake_up(next, moves(me));
        #[cfg(feature = "sim")]
        let kept = full::keep();
        let left = sanitizer::leave(next.stack.get(), next.stack_bytes(), false);
        // SAFETY: as in `switch`; the thread pointer is `next`'s.
        unsafe { arch::switch_to(me.context.as_ptr(), next.context.as_ptr(), pointer) };
        sanitizer::arrive(left);
        #[cfg(feature = "sim")]
        full::take_up(kept);
    }

    #[inline(never)]
    pub(crate) fn to_scheduler(&'static self, me: &'static Control) {
        self.leave_for_scheduler(me, false);
    }

    #[inline(always)]
    fn leave_for_scheduler(&'static self, me: &'static Control, ends: bool) {
        self.current.store(ptr::null_mut(), Relaxed);
        if cpu::is_on() && own_tls(me).is_some() {
            self.meter.turn(Some(me), None);
        }
        let (bottom, size) = self.own_stack.get();
        let left = sanitizer::leave(bottom, size, ends);
        let pointer = if moves(me) { Pointer::Address(self.tls.get()) } else { Pointer::Kept };
        #[cfg(feature = "sim")]
        let kept = full::keep();
        // SAFETY: the scheduler context was saved when it resumed a thread; it has the kernel
        // thread's own thread pointer.
        unsafe { arch::switch_to(me.context.as_ptr(), self.scheduler.get(), pointer) };
        sanitizer::arrive(left);
        #[cfg(feature = "sim")]
        full::take_up(kept);
    }

    /// From the scheduler context.
    pub(super) fn resume(&'static self, next: &'static Control) {
        self.activate(next);
        if cpu::is_on() && own_tls(next).is_some() {
            self.meter.turn(None, Some(next));
        }
        let start = self.trace.is_some().then(clock::now_ns);
        let pointer = self.wake_up(next, false);
        #[cfg(feature = "sim")]
        let kept = full::keep();
        let left = sanitizer::leave(next.stack.get(), next.stack_bytes(), false);
        // SAFETY: as in `switch_special`, with the scheduler as the caller.
        unsafe { arch::switch_to(self.scheduler.get(), next.context.as_ptr(), pointer) };
        sanitizer::arrive(left);
        #[cfg(feature = "sim")]
        full::take_up(kept);
        if let (Some(trace), Some(start)) = (&self.trace, start) {
            trace.ran(next, start, clock::now_ns());
        }
    }

    /// The bookkeeping of an activation.
    #[inline(always)]
    fn activate(&self, next: &'static Control) {
        next.switches.set(next.switches.get().wrapping_add(1));
        self.switches.store(self.switches.load(Relaxed) + 1, Relaxed);
        self.current.store(ptr::from_ref(next).cast_mut(), Relaxed);
        self.record.set_running(Some(next.slot()));
    }

    /// What an activation needs where the flags say so. Returns what the thread pointer becomes;
    /// `own`: the caller is a full thread.
    #[inline(always)]
    fn wake_up(&'static self, next: &'static Control, own: bool) -> Pointer {
        if next.flags.get() & OWN_TLS == 0 {
            if next.flags.get() & (HIBERNATED | DROWSY) != 0 {
                hibernate::restore(&self.drowsy, next);
            }
            let special = own || (cfg!(feature = "sim") && moves(next));
            return if special { Pointer::Address(self.tls.get()) } else { Pointer::Kept };
        }
        next.pointer()
    }

    pub(super) fn run_post(&'static self) {
        match self.post.replace(Post::None) {
            Post::None => {}
            Post::Ended(thread) => {
                if thread.flags.get() & OWN_TLS != 0 {
                    // SAFETY: it has left its stack for good; only here is it looked after.
                    if unsafe { libc_tls::retire(thread.thread_pointer()) } {
                        thread.flags.set(thread.flags.get() | TLS_KEPT);
                    }
                }
                sched::release(thread);
            }
            Post::Hibernate(thread) => self.drowsy.hibernate_oldest(thread),
            Post::Moves(thread, to) => {
                self.live_full.fetch_sub(1, Relaxed);
                to.take_in(thread);
            }
        }
    }

    /// First thing on a new stack.
    #[inline(always)]
    pub fn begin(&self) {
        let (bottom, size) = sanitizer::begin();
        if self.own_stack.get().0.is_null() {
            // The first thread of a worker always comes from its scheduler context.
            self.own_stack.set((bottom, size));
        }
    }
}

/// Whether `thread` may go on on another worker. In a simulation full threads have no block.
#[inline(always)]
fn moves(thread: &Control) -> bool {
    if cfg!(feature = "sim") {
        return thread.kind.get() == Kind::Full;
    }
    thread.flags.get() & OWN_TLS != 0
}

/// The thread, if it has thread-local storage of its own.
#[inline(always)]
fn own_tls(thread: &'static Control) -> Option<&'static Control> {
    (thread.flags.get() & OWN_TLS != 0).then_some(thread)
}
