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
use crate::full::answering_at_locks;
use crate::stack::executable;

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
#[derive(Clone, Copy, PartialEq)]
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
pub fn begin_to_look_for_libraries() {
    let _pin = crate::full::pin();
    if let Some(mut seen) = seen() {
        seen.get_or_insert_with(look_around);
    }
}

/// What came since the last look.
pub struct News {
    now: Seen,
    /// Where what is new is, by the library.
    parts: Vec<(Library, LatePart)>,
}

/// Looks whether libraries came since the last look, and whether they need stacks that code may run
/// from. It waits for the loader's locks, and holds nothing meanwhile: who has them may be stopped
/// by a signal, and so the caller may be.
pub fn look_for_libraries() -> Option<News> {
    if !crate::full::exist() {
        return None;
    }
    let loads = loads();
    let known = {
        let _pin = crate::full::pin();
        let seen = seen()?;
        seen.as_ref().filter(|seen| seen.loads != loads)?.libraries.clone()
    };
    executable::look();
    let mut now = look_around();
    let mut parts = Vec::new();
    // One that has no place yet is being loaded: the next look finds it again.
    let mut is_whole = true;
    now.libraries.retain(|it| {
        let is_known = known.contains(it);
        let part = if is_known { None } else { part(it) };
        parts.extend(part.map(|part| (*it, part)));
        is_whole &= is_known || part.is_some();
        is_known || part.is_some()
    });
    now.loads -= u64::from(!is_whole);
    Some(News { now, parts })
}

impl News {
    /// Calls `give` with each part that nobody else has given meanwhile.
    pub fn give(self, mut give: impl FnMut(&LatePart)) {
        let _pin = crate::full::pin();
        let Some(mut seen) = seen() else { return };
        let Some(before) = seen.as_mut().filter(|seen| seen.loads < self.now.loads) else { return };
        let is_known = |library: &Library| before.libraries.contains(library);
        self.parts.iter().filter(|(it, _)| !is_known(it)).for_each(|(_, part)| give(part));
        *before = self.now;
    }
}

/// Where the library's part is in each block, by where it is in the caller's.
fn part(library: &Library) -> Option<LatePart> {
    let get = functions::address(c"__tls_get_addr")?;
    // SAFETY: the C library's function, by the processor's ABI.
    let get: extern "C" fn(*const [usize; 2]) -> *mut c_void = unsafe { core::mem::transmute(get) };
    let own = crate::arch::thread_pointer();
    let place = answering_at_locks(|| get(&[library.module, 0])) as usize;
    let offset = place.wrapping_sub(own) as isize;
    let (below, above) = super::block_bounds();
    let is_inside = offset >= -below && offset.checked_add_unsigned(library.bytes)? <= above;
    is_inside.then_some(LatePart { offset, bytes: library.bytes, image: library.image })
}

/// Fills the part in, in the block with the thread pointer `tls`; see the file's invariant.
///
/// # Safety
/// 1. The block is in use, and its thread does not end meanwhile.
pub(crate) unsafe fn give(tls: *mut u8, part: &LatePart) {
    // SAFETY: by 1, and it lies inside the block, as it does in the caller's.
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
    answering_at_locks(|| unsafe { libc::dl_iterate_phdr(Some(first), (&raw mut count).cast()) });
    count
}

fn look_around() -> Seen {
    /// # Safety
    /// 1. Called by `dl_iterate_phdr` with an [`Around`].
    unsafe extern "C" fn add(
        info: *mut libc::dl_phdr_info,
        bytes: usize,
        around: *mut c_void,
    ) -> c_int {
        // SAFETY: by 1; `bytes` says which fields there are.
        let (info, around) = unsafe { (&*info, &mut *around.cast::<Around>()) };
        if bytes < size_of::<libc::dl_phdr_info>() {
            return 0;
        }
        around.loads = info.dlpi_adds;
        if let Some(library) = library(info) {
            around.count += 1;
            if around.libraries.len() < around.libraries.capacity() {
                around.libraries.push(library);
            }
        }
        0
    }
    let mut around = Around { loads: 0, count: 0, libraries: Vec::new() };
    loop {
        let place = (&raw mut around).cast();
        // SAFETY: the callback gets what it expects.
        answering_at_locks(|| unsafe { libc::dl_iterate_phdr(Some(add), place) });
        let Around { loads, count, libraries } = around;
        if count == libraries.len() {
            return Seen { loads, libraries };
        }
        around = Around { loads, count: 0, libraries: Vec::with_capacity(count) };
    }
}

/// What `dl_iterate_phdr` goes through, in one hold of the loader's lock, under which nothing is
/// allocated: who has an allocator's lock may wait for that.
struct Around {
    loads: u64,
    count: usize,
    libraries: Vec<Library>,
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
