//! Who waits for what others have again and again before it.
//!
//! What wakes one who waits for a lock does not hand the lock on: the caller, or another thread,
//! may have it before the woken one runs, and so again and again. Who has been woken in vain for
//! [`PATIENCE_NS`] says so, and the next to wake somebody at that address gives way.
//!
//! Addresses share places: one may give way for another one, and loses a turn.
//!
//! Invariant: an address is a number here; what was there may be gone.

use core::cell::Cell;
use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::Relaxed;

use heddle::raw;

use crate::errno;
use crate::threads::signals::actions;

/// How long who waits lets others have it first.
const PATIENCE_NS: u64 = 2_000_000;
/// Who waits again so soon has been woken in vain, where nothing but the waits is known.
const SOON_NS: u64 = 50_000;
const PLACES: usize = 256;

static SAID: [AtomicBool; PLACES] = [const { AtomicBool::new(false) }; PLACES];

fn place(address: usize) -> &'static AtomicBool {
    &SAID[address / size_of::<u32>() % PLACES]
}

/// One wait for a lock, however often it is woken.
#[derive(Default)]
pub struct Patience(u64);

impl Patience {
    /// It was woken, and the lock may be another one's.
    pub fn woken(&mut self, address: usize) {
        let now = raw::now_ns();
        if self.0 == 0 {
            self.0 = now.saturating_add(PATIENCE_NS);
        } else if now >= self.0 {
            place(address).store(true, Relaxed);
        }
    }
}

/// The waits of one thread, of which nobody knows what for.
#[derive(Default)]
pub struct Waits {
    address: Cell<usize>,
    /// Since when it was woken in vain there.
    since: Cell<u64>,
    woken: Cell<u64>,
}

impl Waits {
    /// Before one.
    pub fn begin(&self, address: usize) {
        let now = raw::now_ns();
        let is_in_vain = now.saturating_sub(self.woken.get()) < SOON_NS;
        if self.address.replace(address) != address || !is_in_vain {
            self.since.set(now);
        } else if now.saturating_sub(self.since.get()) >= PATIENCE_NS {
            self.since.set(now);
            place(address).store(true, Relaxed);
        }
    }

    /// It has ended, and not by its timeout.
    pub fn woken(&self) {
        self.woken.set(raw::now_ns());
    }
}

/// After the caller has woken somebody at this address: lets others run, if one is passed over.
#[inline]
pub fn give_way(address: usize) {
    let place = place(address);
    if place.load(Relaxed) && place.swap(false, Relaxed) {
        let_run();
    }
}

/// Not in the middle of a worker's own work, which may free memory by the program's allocator, nor
/// in a child that is still like its parent.
#[cold]
fn let_run() {
    let is_thread = crate::me().is_some() || !raw::is_on_worker();
    if is_thread && !raw::is_pinned() && !actions::is_in_vfork() {
        errno::kept(heddle::thread::yield_now);
    }
}
