//! Start functions that a stripped library gives to pthread_create, read off its code.
//!
//! Invariant: only what the machine code says literally is taken: a call that goes through the
//! library's own entry for pthread_create, shortly after an instruction that loads the address of
//! a function into the third argument's register. Other machines than x86-64 give nothing.

use object::{Object, ObjectKind, ObjectSection, ObjectSymbol, RelocationTarget, SectionKind};

use super::image::Image;

/// How far before the call the argument is looked for: an argument is loaded close to its call.
const BACK_BYTES_MAX: usize = 96;
/// A library has few such calls.
const STARTS_MAX: usize = 64;

/// A section of code at its address.
struct Code<'a> {
    address: u64,
    bytes: &'a [u8],
}

impl Code<'_> {
    /// Where the four bytes at `index` lead, counted from behind them.
    fn target(&self, index: usize) -> Option<u64> {
        let bytes = self.bytes.get(index..index + 4)?.try_into().ok()?;
        let next = self.address + index as u64 + 4;
        Some(next.wrapping_add_signed(i64::from(i32::from_le_bytes(bytes))))
    }
}

/// Whether the module asks for pthread_create from elsewhere.
pub fn creates_threads(image: &Image) -> bool {
    let Ok(object) = image.object() else { return false };
    object.dynamic_symbols().any(|it| it.is_undefined() && it.name() == Ok("pthread_create"))
}

/// The addresses of the functions that are given to pthread_create.
pub fn started(image: &Image) -> Vec<u64> {
    let mut found = Vec::new();
    let Ok(object) = image.whole() else { return found };
    if image.head.machine != object::elf::EM_X86_64.0 {
        return found;
    }
    let is_fixed = object.kind() == ObjectKind::Executable;
    let slots = slots(&object);
    let sections = object.sections().filter(|section| section.kind() == SectionKind::Text);
    let code: Vec<_> = sections
        .filter_map(|it| Some(Code { address: it.address(), bytes: it.data().ok()? }))
        .collect();
    let stubs = stubs(&code, &slots);
    for section in &code {
        let mut index = 0;
        while let Some(call) = next_call(section, index, &slots, &stubs) {
            if let Some(start) = argument(section, call, &code, is_fixed)
                && !found.contains(&start)
            {
                found.push(start);
            }
            if found.len() >= STARTS_MAX {
                return found;
            }
            index = call + 1;
        }
    }
    found
}

/// The words that the loader fills with pthread_create's address.
fn slots<'a>(object: &impl Object<'a>) -> Vec<u64> {
    let names = object.dynamic_symbols().filter(|it| it.name() == Ok("pthread_create"));
    let wanted: Vec<_> = names.map(|it| it.index()).collect();
    let relocations = object.dynamic_relocations().into_iter().flatten();
    relocations
        .filter(|(_, relocation)| match relocation.target() {
            RelocationTarget::Symbol(index) => wanted.contains(&index),
            _ => false,
        })
        .map(|(address, _)| address)
        .collect()
}

/// The addresses by which code may call such a word: its entries in the linkage table, which
/// begin with nothing, a prefix, a landing pad, or both.
fn stubs(code: &[Code<'_>], slots: &[u64]) -> Vec<u64> {
    let mut stubs = Vec::new();
    for section in code {
        let mut jumps = find_pair(section.bytes, 0, [0xff, 0x25]);
        while let Some(jump) = jumps {
            if section.target(jump + 2).is_some_and(|target| slots.contains(&target)) {
                let address = section.address + jump as u64;
                stubs.extend([0, 1, 4, 5].map(|back| address.wrapping_sub(back)));
            }
            jumps = find_pair(section.bytes, jump + 1, [0xff, 0x25]);
        }
    }
    stubs
}

fn find_pair(bytes: &[u8], from: usize, pair: [u8; 2]) -> Option<usize> {
    Some(from + bytes.get(from..)?.windows(2).position(|window| window == pair)?)
}

/// The next call of a stub, or through a slot, at or behind `from`.
fn next_call(section: &Code<'_>, from: usize, slots: &[u64], stubs: &[u64]) -> Option<usize> {
    let mut index = from;
    while let Some(more) = section.bytes.get(index..)?.iter().position(|b| matches!(b, 0xe8 | 0xff))
    {
        index += more;
        let is_call = if section.bytes[index] == 0xe8 {
            section.target(index + 1).is_some_and(|target| stubs.contains(&target))
        } else {
            section.bytes.get(index + 1) == Some(&0x15)
                && section.target(index + 2).is_some_and(|target| slots.contains(&target))
        };
        if is_call {
            return Some(index);
        }
        index += 1;
    }
    None
}

/// The function that the last `lea rdx, [rip + ...]` before the call loads, or, in a program with a
/// fixed place in memory, the last `mov edx, ...`.
fn argument(section: &Code<'_>, call: usize, code: &[Code<'_>], is_fixed: bool) -> Option<u64> {
    let first = call.saturating_sub(BACK_BYTES_MAX);
    let before = &section.bytes[first..call];
    let is_code =
        |target: u64| code.iter().any(|it| target.wrapping_sub(it.address) < it.bytes.len() as u64);
    let loaded = |at: usize| match &before[at..] {
        [0x48, 0x8d, 0x15, ..] => section.target(first + at + 3),
        // Its one byte is part of other instructions, too: only with a function's address.
        [0xba, a, b, c, d, ..] if is_fixed => {
            Some(u32::from_le_bytes([*a, *b, *c, *d]).into()).filter(|&target| is_code(target))
        }
        _ => None,
    };
    (0..before.len()).rev().find_map(loaded).filter(|&target| is_code(target))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn this_program_creates_threads_and_the_c_library_does_not_ask_for_it() {
        let own = Image::open(&std::env::current_exe().expect("a path")).expect("an ELF file");
        assert!(creates_threads(&own));
        let images = super::super::needed(own, std::ffi::OsStr::new(""));
        let libc = images.iter().find(|it| it.path.ends_with("libc.so.6"));
        assert!(!creates_threads(libc.expect("the C library")));
    }

    #[test]
    fn the_call_in_a_stripped_library_gives_its_function() {
        let path = Path::new("/usr/lib/x86_64-linux-gnu/libstdc++.so.6");
        let Ok(image) = Image::open(path) else {
            eprintln!("skip: {} is not here", path.display());
            return;
        };
        let found = started(&image);
        assert!(!found.is_empty(), "std::thread's start calls pthread_create");
        // What is found lies just before the exported function that calls.
        let mut caller = None;
        image.each_symbol(|name, address, _, _| {
            if name.starts_with("_ZNSt6thread15_M_start_thread") {
                caller = caller.or(Some(address));
            }
        });
        let caller = caller.expect("an exported function");
        assert!(found.iter().any(|start| caller.abs_diff(*start) < 4096), "{found:x?} {caller:x}");
    }
}
