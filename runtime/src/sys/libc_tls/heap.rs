//! What glibc keeps per thread for malloc (its cache of chunks and its arena), for `getrandom` and
//! for the texts of `strerror` and `strsignal`, handed on from full threads that end to those that
//! start.
//!
//! glibc frees it in functions that only the end of its own threads reaches. So some words (those
//! that a thread's first calls of these change: [`words`], `changed.rs`) are taken out of the block
//! of a thread that ended and given to the next one: a new thread starts with a warm cache, and
//! 10^5 short threads need no more caches than were alive at once. Those that nobody has needed for
//! a while go the way glibc knows: a short kernel thread puts them in the place of its own, and
//! ends.
//!
//! Invariant: the words of one cache are in exactly one place: one block, the pool, or one such
//! kernel thread.

use core::sync::atomic::AtomicUsize;
use core::sync::atomic::Ordering::Relaxed;
use std::ffi::c_void;
use std::ptr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::functions::address;

/// Most words that malloc may have per thread; glibc has two.
const OF_MALLOC_MAX: usize = 4;
/// Most words in all.
const WORDS_MAX: usize = OF_MALLOC_MAX + super::changed::KEPT;
/// Bytes of libc's own TLS that are watched for malloc's words.
const WATCHED_BYTES_MAX: usize = 2048;
/// Caches that go in one round of decay.
const DECAYED_AT_ONCE: usize = 64;

/// Where these words are, from the thread pointer, and what they hold before the first use;
/// the rest of the arrays is zero.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Words {
    pub count: usize,
    pub offsets: [isize; WORDS_MAX],
    pub unused: [usize; WORDS_MAX],
}

type Cache = [usize; WORDS_MAX];

struct Pool {
    caches: Vec<Cache>,
    /// Fewest caches since the last round of decay: those nobody has needed.
    idle: usize,
}

static POOL: Mutex<Pool> = Mutex::new(Pool { caches: Vec::new(), idle: 0 });
/// As many as the pool has; a hint, so that a process without full threads takes no lock.
static POOLED: AtomicUsize = AtomicUsize::new(0);

fn pool() -> MutexGuard<'static, Pool> {
    POOL.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Words {
    /// Adds a word that is zero before its first use, if there is room for it.
    pub fn add(&mut self, offset: isize) {
        if self.count < WORDS_MAX {
            self.offsets[self.count] = offset;
            self.count += 1;
        }
    }

    /// # Safety
    /// 1. `tls` is a thread pointer, and nobody else uses these words of its block.
    unsafe fn read(&self, tls: *mut u8) -> Cache {
        let mut cache = Cache::default();
        for (word, &offset) in cache.iter_mut().zip(&self.offsets[..self.count]) {
            // SAFETY: by 1; the offsets were checked to lie in the block.
            *word = unsafe { tls.offset(offset).cast::<usize>().read() };
        }
        cache
    }

    /// # Safety
    /// As [`Words::read`].
    unsafe fn write(&self, tls: *mut u8, cache: &Cache) {
        for (&word, &offset) in cache.iter().zip(&self.offsets[..self.count]) {
            // SAFETY: as in `read`.
            unsafe { tls.offset(offset).cast::<usize>().write(word) };
        }
    }
}

/// Gives a new block a cache, if there is one.
///
/// # Safety
/// 1. `tls` is the thread pointer of a block whose thread has not started.
pub(super) unsafe fn give(tls: *mut u8, words: &Words) {
    if POOLED.load(Relaxed) == 0 {
        return;
    }
    let cache = {
        let _pin = crate::full::pin();
        let mut pool = pool();
        let cache = pool.caches.pop();
        pool.idle = pool.idle.min(pool.caches.len());
        POOLED.store(pool.caches.len(), Relaxed);
        cache
    };
    if let Some(cache) = cache {
        // SAFETY: by 1.
        unsafe { words.write(tls, &cache) };
    }
}

/// Takes the cache of a thread that has ended.
///
/// # Safety
/// 1. `tls` is the thread pointer of a block whose thread has ended.
pub(super) unsafe fn take(tls: *mut u8, words: &Words) {
    // SAFETY: by 1.
    let cache = unsafe { words.read(tls) };
    if cache != words.unused {
        keep(cache);
    }
}

fn keep(cache: Cache) {
    let mut pool = pool();
    // Without memory for the list the cache is lost: a leak, at a time when nothing works.
    if pool.caches.try_reserve(1).is_ok() {
        pool.caches.push(cache);
    }
    POOLED.store(pool.caches.len(), Relaxed);
}

/// Frees some caches that nobody has needed since the last round; true while there are more. The
/// monitor calls it.
pub(crate) fn decay() -> bool {
    if POOLED.load(Relaxed) == 0 {
        return false;
    }
    let cold: Vec<Cache> = {
        let mut pool = pool();
        let keep = pool.caches.len() - pool.idle.min(DECAYED_AT_ONCE);
        let cold = pool.caches.split_off(keep);
        pool.idle = pool.caches.len();
        POOLED.store(pool.caches.len(), Relaxed);
        cold
    };
    cold.into_iter().for_each(end_with);
    POOLED.load(Relaxed) != 0
}

/// Ends a kernel thread with `cache` as its own.
fn end_with(cache: Cache) {
    let argument = Box::into_raw(Box::new(cache));
    let mut made: libc::pthread_t = 0;
    // SAFETY: the thread takes the box; it is joined below, so it is made once and ends once.
    let refused =
        unsafe { libc::pthread_create(&mut made, ptr::null(), adopt, argument.cast()) } != 0;
    if !refused {
        // SAFETY: made above. It does next to nothing.
        unsafe { libc::pthread_join(made, ptr::null_mut()) };
    }
    // SAFETY: made above; the thread has ended or was never made.
    let rest = *unsafe { Box::from_raw(argument) };
    if rest != super::examined().fields.heap.unused {
        keep(rest);
    }
}

/// Puts a cache in the place of the calling kernel thread's own, if that has none yet, and leaves
/// an unused one in its place.
extern "C" fn adopt(argument: *mut c_void) -> *mut c_void {
    let words = &super::examined().fields.heap;
    let tls = crate::arch::thread_pointer() as *mut u8;
    // SAFETY: `end_with` waits for us and passed a cache; the words are this thread's own.
    unsafe {
        if words.read(tls) == words.unused {
            words.write(tls, &argument.cast::<Cache>().replace(words.unused));
        }
    }
    ptr::null_mut()
}

/// The words of libc's TLS that the calling thread's first use of malloc changes, and of Box: the
/// program may have an allocator of its own, beside which the runtime has the C library's.
/// `segment` is [`libc_segment`]'s.
pub(super) fn words(tls: *mut u8, segment: Option<(isize, usize)>) -> Result<Words, String> {
    let (start, bytes) = segment.ok_or("the C library has no TLS of its own")?;
    let start = tls.wrapping_offset(start).cast::<usize>();
    let count = bytes / size_of::<usize>();
    let mut before = [0; WATCHED_BYTES_MAX / size_of::<usize>()];
    if count > before.len() {
        return Err(format!("the C library has {bytes} bytes of TLS"));
    }
    // SAFETY: the calling thread's own segment; nothing here refers to it.
    unsafe {
        start.copy_to_nonoverlapping(before.as_mut_ptr(), count);
        let memory = libc::malloc(100);
        memory.cast::<u8>().write_volatile(1);
        libc::free(memory);
    }
    drop(std::hint::black_box(Box::new([1_u8; 100])));
    let mut words = Words::default();
    // SAFETY: any thread has one.
    let errno = unsafe { libc::__errno_location() } as usize & !7;
    for (index, &old) in before[..count].iter().enumerate() {
        // SAFETY: inside the segment.
        let place = unsafe { start.add(index) };
        // SAFETY: as above.
        if unsafe { place.read() } == old || place as usize == errno {
            continue;
        }
        if words.count == OF_MALLOC_MAX {
            return Err("malloc keeps more than is known per thread".into());
        }
        words.offsets[words.count] = (place as isize).wrapping_sub(tls as isize);
        words.unused[words.count] = old;
        words.count += 1;
    }
    Ok(words)
}

/// The C library's TLS: how far from each thread's pointer, for it is there before any thread is,
/// and bytes.
pub(super) fn libc_segment() -> Option<(isize, usize)> {
    struct Search {
        inside: usize,
        found: Option<(*mut u8, usize)>,
    }
    /// # Safety
    /// 1. Called by `dl_iterate_phdr` with a `Search`.
    unsafe extern "C" fn each(
        info: *mut libc::dl_phdr_info,
        bytes: usize,
        search: *mut c_void,
    ) -> i32 {
        // SAFETY: by 1 these are valid; `bytes` says which fields it has.
        let (info, search) = unsafe { (&*info, &mut *search.cast::<Search>()) };
        if bytes < size_of::<libc::dl_phdr_info>() || info.dlpi_phnum == 0 {
            return 0;
        }
        // SAFETY: the library's program headers.
        let headers =
            unsafe { std::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum as usize) };
        let holds = |h: &libc::Elf64_Phdr| {
            let start = (info.dlpi_addr + h.p_vaddr) as usize;
            h.p_type == libc::PT_LOAD && search.inside.wrapping_sub(start) < h.p_memsz as usize
        };
        if !headers.iter().any(holds) {
            return 0;
        }
        let tls = headers.iter().find(|header| header.p_type == libc::PT_TLS);
        if let Some(tls) = tls.filter(|_| !info.dlpi_tls_data.is_null()) {
            search.found = Some((info.dlpi_tls_data.cast(), tls.p_memsz as usize));
        }
        1
    }
    let inside = address(c"__ctype_init")? as usize;
    let mut search = Search { inside, found: None };
    // SAFETY: the callback gets what it expects.
    unsafe { libc::dl_iterate_phdr(Some(each), (&raw mut search).cast()) };
    let tls = crate::arch::thread_pointer() as isize;
    search.found.map(|(start, bytes)| ((start as isize).wrapping_sub(tls), bytes))
}
