//! Programs' own tests and real work, natively and by `heddle run --threads user`: what comes out
//! is the same.
//!
//! `HEDDLE_NIGHTLY=1` runs the long ones too, `HEDDLE_NIGHTLY=programs` (`cargo xtask ci nightly`)
//! each of them many times, see `common/drawn.rs`.
//!
//! Invariant: a program that is not installed is skipped with its name; every program has a time
//! limit, and none outlives the run.

#![cfg(target_arch = "x86_64")]

#[path = "../common/mod.rs"]
mod common;
mod glibc;
mod mariadb;
mod memcached;
mod open_posix;
mod packers;
mod python;
mod rust;
mod servers;

/// Whether the long ones are asked for.
fn is_nightly() -> bool {
    common::drawn::times().is_some()
}
