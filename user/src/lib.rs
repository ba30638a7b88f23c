//! libheddle-user.so: an unmodified program's threads, run as full threads of heddle's runtime.
//!
//! The library is loaded before the C library (`LD_PRELOAD`) and takes over the functions that are
//! listed in `names`: a `pthread_create` makes a full thread, and what blocks lets the worker run
//! the others. Each taken function is here as `heddle_user_NAME`; what code in here calls by the
//! plain name is the C library's own ([`real`]).
//!
//! Rules that hold everywhere:
//! 1. The main thread, and threads that ask for what only the kernel can give, are kernel threads.
//!    They use the same objects as full threads, by the same code: the parking lot serves both.
//! 2. Objects have the C library's layout, so its own initialisers and `_init` functions hold; an
//!    object that is shared with other processes or robust goes to the C library whole.
//! 3. A call leaves `errno` as it was unless it fails in a way that POSIX reports there.
//! 4. Nothing with a destructor lives in a function that may end its thread: cancellation and exit
//!    leave by a forced unwind from the outermost function (`threads/end.rs`).
//! 5. Nothing is started before the program's first `pthread_create`.
//! 6. What is known of the kinds of threads (policy, stack sizes, what they did) is in the library
//!    behind this one (`account/`); without that one there is no account, and no policy.
//!
//! Not here: scheduling, stacks, waiting (the runtime's); deciding whether a program can be run
//! this way (the command's).

mod account;
mod calls;
mod clock;
mod environment;
mod errno;
mod model;
mod real;
mod sync;
mod sys;
mod threads;

use heddle::raw::{self, Control};

/// The calling full thread; `None` when the caller is a kernel thread.
#[inline]
pub(crate) fn me() -> Option<&'static Control> {
    threads::is_running().then(raw::current)
}
