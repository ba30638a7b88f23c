//! What a debugger needs to find the threads of a process or of its core file: one symbol,
//! `heddle_debugger`, with addresses and layouts, which does not depend on debug information.
//!
//! Invariant: `runtime/gdb/heddle.py` reads it word by word in this order; a change of the order
//! or of the meaning of a word is a new version. Everything but the public table is private
//! memory, so a core file has it.

use core::mem::offset_of;
use core::sync::atomic::AtomicPtr;

use crate::control::{self, Control};
use crate::stack::{self, CLASS_BYTES, CLASSES};
use crate::sys::libc_tls;
use crate::worker::Worker;
use crate::{arch, lot, table};

const VERSION: usize = 2;

/// The address of a static: of a type that statics may have.
type Address = AtomicPtr<()>;

/// See the file's head. Words of the machine, in the order that the script knows.
#[repr(C)]
pub(crate) struct Debugger {
    version: usize,
    /// Where the slab's address stands.
    slab: Address,
    /// Where the number of slots that were made stands; 32 bits.
    slots_made: Address,
    /// Where the address of the table's header stands.
    table: Address,
    /// The chunks of wait nodes: addresses, each of `chunk_nodes` nodes.
    chunks: Address,
    chunk_nodes: usize,
    node_bytes: usize,
    node_address: usize,
    /// Where the bytes from a thread pointer to its block's end stand, and the mask of its
    /// alignment.
    above: Address,
    mask: Address,
    /// First instruction of each thread.
    trampoline: Address,
    control_bytes: usize,
    control_worker: usize,
    control_stack: usize,
    control_flags: usize,
    control_kind: usize,
    control_class: usize,
    control_wait: usize,
    control_deadline: usize,
    /// 32 bits; 0 = the slot is in a pool.
    control_references: usize,
    /// While it joins: whom.
    control_prev: usize,
    worker_current: usize,
    worker_tid: usize,
    worker_index: usize,
    /// Stack tops differ by this many lines of `line` bytes, by slot.
    colours: usize,
    line: usize,
    classes: [usize; CLASSES],
}

const fn address<T>(place: *const T) -> Address {
    AtomicPtr::new(place.cast_mut().cast())
}

#[used]
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals)]
static heddle_debugger: Debugger = Debugger {
    version: VERSION,
    slab: address(&raw const control::SLAB),
    slots_made: address(&raw const stack::SLOTS_MADE),
    table: address(&raw const table::HEADER),
    chunks: address(&raw const lot::nodes::CHUNKS),
    chunk_nodes: lot::nodes::CHUNK,
    node_bytes: size_of::<lot::node::Node>(),
    node_address: offset_of!(lot::node::Node, address),
    above: address(&raw const libc_tls::PLACE.above),
    mask: address(&raw const libc_tls::PLACE.mask),
    trampoline: address(arch::trampoline as *const ()),
    control_bytes: size_of::<Control>(),
    control_worker: offset_of!(Control, worker),
    control_stack: offset_of!(Control, stack),
    control_flags: offset_of!(Control, flags),
    control_kind: offset_of!(Control, kind),
    control_class: offset_of!(Control, class),
    control_wait: offset_of!(Control, wait),
    control_deadline: offset_of!(Control, deadline),
    control_references: offset_of!(Control, references),
    control_prev: offset_of!(Control, prev),
    worker_current: offset_of!(Worker, current),
    worker_tid: offset_of!(Worker, tid),
    worker_index: offset_of!(Worker, index),
    colours: stack::COLOURS as usize,
    line: stack::LINE,
    classes: CLASS_BYTES,
};
