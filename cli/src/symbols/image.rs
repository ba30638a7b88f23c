//! One ELF file: what the loader would need of it, and its symbols.
//!
//! Invariants
//! - A program of hundreds of megabytes costs its headers until more is asked for; then it is read
//!   as a whole, because names are read one by one.
//! - Nothing in the file is trusted: a damaged one gives an error or less knowledge, no panic.
//! - Addresses are those of the symbol table: what a process maps them to is not known here.

use std::cell::OnceCell;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use object::elf;
use object::read::elf::{Dyn, FileHeader, ProgramHeader};
use object::read::{ReadCache, ReadRef};
use object::{Endianness, Object, ObjectSymbol, SymbolKind};

/// Names longer than this are no identifiers.
const STRING_BYTES_MAX: u64 = 4096;
/// Dependencies and other strings that one file may name.
const ENTRIES_MAX: usize = 1024;

/// No program is larger.
const FILE_BYTES_MAX: u64 = 4 << 30;

/// An opened ELF file.
pub struct Image {
    pub path: PathBuf,
    pub head: Head,
    file: File,
    /// The whole file.
    content: OnceCell<Vec<u8>>,
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

/// A defined symbol.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Symbol {
    pub address: u64,
    pub size: u64,
    pub name: String,
    pub is_function: bool,
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
        Ok(Image { path: path.to_owned(), head, file, content: OnceCell::new() })
    }

    fn content(&self) -> &[u8] {
        self.content.get_or_init(|| {
            let size = self.file.metadata().map_or(0, |meta| meta.len()).min(FILE_BYTES_MAX);
            let mut content = vec![0; size as usize];
            // A file that became shorter is damaged: less knowledge.
            match self.file.read_exact_at(&mut content, 0) {
                Ok(()) => content,
                Err(_) => Vec::new(),
            }
        })
    }

    /// The file as `object` sees it.
    pub fn object(&self) -> Result<object::File<'_>> {
        Ok(object::File::parse(self.content())?)
    }

    /// Calls `each` for every defined function and object, those of the dynamic table included.
    pub fn each_symbol(&self, mut each: impl FnMut(&str, u64, u64, bool)) {
        let Ok(object) = self.object() else { return };
        for symbol in object.symbols().chain(object.dynamic_symbols()) {
            let is_function = match symbol.kind() {
                SymbolKind::Text => true,
                SymbolKind::Data | SymbolKind::Unknown => false,
                _ => continue,
            };
            if symbol.is_undefined() || symbol.address() == 0 {
                continue;
            }
            if let Ok(name) = symbol.name()
                && !name.is_empty()
            {
                each(name, symbol.address(), symbol.size(), is_function);
            }
        }
    }

    /// All defined symbols, by address.
    pub fn symbols(&self) -> Vec<Symbol> {
        let mut symbols = Vec::new();
        self.each_symbol(|name, address, size, is_function| {
            symbols.push(Symbol { address, size, name: name.to_owned(), is_function });
        });
        symbols.sort_by(|a, b| (a.address, &a.name).cmp(&(b.address, &b.name)));
        symbols.dedup();
        symbols
    }

    /// `count` bytes of the file's image in memory.
    pub fn bytes(&self, address: u64, count: u64) -> Option<&[u8]> {
        fn read<E: FileHeader<Endian = Endianness>>(
            data: &[u8],
            address: u64,
            count: u64,
        ) -> Option<&[u8]> {
            let header = E::parse(data).ok()?;
            at(header, header.endian().ok()?, data, address, count)
        }
        if self.head.is_64 {
            read::<elf::FileHeader64<Endianness>>(self.content(), address, count)
        } else {
            read::<elf::FileHeader32<Endianness>>(self.content(), address, count)
        }
    }

    /// The text that begins at `address` of the image in memory.
    pub fn text(&self, address: u64) -> Option<String> {
        let mut taken = Vec::new();
        while (taken.len() as u64) < STRING_BYTES_MAX {
            let byte = *self.bytes(address + taken.len() as u64, 1)?.first()?;
            if byte == 0 {
                return String::from_utf8(taken).ok();
            }
            taken.push(byte);
        }
        None
    }
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
    use super::*;

    fn own() -> Image {
        Image::open(&std::env::current_exe().expect("a path")).expect("an ELF file")
    }

    #[test]
    fn this_program_is_dynamic_and_has_symbols() {
        let image = own();
        assert!(!image.head.is_static());
        assert!(image.head.needed.iter().any(|it| it.starts_with("libc.so")), "{:?}", image.head);
        let symbols = image.symbols();
        assert!(symbols.is_sorted_by_key(|it| it.address));
        let main = symbols.iter().find(|it| it.name == "main").expect("main");
        assert!(main.is_function && main.size > 0);
        assert!(image.bytes(main.address, 4).is_some());
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
