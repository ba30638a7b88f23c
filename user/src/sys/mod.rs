//! What a program asks of the kernel for a thread: system calls by number, and the thread's own.

mod futex;
mod identity;
mod syscall;
