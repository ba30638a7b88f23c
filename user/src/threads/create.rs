//! `pthread_create`: a full thread, or a kernel thread where only that will do.
//!
//! Invariant: what describes the thread is complete, and its `pthread_t` stored for the caller,
//! before it can run.
//!
//! A kernel thread is made when the program brings the stack itself, asks for a real-time policy,
//! or for more stack than the runtime's largest; in a forked child; and everywhere if the runtime
//! can't have full threads here, or would take what a limit leaves the program, which is said once.
//!
//! # Safety
//! For all exported functions of this file: pointers are valid, and the start function may be
//! called with its argument on another thread.

use core::cell::Cell;
use core::ffi::{c_int, c_void};
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize};
use std::io;
use std::sync::{Mutex, Once, OnceLock};
use std::time::Duration;

use heddle::raw;
use heddle::thread::{Builder, Thread};
use libc::{cpu_set_t, pthread_attr_t, pthread_t};
use rustix::process::{Resource, getrlimit, getuid};

use super::attributes::Wanted;
use super::schedule::{self, Schedule};
use super::signals::{self, Signals, process};
use super::{
    About, DETACHED, JOINABLE, Own, Pthread, Start, affinity, count_in, debugger, end, fork,
    inherited, kernel, own, registry, said, stuck,
};
use crate::account::{self, Origin, tripwire};
use crate::sync::layout;
use crate::sys::{callers, filter, interruptible, kept};
use crate::{environment, errno, real};

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn heddle_user_pthread_create(
    thread: *mut pthread_t,
    attr: *const pthread_attr_t,
    start: Start,
    argument: *mut c_void,
    site: usize,
) -> c_int {
    let origin = Origin { start: start as usize, argument, site };
    // SAFETY: passed on.
    unsafe { make(thread, attr, (start, argument), &origin) }
}

/// As `pthread_create`; `origin` says what the program itself called.
///
/// # Safety
/// As `pthread_create`.
pub unsafe fn make(
    thread: *mut pthread_t,
    attr: *const pthread_attr_t,
    (start, argument): (Start, *mut c_void),
    origin: &Origin,
) -> c_int {
    // SAFETY: null or the caller's attributes.
    let wanted = unsafe { Wanted::of(attr) };
    fork::will_be_several();
    // What was said and prepared before it was set.
    let is_filtered = filter::refuses() && fork::may_create();
    let is_by_kernel = super::this().is_none();
    let inherits = is_by_kernel
        && (errno::kept(kept::is_to_inherit)
            || !wanted.is_explicit && inherited::needs_kernel_thread());
    if !is_filtered && !wanted.needs_kernel_thread && !inherits && fork::may_create() {
        // SAFETY: null or the caller's attributes.
        let processors = match errno::kept(|| unsafe { affinity::of_new(attr) }) {
            Ok(processors) => processors,
            Err(number) => return number,
        };
        let wanted = (&wanted, processors);
        // SAFETY: the caller's place, function and argument.
        match errno::kept(|| unsafe { create(thread, wanted, (start, argument), origin) }) {
            Ok(()) => return 0,
            Err(error) if error.kind() == io::ErrorKind::OutOfMemory => return libc::EAGAIN,
            Err(error) => report_refusal(&error),
        }
    }
    raw::count_pins();
    errno::kept(prepare);
    // SAFETY: the caller's attributes.
    if wanted.is_explicit || unsafe { affinity::named_by(attr) }.is_some() {
        // Those that it makes inherit it.
        inherited::may_change();
        inherited::changed(wanted.is_explicit.then_some(wanted.policy));
    }
    loop {
        // SAFETY: as the caller promises.
        let error = errno::kept(|| unsafe {
            kernel::create(thread, attr, (start, argument), origin, wanted.blocked)
        });
        if error != libc::EAGAIN || raw::now_ns() >= REFUSED_UNTIL.load(Relaxed) {
            return error;
        }
        errno::kept(|| std::thread::sleep(Duration::from_millis(1)));
    }
}

/// For so long a kernel thread is asked for again when the runtime could not start: those that it
/// had made count until they have ended.
const ENDING_NS: u64 = 100_000_000;
static REFUSED_UNTIL: AtomicU64 = AtomicU64::new(0);

/// Makes what waits stand on, while there is one thread: it takes memory, and a thread that waits
/// may be in the middle of the allocator.
pub fn prepare() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        kernel::keep_main();
        // Refused: whoever waits says why.
        let _ = raw::prepare_waits();
        signals::actions::begin_around();
    });
}

/// The runtime keeps a dozen open, and the program has some.
const DESCRIPTORS_MIN: u64 = 32;
/// The runtime takes a few, and the program's children are processes, too.
const PROCESSES_MIN: u64 = 16;

/// Starts the runtime as the run asks for it, once: where that fails, threads are kernel threads.
///
/// # Errors
/// Why there can be no full threads beside this C library's objects, or below this limit.
fn start_runtime() -> Result<(), &'static str> {
    static STARTED: OnceLock<Result<(), String>> = OnceLock::new();
    let start = || {
        layout::check().map_err(str::to_owned)?;
        // Stacks are reserved ahead: that would take what the program needs itself. The command
        // begins no program below such a limit; this one it has set before its first thread.
        if getrlimit(Resource::As).current.is_some() {
            return Err("address space is limited (RLIMIT_AS)".into());
        }
        // What was made by then would stay if there were not enough.
        if getrlimit(Resource::Nofile).current.is_some_and(|it| it < DESCRIPTORS_MIN) {
            return Err("fewer than 32 descriptors are allowed (RLIMIT_NOFILE)".into());
        }
        // Of the whole user; the kernel lets root have more.
        if getrlimit(Resource::Nproc).current.is_some_and(|it| it < PROCESSES_MIN)
            && !getuid().is_root()
        {
            return Err("fewer than 16 processes are allowed (RLIMIT_NPROC)".into());
        }
        if let Some((library, name)) = real::between() {
            let name = name.to_string_lossy();
            return Err(format!("{library} wraps {name}, which user-level threads do not call"));
        }
        raw::describe_full_threads(size_of::<Pthread>());
        for (low, high) in environment::guarded_texts() {
            raw::guard_text(low, high);
        }
        callers::prepare();
        signals::prepare_to_leave();
        raw::tell_calls(super::cancel::calls);
        prepare();
        raw::count_cpu();
        raw::begin_to_look_for_libraries();
        raw::on_call(signals::answer);
        interruptible::prepare();
        raw::on_fault(|signal, info, context| match tripwire::on_fault(info, context) {
            true => None,
            false => signals::faults::handle(signal, info, context),
        });
        raw::on_deadlock(stuck::EXPLAIN);
        signals::failure::begin();
        raw::on_deadly_fault(signals::failure::tell);
        signals::actions::begin();
        signals::raised::begin();
        process::make();
        schedule::note_workers();
        // Full threads wait in epoll sets: a ring would be one more thing to ask, and to fork.
        let config = heddle::Config::new().full_threads(true);
        let started = inherited::starting(|| match environment::workers() {
            Some(count) => config.workers(count).start(),
            None => config.start(),
        });
        let started = match started {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error.to_string()),
            _ => Ok(()),
        };
        process::begin(started.is_ok());
        started
    };
    STARTED.get_or_init(start).as_ref().map(|_| ()).map_err(String::as_str)
}

/// As [`start_runtime`]: workers serve a thread that may use these processors, too.
fn start_runtime_for(processors: Option<&cpu_set_t>) -> io::Result<()> {
    start_runtime().map_err(io::Error::other)?;
    inherited::begins(processors);
    Ok(())
}

fn report_refusal(error: &io::Error) {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        raw::say::line(format_args!("heddle: threads are kernel threads: {error}"));
        REFUSED_UNTIL.store(raw::now_ns() + ENDING_NS, Relaxed);
    });
}

/// # Safety
/// As `pthread_create`.
unsafe fn create(
    place: *mut pthread_t,
    (wanted, processors): (&Wanted, Option<Box<cpu_set_t>>),
    (start, argument): (Start, *mut c_void),
    origin: &Origin,
) -> io::Result<()> {
    start_runtime_for(processors.as_deref())?;
    let own = crate::calls::mask::own();
    if super::this().is_none() {
        process::masked(own);
    }
    let blocked = wanted.blocked.unwrap_or(own);
    // Starts it, for texts are kept in its table. Kernel threads may do without it.
    if raw::is_native().map_err(io::Error::other)? {
        return Err(io::Error::other("HEDDLE_BACKEND=native asks for them"));
    }
    let schedule = Schedule::inherited(wanted);
    let planned = account::plan(origin, wanted);
    let mut builder = Builder::new().full().stack_size(planned.stack_bytes).group(planned.group);
    builder = builder.known(planned.known);
    let planned_priority = planned.priority.filter(|_| !schedule.is_said());
    if let Some(priority) = schedule.critical().or(planned_priority) {
        builder = builder.priority(priority);
    }
    let describe = |made: raw::Made, me: *const Pthread| {
        // Not before: who makes a thread may leave that for good, by a jump of its handler.
        let living = count_in();
        raw::detach(&made.thread);
        let name = made.thread_pointer as pthread_t;
        // SAFETY: the thread can't run yet; the caller's place.
        unsafe {
            own::set(own::words_of(name), me, planned.kind);
            place.write(name);
        }
        Pthread {
            state: AtomicU32::new(if wanted.is_detached { DETACHED } else { JOINABLE }),
            joined_by: AtomicUsize::new(0),
            name,
            slot: AtomicU32::new(raw::slot(&made.thread)),
            signals: Signals::new(blocked),
            start,
            argument,
            about: Mutex::new(About {
                processors,
                ..About::new(wanted, schedule, made.thread, (made.stack.0, made.readable_bytes))
            }),
            own: Own::default(),
            told_cpu_ns: AtomicU64::new(0),
            born: Cell::new(account::created(&planned, made.stack.1, living)),
        }
    };
    let introduce = |made: &Pthread| {
        registry::enter(made.slot.load(Relaxed), made);
        process::entered(made.signals.blocked());
        debugger::learn(made);
        if schedule.is_said() {
            // SAFETY: the caller's place, written above.
            said::tell_account(unsafe { place.read() }, made);
        }
    };
    // SAFETY: the start function may run there, with what describes the thread.
    let started = unsafe { raw::spawn_described(builder, run, describe, introduce) };
    if let Err(error) = &started {
        // After another error a kernel thread is made.
        if error.kind() == io::ErrorKind::OutOfMemory {
            account::failed(&planned);
        }
    }
    started
}

impl About {
    fn new(
        wanted: &Wanted,
        schedule: Schedule,
        thread: Thread,
        (low, bytes): (*mut u8, usize),
    ) -> Self {
        About {
            thread: Some(thread),
            name: super::identity::inherited_name(),
            stack: (low as usize, bytes),
            guard_bytes: wanted.guard_bytes,
            schedule,
            is_said: schedule.is_said(),
            processors: None,
        }
    }
}

/// First function of a full thread.
unsafe extern "C-unwind" fn run(argument: *mut u8) {
    // SAFETY: it is what `create` described; it lives until this thread ends.
    let me: &'static Pthread = unsafe { &*argument.cast_const().cast() };
    call_start(me);
    end::end(me)
}

/// Calls the start function and keeps its result. Its frame is where a forced unwind ends.
#[inline(never)]
fn call_start(me: &'static Pthread) {
    let marker = 0_u8;
    let base = core::hint::black_box(&raw const marker) as usize;
    me.own.base.set(base);
    account::begins_at(base, &me.born);
    tripwire::begin(me.tripwire(), base);
    // SAFETY: the caller of `pthread_create` gave both for this thread.
    let result = unsafe { (me.start)(me.argument) };
    // What was sent to it in a call that nothing interrupts is handled before it ends.
    signals::answer_if_called();
    me.own.result.set(result);
}
