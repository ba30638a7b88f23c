//! The kernel threads of the program, from their first function to their end.
//!
//! Those that the program makes count among the threads that live (`mod.rs`) until the last round
//! of destructors: the process ends with the last thread, whatever that is. The others are this
//! library's and the C library's own, and count as little as the workers.
//!
//! At its end each gives its control block in the runtime back. It gets one when it first waits for
//! a lock or a word, and that may be in the middle of the program's allocator, whose locks are this
//! library's. std would see to the end of a thread by `__cxa_thread_atexit_impl`, which allocates:
//! the allocator would be entered twice. (redis with jemalloc stood still so.) The destructor of a
//! key needs no memory for one of the first keys of a process.
//!
//! Invariant: nothing here allocates at a thread's end, and nothing waits.

use core::convert::Infallible;
use core::ffi::{c_int, c_void};
use core::ptr;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicUsize, fence};

use heddle::raw;
use libc::{pthread_attr_t, pthread_t};

use super::own::{ENDS, LIVES};
use super::signals::{process, stray};
use super::{Start, cancel, count_in_kernel, count_out_kernel, end, fork, own};
use crate::account::{self, Origin};
use crate::calls::mask;
use crate::sys::robust;

/// `PTHREAD_KEY_2NDLEVEL_SIZE` of glibc: values of so many keys lie in the thread's own block.
const KEYS_INSIDE: u32 = 32;
const NONE: u32 = u32::MAX;

static KEY: AtomicU32 = AtomicU32::new(NONE);
/// Of those that count among the threads that live; its value is [`counted`].
static COUNTED: AtomicU32 = AtomicU32::new(NONE);

/// `PTHREAD_DESTRUCTOR_ITERATIONS`: so often destructors are run as long as there are values.
const ROUNDS: usize = 4;

/// The main thread: in a child the one that has forked it.
static MAIN: AtomicUsize = AtomicUsize::new(0);
/// What it has passed to `pthread_exit`; before that `PTHREAD_CANCELED`.
static MAIN_RESULT: AtomicPtr<c_void> = AtomicPtr::new(ptr::without_provenance_mut(usize::MAX));

/// When the library is loaded: the key is one of the first then.
#[used]
#[unsafe(link_section = ".init_array")]
static AT_LOAD: extern "C" fn() = at_load;

extern "C" fn at_load() {
    make_key(&KEY, at_end);
    make_key(&COUNTED, at_end_of_counted);
    raw::arrange_end(arrange);
    begin_main();
    // What blocked the program before this one that the process was, or who has started it.
    process::masked(mask::own());
}

/// The caller is the main thread.
fn begin_main() {
    // SAFETY: any thread may ask who it is.
    MAIN.store(unsafe { libc::pthread_self() } as usize, Relaxed);
}

/// The caller is the one thread of a child, and its main thread. It may have been another in the
/// parent, and that one may have come to its end.
pub fn in_child() {
    begin_main();
    MAIN_RESULT.store(ptr::without_provenance_mut(usize::MAX), Relaxed);
    own::end().store(0, Relaxed);
}

/// Whether `thread` is the main thread, whose kernel thread does not end before the process.
pub fn is_main(thread: pthread_t) -> bool {
    thread as usize == MAIN.load(Relaxed)
}

/// What the main thread, which has come to its end, is joined with.
pub fn result_of_main() -> *mut c_void {
    MAIN_RESULT.load(Relaxed)
}

fn make_key(place: &AtomicU32, at_end: unsafe extern "C" fn(*mut c_void)) {
    let mut key = NONE;
    // SAFETY: a valid place.
    if unsafe { libc::pthread_key_create(&mut key, Some(at_end)) } == 0 {
        place.store(key, Relaxed);
    }
}

/// A kernel thread has got a control block. Without a key it keeps it.
fn arrange() {
    let key = KEY.load(Relaxed);
    if key < KEYS_INSIDE {
        // SAFETY: the key exists; the value is not followed.
        unsafe { libc::pthread_setspecific(key, ptr::without_provenance(1)) };
        show_block();
    }
}

/// Says where the calling thread has its control block, for [`cancel_wait`].
pub fn show_block() {
    // ORDER: SeqCst, with the fence in `cancel::before_wait`: the block before the look for a
    // request.
    own::block().store(raw::control_block(), SeqCst);
}

/// In a block's address: somebody is about to cancel its thread, which does not give it up.
const USED: usize = 1;

/// A kernel thread was cancelled by the C library: ends the wait in the lot that it is in, or the
/// next one.
///
/// # Safety
/// 1. `thread` names a thread that exists, as POSIX asks for.
pub unsafe fn cancel_wait(thread: pthread_t) {
    // ORDER: SeqCst: the request before the look for the block; pairs with `cancel::before_wait`.
    fence(SeqCst);
    // SAFETY: by 1 that thread's words.
    let place = unsafe { &(*own::words_of(thread)).block };
    let _pin = raw::pin();
    let block = place.load(SeqCst);
    // Whoever uses it cancels the same thread.
    if block.is_null() || block.addr() & USED != 0 {
        return;
    }
    let used = block.map_addr(|address| address | USED);
    // ORDER: Acquire, Release: the thread keeps the block in between.
    if place.compare_exchange(block, used, Acquire, Relaxed).is_ok() {
        // SAFETY: it is the thread's, see `hide_block`.
        unsafe { raw::cancel_kernel_thread(block) };
        place.store(block, Release);
    }
}

/// The calling thread is about to give its control block up.
fn hide_block() {
    let place = own::block();
    loop {
        let block = place.load(Relaxed).map_addr(|address| address & !USED);
        // ORDER: Acquire pairs with the Release in `cancel_wait`.
        if place.compare_exchange(block, ptr::null_mut(), Acquire, Relaxed).is_ok() {
            return;
        }
        rustix::thread::sched_yield();
    }
}

/// If a later destructor waits, the thread gets a new block, and this comes again: glibc looks up
/// to four times whether there are values.
///
/// # Safety
/// 1. The calling thread ends.
unsafe extern "C" fn at_end(_value: *mut c_void) {
    hide_block();
    raw::end_kernel_thread();
}

// ---- those that count

/// What a kernel thread of the program runs.
struct Call {
    start: Start,
    argument: *mut c_void,
    /// The mask that it begins with, where that is not its maker's in the kernel.
    blocked: Option<u64>,
}

mod real {
    //! With the start function's type as we have it.
    use super::{Start, c_int, c_void, pthread_attr_t, pthread_t};

    // SAFETY: the C library's function.
    unsafe extern "C" {
        pub fn pthread_create(
            thread: *mut pthread_t,
            attr: *const pthread_attr_t,
            start: Start,
            argument: *mut c_void,
        ) -> c_int;
    }
}

/// `pthread_create` of a kernel thread; `origin` says what the program itself called, and `blocked`
/// what the thread blocks by its attributes.
///
/// # Safety
/// As `pthread_create`.
pub unsafe fn create(
    thread: *mut pthread_t,
    attr: *const pthread_attr_t,
    (start, argument): (Start, *mut c_void),
    origin: &Origin,
    blocked: Option<u64>,
) -> c_int {
    // A full thread's mask is not its worker's.
    let inherited = crate::me().filter(|_| blocked.is_none()).map(|_| mask::own());
    let call = Box::into_raw(Box::new(Call { start, argument, blocked: inherited })).cast();
    let begin: Start = begin;
    count_in_kernel();
    // SAFETY: as the caller promises; `begin` takes what it is given.
    let error = unsafe {
        account::create_kernel_thread(thread, attr, (begin, call), origin)
            .unwrap_or_else(|| real::pthread_create(thread, attr, begin, call))
    };
    if error != 0 {
        count_out_kernel();
        // SAFETY: no thread has it.
        drop(unsafe { Box::from_raw(call.cast::<Call>()) });
    }
    error
}

/// First function of the program's kernel threads.
///
/// # Safety
/// 1. [`create`] made the call, for this thread.
unsafe extern "C-unwind" fn begin(call: *mut c_void) -> *mut c_void {
    // SAFETY: by 1. Nothing of it is left when the start function, which may end the thread, is
    // called.
    let Call { start, argument, blocked } = *unsafe { Box::from_raw(call.cast::<Call>()) };
    if let Some(blocked) = blocked {
        mask::take_on(blocked);
    }
    // Before a child that has this memory could leave its own number there.
    super::mark();
    if set_counted(1) {
        own::end().store(LIVES, Relaxed);
        // Who joins it already.
        raw::futex_wake(own::end(), u32::MAX, raw::ANY);
    } else {
        // Nobody can see its end: it does not hold the process.
        count_out_kernel();
    }
    stray::begin(mask::own());
    let generation = fork::generation();
    // SAFETY: as the caller of `pthread_create` promises.
    let result = unsafe { start(argument) };
    if fork::generation() != generation {
        exit_main(result);
    }
    result
}

/// The program is about to make its first thread: sees to it that the main thread, should it be
/// cancelled, waits at its end for the others (the workers hold the process) and ends the process.
pub fn keep_main() {
    if is_main_of_process() {
        set_counted(1);
    }
}

/// The main thread calls `pthread_exit`, or in a child returns from its start function: as
/// [`keep_main`], for processes that have made no thread. Who joins it gets `result`.
pub fn exit_main(result: *mut c_void) {
    if is_main_of_process() {
        MAIN_RESULT.store(result, Relaxed);
        set_counted(1);
    }
}

fn is_main_of_process() -> bool {
    rustix::thread::gettid() == rustix::process::getpid()
}

/// A value of the key: in which round of destructors it is looked at, and in which process. A
/// thread that has forked is none that counts in its child.
fn counted(round: usize) -> usize {
    fork::generation() as usize * (ROUNDS + 1) + round
}

fn set_counted(round: usize) -> bool {
    let (key, value) = (COUNTED.load(Relaxed), ptr::without_provenance(counted(round)));
    // SAFETY: the key exists; the value is not followed.
    key != NONE && unsafe { libc::pthread_setspecific(key, value) } == 0
}

/// The calling thread has run its destructors.
fn tell_end() {
    let end = own::end();
    // ORDER: Release pairs with the Acquire in `join.rs`. Who joins it may have joined it, and its
    // word be gone, when the wake comes.
    end.store(ENDS, Release);
    raw::futex_wake(end, u32::MAX, raw::ANY);
}

/// The calling thread ends as the kernel's exit(2) does it, without a destructor. The main thread
/// stays until the last thread has ended. The status of that one is the process's.
pub fn ends_by_number(status: c_int) {
    end::LAST_STATUS.store(status, Relaxed);
    if is_main_of_process() {
        MAIN_RESULT.store(ptr::null_mut(), Relaxed);
        end_main(|| {
            // SAFETY: no pointers.
            unsafe { libc::_exit(end::LAST_STATUS.load(Relaxed)) }
        });
    }
    let key = COUNTED.load(Relaxed);
    // SAFETY: the key exists; the value is not followed.
    if key != NONE && !unsafe { libc::pthread_getspecific(key) }.is_null() {
        end_of_counted();
    }
}

/// The calling main thread, which runs nothing of the program's any more, waits for the others, and
/// ends the process as `exit` does. What the kernel does at a thread's end is done before.
fn end_main(exit: impl FnOnce() -> Infallible) -> ! {
    cancel::never_again();
    process::end_main();
    robust::end();
    tell_end();
    end::end_process(exit)
}

/// The calling kernel thread, which counts, has run what it had to run.
fn end_of_counted() {
    process::ended(mask::own);
    stray::end();
    tell_end();
    count_out_kernel();
}

/// Comes again in the last round, when all other destructors have had theirs.
///
/// # Safety
/// 1. The calling thread ends.
unsafe extern "C" fn at_end_of_counted(value: *mut c_void) {
    match value.addr().wrapping_sub(counted(0)) {
        round @ 1..ROUNDS => _ = set_counted(round + 1),
        ROUNDS => {
            if is_main_of_process() {
                end_main(|| std::process::exit(0));
            }
            end::LAST_STATUS.store(0, Relaxed);
            end_of_counted();
        }
        // The one thread of a child: in the second round.
        _ => _ = set_counted(2),
    }
}
