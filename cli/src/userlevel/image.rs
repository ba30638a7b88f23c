//! What the files of a program say about it: machine, linking, C library, and the kinds of code
//! that treat threads in a way of their own.
//!
//! Invariant: a kind is known by what code of that kind must have (a library that it needs, a
//! symbol, a section), never by the program's name.

use std::cell::OnceCell;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Read;
use std::path::Path;

use object::read::elf::Sym;
use object::{Object, ObjectSection, elf};

use super::{Finding, Purpose, library, makers, wrappers};
use crate::symbols::image::{Head, Image};

/// The machine that this heddle is built for.
const OWN_MACHINE: u16 =
    if cfg!(target_arch = "aarch64") { elf::EM_AARCH64.0 } else { elf::EM_X86_64.0 };
/// A C library is far smaller.
const LIBRARY_BYTES_MAX: u64 = 64 << 20;
/// How much of it is looked at in one go.
const PIECE_BYTES: usize = 32 << 10;
/// What precedes the number in glibc's own description of itself.
const RELEASE: &[u8] = b"release version ";

/// What only programs of a kind have.
struct Mark {
    kind: &'static str,
    /// Libraries of which one is needed, by the beginning of their names.
    libraries: &'static [&'static str],
    /// Symbols of the program, defined or needed, of which one is there.
    symbols: &'static [&'static str],
}

/// gperftools' libraries have the name of another tcmalloc; their caches are the threads' own.
fn is_gperftools(library: &str) -> bool {
    library.starts_with("libtcmalloc") && library.ends_with(".so.4")
}

const JVM: &[Mark] = &[Mark {
    kind: "Java virtual machine",
    libraries: &["libjvm.so", "libjli.so"],
    symbols: &["JNI_CreateJavaVM"],
}];

const SANITIZERS: &[Mark] = &[
    Mark {
        kind: "AddressSanitizer",
        libraries: &["libasan.so", "libclang_rt.asan"],
        symbols: &["__asan_init"],
    },
    Mark {
        kind: "ThreadSanitizer",
        libraries: &["libtsan.so", "libclang_rt.tsan"],
        symbols: &["__tsan_init"],
    },
    Mark {
        kind: "MemorySanitizer",
        libraries: &["libmsan.so", "libclang_rt.msan"],
        symbols: &["__msan_init"],
    },
    Mark {
        kind: "HWAddressSanitizer",
        libraries: &["libhwasan.so", "libclang_rt.hwasan"],
        symbols: &["__hwasan_init"],
    },
    Mark {
        kind: "LeakSanitizer",
        libraries: &["liblsan.so", "libclang_rt.lsan"],
        symbols: &["__lsan_init"],
    },
];

const WINE: &[Mark] =
    &[Mark { kind: "Wine", libraries: &["libwine.so"], symbols: &["wine_main_preload_info"] }];

/// Its system calls for the emulated program are code of its own; by these it sends signals to
/// threads, with the numbers that the C library has told it.
const EMULATORS: &[Mark] =
    &[Mark { kind: "qemu's user mode", libraries: &[], symbols: &["print_syscall_ret"] }];

const CLOCKS: &[Mark] = &[Mark { kind: "faked", libraries: &["libfaketime"], symbols: &[] }];

/// What trusts the area that the C library registers for each of its threads.
const ALLOCATORS: &[Mark] = &[Mark {
    kind: "restartable sequences",
    libraries: &["librseq.so"],
    symbols: &["__rseq_offset", "rseq_register_current_thread"],
}];

/// What registers an area of its own, which fails on user-level threads, so that its caches are the
/// threads'. It fails on kernel threads, too, unless the C library registers none.
const REGISTERING: &[Mark] = &[
    Mark {
        kind: "tcmalloc",
        libraries: &["libtcmalloc"],
        symbols: &[
            "tcmalloc_slabs",
            "TCMalloc_Internal_GetStats",
            "MallocExtension_Internal_GetStats",
        ],
    },
    Mark { kind: "caches per processor", libraries: &[], symbols: &["__rseq_abi"] },
];

/// All marks that symbols may be.
const MARKS: [&[Mark]; 6] = [JVM, SANITIZERS, WINE, EMULATORS, ALLOCATORS, REGISTERING];
/// What a program defines that has an allocator of its own.
const ALLOCATION: &str = "malloc";

/// Whether the program is for this machine.
pub fn machine(head: &Head) -> Finding {
    let bits = if head.is_64 { 64 } else { 32 };
    let name = match elf::Machine(head.machine) {
        elf::EM_X86_64 => "x86-64".to_owned(),
        elf::EM_386 => "i386".to_owned(),
        elf::EM_AARCH64 => "aarch64".to_owned(),
        elf::EM_ARM => "arm".to_owned(),
        other => format!("machine {}", other.0),
    };
    let value = format!("{name}, {bits}-bit");
    if head.is_64 && head.machine == OWN_MACHINE {
        return Finding::good("machine", value, "that of this heddle");
    }
    let why = "user-level threads switch in code of the processor that heddle is built for";
    Finding::bad("machine", value, why)
}

/// Whether a library can be added.
pub fn linking(head: &Head) -> Finding {
    match &head.interpreter {
        Some(loader) => {
            Finding::good("linking", "dynamic", format!("{} can add a library", loader.display()))
        }
        None => Finding::bad("linking", "static", "no loader is asked, so no library can be added"),
    }
}

/// Whether the file is a program for Windows.
pub fn is_windows(path: &Path) -> bool {
    let mut begin = [0; 2];
    let taken = File::open(path).and_then(|mut file| file.read_exact(&mut begin));
    taken.is_ok() && begin == *b"MZ"
}

/// A program with all that it is loaded with.
pub struct Loaded {
    images: Vec<Image>,
    /// Libraries that the environment adds.
    preloaded: Vec<String>,
    /// A loader that was called by its name decides what is loaded, from where.
    is_by_loader: bool,
    /// Of the symbols that are marks, and of [`ALLOCATION`], those that the program has.
    symbols: OnceCell<Vec<&'static str>>,
}

impl Loaded {
    /// `images` begins with the program; `preload` is what it will find as LD_PRELOAD.
    pub fn new(images: Vec<Image>, preload: &OsStr, is_by_loader: bool) -> Loaded {
        let list = preload.to_string_lossy();
        let paths = list.split([':', ' ']).filter(|path| !path.is_empty());
        let preloaded = paths.map(str::to_owned).collect();
        Loaded { images, preloaded, is_by_loader, symbols: OnceCell::new() }
    }

    fn program(&self) -> Option<&Image> {
        self.images.first()
    }

    /// Whether it may make threads of the C library's, as far as its files tell.
    pub fn may_make_threads(&self) -> bool {
        let is_static = self.program().is_some_and(|image| image.head.is_static());
        if is_static { self.is_go() } else { makers::are_among(&self.images) }
    }

    /// The files that were looked at.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        self.images.iter().map(|image| &*image.path)
    }

    /// The file of glibc that it is loaded with, if that is known.
    pub fn c_library_path(&self) -> Option<&Path> {
        library::path(&self.images).filter(|_| !self.is_by_loader)
    }

    /// Whose threads these are to begin with. Not for static programs.
    pub fn c_library(&self, purpose: Purpose) -> Finding {
        let name = "C library";
        let head = self.program().map(|image| &image.head);
        if head.is_some_and(Head::is_musl) {
            return Finding::bad(name, "musl", "user-level threads are made for glibc");
        }
        let loader = head.and_then(|head| head.interpreter.clone()).unwrap_or_default();
        let is_usual =
            loader.file_name().is_some_and(|it| it.to_string_lossy().starts_with("ld-linux"));
        if self.is_by_loader && is_usual {
            let why = "a loader is called by its name: which one it takes shows as it starts";
            return Finding::good(name, "glibc", why);
        }
        match self.c_library_path() {
            Some(path) if is_usual => {
                let version = || glibc_version(path).map(|it| format!(" {it}"));
                let version = (purpose == Purpose::Report).then(version).flatten();
                let value = format!("glibc{}", version.unwrap_or_default());
                Finding::good(name, value, path.display().to_string())
            }
            _ => Finding::bad(
                name,
                "unknown",
                format!("loaded by {}, not with glibc's libc.so.6", loader.display()),
            ),
        }
    }

    /// Languages that have threads of their own make.
    pub fn language(&self) -> Finding {
        let name = "language runtime";
        if self.is_go() {
            let why = "Go schedules by itself and makes its kernel threads without the C library";
            return Finding::bad(name, "Go", why);
        }
        if let Some((kind, by)) = self.marked(JVM) {
            let why = format!("{by}: it stops and inspects kernel threads itself");
            return Finding::bad(name, kind, why);
        }
        Finding::good(name, "none", "neither Go nor Java's machine")
    }

    /// What keeps books on kernel threads and their stacks.
    pub fn sanitizer(&self) -> Finding {
        let name = "sanitizer";
        match self.marked(SANITIZERS) {
            Some((kind, by)) => {
                Finding::bad(name, kind, format!("{by}: it knows stacks of kernel threads only"))
            }
            None => Finding::good(name, "none", "not built with a sanitizer that follows threads"),
        }
    }

    /// Programs for Windows, and what runs them.
    pub fn wine(&self) -> Finding {
        match self.marked(WINE) {
            Some((kind, by)) => {
                Finding::bad(kind, "yes", format!("{by}: it makes and switches threads itself"))
            }
            None => Finding::good("Wine", "no", "not a loader of programs for Windows"),
        }
    }

    /// What runs programs for other machines.
    pub fn emulator(&self) -> Finding {
        let name = "emulator";
        match self.marked(EMULATORS) {
            Some((kind, by)) => {
                let why = format!("{by}: it calls the kernel unseen, by numbers of threads");
                Finding::bad(name, kind, why)
            }
            None => Finding::good(name, "none", "it runs no programs for other machines"),
        }
    }

    /// What tells the program another time than the one by which threads wait here.
    pub fn clocks(&self) -> Finding {
        let name = "clocks";
        match self.marked(CLOCKS) {
            Some((kind, by)) => {
                let why = format!("{by}: its waits would end by the kernel's clocks");
                Finding::bad(name, kind, why)
            }
            None => Finding::good(name, "the kernel's", "no library that tells another time"),
        }
    }

    /// What trusts that a thread is alone on its processor for some instructions.
    pub fn allocator(&self) -> Finding {
        let name = "allocator";
        if let Some((kind, by)) = self.marked(ALLOCATORS) {
            let why = format!("{by}: caches per processor, registered for kernel threads (rseq)");
            return Finding::bad(name, kind, why);
        }
        if let Some((kind, by)) = self.marked(REGISTERING) {
            let why = format!("{by}: its caches are the threads', as it can register none (rseq)");
            return Finding::good(name, kind, why);
        }
        if self.symbols().contains(&ALLOCATION) {
            return Finding::good(
                name,
                "the program's own",
                "threads are left in its middle, too, as it cannot be told from the program: \
                 right, as its locks are waited for, but a worker that blocks in the kernel \
                 meanwhile may wait for a spare one",
            );
        }
        Finding::good(name, "no rseq", "no known caches per processor")
    }

    /// What stands between the program and the C library. The library that makes threads finds it,
    /// too.
    pub fn wrappers(&self) -> Finding {
        let name = "wrapping libraries";
        match wrappers::first(&self.images) {
            Some((path, function)) => Finding::bad(
                name,
                path.display().to_string(),
                format!("it wraps {function}, which user-level threads do not call"),
            ),
            None => Finding::good(name, "none", "no library wraps what threads wait in"),
        }
    }

    /// One look for all: a program may have a million symbols, and names that are long: of each
    /// the first letters are read.
    fn symbols(&self) -> &[&'static str] {
        self.symbols.get_or_init(|| {
            let object = self.program().and_then(|image| image.object().ok());
            // One of another size is of another processor.
            let Some(object::File::Elf64(file)) = object else { return Vec::new() };
            let marks = MARKS.iter().copied().flatten().flat_map(|mark| mark.symbols);
            let wanted: Vec<&str> = marks.copied().chain([ALLOCATION]).collect();
            let mut found = Vec::new();
            for table in [file.elf_symbol_table(), file.elf_dynamic_symbol_table()] {
                let names = file.section_by_index(table.string_section());
                let Ok(names) = names.and_then(|section| section.data()) else { continue };
                for symbol in table.symbols() {
                    let name = names.get(symbol.st_name(file.endian()) as usize..);
                    let known = name.and_then(|name| wanted.iter().find(|it| is_name(name, it)));
                    let is_defined = || symbol.st_shndx(file.endian()) != elf::SHN_UNDEF;
                    let counts = |it: &&&str| **it != ALLOCATION || is_defined();
                    found.extend(known.filter(counts).filter(|it| !found.contains(*it)));
                }
            }
            found
        })
    }

    /// The first kind of which there is a mark, and what the mark is.
    fn marked(&self, marks: &[Mark]) -> Option<(&'static str, String)> {
        let by_library = |mark: &Mark| {
            let needed = self.images.iter().flat_map(|image| &image.head.needed);
            let mut names = needed.chain(&self.preloaded).map(|path| file_name(path));
            let found = names.find(|name| {
                mark.libraries.iter().any(|it| name.starts_with(it)) && !is_gperftools(name)
            })?;
            Some((mark.kind, format!("it is loaded with {found}")))
        };
        if let Some(found) = marks.iter().find_map(by_library) {
            return Some(found);
        }
        self.symbols().iter().find_map(|name| {
            let mark = marks.iter().find(|mark| mark.symbols.contains(name))?;
            Some((mark.kind, format!("it has the symbol {name}")))
        })
    }

    fn is_go(&self) -> bool {
        let Some(object) = self.program().and_then(|image| image.object().ok()) else {
            return false;
        };
        let mut names = object.sections().filter_map(|it| it.name().ok().map(str::to_owned));
        names.any(|name| name == ".go.buildinfo" || name == ".note.go.buildid")
    }
}

/// Whether what begins here is this name, with the zero byte behind it.
pub fn is_name(at: &[u8], name: &str) -> bool {
    at.first() == name.as_bytes().first()
        && at.strip_prefix(name.as_bytes()).is_some_and(|rest| rest.first() == Some(&0))
}

/// A library may be named by its path.
fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// The version that a glibc prints when it is run.
fn glibc_version(path: &Path) -> Option<String> {
    if fs::metadata(path).ok()?.len() > LIBRARY_BYTES_MAX {
        return None;
    }
    let mut file = File::open(path).ok()?;
    let finder = memchr::memmem::Finder::new(RELEASE);
    // In small pieces; each begins with the end of the one before.
    let mut piece = vec![0; PIECE_BYTES];
    let mut kept = 0;
    let begin = loop {
        let length = kept + file.read(&mut piece[kept..]).ok().filter(|&it| it != 0)?;
        if let Some(at) = finder.find(&piece[..length]) {
            piece.copy_within(at..length, 0);
            break length - at;
        }
        kept = length.min(RELEASE.len() - 1);
        piece.copy_within(length - kept..length, 0);
    };
    // What is missing of the number is in the next piece.
    let length = begin + file.read(&mut piece[begin..]).ok()?;
    let is_part = |byte: &&u8| byte.is_ascii_digit() || **byte == b'.';
    let number = piece[RELEASE.len()..length].iter();
    let version: Vec<u8> = number.take_while(is_part).take(16).copied().collect();
    let version = String::from_utf8(version).ok()?;
    Some(version.trim_end_matches('.').to_owned())
}
