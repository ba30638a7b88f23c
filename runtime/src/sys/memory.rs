//! Address space: reserve, commit, discard, guard.
//!
//! Invariant: a region is reserved once (`PROT_NONE`, no memory charged) and committed upwards in
//! steps, so that the kernel keeps one or two mappings for millions of stacks. What is not
//! committed is in no core file: gcore would write 256 GiB of nothing.

use std::io;

use super::descriptor::{self, keep, raised};

/// Bytes of a page. The supported kernels are configured with 4 KiB pages; see [`page_size`].
pub(crate) const PAGE: usize = 4096;

/// `MADV_GUARD_INSTALL` (Linux 6.13): page-table guard markers that need no mapping of their own.
const MADV_GUARD_INSTALL: libc::c_int = 102;
const MADV_GUARD_REMOVE: libc::c_int = 103;
/// Most entries of one `process_madvise` call (`UIO_MAXIOV`).
const GUARDS_PER_CALL: usize = 1024;

/// The page size that the kernel uses.
pub(crate) fn page_size() -> usize {
    rustix::param::page_size()
}

/// Reads two words at an address that may be anything; `None` where nothing can be read.
///
/// The kernel looks: into a pipe goes only what is there, and the rest is an error.
pub(crate) fn read_anywhere(address: usize) -> Option<[usize; 2]> {
    let mut pipe = [0; 2];
    let mut words = [0usize; 2];
    let bytes = size_of_val(&words);
    // SAFETY: valid places, and ends of a pipe of our own; the kernel checks the address.
    unsafe {
        if libc::pipe2(pipe.as_mut_ptr(), libc::O_CLOEXEC | libc::O_NONBLOCK) != 0 {
            return None;
        }
        let written = libc::write(pipe[1], address as *const libc::c_void, bytes);
        let taken = libc::read(pipe[0], words.as_mut_ptr().cast(), bytes);
        libc::close(pipe[0]);
        libc::close(pipe[1]);
        (written == bytes as isize && taken == written).then_some(words)
    }
}

/// A fresh private mapping at an address of the kernel's choice.
fn map(bytes: usize, rights: libc::c_int) -> io::Result<*mut u8> {
    let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: it takes the place of nothing.
    let start = unsafe { libc::mmap(core::ptr::null_mut(), bytes, rights, kind, -1, 0) };
    if start == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(start.cast()) }
}

/// Reserves `bytes` of address space; no memory is charged before [`commit`].
pub(crate) fn reserve(bytes: usize) -> io::Result<*mut u8> {
    let start = map(bytes, libc::PROT_NONE)?;
    // Huge pages would make the first touch of a stack cost 2 MiB.
    // SAFETY: exactly the mapping made above.
    unsafe {
        libc::madvise(start.cast(), bytes, libc::MADV_NOHUGEPAGE);
        libc::madvise(start.cast(), bytes, libc::MADV_DONTDUMP);
    }
    Ok(start)
}

/// As [`reserve`] and [`commit`] of the whole, with fewer system calls: every fork makes one.
pub(crate) fn open(bytes: usize) -> io::Result<*mut u8> {
    let start = map(bytes, libc::PROT_READ | libc::PROT_WRITE)?;
    // SAFETY: exactly the mapping made above.
    unsafe { libc::madvise(start.cast(), bytes, libc::MADV_NOHUGEPAGE) };
    Ok(start)
}

/// As [`open`], there or nowhere: what is there stays.
pub(crate) fn open_at(address: usize, bytes: usize) -> io::Result<*mut u8> {
    let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    let (rights, place) = (libc::PROT_READ | libc::PROT_WRITE, address as *mut libc::c_void);
    // SAFETY: it takes the place of nothing. A kernel that does not know this takes the address
    // for a wish, and may give another.
    let start =
        unsafe { libc::mmap(place, bytes, rights, kind | libc::MAP_FIXED_NOREPLACE, -1, 0) };
    if start == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    if start != place {
        // SAFETY: exactly the mapping made above.
        unsafe { libc::munmap(start, bytes) };
        return Err(io::ErrorKind::Unsupported.into());
    }
    // SAFETY: exactly the mapping made above.
    unsafe { libc::madvise(start, bytes, libc::MADV_NOHUGEPAGE) };
    Ok(start.cast())
}

/// Gives a mapping of [`open_at`] back.
///
/// # Safety
/// 1. Nobody uses it.
pub(crate) unsafe fn close(start: *mut u8, bytes: usize) {
    // SAFETY: by 1.
    unsafe { libc::munmap(start.cast(), bytes) };
}

/// Bytes of address space that the process may have (RLIMIT_AS).
pub(crate) fn address_space_max() -> u64 {
    rustix::process::getrlimit(rustix::process::Resource::As).current.unwrap_or(u64::MAX)
}

/// What of the address space may be taken for what is reserved ahead: an eighth of what the limit
/// leaves; the rest is the program's. `None`: there is no limit.
pub(crate) fn address_space_part() -> Option<usize> {
    let most = rustix::process::getrlimit(rustix::process::Resource::As).current?;
    // Where nobody says what is used the limit itself has to do.
    let mut buffer = [0; 256];
    let text = descriptor::read(c"/proc/self/statm", &mut buffer).unwrap_or_default();
    let pages: u64 = text.split(' ').next().and_then(|word| word.parse().ok()).unwrap_or(0);
    Some((most.saturating_sub(pages * PAGE as u64) / 8) as usize)
}

/// Asks for huge pages where they are to be had.
///
/// # Safety
/// 1. `[start, start + bytes)` lies in a reservation of this module, page-aligned.
pub(crate) unsafe fn prefer_huge(start: *mut u8, bytes: usize) {
    // SAFETY: by 1. A refusal costs speed only.
    unsafe { libc::madvise(start.cast(), bytes, libc::MADV_HUGEPAGE) };
}

/// Makes a part of a reservation readable and writable.
///
/// # Safety
/// 1. `[start, start + bytes)` lies in a reservation of this module, page-aligned.
pub(crate) unsafe fn commit(start: *mut u8, bytes: usize) -> io::Result<()> {
    if bytes == 0 {
        // The kernel lets this pass; qemu's user-mode emulation does not.
        return Ok(());
    }
    // SAFETY: by 1.
    let failed = unsafe {
        // First, so that what was committed before grows by this at once.
        libc::madvise(start.cast(), bytes, libc::MADV_DODUMP);
        libc::mprotect(start.cast(), bytes, libc::PROT_READ | libc::PROT_WRITE)
    };
    if failed != 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Lets code run from a committed part of a reservation, unless the system refuses that.
///
/// # Safety
/// 1. `[start, start + bytes)` lies in one, page-aligned.
pub(crate) unsafe fn let_execute(start: *mut u8, bytes: usize) {
    let rights = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC;
    // SAFETY: by 1.
    unsafe { libc::mprotect(start.cast(), bytes, rights) };
}

/// Gives the pages' memory back; they read as zero afterwards.
///
/// # Safety
/// 1. `[start, start + bytes)` lies in a committed part of a reservation, page-aligned.
/// 2. Nobody needs the content.
pub(crate) unsafe fn discard(start: *mut u8, bytes: usize) {
    // SAFETY: by 1 and 2. A failure leaves the memory in place: a cost, not a fault.
    unsafe { libc::madvise(start.cast(), bytes, libc::MADV_DONTNEED) };
}

/// As [`discard`], of many ranges at once.
///
/// # Safety
/// As [`discard`], for each range.
pub(crate) unsafe fn discard_all(ranges: &[(*mut u8, usize)]) {
    let vector =
        |&(start, bytes): &(*mut u8, usize)| libc::iovec { iov_base: start.cast(), iov_len: bytes };
    let vectors: Vec<libc::iovec> = ranges.iter().map(vector).collect();
    // SAFETY: by 1 and 2.
    if !unsafe { advise_all(&vectors, libc::MADV_DONTNEED) } {
        // SAFETY: by 1 and 2; what was discarded already is so once more.
        ranges.iter().for_each(|&(start, bytes)| unsafe { discard(start, bytes) });
    }
}

/// Mappings that a process may have (`vm.max_map_count`).
pub(crate) fn mappings_max() -> usize {
    descriptor::read(c"/proc/sys/vm/max_map_count", &mut [0; 64])
        .and_then(|text| text.trim().parse().ok())
        .unwrap_or(65_530)
}

/// How stacks are guarded on this kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum GuardKind {
    /// Page-table markers, no mappings (Linux 6.13 and later).
    Marker,
    /// `mprotect`: two mappings a stack, limited by `vm.max_map_count`.
    Mapping,
}

/// Guards the page at each address of `pages`; says which kind was used.
///
/// # Safety
/// 1. Each address is a page start in a committed part of a reservation.
/// 2. Nobody accesses these pages from now on.
pub(crate) unsafe fn install_guards(pages: &[*mut u8]) -> io::Result<GuardKind> {
    // SAFETY: by 1 and 2.
    if unsafe { install_markers(pages) } {
        return Ok(GuardKind::Marker);
    }
    for &page in pages {
        // SAFETY: by 1 and 2.
        if unsafe { libc::mprotect(page.cast(), PAGE, libc::PROT_NONE) } != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(GuardKind::Mapping)
}

/// Takes back what [`install_guards`] did to one page, which reads as zero then.
///
/// # Safety
/// 1. The page was guarded, and is one that may be used.
pub(crate) unsafe fn remove_guard(page: *mut u8) -> io::Result<()> {
    // SAFETY: by 1. Which kind of guard it has the kernel does not tell (one with markers makes
    // none in locked memory); what is not there is taken back without harm.
    let failed = unsafe {
        libc::madvise(page.cast(), PAGE, MADV_GUARD_REMOVE);
        libc::mprotect(page.cast(), PAGE, libc::PROT_READ | libc::PROT_WRITE) != 0
    };
    if failed { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Copies a page of this process, which may be closed: false then.
pub(crate) fn copy_page(address: usize, words: &mut [u64; PAGE / size_of::<u64>()]) -> bool {
    let local = libc::iovec { iov_base: words.as_mut_ptr().cast(), iov_len: PAGE };
    let remote =
        libc::iovec { iov_base: core::ptr::with_exposed_provenance_mut(address), iov_len: PAGE };
    // SAFETY: the buffer has a page; the kernel looks whether the other memory can be read.
    let copied = unsafe { libc::process_vm_readv(libc::getpid(), &local, 1, &remote, 1, 0) };
    copied == PAGE as isize
}

/// Tries guard markers, many pages in one call; false when the kernel has none.
///
/// # Safety
/// As [`install_guards`].
unsafe fn install_markers(pages: &[*mut u8]) -> bool {
    for batch in pages.chunks(GUARDS_PER_CALL) {
        // SAFETY: passed on.
        if !unsafe { install_marker_batch(batch) } {
            return false;
        }
    }
    true
}

/// One batch by `process_madvise` on ourselves, else one `madvise` a page.
///
/// # Safety
/// As [`install_guards`].
unsafe fn install_marker_batch(batch: &[*mut u8]) -> bool {
    let vectors: Vec<libc::iovec> =
        batch.iter().map(|&page| libc::iovec { iov_base: page.cast(), iov_len: PAGE }).collect();
    // SAFETY: the vectors name pages that the caller vouches for.
    if unsafe { advise_all(&vectors, MADV_GUARD_INSTALL) } {
        return true;
    }
    // SAFETY: by the caller's promise for each page.
    batch.iter().all(|&p| unsafe { libc::madvise(p.cast(), PAGE, MADV_GUARD_INSTALL) } == 0)
}

/// One advice for all `vectors`, in one call; false where the kernel does not do that, or not all.
///
/// # Safety
/// 1. The advice may be given for the memory that the vectors name, at most `UIO_MAXIOV` of them.
unsafe fn advise_all(vectors: &[libc::iovec], advice: libc::c_int) -> bool {
    let Some(own) = own_pidfd() else { return false };
    let bytes: usize = vectors.iter().map(|vector| vector.iov_len).sum();
    // SAFETY: by 1.
    let done = unsafe {
        libc::syscall(libc::SYS_process_madvise, own, vectors.as_ptr(), vectors.len(), advice, 0)
    };
    done == bytes as libc::c_long
}

/// A pidfd of this process, opened once; `None` where the kernel has none or after a fork.
fn own_pidfd() -> Option<libc::c_int> {
    use std::sync::OnceLock;
    static PIDFD: OnceLock<(u32, Option<libc::c_int>)> = OnceLock::new();
    let (pid, fd) = *PIDFD.get_or_init(|| {
        let (own, flags) = (rustix::process::getpid(), rustix::process::PidfdFlags::empty());
        let fd = raised(|| rustix::process::pidfd_open(own, flags));
        // Kept for the life of the process on purpose: growing the stack pool needs it.
        (std::process::id(), fd.ok().map(keep))
    });
    if pid == std::process::id() { fd } else { None }
}
