//! Segments of full threads: thread pointers that the processor takes from a table.
//!
//! On x86-64 `wrfsbase` begins when all before it is done, and much of what follows waits for it;
//! on an AMD EPYC that is 12 ns of each switch. There a load of the segment register is done beside
//! the instructions around it. What it loads comes from the table of the process (LDT,
//! `modify_ldt`), by the number of the thread's slot: a base of 32 bits, so the stacks of full
//! threads lie below 4 GiB as long as there is room (`stack/low.rs`).
//!
//! An entry takes a system call, which copies the table and interrupts the process's other CPUs:
//! 2 to 40 us. So a thread gets one after so many activations ([`PERIOD`]), and the slot keeps it.
//! Which of the two ways is faster is measured before the first.
//!
//! Not where a filter on system calls may end the process for one that it does not know, nor where
//! the program has entries of its own by then. And on AMD's processors alone: after a guest has run
//! KVM on Intel's loads the selector that it finds, and a thread without a segment leaves that of
//! the one before, so its thread pointer would become that one's.
//!
//! Invariant: an entry is written once. Its base is the thread pointer that all threads of the slot
//! have.

use core::ffi::{c_int, c_uint, c_void};
use core::sync::atomic::Ordering::{Relaxed, Release, SeqCst};
use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU32};

use super::{signals, task};
use crate::arch;

/// Activations after which a thread gets a segment: what they would have gained by one is about
/// what it costs to make.
pub(crate) const PERIOD: u32 = 2048;
/// So many threads have one at most: a table has 8192 entries, and is copied up to the last for
/// each new one. Of slots that are so many apart one has the entry.
const ENTRIES: usize = 4096;
/// The first entry's number: a program that makes some of its own begins with the first ones.
const FIRST: u32 = 64;
/// Of a selector: an entry of the process's own table, with the rights of user space.
const LOCAL: u64 = 1 << 2;
const USER: u64 = 3;
/// What a segment has to take at most of `wrfsbase`'s cycles, in parts of eight.
const FASTER: u64 = 6;
/// How often each way is measured.
const ROUNDS: u32 = 8;
/// How long who forbids more waits for one that is being made: tens of milliseconds.
const TURNS_TO_WAIT: u32 = 1 << 20;

const UNKNOWN: u8 = 0;
const FASTER_HERE: u8 = 1;
const NOT_USED: u8 = 2;

/// Whether they are used.
static STATE: AtomicU8 = AtomicU8::new(UNKNOWN);
/// Somebody makes an entry.
static BUSY: AtomicBool = AtomicBool::new(false);
/// The entries that the process has are made here.
static EXAMINED: AtomicBool = AtomicBool::new(false);
/// Whose each entry is: a slot's number and 1; 0: nobody's.
static OWNERS: [AtomicU32; ENTRIES] = [const { AtomicU32::new(0) }; ENTRIES];

/// `struct user_desc`.
#[repr(C)]
struct Entry {
    number: c_uint,
    base: c_uint,
    limit: c_uint,
    flags: c_uint,
}

impl Entry {
    /// `seg_32bit`, `limit_in_pages`, `useable`; `contents` 0 is data.
    const FLAGS: c_uint = 1 | 1 << 4 | 1 << 6;
    /// In pages: all 4 GiB. The processor does not look at it.
    const LIMIT: c_uint = 0xF_FFFF;
}

/// Operations of `modify_ldt`.
const READ: c_int = 0;
const WRITE: c_int = 0x11;

/// The kernel tells errors in 32 bits.
fn modify_ldt(operation: c_int, place: *mut c_void, bytes: usize) -> i32 {
    // SAFETY: the callers' places have so many bytes.
    unsafe { libc::syscall(libc::SYS_modify_ldt, operation, place, bytes) as i32 }
}

/// The runtime starts.
pub(crate) fn begin(are_wanted: bool) {
    if !are_wanted || !arch::is_amd() {
        STATE.store(NOT_USED, Relaxed);
    }
}

/// Whether there may be some.
pub(crate) fn may_be() -> bool {
    STATE.load(Relaxed) != NOT_USED
}

/// Whether the threads of `slot` have one.
#[inline(always)]
pub(crate) fn has(slot: u32) -> bool {
    OWNERS[slot as usize % ENTRIES].load(Relaxed) == slot + 1
}

/// Names the segment of `slot` to the processor.
#[inline(always)]
pub(crate) fn selector(slot: u32) -> u64 {
    selector_of(number_of(slot))
}

#[inline(always)]
fn number_of(slot: u32) -> u32 {
    slot % ENTRIES as u32 + FIRST
}

#[inline(always)]
fn selector_of(number: u32) -> u64 {
    u64::from(number) << 3 | LOCAL | USER
}

/// Makes one for `slot`, whose threads have this thread pointer; false: there is none, for now or
/// for good. The caller is between two threads: nothing here waits, or touches what is a thread's.
#[cold]
pub(crate) fn make(slot: u32, pointer: *mut u8) -> bool {
    let Ok(base) = u32::try_from(pointer.addr()) else { return false };
    let owner = &OWNERS[slot as usize % ENTRIES];
    let is_free = STATE.load(Relaxed) != NOT_USED && owner.load(Relaxed) == 0;
    if !is_free || BUSY.swap(true, SeqCst) {
        return false;
    }
    let errno = signals::errno();
    // ORDER: SeqCst: what says that somebody is here before the look at the state; pairs with
    // `stop`, which does it the other way round.
    if STATE.load(SeqCst) == UNKNOWN {
        let state = if examine().is_ok_and(is_faster) { FASTER_HERE } else { NOT_USED };
        // It may have been stopped meanwhile.
        let _ = STATE.compare_exchange(UNKNOWN, state, SeqCst, SeqCst);
    }
    let is_made = STATE.load(SeqCst) == FASTER_HERE
        && owner.load(Relaxed) == 0
        && !is_filtered()
        && write(number_of(slot), base);
    if is_made {
        owner.store(slot + 1, Relaxed);
    }
    signals::set_errno(errno);
    // ORDER: Release: the entry is there; pairs with the next one's swap, and the load in `stop`.
    BUSY.store(false, Release);
    is_made
}

/// No more are made: the program is about to filter system calls.
pub(crate) fn stop() {
    // ORDER: SeqCst: see `make`.
    STATE.swap(NOT_USED, SeqCst);
    // Not for ever: in a child that was made without the C library's knowledge (`_Fork`, `clone`)
    // who made an entry is not there.
    for _ in 0..TURNS_TO_WAIT {
        if !BUSY.load(SeqCst) {
            return;
        }
        arch::relax();
    }
}

/// In a forked child: who made an entry is not here.
pub(crate) fn in_child() {
    BUSY.store(false, Relaxed);
}

/// Cycles of the same piece of code with `wrfsbase` and with a segment, or why there can be none.
pub(crate) fn examine() -> Result<[u64; 2], &'static str> {
    let mut table = 0u64;
    if !arch::is_amd() {
        return Err("not with this processor");
    }
    if is_filtered() {
        return Err("system calls are filtered");
    }
    match modify_ldt(READ, (&raw mut table).cast(), size_of_val(&table)) {
        1.. if !EXAMINED.load(Relaxed) => return Err("the program has segments of its own"),
        0.. => EXAMINED.store(true, Relaxed),
        _ => return Err("the kernel makes none (modify_ldt)"),
    }
    // Nothing is read there.
    if !write(FIRST - 1, 0) {
        return Err("the kernel's are not found");
    }
    let all = task::mask_all();
    let mut least = [u64::MAX; 2];
    for _ in 0..ROUNDS {
        // SAFETY: `write` found it; full threads exist, so there is FSGSBASE; no signals come.
        let cycles = unsafe { arch::cycles_to_set(selector_of(FIRST - 1)) };
        least = [0, 1].map(|way| least[way].min(cycles[way]));
    }
    task::unmask(all);
    Ok(least.map(|cycles| cycles / arch::TURNS_TO_SET))
}

/// Whether the calling kernel thread's system calls are: those of a worker that a thread with a
/// filter has made, too.
fn is_filtered() -> bool {
    // SAFETY: no pointers.
    unsafe { libc::prctl(libc::PR_GET_SECCOMP) != 0 }
}

/// Whether a segment is worth its system call.
pub(crate) fn is_faster([by_instruction, by_segment]: [u64; 2]) -> bool {
    by_segment * 8 <= by_instruction * FASTER
}

fn write(number: u32, base: u32) -> bool {
    let mut entry = Entry { number, base, limit: Entry::LIMIT, flags: Entry::FLAGS };
    // An emulator may agree and do nothing.
    modify_ldt(WRITE, (&raw mut entry).cast(), size_of::<Entry>()) == 0
        && arch::has_segment(selector_of(number))
}

#[cfg(test)]
mod tests {
    use core::cell::Cell;

    use super::*;
    use crate::thread::{Builder, yield_now};

    thread_local! {
        static TURN: Cell<u32> = const { Cell::new(0) };
    }

    #[test]
    fn threads_that_switch_often_get_one_and_keep_what_is_theirs() {
        if crate::raw::is_native().is_ok_and(|is_native| is_native) {
            return eprintln!("skip: kernel threads are the kernel's to switch");
        }
        // Who is alone on its worker does not switch.
        static IS_OVER: AtomicBool = AtomicBool::new(false);
        let body = || {
            let me = crate::sched::current();
            let mut turn = 0;
            while me.switches.get() < 3 * PERIOD && !IS_OVER.load(Relaxed) {
                assert_eq!(TURN.replace(turn + 1), turn);
                turn += 1;
                yield_now();
            }
            IS_OVER.store(true, Relaxed);
            has(me.slot())
        };
        // Of a size that no light thread of another test has had before: such lie anywhere.
        let builder = Builder::new().stack_size(4 << 20).full();
        let count = crate::runtime::get_or_start().crowd();
        let threads: Result<Vec<_>, _> = (0..count).map(|_| builder.clone().spawn(body)).collect();
        let Ok(threads) = threads else { return eprintln!("skip: no full threads here") };
        let made = threads.into_iter().map(|thread| thread.join().expect("no panic"));
        let made = made.filter(|made| *made).count();
        let state = STATE.load(Relaxed);
        assert_ne!(state, UNKNOWN);
        // Another thread may have been at it each time.
        assert_eq!(made != 0, state == FASTER_HERE);
        if state == NOT_USED {
            eprintln!("skip: wrfsbase is as fast here, or there are no segments");
        }
    }

    #[test]
    fn a_slot_without_an_entry_has_none() {
        assert!(!has(crate::control::SLOTS_MAX));
        assert!(!make(0, core::ptr::without_provenance_mut(1 << 32)));
        assert!(!arch::has_segment(selector_of(FIRST - 2)));
    }
}
