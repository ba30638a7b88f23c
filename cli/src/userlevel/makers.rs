//! Whether a program may make threads, by the functions that it and its libraries ask others for.
//!
//! Most programs that a shell or `make` starts make none: they need no library that is there for
//! threads. What a program loads by dlopen while it runs is not known.
//!
//! Invariant: a reference that may stay open (weak) is no intention: it asks whether there are
//! threads.

use object::elf;
use object::read::elf::Sym;
use object::{Object, ObjectSection};

use super::image::is_name;
use crate::symbols::image::Image;

/// Functions of the C library.
const MAKERS: [&str; 2] = ["pthread_create", "thrd_create"];
/// Libraries, by the beginning of their names, that make threads for those alone who ask them by
/// one of these functions, by the beginning of theirs.
const FOR_OTHERS: [(&str, &[&str]); 3] = [
    ("libstdc++.so", &["_ZNSt6thread15_M_start_thread"]),
    ("liblzma.so", &["lzma_stream_encoder_mt", "lzma_stream_decoder_mt"]),
    ("libzstd.so", &["ZSTD_CCtx_setParameter", "ZSTD_CCtxParams_setParameter"]),
];

/// Whether one of these asks for threads.
pub fn are_among(images: &[Image]) -> bool {
    images.iter().any(|image| {
        let name = image.path.file_name().unwrap_or_default().to_string_lossy();
        let is_for_others = FOR_OTHERS.iter().any(|(library, _)| name.starts_with(library));
        let asks = |at: &[u8]| {
            let asked = FOR_OTHERS.iter().flat_map(|(_, functions)| *functions);
            let mut asked = asked.map(|function| function.as_bytes());
            MAKERS.iter().any(|maker| is_name(at, maker)) || asked.any(|it| at.starts_with(it))
        };
        !is_for_others && needs(image, asks)
    })
}

/// Whether the file needs a symbol like this of another one.
fn needs(image: &Image, is_like: impl Fn(&[u8]) -> bool) -> bool {
    let Ok(object::File::Elf64(file)) = image.object() else { return false };
    let (table, endian) = (file.elf_dynamic_symbol_table(), file.endian());
    let names = file.section_by_index(table.string_section());
    let Ok(names) = names.and_then(|section| section.data()) else { return false };
    table.symbols().iter().any(|symbol| {
        let is_needed =
            symbol.st_shndx(endian) == elf::SHN_UNDEF && symbol.st_bind() != elf::STB_WEAK;
        is_needed && names.get(symbol.st_name(endian) as usize..).is_some_and(&is_like)
    })
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::path::Path;

    use super::*;
    use crate::symbols::needed;

    fn may(path: &Path) -> bool {
        are_among(&needed(Image::open(path).expect("an ELF file"), OsStr::new("")))
    }

    #[test]
    fn a_program_with_threads_is_told_from_one_without() {
        assert!(may(&std::env::current_exe().expect("a path")));
        assert!(!may(Path::new("/bin/sh")));
    }
}
