//! Signal handlers of the process, and signals that are sent.

use std::io;
use std::sync::OnceLock;

#[cfg(target_arch = "x86_64")]
use super::frame::Frame;
use crate::full;

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

/// What a signal interrupted.
pub(crate) struct Interrupted {
    ip: usize,
    sp: usize,
    blocked: u64,
    context: *mut libc::c_void,
}

impl Interrupted {
    /// The instruction that comes next.
    pub fn ip(&self) -> usize {
        self.ip
    }

    /// The stack pointer.
    pub fn sp(&self) -> usize {
        self.sp
    }

    /// What [`Interrupted::of`] was given.
    pub fn context(&self) -> *mut libc::c_void {
        self.context
    }

    /// Bytes below the stack pointer that the frame takes where it is not yet.
    pub fn frame_bytes(&self) -> usize {
        #[cfg(target_arch = "x86_64")]
        {
            // SAFETY: what `of` was given; the handler has not returned yet.
            let frame = unsafe { Frame::of(self.context) };
            if frame.was_moved() {
                return self.sp - frame.below() + frame.bytes();
            }
        }
        0
    }

    /// The general registers, the stack pointer among them; on aarch64 two in each.
    pub fn registers(&self) -> [u64; 16] {
        // SAFETY: what `of` was given; the handler has not returned yet.
        let machine = unsafe { &(*self.context.cast::<libc::ucontext_t>()).uc_mcontext };
        #[cfg(target_arch = "x86_64")]
        let register = |index: usize| machine.gregs[index] as u64;
        #[cfg(target_arch = "aarch64")]
        let register = |index: usize| {
            let second = machine.regs.get(index + 16).copied().unwrap_or(machine.sp);
            machine.regs[index].wrapping_add(second.rotate_left(32))
        };
        core::array::from_fn(register)
    }

    /// Whether it had a signal blocked that reports a fault: it was in a handler of one.
    pub fn blocks_faults(&self) -> bool {
        super::task::FAULTS.into_iter().any(|signal| self.blocked & 1 << (signal - 1) != 0)
    }

    /// Whether it was in a call that waits for a futex without an end, or about to make one: the
    /// kernel goes back to the instruction, which makes the call again when the handler returns.
    ///
    /// # Safety
    /// 1. The next instruction is in a text that can be read.
    pub unsafe fn waits_for_futex(&self) -> bool {
        // SAFETY: by 1.
        let Some((number, operation)) = (unsafe { self.next_call() }) else { return false };
        let operation = operation as i32 & !(libc::FUTEX_PRIVATE_FLAG | libc::FUTEX_CLOCK_REALTIME);
        let waits = [libc::FUTEX_WAIT, libc::FUTEX_WAIT_BITSET].contains(&operation);
        number == libc::SYS_futex && waits
    }

    /// As [`Interrupted::waits_for_futex`], but only in a call that reads, writes or opens, not
    /// about to make it: its end, else 0. Only x86-64 tells.
    ///
    /// # Safety
    /// 1. As there.
    pub unsafe fn end_of_transfer(&self) -> usize {
        #[cfg(target_arch = "x86_64")]
        {
            let moves = [libc::SYS_read, libc::SYS_write, libc::SYS_readv, libc::SYS_writev];
            let opens = [libc::SYS_openat, libc::SYS_open];
            // SAFETY: what `of` was given; the handler has not returned yet.
            let machine = unsafe { &(*self.context.cast::<libc::ucontext_t>()).uc_mcontext };
            // SAFETY: by 1.
            let is_next = unsafe { self.next_call() }
                .is_some_and(|it| moves.contains(&it.0) || opens.contains(&it.0));
            // The instruction, of two bytes, leaves the address of the next one in rcx.
            let end = self.ip + 2;
            if is_next && machine.gregs[libc::REG_RCX as usize] as usize == end {
                return end;
            }
        }
        0
    }

    /// The number and the second argument of the system call that comes next, if one does.
    ///
    /// # Safety
    /// 1. The next instruction is in a text that can be read.
    unsafe fn next_call(&self) -> Option<(i64, i64)> {
        // SAFETY: what `of` was given; the handler has not returned yet.
        let machine = unsafe { &(*self.context.cast::<libc::ucontext_t>()).uc_mcontext };
        #[cfg(target_arch = "x86_64")]
        let (number, second, is_call) = {
            let (number, second) = (libc::REG_RAX as usize, libc::REG_RSI as usize);
            // SAFETY: by 1; `syscall` has two bytes, and others one at least before the text ends.
            let next = unsafe { (self.ip as *const [u8; 2]).read() };
            (machine.gregs[number], machine.gregs[second], next == [0x0F, 0x05])
        };
        #[cfg(target_arch = "aarch64")]
        let (number, second, is_call) = {
            // SAFETY: by 1; an instruction has four bytes and is aligned.
            let next = unsafe { (self.ip as *const u32).read() };
            (machine.regs[8] as i64, machine.regs[1] as i64, next == 0xD400_0001)
        };
        is_call.then_some((number, second))
    }

    /// # Safety
    /// 1. `place` is what the kernel passed to a handler as its context.
    pub unsafe fn of(place: *mut libc::c_void) -> Self {
        // SAFETY: by 1.
        let context = unsafe { &*place.cast::<libc::ucontext_t>() };
        // SAFETY: a set is larger than the word of it that Linux has, and aligned for it.
        let blocked = unsafe { (&raw const context.uc_sigmask).cast::<u64>().read() };
        let machine = &context.uc_mcontext;
        #[cfg(target_arch = "x86_64")]
        let (ip, sp) =
            (machine.gregs[libc::REG_RIP as usize], machine.gregs[libc::REG_RSP as usize]);
        #[cfg(target_arch = "aarch64")]
        let (ip, sp) = (machine.pc, machine.sp);
        Interrupted { ip: ip as usize, sp: sp as usize, blocked, context: place }
    }

    /// Has the kernel thread keep the mask and the alternate stack that it has now when the handler
    /// returns.
    pub fn keep_what_is(&self) {
        // SAFETY: what `of` was given; the handler has not returned yet. The kernel's mask is one
        // word, and so much of the C library's type is behind it in the frame.
        unsafe {
            let mut now: libc::sigset_t = core::mem::zeroed();
            libc::pthread_sigmask(libc::SIG_BLOCK, core::ptr::null(), &mut now);
            let mask = (&raw mut (*self.context.cast::<libc::ucontext_t>()).uc_sigmask).cast();
            (&raw const now).cast::<u64>().copy_to(mask, 1);
            keep_alternate_stack(self.context);
        }
    }

    /// Goes on at `ip` when the handler returns, as after a system call that failed with EINTR.
    pub fn fail_call(&self, ip: usize) {
        // SAFETY: what `of` was given; the handler has not returned yet.
        let machine = unsafe { &mut (*self.context.cast::<libc::ucontext_t>()).uc_mcontext };
        #[cfg(target_arch = "x86_64")]
        {
            machine.gregs[libc::REG_RIP as usize] = ip as i64;
            machine.gregs[libc::REG_RAX as usize] = i64::from(-libc::EINTR);
        }
        #[cfg(target_arch = "aarch64")]
        {
            machine.pc = ip as u64;
            machine.regs[0] = i64::from(-libc::EINTR) as u64;
        }
    }
}

/// What [`send_marked`] sends along, so that its signals are told from others.
const MARK: usize = 0x6865_6464_6c65;
/// How the signal was treated before, and what to call for marked ones.
static BEFORE: OnceLock<libc::sigaction> = OnceLock::new();
/// See [`set_interrupter_of_program`].
static OF_PROGRAM: OnceLock<(fn() -> libc::sigaction, Next)> = OnceLock::new();
static HANDLER: OnceLock<Handler> = OnceLock::new();

/// What is called for signals of [`send_marked`], with nothing but the signal itself blocked.
#[derive(Clone, Copy)]
pub(crate) struct Handler {
    /// Looks whether there is something to do. It may be on the kernel thread's alternate stack.
    pub looks: fn(&Interrupted) -> bool,
    /// Does it on the stack that was interrupted: it may wait.
    pub acts: fn(&Interrupted),
}

/// Has `handler` called for signals of [`send_marked`]; other ones go to who handled them before.
///
/// The kernel has its handler on the kernel thread's alternate stack, if it can, for the memory
/// below the interrupted stack pointer may be the program's: where its stacks are its own heap, and
/// not as large as a frame.
pub(crate) fn install_interrupter(signal: i32, handler: Handler) -> io::Result<()> {
    let _ = HANDLER.set(handler);
    // SAFETY: plain libc calls; all zero bytes are a valid action.
    unsafe {
        let mut before: libc::sigaction = core::mem::zeroed();
        libc::sigaction(signal, core::ptr::null(), &mut before);
        let _ = BEFORE.set(before);
        let mut action: libc::sigaction = core::mem::zeroed();
        action.sa_sigaction = interrupter();
        action.sa_flags = libc::SA_RESTART | libc::SA_SIGINFO;
        if cfg!(target_arch = "x86_64") {
            action.sa_flags |= libc::SA_ONSTACK;
        }
        libc::sigemptyset(&mut action.sa_mask);
        if libc::sigaction(signal, &action, core::ptr::null_mut()) != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// From now on signals that are not marked go to `others`, on the stack where the kernel has put
/// them; `ask` says how the program has the signal treated. Once.
pub fn set_interrupter_of_program(ask: fn() -> libc::sigaction, others: Next) {
    let _ = OF_PROGRAM.set((ask, others));
}

/// The handler that `install_interrupter` installs.
pub fn interrupter() -> usize {
    on_interrupt as *const () as usize
}

fn of_program() -> Option<libc::sigaction> {
    OF_PROGRAM.get().map(|(ask, _)| ask()).or_else(|| BEFORE.get().copied())
}

/// Whether `signal` has that handler, and the program none: one that is not marked does nothing.
pub(crate) fn has_interrupter_alone(signal: i32) -> bool {
    // SAFETY: all zero bytes are a valid action, which the call overwrites.
    let now = unsafe {
        let mut now: libc::sigaction = core::mem::zeroed();
        libc::sigaction(signal, core::ptr::null(), &mut now);
        now
    };
    let is_none = |it: libc::sigaction| matches!(it.sa_sigaction, libc::SIG_DFL | libc::SIG_IGN);
    now.sa_sigaction == interrupter() && of_program().is_some_and(is_none)
}

// The handler may end its thread, by an unwind through this frame.
extern "C-unwind" fn on_interrupt(
    signal: libc::c_int,
    info: *mut libc::siginfo_t,
    context: *mut libc::c_void,
) {
    // SAFETY: the kernel passes a valid siginfo.
    let marked = is_marked(unsafe { &*info });
    // SAFETY: the kernel passed it.
    let looks = |handler: &Handler| (handler.looks)(&unsafe { Interrupted::of(context) });
    if !marked {
        match OF_PROGRAM.get() {
            Some((_, others)) => others(signal, info, context),
            None => on_interrupted_stack(signal, info, context, on_other),
        }
    } else if HANDLER.get().is_some_and(looks) {
        on_interrupted_stack(signal, info, context, on_marked);
    }
}

/// Whether [`send_marked`] has sent it.
pub(crate) fn is_marked(info: &libc::siginfo_t) -> bool {
    // SAFETY: a value is what comes with this code.
    info.si_code == SI_QUEUE && unsafe { info.si_value().sival_ptr as usize == MARK }
}

/// What goes on with a signal: a handler, with its arguments.
pub type Next = extern "C-unwind" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void);

/// Goes on in `next` on the stack that was interrupted, where the kernel would have put the frame
/// but for an alternate stack.
fn on_interrupted_stack(
    signal: libc::c_int,
    info: *mut libc::siginfo_t,
    context: *mut libc::c_void,
    next: Next,
) {
    #[cfg(target_arch = "x86_64")]
    {
        // SAFETY: the kernel passed it.
        let frame = unsafe { Frame::of(context) };
        if frame.was_moved() {
            // SAFETY: where the kernel would have put it, and the callers have nothing to drop.
            unsafe { frame.go_on_below(frame.below(), next) };
        }
    }
    next(signal, info, context);
}

extern "C-unwind" fn on_marked(
    _signal: libc::c_int,
    _info: *mut libc::siginfo_t,
    context: *mut libc::c_void,
) {
    // SAFETY: the kernel passed it, or it is a copy.
    unsafe { keep_alternate_stack(context) };
    if let Some(handler) = HANDLER.get() {
        // SAFETY: as above.
        (handler.acts)(&unsafe { Interrupted::of(context) });
    }
}

extern "C-unwind" fn on_other(
    signal: libc::c_int,
    info: *mut libc::siginfo_t,
    context: *mut libc::c_void,
) {
    if full::me().is_some() {
        // It may wait in the handler, and return from it on another kernel thread.
        // SAFETY: the kernel passed it, or it is a copy.
        unsafe { keep_alternate_stack(context) };
    }
    if let Some(action) = BEFORE.get() {
        pass_on(action, signal, info, context);
    }
}

/// Has the kernel, at the handler's return, leave alone the alternate stack of the kernel thread
/// that the handler returns on: it may be another than the one whose stack the frame names.
///
/// # Safety
/// 1. `context` is what the kernel passed to a handler.
pub unsafe fn keep_alternate_stack(context: *mut libc::c_void) {
    /// No flags of a stack: the kernel takes that for an error, and passes over it.
    const NO_FLAGS: i32 = 4;
    // SAFETY: by 1.
    unsafe { (*context.cast::<libc::ucontext_t>()).uc_stack.ss_flags = NO_FLAGS };
}

/// Calls who handled a signal before.
fn pass_on(
    action: &libc::sigaction,
    signal: i32,
    info: *mut libc::siginfo_t,
    context: *mut libc::c_void,
) {
    type Full = extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::c_void);
    type Plain = extern "C" fn(i32);
    match action.sa_sigaction {
        // Its default is to be ignored.
        libc::SIG_DFL | libc::SIG_IGN => {}
        handler if action.sa_flags & libc::SA_SIGINFO != 0 => {
            // SAFETY: a handler installed with SA_SIGINFO has this signature.
            let handler: Full = unsafe { core::mem::transmute(handler) };
            handler(signal, info, context);
        }
        handler => {
            // SAFETY: a handler installed without SA_SIGINFO has this signature.
            let handler: Plain = unsafe { core::mem::transmute(handler) };
            handler(signal);
        }
    }
}

/// `SI_QUEUE`: the sender gave a value.
const SI_QUEUE: i32 = -1;

/// The beginning of a `siginfo_t` of a signal with a value.
#[repr(C)]
struct Queued {
    number: i32,
    errno: i32,
    code: i32,
    align: i32,
    pid: i32,
    uid: u32,
    value: usize,
    rest: [u64; 12],
}

const _: () = assert!(size_of::<Queued>() == size_of::<libc::siginfo_t>());

/// Sends the kernel thread `tid` of this process a marked signal.
pub(crate) fn send_marked(tid: i32, signal: i32) {
    // SAFETY: no arguments.
    let pid = unsafe { libc::getpid() };
    let info = Queued {
        number: signal,
        errno: 0,
        code: SI_QUEUE,
        align: 0,
        pid,
        // Whose it is does not matter to a thread of the same process.
        uid: 0,
        value: MARK,
        rest: [0; 12],
    };
    // SAFETY: numbers, and a structure of the right size; a thread that is gone is an error that
    // nobody needs.
    unsafe { libc::syscall(libc::SYS_rt_tgsigqueueinfo, pid, tid, signal, &raw const info) };
}

/// Sends a signal that came from somebody to the calling kernel thread once more, as it came.
pub(crate) fn send_again(signal: i32, info: *mut libc::siginfo_t) {
    // SAFETY: the kernel's own siginfo; a thread may say anything to itself.
    unsafe {
        let (pid, tid) = (libc::getpid(), libc::syscall(libc::SYS_gettid));
        libc::syscall(libc::SYS_rt_tgsigqueueinfo, pid, tid, signal, info);
    }
}

/// Lets the calling kernel thread be interrupted by `signal`.
pub(crate) fn unblock(signal: i32) {
    // SAFETY: plain libc calls on a local set.
    unsafe {
        let mut set: libc::sigset_t = core::mem::zeroed();
        libc::sigaddset(&mut set, signal);
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &set, core::ptr::null_mut());
    }
}

/// Bytes that the kernel writes to a stack for a signal.
pub(crate) fn frame_bytes() -> usize {
    const AT_MINSIGSTKSZ: libc::c_ulong = 51;
    // SAFETY: a number; 0 when the kernel does not say.
    let said = unsafe { libc::getauxval(AT_MINSIGSTKSZ) } as usize;
    said.max(libc::MINSIGSTKSZ)
}

/// The calling thread's errno.
pub(crate) fn errno() -> i32 {
    // SAFETY: the calling thread's own.
    unsafe { *libc::__errno_location() }
}

/// Sets the calling thread's errno.
pub(crate) fn set_errno(number: i32) {
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = number };
}
