//! A function of the C library, by its name and without `dlsym`, which finds the same name of
//! whoever has put itself before, or wants what `dlopen` makes first: that allocates.
//!
//! Invariant: of the library only its dynamic section is read, and the tables that this names; they
//! stay as they are.

use core::ffi::{CStr, c_char, c_int, c_void};
use core::mem::MaybeUninit;
use core::ptr::{self, with_exposed_provenance};

use libc::{Dl_info, Elf64_Sym};

/// `RTLD_DL_LINKMAP` of the C library.
const LIBRARY_TOO: c_int = 2;
/// Entries of a dynamic section.
const END: usize = 0;
const TEXTS: usize = 5;
const SYMBOLS: usize = 6;
const HASHES: usize = 0x6fff_fef5;
/// The section of a symbol that is another library's; and the kind of a function's.
const UNDEFINED: u16 = 0;
const FUNCTION: u8 = 2;
/// Words before the filter of a table of hashes.
const HEADER: usize = 4;

/// What the loader knows a library by: `link_map`.
#[repr(C)]
struct Library {
    base: usize,
    name: *const c_char,
    dynamic: *const [usize; 2],
    next: *const Library,
    before: *const Library,
}

struct Tables {
    base: usize,
    texts: *const c_char,
    symbols: *const Elf64_Sym,
    hashes: *const u32,
}

/// Where the function of this name is; null if the library has none, or is not found.
pub fn of_c_library(name: &CStr) -> *mut c_void {
    // Nobody else has one of that name.
    // SAFETY: the C library stays.
    unsafe {
        let tables = library_of(libc::gnu_get_libc_version as *const c_void)
            .as_ref()
            .and_then(|library| Tables::of(library));
        tables.and_then(|tables| tables.find(name)).unwrap_or(ptr::null_mut())
    }
}

/// Where the function of this name is that comes first behind the library that has the address
/// `within`, and not behind the C library; null if there is none. The libraries from there to the
/// C library were loaded with the program.
pub fn behind(within: *const c_void, name: &CStr) -> *mut c_void {
    let (first, last) = (library_of(within), library_of(libc::gnu_get_libc_version as *const _));
    let mut library = last;
    // What is not before the C library may go at any time.
    // SAFETY: the loader's list, whose beginning stays.
    while let Some(here) = unsafe { library.as_ref() } {
        if ptr::eq(here, first) {
            return between(first, last, name);
        }
        library = here.before;
    }
    ptr::null_mut()
}

/// As above, but behind the C library, too: older ones have some functions in a file of their own.
/// For functions that are the same in all versions, and before any library is unloaded.
pub fn behind_all(within: *const c_void, name: &CStr) -> *mut c_void {
    between(library_of(within), ptr::null(), name)
}

fn between(first: *const Library, last: *const Library, name: &CStr) -> *mut c_void {
    // SAFETY: the loader's list; those stay.
    unsafe {
        let mut library = first.as_ref();
        while let Some(here) = library.filter(|here| !ptr::eq(*here, last)) {
            library = here.next.as_ref();
            let tables = library.and_then(|library| Tables::of(library));
            if let Some(found) = tables.and_then(|tables| tables.find(name)) {
                return found;
            }
        }
    }
    ptr::null_mut()
}

/// What the loader knows the library by that has this address; null: there is none.
fn library_of(within: *const c_void) -> *const Library {
    let (mut info, mut library) = (MaybeUninit::<Dl_info>::uninit(), ptr::null_mut());
    // SAFETY: valid places. They are written as said.
    unsafe { libc::dladdr1(within, info.as_mut_ptr(), &raw mut library, LIBRARY_TOO) };
    library.cast_const().cast()
}

impl Tables {
    /// # Safety
    /// 1. The loader's, of a library that stays.
    unsafe fn of(library: &Library) -> Option<Tables> {
        let (mut texts, mut symbols, mut hashes) = (0, 0, 0);
        let mut entry = library.dynamic;
        loop {
            // SAFETY: by 1; the section ends with such an entry.
            let [kind, value] = unsafe { *entry };
            match kind {
                END => break,
                TEXTS => texts = value,
                SYMBOLS => symbols = value,
                HASHES => hashes = value,
                _ => {}
            }
            entry = entry.wrapping_add(1);
        }
        // The loader has added the base, where it could write.
        let place = |value: usize| if value < library.base { value + library.base } else { value };
        let is_whole = texts != 0 && symbols != 0 && hashes != 0;
        is_whole.then(|| Tables {
            base: library.base,
            texts: with_exposed_provenance(place(texts)),
            symbols: with_exposed_provenance(place(symbols)),
            hashes: with_exposed_provenance(place(hashes)),
        })
    }

    /// # Safety
    /// 1. They are a library's that stays.
    unsafe fn find(&self, name: &CStr) -> Option<*mut c_void> {
        let wanted = hash(name);
        // SAFETY: by 1, here and below.
        let word = |index: usize| unsafe { *self.hashes.wrapping_add(index) };
        let [count, first, filter] = [0, 1, 2].map(|index| word(index) as usize);
        let buckets = HEADER + filter * (size_of::<usize>() / size_of::<u32>());
        let chains = buckets + count;
        let mut index = word(buckets + (wanted as usize).checked_rem(count)?) as usize;
        // Else the bucket is empty.
        while index >= first {
            let here = word(chains + index - first);
            // SAFETY: by 1.
            let symbol = unsafe { &*self.symbols.wrapping_add(index) };
            let text = self.texts.wrapping_add(symbol.st_name as usize);
            // SAFETY: by 1.
            let is_it = || unsafe { CStr::from_ptr(text) } == name;
            let is_function = symbol.st_info & 15 == FUNCTION && symbol.st_shndx != UNDEFINED;
            if here | 1 == wanted | 1 && is_function && is_it() {
                return Some(ptr::with_exposed_provenance_mut(
                    self.base + symbol.st_value as usize,
                ));
            }
            // The lowest bit is the end of the bucket.
            if here & 1 != 0 {
                break;
            }
            index += 1;
        }
        None
    }
}

fn hash(name: &CStr) -> u32 {
    name.to_bytes()
        .iter()
        .fold(5381, |hash, &byte| u32::wrapping_mul(hash, 33).wrapping_add(u32::from(byte)))
}
