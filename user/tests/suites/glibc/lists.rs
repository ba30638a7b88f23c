//! Which of glibc's tests are run, and which of them are known to end otherwise under heddle.
//!
//! Invariant: a test that is named here is named with its reason; a known difference is run all the
//! same, and told of once it holds.

/// Folders of the source with tests of threads, signals, processes and I/O, and what else blocks.
pub const FOLDERS: &[&str] = &[
    "nptl",
    "sysdeps/pthread",
    "sysdeps/unix/sysv/linux",
    "rt",
    "signal",
    "setjmp",
    "malloc",
    "libio",
    "posix",
    "io",
    "misc",
    "stdlib",
    "time",
    "socket",
    "resolv",
    "nss",
    "inet",
    "debug",
    "dirent",
    "sysvipc",
    "termios",
    "login",
    "pwd",
    "grp",
    "stdio-common",
];

/// Tests that are not run, with the harm that they would do or the time that they take.
pub const HARMFUL: &[(&str, &str)] = &[
    ("tst-adjtimex", "asks the machine's clock to be set"),
    ("tst-clock2", "sets the machine's clock"),
    ("tst-clock_adjtime", "asks the machine's clock to be set"),
    ("tst-clock_settime", "sets the machine's clock"),
    ("tst-ntp_adjtime", "asks the machine's clock to be set"),
    ("tst-settimeofday", "sets the machine's clock"),
    ("tst-mount", "mounts file systems"),
    ("tst-ttyname", "mounts file systems"),
    ("tst-ttyname-direct", "mounts file systems"),
    ("tst-ttyname-namespace", "mounts file systems"),
    ("tst-pututxline-lockfail", "changes who is logged in"),
    ("tst-pututxline-cache", "changes who is logged in"),
    ("tst-resolv-rotate", "takes ten minutes"),
    ("tst-resolv-qtypes", "takes a minute, and has one thread"),
];

/// Tests that hold natively and not under heddle, with the reason; `heddle run --help` says most.
pub const KNOWN: &[(&str, &str)] = &[
    ("tst-basic7", ADDRESS_SPACE),
    ("tst-create-detached", ADDRESS_SPACE),
    ("tst-malloc-thread-fail", ADDRESS_SPACE),
    ("tst-default-attr", "a stack has one of the runtime's sizes, not less than was asked for"),
    ("tst-eintr5", "a wait for a condition returns 0 after a handler, as POSIX lets it"),
    ("tst-key1", KEYS),
    ("tst-key4", KEYS),
    ("tst-tss-basic", "key 0, which it has not made, is heddle's"),
    ("tst-malloc-tcache-leak", "what heddle itself has allocated once is counted"),
    ("tst-mqueue5", LATE),
    ("tst-signal3", LATE),
    ("tst-mutexpp10", "a mutex with a ceiling raises nobody's priority"),
    ("tst-pthread_cancel-exited", TASKS),
    ("tst-pthread_kill-exited", TASKS),
    ("tst-rwlock19", "it writes how many readers there are into the inside of a lock"),
    ("tst-setuid2", "a thread cannot change what the kernel keeps for each kernel thread"),
    ("tst-tgkill", "another process knows nobody by a thread's number"),
    ("tst-thread-affinity-pthread", PROCESSORS),
    ("tst-thread-affinity-pthread2", PROCESSORS),
    ("tst-thread-affinity-sched", PROCESSORS),
];
const ADDRESS_SPACE: &str = "it limits its address space: threads are the kernel's";
const KEYS: &str = "three of the 1024 keys of thread-specific values are heddle's";
const LATE: &str = "a signal for the process that only others let through comes some ms later";
const PROCESSORS: &str = "the processors that a thread is given are told again, and act on nothing";
const TASKS: &str = "it waits until /proc/self/task has the main thread alone; workers stay";
