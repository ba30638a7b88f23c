//! What a program that forks often pays for the runtime: a child looks at no more than was used,
//! and kernel threads that only wait take nothing of the C library's heap, which forks copy. In a
//! process of its own, for what the first thread to do a thing finds.

use std::ffi::{c_char, c_void};
use std::sync::mpsc;

use heddle::raw::{forked_child, start_kernel_thread};

/// Pages that the process got so far without a disk.
fn faults() -> i64 {
    // SAFETY: all zero bytes are valid, and a valid place.
    unsafe {
        let mut usage: libc::rusage = core::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &mut usage);
        usage.ru_minflt
    }
}

/// Pages that a child touches where a fork tells the runtime. None would be used for its status.
fn touched_by_child() -> i64 {
    // SAFETY: the child calls the runtime and leaves at once; nothing that forking breaks is used.
    let pid = unsafe { libc::fork() };
    assert!(pid >= 0, "{}", std::io::Error::last_os_error());
    if pid == 0 {
        let before = faults();
        forked_child();
        // SAFETY: as above.
        unsafe { libc::_exit((faults() - before).min(255) as i32) };
    }
    let mut status = 0;
    // SAFETY: our own child; a valid place for its status.
    assert_eq!(unsafe { libc::waitpid(pid, &mut status, 0) }, pid);
    assert!(libc::WIFEXITED(status));
    i64::from(libc::WEXITSTATUS(status))
}

/// Parts of the C library's heap, one for each thread that has used it.
fn arenas() -> usize {
    unsafe extern "C" {
        fn open_memstream(text: *mut *mut c_char, bytes: *mut usize) -> *mut libc::FILE;
        fn malloc_info(options: i32, stream: *mut libc::FILE) -> i32;
    }
    let (mut text, mut bytes) = (core::ptr::null_mut(), 0);
    // SAFETY: valid places, which tell of a text once the stream is closed.
    unsafe {
        let stream = open_memstream(&mut text, &mut bytes);
        assert_eq!(malloc_info(0, stream), 0);
        libc::fclose(stream);
        let told = std::slice::from_raw_parts(text.cast::<u8>(), bytes);
        let count = told.windows(9).filter(|part| part == b"<heap nr=").count();
        libc::free(text.cast::<c_void>());
        count
    }
}

#[test]
fn a_child_and_a_kernel_thread_touch_little() {
    // Sixteen pages of buckets that nobody used would come on top. What the kernel maps of the
    // program's own code as a child runs it differs by machine: from 5 to 10 pages were seen.
    let touched = (0..5).map(|_| touched_by_child()).min().expect("there are five");
    assert!(touched < 16, "a child touches {touched} pages");

    arenas();
    let before = arenas();
    assert!(before > 0);
    let (tell, told) = mpsc::sync_channel(1);
    start_kernel_thread("heddle-waits", 64 << 10, move || {
        tell.send(()).expect("who made this thread waits");
        // SAFETY: returns when a signal comes, which never happens.
        unsafe { libc::pause() };
    })
    .expect("a kernel thread");
    told.recv().expect("it runs");
    assert_eq!(arenas(), before);
}
