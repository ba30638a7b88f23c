//! One ELF file: what the loader would need of it, and its symbols.
//!
//! Invariants
//! - A program of hundreds of megabytes costs its headers until more is asked for; then its tables
//!   are read, each as a whole, because names are read one by one. Code and data are read only by
//!   who asks for them.
//! - Nothing in the file is trusted: a damaged one gives an error or less knowledge, no panic.
//! - Addresses are those of the symbol table: what a process maps them to is not known here.

use std::cell::OnceCell;
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use object::elf;
use object::read::elf::{Dyn, FileHeader, ProgramHeader, SectionHeader};
use object::read::{ReadCache, ReadRef};
use object::{Endianness, Object, ObjectSymbol, ObjectSymbolTable, SymbolIndex, SymbolKind};

/// Names longer than this are no identifiers.
const STRING_BYTES_MAX: u64 = 4096;
/// Dependencies and other strings that one file may name.
const ENTRIES_MAX: usize = 1024;

/// Sections of the program's own up to this size are read with the tables: links, comments.
const SMALL_BYTES: u64 = 64 << 10;
/// Of a text so much is read at once.
const PIECE_BYTES: u64 = 64;

/// No program is larger.
const FILE_BYTES_MAX: u64 = 4 << 30;

/// An opened ELF file.
pub struct Image {
    pub path: PathBuf,
    pub head: Head,
    file: File,
    /// The file without code, data and lines: zeros are in their places, which cost no memory.
    tables: OnceCell<Vec<u8>>,
    /// The whole file.
    whole: OnceCell<Vec<u8>>,
}

/// What the headers say.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Head {
    pub is_64: bool,
    pub machine: u16,
    /// In hexadecimal.
    pub build_id: Option<String>,
    /// The loader; none in static programs and most libraries.
    pub interpreter: Option<PathBuf>,
    /// What the file calls itself.
    pub soname: Option<String>,
    pub needed: Vec<String>,
    pub runpath: Vec<String>,
    pub rpath: Vec<String>,
}

impl Head {
    /// Whether a loader maps it, and so can be asked to load a library before.
    pub fn is_static(&self) -> bool {
        self.interpreter.is_none()
    }

    /// Whether it is glibc's loader itself.
    pub fn is_loader(&self) -> bool {
        let soname = self.soname.as_deref();
        self.is_static() && soname.is_some_and(|name| name.starts_with("ld-linux"))
    }

    /// Whether it uses musl's loader.
    pub fn is_musl(&self) -> bool {
        let name = self.interpreter.as_deref().and_then(Path::file_name);
        name.is_some_and(|name| name.to_string_lossy().starts_with("ld-musl"))
    }
}

/// A defined symbol, without its name.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Place {
    pub address: u64,
    pub size: u64,
    pub is_function: bool,
    /// Where in which table.
    index: u32,
    is_dynamic: bool,
}

type Found<'a, 'b> = object::Symbol<'a, 'b>;

/// The defined functions and objects of both tables; whether one is of the dynamic one, and is a
/// function.
fn defined<'a>(object: &'a object::File<'a>) -> impl Iterator<Item = (Found<'a, 'a>, bool, bool)> {
    let dynamic = object.dynamic_symbols().map(|symbol| (symbol, true));
    let all = object.symbols().map(|symbol| (symbol, false)).chain(dynamic);
    all.filter_map(|(symbol, is_dynamic)| {
        let is_function = match symbol.kind() {
            SymbolKind::Text => true,
            SymbolKind::Data | SymbolKind::Unknown => false,
            _ => return None,
        };
        let is_here = !symbol.is_undefined() && symbol.address() != 0;
        is_here.then_some((symbol, is_dynamic, is_function))
    })
}

impl Image {
    /// Opens an ELF file.
    pub fn open(path: &Path) -> Result<Image> {
        let file = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
        if !file.metadata()?.is_file() {
            bail!("{} is no plain file", path.display());
        }
        let head = head(&ReadCache::new(&file))
            .with_context(|| format!("{} is no sound ELF file", path.display()))?;
        let (tables, whole) = (OnceCell::new(), OnceCell::new());
        Ok(Image { path: path.to_owned(), head, file, tables, whole })
    }

    /// What tells this file from others, and from what it was before, without a build-id.
    pub fn identity(&self) -> Option<String> {
        let meta = self.file.metadata().ok()?;
        let changed = (meta.mtime() as u64, meta.mtime_nsec() as u64);
        let numbers = [meta.dev(), meta.ino(), meta.len(), changed.0, changed.1];
        Some(numbers.iter().map(|number| format!("{number:016x}")).collect())
    }

    /// The file, of which `parts` are read; nothing of one that became shorter meanwhile, which is
    /// damaged: less knowledge.
    fn read(&self, parts: impl FnOnce(u64) -> Vec<Range<u64>>) -> Vec<u8> {
        let size = self.file.metadata().map_or(0, |meta| meta.len()).min(FILE_BYTES_MAX);
        let mut content = vec![0; size as usize];
        for part in parts(size) {
            let (start, end) = (part.start.min(size) as usize, part.end.min(size) as usize);
            let into = content.get_mut(start..end).unwrap_or_default();
            if self.file.read_exact_at(into, start as u64).is_err() {
                return Vec::new();
            }
        }
        content
    }

    /// The file as `object` sees it, for its tables and notes.
    pub fn object(&self) -> Result<object::File<'_>> {
        let tables = || self.read(|size| tables(&ReadCache::new(&self.file), size));
        Ok(object::File::parse(self.tables.get_or_init(tables).as_slice())?)
    }

    /// As [`Image::object`], with the code and the data.
    pub fn whole(&self) -> Result<object::File<'_>> {
        let whole = || self.read(all);
        Ok(object::File::parse(self.whole.get_or_init(whole).as_slice())?)
    }

    /// Calls `each` for every defined function and object, those of the dynamic table included.
    pub fn each_symbol(&self, mut each: impl FnMut(&str, u64, u64, bool)) {
        let Ok(object) = self.object() else { return };
        for (symbol, _, is_function) in defined(&object) {
            if let Ok(name) = symbol.name()
                && !name.is_empty()
            {
                each(name, symbol.address(), symbol.size(), is_function);
            }
        }
    }

    /// Where all of them are, by address: what they are called is asked of few.
    pub fn places(&self) -> Vec<Place> {
        let Ok(object) = self.object() else { return Vec::new() };
        let place = |(symbol, is_dynamic, is_function): (Found<'_, '_>, bool, bool)| Place {
            address: symbol.address(),
            size: symbol.size(),
            index: symbol.index().0 as u32,
            is_dynamic,
            is_function,
        };
        let mut places: Vec<_> = defined(&object).map(place).collect();
        places.sort_unstable_by_key(|it| (it.address, it.is_dynamic, it.index));
        places
    }

    /// What is at `place`, which is one of [`Image::places`].
    pub fn name_of(&self, place: &Place) -> Option<String> {
        let object = self.object().ok()?;
        let index = SymbolIndex(place.index as usize);
        let symbol = match place.is_dynamic {
            true => object.dynamic_symbol_table()?.symbol_by_index(index),
            false => object.symbol_by_index(index),
        };
        symbol.ok()?.name().ok().map(str::to_owned)
    }

    /// `count` bytes of the file's image in memory, of one segment.
    pub fn bytes(&self, address: u64, count: u64) -> Option<Vec<u8>> {
        fn read<E: FileHeader<Endian = Endianness>>(
            file: &File,
            address: u64,
            count: u64,
        ) -> Option<Vec<u8>> {
            let data = &ReadCache::new(file);
            let header = E::parse(data).ok()?;
            at(header, header.endian().ok()?, data, address, count).map(<[u8]>::to_vec)
        }
        if self.head.is_64 {
            read::<elf::FileHeader64<Endianness>>(&self.file, address, count)
        } else {
            read::<elf::FileHeader32<Endianness>>(&self.file, address, count)
        }
    }

    /// The text that begins at `address` of the image in memory.
    pub fn text(&self, address: u64) -> Option<String> {
        let mut taken = Vec::new();
        while (taken.len() as u64) < STRING_BYTES_MAX {
            // Less at the end of a segment.
            let next = address.checked_add(taken.len() as u64)?;
            let piece = self.bytes(next, PIECE_BYTES).or_else(|| self.bytes(next, 1))?;
            let end = piece.iter().position(|byte| *byte == 0);
            taken.extend_from_slice(&piece[..end.unwrap_or(piece.len())]);
            if end.is_some() {
                return String::from_utf8(taken).ok();
            }
        }
        None
    }
}

/// A file with so many bytes as one part.
fn all(size: u64) -> Vec<Range<u64>> {
    std::iter::once(0..size).collect()
}

/// Where the headers, tables and notes are of a file with so many bytes.
fn tables<'a>(data: impl ReadRef<'a>, size: u64) -> Vec<Range<u64>> {
    let found = match data.read_bytes_at(4, 1) {
        Ok([1]) => tables_of::<elf::FileHeader32<Endianness>>(data),
        _ => tables_of::<elf::FileHeader64<Endianness>>(data),
    };
    // Sections that are none, or overlap, may be anything.
    let bytes = |parts: &Vec<Range<u64>>| -> u64 {
        parts.iter().map(|it| it.end.saturating_sub(it.start)).fold(0, u64::saturating_add)
    };
    found.ok().filter(|parts| bytes(parts) <= size).unwrap_or_else(|| all(size))
}

fn tables_of<'a, E: FileHeader<Endian = Endianness>>(
    data: impl ReadRef<'a>,
) -> Result<Vec<Range<u64>>> {
    let header = E::parse(data)?;
    let endian = header.endian()?;
    let part = |start: u64, bytes: u64| start..start.saturating_add(bytes);
    let each = u64::from(header.e_phentsize(endian)) * u64::from(header.e_phnum(endian));
    let sections = header.section_headers(endian, data)?;
    let mut parts = vec![
        part(0, size_of::<E>() as u64),
        part(header.e_phoff(endian).into(), each),
        part(header.e_shoff(endian).into(), size_of_val(sections) as u64),
    ];
    for section in sections {
        // Data of the program's: its code, its constants, its lines.
        let is_content = section.sh_type(endian) == elf::SHT_PROGBITS
            && section.sh_size(endian).into() > SMALL_BYTES;
        if let Some((start, bytes)) = section.file_range(endian)
            && !is_content
        {
            parts.push(part(start, bytes));
        }
    }
    Ok(parts)
}

/// Reads the headers of either class.
fn head<'a>(data: impl ReadRef<'a>) -> Result<Head> {
    let ident = data.read_bytes_at(0, 5).map_err(|()| anyhow::anyhow!("the file is too short"))?;
    if ident[..4] != *b"\x7fELF" {
        bail!("it does not begin as one");
    }
    match ident[4] {
        2 => head_of::<elf::FileHeader64<Endianness>>(data, true),
        1 => head_of::<elf::FileHeader32<Endianness>>(data, false),
        class => bail!("class {class} is unknown"),
    }
}

fn head_of<'a, E: FileHeader<Endian = Endianness>>(
    data: impl ReadRef<'a>,
    is_64: bool,
) -> Result<Head> {
    let header = E::parse(data)?;
    let endian = header.endian()?;
    let mut head = Head { is_64, machine: header.e_machine(endian).0, ..Head::default() };
    for segment in header.program_headers(endian, data)? {
        if let Ok(Some(path)) = segment.interpreter(endian, data) {
            head.interpreter = Some(PathBuf::from(String::from_utf8_lossy(path).as_ref()));
        }
        if let Ok(Some(mut notes)) = segment.notes(endian, data) {
            while let Ok(Some(note)) = notes.next() {
                if note.name() == elf::ELF_NOTE_GNU
                    && note.n_type(endian) == elf::NT_GNU_BUILD_ID
                    && head.build_id.is_none()
                {
                    head.build_id = Some(hexadecimal(note.desc()));
                }
            }
        }
        if let Ok(Some(entries)) = segment.dynamic(endian, data) {
            dynamic(&mut head, header, endian, data, entries);
        }
    }
    Ok(head)
}

/// Takes the strings of the dynamic section that say what else is loaded.
fn dynamic<'a, E: FileHeader<Endian = Endianness>>(
    head: &mut Head,
    header: &E,
    endian: Endianness,
    data: impl ReadRef<'a>,
    entries: &[E::Dyn],
) {
    let value = |wanted: i64| {
        let mut entries = entries.iter().take_while(|it| it.d_tag(endian) != elf::DT_NULL);
        entries.find(|it| it.d_tag(endian).0 == wanted).map(|it| -> u64 { it.d_val(endian).into() })
    };
    let Some(table) = value(elf::DT_STRTAB.0) else { return };
    let size = value(elf::DT_STRSZ.0).unwrap_or(0);
    let text = |offset: u64| -> Option<String> {
        let most = size.checked_sub(offset)?.min(STRING_BYTES_MAX);
        let bytes = at(header, endian, data, table.checked_add(offset)?, most)?;
        let end = bytes.iter().position(|byte| *byte == 0)?;
        Some(String::from_utf8_lossy(&bytes[..end]).into_owned())
    };
    for entry in entries.iter().take(ENTRIES_MAX) {
        let tag = entry.d_tag(endian);
        if tag == elf::DT_NULL {
            break;
        }
        if tag == elf::DT_SONAME {
            head.soname = text(entry.d_val(endian).into());
            continue;
        }
        let list = match tag {
            elf::DT_NEEDED => &mut head.needed,
            elf::DT_RUNPATH => &mut head.runpath,
            elf::DT_RPATH => &mut head.rpath,
            _ => continue,
        };
        let Some(text) = text(entry.d_val(endian).into()) else { continue };
        if tag == elf::DT_NEEDED {
            list.push(text);
        } else {
            list.extend(text.split(':').map(str::to_owned));
        }
    }
}

/// Bytes of the file by their address in memory.
fn at<'a, E: FileHeader<Endian = Endianness>>(
    header: &E,
    endian: Endianness,
    data: impl ReadRef<'a>,
    address: u64,
    count: u64,
) -> Option<&'a [u8]> {
    let segments = header.program_headers(endian, data).ok()?;
    segments.iter().filter(|it| it.p_type(endian) == elf::PT_LOAD).find_map(|segment| {
        let within = address.checked_sub(segment.p_vaddr(endian).into())?;
        let end = within.checked_add(count)?;
        if end > segment.p_filesz(endian).into() {
            return None;
        }
        let offset: u64 = segment.p_offset(endian).into();
        data.read_bytes_at(offset.checked_add(within)?, count).ok()
    })
}

/// Bytes as lower-case digits.
pub fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use object::{ObjectSection, ObjectSegment};

    use super::*;

    fn own() -> Image {
        Image::open(&std::env::current_exe().expect("a path")).expect("an ELF file")
    }

    #[test]
    fn this_program_is_dynamic_and_has_symbols() {
        let image = own();
        assert!(!image.head.is_static());
        assert!(image.head.needed.iter().any(|it| it.starts_with("libc.so")), "{:?}", image.head);
        let places = image.places();
        assert!(places.is_sorted_by_key(|it| it.address));
        let is_main = |it: &&Place| image.name_of(it).is_some_and(|name| name == "main");
        let main = places.iter().find(is_main).expect("main");
        assert!(main.is_function && main.size > 0);
        assert!(image.bytes(main.address, 4).is_some());
    }

    #[test]
    fn the_tables_tell_of_symbols_what_the_whole_file_does() {
        let image = own();
        let (tables, whole) = (image.object().expect("tables"), image.whole().expect("a file"));
        let named = |object: &object::File<'_>| -> Vec<(String, u64)> {
            let names =
                defined(object).map(|(it, ..)| (it.name().map(str::to_owned), it.address()));
            names.filter_map(|(name, address)| Some((name.ok()?, address))).collect()
        };
        assert!(named(&tables).len() > 1000);
        assert_eq!(named(&tables), named(&whole));
        let code = |object: &object::File<'_>| {
            let section = object.section_by_name(".text").expect("code");
            section.data().expect("its bytes").iter().any(|byte| *byte != 0)
        };
        assert!(!code(&tables), "code was read");
        assert!(code(&whole));
    }

    #[test]
    fn a_text_is_read_to_its_end() {
        let image = own();
        let text = "a text that is longer than one piece of those that are read at once, by far\0";
        let whole = std::fs::read(&image.path).expect("the file");
        let at = whole.windows(text.len()).position(|it| it == text.as_bytes()).expect("there");
        let object = image.whole().expect("a file");
        let found = object.segments().find_map(|segment| {
            let (offset, bytes) = segment.file_range();
            let within = (at as u64).checked_sub(offset).filter(|it| *it < bytes)?;
            Some(segment.address() + within)
        });
        let told = image.text(found.expect("in a segment"));
        assert_eq!(told.as_deref(), text.strip_suffix('\0'));
    }

    #[test]
    fn addresses_outside_are_refused() {
        let image = own();
        assert_eq!(image.bytes(u64::MAX - 3, 8), None);
        assert_eq!(image.bytes(1 << 62, 1), None);
        assert_eq!(image.text(u64::MAX), None);
    }

    #[test]
    fn what_is_no_elf_file_says_so() {
        let error = Image::open(Path::new("/etc/passwd")).err().expect("an error");
        assert!(format!("{error:#}").contains("does not begin"), "{error:#}");
        assert!(Image::open(Path::new("/")).is_err());
    }
}
