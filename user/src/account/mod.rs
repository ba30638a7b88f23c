//! What is known of the kinds of full threads, and the account of what they did.
//!
//! The plan of `heddle run`, what tells kinds apart, and the account itself are libheddle-preload's
//! ([`host`]); here is what is remembered per kind, so that making a thread costs two short looks.
//!
//! All stacks are measured. As soon as a thread has ended its stack is measured if it was one of
//! the first of its kind, one in some of the later ones, or of a kind whose threads live so long
//! that it does not count. The others are measured later, for the whole kind (`stack/owed.rs` of
//! the runtime): of these a process that is killed tells nothing. Who crosses the border of the
//! High zone is told of where that is asked for (`tripwire.rs`).
//!
//! Invariant: the library behind is called with the worker pinned: its locks are waited for in the
//! kernel, so no holder may be left for another thread.

mod host;
pub mod tripwire;

use core::cell::Cell;
use core::ffi::{c_char, c_int, c_void};
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicUsize};
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use heddle::raw::{self, Known, Observer};
use heddle::thread::Thread;
use heddle::{Category, Group};
use libc::{pthread_attr_t, pthread_t};

use crate::environment;
use crate::threads::attributes::{EXTRA_BYTES, Wanted, extra_bytes};
use crate::threads::said::Attributes;
use crate::threads::{Start, identity, own};
use host::{Birth, Host};

/// Threads of a kind that are measured at once, first.
const MEASURED_FIRST: u32 = 16;
/// After that one in so many is: a measured one costs some 1 us more.
const MEASURED_THEN: u32 = 64;
/// To measure costs a hundredth of such a life.
const LONG_LIFE_NS: u64 = 200_000;
/// What a stack is that the tuner chose is no less than this, our part and the C library's included
/// (`TUNED_MIN` of libheddle-preload); they are taken off, as the builder adds them.
const TUNED_BYTES_MIN: usize = 64 << 10;
/// Kinds, at most, and one for "none".
const KINDS_MAX: usize = 2048 + 1;
const PAGE: usize = 4096;

/// What the program called to make a thread.
pub struct Origin {
    pub start: usize,
    pub argument: *mut c_void,
    /// The address behind the call.
    pub site: usize,
}

/// How a thread is to be made.
pub struct Planned {
    pub kind: u32,
    pub known: Known,
    /// By policy, `None`: lazy.
    pub priority: Option<u8>,
    pub group: Group,
    /// For the runtime's builder.
    pub stack_bytes: usize,
    birth: Birth,
}

/// How a thread was made.
#[derive(Clone, Copy, Default)]
pub struct Born {
    birth: Birth,
    is_measured: bool,
    /// When its start function was called, if it is measured.
    at_ns: u64,
}

/// A kind, as far as it was asked for.
struct Kind {
    is_known: AtomicBool,
    role: AtomicU32,
    start: AtomicU32,
    /// 0: lazy.
    priority: AtomicU32,
    group: AtomicU32,
    category: AtomicU32,
    /// What the tuner gives to threads of default size, and to others; 0 = nothing.
    stack: [AtomicU32; 2],
    started: AtomicU32,
    is_long: AtomicBool,
    is_by_name: AtomicBool,
}

static KINDS: [Kind; KINDS_MAX] = [const {
    Kind {
        is_known: AtomicBool::new(false),
        role: AtomicU32::new(0),
        start: AtomicU32::new(0),
        priority: AtomicU32::new(0),
        group: AtomicU32::new(Group::Normal as u32),
        category: AtomicU32::new(Category::None as u32),
        stack: [const { AtomicU32::new(0) }; 2],
        started: AtomicU32::new(0),
        is_long: AtomicBool::new(false),
        is_by_name: AtomicBool::new(false),
    }
}; KINDS_MAX];

static HOST: AtomicPtr<Host> = AtomicPtr::new(core::ptr::null_mut());

fn host() -> Option<&'static Host> {
    // SAFETY: null or the library's, which is never unloaded.
    // ORDER: Acquire pairs with `begin`.
    unsafe { HOST.load(Acquire).as_ref() }
}

/// An address in the code of the library that keeps the account, if it is loaded.
pub fn code_of_library() -> Option<usize> {
    Host::find().map(Host::code)
}

/// The account is opened before the runtime's table takes the name of the one that the library has
/// made: whichever thread waits first makes that, one of the C library's own, too.
pub fn arrange() {
    // Now, as that one may wait in the middle of the allocator, or where another is in the loader.
    if Host::find().is_none() {
        // SAFETY: takes nothing. It is no failure of the program's.
        unsafe { libc::dlerror() };
    }
    raw::before_table(begin);
}

/// Opens the account. Kernel threads that start in this library's code are none of the program's.
fn begin() {
    static HAS_BEGUN: AtomicBool = AtomicBool::new(false);
    let (Some(host), Some((low, high))) = (Host::find(), environment::own_text()) else { return };
    // The table is tried again where there was no room for it.
    if HAS_BEGUN.swap(true, Relaxed) {
        return;
    }
    // SAFETY: the library's function; `at_the_end` may be called by any thread.
    let has_account = unsafe { (host.begin)(low, high, at_the_end) } != 0;
    if has_account && (host.kinds as usize) < KINDS_MAX {
        raw::observe(&OBSERVER);
        // ORDER: Release, though all of it was there before.
        HOST.store(core::ptr::from_ref(host).cast_mut(), Release);
    }
}

/// `pthread_create` of a kernel thread that runs `call`, if there is an account for it, as one of
/// the kind that the program's call has.
///
/// # Safety
/// As `pthread_create`.
pub unsafe fn create_kernel_thread(
    thread: *mut pthread_t,
    attr: *const pthread_attr_t,
    (start, argument): (Start, *mut c_void),
    origin: &Origin,
) -> Option<c_int> {
    let host = Host::find()?;
    let call = host::Call {
        start: origin.start,
        argument: origin.argument,
        site: origin.site,
        run: start,
        run_argument: argument,
    };
    // SAFETY: passed on.
    Some(unsafe { (host.create)(thread, attr, &call) })
}

static OBSERVER: Observer = Observer { measured, lives, overflowed };

/// Whose thread pointer this is.
fn kind_at(thread_pointer: *mut u8) -> u32 {
    // SAFETY: a full thread's, whose words are there as the observer promises.
    unsafe { (*own::words_of(thread_pointer as pthread_t)).kind.load(Relaxed) }
}

/// What lies above the start function's call: peaks count from there, as a kernel thread's do.
static FRAMES_BYTES: AtomicUsize = AtomicUsize::new(0);

/// The calling thread's start function is about to be called, from this address on.
///
/// Its life is counted from here: a thread that waited for a worker has not lived long by that.
#[inline]
pub fn begins_at(base: usize, born: &Cell<Born>) {
    if born.get().is_measured {
        born.set(Born { at_ns: raw::now_ns(), ..born.get() });
    }
    if FRAMES_BYTES.load(Relaxed) == 0
        && let Some((low, bytes)) = raw::stack_bounds()
    {
        FRAMES_BYTES.store(low as usize + bytes - base, Relaxed);
    }
}

fn measured(kind: u16, peak: usize) {
    let (kind, peak) = (u32::from(kind), peak.saturating_sub(FRAMES_BYTES.load(Relaxed)));
    if let Some(host) = host() {
        let resident = peak.next_multiple_of(PAGE) as u64;
        let _pin = raw::pin();
        // SAFETY: the library's function.
        unsafe { (host.measured)(kind, peak as u64, resident) };
    }
}

/// At the end of the process, of a thread that was not told as ended.
fn lives(thread_pointer: *mut u8, cpu_ns: u64) {
    // SAFETY: a full thread's, whose words are there as the observer promises.
    let has_ended = unsafe { (*own::words_of(thread_pointer as pthread_t)).has_ended() };
    let kind = kind_at(thread_pointer);
    if let Some(host) = host().filter(|_| kind != 0 && !has_ended) {
        let _pin = raw::pin();
        // SAFETY: the library's function.
        unsafe { (host.used)(kind, cpu_ns) };
    }
}

fn overflowed(thread_pointer: *mut u8, usable: usize) -> &'static str {
    let kind = kind_at(thread_pointer);
    let Some(host) = host().filter(|_| kind != 0) else { return "" };
    // SAFETY: the library's function for signal handlers.
    unsafe { (host.overflowed)(kind, usable.saturating_sub(FRAMES_BYTES.load(Relaxed)) as u64) };
    match KINDS[kind as usize].stack[0].load(Relaxed) {
        0 => "The program asked for no more.",
        _ => "heddle had chosen that size: the next run gives it at least twice as much.",
    }
}

/// The process is about to end, or to become another program.
extern "C" fn at_the_end() {
    let _pin = raw::pin();
    raw::tell_living();
}

/// What the account knows of a thread that is to be made.
pub fn plan(origin: &Origin, wanted: &Wanted) -> Planned {
    let Some(host) = host() else { return without_account(origin, wanted) };
    let pinned = raw::pin();
    // SAFETY: the library's functions; the argument is looked at as far as it can be read.
    let (number, usual) = unsafe {
        ((host.kind)(origin.start, origin.argument, origin.site), (host.default_stack)())
    };
    drop(pinned);
    let asked = wanted.asked_bytes.unwrap_or(usual);
    let is_explicit = asked != usual;
    let kind = &KINDS[number as usize];
    // ORDER: Acquire pairs with `learn`.
    if number == 0 || !kind.is_known.load(Acquire) {
        learn(host, number, origin.start);
    }
    let tuned = kind.stack[usize::from(is_explicit)].load(Relaxed) as usize;
    let mut flags = if is_explicit { host::EXPLICIT } else { 0 };
    flags |= if tuned != 0 { host::TUNED } else { 0 };
    Planned {
        kind: number,
        known: Known {
            role: kind.role.load(Relaxed) as u16,
            start: kind.start.load(Relaxed),
            category: Category::from_raw(kind.category.load(Relaxed) as u8)
                .unwrap_or(Category::None),
            // Numbers are below `KINDS_MAX`.
            kind: number as u16,
            may_change: kind.is_by_name.load(Relaxed),
            measured: number != 0 && is_chosen(kind),
        },
        priority: u8::try_from(kind.priority.load(Relaxed)).ok().filter(|&it| it != 0),
        group: Group::from_raw(kind.group.load(Relaxed) as u8).unwrap_or(Group::Normal),
        stack_bytes: if tuned != 0 { tuned } else { wanted.stack_bytes() },
        birth: Birth { asked, given: asked, flags },
    }
}

fn is_chosen(kind: &Kind) -> bool {
    let before = kind.started.fetch_add(1, Relaxed);
    let is_due = before < MEASURED_FIRST || before.is_multiple_of(MEASURED_THEN);
    is_due || kind.is_long.load(Relaxed)
}

/// Remembers what the library knows of a kind. Any number of threads may do so at once: they all
/// learn the same.
#[cold]
fn learn(host: &Host, number: u32, start: usize) {
    let kind = &KINDS[number as usize];
    let pinned = raw::pin();
    for (index, flags) in [0, host::EXPLICIT].into_iter().enumerate() {
        let said = host.describe(number, flags);
        let is_forced = said.flags & host::FORCED != 0;
        let bytes = match said.stack_bytes as usize {
            0 => 0,
            bytes if is_forced => bytes,
            // What a signal needs more on some processors is part of the reserve.
            bytes => (bytes + EXTRA_BYTES).max(TUNED_BYTES_MIN) - extra_bytes(),
        };
        kind.stack[index].store(bytes as u32, Relaxed);
    }
    let said = host.describe(number, 0);
    drop(pinned);
    kind.is_by_name.store(said.flags & host::BY_NAME != 0, Relaxed);
    let role = said.role().unwrap_or_else(|| identity::describe(start));
    kind.role.store(raw::intern_role(&role).into(), Relaxed);
    kind.start.store(said.start().map_or(0, |text| raw::intern(&text)), Relaxed);
    kind.priority.store(u32::from(said.class) * u32::from(said.priority), Relaxed);
    kind.group.store(said.group.into(), Relaxed);
    kind.category.store(said.category.into(), Relaxed);
    // ORDER: Release publishes what was learned.
    kind.is_known.store(true, Release);
}

/// Without the other library the role is the start function's name, and all else as asked for.
fn without_account(origin: &Origin, wanted: &Wanted) -> Planned {
    static ROLES: Mutex<BTreeMap<usize, u16>> = Mutex::new(BTreeMap::new());
    // Whoever waits for the lock does so in the kernel, so its holder is pinned; and looks for no
    // name: the loader's lock may belong to a thread that comes here next, from a constructor.
    let roles = || ROLES.lock().unwrap_or_else(PoisonError::into_inner);
    let pinned = raw::pin();
    let known = roles().get(&origin.start).copied();
    drop(pinned);
    let role = known.unwrap_or_else(|| {
        let role = raw::intern_role(&identity::describe(origin.start));
        let _pin = raw::pin();
        roles().insert(origin.start, role);
        role
    });
    Planned {
        kind: 0,
        known: Known { role, ..Known::default() },
        priority: None,
        group: Group::Normal,
        stack_bytes: wanted.stack_bytes(),
        birth: Birth::default(),
    }
}

/// A thread has a stack of so many bytes above its guard page, and is about to begin.
pub fn created(planned: &Planned, stack_bytes: usize, living: u32) -> Born {
    let birth = Birth { given: stack_bytes + PAGE, ..planned.birth };
    if let Some(host) = host().filter(|_| planned.kind != 0) {
        let _pin = raw::pin();
        // SAFETY: a valid place.
        unsafe { (host.created)(planned.kind, &birth, living) };
    }
    Born { birth, is_measured: planned.known.measured, at_ns: 0 }
}

/// No thread came of it.
pub fn failed(planned: &Planned) {
    if let Some(host) = host().filter(|_| planned.kind != 0) {
        let _pin = raw::pin();
        // SAFETY: a valid place.
        unsafe { (host.failed)(planned.kind, &planned.birth) };
    }
}

/// The calling thread, of this kind by now, ends.
pub fn ended(kind: u32, born: &Born) {
    let Some(host) = host().filter(|_| kind != 0) else { return };
    let _pin = raw::pin();
    if born.at_ns != 0 {
        let is_long = raw::now_ns() - born.at_ns >= LONG_LIFE_NS;
        KINDS[kind as usize].is_long.store(is_long, Relaxed);
    }
    // SAFETY: the library's function.
    unsafe { (host.ended)(kind, born.birth.given, raw::own_cpu_ns()) };
}

/// The program has said what a thread of this kind is for.
pub fn said(kind: u32, attributes: &Attributes) {
    if let Some(host) = host().filter(|_| kind != 0) {
        let _pin = raw::pin();
        // SAFETY: a valid place.
        unsafe { (host.said)(kind, attributes) };
    }
}

/// What a rule of the policy says of threads with some name.
pub struct Ruled(host::Kind);

impl Ruled {
    /// `said` is the priority by the program's own word, which goes before the policy's.
    pub fn apply(&self, thread: &Thread, said: Option<u8>) {
        if let Some(role) = self.0.role() {
            thread.set_role(&role);
        }
        thread.set_group(Group::from_raw(self.0.group).unwrap_or(Group::Normal));
        thread.set_category(Category::from_raw(self.0.category).unwrap_or(Category::None));
        if said.is_none() {
            let priority = Some(self.0.priority).filter(|&it| it != 0 && self.0.class != 0);
            // The library has checked it.
            let _ = thread.set_priority(priority);
        }
    }
}

/// A thread got a name. `kind` is the word that says of which kind it is.
///
/// # Safety
/// 1. `name` is a text.
pub unsafe fn named(
    thread: &Thread,
    kind: &AtomicU32,
    name: *const c_char,
    born: &Born,
) -> Option<Ruled> {
    let number = kind.load(Relaxed);
    let host = host().filter(|_| number != 0)?;
    let _pin = raw::pin();
    // SAFETY: by 1.
    let (moved, ruled) = unsafe { host.named(number, name, &born.birth) };
    kind.store(moved, Relaxed);
    raw::set_kind(thread, moved as u16);
    ruled.map(Ruled)
}
