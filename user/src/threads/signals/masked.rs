//! Calls that wait with another mask: `sigsuspend`, `ppoll` and their kin.
//!
//! Invariant: item 5 of the protocol in `mod.rs`; while the mask is another one, the one to come is
//! in the thread's `masked`, where handlers that run in the call find and change it.

use super::deliver;
use crate::threads::{Pthread, this};

/// The calling thread, with another mask for the time of a call that waits: see item 5 of the
/// protocol.
pub struct Masked(());

impl Masked {
    pub fn new(me: &'static Pthread, blocked: u64) -> Self {
        let before = me.signals.blocked();
        me.signals.masked.set(Some(before));
        me.signals.block_only(blocked);
        Masked(())
    }

    /// Puts the mask back, or what a handler has made of it, and delivers what that lets through.
    /// It has no destructor: a handler that ends the thread, or jumps out of the call, has the
    /// mask that it wants.
    pub fn end(self) {
        let Some(me) = this() else { return };
        if let Some(before) = me.signals.masked.get() {
            me.signals.go_on_with(before);
        }
        me.signals.masked.set(None);
        if me.signals.is_due() {
            deliver(me);
        }
    }
}
