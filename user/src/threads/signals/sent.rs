//! What a `siginfo_t` says of a signal that a thread of this process sent.
//!
//! Invariant: it is laid out as the kernel's.

use core::ffi::c_int;
use core::mem;
use core::ptr;

use libc::siginfo_t;

/// Signal numbers end before this one.
pub const SIGNALS: c_int = 65;

/// `si_code` of a signal to a thread.
pub const SI_TKILL: c_int = -6;

/// The beginning of a `siginfo_t`; what follows differs by signal.
#[repr(C)]
pub struct Sent {
    signal: c_int,
    errno: c_int,
    code: c_int,
    align: c_int,
    pub pid: u32,
    pub uid: u32,
    pub value: u64,
}

impl Sent {
    /// Sent by a thread of this process.
    pub fn by_us(signal: c_int, code: c_int, value: u64) -> Self {
        // SAFETY: no arguments.
        let (pid, uid) = unsafe { (libc::getpid() as u32, libc::getuid()) };
        Sent { signal, errno: 0, code, align: 0, pid, uid, value }
    }

    /// The same of another signal.
    pub fn of(self, signal: c_int) -> Self {
        Sent { signal, ..self }
    }

    pub fn info(self) -> siginfo_t {
        // SAFETY: all zero bytes are valid; it is larger than its beginning.
        unsafe {
            let mut info: siginfo_t = mem::zeroed();
            (&raw mut info).cast::<Sent>().write(self);
            info
        }
    }
}

/// What a `siginfo_t` begins with: a timer's number and overruns lie where a sender's ids do.
pub fn fields_of(info: &siginfo_t) -> Sent {
    // SAFETY: it begins like that.
    unsafe { (&raw const *info).cast::<Sent>().read() }
}

/// Where a `siginfo_t` has nothing. The kernel leaves what stands there as it is.
pub fn unused(info: &mut siginfo_t) -> &mut c_int {
    // SAFETY: it begins like that.
    unsafe { &mut (*ptr::from_mut(info).cast::<Sent>()).align }
}

/// The `siginfo_t` of a signal that a thread of this process sent.
pub fn info_of(signal: c_int) -> siginfo_t {
    Sent::by_us(signal, SI_TKILL, 0).info()
}
