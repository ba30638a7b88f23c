//! Libraries that are loaded while full threads exist.
//!
//! Initial-exec TLS of such a library has zeros instead of its first values in the threads that
//! are older than it (`sys/libc_tls/late.rs` in the runtime). They get them when the program first
//! asks for the address of a function: before a thread can call what is in the library, unless a
//! constructor of the library has told it.

use heddle::raw;

use super::registry;

/// Before each `dlsym` of the program.
#[unsafe(no_mangle)]
extern "C-unwind" fn heddle_user_before_dlsym() {
    let Some(news) = raw::look_for_libraries() else { return };
    news.give(|part| {
        let _none = registry::find_from(0, |thread| {
            if let Some(thread) = thread.thread() {
                // SAFETY: who is in the registry does not end while somebody looks at him there.
                unsafe { raw::give_late_part(&thread, part) };
            }
            false
        });
    });
}
