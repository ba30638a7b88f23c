//! Functions of the C library that hold nothing which others could wait for: a thread may be left
//! in the middle of them at any time, as in its own code.
//!
//! Those in which programs compute for long. What they call to allocate is not theirs
//! (`callers.rs`); the system calls among them are over when a signal is handled.
//!
//! Invariant: none of them takes a lock, or calls what takes one, but the allocator's; and, seldom,
//! others that nothing of heddle's needs: for the text of an error, the first wide character, or
//! where a fortified format has `%n`.

use core::ffi::CStr;
use core::ops::Range;
use core::ptr::with_exposed_provenance;

const NAMES: &[&CStr] = &[
    c"memcpy",
    c"memmove",
    c"mempcpy",
    c"memset",
    c"memcmp",
    c"memchr",
    c"memrchr",
    c"rawmemchr",
    c"memmem",
    c"__memcpy_chk",
    c"__memmove_chk",
    c"__memset_chk",
    c"strlen",
    c"strnlen",
    c"strcpy",
    c"stpcpy",
    c"strncpy",
    c"strcat",
    c"strcmp",
    c"strncmp",
    c"strcasecmp",
    c"strncasecmp",
    c"strchr",
    c"strchrnul",
    c"strrchr",
    c"strstr",
    c"strspn",
    c"strcspn",
    c"strpbrk",
    c"strtol",
    c"strtoul",
    c"strtod",
    c"strtof",
    c"atoi",
    c"atol",
    c"atof",
    c"snprintf",
    c"vsnprintf",
    c"sprintf",
    c"__snprintf_chk",
    c"__vsnprintf_chk",
    c"__sprintf_chk",
    c"qsort",
    c"qsort_r",
    // The other names go on to these.
    c"fstatat",
    c"fstatat64",
    c"access",
    c"faccessat",
    c"readlink",
    c"lseek",
    c"lseek64",
    c"getpid",
    c"getppid",
    c"getuid",
    c"geteuid",
];

/// A function that does nothing but go on in another one is no longer.
const SHORT: usize = 48;

/// Where the jumps in `code` lead to, and what looks like one.
fn jumps(code: Range<usize>) -> impl Iterator<Item = usize> {
    /// Bytes of the instruction, and how far apart two may be.
    #[cfg(target_arch = "x86_64")]
    const BYTES: (usize, usize) = (5, 1);
    #[cfg(target_arch = "aarch64")]
    const BYTES: (usize, usize) = (4, 4);
    let last = code.end.saturating_sub(BYTES.0);
    (code.start..=last).step_by(BYTES.1).filter_map(|at| {
        // SAFETY: a function's code, of a library that stays.
        let code: [u8; BYTES.0] = unsafe { with_exposed_provenance::<[u8; BYTES.0]>(at).read() };
        #[cfg(target_arch = "x86_64")]
        let distance = match code {
            [0xe9, a, b, c, d] => Some(5 + i32::from_le_bytes([a, b, c, d]) as isize),
            _ => None,
        };
        #[cfg(target_arch = "aarch64")]
        let distance = match u32::from_le_bytes(code) {
            word if word >> 26 == 0b000101 => Some(((word << 6) as i32 >> 4) as isize),
            _ => None,
        };
        distance.map(|distance| at.wrapping_add_signed(distance))
    })
}

/// Where they begin, in order.
pub struct Lockless(Vec<usize>);

impl Lockless {
    /// Of several forms of a function, the one for this processor. Some end in a jump to where
    /// another one begins, which goes on for them: `end_of` knows a function's end, and is given
    /// its beginning.
    pub fn find(end_of: impl Fn(usize) -> Option<usize>) -> Self {
        let find = |name: &&CStr| {
            // SAFETY: a text.
            unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) as usize }
        };
        let named = NAMES.iter().map(find).filter_map(|start| Some((start, end_of(start)?)));
        let with_next = |(start, end): (usize, usize)| {
            let next = jumps(start..end.min(start + SHORT)).find(|&to| end_of(to).is_some());
            [Some(start), next].into_iter().flatten()
        };
        let mut starts: Vec<usize> = named.flat_map(with_next).collect();
        starts.sort_unstable();
        Lockless(starts)
    }

    /// Whether one of them begins here.
    pub fn has(&self, start: usize) -> bool {
        self.0.binary_search(&start).is_ok()
    }
}
