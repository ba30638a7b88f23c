//! The harness: builds peers, runs them in turns, turns samples into rows, rows into a report.
//!
//! plan -> suites (micro, memory, servers, class, tek, unmodified) -> result -> plot + report. Each
//! suite asks `programs` for a built peer and `child` to run it; nothing else starts a process.

pub mod child;
pub mod class;
pub mod impls;
pub mod instructions;
pub mod memory;
pub mod micro;
pub mod nginx;
pub mod plan;
pub mod plot;
pub mod programs;
pub mod progress;
pub mod report;
pub mod result;
pub mod rounds;
pub mod servers;
pub mod targets;
pub mod tek;
pub mod unmodified;
