//! CPU time of full threads: how long each of them had its worker's kernel thread.
//!
//! Protocol:
//! 1. Where a full thread gets or leaves its worker, the worker reads the processor's counter of
//!    time. What went by since the last such moment is a stint of that thread, or a gap: the
//!    scheduler's, of light threads, of sleep.
//! 2. A stint shorter than [`LONG_NS`] counts whole, a gap without the sleep in it. At the end of
//!    a longer one, after [`SLEEPS_MAX`] sleeps and after [`SHORT_NS_MAX`] of shorter ones, the
//!    kernel is asked how much CPU time the kernel thread has had, and what is not that of the
//!    shorter ones since the last time is the stint's. So a thread is not charged while its worker
//!    waits for a CPU, or waits in the kernel for the thread. Where others take the CPU for less
//!    than a long stint, the shorter ones were too long together: so much do the next ones count
//!    less.
//! 3. While a stint goes on for longer than the monitor's tick, the monitor adds what the kernel
//!    says of the kernel thread, for those who look. The stint's end starts from the sum that the
//!    thread had before the stint, so what was added too much is gone then.
//!
//! Cost: one reading of the counter and two stores where a full thread is on either side of a
//! switch, 200 ns more for a stint of 50 us or longer and after each millisecond of shorter ones;
//! nothing as long as nobody has asked for the account ([`begin`]). Without it CPU time is counted
//! by ticks (`monitor.rs`).
//!
//! Invariant: whenever the kernel is asked, the sum of all stints and gaps of a worker is the CPU
//! time of its kernel thread, with what was counted too much, for which later ones make good.

use core::cell::Cell;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::OnceLock;

use crate::arch;
use crate::control::Control;
use crate::full;
use crate::sys::clock;
use crate::table;

/// At the end of a longer stint the kernel is asked, which takes a two hundredth of it at most.
const LONG_NS: u64 = 50_000;
/// What a worker's sleep takes of CPU time, about.
const SLEEP_COST_NS: u64 = 3_000;
/// After so much in shorter ones the kernel is asked.
const SHORT_NS_MAX: u64 = 1_000_000;
/// After so many sleeps the kernel is asked, however short the gap is.
const SLEEPS_MAX: u32 = 32;
/// How long the counter is compared with the clock before the account begins: right to a
/// thousandth. The monitor makes it better.
const COMPARED_NS: u64 = 100_000;
/// Readings of both for one comparison.
const TRIES: u32 = 4;

/// Nanoseconds of a step of the counter, times 2^32; 0: there is no account.
static STEP: AtomicU64 = AtomicU64::new(0);
/// Whether the processor has a counter that goes on evenly; else the clock is read.
static HAS_COUNTER: AtomicBool = AtomicBool::new(false);

/// One moment by the counter and by the clock.
#[derive(Clone, Copy)]
struct Moment {
    count: u64,
    ns: u64,
}

static FIRST: OnceLock<Moment> = OnceLock::new();

impl Moment {
    /// The best of some tries: the kernel thread may lose its CPU between the two readings.
    fn now() -> Moment {
        let one = |_| {
            let (before, ns, after) = (count(), clock::now_ns(), count());
            (after.wrapping_sub(before), Moment { count: before, ns })
        };
        let best = (0..TRIES).map(one).min_by_key(|&(apart, _)| apart);
        best.map_or(Moment { count: 0, ns: 0 }, |(_, moment)| moment)
    }

    /// The step, by what went by since `self`.
    fn step_until(self, now: Moment) -> Option<u64> {
        let counted = now.count.checked_sub(self.count).filter(|&it| it != 0)?;
        let step = (u128::from(now.ns.saturating_sub(self.ns)) << 32) / u128::from(counted);
        u64::try_from(step).ok().filter(|&step| step != 0)
    }
}

#[inline(always)]
fn count() -> u64 {
    if HAS_COUNTER.load(Relaxed) { arch::time_counter() } else { clock::now_ns() }
}

#[inline(always)]
fn ns_of(count: u64) -> u64 {
    ((u128::from(count) * u128::from(STEP.load(Relaxed))) >> 32) as u64
}

/// Whether there is an account.
#[inline(always)]
pub(crate) fn is_on() -> bool {
    STEP.load(Relaxed) != 0
}

/// Begins the account of full threads' CPU time, which their records show; before the first one.
pub fn begin() {
    HAS_COUNTER.store(arch::has_time_counter(), Relaxed);
    let first = *FIRST.get_or_init(Moment::now);
    let step = loop {
        let now = Moment::now();
        if now.ns.saturating_sub(first.ns) >= COMPARED_NS
            && let Some(step) = first.step_until(now)
        {
            break step;
        }
        core::hint::spin_loop();
    };
    // ORDER: Release, so that who finds the account on finds the counter chosen.
    STEP.store(step, Release);
}

/// Compares the counter with the clock again; the monitor does so now and then.
pub(crate) fn compare() {
    // ORDER: Acquire pairs with `begin`.
    if STEP.load(Acquire) != 0
        && let Some(step) = FIRST.get().and_then(|first| first.step_until(Moment::now()))
    {
        STEP.store(step, Relaxed);
    }
}

/// The account of one worker; see the file's head.
pub(crate) struct Meter {
    /// The counter when the stint or gap began.
    began: Cell<u64>,
    /// The kernel thread's CPU time when the kernel was asked last.
    asked_ns: Cell<u64>,
    /// Stints and gaps since then.
    short_ns: Cell<u64>,
    /// How much more was counted than the kernel said.
    over_ns: Cell<u64>,
    /// The counter when the worker went to sleep.
    asleep_since: Cell<u64>,
    /// How long it has slept since the last stint or gap ended.
    slept_ns: Cell<u64>,
    /// Sleeps since the kernel was asked.
    sleeps: Cell<u32>,
    /// What the thread that runs had used before its stint.
    before_ns: Cell<u64>,
}

impl Meter {
    pub const fn new() -> Self {
        Meter {
            began: Cell::new(0),
            asked_ns: Cell::new(0),
            short_ns: Cell::new(0),
            over_ns: Cell::new(0),
            asleep_since: Cell::new(0),
            slept_ns: Cell::new(0),
            sleeps: Cell::new(0),
            before_ns: Cell::new(0),
        }
    }

    /// The worker passes from one full thread to another; `None`: from or to anything else.
    #[inline]
    pub fn turn(&self, from: Option<&Control>, to: Option<&Control>) {
        let used = self.end_stint();
        if let Some(thread) = from {
            thread.record().set_cpu(self.before_ns.get() + used);
        }
        if let Some(thread) = to {
            self.before_ns.set(thread.record().cpu());
        }
    }

    /// The calling kernel thread is the worker's from now on.
    pub fn sit_down(&self) {
        self.asked_ns.set(clock::own_cpu_ns());
        self.began.set(count());
        self.short_ns.set(0);
        self.over_ns.set(0);
        self.slept_ns.set(0);
        self.sleeps.set(0);
    }

    /// The worker is about to sleep.
    #[inline]
    pub fn sleeps(&self) {
        self.asleep_since.set(if is_on() { count() } else { u64::MAX });
    }

    /// The worker has slept.
    #[inline]
    pub fn slept(&self) {
        if self.asleep_since.get() == u64::MAX {
            return;
        }
        let slept_ns = ns_of(count().saturating_sub(self.asleep_since.get()));
        // To fall asleep and to wake up is the worker's.
        self.slept_ns.set(self.slept_ns.get() + slept_ns.saturating_sub(SLEEP_COST_NS));
        self.sleeps.set(self.sleeps.get() + 1);
    }

    #[inline]
    fn end_stint(&self) -> u64 {
        let now = count();
        let passed = self.passed_until(now);
        self.began.set(now);
        let passed = passed.saturating_sub(self.slept_ns.replace(0));
        let short_ns = self.short_ns.get();
        if passed < LONG_NS && short_ns < SHORT_NS_MAX && self.sleeps.get() < SLEEPS_MAX {
            self.short_ns.set(short_ns + passed);
            return if self.over_ns.get() == 0 { passed } else { self.pay(passed) };
        }
        self.end_long(passed)
    }

    #[cold]
    #[inline(never)]
    fn end_long(&self, passed: u64) -> u64 {
        let (used, asked_ns) = self.used_of(passed);
        let since = asked_ns.saturating_sub(self.asked_ns.replace(asked_ns));
        let counted = self.over_ns.get() + self.short_ns.replace(0) + used;
        self.over_ns.set(counted.saturating_sub(since));
        self.sleeps.set(0);
        self.pay(used)
    }

    /// What is left of `used` when it makes good for what was counted too much.
    #[cold]
    fn pay(&self, used: u64) -> u64 {
        let paid = self.over_ns.get().min(used);
        self.over_ns.set(self.over_ns.get() - paid);
        used - paid
    }

    /// Nanoseconds since the stint began. Counters of two CPUs may be apart by a little.
    #[inline(always)]
    fn passed_until(&self, now: u64) -> u64 {
        ns_of(now.saturating_sub(self.began.get()))
    }

    /// What of a stint was CPU time, and the kernel thread's CPU time.
    fn used_of(&self, passed: u64) -> (u64, u64) {
        let asked_ns = clock::own_cpu_ns();
        let since = asked_ns.saturating_sub(self.asked_ns.get());
        (since.saturating_sub(self.short_ns.get()).min(passed), asked_ns)
    }

    /// What the thread that runs has used until now. It is the caller, pinned.
    fn so_far_ns(&self) -> u64 {
        let passed = self.passed_until(count());
        let used = if passed < LONG_NS { passed } else { self.used_of(passed).0 };
        self.before_ns.get() + used
    }
}

/// CPU time that the thread in this slot has used, up to the monitor's last look at it.
pub fn ns_of_slot(slot: u32) -> u64 {
    table::record(slot).cpu()
}

/// What the calling full thread has used until now; 0 for others, and without an account.
pub fn own_ns() -> u64 {
    match full::here() {
        Some(here) if is_on() && full::me().is_some() => here.worker().meter.so_far_ns(),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Mutex, MutexGuard, PoisonError};

    use super::*;

    /// Begins the account for one test after the other: each compares the counter anew, which a
    /// stint in its middle must not see.
    fn begin_alone() -> MutexGuard<'static, ()> {
        static ALONE: Mutex<()> = Mutex::new(());
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        begin();
        alone
    }

    /// Burns CPU time for about as long as asked, by the clock.
    fn compute(ns: u64) {
        let end = clock::own_cpu_ns() + ns;
        while clock::own_cpu_ns() < end {
            core::hint::spin_loop();
        }
    }

    #[test]
    fn a_stint_is_the_cpu_time_of_it() {
        let _alone = begin_alone();
        let meter = Meter::new();
        // What an emulator does meanwhile, or a hypervisor takes, counts as the thread's.
        let stint = || {
            meter.end_stint();
            compute(5_000_000);
            meter.end_stint()
        };
        let stints: Vec<_> = (0..10).map(|_| stint()).collect();
        assert!(stints.iter().all(|&used| used >= 4_900_000), "{stints:?}");
        assert!(stints.iter().any(|&used| used < 6_000_000), "{stints:?}");
        std::thread::sleep(std::time::Duration::from_millis(30));
        let slept = meter.end_stint();
        assert!(slept < 5_000_000, "sleep is no CPU time: {slept}");
        compute(10_000);
        let short = meter.end_stint();
        assert!((10_000..5_000_000).contains(&short), "{short}");
    }

    #[test]
    fn all_stints_together_are_the_kernel_threads_time() {
        let _alone = begin_alone();
        let meter = Meter::new();
        meter.end_stint();
        let first = clock::own_cpu_ns();
        let mut sum = 0;
        for round in 0..300 {
            compute(if round % 10 == 0 { 400_000 } else { 3_000 });
            sum += meter.end_stint();
        }
        compute(LONG_NS * 2);
        sum += meter.end_stint();
        let used = clock::own_cpu_ns() - first;
        assert!(sum.abs_diff(used) < used / 20, "{sum} of {used}");
    }

    /// Others have the CPU for most of each short stint.
    #[test]
    fn what_others_take_of_short_stints_is_taken_off_later_ones() {
        let _alone = begin_alone();
        let meter = Meter::new();
        meter.sit_down();
        let first = clock::own_cpu_ns();
        let mut sum = 0;
        for _ in 0..1000 {
            compute(2_000);
            meter.began.set(meter.began.get() - counts(20_000));
            sum += meter.end_stint();
        }
        let used = clock::own_cpu_ns() - first;
        assert!(sum.abs_diff(used) < used / 20 + SHORT_NS_MAX + LONG_NS, "{sum} of {used}");
    }

    fn counts(ns: u64) -> u64 {
        ((u128::from(ns) << 32) / u128::from(STEP.load(Relaxed))) as u64
    }

    /// A sleep of a worker that ends now; the gap that it lies in, and whether the kernel was
    /// asked at the gap's end.
    fn nap(meter: &Meter, ns: u64) -> (u64, bool) {
        let now = count();
        meter.began.set(now - counts(ns));
        meter.asleep_since.set(now - counts(ns));
        // Nobody's time, so that who asks is seen.
        meter.asked_ns.set(0);
        meter.slept();
        let gap = meter.end_stint();
        (gap, meter.asked_ns.get() != 0)
    }

    /// A sleep is taken out of its gap by the counter, but for what it costs; after some of them
    /// the kernel is asked how much that was.
    #[test]
    fn the_cost_of_sleeps_is_estimated_until_the_kernel_is_asked() {
        let _alone = begin_alone();
        let meter = Meter::new();
        // Some processors count in steps of tens of ns.
        let count_ns = 1_000_000_000 / counts(1_000_000_000) + 1;
        for nap_ns in [SLEEP_COST_NS / 3, 20_000, 5_000_000, 3_000_000_000] {
            meter.sleeps.set(0);
            meter.short_ns.set(0);
            meter.over_ns.set(0);
            let cost = SLEEP_COST_NS.min(nap_ns);
            let mut sum = 0;
            for number in 1..SLEEPS_MAX {
                let (gap, is_asked) = nap(&meter, nap_ns);
                // Who loses the CPU between two readings is asked for, too.
                if gap < LONG_NS {
                    assert!(!is_asked, "{number} sleeps of {nap_ns} ns");
                    assert!(gap + 2 * count_ns >= cost, "{gap} of {nap_ns} ns");
                    sum += gap;
                } else {
                    meter.sleeps.set(number);
                    meter.short_ns.set(sum);
                }
            }
            assert_eq!(meter.short_ns.get(), sum);
            assert!(sum < u64::from(SLEEPS_MAX) * LONG_NS / 2, "{sum} of {nap_ns} ns each");
            let (_, is_asked) = nap(&meter, nap_ns);
            assert!(is_asked, "after {SLEEPS_MAX} sleeps");
            assert_eq!((meter.sleeps.get(), meter.short_ns.get()), (0, 0));
        }
        // Without an account nothing is read, and nothing counted.
        meter.asleep_since.set(u64::MAX);
        meter.slept();
        assert_eq!((meter.sleeps.get(), meter.slept_ns.get()), (0, 0));
    }

    #[test]
    fn the_counter_is_compared_with_the_clock() {
        let _alone = begin_alone();
        compare();
        let before = Moment::now();
        std::thread::sleep(std::time::Duration::from_millis(20));
        let meter = Meter::new();
        meter.began.set(before.count);
        let now = Moment::now();
        let (passed, clock) = (meter.passed_until(now.count), now.ns - before.ns);
        assert!(passed.abs_diff(clock) < clock / 50 + 1_000_000, "{passed} by {clock}");
    }
}
