//! Initial-exec TLS of libraries that are loaded while full threads exist.
//!
//! The C library gives such a part its first values in the blocks of the threads that it knows;
//! blocks of full threads are in none of its lists, and have zeros there. So somebody looks, before
//! a thread can learn where a new library's functions are, which parts came since the last look,
//! and fills them in.
//!
//! Invariant: a part is written only where it is all zeros: in a block that is older than the
//! library, whose thread has not used it. (What first values a younger block has are not all zeros,
//! else there is nothing to be done; its thread could have made them so before the look only if a
//! constructor had told it of the library.)

use core::mem::size_of;
use std::ffi::{c_int, c_void};
use std::slice;
use std::sync::{Mutex, MutexGuard, TryLockError};

use super::functions;

/// DT_FLAGS, and its bit that says that a library has initial-exec TLS.
const DT_FLAGS: i64 = 30;
const DF_STATIC_TLS: u64 = 16;

/// The part that a library has in every block.
#[derive(Clone, Copy)]
pub struct LatePart {
    /// From the thread pointer.
    offset: isize,
    bytes: usize,
    /// What it begins with; the rest is zero.
    image: (usize, usize),
}

/// A library with such a part: its number, where it lies, and its program header for TLS.
#[derive(Clone, Copy)]
struct Library {
    module: usize,
    base: usize,
    image: (usize, usize),
    bytes: usize,
}

/// What the last look has found, and after how many libraries that was.
struct Seen {
    loads: u64,
    libraries: Vec<Library>,
}

static SEEN: Mutex<Option<Seen>> = Mutex::new(None);

/// Tries before the holder counts as one that does not go on: another thread of the process that
/// forked the caller's, or the caller itself below a signal handler.
const TRIES: u32 = 10_000;

fn seen() -> Option<MutexGuard<'static, Option<Seen>>> {
    for _ in 0..TRIES {
        match SEEN.try_lock() {
            Ok(guard) => return Some(guard),
            Err(TryLockError::Poisoned(error)) => return Some(error.into_inner()),
            Err(TryLockError::WouldBlock) => std::thread::yield_now(),
        }
    }
    None
}

/// Notes what is there before the first full thread; later calls do nothing.
pub fn begin() {
    let _pin = crate::full::pin();
    if let Some(mut seen) = seen() {
        seen.get_or_insert_with(look_around);
    }
}

/// Calls `give` with each part that came since the last look.
pub fn look(mut give: impl FnMut(&LatePart)) {
    let _pin = crate::full::pin();
    let Some(mut seen) = seen() else { return };
    let Some(before) = seen.as_mut().filter(|seen| seen.loads != loads()) else { return };
    let now = look_around();
    let is_known = |library: &Library| {
        before.libraries.iter().any(|it| (it.module, it.base) == (library.module, library.base))
    };
    now.libraries.iter().filter(|it| !is_known(it)).filter_map(part).for_each(|it| give(&it));
    *before = now;
}

/// Where the library's part is in each block, by where it is in the caller's.
fn part(library: &Library) -> Option<LatePart> {
    let get = functions::address(c"__tls_get_addr")?;
    // SAFETY: the C library's function, by the processor's ABI.
    let get: extern "C" fn(*const [usize; 2]) -> *mut c_void = unsafe { core::mem::transmute(get) };
    let own = crate::arch::thread_pointer();
    let place = get(&[library.module, 0]) as usize;
    let offset = place.wrapping_sub(own) as isize;
    Some(LatePart { offset, bytes: library.bytes, image: library.image })
}

/// Fills the part in, in the block with the thread pointer `tls`; see the file's invariant.
///
/// # Safety
/// 1. The block is in use, and its thread does not end meanwhile.
pub(crate) unsafe fn give(tls: *mut u8, part: &LatePart) {
    let (below, above) = super::block_bounds();
    let end = part.offset.saturating_add_unsigned(part.bytes);
    if part.offset < -below || end > above {
        return;
    }
    // SAFETY: by 1, and it lies inside the block.
    unsafe {
        let own = tls.wrapping_offset(part.offset);
        if slice::from_raw_parts(own, part.bytes).iter().all(|&byte| byte == 0) {
            let (image, bytes) = part.image;
            own.copy_from_nonoverlapping(core::ptr::with_exposed_provenance(image), bytes);
        }
    }
}

/// How many libraries were ever loaded.
fn loads() -> u64 {
    /// # Safety
    /// 1. Called by `dl_iterate_phdr` with a number.
    unsafe extern "C" fn first(
        info: *mut libc::dl_phdr_info,
        bytes: usize,
        count: *mut c_void,
    ) -> c_int {
        if bytes >= size_of::<libc::dl_phdr_info>() {
            // SAFETY: by 1; `bytes` says which fields there are.
            unsafe { count.cast::<u64>().write((*info).dlpi_adds) };
        }
        1
    }
    let mut count = 0_u64;
    // SAFETY: the callback gets what it expects.
    unsafe { libc::dl_iterate_phdr(Some(first), (&raw mut count).cast()) };
    count
}

fn look_around() -> Seen {
    /// # Safety
    /// 1. Called by `dl_iterate_phdr` with a list of libraries.
    unsafe extern "C" fn add(
        info: *mut libc::dl_phdr_info,
        bytes: usize,
        libraries: *mut c_void,
    ) -> c_int {
        // SAFETY: by 1; `bytes` says which fields there are.
        let (info, libraries) = unsafe { (&*info, &mut *libraries.cast::<Vec<Library>>()) };
        if bytes >= size_of::<libc::dl_phdr_info>() {
            libraries.extend(library(info));
        }
        0
    }
    // Before the look, so that the next one sees what comes during this one.
    let loads = loads();
    let mut libraries: Vec<Library> = Vec::new();
    // SAFETY: the callback gets what it expects.
    unsafe { libc::dl_iterate_phdr(Some(add), (&raw mut libraries).cast()) };
    Seen { loads, libraries }
}

/// The library, if it has a part with first values that every thread must have at once.
fn library(info: &libc::dl_phdr_info) -> Option<Library> {
    // SAFETY: the library's program headers.
    let headers = unsafe { slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum as usize) };
    let base = info.dlpi_addr as usize;
    let own = headers.iter().find(|header| header.p_type == libc::PT_TLS)?;
    let dynamic = headers.iter().find(|header| header.p_type == libc::PT_DYNAMIC)?;
    let mut entry: *const [i64; 2] =
        core::ptr::with_exposed_provenance(base + dynamic.p_vaddr as usize);
    // SAFETY: the library's dynamic section, which ends with a zero.
    let is_static = unsafe {
        while (*entry)[0] != 0 && (*entry)[0] != DT_FLAGS {
            entry = entry.add(1);
        }
        (*entry)[0] == DT_FLAGS && (*entry)[1] as u64 & DF_STATIC_TLS != 0
    };
    let image = (base + own.p_vaddr as usize, own.p_filesz as usize);
    let is_late = is_static && image.1 != 0 && info.dlpi_tls_modid != 0;
    is_late.then_some(Library {
        module: info.dlpi_tls_modid,
        base,
        image,
        bytes: own.p_memsz as usize,
    })
}
