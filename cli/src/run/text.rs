//! What the manual page and the long help of `heddle run` say beyond its options.
//!
//! Invariant: each line is as wide as a terminal shows it, 100 columns at most.

/// Examples, and what is different for a program.
pub const EXAMPLES: &str = "\
Examples:
  heddle run ./server                          what threads it has
  heddle run --stacks auto ./server            with stacks as earlier runs needed them
  heddle run --policy sensors.toml ./panel     with roles and priorities
  heddle run --report json --report-to r.json -- ffmpeg -i a.mkv b.mp4
  heddle run --policy sensors.toml --pid 4711  for a process that runs already
  heddle run --threads user mariadbd           a thousand clients on a few kernel threads

With --pid:
  Ctrl-C, SIGTERM and SIGHUP end it and give every thread back what it had; so does Ctrl-Z until it
  is continued, and a second process if it is killed. SIGSTOP gives no time for that. Only names
  are known of threads of a program that was not started by heddle run.

What differs for the program:
  It is heddle's child. A signal to the whole process group (kill -- -PGID, kill %1) reaches it from
  there and once more through heddle; one of the terminal's keys reaches it once. Standard error
  stays open in heddle until the report is written; everything else that it closes is closed.
  /proc/PID/environ has the two variables that add the library, its environment has not. Below a
  filter on system calls that a sandbox set up, or in a program without the loader (static), its
  threads are not seen. Where no second process fits, a line says so and it runs alone.

What differs with --threads user:
  The library that makes the threads comes last in LD_PRELOAD, so what else stands there wraps its
  functions. A library that the program is linked with, or that stands behind it, and that
  wraps what threads wait in (connect, read, poll) leaves it on kernel threads; a line says so.
  A filter on system calls that the program sets itself has to allow what heddle calls, too. One
  that does not, and is set before the first thread, leaves it on kernel threads, and a line says
  so; one that is set beside threads, and kills, is told of by a line.
  The main thread stays a kernel thread, and so does a thread with a stack of the program's own,
  with a guard of more than a page or with a real-time policy in its attributes. Mutexes that
  inherit priority or have a ceiling raise nobody's; those that are robust or shared with other
  processes are the C library's. One that inherits priority and was made by a process that heddle
  does not run is refused (ENOTSUP). The processors and the niceness that a thread is given, and its
  priority at a disk, are told again, by name and by number, and act on its children, which have
  them: those that it forks at once, programs that it starts as soon as these have begun (not by
  popen); what takes a privilege there takes none. Workers may use all processors that a thread was
  ever given or had from its maker, and have the niceness of who made the first thread, or that of
  a later maker that is more urgent. What a kernel thread makes whose policy is another one than
  the program began with, real-time or idle, is a kernel thread, and a line says so.
  A thread's number (gettid) is one that the kernel has for no thread, above 2^29: /proc/PID/task
  and /proc/TID do not have it, fcntl and ioctl do not take it for the owner of a file's signals
  (F_SETOWN_EX, FIOSETOWN: ESRCH), nor pidfd_open, and /proc/thread-self is the worker that the
  thread runs on. But the program itself may open /proc/self/task/TID/comm and
  /proc/thread-self/comm (open, openat, fopen): a file in memory, which has the name, or gives it
  when it is closed.
  /proc/self/comm is the main thread's, /proc/self/status (its masks of signals, its CPUs) tells of
  that one, too. ps -L, top -H and pidstat -t show the main thread, the
  workers (heddle-0, heddle-1, ...) and heddle's helpers (heddle-monitor, heddle-steward,
  heddle-signals, heddle-blocking, heddle-proxy); heddle ps and heddle top show the threads. The
  size of the process in top (VIRT) has 256 GiB in which stacks may lie, once it has more than fit
  between 2 and 4 GiB, where the first ones lie: for threads that switch often the process gets
  segments there (modify_ldt, entries from the 64th on), if AMD has made the processor and no filter
  on system calls was there before. A program that maps something there at a place of its own
  (MAP_FIXED) needs HEDDLE_SEGMENTS=off: neither is done then. Stacks count towards a limit
  on its address space (RLIMIT_AS): below one that the program sets itself before its first thread
  its threads are kernel threads, and below one that it sets later it is given no more.
  A signal that is sent to a thread is handled there, on its own stack or its alternate one; not
  while it waits for a disk, but after that. Nor does a cancellation end that wait, the look-up of a
  name but by getaddrinfo, or a destructor of a thread's values; where the C library writes past its
  streams, as dprintf may, it makes that fail with EINTR and ends the thread at its next point of
  cancellation. A look-up is made as /etc/resolv.conf says, not the thread's _res. A handler is told
  the registers of its own call. SIGPROF and SIGVTALRM of a timer come to the thread that computes,
  and tell where it was but in the C library; in its allocator they wait until it has left that, and
  those that come meanwhile are one. A signal for the process that none of the program's kernel
  threads lets through is handled by a thread that does, up to some ms later; up to a second where
  the main thread had let it through in a handler alone that no function of the C library has set.
  SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT and SIGSYS act at once where they are sent to a
  process that blocks them in all of its threads; they do not wait for one.
  In a job in the background a thread is not stopped by SIGTTIN or SIGTTOU: it waits for the
  terminal's input, and fails with EIO when there is some; what it writes below stty tostop, and
  what it sets (tcsetattr, tcsetpgrp), is done.
  A signal that is sent to a thread (pthread_kill, raise, a timer's SIGEV_THREAD_ID) is told by a
  descriptor of signalfd that the program made itself, below 16384, where /proc is there and one
  more file can be opened; not to calls by number or to streams (fdopen), nor in epoll sets five
  deep, nor by one that it was started with or got through a socket. These tell of what the process
  is sent.
  A descriptor of signalfd tells of no SIGPIPE, SIGXFSZ, SIGPROF, SIGVTALRM and SIGURG that are sent
  to the process.
  From the first thread on heddle keeps descriptors open in the process: two to five for each
  worker and seven or eight more; one that stands in for a blocked one has none until a thread
  waits for a descriptor there, and such ones take no more than a quarter of RLIMIT_NOFILE:
  threads beyond that look for their events every 10 ms. Fewer workers run where they would have
  more than half of RLIMIT_NOFILE. A line says either. They stand from 1000 on, then from 768 and
  512 on, and where RLIMIT_NOFILE is lower near its end, so the program's numbers are those that
  it would have. For an instant each has the lowest free number, a new worker's later on too, and
  so has what heddle looks up in /proc: socket, pipe, dup and others that wait for nothing are
  held until then, but what another thread gets in that instant from open, accept, recvmsg, the C
  library (fopen) or by syscall() may have the next one. exec closes them, a forked child may.
  To close, close_range, closefrom, dup2 and dup3 of the program they are none (EBADF). It must not
  close them by syscall(), nor put others there so: then threads that wait for a descriptor wait for
  ever, and what stands there instead may be written to. They count for
  RLIMIT_NOFILE, and select says EBADF for a bit below 1024 that means no descriptor, where it
  overlooks those above the kernel's table otherwise, which is smaller.
  Threads that read or write one descriptor of a file on a disk at its own position do so one after
  the other, and each gets its part whole. A kernel thread's call, another process's or one by a
  copy of the descriptor may come between, where what is read is partly in memory.
  A thread that waits for a descriptor which another one closes has the file until its wait ends, by
  a copy that stands where heddle's own descriptors do, of 256 files at most; without one it gets
  what came before, as the end of a connection that was shut down, and nothing later. So it is with
  close, dup2 and dup3 of numbers below 65536, which wait for those for whom something has come (a
  second at most), not with fclose and close_range.
  On the main thread, and other kernel threads of the program's, a handler of SIGURG, by which
  threads are preempted, ends no call early. A wait for a condition may end (0) after a handler ran
  in it. Three of the 1024 keys of thread-specific values are heddle's, and mallinfo counts what
  heddle allocates.
  What the kernel keeps for each kernel thread a thread cannot change, for it would hold for its
  worker: identities by system call and setfsuid, capset, unshare, setns, seccomp and what prctl
  has of that, personality, ptrace, the base of a segment (arch_prctl; the instruction wrgsbase sets
  the worker's). These fail with EPERM, and a line says which; the main thread and children change
  them as ever. What the main thread, or another kernel thread of the program's, makes after such a
  change are kernel threads, which inherit it, and a line says so. Nor does perf_event_open know a
  thread: who counts itself counts its worker. A child that a thread makes by clone in its own
  memory (CLONE_VM), and does not wait for as vfork does, must not call what waits.
  Caches per processor that an allocator registers itself (rseq: Google's tcmalloc) fail with
  ENOSYS, and it takes its threads' own; what uses the C library's area (librseq) has kernel
  threads.
  Memory policies are accepted and act on nothing; a deadline for the scheduler is refused with
  EPERM, set_robust_list with ENOSYS. By system call a futex that inherits priorities goes by kernel
  threads, and fails (EDEADLK, ESRCH) where it has to wait for a thread. A thread that waits for one
  child does not see it stop for its tracer, the main thread. A thread that locks a robust mutex, or
  one shared with other processes that knows its owner, or a shared read-write lock, has a kernel
  thread (heddle-proxy) that sleeps beside it as long as it lives: the kernel releases robust
  mutexes by that one when the process ends or is killed. Where the kernel makes no more threads,
  those that the thread holds when the process ends stay held.
  Rings of io_uring that a thread makes by syscall() are for any issuer and defer no work, whatever
  it asks for, and ring descriptors are not registered (EINVAL). Those that liburing makes are as it
  asks: one for a single issuer fails (EEXIST) once its thread has another worker.
  A thread's clock of CPU time is its own, but no timer goes by it (ENOTSUP);
  getrusage(RUSAGE_THREAD) tells CPU time alone, all of it as the user's.
  Policy, sizes of stacks, report and profile are as with kernel threads. Classes, priorities and
  groups act in heddle's scheduler, whether a policy, pthread_setattributes_np or SCHED_HEDDLE says
  them. The CPU Mediator puts the program's kernel threads, and its children's, into the Lazy region
  while a time-critical thread is active; the workers never, whatever they run, and into the Fast
  one while they have an active time-critical thread. It looks every 5 to 8 ms. A stack that is
  sized has one of the runtime's sizes (64K, 256K, 1M, 8M, 64M), never less than it needs.
  Every stack is measured, of short threads when a thread of another kind gets it or the process
  ends; where that end does not come to heddle (a signal), what was not measured by then is not,
  and the CPU time of those that live then is not in the report. The CPU time of a thread is what
  it had its worker for; where it had it for longer than 0.05 ms, what the kernel says.
  The kernel shares processors out among kernel threads: beside other programs that compute, one
  whose threads are on two workers gets the share of two, however many they are. Threads that read
  a disk all the time, past what is in memory, come to have a worker each meanwhile, with its
  descriptors, and wait for a kernel thread otherwise.
  While short threads come fast, a new one may start up to 0.1 ms late, as workers that have
  nothing to do look by themselves instead of being woken. A child that the program forks goes on
  with the C library's threads. Where each worker has a thread in a call of the C
  library that heddle does not see (stdio that reads a pipe), the program stands still if the
  thread that they wait for has the lock of the allocator, or of the loader, and no worker.
  A program that the program becomes or starts (exec, posix_spawn, system, popen) is judged at that
  moment, and gets user-level threads if it, or a library that it is linked with, asks the C library
  for threads. Of one that could not have them a line says why, once. The others are as they are
  with kernel threads: what loads a library with threads later on (dlopen); what is started as
  another user, with a root or mounts of its own, through a 32-bit, static or setuid program, by a
  loader called by its name or a relative LD_LIBRARY_PATH, by the number of the call, below a filter
  on system calls, or once heddle has ended. The first question about a program takes 1 to 400 ms
  by how many symbols there are (bash 2, python3 23, clang 400), each later one 0.1 to 0.2 ms, and
  some seconds where heddle is stopped; for that long it has the lowest free descriptor. The
  libraries add 0.5 ms to the start of a program that gets user-level threads, and its first thread
  takes some ms. The shell of system and popen becomes another one, which asks, unless the command
  has more than 16 KiB.

What heddle tells with --threads user:
  If all threads wait and nothing can wake one, that is said once, on standard error: up to 16 of
  them by number, name and role, the main thread first, with the call that each waits in, where its
  mutex, condition or semaphore lies (PROGRAM+0xOFFSET), who holds it, and who is joined. Where the
  main thread waits in the C library itself, as in sem_wait, the place alone is told. Nothing is
  said while something could still come: from a descriptor, a timer, a child or another process;
  nor where the program has a handler for a signal that is no fault's.
  While others go on, threads that wait for each other are told of in the same way after 1 to 5
  seconds: by mutexes, by read-write locks that one has locked to write, by joins. One that waits
  for a mutex that it has locked itself, or that one has left locked that has ended, is told of
  after 10 seconds, as another thread may unlock it. At most 8 such reports come; waits with a
  deadline are in none.
  A SIGSEGV, SIGBUS, SIGILL or SIGFPE in heddle's own code, by a bad pointer to a pthread function
  or by a fault of heddle's, says in a line which function that was, at which address, and for which
  thread; so does a panic. Then the program ends as by a fault of its own, with the same signal.
  Where the program handles the signal the line comes if it gives up, by the default action. Faults
  in the program's code and in the C library are told by nobody.
  All of it goes to the file that was standard error when the program began, or to one that was
  opened to be added to (O_APPEND), as logs are: what else has the number by then may be the
  program's data, and gets nothing.

Debugging with --threads user:
  gdb -p PID and a core file show workers as threads. `source heddle.py` (in share/heddle) adds
  `heddle threads`, `heddle bt SLOT`, `heddle bt all` and `heddle thread SLOT`: the program's own
  threads with name, state, what they wait for, and all frames. A core file has them too, but for
  the roles of a policy; gcore leaves their stacks out, `heddle gcore FILE` in gdb puts them in.
  backtrace() and other unwinders end at the start function. strace -f and perf follow the workers:
  a call or a sample is that of the thread that the worker runs then, and perf's call graphs
  (--call-graph dwarf) say which. A wait is not a call of its own: a thread that waits is armed in
  its worker's epoll set. gdb stops at SIGURG, which preempts threads, unless told
  `handle SIGURG nostop noprint pass`; heddle.py tells it.

JSON report:
  version (1), program, arguments, exit ({\"code\": N} or {\"signal\": N}), elapsed_ns, stacks,
  zones (low_percent, high_percent), totals (processes, threads_created, threads_failed,
  threads_peak, stack_reserved_peak_bytes), processes, mediator (null if it did nothing), notes.
  Each of processes: pid, program, in_order (it ended by itself, so that all stacks were
  measured), running, threads_created, threads_failed, threads_peak, and threads, a row per kind:
  key, start (function), species, place, module, site and defined_at (file:line), role, name,
  class, priority, group, category, created, failed, ended, stack_asked_bytes, stack_given_bytes,
  stack_peak_bytes, stack_resident_bytes, stack_reserved_peak_bytes, zone, cpu_ns, main, explicit,
  user_stack, tuned, overflowed, tripped, advice. What is not known is null, or 0.

Exit status:
  The program's own. If a signal ended the program, the same signal ends heddle.
  127 if there is no such program, 126 if it cannot be executed, 125 if heddle could not start
  (a policy that is wrong, a report file that cannot be written), 2 for wrong usage.";
