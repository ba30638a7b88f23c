//! Where each thread has what the C library has a name for, from its thread pointer.
//!
//! To ask by a name takes the loader's lock, and who waits for a probing thread may have that. So
//! it is asked before such a thread is made.

use super::functions::address;
use super::heap;
use super::rseq;

/// See the file's head.
pub(super) struct Named {
    /// The C library's TLS, and its bytes.
    pub segment: Option<(isize, usize)>,
    /// The pointer to the resolver's state.
    pub resolver: Option<isize>,
    /// See [`rseq::offset`].
    pub rseq: Option<isize>,
}

impl Named {
    pub fn find() -> Named {
        let tls = crate::arch::thread_pointer() as isize;
        let resolver = address(c"__resp").map(|pointer| (pointer as isize).wrapping_sub(tls));
        Named { segment: heap::libc_segment(), resolver, rseq: rseq::offset() }
    }
}
