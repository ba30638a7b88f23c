//! What this kernel can do, found out by doing it once: for `heddle doctor`.
//!
//! Invariant: a probe leaves nothing behind (memory, descriptors, rings) and waits at most
//! [`WAIT_MAX`]. It tries the call itself: version numbers lie on patched and on filtered
//! (seccomp) kernels.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::ptr::{self, NonNull};
use std::time::Duration;

use io_uring::{IoUring, cqueue, opcode, squeue, types};

const PAGE: usize = 4096;
/// `MADV_GUARD_INSTALL` (Linux 6.13).
const MADV_GUARD_INSTALL: libc::c_int = 102;
/// A probe's completion is due at once; this only bounds a kernel that loses it.
const WAIT_MAX: Duration = Duration::from_millis(200);

/// Some pages of private memory that end with the value.
struct Pages {
    start: NonNull<u8>,
    count: usize,
}

impl Pages {
    fn new(count: usize) -> io::Result<Pages> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a fresh mapping at an address of the kernel's choice.
        let start = unsafe { libc::mmap(ptr::null_mut(), count * PAGE, protection, flags, -1, 0) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).expect("mmap never returns null");
        Ok(Pages { start, count })
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours and nobody looks at it any more.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.count * PAGE) };
    }
}

/// 0 is success, anything else an error in errno.
fn check(result: libc::c_int) -> io::Result<()> {
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Guard pages without a mapping of their own.
pub(crate) fn guard_install() -> io::Result<()> {
    let pages = Pages::new(1)?;
    // SAFETY: a page of our own that nobody touches.
    check(unsafe { libc::madvise(pages.start.as_ptr().cast(), PAGE, MADV_GUARD_INSTALL) })
}

/// Many guard pages by one system call.
pub(crate) fn guard_batch() -> io::Result<()> {
    let pages = Pages::new(4)?;
    let own = rustix::process::getpid();
    let pidfd = rustix::process::pidfd_open(own, rustix::process::PidfdFlags::empty())?;
    let vectors = [0, 2].map(|page| libc::iovec {
        // SAFETY: both offsets are inside the four pages.
        iov_base: unsafe { pages.start.as_ptr().add(page * PAGE) }.cast(),
        iov_len: PAGE,
    });
    // SAFETY: the vectors name pages of our own that nobody touches.
    let done = unsafe {
        libc::syscall(
            libc::SYS_process_madvise,
            pidfd.as_raw_fd(),
            vectors.as_ptr(),
            vectors.len(),
            MADV_GUARD_INSTALL,
            0,
        )
    };
    match usize::try_from(done) {
        Ok(bytes) if bytes == 2 * PAGE => Ok(()),
        Ok(_) => Err(io::ErrorKind::Unsupported.into()),
        Err(_) => Err(io::Error::last_os_error()),
    }
}

/// Mapping pages ahead of their use.
pub(crate) fn populate() -> io::Result<()> {
    let pages = Pages::new(1)?;
    let start = pages.start.as_ptr().cast();
    // SAFETY: a page of our own; populating changes no content.
    check(unsafe { libc::madvise(start, PAGE, libc::MADV_POPULATE_WRITE) })
}

/// `struct pm_scan_arg` of `<linux/fs.h>`.
#[repr(C)]
#[derive(Default)]
struct ScanArguments {
    size: u64,
    flags: u64,
    start: u64,
    end: u64,
    walk_end: u64,
    vector: u64,
    vector_length: u64,
    pages_max: u64,
    category_inverted: u64,
    category_mask: u64,
    category_any_mask: u64,
    return_mask: u64,
}

/// Finding touched pages by one call (Linux 6.7).
pub(crate) fn pagemap_scan() -> io::Result<()> {
    const PAGEMAP_SCAN: libc::c_ulong = 0xc060_6610;
    const PAGE_IS_PRESENT: u64 = 1 << 3;
    let pages = Pages::new(4)?;
    // SAFETY: inside our own pages.
    unsafe { pages.start.as_ptr().add(PAGE).write_volatile(1) };
    let mut regions = [[0_u64; 3]; 4];
    let start = pages.start.as_ptr() as u64;
    let mut arguments = ScanArguments {
        size: size_of::<ScanArguments>() as u64,
        start,
        end: start + 4 * PAGE as u64,
        vector: regions.as_mut_ptr() as u64,
        vector_length: regions.len() as u64,
        category_mask: PAGE_IS_PRESENT,
        return_mask: PAGE_IS_PRESENT,
        ..ScanArguments::default()
    };
    let pagemap = File::open("/proc/self/pagemap")?;
    // SAFETY: the arguments are as the call wants them, and the vector has room for 4 regions.
    let found = unsafe { libc::ioctl(pagemap.as_raw_fd(), PAGEMAP_SCAN as _, &mut arguments) };
    match found {
        1 if regions[0][0] == start + PAGE as u64 => Ok(()),
        ..=0 => Err(io::Error::last_os_error()),
        _ => Err(io::Error::other("it finds the wrong pages")),
    }
}

/// A ring as the runtime's workers make theirs.
pub(crate) fn ring() -> io::Result<IoUring> {
    IoUring::builder().setup_single_issuer().setup_defer_taskrun().setup_taskrun_flag().build(8)
}

/// A ring without anything newer than io_uring itself.
pub(crate) fn plain_ring() -> io::Result<IoUring> {
    IoUring::new(8)
}

/// The operations among `wanted` that the kernel does not know.
pub(crate) fn missing_operations(
    ring: &IoUring,
    wanted: &[(&'static str, u8)],
) -> io::Result<Vec<&'static str>> {
    let mut probe = io_uring::Probe::new();
    ring.submitter().register_probe(&mut probe)?;
    let missing = wanted.iter().filter(|(_, code)| !probe.is_supported(*code));
    Ok(missing.map(|(name, _)| *name).collect())
}

/// One submission accepts many connections.
pub(crate) fn multishot_accept(ring: &mut IoUring) -> io::Result<()> {
    // An abstract name needs no file and no network.
    let name = format!("heddle-probe-{}-{:p}", std::process::id(), ring);
    let address = SocketAddr::from_abstract_name(name)?;
    let listener = UnixListener::bind_addr(&address)?;
    let _client = UnixStream::connect_addr(&address)?;
    let entry = opcode::AcceptMulti::new(types::Fd(listener.as_raw_fd())).build();
    // SAFETY: the operation refers to no memory.
    let (result, more) = unsafe { complete(ring, entry, listener.as_raw_fd())? };
    if result >= 0 {
        use std::os::fd::{FromRawFd, OwnedFd};
        // SAFETY: the completion handed this descriptor to us.
        drop(unsafe { OwnedFd::from_raw_fd(result) });
    }
    demand_more(result, more)
}

/// One submission receives many times, into buffers that the kernel takes from a shared ring.
/// The two results are of the ring of buffers and of receiving.
pub(crate) fn multishot_receive(ring: &mut IoUring) -> (io::Result<()>, io::Result<()>) {
    let unsupported = || Err(io::ErrorKind::Unsupported.into());
    let buffers = match Buffers::register(ring) {
        Ok(buffers) => buffers,
        Err(error) => return (Err(error), unsupported()),
    };
    let received = receive(ring);
    let _ = ring.submitter().unregister_buf_ring(GROUP);
    drop(buffers);
    (Ok(()), received)
}

/// Group of the probe's buffers.
const GROUP: u16 = 1;

/// A ring of one buffer: its page, then the buffer's.
struct Buffers(#[allow(dead_code)] Pages);

impl Buffers {
    fn register(ring: &IoUring) -> io::Result<Buffers> {
        let pages = Pages::new(2)?;
        let base = pages.start.as_ptr().cast::<types::BufRingEntry>();
        // SAFETY: `base` is a page of zeroes, which holds more than one entry; the caller
        // unregisters the ring before the pages go.
        unsafe {
            ring.submitter().register_buf_ring_with_flags(base as u64, 1, GROUP, 0)?;
            (*base).set_addr(base as u64 + PAGE as u64);
            (*base).set_len(PAGE as u32);
            (*base).set_bid(0);
            // The kernel reads the tail when an operation takes a buffer, which is later.
            types::BufRingEntry::tail(base).cast_mut().write_volatile(1);
        }
        Ok(Buffers(pages))
    }
}

fn receive(ring: &mut IoUring) -> io::Result<()> {
    let (mut one, other) = UnixStream::pair()?;
    one.write_all(b"x")?;
    let entry = opcode::RecvMulti::new(types::Fd(other.as_raw_fd()), GROUP).build();
    // SAFETY: the operation's memory is the registered buffer, which outlives it.
    let (result, more) = unsafe { complete(ring, entry, other.as_raw_fd())? };
    demand_more(result, more)
}

/// A multishot operation says with its first completion that more will come.
fn demand_more(result: i32, more: bool) -> io::Result<()> {
    match (result, more) {
        (..=-1, _) => Err(io::Error::from_raw_os_error(-result)),
        (_, true) => Ok(()),
        (_, false) => Err(io::ErrorKind::Unsupported.into()),
    }
}

/// Runs an operation to its first completion, ends it, and gives the result and whether more
/// completions would have come.
///
/// # Safety
/// 1. Memory that the entry refers to is valid until this returns.
unsafe fn complete(ring: &mut IoUring, entry: squeue::Entry, fd: RawFd) -> io::Result<(i32, bool)> {
    // SAFETY: by 1; the operation ends below.
    unsafe { push(ring, &entry.user_data(1)) };
    let first = wait(ring, 1)?;
    let outcome = (first.result(), cqueue::more(first.flags()));
    if outcome.1 {
        let cancel = types::CancelBuilder::fd(types::Fd(fd)).all();
        ring.submitter().register_sync_cancel(None, cancel)?;
        wait(ring, 1)?;
    }
    Ok(outcome)
}

/// # Safety
/// 1. Memory that the entry refers to is valid until the operation ends.
unsafe fn push(ring: &mut IoUring, entry: &squeue::Entry) {
    // SAFETY: by 1. The ring has eight places and is used for one operation at a time.
    unsafe { ring.submission().push(entry) }.expect("an empty ring has room");
}

/// Submits and waits for a completion with this `user_data`.
fn wait(ring: &mut IoUring, user_data: u64) -> io::Result<cqueue::Entry> {
    let time = types::Timespec::from(WAIT_MAX);
    let arguments = types::SubmitArgs::new().timespec(&time);
    ring.submitter().submit_with_args(1, &arguments)?;
    let mut completions = ring.completion();
    completions.find(|entry| entry.user_data() == user_data).ok_or(io::ErrorKind::TimedOut.into())
}

/// Opening a file without leaving a folder.
pub(crate) fn open_beneath() -> io::Result<()> {
    use rustix::fs::{Mode, OFlags, ResolveFlags};
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let root = rustix::fs::open("/proc/self", flags | OFlags::DIRECTORY, Mode::empty())?;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    rustix::fs::openat2(&root, "stat", flags, Mode::empty(), resolve)?;
    Ok(())
}

/// A descriptor for a process.
pub(crate) fn pidfd() -> io::Result<()> {
    let own = rustix::process::getpid();
    rustix::process::pidfd_open(own, rustix::process::PidfdFlags::empty())?;
    Ok(())
}

/// Whether user space may set its thread pointer by an instruction; `None` where the processor
/// always may.
pub(crate) fn fsgsbase() -> Option<bool> {
    const HWCAP2_FSGSBASE: usize = 1 << 1;
    let (_, second) = rustix::param::linux_hwcap();
    cfg!(target_arch = "x86_64").then_some(second & HWCAP2_FSGSBASE != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probes_agree_with_each_other() {
        if guard_batch().is_ok() {
            assert!(guard_install().is_ok(), "a batch is made of single guards");
        }
        if ring().is_ok() {
            assert!(plain_ring().is_ok(), "the newer ring needs the older");
        }
    }

    #[test]
    fn probes_can_be_repeated() {
        let twice = [(); 2].map(|()| {
            let Ok(mut ring) = ring() else { return None };
            let (buffers, receive) = multishot_receive(&mut ring);
            let accept = multishot_accept(&mut ring).is_ok();
            Some((accept, buffers.is_ok(), receive.is_ok(), pagemap_scan().is_ok()))
        });
        assert_eq!(twice[0], twice[1]);
        if twice[0].is_none() {
            println!("skip: this kernel gives no io_uring with deferred task work");
        }
    }
}
