//! Where the monitor sleeps while all workers sleep, and the alarms that end it.
//!
//! A worker that wakes may block with threads that others should run, and so ended the monitor's
//! sleep. But most wakes are over before the monitor would look for the first time, and to wake its
//! kernel thread costs more than they do. So a worker that wakes sets its alarm, and takes it back
//! when it sleeps again: two short system calls. It wakes the monitor itself where it has no alarm,
//! and where many have been set in this sleep ([`ALARMS_MAX`]): what wakes so often is looked at.
//!
//! Invariant: of a worker that is awake a monitor that sleeps here learns within [`ALARM`]: the
//! alarm is set before the worker looks for threads, and taken back before it says that it sleeps.

use core::cell::{Cell, OnceCell};
use core::mem::MaybeUninit;
use core::sync::atomic::Ordering::{Relaxed, SeqCst};
use core::sync::atomic::{AtomicBool, AtomicU32};
use core::time::Duration;
use std::io;
use std::os::fd::AsFd;
use std::sync::OnceLock;

use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec};
use rustix::time::{timerfd_create, timerfd_settime};

use crate::model::{self, futex_wait, futex_wake};
use crate::sys::descriptor::{Own, raised};
use crate::sys::epoll as sys;
use crate::sys::event::Event;

/// After so long a worker that has not slept again is looked at: as after a tick.
const ALARM: Duration = Duration::from_millis(2);
/// So many alarms are set in one sleep of the monitor's.
const ALARMS_MAX: u32 = 64;
/// `EventData` of the event.
const EVENT: u64 = 1;
const AN_ALARM: u64 = 2;

/// See the file's head.
struct Bed {
    set: Own,
    event: Event,
    /// Alarms that were set since the monitor went to sleep.
    alarms: AtomicU32,
}

static BED: OnceLock<Bed> = OnceLock::new();
/// No alarms any more, nor others such: a filter on system calls may not know them.
static IS_FILTERED: AtomicBool = AtomicBool::new(false);
/// Kernel threads that are about to make such a call.
static CALLERS: AtomicU32 = AtomicU32::new(0);

/// Before the monitor starts.
pub(super) fn make() -> io::Result<()> {
    if BED.get().is_none() {
        let _ = BED.set(Bed::new()?);
    }
    Ok(())
}

/// The program is about to have the kernel filter its system calls.
pub(crate) fn before_filter() {
    IS_FILTERED.store(true, SeqCst);
    // Who goes on after that finds it; in a forked child nobody may be there who goes on.
    for _ in 0..1 << 20 {
        if CALLERS.load(SeqCst) == 0 {
            return;
        }
        model::spin();
    }
}

/// Makes `call`, in which there are system calls that programs seldom make, unless there may be a
/// filter that does not know them.
pub(crate) fn unfiltered<T>(call: impl FnOnce() -> Option<T>) -> Option<T> {
    CALLERS.fetch_add(1, SeqCst);
    let made = if IS_FILTERED.load(SeqCst) { None } else { call() };
    CALLERS.fetch_sub(1, SeqCst);
    made
}

/// Sleeps while `*word` is 1, at most for `limit`; may return early. True: somebody has woken the
/// monitor, or an alarm has.
pub(crate) fn wait(word: &model::AtomicU32, limit: Option<Duration>) -> bool {
    // Who has ended the sleep before it began has signalled, too.
    match BED.get() {
        Some(bed) => bed.wait(limit),
        None => {
            futex_wait(word, 1, limit);
            false
        }
    }
}

/// Ends that sleep.
pub(crate) fn wake(word: &model::AtomicU32) {
    match BED.get() {
        Some(bed) => bed.event.signal(),
        None => futex_wake(word, 1),
    }
}

/// Whether the last sleep had as many alarms as there may be.
pub(super) fn were_many() -> bool {
    BED.get().is_some_and(Bed::is_full)
}

impl Bed {
    fn new() -> io::Result<Bed> {
        let set = Own::new(raised(|| epoll::create(epoll::CreateFlags::CLOEXEC))?);
        let event = Event::new()?;
        epoll::add(&set, event.as_fd(), EventData::new_u64(EVENT), EventFlags::IN)?;
        Ok(Bed { set, event, alarms: AtomicU32::new(0) })
    }

    fn wait(&self, limit: Option<Duration>) -> bool {
        self.alarms.store(0, Relaxed);
        let mut room = [const { MaybeUninit::uninit() }; 8];
        let ns = limit.map(|it| it.as_nanos() as u64);
        let events = sys::wait(self.set.as_fd(), &mut room, ns);
        if events.iter().any(|it| it.u64 == EVENT) {
            self.event.clear();
        }
        !events.is_empty()
    }

    fn is_full(&self) -> bool {
        self.alarms.load(Relaxed) >= ALARMS_MAX
    }
}

/// A worker's alarm; used by its kernel thread alone.
pub(crate) struct Alarm {
    /// Made when it is set first; `None`: it can't be made.
    timer: OnceCell<Option<Own>>,
    is_set: Cell<bool>,
}

impl Alarm {
    pub const fn new() -> Self {
        Alarm { timer: OnceCell::new(), is_set: Cell::new(false) }
    }

    /// Sets it; false: the caller has to wake the monitor itself.
    pub(super) fn set(&self) -> bool {
        BED.get().is_some_and(|bed| self.set_for(bed))
    }

    fn set_for(&self, bed: &Bed) -> bool {
        if bed.alarms.fetch_add(1, Relaxed) >= ALARMS_MAX {
            return false;
        }
        let is_set = unfiltered(|| {
            let timer = self.timer.get_or_init(|| make_timer(bed).ok()).as_ref()?;
            set_timer(timer, ALARM).ok()
        });
        self.is_set.set(is_set.is_some());
        self.is_set.get()
    }

    /// Takes it back, if it was set.
    #[inline]
    pub fn take_back(&self) {
        if self.is_set.replace(false) {
            // One that can't be taken back wakes the monitor for nothing, once.
            unfiltered(|| set_timer(self.timer.get()?.as_ref()?, Duration::ZERO).ok());
        }
    }
}

fn make_timer(bed: &Bed) -> io::Result<Own> {
    let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
    let timer = Own::new(raised(|| timerfd_create(TimerfdClockId::Monotonic, flags))?);
    // Once for each time that it was set.
    let flags = EventFlags::IN | EventFlags::ET;
    epoll::add(&bed.set, timer.as_fd(), EventData::new_u64(AN_ALARM), flags)?;
    Ok(timer)
}

/// Zero: not any more.
fn set_timer(timer: &Own, after: Duration) -> io::Result<()> {
    let none = Timespec { tv_sec: 0, tv_nsec: 0 };
    let it_value = Timespec { tv_sec: 0, tv_nsec: after.subsec_nanos().into() };
    let value = Itimerspec { it_interval: none, it_value };
    timerfd_settime(timer, TimerfdTimerFlags::empty(), &value)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Option<Duration> = Some(Duration::from_secs(20));

    #[test]
    fn an_alarm_ends_the_sleep_unless_it_is_taken_back() {
        let (bed, alarm) = (Bed::new().unwrap(), Alarm::new());
        assert!(alarm.set_for(&bed));
        assert!(bed.wait(LONG), "it is over after {ALARM:?}");
        assert!(!bed.wait(Some(2 * ALARM)), "once");
        assert!(alarm.set_for(&bed));
        alarm.take_back();
        assert!(!bed.wait(Some(4 * ALARM)), "it was taken back");
        assert!(alarm.set_for(&bed));
        std::thread::sleep(2 * ALARM);
        alarm.take_back();
        assert!(!bed.wait(Some(ALARM)), "one that is over is taken back, too");
        bed.event.signal();
        assert!(bed.wait(LONG));
        assert!(!bed.wait(Some(ALARM)), "cleared");
        for _ in 0..ALARMS_MAX {
            assert!(alarm.set_for(&bed));
        }
        assert!(bed.is_full() && !alarm.set_for(&bed));
        assert!(bed.wait(LONG), "the last one is over");
        assert!(!bed.is_full() && alarm.set_for(&bed));
    }
}
