//! Which of the taken functions a place in this library's code was called by, as a signal handler
//! can find it out: without the unwinder, which takes the loader's lock, and without symbols.
//!
//! A frame's caller is looked for among the words of the stack: it is the first that lies in this
//! library behind a call instruction to the very function of the frame. Where functions begin says
//! the table that the linker makes for the unwinder, which is mapped with the library. So what is
//! told is true, and where code has jumped instead of called nothing is.
//!
//! Invariant: after [`prepare`], which is called before the first full thread is made, nothing here
//! allocates, takes a lock, or faults; but for [`taken_here`].

use core::ffi::{CStr, c_char, c_int, c_void};
use core::ops::Range;
use core::ptr::with_exposed_provenance;
use std::sync::OnceLock;

use heddle::raw::Object;

/// Words of a stack that are looked at until a taken function is found, and behind that: one taken
/// function calls another right away.
const WORDS: usize = 4096;
const WORDS_BEHIND: usize = 256;
const PAGE: usize = 4096;

/// `.eh_frame_hdr` as all linkers make it: version 1; its own place and the count in four bytes;
/// a sorted table of pairs of four bytes, relative to the section.
const HEADER: [u8; 4] = [1, 0x1b, 0x03, 0x3b];
const COUNT_AT: usize = 8;
const TABLE_AT: usize = 12;
/// A call, and the distance from behind it: to a function, or to a place that has its address.
const CALL: u8 = 0xe8;
const CALL_BY_PLACE: [u8; 2] = [0xff, 0x15];
const CALL_BYTES_MAX: usize = 6;

// SAFETY: made by link-shared.sh from the list of names: both end with null.
unsafe extern "C" {
    #[link_name = "heddle_user_names"]
    static NAMES: [*const c_char; 0];
    #[link_name = "heddle_user_taken"]
    static TAKEN: [*const c_void; 0];
}

/// Where this library lies.
struct Own {
    base: usize,
    whole: Range<usize>,
    text: Range<usize>,
    /// Its `.eh_frame_hdr`; 0 = none that is understood.
    header: usize,
}

static OWN: OnceLock<Own> = OnceLock::new();

/// Finds out where this library lies.
pub fn prepare() {
    let Some(object) = Object::with(prepare as *const () as usize) else { return };
    let end = object.segments.iter().map(|it| it.end).max().unwrap_or(object.text.end);
    let header = object.unwind_header.map_or(0, |it| it.start);
    // SAFETY: a mapped section, which begins with these.
    let is_known = header != 0 && unsafe { *with_exposed_provenance::<[u8; 4]>(header) } == HEADER;
    let _ = OWN.set(Own {
        base: object.base,
        whole: object.base..end,
        text: object.text,
        header: if is_known { header } else { 0 },
    });
}

/// How far `ip` is from this library's beginning; `None` if it is not of its code.
pub fn offset_of(ip: usize) -> Option<usize> {
    let own = OWN.get()?;
    own.text.contains(&ip).then(|| ip - own.base)
}

/// The outermost taken function that leads to `ip`, of this library, with the stack pointer `sp`.
pub fn taken_by(ip: usize, sp: usize) -> Option<&'static CStr> {
    let own = OWN.get()?;
    let mut function = own.start_of(ip)?;
    let mut found = name_of(function);
    let mut left = if found.is_some() { WORDS_BEHIND } else { WORDS };
    let mut at = sp.next_multiple_of(size_of::<usize>());
    let mut readable_to = at;
    while left != 0 {
        if at >= readable_to {
            if !is_readable(at) {
                break;
            }
            readable_to = at / PAGE * PAGE + PAGE;
        }
        // SAFETY: of a page that can be read.
        let word = unsafe { with_exposed_provenance::<usize>(at).read() };
        (at, left) = (at + size_of::<usize>(), left - 1);
        if own.is_behind_call(word, function) {
            let Some(caller) = own.start_of(word - 1) else { break };
            function = caller;
            if let Some(name) = name_of(function) {
                (found, left) = (Some(name), WORDS_BEHIND);
            }
        }
    }
    found
}

// SAFETY: the unwinder's ABI, as the C++ ABI documents it; libgcc_s is linked for std anyway.
unsafe extern "C-unwind" {
    fn _Unwind_Backtrace(
        look: extern "C-unwind" fn(*mut c_void, *mut c_void) -> c_int,
        data: *mut c_void,
    ) -> c_int;
    fn _Unwind_GetIP(context: *mut c_void) -> usize;
}

/// The outermost taken function that leads to the caller. Not in a signal handler: by the unwinder.
pub fn taken_here() -> Option<&'static CStr> {
    extern "C-unwind" fn look(context: *mut c_void, found: *mut c_void) -> c_int {
        // SAFETY: the unwinder's, and the place of `taken_here`.
        let (ip, found) =
            unsafe { (_Unwind_GetIP(context), &mut *found.cast::<Option<&'static CStr>>()) };
        let function = OWN.get().and_then(|own| own.start_of(ip.wrapping_sub(1)));
        *found = function.and_then(name_of).or(*found);
        0
    }
    let mut found = None;
    // SAFETY: the callback gets what it expects.
    unsafe { _Unwind_Backtrace(look, (&raw mut found).cast()) };
    found
}

impl Own {
    /// Whether `word` is what a call of `function` from here returns to.
    fn is_behind_call(&self, word: usize, function: usize) -> bool {
        let first = self.text.start + CALL_BYTES_MAX;
        if !(first..self.text.end).contains(&word) {
            return false;
        }
        let behind: *const u8 = with_exposed_provenance(word);
        // SAFETY: of this library's code.
        let (code, distance) = unsafe {
            (*behind.sub(6).cast::<[u8; 2]>(), behind.sub(4).cast::<i32>().read_unaligned())
        };
        let target = word.wrapping_add_signed(distance as isize);
        let last = self.whole.end - size_of::<usize>();
        if code[1] == CALL {
            target == function
        } else {
            let is_place = code == CALL_BY_PLACE && (self.whole.start..=last).contains(&target);
            // SAFETY: of this library's memory.
            is_place && unsafe { with_exposed_provenance::<usize>(target).read() } == function
        }
    }

    /// Where the function begins that has `ip`.
    fn start_of(&self, ip: usize) -> Option<usize> {
        if self.header == 0 || !self.text.contains(&ip) {
            return None;
        }
        let header: *const u8 = with_exposed_provenance(self.header);
        // SAFETY: `HEADER` says that it is so; the linker's count is that of the table.
        let table = unsafe {
            let count = header.add(COUNT_AT).cast::<u32>().read() as usize;
            core::slice::from_raw_parts(header.add(TABLE_AT).cast::<[i32; 2]>(), count)
        };
        let start = |entry: &[i32; 2]| self.header.wrapping_add_signed(entry[0] as isize);
        let behind = table.partition_point(|entry| start(entry) <= ip);
        table[..behind].last().map(start)
    }
}

/// Which taken function begins there: of several the last one of the list, where names with
/// underscores come first.
fn name_of(function: usize) -> Option<&'static CStr> {
    let (names, taken) =
        ((&raw const NAMES).cast::<*const c_char>(), (&raw const TAKEN).cast::<*const c_void>());
    // SAFETY: both have an entry for each name, and null behind them.
    unsafe {
        let index = (0..)
            .take_while(|&index| !(*names.add(index)).is_null())
            .filter(|&index| (*taken.add(index)).addr() == function)
            .last()?;
        Some(CStr::from_ptr(*names.add(index)))
    }
}

/// Whether a page can be read: the kernel looks at a set of signals before it looks at what is to
/// be done with it, which is nothing here.
fn is_readable(address: usize) -> bool {
    const NO_WAY: c_int = -1;
    const SET_BYTES: usize = size_of::<u64>();
    let number = libc::SYS_rt_sigprocmask;
    // SAFETY: an address that the kernel tries to read.
    unsafe { libc::syscall(number, NO_WAY, address, core::ptr::null::<u64>(), SET_BYTES) };
    crate::errno::get() != libc::EFAULT
}
