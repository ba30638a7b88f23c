//! What a program asks of the kernel for a thread: system calls by number, and the thread's own;
//! and this library's memory.

pub mod callers;
pub mod cpu_clock;
pub mod descriptors;
pub mod direct;
pub mod filter;
pub mod frames;
mod futex;
mod heap;
pub mod identity;
pub mod interruptible;
pub mod kept;
mod loader;
mod lockless;
pub mod own_memory;
pub mod plain;
pub mod probed;
pub mod proxy;
mod rings;
pub mod robust;
pub mod scheduling;
pub mod signals;
mod stdio;
pub mod symbol;
mod syscall;
