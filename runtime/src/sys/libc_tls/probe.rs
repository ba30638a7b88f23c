//! Finds the fields of `struct pthread`, and of the libraries' TLS, that a full thread needs.
//!
//! Two kernel threads are made, one after the other, on stacks of known place and size. On each,
//! every field is found by its value: the tid by what the kernel says, the robust list as the one
//! that is empty, the stack by its address, a key by setting one, malloc's words by calling malloc.
//! What one thread finds the other has to find at the same place.
//!
//! Invariant: nothing is written to a thread but by the library's own functions.

use std::ffi::c_void;
use std::{mem, ptr};

use super::changed::{Before, KEPT, flag, kept};
use super::functions::{Close, Functions};
use super::heap::{self, Words};
use super::named::Named;
use super::wipe::{Known, Wipe};
use super::{Stack, kernel, keys, rseq};
use crate::full;
use crate::sys::memory::{self, PAGE};
use crate::sys::task;

/// Words at the start of `struct pthread` that are alike in all threads or name the thread.
const HEADER: usize = 10;
/// Where `struct __res_state` has the number of its name servers; zero = never used.
const RESOLVER_SERVERS: usize = 16;

/// A word at the start of `struct pthread`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Word {
    /// Of no interest, or set by the library.
    Left,
    /// The same in every thread.
    Constant(usize),
    /// An address inside the structure, as an offset.
    Own(usize),
}

/// Where things are: offsets into `struct pthread`, or from the thread pointer where so said.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Fields {
    header: [Word; HEADER],
    tid: usize,
    /// What the kernel clears as a thread ends, where that is not the tid; its value until then.
    cleared: Option<(usize, u32)>,
    robust: usize,
    /// Third word of the robust list's head: where its entries have their lock.
    robust_lock: isize,
    list: usize,
    pub specific: usize,
    /// The first block of keys.
    specific_block: usize,
    stack: usize,
    stack_bytes: usize,
    /// From the thread pointer; `None` where glibc registers none.
    rseq: Option<isize>,
    /// The pointer to the resolver's state, from the thread pointer; the state it names.
    resolver: Option<(isize, usize)>,
    /// From the thread pointer.
    pub heap: Words,
    /// `full::OWN`, from the thread pointer.
    pub own: isize,
    pub wipe: Wipe,
}

impl Fields {
    /// Whether everything lies in a block of this size.
    pub fn check(&self, below: usize, above: usize) -> Result<(), String> {
        let inside = |offset: isize| -(below as isize) <= offset && offset < above as isize;
        let resolver = self.resolver.map_or(0, |(pointer, _)| pointer);
        let mut offsets = self.heap.offsets.to_vec();
        offsets.extend([self.own, resolver, self.rseq.unwrap_or(0)]);
        if offsets.into_iter().all(inside) {
            return Ok(());
        }
        Err("this library was loaded too late to have static TLS".into())
    }

    /// What is not where another thread has it.
    fn differences(&self, other: &Fields) -> String {
        let robust = |it: &Fields| (it.robust, it.robust_lock);
        let keys = |it: &Fields| (it.specific, it.specific_block);
        let heap = format!("malloc's words {:?} and {:?}", self.heap, other.heap);
        let all = [
            ("the robust list", robust(self) != robust(other)),
            ("the state", self.cleared != other.cleared),
            ("the list of threads", self.list != other.list),
            ("keys", keys(self) != keys(other)),
            ("rseq", self.rseq != other.rseq),
            ("the resolver's state", self.resolver != other.resolver),
            (&heap, self.heap != other.heap),
            ("our own word", self.own != other.own),
        ];
        let differing = all.into_iter().filter(|&(_, differs)| differs).map(|(what, _)| what);
        differing.collect::<Vec<_>>().join(", ")
    }

    /// Fills the structure of a new thread, which is zero.
    ///
    /// # Safety
    /// 1. `pthread` is such a structure in a block of this library.
    pub unsafe fn fill(&self, pthread: *mut u8, stack: &Stack, tid: u32) {
        // SAFETY: by 1; each field was found inside the structure.
        unsafe {
            for (index, word) in self.header.iter().enumerate() {
                let place = pthread.cast::<usize>().add(index);
                match *word {
                    Word::Left => {}
                    Word::Constant(value) => place.write(value),
                    Word::Own(offset) => place.write(pthread as usize + offset),
                }
            }
            pthread.add(self.tid).cast::<u32>().write(tid);
            if let Some((place, state)) = self.cleared {
                pthread.add(place).cast::<u32>().write(state);
            }
            let robust = pthread.add(self.robust).cast::<usize>();
            robust.write(robust as usize);
            robust.add(1).write(self.robust_lock as usize);
            robust.sub(1).write(robust as usize);
            let list = pthread.add(self.list).cast::<*mut u8>();
            list.cast::<[*mut u8; 2]>().write([list.cast(); 2]);
            let block = pthread.add(self.specific_block);
            pthread.add(self.specific).cast::<*mut u8>().write(block);
            pthread.add(self.stack).cast::<*mut u8>().write(stack.low);
            pthread.add(self.stack_bytes).cast::<usize>().write(stack.bytes);
        }
    }

    /// Sets the C library's number of a thread; what it was.
    ///
    /// # Safety
    /// 1. `pthread` is the calling thread's structure in a block of this library.
    pub unsafe fn set_tid(&self, pthread: *mut u8, tid: u32) -> u32 {
        // SAFETY: by 1; the field was found inside the structure.
        unsafe { pthread.add(self.tid).cast::<u32>().replace(tid) }
    }

    /// Sets the libraries' variables of a new thread that point into its structure.
    ///
    /// # Safety
    /// 1. `tls` and `pthread` are of one block, filled by the library.
    pub unsafe fn fill_libraries(&self, tls: *mut u8, pthread: *mut u8) {
        // SAFETY: by 1; `check` has found these inside the block.
        unsafe {
            if let Some(area) = self.rseq {
                tls.offset(area + rseq::CPU_ID).cast::<i32>().write(rseq::NOT_REGISTERED);
            }
            if let Some((pointer, state)) = self.resolver {
                tls.offset(pointer).cast::<*mut u8>().write(pthread.add(state));
            }
        }
    }

    /// Frees what the resolver has for the calling thread, if it was used.
    ///
    /// # Safety
    /// 1. `pthread` is the calling thread's; `close` is the resolver's.
    pub unsafe fn close_resolver(&self, pthread: *mut u8, close: Option<Close>) {
        let (Some((_, state)), Some(close)) = (self.resolver, close) else { return };
        // SAFETY: by 1; the layout up to the number of servers is public.
        unsafe {
            let state = pthread.add(state);
            if state.add(RESOLVER_SERVERS).cast::<i32>().read() != 0 {
                close(state.cast());
            }
        }
    }
}

/// What one of the two threads has found; sets of places where one alone can't decide.
struct Found {
    header: [Word; HEADER],
    tid: Vec<usize>,
    stack: Vec<usize>,
    stack_bytes: Vec<usize>,
    /// What may be left when the structure is wiped, and the words of some functions: where the
    /// threads disagree there are none.
    wipe: Wipe,
    kept: [Option<isize>; KEPT],
    /// The other fields.
    fields: Fields,
}

/// The job of a probing thread.
struct Probe<'a> {
    functions: &'a Functions,
    named: Named,
    stack: usize,
    bytes: usize,
    found: Result<Found, String>,
}

/// Finds the fields.
pub(super) fn examine(functions: &Functions) -> Result<Fields, String> {
    // The library takes the block out of the stack. Sizes that no other field is likely to have.
    let block = functions.static_bytes().0.next_multiple_of(PAGE);
    let first = on_thread(functions, block + PAGE * 67)?;
    let second = on_thread(functions, block + PAGE * 71)?;
    let mut fields = Fields {
        header: agreed(&first.header, &second.header),
        tid: one_of("tid", &first.tid, &second.tid, functions.tid_described)?,
        stack: one_of("stack", &first.stack, &second.stack, None)?,
        stack_bytes: one_of("stack size", &first.stack_bytes, &second.stack_bytes, None)?,
        ..first.fields
    };
    let wipe =
        if first.wipe == second.wipe { first.wipe } else { Wipe::all(functions.pthread_bytes) };
    fields.wipe = wipe;
    let mut other = Fields { header: fields.header, wipe, ..second.fields };
    (other.tid, other.stack, other.stack_bytes) = (fields.tid, fields.stack, fields.stack_bytes);
    if fields != other {
        let what = fields.differences(&other);
        return Err(format!("two threads of the C library have different layouts: {what}"));
    }
    // A thread pointer of its own is what all of this is about.
    if cfg!(target_arch = "x86_64")
        && (fields.header[0] != Word::Own(0) || fields.header[2] != Word::Own(0))
    {
        return Err("a thread of the C library does not start with its own address".into());
    }
    fields.header[1] = Word::Left;
    for (first, second) in first.kept.into_iter().zip(second.kept) {
        if let Some(word) = first.filter(|_| first == second) {
            fields.heap.add(word);
        }
    }
    Ok(fields)
}

fn agreed(first: &[Word; HEADER], second: &[Word; HEADER]) -> [Word; HEADER] {
    std::array::from_fn(|i| if first[i] == second[i] { first[i] } else { Word::Left })
}

/// The one place that both threads have; where the library describes the field, that one.
fn one_of(
    name: &str,
    first: &[usize],
    second: &[usize],
    described: Option<usize>,
) -> Result<usize, String> {
    let mut both = first.iter().copied().filter(|place| second.contains(place));
    match (described, both.next(), both.next()) {
        (Some(place), Some(found), None) if place == found => Ok(found),
        (Some(place), Some(_), Some(_)) if first.contains(&place) && second.contains(&place) => {
            Ok(place)
        }
        (None, Some(found), None) => Ok(found),
        _ => Err(format!("the {name} of the C library's threads was not found")),
    }
}

/// How the error begins that may be another one later.
pub(super) const REFUSED: &str = "no kernel thread to look at (RLIMIT_NPROC, RLIMIT_AS)";

/// Probes on a new kernel thread with a stack of `bytes`.
fn on_thread(functions: &Functions, bytes: usize) -> Result<Found, String> {
    let refused = |error: std::io::Error| format!("{REFUSED}: {error}");
    let stack = memory::reserve(bytes).map_err(refused)?;
    // SAFETY: the reservation made above.
    unsafe { memory::commit(stack, bytes) }.map_err(refused)?;
    let found = Err("no answer".into());
    let mut probe = Probe { functions, named: Named::find(), stack: stack as usize, bytes, found };
    // SAFETY: all zero bytes are attributes to the C library; initialised before they are used.
    // The thread is joined, so it may borrow `probe`, and the stack is free afterwards.
    unsafe {
        let mut attr: libc::pthread_attr_t = mem::zeroed();
        let mut made: libc::pthread_t = 0;
        libc::pthread_attr_init(&mut attr);
        libc::pthread_attr_setstack(&mut attr, stack.cast(), bytes);
        let argument = (&raw mut probe).cast();
        let error = task::without_signals(|| libc::pthread_create(&mut made, &attr, run, argument));
        libc::pthread_attr_destroy(&mut attr);
        if error == 0 {
            libc::pthread_join(made, ptr::null_mut());
        } else {
            probe.found = Err(refused(std::io::Error::from_raw_os_error(error)));
        }
        libc::munmap(stack.cast(), bytes);
    }
    probe.found
}

extern "C" fn run(argument: *mut c_void) -> *mut c_void {
    // SAFETY: `on_thread` passed it and waits.
    let probe = unsafe { &mut *argument.cast::<Probe>() };
    let tls = crate::arch::thread_pointer() as *mut u8;
    // First of all: it watches the thread's first use of malloc.
    let heap = heap::words(tls, probe.named.segment);
    probe.found = heap.and_then(|heap| look(probe, tls, heap));
    ptr::null_mut()
}

/// Looks for everything, on the calling probing thread.
fn look(probe: &Probe, tls: *mut u8, heap: Words) -> Result<Found, String> {
    let functions = probe.functions;
    let pthread = functions.pthread_of(tls);
    let bytes = functions.pthread_bytes;
    // On x86-64 it is the last thing on the stack, on aarch64 the block's other part follows.
    let fits = |end: usize| (pthread as usize).checked_add(bytes).is_some_and(|it| it <= end);
    if !fits(probe.stack + probe.bytes) {
        return Err("the C library describes threads that are larger than they are".into());
    }
    // SAFETY: the calling thread's own structure, of that size; words of it may be anything.
    let words = unsafe { std::slice::from_raw_parts(pthread.cast::<usize>(), bytes / 8) };
    let inside = |address: usize| {
        let offset = address.wrapping_sub(pthread as usize);
        (offset < bytes).then_some(offset)
    };
    let header = std::array::from_fn(|i| match words[i] {
        0 => Word::Left,
        value => inside(value).map_or(Word::Constant(value), Word::Own),
    });
    let tid = crate::sys::task::tid() as u32;
    let all = words.iter().enumerate();
    let halves = all.flat_map(|(i, &it)| [(i * 8, it as u32), (i * 8 + 4, (it >> 32) as u32)]);
    let (specific, flag) = specific(functions, pthread)?;
    let specific_block = inside(words[specific / 8]).ok_or("keys are not where they should be")?;
    let list = list(functions, pthread)?;
    let resolver = resolver(tls, probe.named.resolver, inside);
    let is_zero = words[..list / 8].get(HEADER..).is_some_and(|it| it.iter().all(|&it| it == 0));
    let known = Known {
        keys: flag.map(|flag| {
            let values = specific_block..specific_block + keys::BLOCK_BYTES;
            (flag, [values, specific..specific + keys::BLOCKS_BYTES])
        }),
        resolver: resolver.map(|(_, state)| state),
        unused: if is_zero { HEADER * size_of::<usize>()..list } else { 0..0 },
    };
    let (robust, robust_lock) = kernel::robust(pthread, words)?;
    let fields = Fields {
        header,
        tid: 0,
        cleared: kernel::cleared(pthread, bytes, tid),
        robust,
        robust_lock,
        list,
        specific,
        specific_block,
        stack: 0,
        stack_bytes: 0,
        rseq: probe.named.rseq,
        resolver,
        heap,
        own: offset(full::own_place(), tls),
        wipe: Wipe::all(bytes),
    };
    Ok(Found {
        header,
        tid: halves.filter(|&(_, half)| half == tid).map(|(offset, _)| offset).collect(),
        stack: places(words, probe.stack),
        stack_bytes: places(words, probe.bytes),
        wipe: Wipe::new(bytes, &known),
        kept: kept(functions, tls),
        fields,
    })
}

fn places(words: &[usize], value: usize) -> Vec<usize> {
    words.iter().enumerate().filter(|&(_, &word)| word == value).map(|(i, _)| i * 8).collect()
}

fn offset(address: *const u8, tls: *mut u8) -> isize {
    (address as isize).wrapping_sub(tls as isize)
}

/// Where the library describes the link in its list of threads, if the neighbours that it names
/// name it as theirs.
fn list(functions: &Functions, pthread: *mut u8) -> Result<usize, String> {
    let offset = functions.list_described;
    if !offset.is_multiple_of(8) || offset + 2 * size_of::<usize>() > functions.pthread_bytes {
        return Err("the C library describes its list of threads in a way not known".into());
    }
    // SAFETY: inside the structure.
    let link = unsafe { pthread.add(offset) };
    // SAFETY: as above.
    let [next, before] = unsafe { link.cast::<[usize; 2]>().read() };
    // The neighbours in the list, which are threads that live or the list's head; or anything.
    let names_it = |neighbour: usize, word: usize| {
        memory::read_anywhere(neighbour).is_some_and(|words| words[word] == link as usize)
    };
    if names_it(next, 1) && names_it(before, 0) {
        return Ok(offset);
    }
    Err("the C library's list of threads is not where it says".into())
}

extern "C" fn free_value(_value: *mut c_void) {}

/// Where the library describes the blocks of keys, if a value that is set by its function turns
/// up there, and the key in its table; and the flag that says whether a value was ever set.
fn specific(functions: &Functions, pthread: *mut u8) -> Result<(usize, Option<usize>), String> {
    let specific = functions.specific_described;
    let mut key = 0;
    let expected = (&raw mut key).cast::<c_void>();
    if !specific.is_multiple_of(8) || specific + keys::BLOCKS_BYTES > functions.pthread_bytes {
        return Err("the C library describes its keys in a way that is not known".into());
    }
    // SAFETY: the place is inside the structure; the key exists between the two calls.
    let (value, known, flag) = unsafe {
        let destructor: unsafe extern "C" fn(*mut c_void) = free_value;
        if libc::pthread_key_create(&mut key, Some(destructor)) != 0 {
            return Err("no key left to look for keys".into());
        }
        let before = Before::of(pthread, functions.pthread_bytes);
        libc::pthread_setspecific(key, expected);
        let value = keys::value(pthread.add(specific), key as usize);
        let flag = flag(&before, pthread, value as usize);
        // A sequence number, and the value.
        let value = memory::read_anywhere(value as usize).map_or(0, |words| words[1]);
        let known = (*functions.keys.add(key as usize)).destructor;
        let known = known.is_some_and(|known| ptr::fn_addr_eq(known, destructor));
        libc::pthread_setspecific(key, ptr::null());
        libc::pthread_key_delete(key);
        // It stays when the value goes.
        (value, known, flag.filter(|&at| pthread.add(at).read_volatile() == 1))
    };
    if value == expected as usize && known {
        return Ok((specific, flag));
    }
    Err("the C library's keys are not where it says".into())
}

/// The pointer to the resolver's state, if it names a part of the thread's structure.
fn resolver(
    tls: *mut u8,
    pointer: Option<isize>,
    inside: impl Fn(usize) -> Option<usize>,
) -> Option<(isize, usize)> {
    // SAFETY: the calling thread's copy of a pointer.
    let state = unsafe { tls.offset(pointer?).cast::<usize>().read() };
    Some((pointer?, inside(state)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_has_to_be_found_on_both_threads_and_only_once() {
        assert_eq!(one_of("it", &[8, 16], &[16, 24], None), Ok(16));
        assert_eq!(one_of("it", &[8, 16], &[8, 16], Some(8)), Ok(8));
        assert!(one_of("it", &[8, 16], &[8, 16], None).is_err());
        assert!(one_of("it", &[8], &[16], None).is_err());
        assert!(one_of("it", &[8], &[8], Some(16)).is_err());
    }

    #[test]
    fn what_is_elsewhere_is_named() {
        let mut one = Fields {
            header: [Word::Left; HEADER],
            tid: 0,
            cleared: None,
            robust: 0,
            robust_lock: 0,
            list: 0,
            specific: 0,
            specific_block: 0,
            stack: 0,
            stack_bytes: 0,
            rseq: None,
            resolver: None,
            heap: Words::default(),
            own: 0,
            wipe: Wipe::all(8),
        };
        let other = one;
        assert_eq!(one.differences(&other), "");
        (one.robust, one.own) = (8, 16);
        assert_eq!(one.differences(&other), "the robust list, our own word");
        one.heap.add(24);
        assert!(one.differences(&other).contains("malloc's words Words { count: 1"));
    }

    #[test]
    fn what_differs_between_threads_is_left_to_the_library() {
        let mut first = [Word::Left; HEADER];
        let mut second = first;
        (first[0], second[0]) = (Word::Own(0), Word::Own(0));
        (first[1], second[1]) = (Word::Constant(4096), Word::Constant(8192));
        (first[5], second[5]) = (Word::Constant(7), Word::Constant(7));
        let header = agreed(&first, &second);
        assert_eq!(header[..2], [Word::Own(0), Word::Left]);
        assert_eq!(header[5], Word::Constant(7));
    }
}
