//! The environment as the program is to find it: without what loaded this library.
//!
//! So what the program starts is not loaded with it unless it was judged that it can be: then
//! libheddle-preload puts both back. The number of workers is kept for the runtime's start.
//!
//! Invariant: this runs before any code of the program's, and allocates nothing: the allocator may
//! be the program's own.

use core::ffi::{CStr, c_char};
use core::ptr;
use core::sync::atomic::AtomicUsize;
use core::sync::atomic::Ordering::Relaxed;

use heddle::raw;

use crate::threads::inherited;
use crate::{account, real};

/// The library's file name, as `LD_PRELOAD` ends with it.
const FILE_NAME: &[u8] = b"libheddle-user.so";
/// How `heddle run` says how many workers there are to be.
const WORKERS_NAME: &CStr = c"HEDDLE_RUN_WORKERS";

/// As asked for; 0 = not.
static WORKERS: AtomicUsize = AtomicUsize::new(0);

/// Workers that the run asks for.
pub fn workers() -> Option<usize> {
    Some(WORKERS.load(Relaxed)).filter(|&count| count != 0)
}

/// Where the code lies in whose middle no thread is left, besides what the runtime guards itself:
/// this library's, and what its calls run through, for it holds locks of its own and takes steps
/// that nothing may come between; and that of a library that has taken `malloc` over, for a new
/// worker's storage comes from there. A program that has it built in does not count: its threads
/// could be left nowhere.
pub fn guarded_texts() -> impl Iterator<Item = (usize, usize)> {
    // SAFETY: an address, or 0.
    let program = raw::text_of(unsafe { libc::getauxval(libc::AT_ENTRY) } as usize);
    let allocator = raw::text_of(libc::malloc as *const () as usize);
    // There is room for some: the most important first.
    let texts = [own_text(), allocator].into_iter().flatten().chain(real::texts());
    texts.filter(move |&text| Some(text) != program)
}

/// Where this library's code lies.
pub fn own_text() -> Option<(usize, usize)> {
    raw::text_of(own_text as fn() -> Option<(usize, usize)> as usize)
}

extern "C" fn at_load() {
    raw::say::begin();
    account::arrange();
    inherited::at_load();
    // SAFETY: no other thread exists, and nobody keeps addresses of these texts.
    unsafe {
        let asked = libc::getenv(WORKERS_NAME.as_ptr());
        if !asked.is_null() {
            let text = CStr::from_ptr(asked).to_str().unwrap_or("");
            WORKERS.store(text.parse().unwrap_or(0), Relaxed);
            libc::unsetenv(WORKERS_NAME.as_ptr());
        }
        let list = libc::getenv(c"LD_PRELOAD".as_ptr());
        if !list.is_null() && remove_own(list) {
            libc::unsetenv(c"LD_PRELOAD".as_ptr());
        }
    }
}

#[used]
#[unsafe(link_section = ".init_array")]
static AT_LOAD: extern "C" fn() = at_load;

/// Takes this library out of a list of libraries, in place; whether nothing is left.
///
/// # Safety
/// 1. `list` is a text that may be written to.
unsafe fn remove_own(list: *mut c_char) -> bool {
    // SAFETY: by 1; what is moved lies inside the text, its final zero included.
    unsafe {
        let mut start = list;
        loop {
            let length = libc::strcspn(start, c": ".as_ptr());
            let name = core::slice::from_raw_parts(start.cast::<u8>(), length);
            let is_last = *start.add(length) == 0;
            if name.ends_with(FILE_NAME) {
                if is_last {
                    // With what stands before it, if anything does.
                    *start.sub(usize::from(start != list)) = 0;
                    break;
                }
                let rest = start.add(length + 1);
                ptr::copy(rest, start, libc::strlen(rest) + 1);
                continue;
            }
            if is_last {
                break;
            }
            start = start.add(length + 1);
        }
        *list == 0
    }
}
