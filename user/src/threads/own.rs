//! The words that every thread has by itself: which full thread it is, and of which kind.
//!
//! They lie in static thread-local storage, at one and the same distance from every thread
//! pointer, so that a `pthread_t` leads to them. The jumps of taken names look at the first one.

use core::ffi::c_void;
use core::ptr;
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU8, AtomicU32};

use libc::pthread_t;

use super::Pthread;

/// See the file's head. All zero in a kernel thread. What a thread has set stays in its memory
/// after its end, as long as its `pthread_t` may be joined.
#[repr(C)]
pub struct Own {
    /// The thread while it runs on workers.
    running: *const Pthread,
    /// The thread.
    pub thread: *const Pthread,
    /// Its kind's number in the account (`account/`), 0 = none.
    pub kind: AtomicU32,
    /// It waits for events by asking what is ready (`calls/turns.rs`).
    is_told: AtomicBool,
    /// So many receives that find nothing wait at once (`calls/turns.rs`).
    in_vain: AtomicU8,
    /// How often in a row it has asked in vain what is ready (`calls/turns.rs`).
    asks: AtomicU8,
    /// It looks for libraries (`libraries.rs`).
    looks: AtomicBool,
    /// What it asked then.
    asked: AtomicI32,
    /// Of a kernel thread that counts among the program's (`kernel.rs`): [`LIVES`], then [`ENDS`].
    pub end: AtomicU32,
    /// Of a kernel thread: its control block, for who cancels it (`kernel.rs`); null without one.
    pub block: AtomicPtr<()>,
}

/// As arch/ has it.
const BYTES: usize = 48;
const _: () = assert!(size_of::<Own>() <= BYTES);

/// `end`: it has begun.
pub const LIVES: u32 = 1;
/// `end`: it has come to its end but for what the C library does then.
pub const ENDS: u32 = 2;

impl Own {
    /// Whether the thread has come to its end, or is none of this process.
    pub fn has_ended(&self) -> bool {
        self.running.is_null()
    }
}

// SAFETY: in arch/; takes nothing and keeps all registers but the result's.
unsafe extern "C" {
    #[link_name = "heddle_user_own_words"]
    safe fn own_words() -> *mut c_void;
}

/// The calling thread's.
#[inline(always)]
fn words() -> *mut Own {
    own_words().cast()
}

/// How far the words are from the thread pointer.
pub fn distance() -> usize {
    // SAFETY: any thread may ask who it is.
    let own = unsafe { libc::pthread_self() } as usize;
    (words() as usize).wrapping_sub(own)
}

/// Where `thread` has its words.
pub fn words_of(thread: pthread_t) -> *mut Own {
    ptr::with_exposed_provenance_mut((thread as usize).wrapping_add(distance()))
}

/// The calling thread's identity; null for a kernel thread.
#[inline(always)]
pub fn thread() -> *const Pthread {
    // SAFETY: the calling thread's own words.
    unsafe { (*words()).thread }
}

/// The calling thread's kind.
pub fn kind() -> &'static AtomicU32 {
    // SAFETY: the calling thread's own words, which live as long as it.
    unsafe { &(*words()).kind }
}

/// See [`Own`].
pub fn is_told() -> &'static AtomicBool {
    // SAFETY: the calling thread's own words, which live as long as it.
    unsafe { &(*words()).is_told }
}

/// See [`Own`].
pub fn looks() -> &'static AtomicBool {
    // SAFETY: the calling thread's own words, which live as long as it.
    unsafe { &(*words()).looks }
}

/// See [`Own`].
pub fn in_vain() -> &'static AtomicU8 {
    // SAFETY: the calling thread's own words, which live as long as it.
    unsafe { &(*words()).in_vain }
}

/// See [`Own`]: how often, and which descriptor.
pub fn asks() -> (&'static AtomicU8, &'static AtomicI32) {
    // SAFETY: the calling thread's own words, which live as long as it.
    unsafe { (&(*words()).asks, &(*words()).asked) }
}

/// See [`Own`].
pub fn end() -> &'static AtomicU32 {
    // SAFETY: the calling thread's own words, which live as long as it.
    unsafe { &(*words()).end }
}

/// See [`Own`].
pub fn block() -> &'static AtomicPtr<()> {
    // SAFETY: the calling thread's own words, which live as long as it.
    unsafe { &(*words()).block }
}

/// Whether the caller is a full thread on a worker.
#[inline(always)]
pub fn is_running() -> bool {
    // SAFETY: as above.
    unsafe { !(*words()).running.is_null() }
}

/// Says who the thread is that has these words.
///
/// # Safety
/// 1. They are those of a thread that can't run yet, or of the caller.
pub unsafe fn set(words: *mut Own, thread: *const Pthread, kind: u32) {
    let (is_told, in_vain) = (AtomicBool::new(false), AtomicU8::new(0));
    let (asks, asked) = (AtomicU8::new(0), AtomicI32::new(-1));
    let (kind, end) = (AtomicU32::new(kind), AtomicU32::new(0));
    let block = AtomicPtr::new(ptr::null_mut());
    // SAFETY: by 1.
    unsafe {
        words.write(Own {
            running: thread,
            thread,
            kind,
            is_told,
            in_vain,
            asks,
            looks: AtomicBool::new(false),
            asked,
            end,
            block,
        });
    }
}

/// The caller has ended but for the switch away from it, or does not run on a worker any more for
/// it is in a forked child.
pub fn stop_running() {
    // SAFETY: the caller's.
    unsafe { (*words()).running = ptr::null() };
}
