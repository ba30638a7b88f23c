//! What the runtime's own kernel threads let through when they begin: nothing that could call a
//! handler of the program's. One test in a binary of its own: all kernel threads that are made in
//! it pass by here.

use heddle::thread;
use std::ffi::{CString, c_int, c_void};
use std::io::Read;
use std::sync::Mutex;

/// Which signals the maker of each kernel thread had blocked: those that it begins with. `None`
/// before the test has begun, for the harness makes some.
static BEGUN_WITH: Mutex<Option<Vec<u64>>> = Mutex::new(None);

/// Those that report faults, which workers let through.
const FAULTS: [c_int; 7] = [
    libc::SIGSEGV,
    libc::SIGBUS,
    libc::SIGFPE,
    libc::SIGILL,
    libc::SIGTRAP,
    libc::SIGABRT,
    libc::SIGSYS,
];

fn bit(signal: c_int) -> u64 {
    1 << (signal - 1)
}

/// Blocks these for the calling kernel thread too; returns what was blocked.
fn block(signals: u64) -> u64 {
    // SAFETY: sets of the right size, the first word of which is all that Linux has.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        let mut before: libc::sigset_t = std::mem::zeroed();
        (&raw mut set).cast::<u64>().write(signals);
        libc::pthread_sigmask(libc::SIG_BLOCK, &set, &mut before);
        (&raw const before).cast::<u64>().read()
    }
}

type Start = extern "C" fn(*mut c_void) -> *mut c_void;
type Create =
    unsafe extern "C" fn(*mut c_void, *const c_void, Start, argument: *mut c_void) -> c_int;

/// The C library's, after a note. (A sanitizer's own function is not to be replaced.)
///
/// # Safety
/// 1. As the C library's.
#[cfg(not(any(heddle_asan, heddle_tsan)))]
#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_create(
    thread: *mut c_void,
    attributes: *const c_void,
    start: Start,
    argument: *mut c_void,
) -> c_int {
    if let Some(masks) = BEGUN_WITH.lock().unwrap().as_mut() {
        masks.push(block(0));
    }
    let name = CString::new("pthread_create").unwrap();
    // SAFETY: the C library's function of this name; by 1.
    unsafe {
        let real = libc::dlsym(libc::RTLD_NEXT, name.as_ptr());
        let real: Create = std::mem::transmute(real);
        real(thread, attributes, start, argument)
    }
}

/// A line of what the kernel says of each kernel thread whose name begins with `name`.
fn lines(name: &str, key: &str) -> Vec<String> {
    let mut found = Vec::new();
    for task in std::fs::read_dir("/proc/self/task").unwrap() {
        // One that has just ended has no file.
        let text = std::fs::read_to_string(task.unwrap().path().join("status")).unwrap_or_default();
        let field = |key: &str| text.lines().find_map(|line| line.strip_prefix(key));
        if field("Name:").is_some_and(|it| it.trim().starts_with(name)) {
            found.push(field(key).unwrap().trim().to_owned());
        }
    }
    found
}

/// Calls `f`; the masks of the kernel threads that are made meanwhile.
fn begun_in(f: impl FnOnce()) -> Vec<u64> {
    *BEGUN_WITH.lock().unwrap() = Some(Vec::new());
    f();
    BEGUN_WITH.lock().unwrap().take().unwrap()
}

/// A kernel thread is cancelled in a call: somebody has to send it signals.
fn be_cancelled() {
    // A sleep may be another one than the call's, and then nobody has to.
    let mut tries = (0..100).map(|_| cancel_one());
    let masks = tries.find(|masks| !masks.is_empty()).expect("somebody sends the signals");
    assert_eq!(masks.len(), 1, "who sends the signals?");
    check(&masks);
}

/// The masks of the kernel threads that are made when one is cancelled in a call.
fn cancel_one() -> Vec<u64> {
    const NAME: &str = "in-a-call";
    let (mut reader, _writer) = heddle::io::pipe().unwrap();
    let (tell, told) = std::sync::mpsc::channel();
    let builder = std::thread::Builder::new().name(NAME.into());
    let reading = builder.spawn(move || {
        tell.send(thread::current()).unwrap();
        reader.read(&mut [0]).unwrap_err()
    });
    let thread = told.recv().unwrap();
    while !lines(NAME, "State:")[0].starts_with('S') {
        std::thread::yield_now();
    }
    let masks = begun_in(|| thread.cancel());
    assert!(heddle::is_cancelled(&reading.unwrap().join().unwrap()));
    masks
}

fn faults() -> u64 {
    FAULTS.iter().fold(0, |all, signal| all | bit(*signal))
}

/// Nothing but faults may come through, and what preempts threads: a worker that makes one lets
/// through both. The C library keeps two signals for itself, an emulator two more, and two cannot
/// be blocked.
fn check(masks: &[u64]) {
    let never = [32, 33, 63, 64, libc::SIGKILL, libc::SIGSTOP, heddle::raw::PREEMPTION_SIGNAL];
    let all = never.into_iter().fold(!faults(), |all, signal| all & !bit(signal));
    for mask in masks {
        assert_eq!(mask & all, all, "one began with {mask:#x}");
    }
}

#[test]
fn handlers_of_the_program_never_run_on_them() {
    if cfg!(any(heddle_asan, heddle_tsan)) {
        return println!("skip: a sanitizer's pthread_create is not to be replaced");
    }
    be_cancelled();
    if std::env::var("HEDDLE_BACKEND").is_ok_and(|it| it == "native") {
        return;
    }
    // A program may have this blocked; workers let it through all the same.
    block(bit(libc::SIGSEGV));
    let start = || thread::spawn(|| heddle::blocking(|| ())).join().unwrap();
    let masks = begun_in(start);
    // A worker, the monitor, one of the pool.
    assert!(masks.len() >= 3, "who runs the threads?");
    check(&masks);
    let worker = &lines("heddle-0", "SigBlk:")[0];
    assert_eq!(u64::from_str_radix(worker, 16).unwrap() & faults(), 0, "a worker blocks faults");
}
