//! Creating threads: user-level ones, or kernel threads on the native backend.
//!
//! Invariant: the new thread's slot is complete, and its id stored for the caller, before the
//! thread can run; so it may end, and even be joined by others, before `heddle_create` returns.
//!
//! # Safety
//! For all exported functions of this file: pointers are valid or null where that is allowed, and
//! the start function may be called with its argument on another thread.

use core::ffi::{c_int, c_void};
use core::ptr;

use heddle::raw;
use heddle::thread::{Builder, Thread};

use crate::attr::{self, Attr, DETACHED, FULL, STACK_EXTRA, Wanted};
use crate::data::{self, Data, Kind, Start};
use crate::{carried, current, errno, exit, fork};

#[unsafe(no_mangle)]
pub unsafe extern "C" fn heddle_create(
    thread: *mut u64,
    attr: *const Attr,
    start: Start,
    argument: *mut c_void,
) -> c_int {
    // SAFETY: null or the caller's attributes.
    let Some(wanted) = Attr::wanted(unsafe { attr.as_ref() }) else { return libc::EINVAL };
    carried::across(|| {
        match create(&wanted, start, argument, |id| {
            // SAFETY: the caller's place for the id.
            unsafe { thread.write(id) };
        }) {
            Ok(()) => 0,
            Err(error) if error.kind() == std::io::ErrorKind::InvalidInput => libc::EINVAL,
            Err(error) if error.kind() == std::io::ErrorKind::Unsupported => libc::ENOTSUP,
            Err(_exhausted) => libc::EAGAIN,
        }
    })
}

fn create(
    wanted: &Wanted,
    start: Start,
    argument: *mut c_void,
    publish: impl FnOnce(u64),
) -> std::io::Result<()> {
    if !fork::may_create() {
        return Err(std::io::ErrorKind::OutOfMemory.into());
    }
    let native = raw::is_native().inspect_err(report_refusal)?;
    let kind = if native { Kind::Native } else { Kind::Light };
    carried::look_for_exceptions();
    let data = data::allocate(kind).ok_or(std::io::ErrorKind::OutOfMemory)?;
    data.own.start.set(Some(start));
    data.own.argument.set(argument);
    {
        let mut shared = data.lock();
        shared.detached = wanted.flags & DETACHED != 0;
        shared.flags = wanted.flags;
        shared.schedule = wanted.schedule.clone();
        shared.stack_bytes = wanted.stack_bytes.unwrap_or_else(attr::default_stack_bytes);
        shared.guard_bytes = wanted.guard_bytes;
        shared.name = inherited_name();
    }
    let id = data.id();
    publish(id);
    exit::count_in();
    let started = if native { start_native(data, wanted) } else { start_light(data, id, wanted) };
    if started.is_err() {
        exit::count_out();
        data.release(data.lock());
    }
    started
}

/// Says once why the runtime can't start: the error number alone would not tell.
fn report_refusal(error: &std::io::Error) {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| eprintln!("heddle: the runtime can't start: {error}"));
}

fn inherited_name() -> [u8; 16] {
    current::known().map_or([0; 16], |data| data.lock().name)
}

fn start_light(data: &'static Data, id: u64, wanted: &Wanted) -> std::io::Result<()> {
    let schedule = &wanted.schedule;
    let mut builder = Builder::new().group(schedule.group);
    if let Some(priority) = schedule.critical() {
        builder = builder.priority(priority);
    }
    if wanted.flags & FULL != 0 {
        builder = builder.full();
    }
    let role = schedule.role();
    if !role.is_empty() {
        builder = builder.role(role);
    }
    // A thread with a role and no size gets what was learned for the role.
    if wanted.stack_bytes.is_some() || role.is_empty() {
        let bytes = wanted.stack_bytes.unwrap_or_else(attr::default_stack_bytes);
        builder = builder.stack_size(bytes + STACK_EXTRA);
    }
    let argument = ptr::from_ref(data).cast_mut().cast();
    // SAFETY: the slot is the new thread's; the start function may run there, as the caller of
    // `heddle_create` has promised.
    let thread = unsafe { raw::spawn(builder, run_light, argument)? };
    raw::detach(&thread);
    thread.set_category(schedule.category);
    let mut shared = data.lock();
    // It may have ended already, and the slot may be another's.
    if data.id() == id && !shared.finished && shared.thread.is_none() {
        shared.thread = Some(thread);
    }
    Ok(())
}

unsafe extern "C-unwind" fn run_light(argument: *mut u8) {
    // SAFETY: `start_light` passed the slot.
    let data: &'static Data = unsafe { &*argument.cast_const().cast() };
    current::set(data);
    let stack = raw::stack_bounds().map(|(base, bytes)| (base as usize, bytes));
    begin(data, stack);
    call_start(data);
    exit::end(data)
}

fn start_native(data: &'static Data, wanted: &Wanted) -> std::io::Result<()> {
    let bytes = wanted.stack_bytes.unwrap_or_else(attr::default_stack_bytes);
    // SAFETY: all zero bytes are attributes to the C library; initialised before they are used.
    let mut attr: libc::pthread_attr_t = unsafe { core::mem::zeroed() };
    let mut made: libc::pthread_t = 0;
    let argument = ptr::from_ref(data).cast_mut().cast();
    type Routine = extern "C" fn(*mut c_void) -> *mut c_void;
    let run: unsafe extern "C-unwind" fn(*mut c_void) -> *mut c_void = run_native;
    // SAFETY: the same signature; the C library lets a forced unwind pass through it.
    let run: Routine = unsafe { core::mem::transmute(run) };
    // SAFETY: valid attributes; the slot is the new thread's.
    let error = unsafe {
        libc::pthread_attr_init(&mut attr);
        libc::pthread_attr_setdetachstate(&mut attr, libc::PTHREAD_CREATE_DETACHED);
        libc::pthread_attr_setstacksize(&mut attr, bytes.next_multiple_of(4096) + 16384);
        let error = libc::pthread_create(&mut made, &attr, run, argument);
        libc::pthread_attr_destroy(&mut attr);
        error
    };
    if error == 0 { Ok(()) } else { Err(std::io::Error::from_raw_os_error(error)) }
}

unsafe extern "C-unwind" fn run_native(argument: *mut c_void) -> *mut c_void {
    // SAFETY: `start_native` passed the slot.
    let data: &'static Data = unsafe { &*argument.cast_const().cast() };
    current::set(data);
    begin(data, Some(attr::kernel_stack()));
    call_start(data);
    exit::end(data)
}

/// What the new thread does before its start function.
fn begin(data: &'static Data, stack: Option<(usize, usize)>) {
    let thread: Thread = heddle::thread::current();
    let mut shared = data.lock();
    if let Some((base, bytes)) = stack {
        (shared.stack_base, shared.stack_bytes) = (base, bytes);
    }
    if data.kind() == Kind::Native {
        shared.schedule.apply(&thread);
    }
    if shared.cancel_asked {
        thread.cancel();
    }
    shared.thread = Some(thread);
    drop(shared);
    errno::set(0);
}

/// Calls the start function and keeps its result. Its frame is where a forced unwind ends.
#[inline(never)]
fn call_start(data: &'static Data) {
    let marker = 0_u8;
    data.own.base.set(core::hint::black_box(&raw const marker) as usize);
    let Some(start) = data.own.start.get() else { return };
    // SAFETY: the caller of `heddle_create` gave both for this thread.
    let result = unsafe { start(data.own.argument.get()) };
    data.own.result.set(result);
}
