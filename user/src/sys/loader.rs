//! The loader's locks: recursive mutexes of the C library's, which know their owner by its number.
//!
//! A thread holds one while constructors and destructors of a library run, and while
//! `dl_iterate_phdr` calls. If it gets another number there (`proxy.rs`) it would wait for itself
//! when it locks it again, and nobody would have it any more after the thread has given it up in
//! vain.
//!
//! The locks lie in what the loader shares with the C library, one object with a name. Where in it
//! is not looked up by version: a mutex of that kind, held by a number that only the caller has, is
//! the caller's.

use core::mem::{MaybeUninit, size_of};
use core::ptr;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicI32, AtomicU32, AtomicUsize};

use libc::{Dl_info, Elf64_Sym, c_int, pthread_mutex_t};

use crate::sync::mutex::{KIND_AT, OWNER_AT, RECURSIVE};

/// `RTLD_DL_SYMENT` of the C library.
const SYMBOL_TOO: c_int = 1;

/// Where the object is, and its bytes; 0: nobody knows.
static PLACE: AtomicUsize = AtomicUsize::new(0);
static BYTES: AtomicUsize = AtomicUsize::new(0);

extern "C" fn at_load() {
    let mut symbol: *const Elf64_Sym = ptr::null();
    let mut info = MaybeUninit::<Dl_info>::uninit();
    // SAFETY: a text and valid places. The symbol is the loader's, which stays.
    unsafe {
        let place = libc::dlsym(libc::RTLD_DEFAULT, c"_rtld_global".as_ptr());
        let entry = (&raw mut symbol).cast();
        if !place.is_null()
            && libc::dladdr1(place, info.as_mut_ptr(), entry, SYMBOL_TOO) != 0
            && let Some(symbol) = symbol.as_ref()
        {
            PLACE.store(place.expose_provenance(), Relaxed);
            BYTES.store(symbol.st_size as usize, Relaxed);
        }
    }
}

/// Before there are several threads: to ask takes the loader's lock.
#[used]
#[unsafe(link_section = ".init_array")]
static AT_LOAD: extern "C" fn() = at_load;

/// What the calling thread holds of these by the number `from`, it holds by `to` from now on.
pub fn pass_on(from: u32, to: u32) {
    let (place, bytes) = (PLACE.load(Relaxed), BYTES.load(Relaxed));
    let ends = (bytes + 1).saturating_sub(size_of::<pthread_mutex_t>());
    for mutex in (place..place + ends).step_by(align_of::<pthread_mutex_t>()) {
        // SAFETY: inside of the object, which may be read and written. A word that is changed is
        // the owner's of a mutex that the caller holds: nobody else writes it meanwhile.
        let (held, owner, kind) = unsafe {
            let at = |offset| ptr::with_exposed_provenance_mut::<u32>(mutex + offset);
            let kind = AtomicI32::from_ptr(at(KIND_AT).cast());
            (AtomicU32::from_ptr(at(0)), AtomicU32::from_ptr(at(OWNER_AT)), kind)
        };
        let is_held = held.load(Relaxed) != 0 && kind.load(Relaxed) == RECURSIVE;
        if is_held && owner.load(Relaxed) == from {
            owner.store(to, Relaxed);
        }
    }
}
