//! The tripwire (`heddle run --tripwire`): a page of each full thread's stack, at the border of
//! the High zone, that is closed when the thread begins and opened when it is first touched. The
//! thread goes on; its kind is marked, and where it was is told.
//!
//! A signal that preempts a thread comes on the thread's own stack. Where its frame would lie in
//! the closed page the kernel reports a fault instead, without an address: then the page is opened
//! as well, and the thread is preempted the next time. A system call that is given a buffer there
//! fails (EFAULT), as on kernel threads.
//!
//! Invariant: a page that is closed is named in its thread's description, and open again before the
//! thread has ended, and in a child that it forks.

use core::cell::Cell;
use core::ffi::{c_char, c_void};
use core::fmt;
use core::ptr;
use core::sync::atomic::Ordering::Relaxed;

use heddle::raw;
use libc::siginfo_t;

use super::{FRAMES_BYTES, PAGE, host, kind_at};
use crate::threads::this;

/// What is left of smaller stacks is too little to draw a border in; as `TRIPWIRE_STACK_MIN` of
/// libheddle-preload.
const STACK_BYTES_MIN: usize = 128 << 10;
/// No border is drawn so near to where the thread begins.
const BEGIN_BYTES: usize = 4 * PAGE;
/// `SI_KERNEL`: a fault of which the kernel knows no address.
const SI_KERNEL: i32 = 0x80;

/// The closed page of a thread: 0, none. Touched by the thread alone.
#[derive(Default)]
pub struct Tripwire(Cell<usize>);

/// Where the border is: `percent` of what lies between `base` and `low`, below `base`.
fn border_page(low: usize, base: usize, percent: usize) -> Option<usize> {
    let usable = base.checked_sub(low).filter(|&it| it >= STACK_BYTES_MIN)?;
    let page = (base - usable / 100 * percent) & !(PAGE - 1);
    // Nor in the guard's neighbourhood.
    (page >= low + 2 * PAGE && page + BEGIN_BYTES <= base).then_some(page)
}

/// The calling full thread begins, at this address.
pub fn begin(wire: &Tripwire, base: usize) {
    // SAFETY: the library's function.
    let percent = host().map_or(0, |host| unsafe { (host.tripwire)() });
    if percent != 0
        && let Some((low, _)) = raw::stack_bounds()
        && let Some(page) = border_page(low as usize, base, percent as usize)
    {
        // SAFETY: the page is this thread's, far below all that it has used; `end` opens it.
        if unsafe { raw::close_stack_page(ptr::with_exposed_provenance_mut(page)) }.is_ok() {
            wire.0.set(page);
        }
    }
}

/// Opens what is closed: its thread ends, has touched it, or goes on in a forked child.
#[inline]
pub fn end(wire: &Tripwire) {
    let page = wire.0.replace(0);
    if page != 0 {
        // SAFETY: closed by `begin`. If it cannot be opened, whatever touches it faults once more.
        let _ = unsafe { raw::open_stack_page(ptr::with_exposed_provenance_mut(page)) };
    }
}

/// A fault of the calling full thread: whether it was the tripwire.
pub fn on_fault(info: *mut siginfo_t, context: *mut c_void) -> bool {
    let Some(me) = this() else { return false };
    let wire = me.tripwire();
    let page = wire.0.get();
    // SAFETY: the kernel has passed both.
    let (code, address, (at, pointer)) =
        unsafe { ((*info).si_code, (*info).si_addr() as usize, raw::interrupted_at(context)) };
    let no_frame = || {
        let frame = page..page + PAGE + raw::signal_bytes();
        code == SI_KERNEL && address == 0 && frame.contains(&pointer)
    };
    if page == 0 || code <= 0 || !((page..page + PAGE).contains(&address) || no_frame()) {
        return false;
    }
    end(wire);
    tell(at);
    true
}

#[cold]
fn tell(at: usize) {
    let mut who = Text { bytes: [0; 256], length: 0 };
    raw::name_self(&mut who);
    // SAFETY: the calling thread's own.
    let own = unsafe { libc::pthread_self() };
    if let (Some(host), Some((_, usable))) = (host(), raw::stack_bounds()) {
        let _pin = raw::pin();
        // SAFETY: a NUL-ended text; the library's function for signal handlers.
        unsafe {
            let who = who.bytes.as_ptr().cast::<c_char>();
            let usable = usable.saturating_sub(FRAMES_BYTES.load(Relaxed)) as u64;
            (host.tripped)(kind_at(own as *mut u8), who, usable, at);
        }
    }
}

/// A NUL-ended text; what does not fit is dropped.
struct Text {
    bytes: [u8; 256],
    length: usize,
}

impl fmt::Write for Text {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let count = text.len().min(self.bytes.len() - 1 - self.length);
        self.bytes[self.length..self.length + count].copy_from_slice(&text.as_bytes()[..count]);
        self.length += count;
        Ok(())
    }
}
