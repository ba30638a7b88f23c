//! Everything that the runtime asks of the kernel: memory, futex, clock, descriptors.
//!
//! Raw system calls live in this folder and nowhere else, so that the simulation and the model
//! checker can take their place and a reader can audit them in one sitting.

pub(crate) mod clock;
pub(crate) mod code;
pub mod descriptor;
pub(crate) mod epoll;
pub(crate) mod event;
#[cfg(target_arch = "x86_64")]
pub mod frame;
pub(crate) mod futex;
pub(crate) mod identities;
pub(crate) mod kernel_thread;
pub(crate) mod libc_tls;
pub(crate) mod memory;
pub(crate) mod pages;
pub(crate) mod place;
pub(crate) mod policy;
pub(crate) mod poll;
pub(crate) mod probe;
pub mod say;
#[cfg(target_arch = "x86_64")]
pub(crate) mod segments;
pub(crate) mod signals;
pub(crate) mod task;
pub mod tasks;
pub(crate) mod text;
