//! The functions and variables of glibc that full threads need, found by name at run time.
//!
//! Most are private to glibc (version GLIBC_PRIVATE): they may go, so each is looked for, and what
//! is not there makes an error that names it. Another C library has none of them.

use std::ffi::{CStr, c_void};
use std::mem::transmute;

use super::kept::Init;
use super::keys::Key;

type Allocate = unsafe extern "C" fn(*mut c_void) -> *mut c_void;
type Deallocate = unsafe extern "C" fn(*mut c_void, bool);
type Info = unsafe extern "C" fn(*mut usize, *mut usize);
type Address = *mut c_void;
type Plain = unsafe extern "C" fn();
/// Frees the memory of a resolver state.
pub(super) type Close = unsafe extern "C" fn(*mut c_void);

/// See the file's head.
pub(super) struct Functions {
    /// Fills a block around a thread pointer; null without memory.
    pub allocate_tls: Allocate,
    /// Frees what the block's dtv names; with `true` the block as well.
    pub deallocate_tls: Deallocate,
    /// Not everywhere.
    pub init_tls: Option<Init>,
    static_info: Info,
    /// Points the calling thread's character tables to its locale.
    pub ctype_init: Plain,
    /// Runs the destructors of the calling thread's C++ and Rust locals.
    pub call_tls_dtors: Plain,
    /// Not everywhere.
    pub close_resolver: Option<Close>,
    /// The table of keys.
    pub keys: *const Key,
    /// Bytes of `struct pthread`, as the library tells debuggers.
    pub pthread_bytes: usize,
    /// Where the library tells debuggers that the field is, for cross-checks.
    pub tid_described: Option<usize>,
    pub specific_described: usize,
    pub list_described: usize,
}

// SAFETY: addresses of code and of tables that live as long as the process.
unsafe impl Send for Functions {}
// SAFETY: as above.
unsafe impl Sync for Functions {}

/// The address of a symbol; for one that is thread-local, of the calling thread's copy.
pub(super) fn address(name: &CStr) -> Option<*mut c_void> {
    // SAFETY: a valid text; the default handle needs no opening.
    let address = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    (!address.is_null()).then_some(address)
}

fn needed(name: &'static CStr) -> Result<*mut c_void, String> {
    address(name)
        .ok_or_else(|| format!("the C library has no {}: it is not glibc", name.to_string_lossy()))
}

/// What glibc tells debuggers of a field: its size in bits, its number of elements, its offset.
fn described(name: &CStr) -> Option<[u32; 3]> {
    // SAFETY: three numbers, by the interface to debuggers (`DB_STRUCT_FIELD`).
    address(name).map(|address| unsafe { address.cast::<[u32; 3]>().read() })
}

impl Functions {
    pub fn find() -> Result<Self, String> {
        let bytes = needed(c"_thread_db_sizeof_pthread")?;
        let specific = described(c"_thread_db_pthread_specific")
            .ok_or("the C library does not say where keys are")?;
        let list = described(c"_thread_db_pthread_list")
            .ok_or("the C library does not say where its list of threads is")?;
        // SAFETY: the signatures are glibc's, unchanged since these functions exist; the size is
        // one number, by the interface to debuggers.
        unsafe {
            Ok(Functions {
                allocate_tls: transmute::<Address, Allocate>(needed(c"_dl_allocate_tls")?),
                deallocate_tls: transmute::<Address, Deallocate>(needed(c"_dl_deallocate_tls")?),
                init_tls: address(c"_dl_allocate_tls_init")
                    .map(|address| transmute::<Address, Init>(address)),
                static_info: transmute::<Address, Info>(needed(c"_dl_get_tls_static_info")?),
                ctype_init: transmute::<Address, Plain>(needed(c"__ctype_init")?),
                call_tls_dtors: transmute::<Address, Plain>(needed(c"__call_tls_dtors")?),
                close_resolver: address(c"__res_nclose")
                    .map(|address| transmute::<Address, Close>(address)),
                keys: needed(c"__pthread_keys")?.cast_const().cast(),
                pthread_bytes: bytes.cast::<u32>().read() as usize,
                tid_described: described(c"_thread_db_pthread_tid").map(|it| it[2] as usize),
                specific_described: specific[2] as usize,
                list_described: list[2] as usize,
            })
        }
    }

    /// Bytes and alignment of the libraries' static TLS.
    pub fn static_bytes(&self) -> (usize, usize) {
        let (mut bytes, mut align) = (0, 0);
        // SAFETY: two valid places.
        unsafe { (self.static_info)(&mut bytes, &mut align) };
        (bytes, align)
    }

    /// `struct pthread` of the block with this thread pointer.
    #[inline(always)]
    pub fn pthread_of(&self, tls: *mut u8) -> *mut u8 {
        if cfg!(target_arch = "x86_64") { tls } else { tls.wrapping_sub(self.pthread_bytes) }
    }
}
