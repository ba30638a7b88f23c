//! A fault in the middle of this library, and a panic: what it was doing, for which thread. Then
//! the process ends by the signal that it ends by in any case.
//!
//! Told is a fault whose instruction is this library's, or that came on one of its own kernel
//! threads while that ran no thread of the program's. Where the program has a handler it is the
//! program's to tell, and may be nothing that fails: collectors of garbage have pages that fault.
//! A function of the program's that is called from here is not this library.
//!
//! Invariant: [`tell`] allocates nothing and takes no lock: whoever faulted may have them all.

use core::ffi::{CStr, c_int, c_void};
use core::fmt::{self, Write};
use std::panic::PanicHookInfo;
use std::process::abort;

use heddle::raw;
use libc::siginfo_t;

use crate::sys::frames;
use crate::threads::{own, this};

/// `SI_KERNEL`: a fault of which the kernel knows no address.
const SI_KERNEL: c_int = 0x80;
/// What the names of this library's own kernel threads begin with.
const OWN_NAME: &[u8] = b"heddle-";
/// A kernel thread's name.
const NAME_BYTES: usize = 16;

/// Writes the line for a fault that ends the process, if it is this library's.
pub fn tell(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel has passed both.
    let (code, address, (ip, sp)) =
        unsafe { ((*info).si_code, (*info).si_addr().addr(), raw::interrupted_at(context)) };
    let offset = frames::offset_of(ip);
    if offset.is_none() && !is_own_kernel_thread() {
        return;
    }
    let mut line = Line::new();
    let _ = write!(line, "heddle: {} in ", name_of(signal));
    let _ = match (offset, frames::taken_by(ip, sp)) {
        (Some(offset), Some(name)) => {
            write!(line, "{} (libheddle-user.so+{offset:#x})", name.to_string_lossy())
        }
        (Some(offset), None) => write!(line, "libheddle-user.so+{offset:#x}"),
        (None, _) => write!(line, "a call of its own, at {ip:#x}"),
    };
    let _ = match code {
        SI_KERNEL => write!(line, ", at no valid address"),
        _ => write!(line, ", at address {address:#x}"),
    };
    let _ = write!(line, ", for ");
    name_caller(&mut line);
    line.write_out();
}

/// Has panics told as faults are. They can go no further than this library's frames: the process
/// ends, as it would where they leave them.
pub fn begin() {
    frames::prepare();
    std::panic::set_hook(Box::new(panicked));
}

fn panicked(info: &PanicHookInfo<'_>) {
    let mut line = Line::new();
    let _ = write!(line, "heddle: panic");
    if let Some(name) = frames::taken_here() {
        let _ = write!(line, " in {}", name.to_string_lossy());
    }
    if let Some(place) = info.location() {
        let _ = write!(line, " ({}:{})", place.file(), place.line());
    }
    let payload = info.payload();
    let text = payload.downcast_ref::<&str>().copied();
    let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    let _ = write!(line, ", {}, for ", text.unwrap_or("without a text"));
    name_caller(&mut line);
    line.write_out();
    abort();
}

fn name_of(signal: c_int) -> &'static str {
    match signal {
        libc::SIGSEGV => "SIGSEGV",
        libc::SIGBUS => "SIGBUS",
        libc::SIGILL => "SIGILL",
        libc::SIGFPE => "SIGFPE",
        libc::SIGTRAP => "SIGTRAP",
        _ => "a fault",
    }
}

fn is_full_thread() -> bool {
    this().is_some() && own::is_running()
}

/// The calling kernel thread's name.
fn own_name() -> [u8; NAME_BYTES] {
    let mut name = [0; NAME_BYTES];
    // SAFETY: a place of that size.
    unsafe { libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr()) };
    name
}

/// Whether the calling kernel thread is of this library, and runs no thread of the program's. The
/// first thread of a child keeps a worker's name.
fn is_own_kernel_thread() -> bool {
    // SAFETY: no arguments.
    let is_first = || unsafe { libc::gettid() == libc::getpid() };
    !is_full_thread() && own_name().starts_with(OWN_NAME) && !is_first()
}

fn name_caller(line: &mut Line) {
    if is_full_thread() {
        return raw::name_self(line);
    }
    // SAFETY: no arguments.
    let (tid, pid) = unsafe { (libc::gettid(), libc::getpid()) };
    let kind = if tid == pid { "main" } else { "kernel" };
    let name = own_name();
    let name = CStr::from_bytes_until_nul(&name).unwrap_or_default().to_str().unwrap_or_default();
    let _ = write!(line, "{kind} thread {tid} \"{name}\"");
}

/// A line; what does not fit is dropped.
struct Line {
    bytes: [u8; 512],
    length: usize,
}

impl Line {
    fn new() -> Self {
        Line { bytes: [0; 512], length: 0 }
    }

    /// To standard error, with its end. Where nobody reads that, a write would wait for ever, or
    /// end the process by SIGPIPE instead of the fault: then nothing is told.
    fn write_out(&mut self) {
        self.bytes[self.length] = b'\n';
        raw::say::bytes(&self.bytes[..=self.length]);
    }
}

impl Write for Line {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        // The last one is for the line's end.
        let room = self.bytes.len() - 1 - self.length;
        let count = text.len().min(room);
        self.bytes[self.length..self.length + count].copy_from_slice(&text.as_bytes()[..count]);
        self.length += count;
        Ok(())
    }
}
