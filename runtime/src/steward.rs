//! The steward: a kernel thread that does for the monitor what may have to wait.
//!
//! To make a kernel thread takes the program's allocator and the loader's lock, for its
//! thread-local storage; so does the end of one, and a line on standard error may wait for its
//! reader. Any of these may be in the hands of a full thread that does not run, and for which the
//! monitor has to find a worker. So the monitor waits for nothing and allocates nothing: it wakes
//! spare workers that are ready, and has the steward make others in advance. While the steward
//! itself waits, those that are ready must do; how the monitor goes on without any is said in
//! `monitor/compensate.rs`.
//!
//! Protocol: that of `called.rs`. Who wants something stores it, then calls ([`Steward::call`]).
//!
//! Not here: how many spare workers there should be, and which of them go, is the monitor's choice.

use core::sync::atomic::Ordering::{AcqRel, Relaxed};
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64};
use std::io;
use std::time::Duration;

use crate::called::Called;
use crate::cycles::Cycles;
use crate::deadlock::{HELPERS_IDLE, Waiting, Watch};
use crate::runtime::Runtime;
use crate::stack;
use crate::sys::task::{self, Helper};
use crate::sys::{clock, libc_tls, say};

/// Roles that there may be.
const ROLES: usize = 1 << 16;
/// How long it waits after the kernel has refused a thread, before it tries again by itself.
const AGAIN: Duration = Duration::from_millis(20);

/// See the file's head.
pub(crate) struct Steward {
    /// It sleeps on it.
    called: Called,
    /// Spare workers that should be ready.
    wanted: AtomicU32,
    /// Who has the C library make a kernel thread for a worker just now; 0 = nobody.
    making: AtomicI32,
    /// The monitor asks for a round of decay.
    is_to_decay: AtomicBool,
    /// There was something to decay in the last round.
    pub decays: AtomicBool,
    /// All workers sleep: there may be a deadlock to report.
    is_to_report: AtomicBool,
    /// A role whose threads block their workers, 0 = none.
    role: AtomicU32,
    /// Roles that were named so.
    named: [AtomicU64; ROLES / 64],
}

impl Steward {
    pub const fn new() -> Self {
        Steward {
            called: Called::new(),
            wanted: AtomicU32::new(0),
            making: AtomicI32::new(0),
            is_to_decay: AtomicBool::new(false),
            decays: AtomicBool::new(false),
            is_to_report: AtomicBool::new(false),
            role: AtomicU32::new(0),
            named: [const { AtomicU64::new(0) }; ROLES / 64],
        }
    }

    /// Makes its kernel thread.
    pub fn make(&'static self, runtime: &'static Runtime) -> io::Result<Helper> {
        Helper::make("heddle-steward", move || self.run(runtime))
    }

    /// There is something to do; from anywhere.
    pub fn call(&self) {
        self.called.call();
    }

    /// `count` spare workers should be ready; `is_less`: fewer are.
    pub fn want(&self, count: u32, is_less: bool) {
        self.wanted.store(count, Relaxed);
        if is_less {
            self.call();
        }
    }

    /// Has the C library make a kernel thread for a worker.
    pub fn making<T>(&self, make: impl FnOnce() -> T) -> T {
        self.making.store(task::tid(), Relaxed);
        let made = make();
        self.making.store(0, Relaxed);
        made
    }

    /// Whether who does so is found asleep, as for the loader's lock: it may wait for a thread that
    /// does not run.
    pub fn is_held_up(&self) -> bool {
        let tid = self.making.load(Relaxed);
        tid != 0 && task::state_of(tid) == Some(b'S')
    }

    /// Memory of threads that ended is to be given back, some at a time.
    pub fn decay(&self) {
        self.is_to_decay.store(true, Relaxed);
        self.call();
    }

    /// All workers sleep, and so does the monitor.
    pub fn report(&self) {
        self.is_to_report.store(true, Relaxed);
        self.call();
    }

    /// Has it said once that threads of `role` block their workers. While it says so of another
    /// one, nothing happens: the monitor will come again.
    pub fn name(&self, role: u16) {
        let (word, bit) = (&self.named[role as usize / 64], 1 << (role % 64));
        if word.load(Relaxed) & bit == 0
            && self.role.compare_exchange(0, u32::from(role) + 1, AcqRel, Relaxed).is_ok()
        {
            word.fetch_or(bit, Relaxed);
            self.call();
        }
    }

    fn run(&self, runtime: &'static Runtime) -> ! {
        let (mut is_refused, mut watch, mut cycles) = (false, Watch::default(), Cycles::default());
        loop {
            {
                let _counted = Waiting::new(&HELPERS_IDLE);
                let pause = if is_refused { Some(AGAIN) } else { watch.pause() };
                self.called.wait(pause);
            }
            if self.called.take() || is_refused {
                is_refused = runtime.fill_seats(self.wanted.load(Relaxed)).is_err();
                self.serve();
                if self.is_to_report.swap(false, Relaxed) {
                    watch.begin();
                    look(&mut watch, runtime);
                }
            } else {
                look(&mut watch, runtime);
            }
            if !watch.has_reported() {
                tell(cycles.look(clock::now_ns()));
            }
        }
    }

    /// Does what can wait until there are workers enough.
    fn serve(&self) {
        if self.is_to_decay.swap(false, Relaxed) {
            let more = stack::decay() | libc_tls::decay();
            self.decays.store(more, Relaxed);
        }
        let role = self.role.load(Relaxed);
        if role != 0 {
            name((role - 1) as u16);
            self.role.store(0, Relaxed);
        }
    }
}

/// Says that threads of `role` block their workers.
fn name(role: u16) {
    let role = crate::table::role_name(role);
    say::line(format_args!(
        "heddle: a thread of role \"{}\" blocks its worker in the kernel while others wait; \
         heddle::blocking() would run that call elsewhere",
        role.as_deref().unwrap_or("(none)")
    ));
}

/// Reports a deadlock of all threads, if there is one.
fn look(watch: &mut Watch, runtime: &'static Runtime) {
    // It is a helper that does not wait for anybody.
    let _counted = Waiting::new(&HELPERS_IDLE);
    tell(watch.look(runtime));
}

/// Writes the report of a deadlock, if there is one.
fn tell(report: Option<String>) {
    if let Some(text) = report {
        say::bytes(text.as_bytes());
    }
}
