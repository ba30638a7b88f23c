//! Which pages of a process were touched: the kernel's PAGEMAP_SCAN, and the table that it has
//! had for longer.
//!
//! Invariants
//! - What is found lies in the range that was asked for, whatever the kernel answers.
//! - Memory is bounded: the older way reads 512 entries at a time.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Entries per read of the older way.
const CHUNK_PAGES: usize = 512;
/// Regions per answer.
const REGIONS: usize = 64;
/// Bit of an entry: the page is in memory.
const ENTRY_PRESENT: u64 = 1 << 63;
/// Bit of an entry: the page is in the swap.
const ENTRY_SWAPPED: u64 = 1 << 62;

/// `PAGE_IS_PRESENT` of <linux/fs.h>.
const PRESENT: u64 = 1 << 3;
/// `PAGE_IS_SWAPPED`.
const SWAPPED: u64 = 1 << 4;

/// `struct page_region`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Region {
    start: u64,
    end: u64,
    categories: u64,
}

/// `struct pm_scan_arg`.
#[repr(C)]
#[derive(Default)]
struct Scan {
    size: u64,
    flags: u64,
    start: u64,
    end: u64,
    walk_end: u64,
    vec: u64,
    vec_len: u64,
    max_pages: u64,
    category_inverted: u64,
    category_mask: u64,
    category_anyof_mask: u64,
    return_mask: u64,
}

/// `_IOWR('f', 16, struct pm_scan_arg)`.
const PAGEMAP_SCAN: libc::c_ulong = 0xc060_6610;

/// The kernel has no PAGEMAP_SCAN (it came with Linux 6.7).
static UNKNOWN: AtomicBool = AtomicBool::new(false);

/// What is known of a range of pages.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Touched {
    /// Address of the lowest page that is in memory or in the swap; `None` if none is.
    pub lowest: Option<u64>,
    /// Bytes of the pages that are in memory.
    pub resident: u64,
}

/// The `pagemap` of a process: whose memory is looked at.
#[derive(Debug)]
pub struct Pagemap {
    file: File,
    page: u64,
}

impl Pagemap {
    /// Opens it.
    ///
    /// # Errors
    /// If there is no such process, or it is not this user's to look into.
    pub fn open(pid: i32) -> io::Result<Pagemap> {
        let file = File::open(format!("/proc/{pid}/pagemap"))?;
        Ok(Pagemap { file, page: rustix::param::page_size() as u64 })
    }

    /// Looks at the pages of `range`, whose ends are rounded outwards to whole pages.
    ///
    /// # Errors
    /// If the process is gone or the addresses are none of its.
    pub fn touched(&self, range: Range<u64>) -> io::Result<Touched> {
        let start = range.start - range.start % self.page;
        let end = range.end.checked_next_multiple_of(self.page);
        let end = end.ok_or(io::ErrorKind::InvalidInput)?;
        if !UNKNOWN.load(Relaxed) {
            match self.scan(start..end) {
                Err(error) if error.raw_os_error() == Some(libc::ENOTTY) => {
                    UNKNOWN.store(true, Relaxed);
                }
                result => return result,
            }
        }
        self.read_entries(start..end)
    }

    /// By the newer way: regions of pages that are alike.
    fn scan(&self, range: Range<u64>) -> io::Result<Touched> {
        let mut regions = [Region::default(); REGIONS];
        let mut touched = Touched::default();
        let mut at = range.start;
        while at < range.end {
            let (count, walked) = self.scan_once(at..range.end, &mut regions)?;
            for region in &regions[..count] {
                let found = region.start.max(at)..region.end.min(range.end);
                if found.is_empty() {
                    continue;
                }
                touched.lowest = touched.lowest.or(Some(found.start));
                if region.categories & PRESENT != 0 {
                    touched.resident += found.end - found.start;
                }
            }
            // A kernel that does not get on would keep us here.
            if walked <= at {
                break;
            }
            at = walked;
        }
        Ok(touched)
    }

    /// One answer of the kernel: how many regions, and up to where it looked.
    fn scan_once(&self, range: Range<u64>, regions: &mut [Region]) -> io::Result<(usize, u64)> {
        let mut scan = Scan {
            size: size_of::<Scan>() as u64,
            start: range.start,
            end: range.end,
            vec: regions.as_mut_ptr().expose_provenance() as u64,
            vec_len: regions.len() as u64,
            category_anyof_mask: PRESENT | SWAPPED,
            return_mask: PRESENT | SWAPPED,
            ..Scan::default()
        };
        let fd = self.file.as_raw_fd();
        // SAFETY: the argument has the layout and the size that the request asks for; the kernel
        // writes to it and to at most `vec_len` regions, all of which live through the call.
        let count = unsafe { libc::ioctl(fd, PAGEMAP_SCAN as _, &raw mut scan) };
        match usize::try_from(count) {
            Ok(count) => Ok((count.min(regions.len()), scan.walk_end)),
            Err(_) => Err(io::Error::last_os_error()),
        }
    }

    /// By the older way: eight bytes per page.
    fn read_entries(&self, range: Range<u64>) -> io::Result<Touched> {
        let mut bytes = [0; 8 * CHUNK_PAGES];
        let mut touched = Touched::default();
        let mut at = range.start;
        while at < range.end {
            let pages = ((range.end - at) / self.page).min(CHUNK_PAGES as u64);
            let chunk = &mut bytes[..8 * pages as usize];
            self.file.read_exact_at(chunk, at / self.page * 8)?;
            for entry in chunk.as_chunks::<8>().0 {
                let entry = u64::from_le_bytes(*entry);
                if entry & (ENTRY_PRESENT | ENTRY_SWAPPED) != 0 {
                    touched.lowest = touched.lowest.or(Some(at));
                }
                if entry & ENTRY_PRESENT != 0 {
                    touched.resident += self.page;
                }
                at += self.page;
            }
        }
        Ok(touched)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    use std::ptr::{NonNull, null_mut};

    /// Memory that nobody has touched yet. (What the allocator gives may have been used before.)
    pub(crate) struct Fresh {
        start: NonNull<u8>,
        bytes: usize,
    }

    impl Fresh {
        pub(crate) fn new(bytes: usize) -> Fresh {
            use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous};
            let (access, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
            // SAFETY: a new mapping at an address of the kernel's choice.
            let start = unsafe { mmap_anonymous(null_mut(), bytes, access, flags) };
            let start = start.expect("memory");
            // SAFETY: the mapping is new, and this changes no content. It may fail where there
            // are no huge pages.
            let _ = unsafe { madvise(start, bytes, Advice::LinuxNoHugepage) };
            Fresh { start: NonNull::new(start.cast()).expect("not null"), bytes }
        }

        pub(crate) fn bytes(&mut self) -> &mut [u8] {
            // SAFETY: the mapping is this value's alone, as long as it lives, and zeroed.
            unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.bytes) }
        }

        pub(crate) fn range(&self) -> Range<u64> {
            let start = self.start.as_ptr().addr() as u64;
            start..start + self.bytes as u64
        }
    }

    impl Drop for Fresh {
        fn drop(&mut self) {
            // SAFETY: the mapping is this value's, and nobody borrows from it any more.
            let _ = unsafe { rustix::mm::munmap(self.start.as_ptr().cast(), self.bytes) };
        }
    }

    #[test]
    fn both_ways_find_the_same_pages() {
        let pagemap = Pagemap::open(std::process::id().cast_signed()).expect("our own");
        let page = pagemap.page as usize;
        let mut memory = Fresh::new(500 * page);
        // Every second page is touched: more regions than fit into one answer.
        for index in (40..400).step_by(2) {
            memory.bytes()[index * page] = 1;
        }
        let range = memory.range();
        let expected =
            Touched { lowest: Some(range.start + 40 * pagemap.page), resident: 180 * pagemap.page };
        assert_eq!(pagemap.read_entries(range.clone()).expect("entries"), expected);
        match pagemap.scan(range.clone()) {
            Err(error) if error.raw_os_error() == Some(libc::ENOTTY) => {
                eprintln!("skip: this kernel has no PAGEMAP_SCAN");
            }
            new => assert_eq!(new.expect("a scan"), expected),
        }
        let inner = range.start + 50 * pagemap.page + 1..range.start + 52 * pagemap.page + 1;
        let touched = pagemap.touched(inner).expect("it");
        assert_eq!(touched.lowest, Some(range.start + 50 * pagemap.page));
        assert_eq!(touched.resident, 2 * pagemap.page);
    }

    #[test]
    fn memory_that_is_not_there_is_not_touched() {
        let pagemap = Pagemap::open(std::process::id().cast_signed()).expect("our own");
        assert_eq!(pagemap.touched(0x1000..0x9000).expect("a hole"), Touched::default());
        assert!(pagemap.touched(u64::MAX - 8192..u64::MAX).is_err());
        assert!(pagemap.touched(1 << 62..(1 << 62) + 1).map_or(0, |it| it.resident) == 0);
        assert!(Pagemap::open(1 << 30).is_err(), "no such process");
    }
}
