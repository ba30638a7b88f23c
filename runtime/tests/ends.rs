//! What is left when a thread, a kernel thread, a wait or a process ends: locals are dropped where
//! they were made, a mutex without waiters is in no list, a forked child is told.

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use heddle::sync::Mutex;
use heddle::thread::{self, Builder};

static DROPPED: AtomicUsize = AtomicUsize::new(0);
static DROPPED_ELSEWHERE: AtomicUsize = AtomicUsize::new(0);

/// Counts its drops, and those by another thread than its maker.
struct Local(thread::ThreadId);

impl Local {
    fn new() -> Self {
        Local(thread::current().id())
    }
}

impl Drop for Local {
    fn drop(&mut self) {
        DROPPED.fetch_add(1, SeqCst);
        if thread::current().id() != self.0 {
            DROPPED_ELSEWHERE.fetch_add(1, SeqCst);
        }
    }
}

/// Makes its local again whenever that is dropped.
struct Again;

impl Drop for Again {
    fn drop(&mut self) {
        DROPPED.fetch_add(1, SeqCst);
        AGAIN.with(|_| ());
    }
}

/// A result whose destructor makes a local.
struct Late;

impl Drop for Late {
    fn drop(&mut self) {
        LOCAL.with(|_| ());
    }
}

heddle::thread_local! {
    static LOCAL: Local = Local::new();
    static AGAIN: Again = Again;
    static TOUCHED: Cell<bool> = Cell::new(false);
}

/// The locals need not be Send: one case, as the counters are shared.
#[test]
fn locals_are_dropped_by_the_thread_that_made_them() {
    // A kernel thread whose name outlives it.
    let body = || {
        LOCAL.with(|_| ());
        thread::current()
    };
    let name = std::thread::spawn(body).join().unwrap();
    assert_eq!(DROPPED.load(SeqCst), 1, "a kernel thread's local was not dropped at its end");
    drop(name);

    // A detached thread whose result makes a local once the thread's locals are gone.
    let (send, receive) = std::sync::mpsc::channel();
    let body = move || {
        send.send(thread::current()).unwrap();
        thread::sleep(Duration::from_millis(20));
        Late
    };
    drop(thread::spawn(body));
    let name = receive.recv().unwrap();
    for _ in 0..1000 {
        if DROPPED.load(SeqCst) == 2 {
            break;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    drop(name);
    assert_eq!(DROPPED.load(SeqCst), 2);
    assert_eq!(DROPPED_ELSEWHERE.load(SeqCst), 0);

    // What is made again for ever stays, rather than being dropped by whoever comes last.
    thread::spawn(|| AGAIN.with(|_| ())).join().unwrap();
    let rounds = DROPPED.load(SeqCst) - 2;
    assert!((1..=4).contains(&rounds), "{rounds} rounds of destructors");
    TOUCHED.with(|touched| assert!(!touched.replace(true)));
}

/// A mutex through which the caller inherited priority, moved after its guard was forgotten.
#[inline(never)]
fn moved_while_locked() -> Box<Mutex<[u64; 4]>> {
    let mutex = Box::new(Mutex::new([0; 4]));
    thread::scope(|scope| {
        let guard = mutex.lock().unwrap();
        let waits = || assert!(mutex.lock_timeout(Duration::from_millis(1)).is_err());
        scope.spawn_with(Builder::new().priority(50), waits).unwrap().join().unwrap();
        std::mem::forget(guard);
    });
    Box::new(*mutex)
}

#[test]
fn a_mutex_without_waiters_may_move() {
    let body = || {
        for round in 0..20 {
            let moved = moved_while_locked();
            // What lies now where the mutex was.
            let noise: Vec<_> =
                (0..64).map(|i| vec![0x4141_4141_4141_4141_u64; 4 + i % 8]).collect();
            let other = Mutex::new(0);
            thread::scope(|scope| {
                let guard = other.lock().unwrap();
                let adds = || *other.lock().unwrap() += 1;
                scope.spawn_with(Builder::new().priority(60), adds).unwrap();
                thread::sleep(Duration::from_millis(2));
                drop(guard);
            });
            assert_eq!(*other.lock().unwrap(), 1, "round {round}");
            drop((moved, noise));
        }
    };
    thread::spawn(body).join().unwrap();
}

#[test]
fn a_forked_child_without_workers_gets_an_error() {
    thread::spawn(|| ()).join().unwrap();
    if std::env::var("HEDDLE_BACKEND").as_deref() == Ok("native") {
        println!("skip: the native backend has no workers");
        return;
    }
    // SAFETY: the child makes no use of what other kernel threads may have held: glibc keeps its
    // allocator usable across a fork. It leaves by `_exit`.
    let child = unsafe { libc::fork() };
    assert!(child >= 0);
    if child == 0 {
        // SAFETY: plain libc calls; the alarm ends a child that hangs.
        unsafe {
            libc::alarm(20);
            let error = Builder::new().spawn(|| ()).err();
            let told = error.is_some_and(|e| e.kind() == std::io::ErrorKind::Unsupported);
            libc::_exit(if told { 0 } else { 1 });
        }
    }
    let mut status = -1;
    // SAFETY: the child made above, a local to write to.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    assert_eq!(status, 0, "the child's spawn did not fail");
}

/// Whether a test that limits its address space can hold here; says why not.
fn can_limit_address_space() -> bool {
    let native = std::env::var("HEDDLE_BACKEND").is_ok_and(|backend| backend == "native");
    if native || cfg!(not(target_arch = "x86_64")) || cfg!(heddle_asan) {
        println!("skip: the native backend has no workers, or the address space is not ours");
        return false;
    }
    true
}

/// Set in a process that runs one of these tests alone.
const CASE: &str = "HEDDLE_TEST_CASE";

/// Whether the caller is such a process; else runs the test in one.
fn is_alone(name: &str) -> bool {
    if std::env::var_os(CASE).is_some() {
        return true;
    }
    let own = std::env::current_exe().unwrap();
    let mut child = std::process::Command::new(own);
    let output = child.args(["--exact", name, "--nocapture"]).env(CASE, "1").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    false
}

#[test]
fn an_error_names_the_address_space_limit() {
    if !can_limit_address_space() || !is_alone("an_error_names_the_address_space_limit") {
        return;
    }
    assert_eq!(thread::spawn(|| 7).join().unwrap(), 7);
    limit_address_space(Some(16 << 20));
    // The first of its size.
    let error = Builder::new().stack_size(32 << 20).spawn(|| ()).unwrap_err();
    assert!(error.to_string().contains("address space (RLIMIT_AS): the limit is "), "{error}");
}

#[test]
fn most_of_a_limited_address_space_is_left() {
    const NAME: &str = "most_of_a_limited_address_space_is_left";
    const MORE: usize = 2 << 30;
    if !can_limit_address_space() || !is_alone(NAME) {
        return;
    }
    limit_address_space(Some(MORE as u64));
    heddle::Config::new().workers(2).start().unwrap();
    for bytes in [64 << 10, 8 << 20] {
        let builder = Builder::new().stack_size(bytes - (16 << 10));
        assert_eq!(builder.spawn(|| 7).unwrap().join().unwrap(), 7);
    }
    assert!(Vec::<u8>::new().try_reserve_exact(MORE / 3).is_ok());
}

/// Kernel threads of this process.
fn tasks() -> usize {
    std::fs::read_dir("/proc/self/task").unwrap().count()
}

/// Sets the limit on address space to what is used now and `more` bytes, `None`: to no limit.
fn limit_address_space(more: Option<u64>) {
    let used = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: u64 = used.split(' ').next().unwrap().parse().unwrap();
    let most = more.map_or(libc::RLIM_INFINITY, |more| pages * 4096 + more);
    let limit = libc::rlimit { rlim_cur: most, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: a plain structure that lives across the call.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_AS, &limit) }, 0);
}

#[test]
fn a_start_that_failed_leaves_nothing_behind() {
    const NAME: &str = "a_start_that_failed_leaves_nothing_behind";
    if !can_limit_address_space() || !is_alone(NAME) {
        return;
    }
    // The table and the control blocks are there before the limit is.
    drop(thread::current());
    let before = tasks();
    limit_address_space(Some(0));
    for _ in 0..2 {
        let error = heddle::Config::new().workers(2).start().unwrap_err();
        assert!(error.to_string().contains("RLIMIT_AS"), "{error}");
    }
    limit_address_space(None);
    // They end by themselves.
    let mut left = tasks();
    for _ in 0..1000 {
        if left == before {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
        left = tasks();
    }
    assert_eq!(left, before, "kernel threads are left behind");
    heddle::Config::new().workers(2).start().unwrap();
    assert!(tasks() >= before + 2);
    assert_eq!(thread::spawn(|| 7).join().unwrap(), 7);
}

#[test]
fn as_many_workers_start_as_the_kernel_allows() {
    const NAME: &str = "as_many_workers_start_as_the_kernel_allows";
    const WORKERS: usize = 64;
    if !can_limit_address_space() || !is_alone(NAME) {
        return;
    }
    drop(thread::current());
    limit_address_space(Some(48 << 20));
    heddle::Config::new().workers(WORKERS).start().unwrap();
    assert!(tasks() < WORKERS, "{} kernel threads in 48 MiB", tasks());
    // There are stacks for as many threads as there is memory for.
    limit_address_space(None);
    let threads: Vec<_> = (0..200).map(|number| thread::spawn(move || number)).collect();
    let sum: u64 = threads.into_iter().map(|thread| thread.join().unwrap()).sum();
    assert_eq!(sum, 199 * 100);
}
