//! Where code lies: the segment of a loaded object that has an address.

use std::ffi::{c_int, c_void};

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
    let mut search = Search { address, found: None };
    // SAFETY: the callback gets what it expects.
    unsafe { libc::dl_iterate_phdr(Some(look_into), (&raw mut search).cast()) };
    search.found
}

struct Search {
    address: usize,
    found: Option<(usize, usize)>,
}

/// # Safety
/// 1. Called by `dl_iterate_phdr` with a `Search`.
unsafe extern "C" fn look_into(
    info: *mut libc::dl_phdr_info,
    _bytes: usize,
    search: *mut c_void,
) -> c_int {
    // SAFETY: by 1; the object's program headers.
    let (info, search, headers) = unsafe {
        let info = &*info;
        let headers = core::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum));
        (info, &mut *search.cast::<Search>(), headers)
    };
    let bounds = |header: &libc::Elf64_Phdr| {
        let start = (info.dlpi_addr + header.p_vaddr) as usize;
        (start, start + header.p_memsz as usize)
    };
    let code = headers.iter().filter(|header| header.p_type == libc::PT_LOAD);
    search.found = code.map(bounds).find(|it| (it.0..it.1).contains(&search.address));
    c_int::from(search.found.is_some())
}
