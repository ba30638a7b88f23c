//! The monitor's look, with the fields that compensation uses.

#[path = "../../src/monitor/compensate.rs"]
mod compensate;
#[path = "../../src/monitor/doze.rs"]
pub mod doze;

use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;

use self::compensate::Spares;
use self::doze::Doze;
use crate::runtime::Runtime;
use crate::worker::Worker;

pub struct Monitor {
    /// In these models it does not sleep; that has models of its own.
    doze: Doze,
    pub spares: AtomicU64,
}

impl Monitor {
    pub fn new() -> Self {
        let doze = Doze::new();
        doze.end();
        Monitor { doze, spares: AtomicU64::new(0) }
    }

    pub fn worker_awake(&self, _worker: &Worker) {
        self.doze.end();
    }
}

pub struct Watch {
    runtime: &'static Runtime,
    /// Time between two looks.
    pub elapsed: u64,
    spares: Spares,
}

impl Watch {
    pub fn new(runtime: &'static Runtime) -> Self {
        Watch { runtime, elapsed: 0, spares: Spares::default() }
    }

    fn note_calm(&mut self, is_calm: bool) {
        assert!(!is_calm, "as the workers say here");
    }

    /// A look.
    pub fn look(&mut self) {
        self.attend(0);
    }

    /// A round is over.
    pub fn end_round(&mut self) -> bool {
        self.spares.end_round(self.runtime)
    }

    /// What the kernel says, at once.
    fn look_at(&self, worker: &'static Worker) {
        worker.blocked.store(worker.is_in_call.load(Relaxed), Relaxed);
    }
}
