//! The thread pointers of full threads: where they are, and how a switch sets them.
//!
//! Invariant: the thread pointer of a slot never changes, so neither does its segment.

#[cfg(target_arch = "x86_64")]
use super::SEGMENT;
use super::{CLASS_MASK, CLASS_SHIFT, Control, OWN_TLS};
use crate::arch::Pointer;
#[cfg(target_arch = "x86_64")]
use crate::sys::segments;

impl Control {
    /// The thread pointer of a thread with `OWN_TLS`.
    #[inline(always)]
    pub(crate) fn thread_pointer(&self) -> *mut u8 {
        let class = self.flags.get() >> CLASS_SHIFT & CLASS_MASK;
        crate::stack::tls_of(self.slot(), self.stack.get(), class)
    }

    /// Its segment, if it has one.
    #[inline(always)]
    pub(crate) fn segment(&self) -> Option<Pointer> {
        #[cfg(target_arch = "x86_64")]
        if self.flags.get() & (OWN_TLS | SEGMENT) == OWN_TLS | SEGMENT {
            return Some(Pointer::Segment(segments::selector(self.slot())));
        }
        None
    }

    /// The thread pointer of a thread with `OWN_TLS`, for the next switch to it, which the caller
    /// makes.
    #[inline(always)]
    pub(crate) fn pointer(&self) -> Pointer {
        if let Some(segment) = self.segment() {
            return segment;
        }
        #[cfg(target_arch = "x86_64")]
        {
            if self.switches.get().is_multiple_of(segments::PERIOD)
                && segments::make(self.slot(), self.thread_pointer())
            {
                self.flags.set(self.flags.get() | SEGMENT);
            }
        }
        Pointer::Address(self.thread_pointer() as usize)
    }

    /// There is a block of thread-local storage at the top of its stack, or will be.
    pub(crate) fn set_own_tls(&self) {
        let class = self.class.get() << CLASS_SHIFT;
        #[cfg(target_arch = "x86_64")]
        let class = if segments::has(self.slot()) { class | SEGMENT } else { class };
        self.flags.set(self.flags.get() | OWN_TLS | class);
    }
}
