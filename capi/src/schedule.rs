//! What a thread is for and how urgent it is: POSIX's policy and priority, TEK's attributes.
//!
//! A thread is lazy under `SCHED_OTHER`, and under `SCHED_HEDDLE` with priority 0; else it is
//! time-critical with its priority. What was set is kept as it was set; the runtime and the record
//! are told what it means.
//!
//! # Safety
//! For all exported functions of this file: pointers are valid.

use core::ffi::c_int;

use heddle::thread::Thread;
use heddle::{Category, Group};
use libc::sched_param;

use crate::data::{self, Shared};

/// `SCHED_HEDDLE` of the header.
pub const SCHED_HEDDLE: c_int = 0x48;
/// `HEDDLE_ROLE_BYTES_MAX`.
pub const ROLE_BYTES: usize = 64;

/// See the file's head.
#[derive(Clone)]
pub struct Schedule {
    pub policy: c_int,
    pub priority: c_int,
    pub group: Group,
    pub category: Category,
    /// Padded with zero bytes.
    pub role: [u8; ROLE_BYTES],
}

impl Default for Schedule {
    fn default() -> Self {
        Schedule {
            policy: libc::SCHED_OTHER,
            priority: 0,
            group: Group::Normal,
            category: Category::None,
            role: [0; ROLE_BYTES],
        }
    }
}

/// `struct heddle_attributes` of the header.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Attributes {
    size_bytes: usize,
    thread_class: c_int,
    priority: c_int,
    group: c_int,
    category: c_int,
    role: [u8; ROLE_BYTES],
}

/// Whether `priority` is one of `policy`.
pub fn is_valid(policy: c_int, priority: c_int) -> bool {
    match policy {
        libc::SCHED_OTHER => true,
        libc::SCHED_FIFO | libc::SCHED_RR => (1..=99).contains(&priority),
        SCHED_HEDDLE => (0..=99).contains(&priority),
        _ => false,
    }
}

impl Schedule {
    /// Sets policy and priority; false when they are not valid together.
    pub fn set(&mut self, policy: c_int, priority: c_int) -> bool {
        if !is_valid(policy, priority) {
            return false;
        }
        self.policy = policy;
        self.priority = if policy == libc::SCHED_OTHER { 0 } else { priority };
        true
    }

    /// The priority of a time-critical thread, `None` for a lazy one.
    pub fn critical(&self) -> Option<u8> {
        u8::try_from(self.priority).ok().filter(|&p| p != 0 && self.policy != libc::SCHED_OTHER)
    }

    /// The role; empty when none was given.
    pub fn role(&self) -> &str {
        let end = self.role.iter().position(|&byte| byte == 0).unwrap_or(ROLE_BYTES);
        match core::str::from_utf8(&self.role[..end]) {
            Ok(text) => text,
            Err(error) => core::str::from_utf8(&self.role[..error.valid_up_to()]).unwrap_or(""),
        }
    }

    /// Takes `value` over; false when something in it is unknown.
    pub fn take(&mut self, value: &Attributes) -> bool {
        let group = match value.group {
            0 => Group::Urgent,
            1 => Group::Normal,
            2 => Group::Service,
            3 => Group::Background,
            _ => return false,
        };
        let category = match value.category {
            0 => Category::None,
            1 => Category::Event,
            2 => Category::Drawing,
            3 => Category::Foreground,
            4 => Category::Background,
            _ => return false,
        };
        let policy = match (value.thread_class, value.priority) {
            (0, 0) => libc::SCHED_OTHER,
            (1, 1..=99) => SCHED_HEDDLE,
            _ => return false,
        };
        let role = value.role;
        if value.size_bytes != size_of::<Attributes>() || !role.contains(&0) {
            return false;
        }
        if role[0] != 0 {
            self.role = role;
        }
        (self.group, self.category) = (group, category);
        self.set(policy, value.priority)
    }

    /// Writes everything to `value`; false when its size is unknown.
    pub fn give(&self, value: &mut Attributes) -> bool {
        if value.size_bytes != size_of::<Attributes>() {
            return false;
        }
        *value = Attributes {
            size_bytes: value.size_bytes,
            thread_class: c_int::from(self.critical().is_some()),
            priority: self.critical().map_or(0, c_int::from),
            group: self.group as c_int,
            category: self.category as c_int,
            role: self.role,
        };
        true
    }

    /// Tells the runtime.
    pub fn apply(&self, thread: &Thread) {
        // Priorities were checked when they were set.
        let _ = thread.set_priority(self.critical());
        thread.set_group(self.group);
        thread.set_category(self.category);
        if !self.role().is_empty() {
            thread.set_role(self.role());
        }
    }
}

/// Changes the schedule of a thread that exists; `change` says whether it was valid.
fn change(id: u64, change: impl FnOnce(&mut Schedule) -> bool) -> c_int {
    let Some((_data, mut shared)) = data::find(id) else { return libc::ESRCH };
    let mut schedule = shared.schedule.clone();
    if !change(&mut schedule) {
        return libc::EINVAL;
    }
    let Shared { thread, schedule: known, .. } = &mut *shared;
    if let Some(thread) = thread {
        schedule.apply(thread);
    }
    *known = schedule;
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn heddle_setschedparam(
    thread: u64,
    policy: c_int,
    param: *const sched_param,
) -> c_int {
    // SAFETY: the caller's parameter.
    let priority = unsafe { (*param).sched_priority };
    change(thread, |schedule| schedule.set(policy, priority))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn heddle_getschedparam(
    thread: u64,
    policy: *mut c_int,
    param: *mut sched_param,
) -> c_int {
    let Some((_data, shared)) = data::find(thread) else { return libc::ESRCH };
    // SAFETY: the caller's places.
    unsafe {
        policy.write(shared.schedule.policy);
        (*param).sched_priority = shared.schedule.priority;
    }
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn heddle_setschedprio(thread: u64, priority: c_int) -> c_int {
    change(thread, |schedule| {
        let lazy = schedule.policy == libc::SCHED_OTHER;
        !(lazy && priority != 0) && schedule.set(schedule.policy, priority)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn heddle_setattributes_np(thread: u64, value: *const Attributes) -> c_int {
    // SAFETY: the caller's structure; its size is looked at before anything is believed, and
    // nothing is written.
    let value = unsafe { &*value };
    change(thread, |schedule| schedule.take(value))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn heddle_getattributes_np(thread: u64, value: *mut Attributes) -> c_int {
    let Some((_data, shared)) = data::find(thread) else { return libc::ESRCH };
    // SAFETY: the caller's structure, which says its size.
    if shared.schedule.give(unsafe { &mut *value }) { 0 } else { libc::EINVAL }
}
