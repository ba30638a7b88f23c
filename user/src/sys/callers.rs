//! Who has called what a thread was interrupted in, of the C library: the program, or this library.
//!
//! The library's frames are walked by its unwind tables, which are mapped with it, up to the first
//! one that is not its own. Not by the unwinder: it takes the loader's lock. In the middle of the
//! allocator, and of a fork, which takes its locks, nothing is known: this library allocates there
//! itself (`heap.rs`), and a handler of the program's that waits would wait for the very lock that
//! it has interrupted.
//!
//! Invariant: after [`prepare`], which is called before the first full thread is made, nothing here
//! allocates or takes a lock. Of memory that is not mapped for ever only the thread's own stack is
//! read, from its stack pointer up. What is not understood was not called by the program, as far as
//! the tables are right.

use core::ffi::{c_int, c_void};
use core::ops::Range;
use core::ptr::with_exposed_provenance;
use core::slice;
use std::sync::OnceLock;

use gimli::{
    BaseAddresses, CfaRule, EhFrame, EhFrameHdr, EhHdrTable, EndianSlice, NativeEndian,
    ParsedEhFrameHdr, Pointer, Register, RegisterRule, UnwindContext, UnwindContextStorage,
    UnwindSection, UnwindTableRow,
};
use heddle::raw::{self, Object};
use libc::ucontext_t;

use super::lockless::Lockless;
use super::{heap, stdio};
use crate::threads::libraries;

/// Frames that are walked at most.
const FRAMES_MAX: u32 = 64;
/// Registers of a frame that have a place on the stack, and states that a table's rows keep.
const RULES_MAX: usize = 32;
const STATES_MAX: usize = 4;
const PAGE: usize = 4096;

type Bytes = EndianSlice<'static, NativeEndian>;

// SAFETY: the loader's function, whose address alone is used.
unsafe extern "C" {
    fn __tls_get_addr();
}

#[cfg(target_arch = "x86_64")]
mod machine {
    /// The numbers that the tables have for the stack pointer and the return address.
    pub const SP: usize = 7;
    pub const RETURN: usize = 16;
    pub const COUNT: usize = 17;
}

#[cfg(target_arch = "aarch64")]
mod machine {
    pub const SP: usize = 31;
    pub const RETURN: usize = 30;
    pub const COUNT: usize = 32;
}

use machine::{COUNT, RETURN, SP};

/// A library's code and its unwind tables.
struct Library {
    text: Range<usize>,
    header: ParsedEhFrameHdr<Bytes>,
    frames: EhFrame<Bytes>,
    bases: BaseAddresses,
}

struct Known {
    c_library: Library,
    /// The C library's allocator.
    allocator: Range<usize>,
    /// Its `fork`, which has all of the allocator's locks while it copies the process.
    fork: usize,
    loader: Option<Library>,
    lockless: Lockless,
    /// This library and others of heddle's, and their functions that the C library calls, or that
    /// call it, and hold nothing meanwhile.
    own: Vec<(Library, Vec<usize>)>,
}

static KNOWN: OnceLock<Known> = OnceLock::new();

/// Finds out where they lie.
pub fn prepare() {
    if let Some(known) = Known::find() {
        let _ = KNOWN.set(known);
    }
}

/// Whether that is an address of the C library's code.
pub fn is_of_library(address: usize) -> bool {
    KNOWN.get().is_some_and(|known| known.c_library.text.contains(&address))
}

/// What is known of code that was interrupted in the C library.
#[derive(Clone, Copy, Default)]
pub struct Found {
    /// The program has called it.
    pub is_program: bool,
    /// And what it has called there holds nothing that others could wait for (`lockless.rs`): the
    /// thread is as in the program's own code.
    pub holds_nothing: bool,
}

/// Whether code is in the C library that the program has called; not so where that is not known.
/// Where it `waits` for a lock that has no allocator's, it may be in the loader and in a fork, too:
/// who has that lock may be stopped there.
///
/// # Safety
/// 1. `context` is what the kernel passed to a handler, which has not returned.
/// 2. It has interrupted a thread on its own stack, which ends at `top`.
pub unsafe fn look(context: *mut c_void, top: usize, waits: bool) -> Found {
    let Some(known) = KNOWN.get() else { return Found::default() };
    // SAFETY: by 1.
    let mut frame = unsafe { Frame::interrupted(&*context.cast(), top) };
    let mut called = 0;
    for _ in 0..FRAMES_MAX {
        // SAFETY: by 2.
        match unsafe { known.caller(&frame, waits) } {
            Caller::Frame(function, caller) => (called, frame) = (function, caller),
            Caller::Program => {
                return Found { is_program: true, holds_nothing: known.lockless.has(called) };
            }
            Caller::Unknown => break,
        }
    }
    Found::default()
}

/// What a frame's caller is.
enum Caller {
    /// And where the function begins that it has called.
    Frame(usize, Frame),
    /// The frame is the program's itself.
    Program,
    Unknown,
}

impl Known {
    fn find() -> Option<Known> {
        let allocator = heap::text();
        let c_library = Library::find(allocator.start.midpoint(allocator.end))?;
        // The first name is nobody else's.
        let fork = [c"__libc_fork", c"fork"].map(|name| {
            // SAFETY: a text.
            unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) as usize }
        });
        let fork = fork.into_iter().find(|&address| address != 0)?;
        let loader = Library::find(__tls_get_addr as *const () as usize);
        let own = Library::find(prepare as *const () as usize)?;
        let between = stdio::between().into_iter().chain(libraries::between());
        let mut own = vec![(own, between.collect())];
        // The other library's, if it is here: it waits for the loader's lock before all else.
        let close = libc::dlclose as *const () as usize;
        let other = Library::find(close).filter(|it| it.text != c_library.text);
        own.extend(other.filter(|_| raw::is_guarded(close)).map(|it| (it, vec![close])));
        let lockless = Lockless::find(|start| c_library.end_of(start));
        Some(Known { c_library, allocator, fork, loader, lockless, own })
    }

    /// # Safety
    /// As [`Frame::word`].
    unsafe fn caller(&self, frame: &Frame, waits: bool) -> Caller {
        let place = frame.place();
        let has_place = |library: &Library| library.text.contains(&place);
        let own = self.own.iter().find(|(own, _)| has_place(own) && !frame.is_interrupted);
        let loader = self.loader.as_ref().filter(|it| waits && has_place(it));
        let library = own.map(|(own, _)| own).or(loader).unwrap_or(&self.c_library);
        if !library.text.contains(&place) {
            // Else what comes before the C library, or the loader's; or no code: some of the C
            // library's functions are written by hand, and have no tables.
            let is_code = place >= PAGE && !(frame.registers[SP]..frame.top).contains(&place);
            let is_program = is_code && !raw::is_guarded(place);
            return if is_program { Caller::Program } else { Caller::Unknown };
        }
        // SAFETY: as the caller promises.
        match unsafe { library.caller(frame) } {
            Some((function, caller))
                if !self.allocator.contains(&place)
                    && (function != self.fork || waits)
                    && own.is_none_or(|(_, between)| between.contains(&function)) =>
            {
                Caller::Frame(function, caller)
            }
            _ => Caller::Unknown,
        }
    }
}

/// What a function's registers are, as far as is known.
struct Frame {
    registers: [usize; COUNT],
    /// Where it goes on.
    ip: usize,
    /// It was interrupted there; else it has made a call.
    is_interrupted: bool,
    top: usize,
}

impl Frame {
    #[cfg(target_arch = "x86_64")]
    fn interrupted(context: &ucontext_t, top: usize) -> Self {
        /// The kernel's places of the registers, by the tables' numbers.
        const PLACES: [c_int; COUNT] = [
            libc::REG_RAX,
            libc::REG_RDX,
            libc::REG_RCX,
            libc::REG_RBX,
            libc::REG_RSI,
            libc::REG_RDI,
            libc::REG_RBP,
            libc::REG_RSP,
            libc::REG_R8,
            libc::REG_R9,
            libc::REG_R10,
            libc::REG_R11,
            libc::REG_R12,
            libc::REG_R13,
            libc::REG_R14,
            libc::REG_R15,
            libc::REG_RIP,
        ];
        let registers = PLACES.map(|place| context.uc_mcontext.gregs[place as usize] as usize);
        Frame { registers, ip: registers[RETURN], is_interrupted: true, top }
    }

    #[cfg(target_arch = "aarch64")]
    fn interrupted(context: &ucontext_t, top: usize) -> Self {
        let machine = &context.uc_mcontext;
        let mut registers = [machine.sp as usize; COUNT];
        for (register, &value) in registers.iter_mut().zip(&machine.regs) {
            *register = value as usize;
        }
        Frame { registers, ip: machine.pc as usize, is_interrupted: true, top }
    }

    /// An address of the code that it is in: a call may be the last of its function.
    fn place(&self) -> usize {
        if self.is_interrupted { self.ip } else { self.ip.wrapping_sub(1) }
    }

    /// # Safety
    /// 1. The memory from the frame's stack pointer to its `top` can be read.
    unsafe fn word(&self, at: usize) -> Option<usize> {
        let words = self.registers[SP]..=self.top.checked_sub(size_of::<usize>())?;
        let is_word = words.contains(&at) && at.is_multiple_of(size_of::<usize>());
        // SAFETY: by 1.
        is_word.then(|| unsafe { with_exposed_provenance::<usize>(at).read() })
    }
}

struct OnStack;

impl UnwindContextStorage<usize> for OnStack {
    type Rules = [(Register, RegisterRule<usize>); RULES_MAX];
    type Stack = [UnwindTableRow<usize, Self>; STATES_MAX];
}

impl Library {
    /// The one that has this address.
    fn find(within: usize) -> Option<Library> {
        let Object { text, segments, unwind_header, .. } = Object::with(within)?;
        let header = unwind_header?;
        let bases = BaseAddresses::default()
            .set_eh_frame_hdr(header.start as u64)
            .set_text(text.start as u64);
        let bytes = |range: &Range<usize>| {
            let place = with_exposed_provenance(range.start);
            // SAFETY: of a segment of a library that stays.
            EndianSlice::new(unsafe { slice::from_raw_parts(place, range.len()) }, NativeEndian)
        };
        let section = EhFrameHdr::from(bytes(&header));
        let header = section.parse(&bases, size_of::<usize>() as u8).ok()?;
        let Pointer::Direct(start) = header.eh_frame_ptr() else { return None };
        let start = start as usize;
        // Its end says nobody: its entries are found by the header.
        let end = segments.iter().find(|segment| segment.contains(&start))?.end;
        let frames = EhFrame::from(bytes(&(start..end)));
        Some(Library { text, header, frames, bases: bases.set_eh_frame(start as u64) })
    }

    /// Where the function ends that begins here, if one of this library's does.
    fn end_of(&self, start: usize) -> Option<usize> {
        let table: EhHdrTable<'_, Bytes> = self.header.table()?;
        let (frames, bases, at) = (&self.frames, &self.bases, start as u64);
        let entry = table.fde_for_address(frames, bases, at, EhFrame::cie_from_offset).ok()?;
        let is_start = self.text.contains(&start) && entry.initial_address() == at;
        is_start.then(|| start + entry.len() as usize)
    }

    /// Where the function begins that `frame` is in, of this library, and who has called it.
    ///
    /// # Safety
    /// As [`Frame::word`].
    unsafe fn caller(&self, frame: &Frame) -> Option<(usize, Frame)> {
        let place = frame.place() as u64;
        let table: EhHdrTable<'_, Bytes> = self.header.table()?;
        let entry = table
            .fde_for_address(&self.frames, &self.bases, place, EhFrame::cie_from_offset)
            .ok()?;
        if entry.is_signal_trampoline() {
            return None;
        }
        let mut context = UnwindContext::<usize, OnStack>::new_in();
        let row =
            entry.unwind_info_for_address(&self.frames, &self.bases, &mut context, place).ok()?;
        let &CfaRule::RegisterAndOffset { register, offset } = row.cfa() else { return None };
        let base = *frame.registers.get(usize::from(register.0))?;
        let address = base.wrapping_add_signed(offset as isize);
        let mut registers = frame.registers;
        for &(register, ref rule) in row.registers() {
            let Some(place) = registers.get_mut(usize::from(register.0)) else { continue };
            *place = match *rule {
                // SAFETY: as the caller promises.
                RegisterRule::Offset(offset) => unsafe {
                    frame.word(address.wrapping_add_signed(offset as isize))?
                },
                RegisterRule::SameValue => continue,
                _ => return None,
            };
        }
        registers[SP] = address;
        // What signs return addresses uses the bits that no address of a program has.
        let ip = registers[RETURN] & ((1 << 48) - 1);
        // Only a function that was interrupted may have nothing on the stack: of a processor that
        // has the return address in a register.
        let is_above = address > frame.registers[SP] || frame.is_interrupted && ip != frame.ip;
        let is_known = is_above && address <= frame.top;
        let caller = Frame { registers, ip, is_interrupted: false, top: frame.top };
        is_known.then_some((entry.initial_address() as usize, caller))
    }
}
