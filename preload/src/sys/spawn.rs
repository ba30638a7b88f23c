//! Starts a program as the shell would have started it, were it not for us.
//!
//! Invariants
//! - The program gets what this process was given: the environment in its order, the signals that
//!   were ignored or blocked, the descriptors that were closed. Rust's runtime changes some of it
//!   before `main`: it is looked at before that.
//! - What the program was given is its own from then on ([`let_go`]): whoever waits for the end of
//!   a pipe, or for a lock, waits for the program alone.
//! - The program is this process's child, in its process group.

use std::ffi::{CStr, CString, OsStr, OsString, c_char};
use std::fs;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

static PIPE_WAS_IGNORED: AtomicBool = AtomicBool::new(false);
/// Bit N - 1: signal N.
static WERE_BLOCKED: AtomicU64 = AtomicU64::new(0);
static WAS_CLOSED: [AtomicBool; 3] = [const { AtomicBool::new(false) }; 3];

/// Runs before Rust's runtime starts. ORDER: relaxed throughout; there is one thread as yet.
extern "C" fn look_at_start() {
    // SAFETY: queries only, with pointers to a local; all are valid calls at any time.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        let known = libc::sigaction(libc::SIGPIPE, std::ptr::null(), &mut action) == 0;
        let ignored = known && action.sa_sigaction == libc::SIG_IGN;
        PIPE_WAS_IGNORED.store(ignored, Ordering::Relaxed);
        let mut mask: libc::sigset_t = std::mem::zeroed();
        libc::pthread_sigmask(libc::SIG_SETMASK, std::ptr::null(), &mut mask);
        let blocked = (1..=64).filter(|signal| libc::sigismember(&mask, *signal) == 1);
        let blocked = blocked.fold(0, |bits, signal| bits | 1u64 << (signal - 1));
        WERE_BLOCKED.store(blocked, Ordering::Relaxed);
        for (fd, was_closed) in (0..).zip(&WAS_CLOSED) {
            was_closed.store(libc::fcntl(fd, libc::F_GETFD) == -1, Ordering::Relaxed);
        }
    }
}

#[used]
// SAFETY: the section holds functions that take nothing of need and return; this is one.
#[unsafe(link_section = ".init_array")]
static LOOK_AT_START: extern "C" fn() = look_at_start;

/// Starts `program` with these arguments, the first one being its own name, and with this
/// process's environment, in which each of `set` replaces its namesake or comes last. The id of
/// the process.
///
/// # Errors
/// What exec said, or what stood in its way; then there is no process.
pub fn spawn(program: &Path, arguments: &[OsString], set: &[(&str, OsString)]) -> io::Result<i32> {
    let program = c_string(program.as_os_str())?;
    let arguments = c_strings(arguments)?;
    let environment = changed(environment(), set)?;
    let (argv, envp) = (pointers(&arguments), pointers(&environment));
    let (attributes, actions) = (Attributes::new()?, Actions::new()?);
    let mut pid = 0;
    // SAFETY: all pointers are to live, initialised objects; both arrays end with a null.
    let errno = unsafe {
        libc::posix_spawn(
            &mut pid,
            program.as_ptr(),
            &actions.0,
            &attributes.0,
            argv.as_ptr(),
            envp.as_ptr(),
        )
    };
    check(errno)?;
    Ok(pid)
}

/// Becomes the program, with this process's own environment, where there is no room for a second
/// process beside it. Returns only if that fails, with the reason.
pub fn become_program(program: &Path, arguments: &[OsString]) -> io::Error {
    let (program, arguments) = match (c_string(program.as_os_str()), c_strings(arguments)) {
        (Ok(program), Ok(arguments)) => (program, arguments),
        (Err(error), _) | (_, Err(error)) => return error,
    };
    let environment = environment();
    let (argv, envp) = (pointers(&arguments), pointers(&environment));
    // SAFETY: the default action takes no code of ours; the descriptors were opened by Rust's
    // runtime where there were none, for standard streams that are not used any more; both arrays
    // end with a null and hold pointers to live texts.
    unsafe {
        if !PIPE_WAS_IGNORED.load(Ordering::Relaxed) {
            libc::signal(libc::SIGPIPE, libc::SIG_DFL);
        }
        for (fd, was_closed) in (0..).zip(&WAS_CLOSED) {
            if was_closed.load(Ordering::Relaxed) {
                libc::close(fd);
            }
        }
        libc::execve(program.as_ptr(), argv.as_ptr().cast(), envp.as_ptr().cast());
    }
    io::Error::last_os_error()
}

/// Lets every signal come to this process, whatever whoever started it had blocked: the program
/// gets that block, and what is passed on to it waits there.
pub fn unblock_signals() {
    // SAFETY: the set is initialised by the call before it is used.
    unsafe {
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut none);
        libc::pthread_sigmask(libc::SIG_SETMASK, &none, std::ptr::null_mut());
    }
}

/// Gives up all descriptors that the program has got, but for standard error: standard input and
/// output lead nowhere from now on, and the others are closed.
///
/// # Errors
/// If /dev/null cannot be opened; then standard input and output stay.
pub fn let_go() -> io::Result<()> {
    let null = fs::File::options().read(true).write(true).open("/dev/null")?;
    let listed = fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    let listed: Vec<i32> =
        listed.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    for fd in listed.into_iter().filter(|fd| *fd > libc::STDERR_FILENO) {
        // SAFETY: this process opens all of its own with the flag: one without it was there
        // before `main`, and nothing here uses or owns it.
        unsafe {
            let flags = libc::fcntl(fd, libc::F_GETFD);
            if flags != -1 && flags & libc::FD_CLOEXEC == 0 {
                libc::close(fd);
            }
        }
    }
    for standard in [libc::STDIN_FILENO, libc::STDOUT_FILENO] {
        // SAFETY: replaces a standard descriptor, which stays open all the time.
        if unsafe { libc::dup2(null.as_raw_fd(), standard) } == -1 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// Sends any signal, those of real time included, to one process.
///
/// # Errors
/// What the kernel says; `EINVAL` for an id that is not positive, which would mean several.
pub fn send_signal(pid: i32, signal: i32) -> io::Result<()> {
    if pid <= 0 {
        return Err(io::Error::from_raw_os_error(libc::EINVAL));
    }
    // SAFETY: takes no memory.
    match unsafe { libc::kill(pid, signal) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Continues a process by a signal that seems to come from that process itself.
///
/// # Errors
/// What the kernel says; `EINVAL` for an id that is not positive.
pub fn continue_as_itself(pid: i32) -> io::Result<()> {
    /// `siginfo_t` of a signal with a sender, as 64-bit machines have it.
    #[repr(C)]
    struct Told {
        number: i32,
        error: i32,
        code: i32,
        gap: i32,
        sender: i32,
        user: u32,
        rest: [i32; 26],
    }
    const { assert!(size_of::<Told>() == size_of::<libc::siginfo_t>()) };
    if pid <= 0 {
        return Err(io::Error::from_raw_os_error(libc::EINVAL));
    }
    let user = rustix::process::getuid().as_raw();
    let (number, code) = (libc::SIGCONT, libc::SI_QUEUE);
    let told = Told { number, error: 0, code, gap: 0, sender: pid, user, rest: [0; 26] };
    // SAFETY: the call reads one `siginfo_t`, whose size and layout `told` has.
    let result =
        unsafe { libc::syscall(libc::SYS_rt_sigqueueinfo, pid, libc::SIGCONT, &raw const told) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Ends this process by a signal, whatever handler there is for it, if the signal is one that
/// ends processes.
pub fn end_by(signal: i32) {
    // SAFETY: the default action takes no code of ours; the set is initialised by the call before
    // it is used.
    unsafe {
        libc::signal(signal, libc::SIG_DFL);
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        libc::sigaddset(&mut set, signal);
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &set, std::ptr::null_mut());
        libc::raise(signal);
    }
}

/// Stops this process by a signal that stops processes, whatever handler there is for it, and
/// returns when it was continued. In a process group that nobody could continue a terminal's
/// signals stop nothing: then at once.
pub fn stop_by(signal: i32) {
    // SAFETY: the default action takes no code of ours; what is written and read are valid places,
    // of which all zero bytes are a valid content: the default action, and no mask.
    unsafe {
        let default: libc::sigaction = std::mem::zeroed();
        let mut kept: libc::sigaction = std::mem::zeroed();
        // Refused for SIGSTOP, which has no other one.
        let is_changed = libc::sigaction(signal, &raw const default, &raw mut kept) == 0;
        libc::raise(signal);
        if is_changed {
            libc::sigaction(signal, &raw const kept, std::ptr::null_mut());
        }
    }
}

fn check(errno: i32) -> io::Result<()> {
    if errno == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(errno)) }
}

fn c_string(text: &OsStr) -> io::Result<CString> {
    CString::new(text.as_bytes())
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, "a text holds a NUL byte"))
}

fn c_strings(texts: &[OsString]) -> io::Result<Vec<CString>> {
    texts.iter().map(|it| c_string(it)).collect()
}

/// An array as exec wants it, into `list`.
fn pointers(list: &[CString]) -> Vec<*mut c_char> {
    let pointers = list.iter().map(|text| text.as_ptr().cast_mut());
    pointers.chain([std::ptr::null_mut()]).collect()
}

/// The entries of the environment, also those that are no `NAME=VALUE`.
fn environment() -> Vec<CString> {
    // SAFETY: the C library declares it so.
    unsafe extern "C" {
        static environ: *const *const c_char;
    }
    let mut entries = Vec::new();
    // SAFETY: `environ` is null or an array of texts that ends with a null; nobody in this
    // process changes it.
    unsafe {
        let mut next = environ;
        while !next.is_null() && !(*next).is_null() {
            entries.push(CStr::from_ptr(*next).to_owned());
            next = next.add(1);
        }
    }
    entries
}

fn changed(mut entries: Vec<CString>, set: &[(&str, OsString)]) -> io::Result<Vec<CString>> {
    for (name, value) in set {
        let prefix = format!("{name}=");
        let mut entry = prefix.clone().into_bytes();
        entry.extend(value.clone().into_vec());
        let entry = c_string(OsStr::from_bytes(&entry))?;
        let mut before = entries.iter_mut();
        match before.find(|it| it.as_bytes().starts_with(prefix.as_bytes())) {
            Some(before) => *before = entry,
            None => entries.push(entry),
        }
    }
    Ok(entries)
}

/// Signals as this process found them.
struct Attributes(libc::posix_spawnattr_t);

impl Attributes {
    fn new() -> io::Result<Attributes> {
        let blocked = WERE_BLOCKED.load(Ordering::Relaxed);
        let default = !PIPE_WAS_IGNORED.load(Ordering::Relaxed);
        let flags =
            libc::POSIX_SPAWN_SETSIGMASK | if default { libc::POSIX_SPAWN_SETSIGDEF } else { 0 };
        // SAFETY: the objects are initialised by the calls before they are used.
        unsafe {
            let mut attributes = Attributes(std::mem::zeroed());
            check(libc::posix_spawnattr_init(&mut attributes.0))?;
            let mut signals: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&mut signals);
            libc::sigaddset(&mut signals, libc::SIGPIPE);
            check(libc::posix_spawnattr_setsigdefault(&mut attributes.0, &signals))?;
            libc::sigemptyset(&mut signals);
            // Those that the C library keeps for itself it refuses, and nobody misses them.
            for signal in (1..=64).filter(|signal| blocked >> (signal - 1) & 1 == 1) {
                libc::sigaddset(&mut signals, signal);
            }
            check(libc::posix_spawnattr_setsigmask(&mut attributes.0, &signals))?;
            check(libc::posix_spawnattr_setflags(&mut attributes.0, flags as libc::c_short))?;
            Ok(attributes)
        }
    }
}

impl Drop for Attributes {
    fn drop(&mut self) {
        // SAFETY: initialised in `new`, and not used afterwards.
        unsafe { libc::posix_spawnattr_destroy(&mut self.0) };
    }
}

/// Closes what was closed.
struct Actions(libc::posix_spawn_file_actions_t);

impl Actions {
    fn new() -> io::Result<Actions> {
        // SAFETY: the object is initialised by the first call before it is used.
        unsafe {
            let mut actions = Actions(std::mem::zeroed());
            check(libc::posix_spawn_file_actions_init(&mut actions.0))?;
            for (fd, was_closed) in (0..).zip(&WAS_CLOSED) {
                if was_closed.load(Ordering::Relaxed) {
                    check(libc::posix_spawn_file_actions_addclose(&mut actions.0, fd))?;
                }
            }
            Ok(actions)
        }
    }
}

impl Drop for Actions {
    fn drop(&mut self) {
        // SAFETY: initialised in `new`, and not used afterwards.
        unsafe { libc::posix_spawn_file_actions_destroy(&mut self.0) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_keeps_its_order() {
        let entries = ["A=1", "no equals sign", "B=2", "AB=3"];
        let entries = entries.map(|it| CString::new(it).expect("a text")).to_vec();
        let set = [("B", OsString::from("new")), ("C", OsString::from("4"))];
        let changed = changed(entries, &set).expect("texts");
        let changed: Vec<_> = changed.iter().map(|it| it.to_str().expect("text")).collect();
        assert_eq!(changed, ["A=1", "no equals sign", "B=new", "AB=3", "C=4"]);
    }

    #[test]
    fn a_missing_program_is_an_error_and_no_process() {
        let error = spawn(Path::new("/nonexistent"), &["x".into()], &[]).expect_err("none");
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }
}
