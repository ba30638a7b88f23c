//! Where code lies: the segment of a loaded object that has an address, and the object.
//!
//! Invariant: it is looked for before there are full threads, as the loader's lock is taken.

use std::ffi::{c_int, c_void};
use std::ops::Range;
use std::slice;

// SAFETY: the loader's function, whose address alone is used.
unsafe extern "C" {
    fn __tls_get_addr();
}

/// The code of the C library and of its loader; not where it is one with the program's.
pub(crate) fn of_c_library() -> impl Iterator<Item = (usize, usize)> {
    let own = bounds_of(bounds_of as fn(usize) -> Option<(usize, usize)> as usize);
    let addresses =
        [libc::dl_iterate_phdr as *const () as usize, __tls_get_addr as *const () as usize];
    addresses.into_iter().filter_map(bounds_of).filter(move |&text| Some(text) != own)
}

/// The bounds of the segment that has this address.
pub(crate) fn bounds_of(address: usize) -> Option<(usize, usize)> {
    Object::with(address).map(|object| (object.text.start, object.text.end))
}

/// What a loaded object consists of.
pub struct Object {
    /// What its addresses are relative to.
    pub base: usize,
    /// The segment that has the address by which it was found.
    pub text: Range<usize>,
    /// All that is mapped of it.
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
