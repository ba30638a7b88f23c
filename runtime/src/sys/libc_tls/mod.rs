//! Thread-local storage of full threads, made by the C library and filled in by hand.
//!
//! A full thread's block lies at the top of its stack, as that of glibc's own threads does:
//!
//! ```text
//!   x86-64    | stack  <- |  TLS of the libraries  |tp  struct pthread  | described | end
//!   aarch64   | stack  <- |  struct pthread  |tp  TLS of the libraries  | described | end
//! ```
//! `described` is room for what a layer above keeps of a thread ([`describe`]): who asks for that
//! has come from the thread pointer, and finds it in the same page.
//!
//! `_dl_allocate_tls` fills the libraries' part and makes the table of dynamic blocks (dtv).
//! `struct pthread` is zero but for the fields below. Where they lie is never taken from a table
//! of versions: [`probe`] finds each by its value, on two kernel threads made for that, and full
//! threads are refused where the two disagree or one is not found.
//!
//! | field | value | who reads it |
//! |---|---|---|
//! | tcb, self | the thread pointer | `pthread_self`, every access to TLS |
//! | dtv | by `_dl_allocate_tls`, or as it was | `__tls_get_addr` |
//! | multiple_threads, stack and pointer guard | as in every thread | locks, canaries, `setjmp` |
//! | tid | a number above all kernel thread ids; see [`set_tid`] | recursive mutexes |
//! | state (glibc 2.43) | as a thread has it that lives | `pthread_cancel` in a forked child |
//! | robust list head | empty | robust mutexes |
//! | link in the list of threads | itself alone | `fork`, which takes it out in the child |
//! | specific | the first block of keys inside the structure | `pthread_getspecific` |
//! | stackblock and its size | the thread's stack | `pthread_getattr_np` |
//! | rseq area | cpu id -2: not registered | `sched_getcpu`, per-CPU caches |
//!
//! Beside the structure two things of the library are set: the pointer to the resolver's state
//! (`__resp`), and what malloc keeps per thread (see [`heap`]).
//!
//! Invariant: a block is used from [`prepare`] until [`retire`], which runs on another stack, and
//! whoever runs on it has its thread pointer. Then it is kept with its stack (see [`kept`]).
//!
//! Not done: a block is not in glibc's lists of stacks. So a library that is loaded later with
//! initial-exec TLS finds zeros instead of its initial values in full threads that exist by then,
//! until somebody looks for such libraries ([`late`]): its constructors may find them. The kernel
//! does not know the tid, so `pthread_getattr_np` ends with ESRCH after it has found the stack,
//! when it asks for the affinity. For the same reason a mutex with priority inheritance that a full
//! thread holds is never had by who waits for it in the kernel. Texts that `strerror` and
//! `strsignal` made for unknown numbers are freed by nobody.

mod changed;
mod functions;
mod heap;
mod kept;
mod kernel;
mod keys;
pub(crate) mod late;
mod named;
mod probe;
pub(crate) mod rseq;
mod wipe;

use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicIsize, AtomicUsize};
use std::ffi::c_void;
use std::io;
use std::sync::{Mutex, OnceLock, PoisonError};

use self::functions::Functions;
use self::probe::Fields;

pub(crate) use self::heap::decay;

/// First tid of full threads: above the largest that the kernel gives (`PID_MAX_LIMIT`, 2^22),
/// and inside the 30 bits that a mutex has for it.
const TID_FIRST: u32 = 1 << 29;
/// Blocks are aligned and sized by this where the libraries ask for no more.
const LINE: usize = 64;
/// The most that they may ask for: what it takes is lost of each stack.
const ALIGN_MAX: usize = 4096;
/// Most of the libraries' part of a block that is asked for as its thread starts: a program may
/// have much that none of its threads touches.
const START_BYTES_MAX: usize = 16 * LINE;
/// Most of what a new thread finds below its block: its closure, and the frame of its first call.
const PACKET_BYTES: usize = 2 * LINE;

/// What is known of the C library: how large a block is, where its fields are.
pub(crate) struct Library {
    functions: Functions,
    fields: Fields,
    /// What makes a block new that was kept; `None` = none is.
    init: Option<kept::Init>,
    /// Bytes of a block below and from its thread pointer on; multiples of [`LINE`], the first of
    /// the alignment, too.
    below: usize,
    above: usize,
    /// Of thread pointers; a power of two from [`LINE`] on.
    align: usize,
    /// What of `below` the libraries used that were there at the start.
    used_below: usize,
    /// Bytes behind `above`, see [`describe`].
    described: usize,
}

/// The stack of a full thread as the C library is to see it.
pub(crate) struct Stack {
    pub low: *mut u8,
    pub bytes: usize,
}

static LIBRARY: OnceLock<Result<Library, String>> = OnceLock::new();
/// Where a block's thread pointer is: the last multiple of an alignment that leaves so many bytes.
pub(crate) struct Place {
    /// `above` and `described`.
    pub above: AtomicUsize,
    /// What of an address a multiple of the alignment has.
    pub mask: AtomicUsize,
}

/// What is needed often of [`LIBRARY`], and `Fields::own`.
pub(crate) static PLACE: Place = Place { above: AtomicUsize::new(0), mask: AtomicUsize::new(!0) };
static OWN: AtomicIsize = AtomicIsize::new(0);
/// Bytes behind each block for what describes the thread.
static DESCRIBED: AtomicUsize = AtomicUsize::new(0);

/// Asks for so many bytes behind each block; before the library is examined.
pub(crate) fn describe(bytes: usize) {
    DESCRIBED.store(bytes.next_multiple_of(LINE), Relaxed);
}

/// Where the description of the thread with the thread pointer `tls` lies, if it has room there.
pub(crate) fn description(tls: *mut u8, bytes: usize) -> Option<*mut u8> {
    let library = examined();
    (bytes <= library.described).then(|| tls.wrapping_add(library.above))
}

/// The library, examined at the first call; the error says what is missing. Where a kernel thread
/// is refused, the next call looks again.
pub(crate) fn library() -> Result<&'static Library, &'static str> {
    static EXAMINING: Mutex<()> = Mutex::new(());
    if LIBRARY.get().is_none() {
        let _one = EXAMINING.lock().unwrap_or_else(PoisonError::into_inner);
        if LIBRARY.get().is_none() {
            let library = Library::examine();
            if library.is_ok() {
                // The examination made kernel threads, so the C library has its handler now.
                super::identities::prepare();
                crate::preempt::guarded::c_library();
            }
            if library.as_ref().is_err_and(|error| error.starts_with(probe::REFUSED)) {
                return Err(probe::REFUSED);
            }
            let _ = LIBRARY.set(library);
        }
    }
    match LIBRARY.get() {
        Some(library) => library.as_ref().map_err(String::as_str),
        None => unreachable!("it was examined"),
    }
}

/// As [`library`], for threads that exist: then it has been examined.
fn examined() -> &'static Library {
    match LIBRARY.get() {
        Some(Ok(library)) => library,
        _ => unreachable!("a full thread without a library"),
    }
}

impl Library {
    fn examine() -> Result<Library, String> {
        if cfg!(any(heddle_asan, heddle_tsan)) {
            return Err("sanitizers keep their threads in thread-local storage".into());
        }
        if super::probe::fsgsbase() == Some(false) {
            return Err("the processor, the kernel or the emulator lacks FSGSBASE".into());
        }
        // A place that can be read: else what the C library has would be called wrong.
        if super::memory::read_anywhere((&raw const LIBRARY).addr()).is_none() {
            return Err("no file descriptors to look at the C library's threads with".into());
        }
        let functions = Functions::find()?;
        let fields = probe::examine(&functions)?;
        let (bytes, align) = functions.static_bytes();
        if align > ALIGN_MAX || !align.is_power_of_two() {
            return Err(format!("a library asks for TLS aligned to {align} bytes"));
        }
        let align = align.max(LINE);
        let pthread = functions.pthread_bytes;
        // On x86-64 the static bytes have the structure in them, on aarch64 they don't.
        let (below, above) = if cfg!(target_arch = "x86_64") {
            (bytes.saturating_sub(pthread), pthread)
        } else {
            (pthread, bytes)
        };
        let (below, above) = (below.next_multiple_of(align), above.next_multiple_of(LINE));
        fields.check(below, above)?;
        let described = DESCRIBED.load(Relaxed);
        PLACE.above.store(above + described, Relaxed);
        PLACE.mask.store(!(align - 1), Relaxed);
        OWN.store(fields.own, Relaxed);
        let init = kept::examine(&functions, &fields.wipe, below, above);
        let used_below = kept::used_below(below, above);
        Ok(Library { functions, fields, init, below, above, align, used_below, described })
    }

    /// Bytes of a block, and of what is behind it, with what its alignment may take.
    pub fn block_bytes(&self) -> usize {
        self.below + self.above + self.described + (self.align - LINE)
    }
}

/// Makes the block around the thread pointer `tls`; `is_kept`: [`retire`] has kept one there.
///
/// # Safety
/// 1. `[tls - below, tls + above)` is writable memory that nobody else uses until [`retire`].
/// 2. `tls` is what [`pointer_below`] gives.
/// 3. A block that was kept has not been touched since.
pub(crate) unsafe fn prepare(
    tls: *mut u8,
    stack: &Stack,
    number: u32,
    is_kept: bool,
) -> io::Result<()> {
    let library = examined();
    let (functions, fields) = (&library.functions, &library.fields);
    let init = library.init.filter(|_| is_kept);
    // SAFETY: by 1 and 2: all fields were checked to lie inside the block. By 3.
    unsafe {
        if let Some(init) = init {
            let wiped = (&fields.wipe, functions.pthread_of(tls));
            kept::renew(init, wiped, tls, library.below, library.above);
        } else {
            tls.sub(library.below).write_bytes(0, library.below + library.above);
            if (functions.allocate_tls)(tls.cast::<c_void>()).is_null() {
                let text = "out of memory for thread-local storage";
                return Err(io::Error::new(io::ErrorKind::OutOfMemory, text));
            }
        }
        fields.fill(functions.pthread_of(tls), stack, TID_FIRST + number);
        fields.fill_libraries(tls, functions.pthread_of(tls));
        heap::give(tls, &fields.heap);
    }
    Ok(())
}

/// Where the stack below the block with the thread pointer `tls` begins.
#[cold]
pub(crate) fn stack_top(tls: *mut u8) -> *mut u8 {
    tls.wrapping_sub(examined().below)
}

/// Asks for the lines of a kept block that will be written at once, and of what a new thread finds
/// below it: another kernel thread mostly wrote them last.
#[cold]
pub(crate) fn prefetch_kept(tls: *mut u8) {
    let library = examined();
    let ask = |low: *mut u8, bytes: usize| {
        for line in (0..bytes).step_by(LINE) {
            crate::arch::prefetch_to_write(low.wrapping_add(line));
        }
    };
    let pthread = library.functions.pthread_of(tls);
    for part in library.fields.wipe.always() {
        ask(pthread.wrapping_add(part.start), part.len());
    }
    // What the libraries of the start use; between that and the stack is room for later ones.
    if cfg!(target_arch = "x86_64") {
        ask(tls.wrapping_sub(library.used_below), library.used_below);
    } else {
        ask(tls, library.above);
    }
    ask(tls.wrapping_add(library.above), library.described);
    ask(tls.wrapping_sub(library.below + PACKET_BYTES), PACKET_BYTES);
}

/// Asks for the lines of a new block that its thread reads and writes first.
pub(crate) fn prefetch_start(tls: *mut u8) {
    let Some(Ok(library)) = LIBRARY.get() else { return };
    let (low, bytes) = if cfg!(target_arch = "x86_64") {
        let used = library.used_below.min(START_BYTES_MAX);
        (tls.wrapping_sub(used), used + LINE)
    } else {
        (tls, library.above.min(START_BYTES_MAX))
    };
    for line in (0..bytes).step_by(LINE) {
        crate::arch::prefetch_to_write(low.wrapping_add(line));
    }
    prefetch_described(tls);
}

/// Asks for what lies behind a block.
#[inline]
pub(crate) fn prefetch_described(tls: *mut u8) {
    let Some(Ok(library)) = LIBRARY.get() else { return };
    for line in (0..library.described).step_by(LINE) {
        crate::arch::prefetch_to_write(tls.wrapping_add(library.above + line));
    }
}

/// Where a block begins and ends, from its thread pointer.
fn block_bounds() -> (isize, isize) {
    let library = examined();
    (library.below as isize, library.above as isize)
}

/// The thread pointer of a block that ends, with what is behind it, below `end`, a multiple of
/// [`LINE`].
#[inline(always)]
pub(crate) fn pointer_below(end: *mut u8) -> *mut u8 {
    let highest = end.wrapping_sub(PLACE.above.load(Relaxed));
    highest.map_addr(|address| address & PLACE.mask.load(Relaxed))
}

/// Where the thread with the thread pointer `tls` has what it knows of itself: `full::OWN` in its
/// block.
pub(crate) fn own_of<T>(tls: *mut u8) -> *mut T {
    tls.wrapping_offset(OWN.load(Relaxed)).cast()
}

/// First thing on a full thread: what the C library does on each new thread.
pub(crate) fn begin() {
    // SAFETY: sets the calling thread's pointers to the tables of its locale.
    unsafe { (examined().functions.ctype_init)() };
}

/// The C library's functions write `tid` into what the calling full thread locks from now on.
/// Returns the number by which it holds what it has locked already.
pub fn set_tid(tid: u32) -> u32 {
    let library = examined();
    let pthread = library.functions.pthread_of(crate::arch::thread_pointer() as *mut u8);
    // SAFETY: a full thread's own.
    unsafe { library.fields.set_tid(pthread, tid) }
}

/// Runs the destructors of the calling full thread's locals and keys, in the C library's order.
/// They are the program's and may block.
pub(crate) fn run_destructors() {
    let library = examined();
    let pthread = library.functions.pthread_of(crate::arch::thread_pointer() as *mut u8);
    // SAFETY: the calling thread's own; destructors of keys may have made locals again.
    unsafe {
        (library.functions.call_tls_dtors)();
        if library.fields.wipe.may_have_values(pthread) {
            keys::run_destructors(pthread.add(library.fields.specific), library.functions.keys);
            (library.functions.call_tls_dtors)();
        }
        library.fields.close_resolver(pthread, library.functions.close_resolver);
        // The first call tells an error that was not asked for; the second frees its text.
        libc::dlerror();
        libc::dlerror();
    }
}

/// Gives back what the C library holds for a block whose thread has ended; true: it is kept for
/// the next thread on this stack, which [`prepare`]s it, or [`discard`]s it to use its memory.
///
/// # Safety
/// 1. `tls` was prepared, its thread has left its stack for good, and this is the only call.
pub(crate) unsafe fn retire(tls: *mut u8) -> bool {
    let library = examined();
    // SAFETY: by 1. The blocks of keys beyond the first are the allocator's.
    unsafe {
        heap::take(tls, &library.fields.heap);
        let pthread = library.functions.pthread_of(tls);
        if library.fields.wipe.may_have_values(pthread) {
            keys::free_blocks(pthread.add(library.fields.specific));
        }
        if library.init.is_some() && kept::is_static(tls) {
            return true;
        }
        discard(tls);
    }
    false
}

/// Gives back what is left of a block that was kept.
///
/// # Safety
/// 1. [`retire`] has kept the block at `tls`, nobody has used it since, and this is the only call.
pub(crate) unsafe fn discard(tls: *mut u8) {
    // SAFETY: by 1.
    unsafe { (examined().functions.deallocate_tls)(tls.cast::<c_void>(), false) };
}
