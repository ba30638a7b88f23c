//! What the kernel keeps for its scheduler of each thread, and tells by the thread's number:
//! processors, policy, niceness, the priority at a disk.
//!
//! For a full thread these calls are answered here, by the C library's functions and by number
//! alike. What has no meaning for a thread that any worker may run (its niceness, its processors)
//! is accepted and told again, and acts on nothing; above all not on the worker. A real-time policy
//! acts in heddle's scheduler, as by `pthread_setschedparam`.
//!
//! Invariant: what is refused, and with which error, is what the kernel refuses; but for
//! privileges, which nothing here takes.
//!
//! # Safety
//! For all exported functions of this file: as the C library's functions of the same name.

use core::ffi::{c_int, c_long, c_uint};
use core::mem::{offset_of, size_of};

use libc::{cpu_set_t, pid_t, sched_param, timespec};

use super::{kept, own_memory};
use crate::errno;
use crate::threads::schedule::{self, Change, Told};
use crate::threads::{self, affinity, inherited};

/// A call's result, or its error number.
type Answer = Result<c_long, c_int>;

/// The kernel's `struct sched_attr`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Attributes {
    bytes: u32,
    policy: u32,
    flags: u64,
    niceness: i32,
    priority: u32,
    runtime_ns: u64,
    deadline_ns: u64,
    period_ns: u64,
    util_min: u32,
    util_max: u32,
}

/// The first version ended here.
const BYTES_MIN: usize = offset_of!(Attributes, util_min);
const BYTES_MAX: usize = 4096;

const RESET_ON_FORK: u64 = 0x01;
const KEEP_POLICY: u64 = 0x08;
const KEEP_PARAMETERS: u64 = 0x10;
const UTIL_CLAMPS: u64 = 0x60;
/// These, and three that are about deadlines.
const KNOWN_FLAGS: u64 = 0x7f;

const IOPRIO_WHO_PROCESS: usize = 1;
const IOPRIO_CLASS_SHIFT: u32 = 13;
const IOPRIO_CLASS_MAX: u32 = 3;
/// How long a thread of `SCHED_RR` runs before its equals, unless the system says otherwise.
const ROUND: timespec = timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// Whether `tid` is the number of a full thread, or stands for the caller, who is one.
fn is_full(tid: pid_t) -> bool {
    threads::is_number(tid) || (tid == 0 && kept::has_none())
}

/// As a system call says it.
fn tell(answer: Answer) -> c_long {
    answer.unwrap_or_else(|number| {
        errno::set(number);
        -1
    })
}

/// 0 or an error number; no number: no such thread.
fn done(error: Option<c_int>) -> Answer {
    match error {
        Some(0) => Ok(0),
        Some(number) => Err(number),
        None => Err(libc::ESRCH),
    }
}

/// What the kernel would answer; `None`: it is the kernel's to answer.
pub fn by_number(number: c_long, arguments: [usize; 6]) -> Option<c_long> {
    let answered = answer(number, arguments)?;
    Some(tell(match number {
        // A system call's result is never negative.
        libc::SYS_getpriority => answered.map(|niceness| 20 - niceness),
        _ => answered,
    }))
}

/// As the C library's functions have it.
fn answer(number: c_long, [a, b, c, d, ..]: [usize; 6]) -> Option<Answer> {
    let is_of_disk = matches!(number, libc::SYS_ioprio_set | libc::SYS_ioprio_get);
    let is_of_kind = is_of_disk || matches!(number, libc::SYS_getpriority | libc::SYS_setpriority);
    if is_of_kind && a != if is_of_disk { IOPRIO_WHO_PROCESS } else { libc::PRIO_PROCESS as usize }
    {
        may_change(number, a, b);
        return None;
    }
    let tid = if is_of_kind { b } else { a } as pid_t;
    if !is_full(tid) {
        may_change(number, a, b);
        return None;
    }
    let tid = tid as u32;
    Some(match number {
        libc::SYS_sched_setaffinity => {
            done(threads::with_number(tid, |it| affinity::set(it, b, c as *const _)))
        }
        libc::SYS_sched_getaffinity => {
            // SAFETY: the kernel says whether it is a place.
            let got = threads::with_number(tid, |it| unsafe { affinity::get(it, b, c as *mut _) });
            got.unwrap_or(Err(libc::ESRCH)).map(|bytes| bytes as c_long)
        }
        libc::SYS_sched_setscheduler => set_policy(tid, Some(b as c_int), c as *const _),
        libc::SYS_sched_setparam => set_policy(tid, None, b as *const _),
        libc::SYS_sched_getscheduler => told(tid).map(|it| c_long::from(it.policy)),
        libc::SYS_sched_getparam => get_parameter(tid, b as *mut _),
        libc::SYS_sched_rr_get_interval => get_interval(tid, b as *mut _),
        libc::SYS_sched_setattr => set_attributes(tid, b as *const _, c),
        libc::SYS_sched_getattr => get_attributes(tid, b as *mut _, c, d),
        libc::SYS_setpriority => {
            let niceness = Some(c as c_int);
            done(Some(schedule::change_number(tid, Change { niceness, ..Change::default() })))
        }
        libc::SYS_getpriority => told(tid).map(|it| c_long::from(niceness(&it))),
        libc::SYS_ioprio_set => set_disk_priority(tid, c as u32),
        libc::SYS_ioprio_get => told(tid).map(|it| {
            let given = it.disk_priority.map(c_int::from).or_else(inherited::disk_priority_before);
            // SAFETY: no pointers.
            let of_process = || disk_priority_of(unsafe { libc::getpid() });
            c_long::from(given.unwrap_or_else(of_process))
        }),
        _ => return None,
    })
}

/// Whether a call changes what a kernel thread of the program has, if it is answered by the kernel.
fn is_change(number: c_long, first: usize, second: usize) -> bool {
    let tid = match number {
        libc::SYS_sched_setaffinity
        | libc::SYS_sched_setscheduler
        | libc::SYS_sched_setparam
        | libc::SYS_sched_setattr => first,
        libc::SYS_setpriority if first == libc::PRIO_PROCESS as usize => second,
        libc::SYS_ioprio_set if first == IOPRIO_WHO_PROCESS => second,
        // Those of a group, or a user.
        libc::SYS_setpriority | libc::SYS_ioprio_set => 0,
        _ => return false,
    };
    let (tid, process) = (tid as pid_t, std::process::id() as pid_t);
    // SAFETY: no pointers; the signal is none.
    let is_of_process = || unsafe { libc::syscall(libc::SYS_tgkill, process, tid, 0) == 0 };
    tid == 0 || tid == process || errno::kept(is_of_process)
}

/// Before the kernel answers a call.
fn may_change(number: c_long, first: usize, second: usize) {
    if is_change(number, first, second) {
        inherited::may_change();
    }
}

/// After the kernel has answered a call.
pub fn after(number: c_long, [first, second, ..]: [usize; 6], result: c_long) {
    if result != 0 || !is_change(number, first, second) {
        return;
    }
    match number {
        libc::SYS_sched_setscheduler => inherited::changed(Some(second as c_int)),
        libc::SYS_sched_setattr => match attributes_of(second as *const _) {
            Some(wanted) if wanted.flags & KEEP_POLICY == 0 => {
                inherited::changed(Some(wanted.policy as c_int));
            }
            _ => inherited::changed_priority(),
        },
        libc::SYS_sched_setparam => inherited::changed_priority(),
        _ => inherited::changed(None),
    }
}

/// What of it every version of the structure has; `None`: it is no place.
fn attributes_of(place: *const Attributes) -> Option<Attributes> {
    let mut attributes = Attributes::default();
    // SAFETY: plain numbers; the first bytes of a place of ours.
    let bytes = unsafe { core::slice::from_raw_parts_mut((&raw mut attributes).cast(), BYTES_MIN) };
    own_memory::read_bytes(place.cast(), bytes).ok().map(|()| attributes)
}

/// The priority at a disk of a task of the kernel's, or the calling one (0); below 0: not known.
pub fn disk_priority_of(task: pid_t) -> c_int {
    // SAFETY: no pointers.
    unsafe { libc::syscall(libc::SYS_ioprio_get, IOPRIO_WHO_PROCESS, task) as c_int }
}

/// Gives a task of the kernel's, or the calling one (0), a priority at a disk, if it may have it.
pub fn give_disk_priority(task: pid_t, priority: u16) {
    let priority = usize::from(priority);
    // SAFETY: no pointers.
    unsafe { libc::syscall(libc::SYS_ioprio_set, IOPRIO_WHO_PROCESS, task, priority) };
}

/// Writes the processors of the process to `set`, and says how many bytes the kernel has of them.
///
/// # Errors
/// The kernel's, for a size that is too small or a place that is none.
///
/// # Safety
/// 1. As of the system call.
pub unsafe fn processors_of_process(bytes: usize, set: *mut cpu_set_t) -> Result<usize, c_int> {
    // SAFETY: by 1.
    let known = unsafe { libc::syscall(libc::SYS_sched_getaffinity, libc::getpid(), bytes, set) };
    usize::try_from(known).map_err(|_| errno::get())
}

fn told(tid: u32) -> Result<Told, c_int> {
    schedule::of_number(tid).ok_or(libc::ESRCH)
}

/// What it was given, or the process's.
fn niceness(told: &Told) -> c_int {
    // SAFETY: no pointers.
    let of_process = || unsafe { libc::getpriority(libc::PRIO_PROCESS, libc::getpid() as u32) };
    told.niceness.or_else(inherited::niceness_before).unwrap_or_else(of_process)
}

fn set_policy(tid: u32, policy: Option<c_int>, place: *const sched_param) -> Answer {
    if place.is_null() || policy.is_some_and(|it| it < 0) {
        return Err(libc::EINVAL);
    }
    let priority = Some(own_memory::read(place)?.sched_priority);
    done(Some(schedule::change_number(tid, Change { policy, priority, niceness: None })))
}

fn get_parameter(tid: u32, place: *mut sched_param) -> Answer {
    if place.is_null() {
        return Err(libc::EINVAL);
    }
    let sched_priority = told(tid)?.priority;
    own_memory::write(place, sched_param { sched_priority })?;
    Ok(0)
}

fn get_interval(tid: u32, place: *mut timespec) -> Answer {
    let slice = match told(tid)?.policy & !libc::SCHED_RESET_ON_FORK {
        libc::SCHED_RR => ROUND,
        libc::SCHED_FIFO => timespec { tv_sec: 0, tv_nsec: 0 },
        // SAFETY: the kernel says whether it is a place.
        _ => match unsafe { libc::syscall(libc::SYS_sched_rr_get_interval, libc::getpid(), place) }
        {
            0 => return Ok(0),
            _ => return Err(errno::get()),
        },
    };
    own_memory::write(place, slice)?;
    Ok(0)
}

/// Reads what is at `place`; what this does not know has to be 0. Too small or too large: the
/// caller's place is told what fits.
fn attributes_at(place: *const Attributes) -> Result<Attributes, c_int> {
    let refuse = |_| {
        // Whether it could be told or not.
        let _ = own_memory::write(place.cast_mut().cast::<u32>(), size_of::<Attributes>() as u32);
        Err(libc::E2BIG)
    };
    let bytes = match own_memory::read(place.cast::<u32>())? as usize {
        0 => BYTES_MIN,
        bytes @ BYTES_MIN..=BYTES_MAX => bytes,
        _ => return refuse(()),
    };
    let mut all = [0_u8; BYTES_MAX];
    own_memory::read_bytes(place.cast(), &mut all[..bytes])?;
    if all[size_of::<Attributes>()..].iter().any(|&byte| byte != 0) {
        return refuse(());
    }
    // SAFETY: any bytes are valid; there are as many.
    let mut attributes = unsafe { all.as_ptr().cast::<Attributes>().read_unaligned() };
    attributes.bytes = bytes as u32;
    Ok(attributes)
}

fn set_attributes(tid: u32, place: *const Attributes, flags: usize) -> Answer {
    if place.is_null() || flags != 0 {
        return Err(libc::EINVAL);
    }
    let wanted = attributes_at(place)?;
    let has = |flags: u64| wanted.flags & flags != 0;
    let clamps_fit = wanted.bytes as usize == size_of::<Attributes>();
    if (wanted.policy as i32) < 0
        || wanted.flags & !KNOWN_FLAGS != 0
        || has(UTIL_CLAMPS) && !clamps_fit
    {
        return Err(libc::EINVAL);
    }
    if has(UTIL_CLAMPS) && !are_clamps_known() {
        return Err(libc::EOPNOTSUPP);
    }
    if wanted.policy as c_int == libc::SCHED_DEADLINE && !has(KEEP_POLICY) {
        return Err(libc::EPERM);
    }
    let reset = if has(RESET_ON_FORK) { libc::SCHED_RESET_ON_FORK } else { 0 };
    let policy = (!has(KEEP_POLICY)).then_some(wanted.policy as c_int | reset);
    let comes = policy.map_or_else(|| told(tid).map(|it| it.policy), Ok)?;
    let is_nice = !matches!(
        comes & !libc::SCHED_RESET_ON_FORK,
        libc::SCHED_FIFO | libc::SCHED_RR | libc::SCHED_IDLE
    );
    let change = Change {
        policy,
        priority: (!has(KEEP_PARAMETERS)).then_some(wanted.priority as c_int),
        niceness: (is_nice && !has(KEEP_PARAMETERS)).then_some(wanted.niceness),
    };
    done(Some(schedule::change_number(tid, change)))
}

/// Whether this kernel has clamps of utilisation, which act on nothing here.
fn are_clamps_known() -> bool {
    let mut of_process = Attributes::default();
    let bytes = size_of::<Attributes>();
    // SAFETY: a place of that size.
    let failed = errno::kept(|| unsafe {
        libc::syscall(libc::SYS_sched_getattr, libc::getpid(), &raw mut of_process, bytes, 0) != 0
    });
    !failed && of_process.util_max != 0
}

fn get_attributes(tid: u32, place: *mut Attributes, bytes: usize, flags: usize) -> Answer {
    // SAFETY: the kernel says whether it is a place, and for what.
    let result = unsafe {
        libc::syscall(libc::SYS_sched_getattr, libc::getpid(), place, bytes as c_uint, flags)
    };
    if result != 0 {
        return Err(errno::get());
    }
    let told = told(tid)?;
    let is_fair = told.priority == 0;
    let policy = (told.policy & !libc::SCHED_RESET_ON_FORK) as u32;
    let flags = if told.policy & libc::SCHED_RESET_ON_FORK != 0 { RESET_ON_FORK } else { 0 };
    // SAFETY: the kernel has written so much there.
    unsafe {
        (&raw mut (*place).policy).write_unaligned(policy);
        (&raw mut (*place).flags).write_unaligned(flags);
        let niceness = if is_fair { niceness(&told) } else { 0 };
        (&raw mut (*place).niceness).write_unaligned(niceness);
        (&raw mut (*place).priority).write_unaligned(told.priority as u32);
        if !is_fair {
            (&raw mut (*place).runtime_ns).write_unaligned(0);
        }
    }
    Ok(0)
}

fn set_disk_priority(tid: u32, priority: u32) -> Answer {
    let (class, level) = (priority >> IOPRIO_CLASS_SHIFT, priority & 7);
    if class > IOPRIO_CLASS_MAX || class == 0 && level != 0 {
        return Err(libc::EINVAL);
    }
    schedule::set_disk_priority(tid, priority as u16).ok_or(libc::ESRCH)?;
    Ok(0)
}

// ---- the C library's functions

#[unsafe(no_mangle)]
unsafe extern "C" fn heddle_user_sched_setaffinity(
    tid: pid_t,
    bytes: usize,
    processors: *const cpu_set_t,
) -> c_int {
    let words = [tid as usize, bytes, processors as usize, 0, 0, 0];
    match answer(libc::SYS_sched_setaffinity, words) {
        Some(answer) => tell(answer) as c_int,
        None => {
            // SAFETY: the caller's set.
            let result = unsafe { libc::sched_setaffinity(tid, bytes, processors) };
            after(libc::SYS_sched_setaffinity, words, result.into());
            result
        }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn heddle_user_sched_getaffinity(
    tid: pid_t,
    bytes: usize,
    processors: *mut cpu_set_t,
) -> c_int {
    match answer(libc::SYS_sched_getaffinity, [tid as usize, bytes, processors as usize, 0, 0, 0]) {
        Some(Ok(known)) => {
            // SAFETY: the caller's place, of which the kernel knows so much.
            unsafe { affinity::clear_behind(known as usize, bytes, processors) };
            0
        }
        Some(answer) => tell(answer) as c_int,
        // SAFETY: the caller's place.
        None => unsafe { libc::sched_getaffinity(tid, bytes, processors) },
    }
}

/// Defines exported functions that are system calls of the same arguments; `real` makes the call
/// where it is the kernel's.
macro_rules! calls {
    ($($name:ident: $number:ident, $real:expr => ($($argument:ident: $type:ty),*);)+) => { $(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name($($argument: $type),*) -> c_int {
            let mut words = [0; 6];
            for (word, given) in words.iter_mut().zip([$($argument as usize),*]) {
                *word = given;
            }
            match answer(libc::$number, words) {
                Some(answer) => tell(answer) as c_int,
                None => {
                    // SAFETY: the caller's arguments.
                    let result = unsafe { $real($($argument),*) };
                    after(libc::$number, words, result.into());
                    result
                }
            }
        }
    )+ };
}

calls! {
    heddle_user_sched_setscheduler: SYS_sched_setscheduler, libc::sched_setscheduler
        => (tid: pid_t, policy: c_int, param: *const sched_param);
    heddle_user_sched_setparam: SYS_sched_setparam, libc::sched_setparam
        => (tid: pid_t, param: *const sched_param);
    heddle_user_sched_getscheduler: SYS_sched_getscheduler, libc::sched_getscheduler
        => (tid: pid_t);
    heddle_user_sched_getparam: SYS_sched_getparam, libc::sched_getparam
        => (tid: pid_t, param: *mut sched_param);
    heddle_user_sched_rr_get_interval: SYS_sched_rr_get_interval, libc::sched_rr_get_interval
        => (tid: pid_t, slice: *mut timespec);
    heddle_user_sched_setattr: SYS_sched_setattr, kernels_setattr
        => (tid: pid_t, attributes: *mut Attributes, flags: c_uint);
    heddle_user_sched_getattr: SYS_sched_getattr, kernels_getattr
        => (tid: pid_t, attributes: *mut Attributes, bytes: c_uint, flags: c_uint);
    heddle_user_setpriority: SYS_setpriority, libc::setpriority
        => (kind: c_uint, who: libc::id_t, niceness: c_int);
    heddle_user_getpriority: SYS_getpriority, libc::getpriority
        => (kind: c_uint, who: libc::id_t);
}

/// Older C libraries have no function of this name; so have programs that bring their own.
unsafe fn kernels_setattr(tid: pid_t, attributes: *mut Attributes, flags: c_uint) -> c_int {
    // SAFETY: the caller's arguments.
    unsafe { libc::syscall(libc::SYS_sched_setattr, tid, attributes, flags) as c_int }
}

/// As [`kernels_setattr`].
unsafe fn kernels_getattr(
    tid: pid_t,
    attributes: *mut Attributes,
    bytes: c_uint,
    flags: c_uint,
) -> c_int {
    // SAFETY: the caller's arguments.
    unsafe { libc::syscall(libc::SYS_sched_getattr, tid, attributes, bytes, flags) as c_int }
}

/// Of a full thread.
#[unsafe(no_mangle)]
extern "C" fn heddle_user_nice(more: c_int) -> c_int {
    if !kept::has_none() {
        inherited::may_change();
        // SAFETY: no pointers.
        let niceness = unsafe { libc::nice(more) };
        // One above that of 0 is told as a failure is.
        if niceness != -1 {
            inherited::changed(None);
        }
        return niceness;
    }
    let changed = told(0).and_then(|it| {
        let niceness = Some(niceness(&it).saturating_add(more));
        done(Some(schedule::change_number(0, Change { niceness, ..Change::default() })))?;
        told(0)
    });
    tell(changed.map(|it| c_long::from(niceness(&it)))) as c_int
}
