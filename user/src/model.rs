//! The seam to the proofs: what `tests/pending.rs` replaces in the files that it compiles.
//!
//! Here the atomics are core's; there something else happens before each of them.

pub use core::sync::atomic::{AtomicU32, AtomicU64};
