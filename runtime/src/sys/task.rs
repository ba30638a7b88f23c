//! The kernel thread below a worker: its id, its signals, its alternate stack, its %gs base.

use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;
use std::ffi::{CStr, CString};
use std::io::{self, Write};

use rustix::io::Errno;

use super::descriptor::{self, Brief};
use super::kernel_thread;
use crate::handed::{self, Giver};

/// Kernel thread id of the caller.
pub(crate) fn tid() -> i32 {
    rustix::thread::gettid().as_raw_nonzero().get()
}

/// The caller's name, as the kernel knows it; empty where it does not tell.
pub(crate) fn name() -> CString {
    rustix::thread::name().unwrap_or_default()
}

/// Points %gs at `base`, so that compiled polls can test the worker's poll word as `%gs:0`.
///
/// A no-op on other processors, whose polls go through the thread pointer.
pub(crate) fn set_poll_base(base: *const u8) {
    #[cfg(target_arch = "x86_64")]
    {
        const ARCH_SET_GS: libc::c_int = 0x1001;
        // SAFETY: user space on Linux x86-64 does not use %gs; the value is only an address.
        unsafe { libc::syscall(libc::SYS_arch_prctl, ARCH_SET_GS, base) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = base;
}

/// Signals that report a fault of the program, in the thread that has it. SIGABRT is one of them:
/// `abort` sends it to the calling kernel thread, and since glibc 2.41 a handler is called only
/// where the signal is not blocked. SIGSYS comes from a filter on system calls, which kills whoever
/// blocks it.
pub const FAULTS: [i32; 7] = [
    libc::SIGSEGV,
    libc::SIGBUS,
    libc::SIGFPE,
    libc::SIGILL,
    libc::SIGTRAP,
    libc::SIGABRT,
    libc::SIGSYS,
];

/// Other signals that workers let through: bits, by number less one.
static LET_THROUGH: AtomicU64 = AtomicU64::new(0);

/// Has workers that are made from now on let `signal` through, too. The embedding library has a
/// handler for it that does not wait, nor runs anything of the program's but where a thread may be
/// left.
pub fn let_through(signal: i32) {
    LET_THROUGH.fetch_or(1 << (signal - 1), Relaxed);
}

/// Those signals, as bits.
pub(crate) fn let_through_by_workers() -> u64 {
    LET_THROUGH.load(Relaxed)
}

/// Lets those through, on a worker's kernel thread.
pub(crate) fn open_for_worker() {
    let signals = LET_THROUGH.load(Relaxed);
    // SAFETY: plain libc calls on a local set.
    let set = unsafe {
        let mut set: libc::sigset_t = core::mem::zeroed();
        (1..=64).filter(|signal| signals & 1 << (signal - 1) != 0).for_each(|signal| {
            libc::sigaddset(&mut set, signal);
        });
        set
    };
    if signals != 0 {
        change_mask(libc::SIG_UNBLOCK, &set);
    }
}

/// Blocks all signals but [`FAULTS`] for the calling kernel thread, and lets those through.
///
/// A handler of the program would otherwise run on a small user-level stack.
pub(crate) fn block_signals() {
    change_mask(libc::SIG_SETMASK, &all_but_faults());
}

fn all_but_faults() -> libc::sigset_t {
    // SAFETY: plain libc calls on a local set.
    unsafe {
        let mut set: libc::sigset_t = core::mem::zeroed();
        libc::sigfillset(&mut set);
        for fault in FAULTS {
            libc::sigdelset(&mut set, fault);
        }
        set
    }
}

/// Returns the mask as it was.
fn change_mask(how: libc::c_int, set: &libc::sigset_t) -> libc::sigset_t {
    // SAFETY: plain libc calls on valid sets.
    unsafe {
        let mut before: libc::sigset_t = core::mem::zeroed();
        libc::pthread_sigmask(how, set, &mut before);
        before
    }
}

/// Whether the calling kernel thread lets `signal` and [`FAULTS`] through and is not on the
/// alternate stack that the kernel knows, as it is, or is not, in handlers that the kernel calls.
pub(crate) fn is_in_no_handler(signal: i32) -> bool {
    // SAFETY: plain calls on local places.
    unsafe {
        let (mut blocked, mut stack) = (core::mem::zeroed(), core::mem::zeroed::<libc::stack_t>());
        libc::pthread_sigmask(libc::SIG_BLOCK, core::ptr::null(), &mut blocked);
        libc::sigaltstack(core::ptr::null(), &mut stack);
        let mut signals = FAULTS.into_iter().chain([signal]);
        stack.ss_flags & libc::SS_ONSTACK == 0
            && signals.all(|signal| libc::sigismember(&blocked, signal) == 0)
    }
}

/// Blocks all signals in the calling kernel thread, those of the C library as well, which its own
/// functions leave out; returns the mask as it was, for [`unmask`].
#[cfg(target_arch = "x86_64")]
pub(crate) fn mask_all() -> u64 {
    set_mask(u64::MAX)
}

/// Ends what [`mask_all`] began.
#[cfg(target_arch = "x86_64")]
pub(crate) fn unmask(before: u64) {
    set_mask(before);
}

#[cfg(target_arch = "x86_64")]
fn set_mask(set: u64) -> u64 {
    let (call, mut before) = (libc::SYS_rt_sigprocmask, 0u64);
    // SAFETY: valid places of the kernel's size.
    unsafe {
        libc::syscall(call, libc::SIG_SETMASK, &raw const set, &raw mut before, size_of::<u64>());
    }
    before
}

/// Makes a kernel thread of the runtime's own. It begins with the mask of whoever makes it: even if
/// it calls [`block_signals`] at once, on a busy machine that comes late, and a handler of the
/// program's could run there in between. So the signals are blocked while it is made.
pub(crate) fn without_signals<T>(make: impl FnOnce() -> T) -> T {
    // Its worker blocks them as it is, and must be left so: it allocates, and the allocator may
    // have the thread wait, while the worker runs others.
    if crate::thread::is_user_level() {
        return make();
    }
    let before = change_mask(libc::SIG_BLOCK, &all_but_faults());
    let made = make();
    change_mask(libc::SIG_SETMASK, &before);
    made
}

/// Starts a kernel thread of the runtime's own.
pub(crate) fn start(
    name: &str,
    stack_bytes: usize,
    body: impl FnOnce() + Send + 'static,
) -> io::Result<()> {
    let whole = move || {
        block_signals();
        body();
    };
    without_signals(|| kernel_thread::start(name, stack_bytes, whole))
}

/// A kernel thread that waits until it may begin; it ends when this goes before.
pub(crate) struct Helper(Giver<()>);

impl Helper {
    /// Makes one, and waits until it is about to run `body`: on its way there it comes to the
    /// program's allocator, which a thread that is made next may hold.
    pub fn make(name: &str, body: impl FnOnce() + Send + 'static) -> io::Result<Helper> {
        let ((runs, told), (begins, may_begin)) = (handed::pair(), handed::pair());
        let whole = move || {
            runs.give(());
            if may_begin.take().is_some() {
                body();
            }
        };
        start(name, kernel_thread::STACK_BYTES, whole).map_err(|error| {
            let text = format!("{name}'s kernel thread (RLIMIT_NPROC, RLIMIT_AS): {error}");
            io::Error::new(error.kind(), text)
        })?;
        told.take().ok_or_else(|| io::Error::other("a kernel thread ended as it began"))?;
        Ok(Helper(begins))
    }

    pub fn begin(self) {
        self.0.give(());
    }
}

/// The alternate signal stack of the calling kernel thread, so that an overflow of a user-level
/// stack can be reported. Given back when this goes.
pub(crate) struct AlternateStack {
    memory: *mut u8,
    bytes: usize,
}

impl AlternateStack {
    pub fn new(bytes: usize) -> io::Result<Self> {
        let memory = super::memory::reserve(bytes)?;
        let this = AlternateStack { memory, bytes };
        // SAFETY: the whole reservation made above.
        unsafe { super::memory::commit(memory, bytes)? };
        let stack = libc::stack_t { ss_sp: memory.cast(), ss_flags: 0, ss_size: bytes };
        // SAFETY: the memory stays mapped until `drop`, which takes it from the kernel first.
        if unsafe { libc::sigaltstack(&stack, core::ptr::null_mut()) } != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(this)
    }
}

impl Drop for AlternateStack {
    fn drop(&mut self) {
        let none =
            libc::stack_t { ss_sp: core::ptr::null_mut(), ss_flags: libc::SS_DISABLE, ss_size: 0 };
        // SAFETY: plain calls; the reservation is ours, and no handler runs on it: this does.
        unsafe {
            libc::sigaltstack(&none, core::ptr::null_mut());
            libc::munmap(self.memory.cast(), self.bytes);
        }
    }
}

/// See [`state_of`].
pub(crate) const UNKNOWN: u8 = b'?';

/// State letter of a kernel thread of this process, from /proc; `None` when it is gone, or the
/// kernel refuses to tell. [`UNKNOWN`] when it can't be told now.
///
/// Allocates nothing, and waits for nobody: the monitor calls it, and an allocator's lock may
/// belong to a thread that nobody runs before the monitor has found a worker for it.
pub(crate) fn state_of(tid: i32) -> Option<u8> {
    let mut path = [0u8; 48];
    write!(&mut path[..], "/proc/self/task/{tid}/stat\0").ok()?;
    let path = CStr::from_bytes_until_nul(&path).ok()?;
    // The number, the name, which has 15 letters, and the state come first.
    let mut stat = [0u8; 64];
    let read = || rustix::io::read(Brief::open(path)?, &mut stat);
    let Some(count) = descriptor::try_low(read) else { return Some(UNKNOWN) };
    let count = match count {
        Ok(count) => count,
        // The program has closed it.
        Err(Errno::BADF) => return Some(UNKNOWN),
        Err(_) => return None,
    };
    let stat = &stat[..count];
    let end = stat.iter().rposition(|&b| b == b')')?;
    stat.get(end + 2).copied()
}

/// Calls `hook` in every child that the process forks from now on.
pub(crate) fn at_fork_in_child(hook: extern "C" fn()) {
    // SAFETY: the hook may run at any fork. A refusal (no memory) means that it is not called.
    unsafe { libc::pthread_atfork(None, None, Some(hook)) };
}

/// Calls `hook` when the process exits normally.
pub(crate) fn at_exit(hook: extern "C" fn()) {
    // SAFETY: a plain function; a refusal (no memory) only means that it is not called.
    unsafe { libc::atexit(hook) };
}
