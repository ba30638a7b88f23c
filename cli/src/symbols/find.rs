//! From names to places: which functions of a program and its libraries a policy means, and which
//! of them are trampolines.
//!
//! Invariant: what is found is complete for the files that the program is loaded with; libraries
//! that it opens later are not searched.

use std::cell::OnceCell;
use std::path::Path;

use heddle_record::CodePlace;
use object::{Object, ObjectSection};

use super::image::Image;
use super::names::{demangle, demangle_whole};
use super::resolve::relocations;
use super::trampoline::{self, Trampoline, callable, is_trampoline};
use super::{cache, calls};

/// The files of a program, to be searched.
pub struct Finder {
    images: Vec<Image>,
    trampolines: OnceCell<Vec<(CodePlace, Trampoline)>>,
}

/// A function by name: what picks it, and the longest part of that which every name must have.
pub struct Wanted<'a> {
    literal: &'a str,
    fits: &'a dyn Fn(&str) -> bool,
}

impl<'a> Wanted<'a> {
    /// `text` is the pattern that `fits` tests names with.
    pub fn new(text: &'a str, fits: &'a dyn Fn(&str) -> bool) -> Wanted<'a> {
        let is_outside = |c: char| !c.is_alphanumeric() && c != '_';
        let literal = text.split(is_outside).max_by_key(|part| part.len()).unwrap_or("");
        // A class of characters is no literal.
        Wanted { literal: if text.contains('[') { "" } else { literal }, fits }
    }

    /// Whether the name of a symbol fits as it is, demangled, or demangled with its parameters.
    fn takes(&self, symbol: &str) -> bool {
        symbol.contains(self.literal)
            && ((self.fits)(symbol)
                || (symbol.starts_with('_')
                    && ((self.fits)(&demangle(symbol)) || (self.fits)(&demangle_whole(symbol)))))
    }

    fn takes_callable(&self, symbol: &str) -> bool {
        symbol.contains(self.literal) && (self.fits)(&callable(&demangle(symbol)))
    }
}

/// A kind of thread that a name means.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Found {
    /// Index of the [`Wanted`].
    pub wanted: usize,
    pub start: CodePlace,
    pub refine: Option<CodePlace>,
}

impl Finder {
    pub fn new(images: Vec<Image>) -> Finder {
        Finder { images, trampolines: OnceCell::new() }
    }

    /// The build-id of the program, which is the first of the files.
    pub fn program_id(&self) -> Option<&str> {
        self.images.first()?.head.build_id.as_deref()
    }

    /// A library of the program that ends it unless it is loaded before all others.
    pub fn first_library(&self) -> Option<&Path> {
        let name = |it: &Image| it.path.file_name().map(|it| it.to_string_lossy().into_owned());
        let is_first =
            |name: String| name.starts_with("libasan.so") || name.starts_with("libclang_rt.asan");
        let image = self.images.iter().find(|it| name(it).is_some_and(is_first))?;
        Some(&image.path)
    }

    /// The functions here that start others.
    pub fn trampolines(&self) -> &[(CodePlace, Trampoline)] {
        self.trampolines.get_or_init(|| self.images.iter().flat_map(known_of).collect())
    }

    /// The kinds of threads that the names mean.
    pub fn find(&self, wanted: &[Wanted<'_>]) -> Vec<Found> {
        let mut found = Vec::new();
        for image in &self.images {
            image.each_symbol(|name, address, _, is_function| {
                for (index, wanted) in wanted.iter().enumerate() {
                    let starts = match is_function {
                        true if name.contains("drop_in_place") => {
                            self.rust_closures(image, name, address, wanted)
                        }
                        true if wanted.takes(name) => self.function(image, address),
                        false if name.starts_with("_ZTV") && wanted.takes_callable(name) => {
                            let word = if image.head.is_64 { 8 } else { 4 };
                            self.refined(image, address + 2 * word, Trampoline::FirstWord)
                        }
                        _ => continue,
                    };
                    for (start, refine) in starts {
                        let one = Found { wanted: index, start, refine };
                        if !found.contains(&one) {
                            found.push(one);
                        }
                    }
                }
            });
        }
        found
    }

    /// A function that is started by itself, or by a trampoline that is given functions.
    fn function(&self, image: &Image, address: u64) -> Vec<(CodePlace, Option<CodePlace>)> {
        let mut starts = self.refined(image, address, Trampoline::FirstWord);
        starts.push((place(image, address), None));
        starts
    }

    fn refined(
        &self,
        image: &Image,
        address: u64,
        how: Trampoline,
    ) -> Vec<(CodePlace, Option<CodePlace>)> {
        let trampolines = self.trampolines().iter().filter(|(_, it)| *it == how);
        trampolines.map(|(start, _)| (start.clone(), Some(place(image, address)))).collect()
    }

    /// The tables of functions whose first one drops a closure that was given to `spawn`.
    fn rust_closures(
        &self,
        image: &Image,
        name: &str,
        drop: u64,
        wanted: &Wanted<'_>,
    ) -> Vec<(CodePlace, Option<CodePlace>)> {
        if !name.contains("spawn_unchecked") || !wanted.takes_callable(name) {
            return Vec::new();
        }
        let tables = relocations(image).into_iter().filter(|(_, value)| *value == drop);
        tables
            .flat_map(|(address, _)| self.refined(image, address, Trampoline::SecondWord))
            .collect()
    }
}

/// The trampolines of one file, searched for once.
fn known_of(image: &Image) -> Vec<(CodePlace, Trampoline)> {
    let id = image.head.build_id.clone().or_else(|| image.identity());
    let known = id.as_deref().and_then(cache::load);
    let found = known.unwrap_or_else(|| {
        let found = if calls::creates_threads(image) { of_image(image) } else { Vec::new() };
        if let Some(id) = &id {
            cache::store(id, &found);
        }
        found
    });
    found.into_iter().map(|(offset, trampoline)| (place(image, offset), trampoline)).collect()
}

/// The trampolines of one file: by their symbols, or, where those were stripped off a library
/// that is known, or a program in Rust, by what it gives to pthread_create.
fn of_image(image: &Image) -> Vec<(u64, Trampoline)> {
    let mut found = Vec::new();
    image.each_symbol(|name, address, _, is_function| {
        let known = if is_function { is_trampoline(name) } else { None };
        if let Some(trampoline) = known {
            found.push((address, trampoline));
        }
    });
    let path = std::fs::canonicalize(&image.path).unwrap_or(image.path.clone());
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let known = || {
        let rust = || is_rust(image).then_some(Trampoline::SecondWord);
        trampoline::of_library(&name).or_else(rust)
    };
    if found.is_empty()
        && let Some(trampoline) = known()
    {
        let starts = calls::started(image).into_iter();
        found.extend(starts.map(|address| (address, trampoline)));
    }
    found.sort_by_key(|(address, _)| *address);
    found.dedup();
    found
}

/// Whether the compiler's note says that there is Rust in it. In such a program, what C gives to
/// pthread_create is taken for Rust's too: then the argument tells nothing, and no harm is done.
fn is_rust(image: &Image) -> bool {
    let Ok(object) = image.object() else { return false };
    let comment = object.section_by_name(".comment");
    let bytes = comment.and_then(|it| it.data().ok()).unwrap_or_default();
    bytes.windows(5).any(|window| window == b"rustc")
}

fn place(image: &Image, offset: u64) -> CodePlace {
    CodePlace {
        build_id: image.head.build_id.clone(),
        offset,
        path: image.path.to_string_lossy().into_owned(),
    }
}

/// The libraries that programs of this machine share and that start threads for others: children
/// of the run may use them though the program itself does not.
pub fn shared_libraries() -> Vec<Image> {
    const PATHS: [&str; 4] = [
        "/usr/lib/x86_64-linux-gnu/libstdc++.so.6",
        "/usr/lib64/libstdc++.so.6",
        "/usr/lib/x86_64-linux-gnu/libglib-2.0.so.0",
        "/usr/lib64/libglib-2.0.so.0",
    ];
    PATHS.iter().filter_map(|path| Image::open(Path::new(path)).ok()).collect()
}
