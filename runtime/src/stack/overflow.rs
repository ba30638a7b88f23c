//! The overflow report: who overflowed its stack, how large it was — then the fault as usual.
//!
//! Runs on the worker's alternate signal stack. It writes with `write(2)` and formats into a local
//! buffer: no allocation, no locks.

use core::fmt::Write;
use core::sync::atomic::AtomicPtr;
use core::sync::atomic::Ordering::Relaxed;
use std::io;
use std::sync::OnceLock;

use super::CLASS_BYTES;
use crate::control::Control;
use crate::sys::memory::PAGE;
use crate::sys::say;
use crate::sys::signals::{self, Interrupted};
use crate::{full, sched};

/// A frame that is larger makes a fault that looks like any other: so far below its stack a thread
/// is taken to have overflowed it.
pub const BEYOND_BYTES_MAX: usize = 1 << 20;

/// What handled SIGSEGV before; a leaked box, set once.
static BEFORE: AtomicPtr<libc::sigaction> = AtomicPtr::new(core::ptr::null_mut());

/// What is asked first about a fault.
pub type OfProgram = fn(i32, *mut libc::siginfo_t, *mut libc::c_void) -> Option<libc::sigaction>;

static PROGRAM: OnceLock<OfProgram> = OnceLock::new();

/// Has `ask` called first for faults; see `raw::on_fault`.
pub fn set_program(ask: OfProgram) {
    let _ = PROGRAM.set(ask);
}

/// What is called before a fault ends the process that is no overflow.
pub type BeforeDeath = fn(i32, *mut libc::siginfo_t, *mut libc::c_void);

static BEFORE_DEATH: OnceLock<BeforeDeath> = OnceLock::new();

/// Has `tell` called in a signal handler before a fault of which the program wants nothing ends the
/// process. Once.
pub fn on_deadly_fault(tell: BeforeDeath) {
    let _ = BEFORE_DEATH.set(tell);
}

/// The handler of SIGSEGV while threads of the runtime run.
pub fn handler() -> usize {
    on_fault as *const () as usize
}

/// Installs the handler, keeping the one that was there for all other faults.
pub(crate) fn install_handler() -> io::Result<()> {
    if !BEFORE.load(Relaxed).is_null() {
        return Ok(());
    }
    // SAFETY: plain libc calls on local structures; the handler is async-signal-safe.
    unsafe {
        let mut before: libc::sigaction = core::mem::zeroed();
        if libc::sigaction(libc::SIGSEGV, core::ptr::null(), &mut before) != 0 {
            return Err(io::Error::last_os_error());
        }
        BEFORE.store(Box::into_raw(Box::new(before)), Relaxed);
        let mut action: libc::sigaction = core::mem::zeroed();
        action.sa_sigaction = on_fault as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_NODEFER;
        if libc::sigaction(libc::SIGSEGV, &action, core::ptr::null_mut()) != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

// A handler of the program may end its thread, by an unwind through this frame.
extern "C-unwind" fn on_fault(signal: i32, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the kernel passes a valid siginfo; or somebody sent one, which says no address.
    let (address, is_sent) = unsafe { ((*info).si_addr() as usize, (*info).si_code <= 0) };
    let running = match sched::worker() {
        // SAFETY: null or a slot of the slab.
        Some(worker) => unsafe { worker.current.load(Relaxed).as_ref() },
        None => full::me(),
    };
    let before = match PROGRAM.get().map(|ask| ask(signal, info, context)) {
        Some(None) => return,
        Some(Some(action)) => action,
        // SAFETY: `install_handler` stored a valid action.
        None => unsafe { *BEFORE.load(Relaxed) },
    };
    if let Some(thread) = running.filter(|_| !is_sent) {
        // SAFETY: the kernel passes a valid context.
        let pointer = unsafe { Interrupted::of(context) }.sp();
        if is_overflow(thread.stack.get() as usize, address, pointer) {
            report(thread);
            return die_by(signal, None);
        }
    }
    pass_on(&before, signal, info, context, is_sent);
}

/// Whether a fault at `address`, with this stack pointer, is the end of the stack whose guard page
/// lies at `guard`. A frame larger than the guard page steps over it.
fn is_overflow(guard: usize, address: usize, pointer: usize) -> bool {
    let is_beyond = |at: usize| at < guard + PAGE && guard - guard.min(at) <= BEYOND_BYTES_MAX;
    (guard..guard + PAGE).contains(&address) || (is_beyond(address) && is_beyond(pointer))
}

/// Writes the report, without allocating.
fn report(thread: &'static Control) {
    let mut text = Buffer { bytes: [0; 512], length: 0 };
    let record = thread.record();
    let (role, switches) = record.read().map_or((0, 0), |f| (f.role, f.switches));
    let bytes = CLASS_BYTES[thread.class.get() as usize];
    let _ = write!(text, "\nheddle: ");
    let _ = name(thread, &mut text);
    let _ = write!(text, " overflowed its stack of {} KiB (role ", bytes >> 10);
    let mut buffer = [0; size_of::<heddle_record::TextBuffer>()];
    let _ = match crate::table::role_name_in(role, &mut buffer) {
        Some(name) => write!(text, "\"{name}\""),
        None => write!(text, "none"),
    };
    let _ = write!(text, ", {switches} switches); peak use: all of it. ");
    let advice = super::observer::overflowed(thread);
    let _ = writeln!(text, "{}", advice.unwrap_or("Give it more with Builder::stack_size."));
    say::bytes(&text.bytes[..text.length]);
}

/// Writes which thread it is: its number, and its name if it has one. In a signal handler, too.
pub(crate) fn name(thread: &Control, out: &mut dyn Write) -> core::fmt::Result {
    let record = thread.record();
    write!(out, "thread {}.{}", thread.slot(), record.generation())?;
    let mut buffer = [0; size_of::<heddle_record::TextBuffer>()];
    let id = record.read().map_or(0, |fields| fields.name);
    match crate::table::text_in(id, &mut buffer) {
        Some(name) => write!(out, " \"{name}\""),
        None => Ok(()),
    }
}

/// As [`name`], and what for.
pub(crate) fn name_with_role(thread: &Control, out: &mut dyn Write) -> core::fmt::Result {
    name(thread, out)?;
    let mut buffer = [0; size_of::<heddle_record::TextBuffer>()];
    let role = thread.record().read().map_or(0, |fields| fields.role);
    match crate::table::role_name_in(role, &mut buffer) {
        Some(role) => write!(out, " (role \"{role}\")"),
        None => Ok(()),
    }
}

/// Writes which thread the calling one is, and what for; allocates nothing and takes no lock.
pub fn name_self(out: &mut dyn Write) {
    let _ = name_with_role(sched::current(), out);
}

/// Restores the default action; the fault happens again at once and kills the process. One that was
/// sent does not by itself.
fn die_by(signal: i32, sent: Option<*mut libc::siginfo_t>) {
    // SAFETY: async-signal-safe calls.
    unsafe {
        let mut action: libc::sigaction = core::mem::zeroed();
        action.sa_sigaction = libc::SIG_DFL;
        libc::sigaction(signal, &action, core::ptr::null_mut());
    }
    if let Some(info) = sent {
        signals::send_again(signal, info);
    }
}

/// Hands a fault that is not ours to whoever handled it before.
fn pass_on(
    before: &libc::sigaction,
    signal: i32,
    info: *mut libc::siginfo_t,
    context: *mut libc::c_void,
    is_sent: bool,
) {
    type Full = extern "C-unwind" fn(i32, *mut libc::siginfo_t, *mut libc::c_void);
    type Plain = extern "C-unwind" fn(i32);
    let is_plain = matches!(before.sa_sigaction, libc::SIG_DFL | libc::SIG_IGN);
    if let Some(tell) = BEFORE_DEATH.get().filter(|_| is_plain && !is_sent) {
        tell(signal, info, context);
    }
    match before.sa_sigaction {
        libc::SIG_DFL => die_by(signal, is_sent.then_some(info)),
        // One that is no sent signal would happen again for ever: the kernel ends the process, too.
        libc::SIG_IGN if !is_sent => die_by(signal, None),
        libc::SIG_IGN => {}
        handler if before.sa_flags & libc::SA_SIGINFO != 0 => {
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

/// Text in a fixed buffer; what does not fit is dropped.
struct Buffer {
    bytes: [u8; 512],
    length: usize,
}

impl Write for Buffer {
    fn write_str(&mut self, text: &str) -> core::fmt::Result {
        let room = self.bytes.len() - self.length;
        let count = text.len().min(room);
        self.bytes[self.length..self.length + count].copy_from_slice(&text.as_bytes()[..count]);
        self.length += count;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_frames_step_over_the_guard_and_other_faults_do_not() {
        let guard = 64 << 20;
        let end = guard + PAGE;
        assert!(is_overflow(guard, guard + 8, end + 500));
        assert!(is_overflow(guard, guard - 5000, guard - 9000));
        assert!(is_overflow(guard, guard - 5000, guard + 100));
        assert!(!is_overflow(guard, guard - 5000, end + 100), "a wild pointer, not the stack's");
        assert!(!is_overflow(guard, end, guard - 100), "inside the stack");
        assert!(!is_overflow(guard, 8, guard - 100), "null");
        assert!(!is_overflow(guard, guard - BEYOND_BYTES_MAX - 1, guard - 100));
    }
}
