//! Libraries that a program is linked with and that wrap what threads wait in: its main thread
//! would call them, user-level threads would pass them by.
//!
//! Invariant: of a name the loader takes the first definition, so the C library's ends the search.

use std::path::Path;

use object::elf;
use object::read::elf::Sym;
use object::{Object, ObjectSection};

use super::image::is_name;
use crate::symbols::image::Image;

/// As the library has them, which looks again before the first thread; and comments.
const PASSED_BY: &str = include_str!("../../../user/passed-by");
/// Files of the C library, by the beginning of their names.
const C_LIBRARY: [&str; 5] = ["libc.so.", "libpthread.so.", "librt.so.", "libanl.so.", "ld-linux"];

/// The first library with such a function, and the function's name. `images` begins with the
/// program, in front of which nothing stands.
pub fn first(images: &[Image]) -> Option<(&Path, &'static str)> {
    let behind = images.iter().skip(1);
    let before = behind.take_while(|image| !is_named(image, C_LIBRARY[0]));
    before.filter(|image| !C_LIBRARY.iter().any(|name| is_named(image, name))).find_map(|image| {
        let names = PASSED_BY.lines().filter(|it| !it.starts_with('#'));
        Some((&*image.path, defined(image, &names.collect::<Vec<_>>())?))
    })
}

fn is_named(image: &Image, name: &str) -> bool {
    image.path.file_name().unwrap_or_default().to_string_lossy().starts_with(name)
}

/// The first of `names` that is a function of the file's.
fn defined(image: &Image, names: &[&'static str]) -> Option<&'static str> {
    let Ok(object::File::Elf64(file)) = image.object() else { return None };
    let (table, endian) = (file.elf_dynamic_symbol_table(), file.endian());
    let texts = file.section_by_index(table.string_section()).ok()?.data().ok()?;
    table.symbols().iter().find_map(|symbol| {
        let is_function = matches!(symbol.st_type(), elf::STT_FUNC | elf::STT_GNU_IFUNC);
        let is_defined = symbol.st_shndx(endian) != elf::SHN_UNDEF;
        let at = texts.get(symbol.st_name(endian) as usize..)?;
        names.iter().find(|name| is_function && is_defined && is_name(at, name)).copied()
    })
}
