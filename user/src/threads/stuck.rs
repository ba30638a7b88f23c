//! What threads wait for, in words: for the report of a deadlock.
//!
//! A wait is marked with the call that it is of; all else stands in the object. The runtime asks
//! when all threads sleep for good, so nothing that is read here changes; and of some that may wait
//! for each other while others go on: what is read of them counts if they still wait then.
//!
//! Invariant: nothing here faults. A program may have given back the memory of what it waits for,
//! and waits on; so the object is read as the kernel would read it.

use core::fmt::{Result, Write};
use core::mem::offset_of;
use core::ptr::with_exposed_provenance;

use heddle::raw::{self, Explain, Holder, Place, Waited};

use super::{NUMBER_FIRST, Pthread, is_number};
use crate::sync::{mutex, rwlock};
use crate::sys::own_memory;

/// What a thread waits in: `Manner::what`.
#[repr(u32)]
#[derive(Clone, Copy)]
pub enum Call {
    Mutex = 1,
    Condition,
    Read,
    Write,
    Semaphore,
    Barrier,
    Once,
    Join,
    JoinKernel,
    JoinMain,
}

/// `Waited::what` of a call.
const MUTEX: u32 = Call::Mutex as u32;
const CONDITION: u32 = Call::Condition as u32;
const READ: u32 = Call::Read as u32;
const WRITE: u32 = Call::Write as u32;
const SEMAPHORE: u32 = Call::Semaphore as u32;
const BARRIER: u32 = Call::Barrier as u32;
const ONCE: u32 = Call::Once as u32;
const JOIN: u32 = Call::Join as u32;
const JOIN_KERNEL: u32 = Call::JoinKernel as u32;
const JOIN_MAIN: u32 = Call::JoinMain as u32;

/// What the runtime asks for.
pub const EXPLAIN: Explain = Explain { describe, can_be_held, holder };

/// Whether one thread may hold what is waited for.
fn can_be_held(waited: &Waited) -> bool {
    match waited.what {
        MUTEX | READ | WRITE | JOIN | JOIN_MAIN => true,
        CONDITION => waited.address == waited.then,
        _ => false,
    }
}

/// Which one does.
fn holder(waited: &Waited) -> Option<Holder> {
    let address = waited.address;
    let written = |lock: usize| match rwlock::held(lock) {
        Ok(rwlock::Held::Written(by)) => of_mark(by),
        _ => None,
    };
    match waited.what {
        MUTEX | CONDITION => {
            let owner = with_exposed_provenance::<u64>(address + mutex::OWNER_AT);
            own_memory::read(owner).ok().and_then(of_mark)
        }
        READ => written(address),
        WRITE => written(address - rwlock::WRITERS_AT),
        JOIN => Some(Holder::Slot(joined(address).slot(), None)),
        JOIN_MAIN => Some(Holder::KernelThread(main_id())),
        _ => None,
    }
}

/// The kernel's id of the main thread.
fn main_id() -> i32 {
    std::process::id() as i32
}

/// 0 = nobody.
fn of_mark(mark: u64) -> Option<Holder> {
    let (number, generation) = (mark as u32, (mark >> 32) as u32);
    match is_number(number as i32) {
        true => Some(Holder::Slot(number - NUMBER_FIRST, Some(generation))),
        false => (number != 0).then_some(Holder::KernelThread(number as i32)),
    }
}

/// Whom a thread joins that waits at `address`.
fn joined<'a>(address: usize) -> &'a Pthread {
    let target: *const Pthread = with_exposed_provenance(address - offset_of!(Pthread, state));
    // SAFETY: it stays until it is joined, which is what the waiter does; and the slabs and stacks
    // in which it lies stay.
    unsafe { &*target }
}

/// Says what a thread waits for.
fn describe(waited: &Waited, out: &mut dyn Write) -> Result {
    let address = waited.address;
    match waited.what {
        MUTEX => {
            write!(out, "pthread_mutex_lock of {}", Place(address))?;
            name_owner(address, out)
        }
        CONDITION if address == waited.then => {
            write!(out, "pthread_cond_wait, for the mutex {}", Place(address))?;
            name_owner(address, out)
        }
        CONDITION => write!(out, "pthread_cond_wait of {}", Place(address)),
        READ => {
            write!(out, "pthread_rwlock_rdlock of {}", Place(address))?;
            name_writer(address, out)
        }
        WRITE => {
            let lock = address - rwlock::WRITERS_AT;
            write!(out, "pthread_rwlock_wrlock of {}", Place(lock))?;
            name_writer(lock, out)
        }
        SEMAPHORE => write!(out, "sem_wait of {}", Place(address)),
        BARRIER => {
            // Of its words two are waited for; both lie in the first eight bytes.
            let barrier = address & !(align_of::<libc::pthread_barrier_t>() - 1);
            write!(out, "pthread_barrier_wait of {}", Place(barrier))
        }
        ONCE => write!(out, "pthread_once of {}", Place(address)),
        JOIN => {
            write!(out, "pthread_join of ")?;
            raw::name_slot(joined(address).slot(), out)
        }
        JOIN_MAIN => {
            write!(out, "pthread_join of ")?;
            raw::name_kernel_thread(main_id(), out)
        }
        JOIN_KERNEL => write!(out, "pthread_join of a kernel thread"),
        _ => write!(out, "a call, for {}", Place(address)),
    }
}

/// Of an object whose memory the program has given back.
const GONE: &str = ", whose memory is gone";

fn name_owner(mutex: usize, out: &mut dyn Write) -> Result {
    match own_memory::read(with_exposed_provenance::<u64>(mutex + mutex::OWNER_AT)) {
        Ok(0) => Ok(()),
        Ok(owner) => name(", held by ", owner, out),
        Err(_) => write!(out, "{GONE}"),
    }
}

fn name_writer(lock: usize, out: &mut dyn Write) -> Result {
    match rwlock::held(lock) {
        Ok(rwlock::Held::Read(count)) => write!(out, ", read by {count}"),
        Ok(rwlock::Held::Written(by)) => name(", written by ", by, out),
        Err(_) => write!(out, "{GONE}"),
    }
}

fn name(how: &str, mark: u64, out: &mut dyn Write) -> Result {
    match of_mark(mark) {
        None => Ok(()),
        Some(Holder::KernelThread(tid)) => {
            write!(out, "{how}")?;
            raw::name_kernel_thread(tid, out)
        }
        Some(Holder::Slot(slot, generation)) => {
            write!(out, "{how}")?;
            raw::name_slot_of(slot, generation.unwrap_or_default(), out)
        }
    }
}
