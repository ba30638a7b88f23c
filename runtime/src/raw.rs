//! What the C API is built from: the runtime's inner pieces, without promises of stability.
//!
//! Not part of the Rust API. Everything here has the rules of the module it comes from.

use core::ptr;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::io;

use crate::arch::Context;
use crate::config::Backend;
use crate::control::{CANCEL_ASKED, CANCEL_DISABLED, JOIN_DETACHED, JOIN_DONE, JOIN_OPEN, OWN_TLS};
use crate::sys::libc_tls;
use crate::thread::{Builder, Thread};
use crate::{runtime, sched};

pub use crate::control::{Control, Outcome};
pub use crate::deadlock::{
    Explain, Holder, Waited, idle, name_kernel_thread, name_slot, name_slot_of, on_deadlock,
};
pub use crate::io::call::{deadline, operate, receive, retry, send, wait_ready, wait_several};
pub use crate::io::{call::wait_ready_while, epoll::end_waits, reactor::Interest};
pub use crate::lot::{
    ANY, Ended, Manner, Moment, Requeued, futex_broadcast, futex_requeue, futex_wait,
    futex_wait_after, futex_wake,
};
pub use crate::stack::observer::{Observer, observe};
pub use crate::sync::raw_mutex::RawMutex;
#[cfg(target_arch = "x86_64")]
pub use crate::sys::frame::Frame;
pub use crate::sys::{clock::now_ns, descriptor, place::Place, say, tasks};
pub use crate::thread::{builder::Known, give_way, give_way_to_events};
pub use crate::wait::{Batch, Locked, WaitQueue, wake};

/// Body of a raw thread. It may return, or leave through [`finish`] at any depth.
pub type Entry = unsafe extern "C-unwind" fn(argument: *mut u8);

/// The calling thread's control block: one of its own as long as it lives.
#[inline]
pub fn current() -> &'static Control {
    sched::current()
}

/// Whether threads are kernel threads here (native backend). Starts the runtime.
///
/// # Errors
/// When the runtime can't start.
pub fn is_native() -> io::Result<bool> {
    Ok(runtime::try_get_or_start()?.config.backend == Backend::Native)
}

/// Starts a thread that calls `entry(argument)`; the caller has to [`join`] or [`detach`] it.
///
/// # Errors
/// As [`Builder::spawn`]; `Unsupported` on the native backend.
///
/// # Safety
/// 1. `entry` may be called with `argument` on another thread.
pub unsafe fn spawn(builder: Builder, entry: Entry, argument: *mut u8) -> io::Result<Thread> {
    let thread = make(builder)?;
    let packet = thread.stack_top().wrapping_sub(PACKET_BYTES);
    // SAFETY: the top of a stack that nobody uses yet.
    unsafe { prepare(thread, packet, Packet { entry, argument }) };
    // SAFETY: `make` gave the handle one of its two references.
    let handle = unsafe { Thread::adopt(thread) };
    runtime::get_or_start().place(thread);
    Ok(handle)
}

/// A thread that was made and has not started.
pub struct Made {
    /// Its handle.
    pub thread: Thread,
    /// The thread pointer of a full thread; null for a light one.
    pub thread_pointer: *mut u8,
    /// Lowest usable address of its stack, and the bytes from there on, a full thread's
    /// thread-local storage included.
    pub stack: (*mut u8, usize),
    /// From that address on so many bytes can be read and are no other thread's.
    pub readable_bytes: usize,
}

/// Full threads will be described by this many bytes: they lie where the thread pointer leads to.
/// Before the first full thread is thought of.
pub fn describe_full_threads(bytes: usize) {
    libc_tls::describe(bytes);
}

/// As [`spawn`], with what `describe` returns at the top of the thread's stack, or behind its
/// thread-local storage ([`describe_full_threads`]): there it stays as long as there are handles,
/// and its address is what `entry` gets. `describe` sees the thread, and
/// that address, before the thread can run; so does `introduce`, when it is described. Whoever has
/// the handle has to join or detach the thread, and drops what is described.
///
/// # Errors
/// As [`spawn`]; then neither was called.
///
/// # Safety
/// 1. `entry` may be called with the address on another thread.
pub unsafe fn spawn_described<T>(
    builder: Builder,
    entry: Entry,
    describe: impl FnOnce(Made, *const T) -> T,
    introduce: impl FnOnce(&T),
) -> io::Result<()> {
    const { assert!(align_of::<T>() <= PACKET_BYTES) };
    let thread = make(builder)?;
    let is_full = thread.flags.get() & OWN_TLS != 0;
    let top = thread.stack_top();
    let beside = || libc_tls::description(thread.thread_pointer(), size_of::<T>());
    let (place, packet) = match is_full.then(beside).flatten() {
        Some(place) => (place, top.wrapping_sub(PACKET_BYTES)),
        None => {
            let place = top.wrapping_sub(size_of::<T>().next_multiple_of(PACKET_BYTES));
            (place, place.wrapping_sub(PACKET_BYTES))
        }
    };
    let place = place.cast::<T>();
    let made = Made {
        // SAFETY: `make` gave the handle one of its two references.
        thread: unsafe { Thread::adopt(thread) },
        thread_pointer: if is_full { thread.thread_pointer() } else { ptr::null_mut() },
        stack: (usable_from(thread), thread.stack_bytes() - crate::sys::memory::PAGE),
        readable_bytes: crate::stack::readable_bytes(thread.class.get() as usize),
    };
    // SAFETY: the top of a stack that nobody uses yet, or the room behind the block; aligned to 64.
    unsafe {
        place.write(describe(made, place));
        prepare(thread, packet, Packet { entry, argument: place.cast() });
        introduce(&*place);
    }
    runtime::get_or_start().place(thread);
    Ok(())
}

fn make(builder: Builder) -> io::Result<&'static Control> {
    if is_native()? {
        return Err(io::ErrorKind::Unsupported.into());
    }
    builder.make()
}

/// # Safety
/// 1. `place` is on the stack of `thread`, which has not started, with room and alignment for it.
unsafe fn prepare(thread: &'static Control, place: *mut u8, packet: Packet) {
    // SAFETY: by 1.
    unsafe { place.cast::<Packet>().write(packet) };
    thread.context.set(Context::entry(place, enter, ptr::from_ref(thread).cast_mut().cast()));
}

/// What a packet takes at the top of a stack, which stays aligned by it.
const PACKET_BYTES: usize = 64;

fn usable_from(thread: &Control) -> *mut u8 {
    thread.stack.get().wrapping_add(crate::sys::memory::PAGE)
}

#[repr(C)]
struct Packet {
    entry: Entry,
    argument: *mut u8,
}

/// First Rust function of a raw thread. An exception that nobody catches finds no frame here that
/// would stop it, so that it ends the process where it was thrown.
///
/// # Safety
/// 1. Called by the trampoline with what [`spawn`] prepared.
unsafe extern "C-unwind" fn enter(control: *mut u8, packet: *mut u8) -> ! {
    // SAFETY: `spawn` passed the control block, a slot of the slab.
    crate::thread::begin(unsafe { &*control.cast() });
    // SAFETY: `spawn` wrote it there.
    let Packet { entry, argument } = unsafe { packet.cast::<Packet>().read() };
    // SAFETY: by the promise of `spawn`'s caller.
    unsafe { entry(argument) };
    finish()
}

/// Runs the destructors of what the calling user-level thread has by itself, the C library's and
/// the language's for a full thread: for who tells others of the end before [`finish`].
pub fn destroy_values() {
    crate::thread::destroy_values(sched::current());
}

/// Ends the calling user-level thread; its frames are abandoned, not unwound.
pub fn finish() -> ! {
    let me = sched::current();
    crate::thread::end_raw(me)
}

/// As [`finish`], after [`destroy_values`]: destructors of the thread's values are not run again.
pub fn finish_destroyed() -> ! {
    crate::thread::end_destroyed(sched::current())
}

/// Waits for the end of `thread`, until `deadline` (ns, 0 = never) at most.
pub fn join(thread: &Thread, deadline: u64) -> Outcome {
    crate::thread::join_until(thread.control(), deadline)
}

/// Whether `thread` has ended.
pub fn is_finished(thread: &Thread) -> bool {
    thread.control().join.load(Acquire) == JOIN_DONE
}

/// Nobody will join `thread`.
pub fn detach(thread: &Thread) {
    let join = &thread.control().join;
    let _ = join.compare_exchange(JOIN_OPEN, JOIN_DETACHED, Acquire, Relaxed);
}

/// Waits as the caller has published in a queue; as `Locked::wait`, ended by cancellation too.
pub fn wait_cancellable(queue: Locked<'_>, me: &'static Control, deadline: u64) -> Outcome {
    me.cancellable.set(true);
    let outcome = queue.wait(me, deadline);
    me.cancellable.set(false);
    outcome
}

/// Sleeps until `deadline` (ns).
pub fn sleep_until(deadline: u64) -> Outcome {
    crate::thread::sleep_until_ns(deadline)
}

/// Whether a cancellation is pending for the caller and enabled.
#[inline]
pub fn is_cancelled() -> bool {
    sched::is_cancelled(sched::current())
}

/// Enables or disables the caller's cancellation; returns whether it was enabled.
pub fn set_cancellable(enabled: bool) -> bool {
    let cancel = &sched::current().cancel;
    let before = if enabled {
        cancel.fetch_and(!CANCEL_DISABLED, Release)
    } else {
        cancel.fetch_or(CANCEL_DISABLED, Release)
    };
    before & CANCEL_DISABLED == 0
}

/// The cancellation that was asked for has been taken: the thread is on its way out.
pub fn take_cancellation() {
    let cancel = &sched::current().cancel;
    cancel.fetch_or(CANCEL_DISABLED, Release);
    cancel.fetch_and(!CANCEL_ASKED, Release);
}

/// Calls a full thread: it runs what [`on_call`] was given, in the middle of whatever it computes,
/// as soon as it can be interrupted there. If it is in a wait that may be cancelled, that ends as
/// cancelled; [`is_called`] tells the difference. Not from a signal handler: [`when_unpinned`].
pub fn call(thread: &Thread) {
    crate::preempt::call(thread.control());
}

/// Whether the calling full thread is called.
#[inline]
pub fn is_called() -> bool {
    sched::is_called(sched::current())
}

/// The calling full thread is about to look at what it was called for.
pub fn answer_call() {
    // ORDER: Acquire pairs with the Release in `preempt::call`: what it was called for is seen.
    sched::current().cancel.fetch_and(!crate::preempt::CANCEL_CALLED, AcqRel);
}

/// The calling full thread leaves something for which it is to be called again.
pub fn call_again() {
    // ORDER: as in `preempt::call`.
    sched::current().cancel.fetch_or(crate::preempt::CANCEL_CALLED, Release);
}

pub use crate::preempt::overdue::{are_overdue, is_called_or_overdue, leave as leave_if_overdue};
pub use crate::preempt::{CALLED, called_word, end_calls_in, may_be_left, on_call};

/// Asks for the memory by which a full thread is described that is about to be joined: it may have
/// ended long ago, and one line of it would be waited for after the other.
#[inline]
pub fn prefetch_described(thread_pointer: *mut u8) {
    libc_tls::prefetch_described(thread_pointer);
}

/// Asks for what giving up the last handle of the thread in this slot will write.
#[inline]
pub fn prefetch_slot(slot: u32) {
    let control = crate::control::slab_base().wrapping_add(slot as usize);
    crate::arch::prefetch(control.cast());
    crate::arch::prefetch(control.cast::<u8>().wrapping_add(64));
    crate::arch::prefetch(ptr::from_ref(crate::table::record(slot)).cast());
}

/// The number of the thread's slot: unique among live threads.
pub fn slot(thread: &Thread) -> u32 {
    thread.control().slot()
}

/// The C API's data of the calling thread; null at first.
#[inline]
pub fn foreign() -> *mut u8 {
    sched::current().extension().foreign.get()
}

/// Sets [`foreign`].
pub fn set_foreign(data: *mut u8) {
    sched::current().extension().foreign.set(data);
}

/// Lowest usable address and size of the calling user-level thread's stack.
pub fn stack_bounds() -> Option<(*mut u8, usize)> {
    let me = sched::current();
    if me.stack.get().is_null() {
        return None;
    }
    Some((usable_from(me), me.stack_usable()))
}

/// In a forked child: the caller, which ran on a worker in the parent, is a kernel thread now, and
/// waits as one.
///
/// It goes on where it is; there is no worker that would run anything else. The parent's threads
/// that were ready, or whose time comes, would run here too, and what ends their waits would be
/// taken out of the parent's reactors, which are the kernel's own for both.
pub fn leave_worker_after_fork() {
    crate::full::leave_block_of_worker();
    sched::leave_worker();
    sched::become_kernel_thread();
}

pub use crate::blocking::{alone, interruptible as blocking_interruptible, leavable, open_ended};
pub use crate::fork::{embed as embed_fork, in_child as forked_child};
/// Keeps the calling full thread where it is while the pin lives: it is not preempted. It must be
/// dropped by the thread that made it. For code that holds a lock that the scheduler's contexts
/// need, too.
pub use crate::full::{Pin, before_filter, is_pinned, pin};
pub use crate::full::{answering, answering_at_locks, interruptibly, jumped};
pub use crate::heap_use::{within as within_heap, without as without_heap_users};
pub use crate::later::when_unpinned;

/// Makes the table and the slab, without which no thread can wait. For a process whose allocator
/// may wait in the runtime: before there are several threads.
///
/// # Errors
/// When there is no memory for them, or no permission.
pub use crate::runtime::{before_table, prepare as prepare_waits};
/// On each kernel thread that gets a control block, by its first wait mostly, `arrange` is called,
/// which has to see to it that the thread calls [`end_kernel_thread`] when it ends. For a process
/// whose allocator may wait in the runtime: std's way allocates. Once, before the first wait.
pub use crate::sched::arrange_end;
/// What is asked about a fault before anything else, with what the kernel has passed: `None` if it
/// has been handled, else what the program has set for the signal. Once.
pub use crate::stack::overflow::{
    handler as fault_handler, on_deadly_fault, set_program as on_fault,
};

pub use crate::full::{count_pins, exist as full_threads_exist};
pub use crate::sched::{cancel_kernel_thread, control_block, end_kernel_thread, has_request};

/// Lets no full thread be preempted while it is in `[low, high)`: the text of a library around the
/// runtime. Eight ranges in a process, the C library's and the loader's among them.
pub use crate::preempt::guarded::{Calls, guard_text, is_guarded, tell_calls};

/// The bounds of the segment of a loaded object that has this address.
pub fn text_of(address: usize) -> Option<(usize, usize)> {
    crate::sys::text::bounds_of(address)
}

/// The signal that preempts full threads; the program's masks must not block it on workers.
pub const PREEMPTION_SIGNAL: i32 = crate::preempt::SIGNAL;

/// Its handler, which passes on what it is not for; and who says what the program has set for that.
pub use crate::sys::signals::{interrupter, keep_alternate_stack, set_interrupter_of_program};

/// The other signals that workers let through: those that report a fault of the program; and more.
pub use crate::sys::task::{FAULTS, let_through};

/// Whether the caller is a worker's kernel thread, whatever thread that runs.
pub fn is_on_worker() -> bool {
    sched::worker().is_some() || crate::full::runs()
}

/// Tells the [`Observer`] what the chosen ones of the threads that live have used of their stacks.
pub fn tell_living() {
    crate::stack::peak::tell_living();
}

/// The text of the thread's role.
pub fn role_of(thread: &Thread) -> Option<String> {
    crate::table::role_name(thread.record()?.role)
}

/// The thread is of another [`Known::kind`] from now on.
pub fn set_kind(thread: &Thread, kind: u16) {
    crate::stack::owed::change(thread.control().slot(), kind);
}

/// Bytes that a full thread needs of its stack beside what the program does with it: its
/// thread-local storage and what is below a signal. 0 where there are no full threads.
pub fn full_thread_bytes() -> usize {
    crate::sys::libc_tls::library()
        .map_or(0, |library| library.block_bytes() + crate::preempt::stack_bytes())
}

pub use crate::sys::kernel_thread::start as start_kernel_thread;
pub use crate::sys::libc_tls::late::{LatePart, begin_to_look_for_libraries, look_for_libraries};
pub use crate::sys::libc_tls::set_tid as set_tid_in_c_library;
pub use crate::sys::text::Object;

/// Gives a full thread that is older than a library the first values of the library's part.
///
/// # Safety
/// 1. The thread does not end meanwhile.
pub unsafe fn give_late_part(thread: &Thread, part: &LatePart) {
    let control = thread.control();
    if control.flags.get() & crate::control::OWN_TLS != 0 {
        // SAFETY: by 1.
        unsafe { crate::sys::libc_tls::late::give(control.thread_pointer(), part) };
    }
}

pub use crate::cpu::{begin as count_cpu, ns_of_slot as cpu_ns_of, own_ns as own_cpu_ns};

/// Closes a page of the calling full thread's stack: what touches it faults. What was done to the
/// stack is measured first, as the page reads as zero when it is opened again.
///
/// # Errors
/// The kernel's.
///
/// # Safety
/// 1. It is a page of that stack, below all that is in use, and is opened before the thread ends.
pub unsafe fn close_stack_page(page: *mut u8) -> std::io::Result<()> {
    crate::sys::pages::expect_holes();
    crate::stack::owed::tell(sched::current());
    // SAFETY: by 1.
    unsafe { crate::sys::memory::install_guards(&[page]) }.map(drop)
}

/// Opens a page that [`close_stack_page`] has closed. In a signal handler, too.
///
/// # Errors
/// The kernel's.
///
/// # Safety
/// 1. As said, by the same thread.
pub unsafe fn open_stack_page(page: *mut u8) -> std::io::Result<()> {
    // SAFETY: by 1.
    unsafe { crate::stack::executable::remove_guard(page) }
}

/// Which thread the calling one is, and what for, in words: for a signal handler.
pub use crate::stack::overflow::{BEYOND_BYTES_MAX as BEYOND_STACK_BYTES_MAX, name_self};

/// What a signal handler was called in the middle of: the next instruction, and the stack pointer.
///
/// # Safety
/// 1. `context` is what the kernel has passed to the handler.
pub unsafe fn interrupted_at(context: *const core::ffi::c_void) -> (usize, usize) {
    // SAFETY: by 1.
    let it = unsafe { crate::sys::signals::Interrupted::of(context.cast_mut()) };
    (it.ip(), it.sp())
}

/// Bytes of a stack that it takes to be called in by a signal.
pub fn signal_bytes() -> usize {
    crate::preempt::stack_bytes()
}

/// The number of a text in the table, which lasts as long as the process; 0 = no room. Only once
/// the runtime has started.
pub fn intern(text: &str) -> u32 {
    crate::table::intern(text)
}

/// As [`intern`], of a role.
pub fn intern_role(role: &str) -> u16 {
    crate::table::intern_role(role)
}

/// What the monitor has counted so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counts {
    /// Times that a worker was found blocked in the kernel.
    pub blocked: u64,
    /// Times that a thread had kept its worker for a tick while others waited.
    pub overruns: u64,
    /// Times that a full thread was made to yield.
    pub preempted: u64,
    /// Spare workers that were started.
    pub spares: u64,
}

/// The monitor's counts; `None` before the runtime has started.
pub fn counts() -> Option<Counts> {
    let monitor = &runtime::get()?.monitor;
    Some(Counts {
        blocked: monitor.blocked.load(Relaxed),
        overruns: monitor.overruns.load(Relaxed),
        preempted: monitor.preempted.load(Relaxed),
        spares: monitor.spares.load(Relaxed),
    })
}
