//! User-level threads over I/O multiplexing: blocking code at event-loop cost.
//!
//! The API is std's where std has the thing. A thread is known by its record
//! ([`heddle_record`]): what it is for (role), how urgent (class, priority, group), how much
//! stack it really uses.
//!
//! ```
//! let sum: u32 = (1..=4)
//!     .map(|n| heddle::thread::spawn(move || n * n))
//!     .map(|thread| thread.join().unwrap())
//!     .sum();
//! assert_eq!(sum, 30);
//! ```
//!
//! The ideas: M:N threads scheduled through I/O multiplexing (uThread, sections 2.2 to 2.4),
//! regions, groups and stack tuning (TEK, section IV), yields where few registers are live
//! (CoThreads).

#![deny(unsafe_op_in_unsafe_fn)]

mod arch;
mod blocking;
mod called;
mod config;
mod control;
mod cpu;
mod cycles;
mod deadlock;
mod debugger;
pub mod doctor;
mod error;
mod extension;
mod fork;
mod fresh;
pub mod fs;
mod full;
mod handed;
mod heap_use;
mod hibernate;
#[doc(hidden)]
pub mod hold;
mod inbox;
pub mod io;
mod later;
mod lot;
mod model;
mod monitor;
mod nap;
pub mod net;
mod offered;
mod preempt;
pub mod process;
mod queue;
#[doc(hidden)]
pub mod raw;
mod raw_lock;
mod ready;
mod requests;
mod runtime;
mod sanitizer;
mod sched;
mod seat;
pub mod signal;
#[cfg(feature = "sim")]
#[doc(hidden)]
pub mod sim;
mod sleep;
mod spins;
mod stack;
mod steward;
pub mod sync;
mod sys;
mod table;
pub mod thread;
pub mod time;
mod timer;
mod trace;
mod turns;
mod wait;
mod waits;
mod worker;

pub use blocking::blocking;
pub use config::{Backend, Config, Io};
pub use error::{Cancelled, Limit, is_cancelled};
pub use heddle_record::{Category, Class, Group};

/// Runs `main` as a thread on the runtime and returns its result.
///
/// # Panics
/// When `main` panics, with the same payload; when the runtime can't start.
pub fn run<T: Send + 'static>(main: impl FnOnce() -> T + Send + 'static) -> T {
    match thread::Builder::new().name("main".into()).stack_size(1 << 20).spawn(main) {
        Ok(handle) => match handle.join() {
            Ok(value) => value,
            Err(payload) => std::panic::resume_unwind(payload),
        },
        Err(error) => panic!("heddle's runtime can't start: {error}"),
    }
}
