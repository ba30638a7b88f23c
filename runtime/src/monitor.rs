//! The monitor: a kernel thread that notices workers which have not switched for a while.
//!
//! Every tick (10 ms) it compares each worker's count of switches with that of the tick before. A
//! worker that runs the same thread while others wait gets its poll word set; one that sleeps in
//! the kernel (a page fault, a library that blocks: uThread's "unavoidable blocking", section
//! 2.4) is counted, named once per role, and a spare worker is started for the threads that may
//! move. CPU time is accounted by ticks, as kernels do.
//!
//! When all workers sleep the monitor sleeps as well; the first worker that wakes wakes it.

use core::cell::Cell;
use core::sync::atomic::Ordering::{Relaxed, SeqCst};
use core::sync::atomic::{AtomicU32, AtomicU64};
use std::collections::HashSet;
use std::io::{self, Write};
use std::time::Duration;

use heddle_record::{Kind, State};

use crate::control::{self, Control};
use crate::deadlock::{self, HELPERS_IDLE, Waiting};
use crate::runtime::Runtime;
use crate::stack;
use crate::sys::{futex, libc_tls, task};
use crate::worker::Worker;

/// Time between two looks.
const TICK: Duration = Duration::from_millis(10);
/// Ticks without any running worker after which the monitor sleeps.
const IDLE_TICKS: u32 = 10;

/// Ticks between two rounds of stack measurements, and threads that a round measures: at most 1 %
/// of a CPU.
const TICKS_PER_ROUND: u32 = 25;
const MEASURED_PER_ROUND: u32 = 512;

/// See the file's head.
pub(crate) struct Monitor {
    /// 1 while it sleeps for want of running workers.
    asleep: AtomicU32,
    /// Times that a worker was found blocked in the kernel while threads waited.
    pub blocked: AtomicU64,
    /// Times that a thread had kept its worker for a tick while others waited.
    pub overruns: AtomicU64,
    /// Spare workers started.
    pub spares: AtomicU64,
}

impl Monitor {
    pub fn new() -> Self {
        Monitor {
            asleep: AtomicU32::new(0),
            blocked: AtomicU64::new(0),
            overruns: AtomicU64::new(0),
            spares: AtomicU64::new(0),
        }
    }

    /// Starts its kernel thread.
    pub fn start(&'static self, runtime: &'static Runtime) -> io::Result<()> {
        let body = move || {
            task::block_signals();
            Watch {
                runtime,
                seen: Vec::new(),
                named: HashSet::new(),
                ticks: 0,
                measured: 0,
                reported: Cell::new(false),
            }
            .run();
        };
        std::thread::Builder::new().name("heddle-monitor".into()).spawn(body).map(drop)
    }

    /// A worker has left its sleep.
    #[inline]
    pub fn worker_awake(&self) {
        if self.asleep.load(Relaxed) != 0 && self.asleep.swap(0, SeqCst) != 0 {
            futex::wake(&self.asleep, 1);
        }
    }
}

/// What the monitor remembers of a worker from the tick before.
#[derive(Clone, Copy, Default)]
struct Seen {
    switches: u64,
    same_for: u32,
    /// Ticks in a row, of these, at which it slept in the kernel.
    asleep_for: u32,
    compensated: bool,
}

/// Gives back memory of threads that ended; true while there is more.
fn decay() -> bool {
    stack::decay() | libc_tls::decay()
}

struct Watch {
    runtime: &'static Runtime,
    seen: Vec<Seen>,
    /// Roles whose blocking was reported.
    named: HashSet<u16>,
    ticks: u32,
    /// The slot whose stack was measured last.
    measured: u32,
    /// Whether the deadlock report was given.
    reported: Cell<bool>,
}

impl Watch {
    fn run(&mut self) -> ! {
        let mut idle = 0;
        loop {
            std::thread::sleep(TICK);
            let busy = self.tick();
            self.ticks += 1;
            if self.ticks.is_multiple_of(TICKS_PER_ROUND) {
                self.measure();
                decay();
            }
            idle = if busy { 0 } else { idle + 1 };
            if idle >= IDLE_TICKS && decay() {
                idle = 0;
            } else if idle >= IDLE_TICKS {
                self.sleep();
                idle = 0;
            }
        }
    }

    /// Sleeps until a worker wakes.
    fn sleep(&self) {
        let monitor = &self.runtime.monitor;
        monitor.asleep.store(1, SeqCst);
        // ORDER: a worker that woke before it could see the store is seen here.
        if self.runtime.workers().any(|w| !w.sleeping.is_asleep()) {
            monitor.asleep.store(0, SeqCst);
            return;
        }
        let _counted = Waiting::new(&HELPERS_IDLE);
        if let Some(text) = deadlock::report(self.runtime).filter(|_| !self.reported.replace(true))
        {
            let _ = write!(std::io::stderr(), "{text}");
        }
        while monitor.asleep.load(SeqCst) != 0 {
            futex::wait(&monitor.asleep, 1, None);
        }
    }

    /// Measures the stacks of some threads, so that `heddle ps` shows the peaks of living ones.
    fn measure(&mut self) {
        let made = stack::slots_made();
        for _ in 0..MEASURED_PER_ROUND.min(made) {
            self.measured = if self.measured + 1 < made { self.measured + 1 } else { 0 };
            let record = crate::table::record(self.measured);
            if record.read().is_some_and(|f| {
                matches!(f.kind, Kind::Light | Kind::Full) && f.state == State::Parked
            }) {
                // SAFETY: below the number of slots made.
                let _ = stack::peak::of(unsafe { control::at(self.measured) });
            }
        }
    }

    /// Looks at every worker; true when one is not asleep.
    fn tick(&mut self) -> bool {
        let mut busy = false;
        for worker in self.runtime.workers() {
            if !worker.sleeping.is_asleep() {
                busy = true;
                self.look_at(worker);
            }
        }
        if busy && self.runtime.sleepers.load(Relaxed) != 0 {
            let waiting = self.runtime.workers().any(|w| w.fresh.len() > 1);
            if waiting {
                self.runtime.wake_a_sleeper();
            }
        }
        busy
    }

    fn look_at(&mut self, worker: &'static Worker) {
        let index = worker.index as usize;
        if self.seen.len() <= index {
            self.seen.resize(index + 1, Seen::default());
        }
        // SAFETY: null or a slot of the slab; only its record and atomics are used.
        let running = unsafe { worker.current.load(Relaxed).as_ref() };
        let switches = worker.switches.load(Relaxed);
        let before = &mut self.seen[index];
        if before.switches != switches {
            *before = Seen { switches, ..Seen::default() };
        } else {
            before.same_for += 1;
        }
        let stuck = before.same_for > 0;
        let Some(thread) = running else { return };
        thread.record().add_cpu(TICK.as_nanos() as u64);
        worker.record.add_cpu(TICK.as_nanos() as u64);
        let waiting = worker.ready.load(Relaxed) != 0
            || worker.fresh.len() + worker.offered.len() != 0
            || !worker.inbox.is_empty();
        if stuck && waiting {
            self.relieve(worker, thread);
        }
    }

    /// A thread has kept its worker for a tick while others wait.
    fn relieve(&mut self, worker: &'static Worker, thread: &'static Control) {
        let monitor = &self.runtime.monitor;
        if task::state_of(worker.tid) == Some(b'R') {
            self.seen[worker.index as usize].asleep_for = 0;
            monitor.overruns.fetch_add(1, Relaxed);
            worker.poll.store(1, Relaxed);
            return;
        }
        let before = &mut self.seen[worker.index as usize];
        before.asleep_for += 1;
        if before.asleep_for < 2 {
            // One look may have met a short sleep of a worker that waits for a CPU.
            return;
        }
        monitor.blocked.fetch_add(1, Relaxed);
        self.name(thread);
        let before = &mut self.seen[worker.index as usize];
        if before.compensated || worker.fresh.len() + worker.offered.len() == 0 {
            return;
        }
        before.compensated = true;
        if self.runtime.sleepers.load(Relaxed) != 0 {
            self.runtime.wake_a_sleeper();
        } else if self.runtime.add_worker().is_ok() {
            monitor.spares.fetch_add(1, Relaxed);
            self.runtime.wake_a_sleeper();
        }
    }

    /// Says once per role that its threads block their workers.
    fn name(&mut self, thread: &'static Control) {
        let Some(fields) = thread.record().read() else { return };
        if self.named.insert(fields.role) {
            let role = crate::table::role_name(fields.role);
            // A closed standard error must not end the monitor.
            let _ = writeln!(
                std::io::stderr(),
                "heddle: a thread of role \"{}\" blocks its worker in the kernel while others \
                 wait; heddle::blocking() would run that call elsewhere",
                role.as_deref().unwrap_or("(none)")
            );
        }
    }
}
