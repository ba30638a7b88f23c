//! `pthread_cleanup_push` of C code that was compiled without exceptions: a `setjmp` buffer in the
//! frame, to which the unwind jumps so that the frame's own code can call the handler.
//!
//! C++ code, and C with exceptions, have their handlers as destructors and need nothing of this.
//!
//! The C library itself, and programs of long ago, have them in a list of the thread's structure:
//! so `fprintf` lets the stream's lock go. The C library runs it in its own unwinds; here it is run
//! by [`run_older`].
//!
//! In a child that a full thread has forked that thread is unwound by the C library, which has both
//! lists then ([`give_kernel`]) and comes to the end in a block around the start function.
//!
//! # Safety
//! For all exported functions of this file: the buffer is the caller's, open or being closed.

use core::cell::UnsafeCell;
use core::ffi::{c_int, c_void};
use core::{mem, ptr};

use super::{Pthread, end, running, this};
use crate::sys::callers;

/// glibc's `__pthread_unwind_buf_t`.
#[repr(C)]
pub struct Buffer {
    /// As `setjmp` has left them: callee-saved registers, then the stack pointer and where to go
    /// on, both scrambled.
    registers: [usize; 8],
    mask_was_saved: c_int,
    /// The buffer of the block around this one.
    outer: *mut Buffer,
    /// What the other list began with when the block was opened.
    older: *mut Older,
    theirs: [*mut c_void; 2],
}

const _: () = assert!(core::mem::offset_of!(Buffer, outer) == 72);

/// Which of the registers is the stack pointer, and where it goes on.
const STACK_POINTER: usize = 6;
const PLACE: usize = 7;
/// Where the thread's structure has what such pointers are scrambled with, and by how many bits
/// they are turned after that.
const POINTER_GUARD: usize = 0x30;
const TURNED_BITS: u32 = 17;

// SAFETY: the C library's functions, by its headers.
unsafe extern "C-unwind" {
    fn __pthread_register_cancel(buffer: *mut Buffer);
    fn __pthread_unregister_cancel(buffer: *mut Buffer);
    fn __pthread_unwind_next(buffer: *mut Buffer) -> !;
    fn _longjmp(buffer: *mut Buffer, value: c_int) -> !;
    fn _pthread_cleanup_push(entry: *mut Older, routine: Routine, argument: *mut c_void);
    fn _pthread_cleanup_pop(entry: *mut Older, runs: c_int);
}

type Routine = unsafe extern "C-unwind" fn(*mut c_void);

/// glibc's `struct _pthread_cleanup_buffer`.
#[repr(C)]
struct Older {
    routine: Routine,
    argument: *mut c_void,
    kind: c_int,
    outer: *mut Older,
}

unsafe extern "C-unwind" fn nothing(_: *mut c_void) {}

impl Buffer {
    /// The stack pointer of the frame that it lies in.
    fn frame(&self) -> usize {
        stack_pointer(&self.registers)
    }
}

/// What pointers are scrambled with.
fn guard() -> usize {
    // SAFETY: the calling thread's own structure.
    unsafe {
        let own = libc::pthread_self() as usize as *const u8;
        own.add(POINTER_GUARD).cast::<usize>().read()
    }
}

/// The stack pointer in what `setjmp` has left.
pub fn stack_pointer(registers: &[usize; 8]) -> usize {
    registers[STACK_POINTER].rotate_right(TURNED_BITS) ^ guard()
}

/// Goes on in the innermost open block, if the unwind has come to the frame that it lies in.
pub fn jump_into(me: &'static Pthread, frame: usize) {
    let buffer = me.own.cleanup.get();
    // SAFETY: null, or an open block's, whose frame has not been left.
    unsafe {
        if !buffer.is_null() && frame >= (*buffer).frame() {
            _longjmp(buffer, 1);
        }
    }
}

/// Looks at the calling thread's list, in `own`, which has what is innermost behind it.
fn with_older<T>(look: impl FnOnce(&mut Older) -> T) -> T {
    let mut own =
        Older { routine: nothing, argument: ptr::null_mut(), kind: 0, outer: ptr::null_mut() };
    // SAFETY: an entry of ours, which is taken out again.
    unsafe {
        _pthread_cleanup_push(&mut own, nothing, ptr::null_mut());
        let found = look(&mut own);
        _pthread_cleanup_pop(&mut own, 0);
        found
    }
}

/// Takes the innermost entry out of the calling thread's list, if it lies in a frame that was left.
fn take_older(frame: usize) -> Option<(Routine, *mut c_void)> {
    with_older(|own| {
        // SAFETY: what is there has not been left but for this unwind, which changes nothing in it.
        let innermost =
            unsafe { own.outer.as_ref() }.filter(|it| ptr::from_ref(*it).addr() <= frame)?;
        own.outer = innermost.outer;
        Some((innermost.routine, innermost.argument))
    })
}

/// Whether the calling thread is where the C library puts off asynchronous cancellation: what it
/// has locked, or never does, as in `sscanf`, has a routine of its own in the list.
pub fn is_put_off() -> bool {
    with_older(|own| {
        // SAFETY: as in `take_older`.
        let innermost = unsafe { own.outer.as_ref() };
        innermost.is_some_and(|it| callers::is_of_library(it.routine as usize))
    })
}

/// Runs what the thread's list has for frames that the unwind has left when it comes to `frame`.
pub fn run_older(frame: usize) {
    while let Some((routine, argument)) = take_older(frame) {
        // SAFETY: who has put it there said so.
        unsafe { routine(argument) };
    }
}

/// The block around the start function of a thread that has forked, in the child.
struct Outermost(UnsafeCell<Buffer>);

// SAFETY: only the one thread of a child uses it.
unsafe impl Sync for Outermost {}

static OUTERMOST: Outermost = Outermost(UnsafeCell::new(Buffer {
    registers: [0; 8],
    mask_was_saved: 0,
    outer: ptr::null_mut(),
    older: ptr::null_mut(),
    theirs: [ptr::null_mut(); 2],
}));

/// A frame begins below an address of this alignment, with where it returns to.
const FRAME_ALIGN: usize = 16;

/// Where the C library's unwind leaves the start function.
unsafe extern "C-unwind" fn come_to_end() -> ! {
    match this() {
        Some(me) => end::end(me),
        None => unreachable!("the block of a full thread is another's"),
    }
}

/// In a child that the calling full thread has forked: the C library has its blocks from here on,
/// and one more around them.
pub fn give_kernel(me: &Pthread) {
    let outermost = OUTERMOST.0.get();
    let top = me.own.base.get() / FRAME_ALIGN * FRAME_ALIGN - size_of::<usize>();
    let scrambled = |address: usize| (address ^ guard()).rotate_left(TURNED_BITS);
    // SAFETY: nobody else uses it.
    unsafe {
        (*outermost).registers[STACK_POINTER] = scrambled(top);
        (*outermost).registers[PLACE] = scrambled(come_to_end as *const () as usize);
    }
    // The list is turned around, and needs no memory: another thread of the parent may have locked
    // the allocator.
    let mut block = ptr::null_mut();
    let mut next = me.own.cleanup.replace(ptr::null_mut());
    // SAFETY: null, or an open block's, whose frame has not been left.
    while let Some(here) = unsafe { next.as_mut() } {
        (block, next) = (next, mem::replace(&mut here.outer, block));
    }
    // SAFETY: nobody else uses it.
    unsafe { (*outermost).outer = block };
    block = outermost;
    // SAFETY: as above; the C library puts each in front of those before.
    unsafe {
        while !block.is_null() {
            let inner = (*block).outer;
            __pthread_register_cancel(block);
            let mut older = (*block).older;
            while let Some(entry) = older.as_ref()
                && (block == outermost || older.addr() <= (*block).frame())
            {
                older = entry.outer;
            }
            (*block).older = older;
            block = inner;
        }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn heddle_user___pthread_register_cancel(buffer: *mut Buffer) {
    match running() {
        // SAFETY: the caller's buffer.
        Some(me) => unsafe { (*buffer).outer = me.own.cleanup.replace(buffer) },
        // SAFETY: as above.
        None => unsafe { __pthread_register_cancel(buffer) },
    }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn heddle_user___pthread_unregister_cancel(buffer: *mut Buffer) {
    match running() {
        // SAFETY: the caller's buffer.
        Some(me) => me.own.cleanup.set(unsafe { (*buffer).outer }),
        // SAFETY: as above.
        None => unsafe { __pthread_unregister_cancel(buffer) },
    }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn heddle_user___pthread_unwind_next(buffer: *mut Buffer) -> ! {
    match running() {
        Some(me) => {
            // SAFETY: the caller's buffer.
            me.own.cleanup.set(unsafe { (*buffer).outer });
            end::unwind(me)
        }
        // SAFETY: as above.
        None => unsafe { __pthread_unwind_next(buffer) },
    }
}
