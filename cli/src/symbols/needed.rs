//! The files that a program is loaded with, found as its loader would find them.
//!
//! Invariant: nothing is run. What only the program knows (dlopen) is not here.
//!
//! Order of search, as in ld.so(8): RPATH where there is no RUNPATH, LD_LIBRARY_PATH, RUNPATH,
//! the loader's cache, the usual folders. A file of another machine is passed over.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::hash::{DefaultHasher, Hasher};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use super::image::{Head, Image};

/// No program needs more.
const IMAGES_MAX: usize = 512;
const CACHE: &str = "/etc/ld.so.cache";
/// What `ldconfig` begins its file, or its second half, with.
const CACHE_MAGIC: &[u8] = b"glibc-ld.so.cache1.1";
const CACHE_BYTES_MAX: u64 = 64 << 20;
const CACHE_HEADER: usize = 48;
const CACHE_ENTRY: usize = 24;

/// The program and what it needs, each once, in the order of loading. `library_path` is what it
/// will find as LD_LIBRARY_PATH.
pub fn needed(program: Image, library_path: &OsStr) -> Vec<Image> {
    let mut search = Search::new(&program, library_path);
    let mut images = vec![program];
    let mut next = 0;
    while next < images.len() && images.len() < IMAGES_MAX {
        let wanted = images[next].head.needed.clone();
        for name in wanted {
            if search.seen.insert(name.clone())
                && let Some(found) = search.find(&name, &images[next])
                && images.iter().all(|known| known.path != found.path)
            {
                images.push(found);
            }
        }
        next += 1;
    }
    images
}

struct Search {
    is_64: bool,
    machine: u16,
    is_musl: bool,
    library_path: Vec<PathBuf>,
    seen: HashSet<String>,
}

impl Search {
    fn new(program: &Image, library_path: &OsStr) -> Search {
        let split = |byte: &u8| matches!(byte, b':' | b';');
        let folders = library_path.as_bytes().split(split).filter(|part| !part.is_empty());
        Search {
            is_64: program.head.is_64,
            machine: program.head.machine,
            is_musl: program.head.is_musl(),
            library_path: folders.map(|it| PathBuf::from(OsStr::from_bytes(it))).collect(),
            seen: HashSet::new(),
        }
    }

    fn find(&self, name: &str, by: &Image) -> Option<Image> {
        if name.contains('/') {
            return self.take(Path::new(name));
        }
        let rpath = if by.head.runpath.is_empty() { &by.head.rpath[..] } else { &[] };
        let own = |list: &[String]| -> Vec<PathBuf> {
            list.iter().map(|folder| expand(folder, by)).collect()
        };
        let first = own(rpath).into_iter().chain(self.library_path.clone());
        let folders: Vec<_> = first.chain(own(&by.head.runpath)).collect();
        folders
            .iter()
            .find_map(|folder| self.take(&folder.join(name)))
            .or_else(|| self.cached(name))
            .or_else(|| self.usual().iter().find_map(|it| self.take(&Path::new(it).join(name))))
    }

    fn take(&self, path: &Path) -> Option<Image> {
        let image = Image::open(path).ok()?;
        let Head { is_64, machine, .. } = image.head;
        (is_64 == self.is_64 && machine == self.machine).then_some(image)
    }

    fn cached(&self, name: &str) -> Option<Image> {
        if self.is_musl {
            return None;
        }
        Cache::own().paths(name).find_map(|path| self.take(path))
    }

    fn usual(&self) -> &'static [&'static str] {
        if self.is_musl {
            &["/lib", "/usr/local/lib", "/usr/lib", "/usr/lib/x86_64-linux-musl"]
        } else if self.is_64 {
            &[
                "/lib/x86_64-linux-gnu",
                "/usr/lib/x86_64-linux-gnu",
                "/lib64",
                "/usr/lib64",
                "/lib",
                "/usr/lib",
            ]
        } else {
            &[
                "/lib/i386-linux-gnu",
                "/usr/lib/i386-linux-gnu",
                "/lib32",
                "/usr/lib32",
                "/lib",
                "/usr/lib",
            ]
        }
    }
}

/// The loader's own words in a path.
fn expand(folder: &str, by: &Image) -> PathBuf {
    let path = std::fs::canonicalize(&by.path).unwrap_or(by.path.clone());
    let origin = path.parent().unwrap_or(Path::new("/")).to_string_lossy().into_owned();
    let lib = if by.head.is_64 { "lib64" } else { "lib" };
    let expanded = folder
        .replace("$ORIGIN", &origin)
        .replace("${ORIGIN}", &origin)
        .replace("$LIB", lib)
        .replace("${LIB}", lib);
    PathBuf::from(expanded)
}

/// The loader's cache: names of libraries, and where they are. Few of them are asked for, so it
/// holds no more of a name than its hash.
struct Cache {
    bytes: Vec<u8>,
    /// Where the table begins: the file may begin with that of an older format. Offsets of texts
    /// count from here.
    begin: usize,
    /// The hash of each entry's name.
    hashes: Vec<u64>,
}

impl Cache {
    /// This system's, read once.
    fn own() -> &'static Cache {
        static OWN: OnceLock<Cache> = OnceLock::new();
        OWN.get_or_init(|| {
            let small = std::fs::metadata(CACHE).is_ok_and(|it| it.len() <= CACHE_BYTES_MAX);
            let bytes = if small { std::fs::read(CACHE).ok() } else { None };
            Cache::new(bytes.unwrap_or_default())
        })
    }

    fn new(bytes: Vec<u8>) -> Cache {
        let begin = memchr::memmem::find(&bytes, CACHE_MAGIC).unwrap_or(bytes.len());
        let mut cache = Cache { bytes, begin, hashes: Vec::new() };
        let count = cache.number(CACHE_MAGIC.len()).unwrap_or(0);
        let count = count.min((cache.bytes.len() - begin) / CACHE_ENTRY);
        let hashes = (0..count).map_while(|entry| cache.entry(entry).map(|(name, _)| hash(name)));
        cache.hashes = hashes.collect();
        cache
    }

    fn number(&self, offset: usize) -> Option<usize> {
        let bytes = self.bytes[self.begin..].get(offset..offset + 4)?;
        Some(u32::from_ne_bytes(bytes.try_into().ok()?) as usize)
    }

    fn text(&self, offset: usize) -> Option<&[u8]> {
        let rest = self.bytes[self.begin..].get(offset..)?;
        Some(&rest[..memchr::memchr(0, rest)?])
    }

    /// Name and path.
    fn entry(&self, index: usize) -> Option<(&[u8], &[u8])> {
        let entry = CACHE_HEADER + index * CACHE_ENTRY;
        Some((self.text(self.number(entry + 4)?)?, self.text(self.number(entry + 8)?)?))
    }

    /// Where libraries of this name are, best first.
    fn paths(&self, name: &str) -> impl Iterator<Item = &Path> {
        let wanted = hash(name.as_bytes());
        let found = self.hashes.iter().enumerate().filter(move |(_, hash)| **hash == wanted);
        let found = found.filter_map(|(index, _)| self.entry(index));
        let found = found.filter(move |(own, _)| *own == name.as_bytes());
        found.map(|(_, path)| Path::new(OsStr::from_bytes(path)))
    }
}

fn hash(name: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(name);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_program_needs_the_c_library() {
        let own = Image::open(&std::env::current_exe().expect("a path")).expect("an ELF file");
        let images = needed(own, OsStr::new(""));
        let libc = images.iter().find(|it| it.path.to_string_lossy().contains("libc.so"));
        let libc = libc.expect("the C library");
        let mut has_it = false;
        libc.each_symbol(|name, _, _, _| has_it |= name == "pthread_create");
        assert!(has_it);
    }

    #[test]
    fn a_cache_that_lies_is_read_to_its_end() {
        let mut bytes = CACHE_MAGIC.to_vec();
        bytes.extend(u32::MAX.to_ne_bytes());
        bytes.resize(CACHE_HEADER, 0);
        bytes.extend([0xff; CACHE_ENTRY]);
        assert!(Cache::new(bytes).hashes.is_empty());
        assert!(Cache::new(Vec::new()).hashes.is_empty());
    }

    #[test]
    fn the_cache_has_all_paths_of_a_name() {
        let texts = b"liba.so\0/1/liba.so\0/2/liba.so\0libb.so\0/1/libb.so\0";
        let entries = [(0u32, 8u32), (0, 19), (30, 38)];
        let first = (CACHE_HEADER + entries.len() * CACHE_ENTRY) as u32;
        let mut table = CACHE_MAGIC.to_vec();
        table.extend(3u32.to_ne_bytes());
        table.resize(CACHE_HEADER, 0);
        for (name, path) in entries {
            table
                .extend([1u32, first + name, first + path, 0, 0, 0].map(u32::to_ne_bytes).concat());
        }
        table.extend(texts);
        let cache = Cache::new([&b"an older format's table"[..], &table].concat());
        let paths = |name| cache.paths(name).map(Path::to_owned).collect::<Vec<_>>();
        assert_eq!(paths("liba.so"), ["/1/liba.so", "/2/liba.so"].map(PathBuf::from));
        assert_eq!(paths("libb.so"), ["/1/libb.so"].map(PathBuf::from));
        assert!(paths("libc.so").is_empty());
    }
}
