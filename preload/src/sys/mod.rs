//! The outside half's own system calls: what neither std nor rustix offers.
//!
//! Invariant: every unsafe block of this crate's Rust side lies in this folder.

pub mod clock;
pub mod filtered;
pub mod fork;
pub mod pagemap;
pub mod passed;
pub mod sched;
pub mod shared;
pub mod spawn;
