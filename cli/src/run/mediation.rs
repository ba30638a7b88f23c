//! The CPU Mediator of a run.
//!
//! Invariant: one that could not be made is told of once, and not tried again.

use std::time::Duration;

use heddle_preload::mediator::{Mediator, Report};
use heddle_preload::policy::Policy;

/// The CPU Mediator: from the start where the policy names time-critical threads, else from the
/// moment on that the program was seen to have some. It looks more often than the collector does.
pub struct Mediation<'a> {
    pid: i32,
    policy: &'a Policy,
    mediator: Option<Mediator>,
    has_failed: bool,
}

impl<'a> Mediation<'a> {
    pub fn new(pid: i32, policy: &'a Policy) -> Mediation<'a> {
        Mediation { pid, policy, mediator: None, has_failed: false }
    }

    /// The time until the next step, if there is one.
    pub fn step(&mut self, wanted: bool, troubles: &mut Vec<String>) -> Option<Duration> {
        if wanted && self.mediator.is_none() && !self.has_failed {
            match Mediator::new(self.pid, self.policy) {
                Ok(mediator) => self.mediator = Some(mediator),
                Err(error) => {
                    self.has_failed = true;
                    troubles.push(format!("CPU Mediator: not possible: {error}"));
                }
            }
        }
        Some(self.mediator.as_mut()?.step())
    }

    /// Gives every thread back what it had.
    pub fn finish(mut self) -> Option<Report> {
        let mut mediator = self.mediator.take()?;
        mediator.finish();
        Some(mediator.report())
    }
}
