//! Where a loaded object lies, as the loader tells it.
//!
//! Invariant: an object is looked for before there are full threads: the loader's lock is taken.

use core::ffi::{c_int, c_void};
use core::ops::Range;
use core::slice;

/// What a loaded object consists of.
pub struct Object {
    /// What its addresses are relative to.
    pub base: usize,
    /// The segment that has the address by which it was found.
    pub text: Range<usize>,
    pub segments: Vec<Range<usize>>,
    /// Its `.eh_frame_hdr`.
    pub unwind_header: Option<Range<usize>>,
}

struct Search {
    address: usize,
    found: Option<Object>,
}

impl Object {
    /// The one that has this address.
    pub fn with(address: usize) -> Option<Object> {
        let mut search = Search { address, found: None };
        // SAFETY: the callback gets what it expects.
        unsafe { libc::dl_iterate_phdr(Some(look_into), (&raw mut search).cast()) };
        search.found
    }
}

/// # Safety
/// 1. Called by `dl_iterate_phdr` with a [`Search`].
unsafe extern "C" fn look_into(
    info: *mut libc::dl_phdr_info,
    _bytes: usize,
    search: *mut c_void,
) -> c_int {
    // SAFETY: by 1; the object's program headers.
    let (info, search, headers) = unsafe {
        let info = &*info;
        let headers = slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum));
        (info, &mut *search.cast::<Search>(), headers)
    };
    let base = info.dlpi_addr as usize;
    let range = |header: &libc::Elf64_Phdr| {
        let start = base + header.p_vaddr as usize;
        start..start + header.p_memsz as usize
    };
    let of_kind = |kind| headers.iter().filter(move |header| header.p_type == kind).map(range);
    let text = of_kind(libc::PT_LOAD).find(|segment| segment.contains(&search.address));
    search.found = text.map(|text| Object {
        base,
        text,
        segments: of_kind(libc::PT_LOAD).collect(),
        unwind_header: of_kind(libc::PT_GNU_EH_FRAME).next(),
    });
    c_int::from(search.found.is_some())
}
