//! Full threads: what the C library and the language keep per thread is the thread's own.

use std::cell::{Cell, RefCell};
use std::ffi::{CStr, c_char, c_int, c_void};
use std::io::{Read, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use common::full;
use heddle::sync::{Barrier, Mutex, Semaphore, mpsc};
use heddle::thread::{self, Builder};

#[path = "common/full.rs"]
mod common;

/// Ends a test where there are no full threads.
macro_rules! need_full {
    () => {
        match common::try_full(|| ()) {
            Some(handle) => handle.join().unwrap(),
            None => return,
        }
    };
}

fn set_errno(number: c_int) {
    // SAFETY: the calling thread's own.
    unsafe { *libc::__errno_location() = number };
}

fn errno() -> c_int {
    // SAFETY: as above.
    unsafe { *libc::__errno_location() }
}

#[test]
fn errno_is_the_threads_own() {
    need_full!();
    let threads: Vec<_> = (1..=50)
        .map(|number| {
            full(move || {
                for round in 0..100 {
                    set_errno(number * 1000 + round);
                    thread::yield_now();
                    assert_eq!(errno(), number * 1000 + round);
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

std::thread_local! {
    static NUMBER: Cell<u32> = const { Cell::new(5) };
    static TEXT: RefCell<Dropped> = RefCell::new(Dropped(String::from("new")));
}

static DROPPED: AtomicU32 = AtomicU32::new(0);

struct Dropped(String);

impl Drop for Dropped {
    fn drop(&mut self) {
        // A destructor may block, and let others run.
        thread::yield_now();
        DROPPED.fetch_add(1, SeqCst);
    }
}

#[test]
fn locals_of_the_language_are_its_own_and_are_dropped_before_the_join() {
    need_full!();
    let before = DROPPED.load(SeqCst);
    let threads: Vec<_> = (0..40)
        .map(|number| {
            full(move || {
                assert_eq!(NUMBER.get(), 5);
                NUMBER.set(number);
                TEXT.with_borrow_mut(|text| text.0.push_str(&number.to_string()));
                for _ in 0..10 {
                    thread::yield_now();
                    assert_eq!(NUMBER.get(), number);
                    TEXT.with_borrow(|text| assert_eq!(text.0, format!("new{number}")));
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!(DROPPED.load(SeqCst) - before, 40);
}

static DESTROYED: AtomicUsize = AtomicUsize::new(0);
static AGAIN: AtomicU32 = AtomicU32::new(0);

/// # Safety
/// 1. Called for values of the keys made below.
unsafe extern "C" fn destroy(value: *mut c_void) {
    DESTROYED.fetch_add(value as usize, SeqCst);
    thread::yield_now();
    // Set again once: the next round has to find it.
    if value as usize == 1000 {
        let key = AGAIN.load(SeqCst);
        // SAFETY: the key exists.
        unsafe { libc::pthread_setspecific(key, std::ptr::without_provenance(1)) };
    }
}

#[test]
fn keys_are_its_own_and_are_destroyed_before_the_join() {
    need_full!();
    // More keys than the block inside the thread's structure has.
    let keys: Vec<libc::pthread_key_t> = (0..70)
        .map(|_| {
            let mut key = 0;
            // SAFETY: a valid place and function.
            assert_eq!(unsafe { libc::pthread_key_create(&mut key, Some(destroy)) }, 0);
            key
        })
        .collect();
    AGAIN.store(keys[0], SeqCst);
    let before = DESTROYED.load(SeqCst);
    let threads: Vec<_> = (0..20)
        .map(|_| {
            let keys = keys.clone();
            full(move || {
                // SAFETY: the keys exist.
                unsafe {
                    for &key in &keys {
                        assert!(libc::pthread_getspecific(key).is_null());
                        libc::pthread_setspecific(key, std::ptr::without_provenance(1000));
                    }
                    thread::yield_now();
                    for &key in &keys {
                        assert_eq!(libc::pthread_getspecific(key) as usize, 1000);
                    }
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!(DESTROYED.load(SeqCst) - before, 20 * (70 * 1000 + 1));
    for key in keys {
        // SAFETY: made above.
        unsafe { libc::pthread_key_delete(key) };
    }
}

#[test]
fn a_mutex_of_the_c_library_knows_its_owner() {
    need_full!();
    struct Shared(std::cell::UnsafeCell<libc::pthread_mutex_t>);
    // SAFETY: it is a mutex.
    unsafe impl Sync for Shared {}
    // SAFETY: as above; nobody moves it while it is held.
    unsafe impl Send for Shared {}
    let owner = full(|| {
        // SAFETY: plain calls of the C library on a mutex that outlives its users.
        unsafe {
            let mut attr: libc::pthread_mutexattr_t = std::mem::zeroed();
            libc::pthread_mutexattr_init(&mut attr);
            libc::pthread_mutexattr_settype(&mut attr, libc::PTHREAD_MUTEX_ERRORCHECK);
            let mutex = Arc::new(Shared(std::cell::UnsafeCell::new(std::mem::zeroed())));
            libc::pthread_mutex_init(mutex.0.get(), &attr);
            assert_eq!(libc::pthread_mutex_lock(mutex.0.get()), 0);
            assert_eq!(libc::pthread_mutex_lock(mutex.0.get()), libc::EDEADLK);
            let others = mutex.clone();
            let other = full(move || {
                let others = others;
                (
                    libc::pthread_mutex_trylock(others.0.get()),
                    libc::pthread_mutex_unlock(others.0.get()),
                )
            });
            assert_eq!(other.join().unwrap(), (libc::EBUSY, libc::EPERM));
            assert_eq!(libc::pthread_mutex_unlock(mutex.0.get()), 0);
        }
    });
    owner.join().unwrap();
}

#[test]
fn two_that_live_at_once_have_different_addresses_and_resolvers() {
    need_full!();
    // SAFETY: a function of the C library with this signature.
    unsafe extern "C" {
        fn __res_state() -> *mut c_void;
    }
    let barrier = Arc::new(Barrier::new(8));
    let threads: Vec<_> = (0..8)
        .map(|_| {
            let barrier = barrier.clone();
            full(move || {
                // SAFETY: plain calls of the C library.
                let found = unsafe { (libc::pthread_self() as usize, __res_state() as usize) };
                barrier.wait();
                found
            })
        })
        .collect();
    let all: Vec<_> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
    let mut selves: Vec<_> = all.iter().map(|it| it.0).collect();
    let mut resolvers: Vec<_> = all.iter().map(|it| it.1).collect();
    selves.sort_unstable();
    selves.dedup();
    resolvers.sort_unstable();
    resolvers.dedup();
    assert_eq!((selves.len(), resolvers.len()), (8, 8));
}

#[test]
fn a_locale_is_its_own() {
    need_full!();
    // SAFETY: a function of the C library with this signature.
    unsafe extern "C" {
        fn isalpha(c: c_int) -> c_int;
    }
    let body = |name: &'static CStr, works: bool| {
        full(move || {
            // SAFETY: plain calls; the locale is freed when nobody uses it any more.
            unsafe {
                let locale =
                    libc::newlocale(libc::LC_ALL_MASK, name.as_ptr(), std::ptr::null_mut());
                assert!(!locale.is_null());
                let before = libc::uselocale(locale);
                for _ in 0..20 {
                    thread::yield_now();
                    assert_eq!(libc::uselocale(std::ptr::null_mut()), locale);
                    assert_eq!(isalpha(c_int::from(b'x')) != 0, works);
                }
                libc::uselocale(before);
                libc::freelocale(locale);
            }
        })
    };
    let threads = [body(c"C", true), body(c"POSIX", true), body(c"C.UTF-8", true)];
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

#[test]
fn panics_are_its_own() {
    need_full!();
    struct Slow;
    impl Drop for Slow {
        fn drop(&mut self) {
            assert!(std::thread::panicking());
            for _ in 0..20 {
                thread::yield_now();
            }
        }
    }
    let panics = full(|| {
        let caught = catch_unwind(AssertUnwindSafe(|| {
            let _slow = Slow;
            panic!("on purpose");
        }));
        assert!(caught.is_err());
        assert!(!std::thread::panicking());
    });
    let watches: Vec<_> = (0..4)
        .map(|_| {
            full(|| {
                for _ in 0..50 {
                    assert!(!std::thread::panicking());
                    thread::yield_now();
                }
            })
        })
        .collect();
    panics.join().unwrap();
    watches.into_iter().for_each(|thread| thread.join().unwrap());
    assert!(full(|| panic!("its result")).join().is_err());
}

#[test]
fn backtraces_end_at_its_start() {
    need_full!();
    let text = full(|| {
        thread::yield_now();
        std::backtrace::Backtrace::force_capture().to_string()
    });
    let text = text.join().unwrap();
    assert!(text.contains("backtraces_end_at_its_start"), "{text}");
    assert!(text.lines().count() < 120, "{text}");
}

#[test]
fn light_and_full_share_locks_channels_and_sockets() {
    need_full!();
    let total = Arc::new(Mutex::new(0u64));
    let semaphore = Arc::new(Semaphore::new(2));
    let (sender, receiver) = mpsc::channel::<u32>();
    let threads: Vec<_> = (0..40u32)
        .map(|number| {
            let (total, semaphore, sender) = (total.clone(), semaphore.clone(), sender.clone());
            let body = move || {
                for _ in 0..50 {
                    semaphore.acquire();
                    let mut total = total.lock().unwrap();
                    set_errno(number as c_int);
                    *total += 1;
                    thread::yield_now();
                    drop(total);
                    semaphore.release();
                    sender.send(number).unwrap();
                }
            };
            let builder = if number % 2 == 0 { Builder::new() } else { Builder::new().full() };
            builder.spawn(body).unwrap()
        })
        .collect();
    drop(sender);
    let received = full(move || receiver.iter().count());
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!((*total.lock().unwrap(), received.join().unwrap()), (2000, 2000));
}

#[test]
fn sockets_files_and_time_wait_for_full_threads() {
    need_full!();
    let listener = heddle::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let server = full(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut text = [0; 5];
        stream.read_exact(&mut text).unwrap();
        thread::sleep(Duration::from_millis(5));
        stream.write_all(&text).unwrap();
    });
    let client = full(move || {
        let mut stream = heddle::net::TcpStream::connect(address).unwrap();
        set_errno(77);
        stream.write_all(b"hello").unwrap();
        let mut text = Vec::new();
        stream.read_to_end(&mut text).unwrap();
        text
    });
    server.join().unwrap();
    assert_eq!(client.join().unwrap(), b"hello");
    let file = full(|| heddle::fs::read_to_string("/proc/self/comm").unwrap());
    assert!(!file.join().unwrap().is_empty());
}

#[test]
fn blocking_code_of_the_c_library_works() {
    need_full!();
    let thread = full(|| {
        let mut text = [0 as c_char; 64];
        let pattern = c"%d %s %.3f".as_ptr();
        // SAFETY: the buffer has room; the arguments fit the pattern.
        unsafe { libc::snprintf(text.as_mut_ptr(), 64, pattern, 42, c"x".as_ptr(), 1.5f64) };
        // SAFETY: terminated by snprintf.
        let text = unsafe { CStr::from_ptr(text.as_ptr()) };
        assert_eq!(text, c"42 x 1.500");
        // By an error that std makes a text of, with the C library's strerror_r.
        assert!(std::fs::File::open("/no/such/file").is_err_and(|e| e.to_string().contains("No")));
        assert!(std::thread::current().name().is_none());
        // SAFETY: no arguments.
        assert!(unsafe { libc::sched_getcpu() } >= 0);
    });
    thread.join().unwrap();
}

#[test]
fn allocations_may_end_on_another_thread() {
    need_full!();
    let (sender, receiver) = mpsc::sync_channel::<Vec<u8>>(64);
    let producers: Vec<_> = (0..20u8)
        .map(|number| {
            let sender = sender.clone();
            full(move || {
                for size in 1..300usize {
                    let kept: Vec<Vec<u8>> = (0..4).map(|i| vec![number; size * (i + 1)]).collect();
                    sender.send(vec![number; size * 7]).unwrap();
                    thread::yield_now();
                    assert!(kept.iter().flatten().all(|&byte| byte == number));
                }
            })
        })
        .collect();
    drop(sender);
    let consumer = full(move || {
        receiver.iter().map(|block| usize::from(block.iter().all(|b| *b == block[0]))).sum()
    });
    producers.into_iter().for_each(|thread| thread.join().unwrap());
    let count: usize = consumer.join().unwrap();
    assert_eq!(count, 20 * 299);
}

#[test]
fn a_full_thread_does_not_hibernate() {
    need_full!();
    // SAFETY: the closure lends nothing.
    let builder = unsafe { Builder::new().full().hibernate(true) };
    if std::env::var("HEDDLE_BACKEND").as_deref() == Ok("native") {
        return println!("skip: nothing hibernates on kernel threads");
    }
    assert_eq!(builder.spawn(|| ()).err().unwrap().kind(), std::io::ErrorKind::InvalidInput);
}

#[test]
fn small_stacks_have_what_was_asked_for() {
    need_full!();
    fn deep(left: usize) -> usize {
        let mut bytes = [0u8; 512];
        std::hint::black_box(&mut bytes);
        if left == 0 { 0 } else { deep(left - 1) + usize::from(bytes[left % 512]) }
    }
    // 10 KiB of frames fit into a stack of 16 KiB with its guard page, block or not.
    let thread = Builder::new().full().stack_size(16 << 10).spawn(|| deep(12)).unwrap();
    assert_eq!(thread.join().unwrap(), 0);
}

#[test]
fn a_stack_that_is_used_again_starts_with_new_storage() {
    need_full!();
    std::thread_local! {
        static LIST: RefCell<[u64; 40]> = const { RefCell::new([7; 40]) };
    }
    let is_native = std::env::var("HEDDLE_BACKEND").as_deref() == Ok("native");
    let mut seen = std::collections::HashSet::new();
    let mut used_again = 0;
    for round in 0..10_000 {
        if round >= 200 && (used_again > 0 || is_native) {
            break;
        }
        let handle = full(move || {
            assert_eq!(NUMBER.get(), 5);
            LIST.with_borrow_mut(|list| {
                assert!(list.iter().all(|&number| number == 7), "{list:?}");
                list.fill(round);
            });
            assert_eq!(errno(), 0);
            set_errno(3);
            NUMBER.set(9);
            // SAFETY: any thread may ask who it is.
            unsafe { libc::pthread_self() as usize }
        });
        used_again += u32::from(!seen.insert(handle.join().unwrap()));
    }
    // A worker that is kept busy by others keeps many before it gives some back.
    assert!(is_native || used_again > 0, "no storage was used again");
}
