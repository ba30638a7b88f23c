//! Kernel threads that stand for full threads where a lock's owner is looked for by its number: in
//! other processes, and in the kernel when the process ends.
//!
//! The C library writes its thread's number into locks that other processes see. At the end of a
//! kernel thread, however it comes, the kernel goes through the list of robust mutexes that the
//! thread has told it of, and leaves those that have this thread's number to the next owner. A full
//! thread's own number is no kernel thread's, and a thread of another process may have the same. So
//! a full thread gets a proxy before the C library locks such a lock for it: a kernel thread that
//! has told the kernel where the full thread's list is, sleeps for good, and lends its number.
//!
//! Protocol: who wants a proxy to tell another list writes where that is, changes `asked`, and
//! waits until `answered` is the same.
//!
//! Invariants:
//! 1. A full thread's number in the C library changes before the first lock that it holds by it,
//!    but for the loader's locks, which are told (`loader.rs`).
//! 2. A proxy is lent to one thread at a time, and its list is that thread's. One that has been
//!    given back may have told the list of a later thread, who has another number: the kernel
//!    leaves what that holds.
//!
//! Where the kernel makes no more threads, a full thread keeps its own number.

use core::cell::Cell;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicU32, AtomicUsize};
use std::sync::{Arc, Mutex, PoisonError};

use heddle::raw;
use rustix::thread::futex::{self, Flags};

use super::{loader, robust};
use crate::calls::mask;
use crate::errno;
use crate::threads::{self, this};

/// A proxy's stack: it calls little.
const STACK_BYTES: usize = 64 << 10;

/// See the file's head.
#[derive(Default)]
pub struct Proxy {
    tid: AtomicU32,
    /// Where the list is that it tells.
    head: AtomicUsize,
    asked: AtomicU32,
    answered: AtomicU32,
}

/// What a thread has of this; its own.
#[derive(Default)]
pub struct Lent {
    /// It has asked: no second time.
    has_asked: Cell<bool>,
    proxy: Cell<Option<Arc<Proxy>>>,
    /// The proxy's number; 0 = it has none.
    tid: Cell<u32>,
}

/// Proxies that are lent to nobody.
static SPARE: Mutex<Vec<Arc<Proxy>>> = Mutex::new(Vec::new());

/// The calling thread, if it is a full one, gets a proxy unless it has one.
#[inline]
pub fn ask_for() {
    if let Some(me) = this().filter(|me| !me.lent().has_asked.get())
        && crate::me().is_some()
    {
        errno::kept(|| ask(me.lent()));
    }
}

#[cold]
fn ask(lent: &Lent) {
    // No handler of the program's comes in between, and no other thread waits for `SPARE`'s holder.
    let _pin = raw::pin();
    lent.has_asked.set(true);
    let Some(head) = robust::head() else { return };
    if let Some(proxy) = take_spare(head).or_else(start) {
        proxy.tell(head);
        let tid = proxy.tid.load(Relaxed);
        loader::pass_on(raw::set_tid_in_c_library(tid), tid);
        lent.tid.set(tid);
        lent.proxy.set(Some(proxy));
    }
}

/// The number by which the calling full thread holds what the C library has locked for it.
pub fn number() -> u32 {
    match this().map_or(0, |me| me.lent().tid.get()) {
        0 => threads::number(),
        lent => lent,
    }
}

/// The calling thread ends, and holds nothing any more.
pub fn give_back(lent: &Lent) {
    if let Some(proxy) = lent.proxy.take() {
        let _pin = raw::pin();
        SPARE.lock().unwrap_or_else(PoisonError::into_inner).push(proxy);
    }
}

/// One that has told this list before, or any.
fn take_spare(head: usize) -> Option<Arc<Proxy>> {
    let mut spare = SPARE.lock().unwrap_or_else(PoisonError::into_inner);
    let found = spare.iter().rposition(|proxy| proxy.head.load(Relaxed) == head);
    let index = found.or(spare.len().checked_sub(1))?;
    Some(spare.swap_remove(index))
}

fn start() -> Option<Arc<Proxy>> {
    let proxy = Arc::<Proxy>::default();
    let its = Arc::clone(&proxy);
    let body = move || {
        mask::block_all();
        its.run()
    };
    let start = || raw::start_kernel_thread("heddle-proxy", STACK_BYTES, body);
    mask::with_all_blocked(start).ok()?;
    Some(proxy)
}

impl Proxy {
    /// Has it tell the kernel of the list at `head`, unless it has.
    fn tell(&self, head: usize) {
        if self.head.swap(head, Relaxed) == head {
            return;
        }
        // ORDER: Release publishes `head`.
        let asked = self.asked.fetch_add(1, Release) + 1;
        let _ = futex::wake(&self.asked, Flags::PRIVATE, 1);
        loop {
            // ORDER: Acquire: the kernel knows the list, and `tid` is seen.
            let answered = self.answered.load(Acquire);
            if answered == asked {
                return;
            }
            let _ = futex::wait(&self.answered, Flags::PRIVATE, answered, None);
        }
    }

    /// The proxy itself.
    fn run(&self) -> ! {
        self.tid.store(rustix::thread::gettid().as_raw_nonzero().get() as u32, Relaxed);
        let mut done = 0;
        loop {
            // ORDER: pairs with `tell`.
            let asked = self.asked.load(Acquire);
            if asked == done {
                raw::idle(|| _ = futex::wait(&self.asked, Flags::PRIVATE, done, None));
                continue;
            }
            let head = self.head.load(Relaxed);
            // SAFETY: what is there is read by the kernel alone, when the process ends, and it
            // stops at what is no list. The thread itself holds no robust mutex.
            unsafe { libc::syscall(libc::SYS_set_robust_list, head, robust::BYTES) };
            done = asked;
            // ORDER: Release: as `tell` says.
            self.answered.store(done, Release);
            let _ = futex::wake(&self.answered, Flags::PRIVATE, 1);
        }
    }
}
