//! Preemption of full threads: a thread that keeps its worker is made to yield by a signal.
//!
//! Protocol:
//! 1. The monitor finds that a worker has run one full thread for longer than the slice while
//!    others wait there, says since which switch ([`ask`]), and sends the worker's kernel thread a
//!    signal. So does at once who makes a time-critical thread ready there while a less urgent one
//!    runs. Others that become ready need not wait for a slice either: `monitor/kept.rs`.
//! 2. The kernel calls the handler on the kernel thread's alternate stack, so that nothing is
//!    written where the thread may have put something ([`looks`]). If it is the thread that was
//!    meant, and may be left where it was interrupted ([`may_leave`]), the handler goes on on the
//!    thread's own stack and yields from there ([`acts`]); else the monitor will ask again at its
//!    next look, or the thread leaves itself before (`preempt/overdue.rs`).
//! 3. When its turn comes, maybe on another worker, it returns from the handler, and the kernel
//!    restores all of its registers from the frame on its stack. The frame has neither the thread
//!    pointer nor the base of %gs, so those of the kernel thread that it is on by then stay.
//!
//! In the same way a full thread is called, to run something in the middle of what it computes: the
//! program's signal handlers, or its own end ([`call`]). Its flag is set, its wait ended if it is
//! in one that may be, and its worker asked. If it can't be interrupted just then, the monitor asks
//! again; a thread that was not running when it was called finds its flag when it goes on.
//!
//! A thread may be left anywhere but while it is pinned (`full.rs`), while it publishes a wait or
//! is in one (its [`WaitKind`]), in the text that a library has named as the runtime's or in most
//! of the C library's (`preempt/guarded.rs`), on another stack than its own: one for signals, or
//! one that the program switched to, and in a handler of its own fault, for which the kernel has
//! changed the mask of the kernel thread that it is on. Whatever else it was interrupted in is its
//! own or shared by locks, and who waits for such a lock in the kernel is compensated for. What
//! compensation needs itself, the locks of the table and of the allocator, nobody is left with:
//! `table.rs` pins, and the allocator's text is guarded always. But where blocked workers take
//! turns, a thread is left that waits there for a futex (`turns.rs`): what it holds it would hold
//! there as well, and nobody else comes to the thread that it waits for. When its turn comes it
//! makes the call again, which looks first whether it still has to wait; so no wake is lost.
//!
//! A worker whose thread can't be left, for it computes on such a stack or in such a handler, or
//! has not been met anywhere else for long, is compensated for as one that is blocked
//! ([`Worker::is_held`]): who waits for its turn may be who the thread waits for.
//!
//! A system call in which the embedding library lets threads sleep on their worker is made in a
//! text of its own ([`end_calls_in`]): a thread that is called or cancelled there goes on behind
//! the call, which has failed with EINTR, and answers by itself. A canceller calls the thread, too;
//! who takes that call may not look for a cancellation, so both are looked for. A call of a guarded
//! text in which a thread may sleep for long is made so that the thread answers in its middle
//! ([`full::answering`]); it is not preempted there. In other calls it answers where it waits for a
//! lock ([`full::answering_at_locks`]). So it does where the C library itself reads,
//! writes or opens, as in stdio: natively handlers run there, too. The call fails with EINTR if a
//! handler wants that, or the thread is cancelled: who has made it ends the thread, or its next
//! point of cancellation does.
//!
//! The signal is SIGURG. Its default is to be ignored, so one that comes when no handler is there,
//! or not any more, harms nobody; programs that use it expect it without a reason; the C library
//! keeps nothing there and debuggers pass it on. Ours carries a mark: others go to whoever handled
//! the signal before. The signal is blocked while the handler looks at what it has interrupted: a
//! second one would find the handler itself, and leave in its middle what must not be left. Before
//! it yields it unblocks it, as every worker has it, so the mask is right whoever runs next. A
//! system call that it interrupts is restarted (SA_RESTART); those that never are (`epoll_wait`,
//! `nanosleep`) end with EINTR: the monitor asks first whether the kernel thread runs. It does not
//! where blocked workers have to take turns for want of kernel threads (`turns.rs`).

pub(crate) mod guarded;
pub(crate) mod overdue;

use core::ptr;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::io;
use std::sync::OnceLock;

use crate::arch;
use crate::control::{CANCEL_ASKED, CANCEL_DISABLED, Control, Kind, WaitKind};
use crate::full;
use crate::sched;
use crate::spins::{self, Place};
use crate::sys::memory::PAGE;
use crate::sys::signals::{self, Handler, Interrupted};
use crate::sys::{clock, task};
use crate::worker::Worker;

use self::guarded::{Calls, c_library, guard_text, is_guarded, is_in_c_library};

/// `Control::cancel`: a full thread is called.
pub(crate) const CANCEL_CALLED: u8 = 8;
/// The signal; see the file's head.
pub(crate) const SIGNAL: i32 = libc::SIGURG;
/// Bytes of stack that the handler and what it calls use besides the kernel's frame.
const HANDLER_BYTES: usize = 4 << 10;

/// Why there is no preemption here, if so.
pub(crate) fn missing() -> Option<&'static str> {
    if cfg!(not(any(target_arch = "x86_64", target_arch = "aarch64"))) {
        return Some("not on this processor yet");
    }
    if cfg!(feature = "sim") {
        return Some("in a simulation threads are left at its points");
    }
    arch::on_valgrind().then_some("valgrind follows no thread out of a signal handler")
}

/// Installs the handler, once; whether there is one.
pub(crate) fn prepare() -> bool {
    static PREPARED: OnceLock<io::Result<()>> = OnceLock::new();
    let install = || {
        c_library().iter().for_each(|&(low, high)| guard_text(low, high));
        signals::install_interrupter(SIGNAL, Handler { looks, acts })
    };
    missing().is_none() && PREPARED.get_or_init(install).is_ok()
}

/// Bytes that a stack needs for being left by a signal.
pub(crate) fn stack_bytes() -> usize {
    signals::frame_bytes() + HANDLER_BYTES
}

/// Asks `worker` to leave the thread that it has run since it counted so many `switches`.
pub(crate) fn ask(worker: &Worker, switches: u64) {
    worker.asked.store(switches, Relaxed);
    interrupt(worker);
}

impl Worker {
    /// It is known from now on that the thread that it runs since so many `switches` can't be made
    /// to leave.
    pub fn hold(&self, switches: u64) {
        self.held.store(switches, Relaxed);
    }

    /// Or that it can.
    pub fn let_go(&self) {
        self.held.store(u64::MAX, Relaxed);
    }

    /// Whether that is known of the thread that it runs now.
    pub fn is_held(&self) -> bool {
        self.held.load(Relaxed) == self.switches.load(Relaxed)
    }
}

/// Asks `worker`, which is one too many, to leave the full thread that it runs, if that has had its
/// slice: it need not wait for others to come.
pub(crate) fn ask_surplus(worker: &Worker) {
    let (seen, slice_ns) = (worker.seen.get(), worker.runtime.config.slice_ns);
    let is_over = slice_ns != 0 && seen.same_ns() >= slice_ns;
    if is_over && full::exist() && missing().is_none() {
        ask(worker, seen.switches());
    }
}

/// Has the thread that `worker` runs look whether it is called.
pub(crate) fn interrupt(worker: &Worker) {
    signals::send_marked(worker.tid(), SIGNAL);
}

/// Whether the caller's worker was asked to leave the thread that it runs, not one before it.
fn is_asked() -> bool {
    full::here().is_some_and(|here| here.worker().is_asked())
}

/// A thread of this priority is ready at `worker`: a less urgent full thread that computes there
/// leaves now, not when its slice is over, unless that is the one that the Lazy region gets by its
/// bound. If it can't be left just then, the monitor asks again. Where the priority is 0, one of
/// priority 0 leaves that is of this group or a less urgent one. True: it was asked.
pub(crate) fn make_room(worker: &Worker, priority: u8, group: u8) -> bool {
    if worker.runtime.config.slice_ns == 0 || missing().is_some() || worker.is_lazy_turn() {
        return false;
    }
    let switches = worker.switches.load(Relaxed);
    // SAFETY: null or a slot of the slab.
    let Some(running) = (unsafe { worker.current.load(Relaxed).as_ref() }) else { return false };
    let is_less = match priority {
        0 => !running.is_critical() && running.group.load(Relaxed) >= group,
        _ => running.priority.load(Relaxed) < priority,
    };
    // A system call that is not restarted is no reason to end it: the worker is blocked, then.
    let asks =
        is_less && running.kind.get() == Kind::Full && task::state_of(worker.tid()) == Some(b'R');
    if asks {
        ask(worker, switches);
    }
    asks
}

/// What called threads run.
static ANSWER: OnceLock<fn(bool) -> bool> = OnceLock::new();

/// What a called thread runs; true: a system call that it is in the middle of fails with EINTR. It
/// may end its thread if it is given true; else it has it called again. Once, before the first
/// thread is called.
pub fn on_call(answer: fn(bool) -> bool) {
    let _ = ANSWER.set(answer);
}

/// See the file's head.
pub(crate) fn call(thread: &'static Control) {
    // ORDER: Release publishes what it is called for to the Acquire in `sched::is_called`.
    thread.cancel.fetch_or(CANCEL_CALLED, Release);
    full::cancel(thread);
    // SAFETY: null or a worker; workers live for ever.
    if let Some(worker) = unsafe { thread.worker.load(Acquire).as_ref() }
        && ptr::eq(worker.current.load(Relaxed), thread)
    {
        interrupt(worker);
    }
}

/// The first and the last address from which a call that is to come, or sleeps, goes on at the
/// third one when its thread is called.
static ENDED_IN: OnceLock<[usize; 3]> = OnceLock::new();

/// What the text that [`end_calls_in`] is told of looks for in its thread's word: that it is
/// called; and that it is cancelled, without that being disabled.
pub const CALLED: [u8; 3] = [CANCEL_CALLED, CANCEL_ASKED, CANCEL_DISABLED];

/// See the file's head. The text looks at its thread's word ([`called_word`]) at `first`, and has
/// its system call at `last`; the call's result is taken at `end`. Once.
pub fn end_calls_in(first: usize, last: usize, end: usize) {
    let _ = ENDED_IN.set([first, last, end]);
}

/// The word in which [`CALLED`] is, of the calling thread.
pub fn called_word() -> *const u8 {
    sched::current().cancel.as_ptr()
}

/// Ends the call in which a thread that is called sleeps, or which it is about to make.
fn end_call(interrupted: &Interrupted) -> bool {
    let Some(&[first, last, end]) = ENDED_IN.get() else { return false };
    let is_there = (first..=last).contains(&interrupted.ip());
    if is_there && full::me().is_some_and(sched::is_cancellable) {
        interrupted.fail_call(end);
    }
    is_there
}

/// On whatever the worker's kernel thread was doing: whether the thread that it runs may be left
/// there, or answers. If not it yields at its next chance: the poll word is set.
fn looks(interrupted: &Interrupted) -> bool {
    if end_call(interrupted) {
        return false;
    }
    let errno = signals::errno();
    look_behind(interrupted);
    let is_met = may_leave(interrupted).is_some() || transfers(interrupted).is_some();
    // Before `here` pins it.
    let is_elsewhere = is_elsewhere(interrupted);
    if let Some(here) = full::here() {
        let worker = here.worker();
        if is_met {
            worker.let_go();
        } else {
            // It has had its turn.
            worker.take_turn();
            worker.behind.refuse(worker.asked.load(Relaxed), clock::now_ns());
            full::me().filter(|_| worker.is_asked()).into_iter().for_each(overdue::note);
            if full::me().is_some_and(sched::is_called) {
                // It answers at its call's end.
                overdue::note_called();
            }
        }
        if is_elsewhere && worker.is_asked() {
            worker.hold(worker.asked.load(Relaxed));
        }
    }
    signals::set_errno(errno);
    is_met
}

/// On the stack of the thread that was met.
fn acts(interrupted: &Interrupted) {
    let errno = signals::errno();
    if let Some(me) = may_leave(interrupted) {
        let (is_turn, is_kept) = full::here().map_or((false, false), |here| {
            let worker = here.worker();
            (worker.take_turn(), worker.behind.is_kept())
        });
        signals::unblock(SIGNAL);
        if !sched::is_called(me) && is_asked() {
            match is_turn {
                true => yield_here(me, Worker::pass_turn),
                false => {
                    spins::note(Place::of(interrupted.ip(), interrupted.registers()));
                    yield_here(me, Worker::preempt_full);
                }
            }
        }
        // It may have been called meanwhile. No pin is left here: it may end.
        answer(me, interrupted, !is_kept);
    } else if let Some((me, end)) = transfers(interrupted) {
        signals::unblock(SIGNAL);
        if answer(me, interrupted, true) || sched::is_cancelled(me) {
            interrupted.fail_call(end);
        }
    }
    signals::set_errno(errno);
}

/// Runs what the calling thread `me` is called for, if it is; unless it `may_end` it goes on. True:
/// a call that it is in fails.
fn answer(me: &Control, interrupted: &Interrupted, may_end: bool) -> bool {
    let Some(answer) = ANSWER.get().filter(|_| sched::is_called(me)) else { return false };
    let ends = full::answering_nowhere(|| answer(may_end));
    if me.kind.get() == Kind::Kernel {
        // A child that it has forked: it is a kernel thread, with its own mask.
        interrupted.keep_what_is();
    }
    ends
}

fn yield_here(me: &'static Control, leave: fn(&'static Worker, &'static Control)) {
    let Some(here) = full::here() else { return };
    overdue::is_over(me);
    here.runtime.monitor.preempted.fetch_add(1, Relaxed);
    if !me.is_critical() {
        // It is not the Lazy region that has waited.
        here.worker().lazy_ran();
    }
    leave(here.worker(), me);
}

/// What the handler does, in a simulation; false if the caller may not be left here.
#[cfg(feature = "sim")]
pub(crate) fn leave_here() -> bool {
    let left = full::me().filter(|me| !full::is_pinned() && me.wait.get() == WaitKind::None);
    left.map(|me| yield_here(me, Worker::preempt_full)).is_some()
}

/// The thread that was interrupted, if it may be left there; see the file's head.
fn may_leave(interrupted: &Interrupted) -> Option<&'static Control> {
    let me = outside_of_text(interrupted)?;
    let is_turn = || full::here().is_some_and(|here| here.worker().is_turn.load(Relaxed));
    let is_free = !is_guarded(interrupted.ip())
        || sched::is_called(me) && full::answers()
        || waits_in_c_library(interrupted) && is_turn()
        || full::here().is_some_and(|here| here.worker().behind.is_free());
    is_free.then_some(me)
}

/// Looks whether the thread that was interrupted may be left in a guarded text; see the file's
/// head. Not in [`acts`]: that is on its own stack, for which it takes too much.
fn look_behind(interrupted: &Interrupted) {
    let found = outside_of_text(interrupted)
        .filter(|_| is_guarded(interrupted.ip()) && transfers(interrupted).is_none())
        .map(|me| {
            let waits = waits_in_c_library(interrupted);
            let calls = match waits && full::answers_at_locks() {
                true => Calls { may_leave: true, ..Calls::default() },
                false => guarded::calls(me, interrupted, waits),
            };
            (sched::is_called(me), calls)
        });
    let Some(here) = full::here() else { return };
    let worker = here.worker();
    let (is_called, calls) = found.unwrap_or_default();
    let is_refused = || worker.behind.is_refused(worker.asked.load(Relaxed));
    let is_free = calls.may_leave && (is_called || calls.holds_nothing || is_refused());
    worker.behind.set(is_free, calls.may_end);
}

/// Whether the calling thread is a full one that may be left where a signal has interrupted it: a
/// handler may run there what waits.
///
/// # Safety
/// 1. `context` is what the kernel passed to a handler, which has not returned.
pub unsafe fn may_be_left(context: *mut core::ffi::c_void) -> bool {
    // SAFETY: by 1.
    let interrupted = unsafe { Interrupted::of(context) };
    outside_of_text(&interrupted).is_some() && !is_guarded(interrupted.ip())
}

/// The thread that was interrupted, if nothing but the text that it is in may keep it there.
fn outside_of_text(interrupted: &Interrupted) -> Option<&'static Control> {
    outside_of_runtime().filter(|me| !is_away(me, interrupted))
}

/// The calling thread, if it is a full one and the runtime does nothing for it.
fn outside_of_runtime() -> Option<&'static Control> {
    full::me().filter(|me| !full::is_pinned() && me.wait.get() == WaitKind::None)
}

/// Whether it is on another stack than its own, or near the end of that, or handles a fault.
fn is_away(me: &Control, interrupted: &Interrupted) -> bool {
    let stack = me.stack.get() as usize;
    // Its lowest page is the guard.
    let needed = match interrupted.frame_bytes() {
        0 => 0,
        frame => PAGE + frame + HANDLER_BYTES,
    };
    let on_own_stack = (stack + needed..stack + me.stack_bytes()).contains(&interrupted.sp());
    !on_own_stack || interrupted.blocks_faults()
}

/// Whether a full thread was interrupted where it may stay for long without a chance to leave it.
fn is_elsewhere(interrupted: &Interrupted) -> bool {
    outside_of_runtime().is_some_and(|me| is_away(me, interrupted))
}

/// The thread that was interrupted, if it is called or cancelled and the C library reads, writes or
/// opens for it, as in stdio; and the end of that call. It holds none of what is guarded there.
fn transfers(interrupted: &Interrupted) -> Option<(&'static Control, usize)> {
    let me = outside_of_text(interrupted).filter(|me| sched::is_cancellable(me))?;
    if !is_in_c_library(interrupted.ip()) {
        return None;
    }
    // SAFETY: the library's texts are mapped, and stay so.
    let end = unsafe { interrupted.end_of_transfer() };
    (end != 0).then_some((me, end))
}

/// Whether the thread waits in the C library for a lock of its own, or the like.
fn waits_in_c_library(interrupted: &Interrupted) -> bool {
    // SAFETY: the library's texts are mapped, and stay so.
    is_in_c_library(interrupted.ip()) && unsafe { interrupted.waits_for_futex() }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
    use std::time::{Duration, Instant};

    use crate::thread::Builder;
    use crate::{Config, arch, raw, runtime};

    /// Preempted as often as this at least; more by `HEDDLE_TEST_PREEMPTIONS`.
    const TIMES: u64 = 300;
    /// Longer than the busiest machine lets threads compute without a preemption.
    const PATIENCE: Duration = Duration::from_secs(60);

    fn preempted() -> u64 {
        raw::counts().map_or(0, |counts| counts.preempted)
    }

    /// Returns when threads were preempted so many times more, or `stop` says so; false: none is
    /// any more.
    fn await_preemptions(times: u64, stop: &AtomicBool) -> bool {
        let (mut seen, mut since) = (preempted(), Instant::now());
        let wanted = seen + times;
        while seen < wanted && !stop.load(SeqCst) {
            std::thread::sleep(Duration::from_millis(1));
            let now = preempted();
            if now != seen {
                (seen, since) = (now, Instant::now());
            } else if since.elapsed() > PATIENCE {
                return false;
            }
        }
        true
    }

    #[test]
    fn every_register_is_kept() {
        let slice = Some(Duration::from_micros(50));
        let _ = Config::new().workers(2).slice(slice).start();
        if let Some(why) = super::missing() {
            return println!("skip: no preemption: {why}");
        }
        let times = std::env::var("HEDDLE_TEST_PREEMPTIONS").ok().and_then(|it| it.parse().ok());
        let stop = Arc::new(AtomicBool::new(false));
        let hold = |seed: u64| {
            let stop = stop.clone();
            Builder::new().full().spawn(move || {
                // SAFETY: it needs nothing.
                while unsafe { arch::hold_registers(200_000, seed) } == 0 {
                    if stop.load(SeqCst) {
                        return true;
                    }
                }
                stop.store(true, SeqCst);
                false
            })
        };
        // Another test may have started the runtime, with any number of workers.
        let count = runtime::get().expect("it was started").crowd();
        let seeds = (1..=count as u64).map(|it| it.wrapping_mul(0x1234_5678_9ABC_DEF1));
        let threads: Vec<_> = seeds.map(hold).collect();
        if let Some(Err(error)) = threads.first() {
            return println!("skip: {error}");
        }
        if std::env::var("HEDDLE_BACKEND").as_deref() == Ok("native") {
            stop.store(true, SeqCst);
            return println!("skip: the kernel preempts kernel threads");
        }
        let are_preempted = await_preemptions(times.unwrap_or(TIMES), &stop);
        stop.store(true, SeqCst);
        for thread in threads {
            assert!(thread.expect("a thread").join().expect("no panic"), "a register has changed");
        }
        let number = preempted();
        assert!(
            are_preempted,
            "of {count} threads none was preempted any more after {number} times"
        );
    }
}
