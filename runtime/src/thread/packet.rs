//! The packet: a thread's closure before it runs, its result afterwards.
//!
//! It lies at the top of the thread's own stack, so creating a thread allocates nothing; a large
//! one lies on the heap. The stack is not reused before the last reference to the thread is
//! gone, and the one `JoinHandle` holds a reference.
//!
//! Who drops the result: the handle that joins; a handle that goes without joining, when the
//! thread has ended by then; else the thread itself, which finds itself detached.

use core::mem::ManuallyDrop;
use core::ptr;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::join::{self, hand_over};
use crate::arch::Context;
use crate::control::{Control, OWN_TLS};
use crate::full;
use crate::sys::libc_tls;

/// Packets above this many bytes go to the heap: small stacks are for the thread.
const PACKET_BYTES_MAX: usize = 1024;

/// See the file's head.
pub(crate) union Packet<F, T> {
    closure: ManuallyDrop<F>,
    result: ManuallyDrop<super::Result<T>>,
}

/// Whether the packet of this closure and result lies on the heap.
const fn on_heap<F, T>() -> bool {
    size_of::<Packet<F, T>>() > PACKET_BYTES_MAX || align_of::<Packet<F, T>>() > 64
}

/// Writes `closure` to where the thread finds it and points the thread's context at its start.
///
/// Returns where the result will be.
#[inline]
pub(crate) fn prepare<F, T>(thread: &'static Control, closure: F) -> *mut super::Result<T>
where
    F: FnOnce() -> T,
{
    let top = thread.stack_top();
    let packet = Packet::<F, T> { closure: ManuallyDrop::new(closure) };
    let (packet, sp) = if on_heap::<F, T>() {
        let packet = Box::into_raw(Box::new(packet));
        // The thread finds the pointer where a small packet would lie.
        let sp = top.wrapping_sub(64).cast::<*mut Packet<F, T>>();
        // SAFETY: the top of the stack is committed memory that nobody uses yet.
        unsafe { sp.write(packet) };
        (packet, sp.cast::<u8>())
    } else {
        let place = top.wrapping_sub(size_of::<Packet<F, T>>().next_multiple_of(64));
        // SAFETY: as above; `top` is 64-byte aligned, so is the place.
        unsafe { place.cast::<Packet<F, T>>().write(packet) };
        (place.cast(), place)
    };
    let argument = ptr::from_ref(thread).cast_mut().cast();
    thread.context.set(Context::entry(sp, enter::<F, T>, argument));
    packet.cast()
}

/// First Rust function of a thread.
///
/// # Safety
/// 1. Called by the trampoline with what [`prepare`] left, once.
unsafe extern "C-unwind" fn enter<F, T>(thread: *mut u8, sp: *mut u8) -> !
where
    F: FnOnce() -> T,
{
    // SAFETY: `prepare` passed the control block of this thread, which is a slot of the slab.
    let me: &'static Control = unsafe { &*thread.cast() };
    let packet: *mut Packet<F, T> = if on_heap::<F, T>() {
        // SAFETY: `prepare` wrote the pointer there.
        unsafe { sp.cast::<*mut Packet<F, T>>().read() }
    } else {
        sp.cast()
    };
    begin(me);
    run_packet(me, packet);
    finish(me)
}

/// First thing on a thread's stack.
pub(crate) fn begin(me: &'static Control) {
    #[cfg(feature = "sim")]
    full::begin_in_simulation(Some(me));
    if let Some(here) = full::here() {
        here.begin();
    }
    if me.flags.get() & OWN_TLS != 0 {
        full::begin();
    }
}

/// Runs the destructors of the values that the ending thread has by itself.
#[inline]
pub(crate) fn destroy_values(me: &'static Control) {
    if me.flags.get() & OWN_TLS != 0 {
        return destroy_all_values(me);
    }
    super::local::destroy(me);
}

/// Of a full thread, which has those of the C library and the language too.
#[cold]
fn destroy_all_values(me: &'static Control) {
    let all = super::local::destroy(me);
    libc_tls::run_destructors();
    if all {
        // Those may have used ours.
        super::local::destroy(me);
    }
}

/// Runs the closure and leaves its result in the packet.
///
/// Never inlined: its locals are gone when the thread finishes.
#[inline(never)]
fn run_packet<F, T>(me: &'static Control, packet: *mut Packet<F, T>)
where
    F: FnOnce() -> T,
{
    // SAFETY: the packet holds the closure, and this is the only place that takes it.
    let closure = unsafe { ManuallyDrop::take(&mut (*packet).closure) };
    let result = catch_unwind(AssertUnwindSafe(closure));
    me.prefetch_for_end();
    destroy_values(me);
    // SAFETY: the closure is gone; the packet has room for the result.
    unsafe { (*packet).result = ManuallyDrop::new(result) };
    if !hand_over(me) {
        // SAFETY: nobody else will look at the result: detached.
        unsafe { drop_packet::<F, T>(packet.cast()) };
        // Its destructor may have made values again.
        destroy_values(me);
    }
}

/// The end of a thread without a packet: locals go, the joiner learns, the stack is left.
pub(crate) fn end_raw(me: &'static Control) -> ! {
    destroy_values(me);
    end_destroyed(me)
}

/// As [`end_raw`], when the locals are gone.
pub(crate) fn end_destroyed(me: &'static Control) -> ! {
    hand_over(me);
    finish(me)
}

/// Leaves the thread for good.
pub(crate) fn finish(me: &'static Control) -> ! {
    me.record().set_state(heddle_record::State::Finished);
    match full::here() {
        Some(here) => here.worker().end(me),
        None => unreachable!("a user-level thread runs on a worker"),
    }
}

/// Takes the result out and frees the packet's memory if it is on the heap.
///
/// # Safety
/// 1. `result` came from [`prepare`] with the same types; the thread has handed it over.
/// 2. It is called once per thread.
pub(crate) unsafe fn take_result<F, T>(result: *mut super::Result<T>) -> super::Result<T> {
    // SAFETY: by 1 and 2.
    let value = unsafe { result.read() };
    if on_heap::<F, T>() {
        // SAFETY: `prepare` made it from a box of this type; its content was moved out.
        drop(unsafe { Box::from_raw(result.cast::<ManuallyDrop<Packet<F, T>>>()) });
    }
    value
}

/// Drops the result and frees the packet.
///
/// # Safety
/// As [`take_result`].
pub(crate) unsafe fn drop_packet<F, T>(result: *mut super::Result<T>) {
    // SAFETY: passed on.
    drop(unsafe { take_result::<F, T>(result) });
}

/// Gives the handle's interest in the result up; drops the result if it is there.
///
/// # Safety
/// As [`take_result`], and the result was not taken.
pub(crate) unsafe fn detach<F, T>(thread: &'static Control, result: *mut super::Result<T>) {
    if !join::detach(thread) {
        // SAFETY: handed over; the caller's promise.
        unsafe { drop_packet::<F, T>(result) };
    }
}
