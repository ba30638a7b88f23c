//! Blocks that stay with their stack when a thread has ended, so that the next thread on it needs
//! no memory from the allocator and no new table of dynamic blocks (dtv).
//!
//! glibc does the same with the stacks that it caches: `_dl_allocate_tls_init` gives all libraries'
//! parts of a block their first values again, and makes the dtv larger where libraries were loaded
//! meanwhile. Dynamic blocks of the thread it would lose: a block with such a one is not kept.
//!
//! The dtv is an array of two words each, as debuggers are told: `[-1]` = number of entries, `[0]`
//! = generation, `[module]` = address of the module's block, and what to free for it. Whether that
//! is so, and whether the function does what is said above, [`examine`] tries out; where it is
//! otherwise nothing is kept, and all else works.
//!
//! Invariant: a kept block differs from one that was made new in what [`renew`] writes, only, and
//! in what `wipe.rs` knows to be of no account.

use std::ffi::c_void;
use std::mem::size_of;
use std::ptr;

use super::functions::Functions;
use super::wipe::Wipe;
use crate::sys::memory::{self, PAGE};

/// Where the dtv is, in words from the thread pointer.
const DTV: usize = if cfg!(target_arch = "x86_64") { 1 } else { 0 };
/// More entries than this are no number of entries.
const ENTRIES_MAX: usize = 1 << 16;
/// Modules that the trial looks at.
const MODULES_MAX: usize = 64;
/// What the trial leaves in the libraries' parts.
const DIRT: u8 = 0xA5;

/// Fills the libraries' parts of a block, and the dtv.
pub(super) type Init = unsafe extern "C" fn(*mut c_void, bool) -> *mut c_void;

/// An entry of the dtv.
#[repr(C)]
#[derive(Clone, Copy)]
struct Entry {
    value: usize,
    to_free: usize,
}

/// # Safety
/// 1. `tls` is the thread pointer of a block with a dtv.
unsafe fn dtv(tls: *mut u8) -> *mut Entry {
    // SAFETY: by 1.
    unsafe { tls.cast::<*mut Entry>().add(DTV).read() }
}

/// Whether nothing but static blocks is in the dtv.
///
/// # Safety
/// As [`dtv`]; [`examine`] has said yes.
pub(super) unsafe fn is_static(tls: *mut u8) -> bool {
    // SAFETY: by the caller's promise it has as many entries as it says.
    unsafe {
        let dtv = dtv(tls);
        let count = (*dtv.sub(1)).value;
        let dynamic = |i: usize| (*dtv.add(i)).to_free != 0;
        count < ENTRIES_MAX && !(1..=count).any(dynamic)
    }
}

/// Where the libraries' part of a block is, and its bytes.
fn libraries(tls: *mut u8, below: usize, above: usize) -> (*mut u8, usize) {
    if cfg!(target_arch = "x86_64") {
        return (tls.wrapping_sub(below), below);
    }
    // Two words, of which the first is the dtv.
    let header = 2 * size_of::<usize>();
    (tls.wrapping_add(header), above - header)
}

/// Makes a block that was kept as good as new, but for what the caller fills in.
///
/// # Safety
/// 1. `[tls - below, tls + above)` is a block that was kept: its thread has ended, and
///    [`is_static`].
/// 2. `init` is the library's, `wipe` is of its structure, and [`examine`] has said yes.
pub(super) unsafe fn renew(
    init: Init,
    (wipe, pthread): (&Wipe, *mut u8),
    tls: *mut u8,
    below: usize,
    above: usize,
) {
    let libraries = libraries(tls, below, above);
    // SAFETY: by 1 and 2; the table stays as it is while its name is away.
    unsafe {
        let place = tls.cast::<*mut Entry>().add(DTV);
        let table = place.read();
        let generation = (*table).value;
        wipe.wipe(pthread);
        place.write(table);
        init(tls.cast(), true);
        if (*dtv(tls)).value != generation {
            // Libraries came or went: what was theirs may be another's now.
            libraries.0.write_bytes(0, libraries.1);
            init(tls.cast(), true);
        }
    }
}

/// A library's part of a block, from the thread pointer, and its number.
#[derive(Clone, Copy, Default)]
struct Module {
    number: usize,
    offset: isize,
    bytes: usize,
}

/// The libraries that have static TLS, of the calling thread.
struct Modules {
    tls: *mut u8,
    all: [Module; MODULES_MAX],
    count: usize,
}

impl Modules {
    fn of_caller() -> Self {
        let tls = crate::arch::thread_pointer() as *mut u8;
        let mut modules = Modules { tls, all: [Module::default(); MODULES_MAX], count: 0 };
        // SAFETY: the callback gets what it expects.
        unsafe { libc::dl_iterate_phdr(Some(Self::add), (&raw mut modules).cast()) };
        modules
    }

    /// # Safety
    /// 1. Called by `dl_iterate_phdr` with a `Modules`.
    unsafe extern "C" fn add(
        info: *mut libc::dl_phdr_info,
        bytes: usize,
        modules: *mut c_void,
    ) -> i32 {
        // SAFETY: by 1 these are valid; `bytes` says which fields there are.
        let (info, modules) = unsafe { (&*info, &mut *modules.cast::<Modules>()) };
        if bytes < size_of::<libc::dl_phdr_info>() || info.dlpi_phnum == 0 {
            return 0;
        }
        // SAFETY: the library's program headers.
        let headers =
            unsafe { std::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum as usize) };
        let part = headers.iter().find(|header| header.p_type == libc::PT_TLS);
        let (Some(part), false) = (part, info.dlpi_tls_data.is_null()) else { return 0 };
        if modules.count < MODULES_MAX {
            modules.all[modules.count] = Module {
                number: info.dlpi_tls_modid,
                offset: (info.dlpi_tls_data as isize).wrapping_sub(modules.tls as isize),
                bytes: part.p_memsz as usize,
            };
            modules.count += 1;
        }
        0
    }

    /// Those of them that lie in a block of this size.
    fn inside(&self, below: usize, above: usize) -> impl Iterator<Item = &Module> {
        self.all[..self.count].iter().filter(move |module| {
            let (low, high) = (-(below as isize), above as isize);
            low <= module.offset && module.offset + module.bytes as isize <= high
        })
    }
}

/// How far below the thread pointer the libraries use a block of this size.
pub(super) fn used_below(below: usize, above: usize) -> usize {
    let modules = Modules::of_caller();
    let lowest = modules.inside(below, above).map(|module| module.offset).min();
    lowest.map_or(below, |lowest| lowest.min(0).unsigned_abs().next_multiple_of(super::LINE))
}

/// Whether blocks can be kept: tries it on one of its own.
pub(super) fn examine(
    functions: &Functions,
    wipe: &Wipe,
    below: usize,
    above: usize,
) -> Option<Init> {
    let init = functions.init_tls?;
    let bytes = (below + above).next_multiple_of(PAGE);
    let memory = memory::reserve(bytes).ok()?;
    // SAFETY: the reservation, which nobody else knows.
    let keeps = unsafe {
        memory::commit(memory, bytes).is_ok()
            && trial(functions, (init, wipe), memory.add(below), below, above)
    };
    // SAFETY: as above; the trial is over.
    unsafe { libc::munmap(memory.cast(), bytes) };
    keeps.then_some(init)
}

/// # Safety
/// 1. A block of this size fits around `tls`; it is zero, and nobody uses it.
unsafe fn trial(
    functions: &Functions,
    (init, wipe): (Init, &Wipe),
    tls: *mut u8,
    below: usize,
    above: usize,
) -> bool {
    let modules = Modules::of_caller();
    let read = |module: &Module| {
        // SAFETY: by 1, and `inside`.
        unsafe { std::slice::from_raw_parts(tls.offset(module.offset), module.bytes) }.to_vec()
    };
    // SAFETY: by 1; the block goes through what blocks of threads go through.
    unsafe {
        if (functions.allocate_tls)(tls.cast()).is_null() {
            return false;
        }
        let first: Vec<Vec<u8>> = modules.inside(below, above).map(read).collect();
        let table = dtv(tls);
        let mut keeps = !first.is_empty() && has_entries(tls, &modules, below, above);
        if keeps {
            for module in modules.inside(below, above) {
                tls.offset(module.offset).write_bytes(DIRT, module.bytes);
            }
            renew(init, (wipe, functions.pthread_of(tls)), tls, below, above);
            keeps = modules.inside(below, above).map(read).eq(first)
                && ptr::eq(dtv(tls), table)
                && has_entries(tls, &modules, below, above);
        }
        (functions.deallocate_tls)(tls.cast(), false);
        keeps
    }
}

/// Whether the dtv of a new block is as it is said in the file's head.
///
/// # Safety
/// As [`dtv`].
unsafe fn has_entries(tls: *mut u8, modules: &Modules, below: usize, above: usize) -> bool {
    // SAFETY: by the caller's promise there is a table, and allocated before its first entry what
    // is read here.
    unsafe {
        let dtv = dtv(tls);
        if dtv.is_null() || !dtv.is_aligned() {
            return false;
        }
        let count = (*dtv.sub(1)).value;
        let is_entry = |module: &Module| {
            let entry = || *dtv.add(module.number);
            module.number <= count
                && entry().value == (tls as usize).wrapping_add_signed(module.offset)
                && entry().to_free == 0
        };
        count < ENTRIES_MAX && modules.inside(below, above).all(is_entry) && is_static(tls)
    }
}

#[cfg(test)]
mod tests {
    use super::super::library;

    #[test]
    fn blocks_are_kept_where_the_library_can_renew_them() {
        match library() {
            Ok(library) if library.functions.init_tls.is_some() => {
                assert!(library.init.is_some(), "the trial failed");
            }
            Ok(_) => println!("skip: the C library has no _dl_allocate_tls_init"),
            Err(why) => println!("skip: {why}"),
        }
    }
}
