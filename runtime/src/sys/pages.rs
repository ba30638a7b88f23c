//! Which pages of a range were touched: PAGEMAP_SCAN, which asks for the first such page in one
//! system call, else the entries of /proc/self/pagemap (kernels before 6.7).

use core::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::sync::OnceLock;

use super::descriptor::{self, raised};
use super::memory::{self, PAGE};

/// Pages asked about at once.
const BATCH: usize = 64;
/// pagemap: the page is present, or swapped out.
const TOUCHED: u64 = 1 << 63 | 1 << 62;

/// `PAGEMAP_SCAN`: `_IOWR('f', 16, struct pm_scan_arg)`.
const PAGEMAP_SCAN: libc::c_ulong = 0xc060_6610;
/// `PAGE_IS_PRESENT | PAGE_IS_SWAPPED`.
const SCAN_TOUCHED: u64 = 1 << 3 | 1 << 4;

/// `struct pm_scan_arg` of <linux/fs.h>.
#[repr(C)]
#[derive(Default)]
struct ScanArgument {
    size: u64,
    flags: u64,
    start: u64,
    end: u64,
    walk_end: u64,
    regions: u64,
    regions_len: u64,
    max_pages: u64,
    category_inverted: u64,
    category_mask: u64,
    category_anyof_mask: u64,
    return_mask: u64,
}

/// `struct page_region` of <linux/fs.h>.
#[repr(C)]
#[derive(Default)]
struct Region {
    start: u64,
    end: u64,
    categories: u64,
}

/// Pages of stacks may be closed and opened at any time.
static HAS_HOLES: AtomicBool = AtomicBool::new(false);

/// From now on pages inside of stacks may be closed. Before the first is.
pub(crate) fn expect_holes() {
    HAS_HOLES.store(true, Relaxed);
}

/// Address of the lowest non-zero word of the lowest touched page in `[start, start + bytes)`.
///
/// `None` when nothing was touched or the kernel does not tell.
///
/// # Safety
/// 1. The range is readable memory, page-aligned, but for pages that are closed after
///    [`expect_holes`].
pub(crate) unsafe fn lowest_used(start: *const u8, bytes: usize) -> Option<usize> {
    if HAS_HOLES.load(Relaxed) {
        return lowest_used_by_pages(start as usize, bytes);
    }
    let page = lowest_touched(start as usize, bytes / PAGE)?;
    // A touched page may be all zero (it was only read); then the page above decides.
    let mut address = page;
    while address < start as usize + bytes {
        // SAFETY: by 1, `address` is in the range, 8-byte aligned.
        if unsafe { core::ptr::with_exposed_provenance::<u64>(address).read_volatile() } != 0 {
            return Some(address);
        }
        address += size_of::<u64>();
    }
    None
}

/// As [`lowest_used`]; a page that cannot be read has nothing in it. The kernel reads, as a page
/// may be closed at any moment.
fn lowest_used_by_pages(start: usize, bytes: usize) -> Option<usize> {
    let (mut from, end) = (start, start + bytes);
    while let Some(touched) = lowest_touched(from, (end - from) / PAGE) {
        let mut words = [0u64; PAGE / size_of::<u64>()];
        if memory::copy_page(touched, &mut words)
            && let Some(index) = words.iter().position(|&word| word != 0)
        {
            return Some(touched + index * size_of::<u64>());
        }
        from = touched + PAGE;
    }
    None
}

fn lowest_touched(start: usize, count: usize) -> Option<usize> {
    static PAGEMAP: OnceLock<Option<File>> = OnceLock::new();
    static CAN_SCAN: AtomicBool = AtomicBool::new(true);
    let open = || {
        let pagemap = raised(|| File::open("/proc/self/pagemap").map(OwnedFd::from)).ok()?;
        descriptor::mark(pagemap.as_raw_fd());
        Some(File::from(pagemap))
    };
    let pagemap = PAGEMAP.get_or_init(open).as_ref()?;
    if CAN_SCAN.load(Relaxed) {
        match scan(pagemap, start, count) {
            Ok(found) => return found,
            Err(_refused) => CAN_SCAN.store(false, Relaxed),
        }
    }
    read_entries(pagemap, start, count)
}

/// Asks the kernel for the first touched page.
fn scan(pagemap: &File, start: usize, count: usize) -> std::io::Result<Option<usize>> {
    let mut region = Region::default();
    let mut argument = ScanArgument {
        size: size_of::<ScanArgument>() as u64,
        start: start as u64,
        end: (start + count * PAGE) as u64,
        regions: (&raw mut region).expose_provenance() as u64,
        regions_len: 1,
        max_pages: 1,
        category_anyof_mask: SCAN_TOUCHED,
        return_mask: SCAN_TOUCHED,
        ..ScanArgument::default()
    };
    // SAFETY: the argument has the kernel's layout and names room for one region; the request
    // reads page tables and changes nothing.
    let found = unsafe { libc::ioctl(pagemap.as_raw_fd(), PAGEMAP_SCAN, &raw mut argument) };
    match found {
        0 => Ok(None),
        n if n > 0 => Ok(Some(region.start as usize)),
        _ => Err(std::io::Error::last_os_error()),
    }
}

fn read_entries(pagemap: &File, start: usize, count: usize) -> Option<usize> {
    let mut entries = [0u8; BATCH * 8];
    let mut first = 0;
    while first < count {
        let batch = BATCH.min(count - first);
        let offset = (start / PAGE + first) as u64 * 8;
        pagemap.read_exact_at(&mut entries[..batch * 8], offset).ok()?;
        for (index, entry) in entries[..batch * 8].chunks_exact(8).enumerate() {
            let entry = u64::from_ne_bytes(entry.try_into().ok()?);
            if entry & TOUCHED != 0 {
                return Some(start + (first + index) * PAGE);
            }
        }
        first += batch;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_closed_page_has_nothing_in_it() {
        const PAGES: usize = 16;
        // SAFETY: new private memory, never given back.
        let start = unsafe {
            let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE);
            let flags = flags | libc::MAP_ANONYMOUS;
            libc::mmap(std::ptr::null_mut(), PAGES * PAGE, protection, flags, -1, 0)
        };
        assert_ne!(start, libc::MAP_FAILED);
        let page = |index: usize| start.cast::<u8>().wrapping_add(index * PAGE);
        let find = || lowest_used_by_pages(start.expose_provenance(), PAGES * PAGE);
        // SAFETY: inside the mapping, and nobody else's.
        unsafe {
            page(12).add(9).write_volatile(1);
            page(5).read_volatile();
            if !memory::copy_page(page(12).expose_provenance(), &mut [0; PAGE / 8]) {
                return eprintln!("skip: process_vm_readv is not to be had here");
            }
            memory::install_guards(&[page(7)]).expect("a guard");
            assert_eq!(find(), Some(page(12).expose_provenance() + 8));
            memory::remove_guard(page(7)).expect("no guard");
            page(7).add(16).write_volatile(1);
        }
        assert_eq!(find(), Some(page(7).expose_provenance() + 16));
    }

    #[test]
    fn both_ways_find_the_same_page() {
        const PAGES: usize = 300;
        let Ok(pagemap) = File::open("/proc/self/pagemap") else {
            return eprintln!("skip: /proc/self/pagemap cannot be read");
        };
        // SAFETY: new private memory, never given back.
        let start = unsafe {
            let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE);
            let flags = flags | libc::MAP_ANONYMOUS;
            libc::mmap(std::ptr::null_mut(), PAGES * PAGE, protection, flags, -1, 0)
        };
        assert_ne!(start, libc::MAP_FAILED);
        let address = start.expose_provenance();
        assert_eq!(read_entries(&pagemap, address, PAGES), None);
        if let Ok(found) = scan(&pagemap, address, PAGES) {
            assert_eq!(found, None);
        } else {
            eprintln!("skip: this kernel has no PAGEMAP_SCAN");
        }
        for page in [250, 99, 1] {
            // SAFETY: inside the mapping.
            unsafe { start.cast::<u8>().add(page * PAGE + 5).write_volatile(1) };
            let expected = Some(address + page * PAGE);
            assert_eq!(read_entries(&pagemap, address, PAGES), expected);
            if let Ok(found) = scan(&pagemap, address, PAGES) {
                assert_eq!(found, expected);
            }
        }
    }
}
