//! `libheddle-preload.so` where programs can load it.
//!
//! The libraries are part of this program: [`directory`] finds a folder that has them, or writes
//! them into one. The folder is laid out so that one text for `LD_PRELOAD` fits 64-bit and 32-bit
//! programs: glibc's loader puts the right folder's name in the place of `$LIB`.
//!
//! Invariants
//! - Only a folder is used that belongs to this user (or, installed, to root), and that nobody
//!   else may write: whoever can change the library runs code in the user's programs.
//! - Only a file is used whose bytes are the embedded ones. New files appear by rename, complete.
//! - The path has no character that `LD_PRELOAD` would split or expand.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{
    DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _,
};
use std::path::{Path, PathBuf};
use std::ptr;

use rustix::fs::StatVfsMountFlags;

/// A library that was built with this program.
#[derive(Debug)]
pub struct Embedded {
    /// As `CARGO_CFG_TARGET_ARCH` names it.
    arch: &'static str,
    bytes: &'static [u8],
}

mod embedded {
    use super::Embedded;
    include!(concat!(env!("OUT_DIR"), "/embedded.rs"));
}

/// Why programs of 32 bits cannot be followed; `None` if they can.
pub use embedded::MISSING_32;
use embedded::{EMBEDDED, VERSION};

/// Of root's caches, where everybody can read.
const COMMON_CACHE: &str = "/var/cache";
/// The library's file name.
pub const FILE_NAME: &str = "libheddle-preload.so";
/// Where the kernel's ELF numbers and the folders of glibc's `$LIB` meet.
const MACHINES: &[Machine] = &[
    Machine { arch: "x86_64", class: 2, elf: 62, folders: &["lib/x86_64-linux-gnu", "lib64"] },
    Machine { arch: "x86", class: 1, elf: 3, folders: &["lib/i386-linux-gnu", "lib32"] },
    Machine { arch: "aarch64", class: 2, elf: 183, folders: &["lib/aarch64-linux-gnu", "lib64"] },
    Machine { arch: "arm", class: 1, elf: 40, folders: &["lib/arm-linux-gnueabihf"] },
    Machine { arch: "riscv64", class: 2, elf: 243, folders: &["lib/riscv64-linux-gnu", "lib64"] },
];

struct Machine {
    arch: &'static str,
    /// 1: 32 bits, 2: 64 bits.
    class: u8,
    elf: u16,
    folders: &'static [&'static str],
}

/// A folder that has the libraries.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Library {
    root: PathBuf,
}

/// Finds the libraries, or writes them.
///
/// In this order: `../lib/heddle` beside this program; `$XDG_CACHE_HOME/heddle`; root's is
/// `/var/cache/heddle`, for what it starts as another user can read that; `~/.cache/heddle`;
/// `$XDG_RUNTIME_DIR/heddle`; a private folder in `/dev/shm` or `/tmp`.
///
/// # Errors
/// Why the last of these could not be used.
pub fn directory() -> io::Result<Library> {
    if let Some(root) = installed().filter(|root| usable(root) && is_complete(root)) {
        return Ok(Library { root });
    }
    let mut reason = io::Error::new(io::ErrorKind::NotFound, "no folder to put the library in");
    for root in candidates() {
        match write_into(&root) {
            Ok(()) => return Ok(Library { root }),
            Err(error) => {
                reason = io::Error::new(error.kind(), format!("{}: {error}", root.display()))
            }
        }
    }
    Err(reason)
}

impl Library {
    /// The libraries in a folder of the caller's choice, written if they are not there.
    ///
    /// # Errors
    /// If they cannot be written, or the folder is not safe.
    pub fn in_folder(root: &Path) -> io::Result<Library> {
        write_into(root)?;
        Ok(Library { root: root.to_owned() })
    }

    /// The folder.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// What `LD_PRELOAD` has to say for programs of glibc, whatever their size of addresses.
    pub fn preload(&self) -> OsString {
        self.root.join("$LIB").join(FILE_NAME).into_os_string()
    }

    /// What `LD_PRELOAD` has to say for a program of this ELF class (1: 32 bits, 2: 64 bits) and
    /// machine; `None` if there is no library for it. musl's loader knows no `$LIB`.
    pub fn preload_for(&self, class: u8, machine: u16, musl: bool) -> Option<OsString> {
        let machine = MACHINES.iter().find(|it| it.class == class && it.elf == machine)?;
        EMBEDDED.iter().find(|it| it.arch == machine.arch)?;
        if !musl {
            return Some(self.preload());
        }
        Some(self.root.join(machine.folders[0]).join(FILE_NAME).into_os_string())
    }
}

/// Where `make install` puts them.
fn installed() -> Option<PathBuf> {
    let program = std::env::current_exe().ok()?;
    Some(program.parent()?.parent()?.join("lib/heddle"))
}

fn candidates() -> Vec<PathBuf> {
    let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    let absolute = |path: PathBuf| path.is_absolute().then_some(path);
    let home = || Some(PathBuf::from(variable("HOME")?).join(".cache"));
    let said = variable("XDG_CACHE_HOME").map(PathBuf::from).and_then(absolute);
    let user = rustix::process::geteuid().as_raw();
    let common = (said.is_none() && user == 0).then(|| PathBuf::from(COMMON_CACHE));
    let cache = said.or_else(home);
    let runtime = variable("XDG_RUNTIME_DIR").map(PathBuf::from);
    let mut roots: Vec<PathBuf> = [common, cache, runtime]
        .into_iter()
        .flatten()
        .filter_map(absolute)
        .map(|it| it.join("heddle"))
        .collect();
    for folder in ["/dev/shm", "/tmp"] {
        roots.push(Path::new(folder).join(format!(".heddle-{user}")));
    }
    roots.into_iter().map(|root| root.join(VERSION)).filter(|root| usable(root)).collect()
}

/// The loader splits at spaces and colons and expands dollars.
fn usable(root: &Path) -> bool {
    !root.as_os_str().as_bytes().iter().any(|byte| b" :$".contains(byte))
}

/// Where the bytes of one library were found or put last: the same file has them under its other
/// names.
#[derive(Default)]
struct Seen {
    path: PathBuf,
    file: Option<(u64, u64)>,
    bytes: &'static [u8],
}

impl Seen {
    /// Whether `path` has these bytes, and nobody else can have put them there.
    fn is_current(&mut self, path: &Path, bytes: &'static [u8]) -> bool {
        if !is_trusted(path) || !path.parent().is_some_and(is_trusted) {
            return false;
        }
        let Ok(file) = File::open(path) else { return false };
        let identity = file.metadata().ok().map(|it| (it.dev(), it.ino()));
        let is_same = identity.is_some() && identity == self.file && ptr::eq(bytes, self.bytes);
        if !is_same && !holds(file, bytes) {
            return false;
        }
        *self = Seen { path: path.to_owned(), file: identity, bytes };
        true
    }

    /// Puts these bytes there: by another name of the same file, if there is one.
    fn replace(&mut self, path: &Path, bytes: &'static [u8]) -> io::Result<()> {
        let is_seen = self.file.is_some() && ptr::eq(bytes, self.bytes);
        replace(path, bytes, is_seen.then_some(&*self.path))?;
        let file = fs::metadata(path).ok().map(|it| (it.dev(), it.ino()));
        *self = Seen { path: path.to_owned(), file, bytes };
        Ok(())
    }
}

/// Every place under the root where a loader may look, with what has to be there; names of one
/// library follow each other.
fn files() -> Vec<(PathBuf, &'static [u8])> {
    let mut files = Vec::new();
    for embedded in EMBEDDED {
        let machine = MACHINES.iter().find(|it| it.arch == embedded.arch);
        let folders = machine.map_or(&[][..], |it| it.folders);
        let plain = (machine.map(|it| it.class) == plain_lib_class()).then_some("lib");
        for folder in folders.iter().copied().chain(plain) {
            files.push((Path::new(folder).join(FILE_NAME), embedded.bytes));
        }
    }
    files
}

/// Whose folder `lib` is: on systems with `lib64` the 32-bit programs', else (Arch) the others'.
fn plain_lib_class() -> Option<u8> {
    let loader = fs::canonicalize("/lib64/ld-linux-x86-64.so.2");
    let is_plain = loader.is_ok_and(|path| path.parent().is_some_and(|dir| dir.ends_with("lib")));
    let has_lib64 = Path::new("/lib64").exists() && !is_plain;
    Some(if has_lib64 { 1 } else { 2 })
}

fn is_complete(root: &Path) -> bool {
    let mut seen = Seen::default();
    let mut files = files().into_iter();
    is_trusted(root) && files.all(|(path, bytes)| seen.is_current(&root.join(path), bytes))
}

/// Nobody but this user, or root, can have put something there.
fn is_trusted(path: &Path) -> bool {
    let own = rustix::process::geteuid().as_raw();
    fs::symlink_metadata(path).is_ok_and(|meta| {
        (meta.uid() == own || meta.uid() == 0)
            && meta.mode() & 0o022 == 0
            && !meta.file_type().is_symlink()
    })
}

/// Whether `file` has exactly these bytes. In small pieces: this is part of each start.
fn holds(mut file: fs::File, mut bytes: &[u8]) -> bool {
    let mut piece = [0; 32 << 10];
    loop {
        match file.read(&mut piece) {
            Ok(0) => return bytes.is_empty(),
            Ok(length) => match bytes.strip_prefix(&piece[..length]) {
                Some(rest) => bytes = rest,
                None => return false,
            },
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return false,
        }
    }
}

/// Makes the folder complete.
fn write_into(root: &Path) -> io::Result<()> {
    if !usable(root) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "its name has ' ', ':' or '$'"));
    }
    make_folder(root)?;
    if is_noexec(root) {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, "mounted without exec"));
    }
    let mut seen = Seen::default();
    for (path, bytes) in files() {
        let path = root.join(path);
        let folder = path.parent().unwrap_or(root);
        make_folder(folder)?;
        if !seen.is_current(&path, bytes) {
            seen.replace(&path, bytes)?;
        }
    }
    Ok(())
}

/// A folder whose last part is ours alone. What lies above it was the user's choice.
fn make_folder(path: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path)?;
    open_for_all(path, 0o755)?;
    let parent = path.parent().unwrap_or(path);
    // `.heddle-UID` in a folder that everybody may write: somebody else may have been there first.
    let named = parent.file_name().is_some_and(is_private_name);
    if is_trusted(path) && (!named || is_trusted(parent)) {
        return Ok(());
    }
    let text = "not used: it belongs to another user, or others may write there";
    Err(io::Error::new(io::ErrorKind::PermissionDenied, text))
}

/// Whatever the umask is: of root's cache in [`COMMON_CACHE`], down to the libraries.
fn open_for_all(path: &Path, mode: u32) -> io::Result<()> {
    let ours =
        path.ancestors().filter(|it| it.parent().is_some_and(|it| it.starts_with(COMMON_CACHE)));
    for (depth, path) in ours.enumerate() {
        let mode = if depth == 0 { mode } else { 0o755 };
        if fs::metadata(path)?.mode() & 0o777 != mode {
            fs::set_permissions(path, fs::Permissions::from_mode(mode))?;
        }
    }
    Ok(())
}

fn is_private_name(name: &OsStr) -> bool {
    name.as_bytes().starts_with(b".heddle-")
}

fn is_noexec(root: &Path) -> bool {
    rustix::fs::statvfs(root).is_ok_and(|it| it.f_flag.contains(StatVfsMountFlags::NOEXEC))
}

fn replace(path: &Path, bytes: &[u8], same: Option<&Path>) -> io::Result<()> {
    let temporary = path.with_extension(format!("{}.new", std::process::id()));
    // One of an earlier process with our number that died in between.
    let _ = fs::remove_file(&temporary);
    // Not every file system has further names for a file.
    let is_linked = same.is_some_and(|same| fs::hard_link(same, &temporary).is_ok());
    let written = if is_linked { Ok(()) } else { write_new(&temporary, bytes) };
    let result = written.and_then(|()| fs::rename(&temporary, path));
    // Still there if it failed; and if another process has put this very file there meanwhile, for
    // then a rename does nothing.
    let _ = fs::remove_file(&temporary);
    result
}

fn write_new(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file: File =
        fs::OpenOptions::new().write(true).create_new(true).mode(0o644).open(path)?;
    open_for_all(path, 0o644)?;
    file.write_all(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(name: &str) -> PathBuf {
        let path =
            std::env::temp_dir().join(format!("heddle-library-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        path
    }

    #[test]
    fn written_once_and_mended_when_changed() {
        let root = folder("mend");
        let library = Library::in_folder(&root).expect("writable");
        let first = root.join(MACHINES[0].folders[0]).join(FILE_NAME);
        if EMBEDDED[0].arch == "x86_64" {
            let written = fs::metadata(&first).expect("there").ino();
            assert_eq!(Library::in_folder(&root).expect("again"), library);
            assert_eq!(fs::metadata(&first).expect("there").ino(), written, "not written again");
            fs::write(&first, b"something else").expect("ours");
            Library::in_folder(&root).expect("mended");
            assert_eq!(fs::read(&first).expect("there"), EMBEDDED[0].bytes);
            let second = root.join(MACHINES[0].folders[1]).join(FILE_NAME);
            let written = fs::metadata(&first).expect("there").ino();
            assert_eq!(fs::metadata(&second).expect("there").ino(), written, "one file, two names");
            fs::remove_file(&second).expect("ours");
            fs::write(&second, b"another file").expect("ours");
            Library::in_folder(&root).expect("mended");
            assert_eq!(fs::read(&second).expect("there"), EMBEDDED[0].bytes);
            let count = fs::read_dir(second.parent().expect("in one")).expect("there").count();
            assert_eq!(count, 1, "nothing else is left");
        }
        assert!(is_complete(&root));
        fs::remove_dir_all(&root).expect("ours");
    }

    #[test]
    fn a_folder_that_others_may_write_is_refused() {
        let root = folder("shared");
        fs::create_dir_all(&root).expect("temporary");
        fs::set_permissions(&root, fs::Permissions::from_mode(0o777)).expect("ours");
        let error = Library::in_folder(&root).expect_err("not safe");
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
        fs::remove_dir_all(&root).expect("ours");
    }

    #[test]
    fn names_that_the_loader_would_split_are_refused() {
        for name in ["a b", "a:b", "a$b"] {
            let error = Library::in_folder(&folder(name)).expect_err(name);
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        }
    }

    #[test]
    fn programs_of_other_machines_have_no_library() {
        let library = Library { root: "/x".into() };
        assert_eq!(library.preload_for(2, 4711, false), None);
        if cfg!(target_arch = "x86_64") {
            let text = library.preload_for(2, 62, false).expect("this machine");
            assert_eq!(text, "/x/$LIB/libheddle-preload.so");
            let text = library.preload_for(2, 62, true).expect("this machine");
            assert_eq!(text, "/x/lib/x86_64-linux-gnu/libheddle-preload.so");
        }
    }
}
