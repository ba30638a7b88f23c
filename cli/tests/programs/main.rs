//! `heddle run` on real programs: Debian's, unmodified, and small ones that are hard on a library
//! which is loaded into them.
//!
//! Invariant: each test runs the real thing plainly and under `heddle run`, and what the program
//! does is the same; nothing that a test started outlives it. A program that this machine lacks
//! is a printed reason, not a failure.

mod build;
mod compressors;
mod ends;
mod environment;
mod languages;
mod linking;
mod mariadb;
mod mediated;
mod nasty;
mod report;
mod scarce;
mod servers;
mod signals;
mod support;
mod transcode;
mod tuned;
