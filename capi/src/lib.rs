//! libheddle: the C API of heddle's user-level threads.
//!
//! The headers in `include/` are the contract: every exported function is documented there and
//! behaves as the POSIX function that it is named after. One file per family of functions; below
//! them, `data` (a thread as C sees it), `current`, `clock`, `errno` and `stop`.
//!
//! Two rules hold everywhere:
//! 1. A call leaves `errno` as it was unless it fails in a way that POSIX reports there. Whatever
//!    may switch is called through [`carried::across`].
//! 2. Cancellation and exit leave the thread by a forced unwind that starts in the outermost
//!    function, when nothing on the Rust stack has a destructor any more. What is below returns
//!    [`stop::Stop::Cancelled`].

mod attr;
mod barrier;
mod cancel;
mod carried;
mod clock;
mod cond;
mod create;
mod current;
mod data;
mod errno;
mod exit;
mod fork;
mod identity;
mod io;
mod join;
mod key;
mod mutex;
mod once;
mod run;
mod rwlock;
mod schedule;
mod sem;
mod sleep;
mod spin;
mod stop;
