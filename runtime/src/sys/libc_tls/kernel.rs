//! Fields of `struct pthread` that the kernel knows, too: it writes to them as a thread ends.
//!
//! Invariant: where the kernel says where it has one, the C library's is there.

use std::ptr;

/// `PR_GET_TID_ADDRESS`: a kernel may be built without it.
const GET_TID_ADDRESS: libc::c_int = 40;

/// The robust list's head: the one word that names itself and is named by the word before it, the
/// list's other end. And its second word. Where the kernel says where the calling thread has its
/// head (an emulator may not), it has to be the same.
pub(super) fn robust(pthread: *mut u8, words: &[usize]) -> Result<(usize, isize), String> {
    let place = |index: usize| pthread as usize + index * size_of::<usize>();
    let is_head = |&i: &usize| words[i] == place(i) && words[i - 1] == place(i);
    let mut heads = (1..words.len() - 1).filter(is_head);
    let (Some(index), None) = (heads.next(), heads.next()) else {
        return Err("the robust list of the C library's threads was not found".into());
    };
    let mut head = 0usize;
    let mut length = 0usize;
    // SAFETY: two valid places; 0 = the caller.
    let failed =
        unsafe { libc::syscall(libc::SYS_get_robust_list, 0, &raw mut head, &raw mut length) };
    if failed == 0 && (head != place(index) || length != 3 * size_of::<usize>()) {
        return Err("the kernel has another robust list than the C library".into());
    }
    Ok((index * size_of::<usize>(), words[index + 1] as isize))
}

/// Where the kernel writes 0 as the calling thread ends, and what is there until then; `None` if
/// that is the tid, or nothing is known. From glibc 2.43 on it is a state of its own, and who has 0
/// there has ended, to `pthread_cancel`.
pub(super) fn cleared(pthread: *mut u8, bytes: usize, tid: u32) -> Option<(usize, u32)> {
    let mut address = ptr::null_mut::<u32>();
    // SAFETY: a valid place.
    let failed = unsafe { libc::prctl(GET_TID_ADDRESS, &raw mut address) } != 0;
    let offset = (address as usize).wrapping_sub(pthread as usize);
    if failed || !address.is_aligned() || offset >= bytes {
        return None;
    }
    // SAFETY: inside the calling thread's structure; its creator may write there.
    let state = unsafe { address.read_volatile() };
    (state != tid).then_some((offset, state))
}
