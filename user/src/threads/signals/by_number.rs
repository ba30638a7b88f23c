//! `rt_sigaction` by its number: what the program has set, as by the C library's function.
//!
//! Invariant: who reads an action and sets it again has what it had. The function that a handler
//! returns to is the C library's, whatever the caller names; who asks is told that one.

use core::ffi::{c_int, c_long};
use core::mem;

use libc::sigaction;

use super::actions::{change, is_kept, is_plain, kernels};
use crate::calls::mask;
use crate::errno;
use crate::sys::own_memory;

/// The action has such a function.
const SA_RESTORER: u64 = 0x0400_0000;

/// An action as the kernel has it.
#[repr(C)]
#[derive(Clone, Copy)]
struct Numbered {
    handler: u64,
    flags: u64,
    restorer: u64,
    blocked: u64,
}

impl Numbered {
    fn of(action: &sigaction, signal: c_int) -> Self {
        let flags = u64::from(action.sa_flags as u32);
        let has_one = !is_plain(action) || flags & SA_RESTORER != 0;
        let restorer = kernels(signal).filter(|_| has_one).and_then(|it| it.sa_restorer);
        let flags = flags & !SA_RESTORER;
        Numbered {
            handler: action.sa_sigaction as u64,
            flags: flags | restorer.map_or(0, |_| SA_RESTORER),
            restorer: restorer.map_or(0, |it| it as usize as u64),
            blocked: mask::bits(&action.sa_mask),
        }
    }

    fn action(&self) -> sigaction {
        // SAFETY: all zero bytes are a valid action.
        let mut action: sigaction = unsafe { mem::zeroed() };
        action.sa_sigaction = self.handler as usize;
        action.sa_flags = self.flags as c_int;
        action.sa_mask = mask::set_of(self.blocked);
        action
    }
}

/// The call, with its arguments; `None`: it is the kernel's.
///
/// # Errors
/// The kernel's.
pub fn rt_sigaction(
    signal: c_int,
    action: usize,
    old: usize,
    bytes: usize,
) -> Option<Result<c_long, c_int>> {
    let is_ours = is_kept(signal) && bytes == size_of::<u64>();
    is_ours.then(|| exchange(signal, action, old).map(|()| 0))
}

fn exchange(signal: c_int, action: usize, old: usize) -> Result<(), c_int> {
    let wanted = match action {
        0 => None,
        place => Some(own_memory::read(place as *const Numbered)?.action()),
    };
    // SAFETY: all zero bytes are a valid action.
    let mut before: sigaction = unsafe { mem::zeroed() };
    let failed = errno::kept(|| match change(signal, wanted.as_ref(), Some(&mut before)) {
        0 => 0,
        _ => errno::get(),
    });
    match failed {
        0 if old == 0 => Ok(()),
        0 => own_memory::write(old as *mut Numbered, Numbered::of(&before, signal)),
        number => Err(number),
    }
}
