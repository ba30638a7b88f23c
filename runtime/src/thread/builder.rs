//! The builder: what a thread is for, how urgent, how large its stack — said once, kept in its
//! record.

use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::Relaxed;
use std::io;
use std::sync::OnceLock;

use heddle_record::{Category, Class, Fields, Group, Kind as RecordKind, State, Zone};

use super::handle::{JoinHandle, Thread};
use super::packet;
use crate::control::{Control, HIBERNATES, Kind};
use crate::error::exhausted;
use crate::runtime;
use crate::stack::{self, CLASS_BYTES};
use crate::sys::{clock, libc_tls, memory, policy};
use crate::{full, handed, preempt, sanitizer, sched, table};

/// Configures a thread before it starts; std's `Builder` with what TEK adds.
///
/// ```
/// use heddle::thread::Builder;
/// let thread = Builder::new().role("gas detection").spawn(|| 6 * 7).unwrap();
/// assert_eq!(thread.join().unwrap(), 42);
/// ```
#[derive(Debug, Default, Clone)]
#[must_use = "a builder does nothing before spawn"]
pub struct Builder {
    name: Option<String>,
    role: Option<String>,
    stack_size: Option<usize>,
    critical: bool,
    priority: Option<u8>,
    group: Option<Group>,
    hibernate: bool,
    full: bool,
    known: Option<Known>,
}

/// What a layer above knows beforehand of a thread that it makes: nothing is looked up for it, no
/// policy is asked, and the layer chooses whose stacks are measured.
#[derive(Clone, Copy, Debug, Default)]
pub struct Known {
    /// Its role's number ([`crate::raw::intern_role`]), 0 = none.
    pub role: u16,
    /// What starts it, as the record has it ([`crate::raw::intern`]), 0 = unknown.
    pub start: u32,
    /// What it does in a GUI.
    pub category: Category,
    /// Of which kind it is, for the account of stacks (`stack/owed.rs`); 0 = none.
    pub kind: u16,
    /// Whether it gets a stack that none of its kind has used, either: its kind may change.
    pub may_change: bool,
    /// Whether its stack is measured as soon as it has ended.
    pub measured: bool,
}

/// The priority of a time-critical thread that asks for none.
const PRIORITY_DEFAULT: u8 = 50;

impl Builder {
    /// A lazy thread of the normal group without name and role.
    pub fn new() -> Self {
        Builder::default()
    }

    /// The thread's name.
    pub fn name(mut self, name: String) -> Self {
        self.name = Some(name);
        self
    }

    /// What the thread is for. Stack sizes are learned per role.
    pub fn role(mut self, role: &str) -> Self {
        self.role = Some(role.to_owned());
        self
    }

    /// Bytes of address space for the stack, guard page included; rounded up to a size class
    /// (16 KiB, 64 KiB, 256 KiB, 1 MiB, 8 MiB, 64 MiB). Memory is used as it is touched.
    pub fn stack_size(mut self, bytes: usize) -> Self {
        self.stack_size = Some(bytes);
        self
    }

    /// Time-critical threads run before all lazy ones (TEK's Fast region).
    ///
    /// On the native backend class, priority and group are recorded and shown, but the kernel
    /// schedules: changing its policy is for `heddle run` and its like, not for a comparison.
    pub fn class(mut self, class: Class) -> Self {
        self.critical = class == Class::TimeCritical;
        self
    }

    /// Makes the thread time-critical with this priority, 1 to 99, higher first.
    pub fn priority(mut self, priority: u8) -> Self {
        self.critical = true;
        self.priority = Some(priority);
        self
    }

    /// The scheduling group of a lazy thread; groups share the worker by weight (8:4:2:1).
    pub fn group(mut self, group: Group) -> Self {
        self.group = Some(group);
        self
    }

    /// Lets the runtime copy the thread's live stack out while it is parked, and give the page
    /// back. For threads that wait nearly always; waking one costs 1 to 4 us more. Of each worker
    /// the threads that parked last, 64 at most, keep their pages and wake as fast as any
    /// ([`crate::Config::drowsy`]).
    ///
    /// # Safety
    /// 1. While the thread is parked nobody else uses memory of its stack. [`crate::thread::scope`]
    ///    and [`crate::blocking`] keep to that by themselves (the thread stays awake in them), and
    ///    so does everything that can't borrow; what breaks it is another library's scope, such
    ///    as `std::thread::scope`, around one of heddle's blocking calls.
    pub unsafe fn hibernate(mut self, hibernate: bool) -> Self {
        self.hibernate = hibernate;
        self
    }

    /// Makes a full thread: one with thread-local storage of its own.
    ///
    /// For code that relies on what the C library and the language keep per thread: `errno`,
    /// `std::thread_local!` and C's `thread_local` with their destructors, `pthread_key_create`,
    /// `uselocale`, `pthread_self`, malloc's caches, whether the thread panics. A light thread
    /// shares these with the other light threads of its worker. A full thread costs some 5 KiB
    /// more, at the top of its stack, which is made larger by that, and some nanoseconds a
    /// switch. After many switches it may call `modify_ldt` (x86-64): a program that filters the
    /// system calls of all of its threads has to allow that, or say `HEDDLE_SEGMENTS=off`.
    ///
    /// To the kernel it is no thread: mutexes of the C library that inherit priority or are robust
    /// don't work in it, and `pthread_exit` must not be called.
    ///
    /// It may go on on another worker, that is on another kernel thread, after any call that
    /// waits or yields, and after any instruction when others wait and it has run for longer than
    /// [`crate::Config::slice`]: a signal (SIGURG) makes it yield then, which the program does not
    /// see. Idle workers take ready full threads from busy ones, and from those that are blocked
    /// in the kernel.
    ///
    /// On the native backend every thread is a kernel thread and has all of this.
    ///
    /// ```
    /// use std::cell::Cell;
    /// thread_local! { static MINE: Cell<u32> = const { Cell::new(0) }; }
    /// let thread = heddle::thread::Builder::new().full().spawn(|| {
    ///     MINE.set(7);
    ///     heddle::thread::yield_now();
    ///     MINE.get()
    /// });
    /// match thread {
    ///     Ok(thread) => assert_eq!(thread.join().unwrap(), 7),
    ///     Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::Unsupported),
    /// }
    /// ```
    pub fn full(mut self) -> Self {
        self.full = true;
        self
    }

    /// See [`Known`]; goes before [`Builder::role`].
    #[doc(hidden)]
    pub fn known(mut self, known: Known) -> Self {
        self.known = Some(known);
        self
    }

    /// Starts the thread.
    ///
    /// # Errors
    /// `InvalidInput` for a priority or size out of range, or a full thread that is to hibernate;
    /// `OutOfMemory` with a [`crate::Limit`] inside that names what ran out; `Unsupported` for a
    /// full thread where there can't be one (`heddle doctor` says so too); what the kernel says
    /// when the runtime can't start.
    pub fn spawn<F, T>(self, closure: F) -> io::Result<JoinHandle<T>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        // SAFETY: both are 'static.
        unsafe { self.spawn_unchecked(closure) }
    }

    /// As [`Builder::spawn`] for closures that borrow.
    ///
    /// # Safety
    /// 1. The thread ends before anything that `closure` or its result borrows.
    pub(crate) unsafe fn spawn_unchecked<F, T>(self, closure: F) -> io::Result<JoinHandle<T>>
    where
        F: FnOnce() -> T + Send,
        T: Send,
    {
        let runtime = runtime::try_get_or_start()?;
        let this = self.with_policy();
        let priority = this.checked_priority()?;
        if runtime.config.backend == crate::config::Backend::Native {
            // SAFETY: passed on.
            return unsafe { this.spawn_native(priority, closure) };
        }
        let thread = this.make_with(priority)?;
        let result = packet::prepare::<F, T>(thread, closure);
        runtime.place(thread);
        Ok(JoinHandle::user::<F>(thread, result))
    }

    /// What the policy of `heddle run` says of threads with this name, or with this role where
    /// there is no name; the program's own word goes before it.
    fn with_policy(mut self) -> Self {
        if self.known.is_some() {
            return self;
        }
        let name = self.name.as_deref().or(self.role.as_deref());
        if let Some(rule) = name.and_then(policy::rule_of_name) {
            if !self.critical && rule.priority != 0 {
                self = self.priority(rule.priority);
            }
            self.group = self.group.or(Some(rule.group));
            self.role = self.role.or(rule.role);
        }
        self
    }

    /// As asked, else as the runtime's configuration has it for all.
    #[inline]
    fn is_full(&self) -> bool {
        let for_all = || runtime::get().is_some_and(|runtime| runtime.config.full_threads);
        self.full || (!self.hibernate && for_all())
    }

    fn checked_priority(&self) -> io::Result<u8> {
        let priority = match self.priority {
            Some(priority) if (1..=99).contains(&priority) => priority,
            Some(priority) => {
                let text = format!("priority {priority}: must be 1 to 99");
                return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
            }
            None => PRIORITY_DEFAULT,
        };
        Ok(if self.critical { priority } else { 0 })
    }

    /// A slot with a stack and a record, with two references: the thread's and its handle's.
    pub(crate) fn make(self) -> io::Result<&'static Control> {
        let this = self.with_policy();
        this.make_with(this.checked_priority()?)
    }

    fn make_with(&self, priority: u8) -> io::Result<&'static Control> {
        let role = match self.known {
            Some(known) => known.role,
            None => self.role.as_deref().map_or(0, table::intern_role),
        };
        let kind = self.known.map_or(0, |known| known.kind);
        let full = self.is_full();
        let block_bytes = if full { self.block_bytes()? } else { 0 };
        let class = self.stack_class(role, block_bytes)?;
        let here = full::here();
        let thread = stack::take(here.as_ref().map(|here| &here.cache), class, kind)?;
        let created_ns = here.as_ref().map_or_else(clock::now_ns, |here| here.now.get());
        drop(here);
        sanitizer::reuse(thread.stack.get(), thread.stack_bytes());
        if block_bytes == 0 {
            thread.discard_kept_tls();
        }
        let is_kept = thread.has_kept_tls();
        thread.reset(if full { Kind::Full } else { Kind::Light }, 2);
        thread.priority.store(priority, Relaxed);
        thread.base_priority.store(priority, Relaxed);
        let group = self.group.unwrap_or(Group::Normal);
        thread.group.store(group as u8, Relaxed);
        if self.hibernate {
            thread.flags.set(HIBERNATES);
        }
        if block_bytes != 0 {
            thread.set_own_tls();
        }
        match self.known {
            Some(known) if known.kind != 0 => {
                stack::owed::take(thread, known.kind, known.may_change);
                if known.measured {
                    stack::peak::choose(thread);
                }
            }
            Some(_) => stack::owed::take_unknown(thread.slot()),
            None => {
                stack::owed::take_unknown(thread.slot());
                stack::peak::begin(thread, role);
            }
        }
        if block_bytes != 0 {
            give_block(thread, is_kept)?;
        }
        let record = thread.record();
        record.publish(&Fields {
            generation: record.generation().wrapping_add(1),
            state: State::New,
            kind: if full { RecordKind::Full } else { RecordKind::Light },
            class: if priority == 0 { Class::Lazy } else { Class::TimeCritical },
            priority,
            group,
            category: self.known.map_or(Category::None, |known| known.category),
            zone: Zone::Unknown,
            role,
            start: self.known.map_or(0, |known| known.start),
            stack_size: CLASS_BYTES[class as usize] as u32,
            created_ns,
            name: self.name.as_deref().map_or(0, table::intern),
            worker: heddle_record::layout::WORKER_NONE,
            ..Fields::default()
        });
        Ok(thread)
    }

    /// Bytes of a full thread's block and for a signal, if there can be full threads.
    #[cold]
    fn block_bytes(&self) -> io::Result<usize> {
        if self.hibernate {
            let text = "a full thread can't hibernate: its stack holds its thread-local storage";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        full::expect();
        #[cfg(feature = "sim")]
        if crate::sim::now().is_some() {
            // All of its threads run on one kernel thread, whose storage the driver needs.
            return Ok(0);
        }
        match libc_tls::library() {
            Ok(library) if preempt::missing().is_none() => {
                Ok(library.block_bytes() + preempt::stack_bytes())
            }
            Ok(library) => Ok(library.block_bytes()),
            Err(why) => {
                let text = format!("full threads are not possible here: {why}");
                Err(io::Error::new(io::ErrorKind::Unsupported, text))
            }
        }
    }

    /// The size class: as asked, else as learned for the role, else the default.
    /// `extra` bytes of it are not the thread's to use.
    fn stack_class(&self, role: u16, extra: usize) -> io::Result<u8> {
        let bytes = match self.stack_size {
            Some(bytes) => bytes.saturating_add(extra),
            None => stack::peak::learned_bytes(role, extra).unwrap_or(stack::DEFAULT_BYTES),
        };
        stack::class_for(bytes).ok_or_else(|| {
            let most = CLASS_BYTES[stack::CLASSES - 1];
            let text = format!("a stack of {bytes} bytes: the largest is {most}");
            io::Error::new(io::ErrorKind::InvalidInput, text)
        })
    }

    /// # Safety
    /// As [`Builder::spawn_unchecked`].
    unsafe fn spawn_native<F, T>(self, priority: u8, closure: F) -> io::Result<JoinHandle<T>>
    where
        F: FnOnce() -> T + Send,
        T: Send,
    {
        let place = Place::take()?;
        let (giver, taker) = handed::pair();
        let mut builder = std::thread::Builder::new();
        if let Some(name) = &self.name {
            builder = builder.name(name.clone());
        }
        if let Some(bytes) = self.stack_size {
            builder = builder.stack_size(bytes.max(16 << 10));
        }
        let body = move || {
            let _place = place;
            let me = sched::current();
            self.describe_kernel_thread(me, priority);
            giver.give(Thread::of(me));
            closure()
        };
        // SAFETY: the caller's promise.
        let handle = unsafe { builder.spawn_unchecked(body)? };
        let thread = taker.take().ok_or_else(|| io::Error::other("it ended as it began"))?;
        Ok(JoinHandle::native(handle, thread))
    }

    /// Fills the record of the kernel thread that stands for this thread.
    fn describe_kernel_thread(&self, me: &'static Control, priority: u8) {
        let record = me.record();
        let Some(mut fields) = record.read() else { return };
        fields.role = self.role.as_deref().map_or(0, table::intern_role);
        fields.priority = priority;
        fields.class = if priority == 0 { Class::Lazy } else { Class::TimeCritical };
        fields.group = self.group.unwrap_or(Group::Normal);
        fields.stack_size = self.stack_size.unwrap_or(0).min(u32::MAX as usize) as u32;
        if let Some(name) = &self.name {
            fields.name = table::intern(name);
        }
        record.publish(&fields);
        me.priority.store(priority, Relaxed);
        me.base_priority.store(priority, Relaxed);
    }
}

/// Makes the block of thread-local storage of a full thread that is being made; without memory
/// the slot is given back.
#[cold]
fn give_block(thread: &'static Control, is_kept: bool) -> io::Result<()> {
    let low = thread.stack.get().wrapping_add(memory::PAGE);
    let seen = libc_tls::Stack { low, bytes: thread.stack_usable() };
    // SAFETY: the top of the new thread's stack, which has room for a block: the size class was
    // chosen so.
    let prepare =
        || unsafe { libc_tls::prepare(thread.thread_pointer(), &seen, thread.slot(), is_kept) };
    // It may wait for the C library's lock of its list of libraries.
    let made = full::answering_at_locks(prepare);
    match made {
        // SAFETY: prepared just now.
        Ok(()) => unsafe { full::introduce(thread.thread_pointer(), thread) },
        Err(_) => stack::give(full::here().as_ref().map(|here| &here.cache), thread),
    }
    made
}

/// A kernel thread's share of the process's mappings, while it lives.
///
/// std aborts the process when a new thread finds no mapping for its signal stack; so the limit
/// is kept here, where it can be an error.
struct Place;

/// Kernel threads of the native backend.
static NATIVE_LIVE: AtomicU32 = AtomicU32::new(0);
/// Mappings that std makes for a thread: stack and signal stack, each with a guard.
const MAPPINGS_PER_THREAD: u32 = 4;

impl Place {
    fn take() -> io::Result<Self> {
        static MOST: OnceLock<u32> = OnceLock::new();
        // A quarter of the mappings is left to the program.
        let most = *MOST.get_or_init(|| {
            let mappings = u32::try_from(memory::mappings_max()).unwrap_or(u32::MAX);
            mappings / 4 * 3 / MAPPINGS_PER_THREAD
        });
        if NATIVE_LIVE.fetch_add(1, Relaxed) >= most {
            NATIVE_LIVE.fetch_sub(1, Relaxed);
            return Err(exhausted("mappings for kernel threads (vm.max_map_count)", most.into()));
        }
        Ok(Place)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        NATIVE_LIVE.fetch_sub(1, Relaxed);
    }
}

/// Starts a thread with the default [`Builder`].
///
/// # Panics
/// When the thread can't be made; [`Builder::spawn`] returns the error instead.
#[inline]
pub fn spawn<F, T>(closure: F) -> JoinHandle<T>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    match Builder::new().spawn(closure) {
        Ok(handle) => handle,
        Err(error) => panic!("failed to spawn a thread: {error}"),
    }
}
