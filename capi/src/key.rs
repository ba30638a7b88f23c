//! Thread-specific data: keys for the process, values for each thread.
//!
//! A key's sequence number is odd while the key exists; a value remembers the number under which
//! it was set, so deleting a key makes all its values vanish without touching a thread.
//!
//! # Safety
//! For all exported functions of this file: pointers are valid.

use core::ffi::{c_int, c_void};
use core::ptr;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicPtr, AtomicU32};
use std::sync::{Mutex, PoisonError};

use crate::current;
use crate::data::Data;

const KEYS_MAX: usize = 1024;
const ROUNDS: usize = 4;
const BLOCK: usize = 32;

struct Key {
    sequence: AtomicU32,
    destructor: AtomicPtr<c_void>,
}

type Destructor = unsafe extern "C-unwind" fn(*mut c_void);

static KEYS: [Key; KEYS_MAX] =
    [const { Key { sequence: AtomicU32::new(0), destructor: AtomicPtr::new(ptr::null_mut()) } };
        KEYS_MAX];
static CHANGING: Mutex<()> = Mutex::new(());

/// The values of a thread, in blocks that are made as they are needed.
pub struct Values {
    blocks: [Option<Box<[Value; BLOCK]>>; KEYS_MAX / BLOCK],
}

#[derive(Clone, Copy)]
struct Value {
    sequence: u32,
    data: *mut c_void,
}

const NO_VALUE: Value = Value { sequence: 0, data: ptr::null_mut() };

/// The key's number while it exists.
fn sequence(key: usize) -> Option<u32> {
    let sequence = KEYS.get(key)?.sequence.load(Acquire);
    (sequence % 2 == 1).then_some(sequence)
}

/// Runs the destructors of the calling thread's values and frees their memory.
pub fn run_destructors(data: &'static Data) {
    let values = data.own.values.get();
    if values.is_null() {
        return;
    }
    for _ in 0..ROUNDS {
        if !run_round(values) {
            break;
        }
    }
    data.own.values.set(ptr::null_mut());
    // SAFETY: made from a box by `heddle_setspecific`; the thread's own.
    drop(unsafe { Box::from_raw(values) });
}

/// Calls the destructor of each value once; whether there was any.
fn run_round(values: *mut Values) -> bool {
    let mut any = false;
    for key in 0..KEYS_MAX {
        // SAFETY: the calling thread's values. The borrow ends before foreign code runs, which
        // may change them.
        let value = unsafe {
            match &mut (*values).blocks[key / BLOCK] {
                Some(block) => core::mem::replace(&mut block[key % BLOCK], NO_VALUE),
                None => continue,
            }
        };
        if value.data.is_null() || sequence(key) != Some(value.sequence) {
            continue;
        }
        let destructor = KEYS[key].destructor.load(Relaxed);
        if destructor.is_null() {
            continue;
        }
        any = true;
        // SAFETY: stored by `heddle_key_create` from a function of this type.
        let destructor: Destructor = unsafe { core::mem::transmute(destructor) };
        // SAFETY: the value that the program stored under this key.
        unsafe { destructor(value.data) };
    }
    any
}

#[unsafe(no_mangle)]
unsafe extern "C" fn heddle_key_create(key: *mut u32, destructor: Option<Destructor>) -> c_int {
    let _guard = CHANGING.lock().unwrap_or_else(PoisonError::into_inner);
    for (index, entry) in KEYS.iter().enumerate() {
        let before = entry.sequence.load(Relaxed);
        if before % 2 == 1 {
            continue;
        }
        let function = destructor.map_or(ptr::null_mut(), |function| function as *mut c_void);
        entry.destructor.store(function, Relaxed);
        // ORDER: Release publishes the destructor to the Acquire in `sequence`.
        entry.sequence.store(before.wrapping_add(1), Release);
        // SAFETY: the caller's place for the key.
        unsafe { key.write(index as u32) };
        return 0;
    }
    libc::EAGAIN
}

#[unsafe(no_mangle)]
unsafe extern "C" fn heddle_key_delete(key: u32) -> c_int {
    let _guard = CHANGING.lock().unwrap_or_else(PoisonError::into_inner);
    match sequence(key as usize) {
        Some(sequence) => {
            KEYS[key as usize].sequence.store(sequence.wrapping_add(1), Release);
            0
        }
        None => libc::EINVAL,
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn heddle_setspecific(key: u32, value: *const c_void) -> c_int {
    let key = key as usize;
    let Some(sequence) = sequence(key) else { return libc::EINVAL };
    let own = &current::data().own;
    if own.values.get().is_null() {
        let values = Box::new(Values { blocks: [const { None }; KEYS_MAX / BLOCK] });
        own.values.set(Box::into_raw(values));
    }
    // SAFETY: the calling thread's values, borrowed for this statement only.
    let blocks = unsafe { &mut (*own.values.get()).blocks };
    let block = blocks[key / BLOCK].get_or_insert_with(|| Box::new([NO_VALUE; BLOCK]));
    block[key % BLOCK] = Value { sequence, data: value.cast_mut() };
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn heddle_getspecific(key: u32) -> *mut c_void {
    let index = key as usize;
    let Some(data) = current::known() else { return ptr::null_mut() };
    let values = data.own.values.get();
    if values.is_null() {
        return ptr::null_mut();
    }
    let Some(sequence) = sequence(index) else { return ptr::null_mut() };
    // SAFETY: the calling thread's values, borrowed for this statement only.
    match unsafe { &(*values).blocks[index / BLOCK] } {
        Some(block) if block[index % BLOCK].sequence == sequence => block[index % BLOCK].data,
        _ => ptr::null_mut(),
    }
}
