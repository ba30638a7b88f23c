//! From a place in a program to its name and its line.
//!
//! Invariants
//! - A file that is not the module that ran (another build-id) is not asked.
//! - Each file is opened once and each table read once, and only when something is asked of it.

use std::cell::OnceCell;
use std::collections::HashMap;
use std::path::Path;
use std::rc::Rc;

use addr2line::Loader;
use heddle_record::CodePlace;
use object::{Object, ObjectSymbol, RelocationTarget};

use super::debug;
use super::image::{Image, Place};
use super::names::demangle;
use super::trampoline::{callable, is_trampoline, proxied, threads_of};

/// Slots of Rust's tables of functions before the methods: drop, size, align.
const RUST_SLOTS: u64 = 3;

/// What a start function is called, and where it is written.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Named {
    /// What runs; none if only the place is known.
    pub function: Option<String>,
    /// "module+0xOFFSET".
    pub place: String,
    /// What such threads are called if the function starts many kinds.
    pub species: Option<&'static str>,
    /// "file:line" of the function.
    pub source: Option<String>,
}

/// The modules that were asked for so far.
#[derive(Default)]
pub struct Symbols {
    modules: HashMap<(String, Option<String>), Option<Rc<Module>>>,
}

/// A function or an object.
struct Symbol {
    address: u64,
    size: u64,
    name: String,
}

struct Module {
    image: Image,
    /// The file with the symbols that were split off.
    apart: OnceCell<Option<Image>>,
    symbols: OnceCell<Vec<Place>>,
    lines: OnceCell<Option<Loader>>,
    /// Where the loader writes addresses, and which.
    relocations: OnceCell<Vec<(u64, u64)>>,
}

impl Symbols {
    /// What a thread runs that begins at `start`, or, where that starts others, at what `refine`
    /// leads to.
    pub fn name(&mut self, start: &CodePlace, refine: Option<&CodePlace>) -> Named {
        self.named(start, refine, true)
    }

    /// As [`Symbols::name`], only what runs: where it is written takes longer to find, as all names
    /// of its module may have to be read for that.
    pub fn function(&mut self, start: &CodePlace, refine: Option<&CodePlace>) -> Option<String> {
        self.named(start, refine, false).function
    }

    fn named(&mut self, start: &CodePlace, refine: Option<&CodePlace>, sourced: bool) -> Named {
        if let Some(refine) = refine {
            let module = self.module(refine);
            let refined = module.as_ref().and_then(|module| module.refined(refine.offset));
            let Some((name, code)) = refined else {
                return Named { place: place(refine), ..Named::default() };
            };
            let module = module.filter(|_| sourced);
            let source = module.and_then(|module| module.source_of_callable(&name, code?));
            // A function that is not known to start others is what runs, with what it is given.
            let starter = self.module(start).and_then(|module| module.own_function(start.offset));
            let function = starter.map_or(name.clone(), |starter| format!("{starter} ({name})"));
            return Named { function: Some(function), species: None, place: place(refine), source };
        }
        let module = self.module(start);
        let symbol = module.as_ref().and_then(|module| module.function(start.offset));
        let species = symbol.as_ref().and_then(|symbol| threads_of(&symbol.name));
        let function = symbol.map(|symbol| {
            let name = demangle(&symbol.name);
            proxied(&name).map(str::to_owned).unwrap_or(name)
        });
        let source = module.filter(|_| sourced).and_then(|module| module.line(start.offset));
        Named { function, species, place: place(start), source }
    }

    /// "file:line" of the call that returns to `site`.
    pub fn line_of_call(&mut self, site: &CodePlace) -> Option<String> {
        self.module(site)?.line(site.offset.checked_sub(1)?)
    }

    fn module(&mut self, place: &CodePlace) -> Option<Rc<Module>> {
        let key = (place.path.clone(), place.build_id.clone());
        self.modules.entry(key).or_insert_with(|| open(place).map(Rc::new)).clone()
    }
}

/// The module of a place, if its file is still the same.
fn open(place: &CodePlace) -> Option<Module> {
    let image = Image::open(Path::new(&place.path))
        .ok()
        .filter(|image| place.build_id.is_none() || image.head.build_id == place.build_id);
    // A library that an upgrade replaced may live on in its debug file.
    let image = image.or_else(|| debug::by_id(place.build_id.as_deref()?))?;
    Some(Module {
        image,
        apart: OnceCell::new(),
        symbols: OnceCell::new(),
        lines: OnceCell::new(),
        relocations: OnceCell::new(),
    })
}

fn place(start: &CodePlace) -> String {
    let name = Path::new(&start.path).file_name().unwrap_or_default().to_string_lossy();
    let name = if name.is_empty() { "?".into() } else { name };
    format!("{name}+{:#x}", start.offset)
}

impl Module {
    /// The file with the symbols: itself, or the one to which they were split off.
    fn named(&self) -> &Image {
        let find = || {
            let has_own = self.image.object().is_ok_and(|it| it.symbols().next().is_some());
            let path = debug::file_of(&self.image).filter(|_| !has_own)?;
            Image::open(&path).ok()
        };
        self.apart.get_or_init(find).as_ref().unwrap_or(&self.image)
    }

    fn places(&self) -> &[Place] {
        self.symbols.get_or_init(|| self.named().places())
    }

    /// The symbol that covers an address. Of several the one with a size, then the first by name.
    fn symbol(&self, address: u64, functions: bool) -> Option<Symbol> {
        let places = self.places();
        let end = places.partition_point(|it| it.address <= address);
        // A zero size stands for "up to the next symbol": assembly only.
        let covers = |it: &&Place| {
            it.is_function == functions
                && (address - it.address < it.size || (it.size == 0 && it.address == address))
        };
        // Symbols that cover the address lie close before it, as functions do not nest.
        const NEAR: usize = 128;
        let near = &places[end.saturating_sub(NEAR)..end];
        let best = near.iter().rev().find(covers)?;
        let same = near.iter().filter(|it| it.address == best.address && covers(it));
        let symbols = same.filter_map(|it| {
            let name = self.named().name_of(it).filter(|name| !name.is_empty())?;
            Some(Symbol { address: it.address, size: it.size, name })
        });
        symbols.min_by(|one, other| one.name.cmp(&other.name))
    }

    /// The name of a function that is no trampoline.
    fn own_function(&self, address: u64) -> Option<String> {
        let symbol = self.function(address)?;
        is_trampoline(&symbol.name).is_none().then(|| demangle(&symbol.name))
    }

    fn function(&self, address: u64) -> Option<Symbol> {
        self.symbol(address, true)
    }

    /// What the refining word leads to: a function's name and address, or the name of what a
    /// table of functions belongs to.
    fn refined(&self, address: u64) -> Option<(String, Option<u64>)> {
        if let Some(symbol) = self.function(address) {
            return Some((demangle(&symbol.name), Some(symbol.address)));
        }
        let word = if self.image.head.is_64 { 8 } else { 4 };
        if let Some(symbol) = self.symbol(address, false)
            && symbol.name.starts_with("_ZTV")
        {
            // C++: the function that runs is the third virtual one, after two destructors.
            let code = self.word_at(address + 2 * word);
            return Some((callable(&demangle(&symbol.name)), code));
        }
        if let Some(drop) = self.word_at(address)
            && let Some(symbol) = self.function(drop)
        {
            let name = demangle(&symbol.name);
            if name.contains("drop_in_place") {
                let code = self.word_at(address + RUST_SLOTS * word);
                return Some((callable(&name), code));
            }
        }
        // A stripped C++ program keeps the names of its types.
        let information = self.word_at(address.checked_sub(word)?)?;
        let name = self.image.text(self.word_at(information + word)?)?;
        let mangled = format!("_ZTS{}", name.trim_start_matches('*'));
        let demangled = demangle(&mangled);
        let known = demangled != mangled;
        known.then(|| (callable(&demangled), self.word_at(address + 2 * word)))
    }

    /// The address that a word of the module holds once it is loaded.
    fn word_at(&self, address: u64) -> Option<u64> {
        let relocations = self.relocations.get_or_init(|| relocations(&self.image));
        let end = relocations.partition_point(|&(at, _)| at <= address);
        if let Some(&(_, value)) = relocations[..end].last().filter(|&&(at, _)| at == address) {
            return Some(value);
        }
        let bytes = self.image.bytes(address, if self.image.head.is_64 { 8 } else { 4 })?;
        let mut word = [0; 8];
        word[..bytes.len()].copy_from_slice(&bytes);
        Some(u64::from_le_bytes(word)).filter(|value| *value != 0)
    }

    /// Where a callable is written that a table of functions calls from `code`: the callable's own
    /// function, or, where that was made part of the caller, its first line there.
    fn source_of_callable(&self, name: &str, code: u64) -> Option<String> {
        let own = [name.to_owned(), format!("{name}::operator()")];
        // Demangling is slow: only what holds the longest word of the name can be it.
        let words = name.split(|c: char| !c.is_alphanumeric() && c != '_');
        let written = words.filter(|it| !["lambda", "closure", "void", "std"].contains(it));
        let word = written.max_by_key(|it| it.len()).unwrap_or("");
        let mut same = Vec::new();
        if !name.contains("(*)") {
            self.named().each_symbol(|symbol, address, _, is_function| {
                if is_function
                    && symbol.starts_with('_')
                    && symbol.contains(word)
                    && own.contains(&demangle(symbol))
                    && !same.contains(&address)
                {
                    same.push(address);
                }
            });
        }
        if let [only] = same[..] {
            return self.line(only);
        }
        let is_foreign = |file: &str| file.starts_with("/rustc/") || file.starts_with("/usr/");
        let end = code + self.function(code)?.size;
        let lines = self.lines()?;
        let found = lines.find_location_range(code, end).ok()?.find_map(|(_, _, location)| {
            let (file, line) = (location.file?, location.line?);
            (line > 0 && !is_foreign(file) && !file.starts_with("library/"))
                .then(|| format!("{file}:{line}"))
        });
        found.or_else(|| self.line(code))
    }

    fn lines(&self) -> Option<&Loader> {
        let open = || Loader::new(debug::file_of(&self.image)?).ok();
        self.lines.get_or_init(open).as_ref()
    }

    /// "file:line" of the code at an address.
    fn line(&self, address: u64) -> Option<String> {
        let location = self.lines()?.find_location(address).ok()??;
        Some(format!("{}:{}", location.file?, location.line?))
    }
}

/// What the loader writes where, for addresses within the module: in the order of the places, of
/// which a large library has half a million, the last of one that is there twice.
pub fn relocations(image: &Image) -> Vec<(u64, u64)> {
    let mut found = Vec::new();
    let Ok(object) = image.object() else { return found };
    let mut addresses = Vec::new();
    for symbol in object.dynamic_symbols() {
        addresses.resize(symbol.index().0 + 1, 0);
        addresses[symbol.index().0] = symbol.address();
    }
    for (at, relocation) in object.dynamic_relocations().into_iter().flatten() {
        let base = match relocation.target() {
            RelocationTarget::Absolute => 0,
            RelocationTarget::Symbol(index) => addresses.get(index.0).copied().unwrap_or(0),
            _ => continue,
        };
        let value = base.wrapping_add_signed(relocation.addend());
        // With an implicit addend (i386) the word itself holds it.
        if value != 0 {
            found.push((at, value));
        }
    }
    found.sort_by_key(|&(at, _)| at);
    found
}
