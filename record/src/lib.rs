//! The thread record: one 64-byte format that every layer of heddle reads.
//!
//! Invariant: `include/heddle/record.h` is the truth and this crate its mirror;
//! `tests/layout.rs` compiles both and compares every offset.
//!
//! - [`Record`] is one thread's public description, a cache line of atomics under a seqlock.
//! - [`Table`] is the writer's side: a sparse file in shared memory that a runtime fills.
//! - [`Reader`] is everyone else's side: it trusts nothing that it reads.
//!
//! Without the feature `std` only the layout and the words remain, for use where there is no
//! operating system to ask.
//!
//! The idea is TEK's thread table (sections 3 and 4 of that paper), with texts, generations and a
//! format that other processes may read.
//!
//! ```
//! use heddle_record::{Fields, Kind, Options, Place, State};
//!
//! let table = Options::new().capacity(1 << 12).place(Place::Memfd).create()?;
//! table.set_high_water(1)?;
//! let role = table.intern_role("gas detection");
//! let fields = Fields { kind: Kind::Light, state: State::Parked, role, ..Fields::default() };
//! table.record(0).publish(&fields);
//!
//! let snapshot = table.reader()?.snapshot()?;
//! assert_eq!(snapshot.threads[0].role.as_deref(), Some("gas detection"));
//! # Ok::<(), heddle_record::Error>(())
//! ```
#![cfg_attr(not(feature = "std"), no_std)]

mod fields;
pub mod layout;
mod record;
mod words;

#[cfg(feature = "std")]
mod copy;
#[cfg(feature = "std")]
mod error;
#[cfg(feature = "std")]
mod header;
#[cfg(feature = "std")]
mod kernel;
#[cfg(feature = "std")]
mod lookup;
#[cfg(feature = "std")]
mod place;
#[cfg(feature = "std")]
pub mod process;
#[cfg(feature = "std")]
mod reader;
#[cfg(feature = "std")]
mod snapshot;
#[cfg(feature = "std")]
mod source;
#[cfg(feature = "std")]
mod stack;
#[cfg(feature = "std")]
mod sweep;
#[cfg(feature = "std")]
mod table;
#[cfg(feature = "std")]
mod text;
#[cfg(feature = "std")]
mod uses;

pub use fields::{Fault, Fields};
pub use record::Record;
pub use words::{Category, Class, Group, Kind, State, Zone, policy_name};

#[cfg(feature = "std")]
pub use error::Error;
#[cfg(feature = "std")]
pub use place::Place;
#[cfg(feature = "std")]
pub use reader::{ACCOUNT_SUFFIX, Reader, run_pids, table_pids};
#[cfg(feature = "std")]
pub use snapshot::{SlotFault, Snapshot, Thread, ThreadId};
#[cfg(feature = "std")]
pub use stack::StackPlace;
#[cfg(feature = "std")]
pub use sweep::{STRANGERS_MAX, TABLE_AGE_MAX, TABLES_MAX, sweep, sweep_but, sweep_left};
#[cfg(feature = "std")]
pub use table::{Options, Report, Table, TextBuffer};
#[cfg(feature = "std")]
pub use uses::{CodePlace, Use, UseFault};
