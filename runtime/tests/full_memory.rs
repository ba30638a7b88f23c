//! What short full threads leave behind. By itself: the memory of a process has no owner, and a
//! backtrace in a test beside it takes a gigabyte under an emulator.

use std::cell::RefCell;
use std::ffi::CStr;
use std::sync::Arc;

use heddle::thread;

#[path = "common/full.rs"]
mod common;

std::thread_local! {
    static TEXT: RefCell<String> = RefCell::new(String::from("new"));
}

/// Resident bytes of the process.
fn resident_bytes() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    text.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

#[test]
fn short_threads_leave_nothing_behind() {
    let Some(first) = common::try_full(|| ()) else { return };
    first.join().unwrap();
    if std::env::var("HEDDLE_BACKEND").as_deref() == Ok("native") {
        return println!("skip: the C library's own threads");
    }
    // A symbol that nothing defines, with a long name.
    let unknown: Arc<CStr> = std::ffi::CString::new("x".repeat(1200)).unwrap().into();
    let round = || {
        let threads: Vec<_> = (0..100)
            .map(|number| {
                let unknown = unknown.clone();
                common::full(move || {
                    TEXT.with_borrow_mut(|text| text.push('x'));
                    let blocks: Vec<Vec<u8>> = (1..20).map(|i| vec![1; i * 24 + number]).collect();
                    thread::yield_now();
                    drop(blocks);
                    // An error that nobody asks for keeps its text, which has the name in it.
                    // SAFETY: a valid text; the default handle needs no opening.
                    unsafe { libc::dlsym(libc::RTLD_DEFAULT, unknown.as_ptr()) };
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    };
    (0..20).for_each(|_| round());
    let before = resident_bytes();
    (0..1000).for_each(|_| round());
    let grown = resident_bytes().saturating_sub(before);
    assert!(grown < 64 << 20, "100000 short threads left {} KiB", grown >> 10);
}
