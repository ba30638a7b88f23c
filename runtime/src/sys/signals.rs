//! Signal handlers of the process, and what a handler may do: write to an eventfd.

use std::io;

/// How a signal was treated before.
pub(crate) struct Action(libc::sigaction);

/// Has `handler` called for `signal`; returns how it was treated before.
pub(crate) fn install(signal: i32, handler: extern "C" fn(libc::c_int)) -> io::Result<Action> {
    // SAFETY: plain libc calls; all zero bytes are a valid action.
    unsafe {
        let mut action: libc::sigaction = core::mem::zeroed();
        action.sa_sigaction = handler as *const () as usize;
        action.sa_flags = libc::SA_RESTART | libc::SA_ONSTACK;
        libc::sigemptyset(&mut action.sa_mask);
        let mut before: libc::sigaction = core::mem::zeroed();
        if libc::sigaction(signal, &action, &mut before) != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Action(before))
    }
}

/// Treats `signal` as before.
pub(crate) fn restore(signal: i32, action: &Action) {
    // SAFETY: the action came from the kernel.
    unsafe { libc::sigaction(signal, &action.0, core::ptr::null_mut()) };
}

/// Makes an eventfd readable. Async-signal-safe: it leaves errno as it was.
pub(crate) fn signal_event(fd: i32) {
    // SAFETY: errno is the calling kernel thread's own; the buffer has eight bytes.
    unsafe {
        let errno = libc::__errno_location();
        let before = *errno;
        let one = 1u64;
        libc::write(fd, (&raw const one).cast(), size_of::<u64>());
        *errno = before;
    }
}

/// Makes an eventfd in non-blocking mode unreadable.
pub(crate) fn clear_event(fd: i32) {
    let mut count = 0u64;
    // SAFETY: the buffer has eight bytes.
    unsafe { libc::read(fd, (&raw mut count).cast(), size_of::<u64>()) };
}

/// Sends a signal to a process.
pub(crate) fn kill(pid: i32, signal: i32) -> io::Result<()> {
    // SAFETY: numbers only.
    if unsafe { libc::kill(pid, signal) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

extern "C" fn do_nothing(_signal: libc::c_int) {}

/// Installs a handler that does nothing, for the last real-time signal that the program leaves to
/// its default; system calls that it interrupts fail with EINTR. Returns the signal's number.
///
/// The topmost four are left out: qemu's user-mode emulation keeps them for itself.
pub(crate) fn install_interrupt() -> i32 {
    let last = libc::SIGRTMAX() - 4;
    for signal in (libc::SIGRTMIN()..=last).rev() {
        // SAFETY: plain libc calls; all zero bytes are a valid action.
        unsafe {
            let mut before: libc::sigaction = core::mem::zeroed();
            if libc::sigaction(signal, core::ptr::null(), &mut before) != 0
                || before.sa_sigaction != libc::SIG_DFL
            {
                continue;
            }
            let mut action: libc::sigaction = core::mem::zeroed();
            action.sa_sigaction = do_nothing as *const () as usize;
            libc::sigaction(signal, &action, core::ptr::null_mut());
        }
        return signal;
    }
    last
}

/// Sends `signal` to the kernel thread `tid` of this process.
pub(crate) fn interrupt(tid: i32, signal: i32) {
    // SAFETY: numbers only; a thread that is gone is an error that nobody needs.
    unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), tid, signal) };
}
