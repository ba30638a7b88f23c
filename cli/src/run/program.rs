//! The program to run: found as the shell finds it, and looked at for what cannot apply to it.
//!
//! Invariant: what is found here decides about messages only. A program that the kernel takes
//! runs, whatever we think of it.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{Access, AtFlags};
use rustix::io::Errno;

use crate::symbols::image::Image;

/// Where execvp looks if there is no PATH.
const PATH_DEFAULT: &str = "/bin:/usr/bin";
/// The kernel follows no more of them.
const INTERPRETERS_MAX: usize = 5;
/// Of a script's first line.
const LINE_BYTES_MAX: usize = 256;
/// What glibc's loader is told before the program's name, with a value in the next word.
const LOADER_VALUES: [&str; 7] = [
    "--library-path",
    "--inhibit-rpath",
    "--audit",
    "--preload",
    "--argv0",
    "--glibc-hwcaps-prepend",
    "--glibc-hwcaps-mask",
];
/// And without one. After any other word like these it runs nothing.
const LOADER_WORDS: [&str; 1] = ["--inhibit-cache"];

/// Why there is nothing to run, and the status that shells give for it.
#[derive(Debug, Eq, PartialEq)]
pub enum Missing {
    /// 127
    NotFound(OsString),
    /// 126
    NotExecutable(PathBuf, &'static str),
}

impl Missing {
    pub fn status(&self) -> u8 {
        match self {
            Missing::NotFound(_) => 127,
            Missing::NotExecutable(..) => 126,
        }
    }
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Missing::NotFound(name) if name.as_bytes().contains(&b'/') => {
                write!(f, "{}: there is no such program", name.display())
            }
            Missing::NotFound(name) => {
                write!(f, "{}: no folder in PATH has such a program", name.display())
            }
            Missing::NotExecutable(path, why) => write!(f, "{}: {why}", path.display()),
        }
    }
}

/// A program that was found.
pub struct Program {
    /// As the kernel is told it.
    pub path: PathBuf,
    /// What the kernel will map: the program, or for a script its interpreter. None if it is no
    /// ELF file of a kind that is known here. Of a loader that is called by its name: what it is
    /// to load.
    pub image: Option<Image>,
    /// Whether a loader is called by its name.
    pub is_by_loader: bool,
    /// What a script's first line names, in the end.
    interpreter: Option<PathBuf>,
    /// A text without a first line that names an interpreter: /bin/sh runs it, as execvp has it.
    pub is_plain_text: bool,
    /// Whether the loader distrusts its environment: the file changes user, group or
    /// capabilities.
    pub is_privileged: bool,
}

impl Program {
    /// Finds `name` as execvp does.
    pub fn find(name: &OsStr) -> Result<Program, Missing> {
        let path = locate(name)?;
        let mut program = Program {
            path: path.clone(),
            image: None,
            is_by_loader: false,
            interpreter: None,
            is_plain_text: false,
            is_privileged: false,
        };
        let mut next = path;
        for _ in 0..INTERPRETERS_MAX {
            // A script's own bits count for nothing.
            program.is_privileged = is_privileged(&next);
            match Begin::of(&next) {
                Begin::Elf => {
                    program.image = Image::open(&next).ok();
                    break;
                }
                Begin::Script(interpreter) => {
                    program.interpreter = Some(interpreter.clone());
                    next = interpreter;
                }
                Begin::Text => {
                    program.is_plain_text = next == program.path;
                    next = PathBuf::from("/bin/sh");
                }
                Begin::Unknown => break,
            }
        }
        Ok(program)
    }

    /// As [`Program::find`], with the words that follow the name: a loader is told by them what
    /// to load.
    pub fn of(words: &[OsString]) -> Result<Program, Missing> {
        let mut program = Program::find(&words[0])?;
        let is_loader = program.image.as_ref().is_some_and(|image| image.head.is_loader());
        if is_loader
            && program.interpreter.is_none()
            && let Some(loaded) = loaded_by_loader(&words[1..])
        {
            program.image = Some(loaded);
            program.is_by_loader = true;
        }
        Ok(program)
    }

    /// What the kernel is told: the program and its words, or, for a text that names no
    /// interpreter, the shell with it.
    pub fn command(&self, words: &[OsString]) -> (PathBuf, Vec<OsString>) {
        if !self.is_plain_text {
            return (self.path.clone(), words.to_vec());
        }
        let shell = [OsString::from("/bin/sh"), self.path.clone().into()];
        ("/bin/sh".into(), shell.into_iter().chain(words[1..].to_vec()).collect())
    }

    /// Why the kernel says that there is no such file as one that is there: what is to load it, or
    /// to interpret it, is not.
    pub fn missing_interpreter(&self) -> Option<&Path> {
        let image = self.image.as_ref().filter(|_| !self.is_by_loader);
        let loader = image.and_then(|image| image.head.interpreter.as_deref());
        [self.interpreter.as_deref(), loader].into_iter().flatten().find(|path| !path.exists())
    }

    /// What the thread table and the Stack Tuner cannot do for it, if anything. `loadable` says
    /// whether there is a library for programs of this kind.
    pub fn obstacle(&self, loadable: impl Fn(&Image) -> bool) -> Option<String> {
        let image = self.image.as_ref();
        let name = image.map_or(&*self.path, |it| &it.path).display();
        let nothing = "its threads are not named, sized or prioritised";
        let why = match image {
            None => return Some(format!("{name} is no ELF program of this machine: {nothing}")),
            Some(image) if image.head.is_static() => {
                format!("{name} is statically linked, so that no library can be added")
            }
            Some(_) if self.is_privileged => {
                format!(
                    "{name} changes its privileges when it starts, so that the loader adds no \
                    library"
                )
            }
            Some(image) if !loadable(image) => {
                let bits = if image.head.is_64 { 64 } else { 32 };
                let libc = if image.head.is_musl() { ", musl" } else { "" };
                let machine = image.head.machine;
                format!(
                    "there is no libheddle-preload for programs like {name} \
                    ({bits}-bit, machine {machine}{libc})"
                )
            }
            Some(_) => return None,
        };
        Some(format!("{why}: {nothing}"))
    }
}

/// The program among the words for a loader; `None` if it runs none, or searches for it where
/// libraries are.
fn loaded_by_loader(words: &[OsString]) -> Option<Image> {
    let mut words = words.iter();
    let program = loop {
        let word = words.next()?;
        match word.to_str() {
            Some(it) if LOADER_VALUES.contains(&it) => drop(words.next()?),
            Some(it) if LOADER_WORDS.contains(&it) => {}
            Some(it) if it.starts_with("--") => return None,
            _ => break word,
        }
    };
    if !program.as_bytes().contains(&b'/') {
        return None;
    }
    Image::open(Path::new(program)).ok().filter(|image| !image.head.is_static())
}

/// The file that execvp would run.
fn locate(name: &OsStr) -> Result<PathBuf, Missing> {
    if name.is_empty() {
        return Err(Missing::NotFound(name.to_owned()));
    }
    if name.as_bytes().contains(&b'/') {
        let path = PathBuf::from(name);
        return match executable(&path) {
            Ok(()) => Ok(path),
            Err(Some(why)) => Err(Missing::NotExecutable(path, why)),
            Err(None) => Err(Missing::NotFound(name.to_owned())),
        };
    }
    let folders = std::env::var_os("PATH").unwrap_or(PATH_DEFAULT.into());
    let mut refused = None;
    for folder in folders.as_bytes().split(|byte| *byte == b':') {
        // An empty entry is the current folder.
        let folder = if folder.is_empty() { b"." } else { folder };
        let path = Path::new(OsStr::from_bytes(folder)).join(name);
        match executable(&path) {
            Ok(()) => return Ok(path),
            // As execvp: a folder or what may not be run is passed over, and remembered.
            Err(Some(why)) => refused = refused.or(Some(Missing::NotExecutable(path, why))),
            Err(None) => {}
        }
    }
    Err(refused.unwrap_or(Missing::NotFound(name.to_owned())))
}

/// `Err(None)` if there is nothing at all.
fn executable(path: &Path) -> Result<(), Option<&'static str>> {
    let meta = match fs::metadata(path) {
        Ok(meta) => meta,
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
            return Err(Some("permission denied"));
        }
        Err(_) => return Err(None),
    };
    if meta.is_dir() {
        return Err(Some("is a folder"));
    }
    if !meta.is_file() {
        return Err(Some("is no plain file"));
    }
    let may = |flags| rustix::fs::accessat(rustix::fs::CWD, path, Access::EXEC_OK, flags);
    // A filter on system calls that does not know that one says EPERM: then as who we really are.
    let answer = match may(AtFlags::EACCESS) {
        Err(Errno::PERM) => may(AtFlags::empty()),
        answer => answer,
    };
    // For root a file without any such bit is not executable either; the kernel says so.
    if answer == Err(Errno::ACCESS) { Err(Some("is not executable")) } else { Ok(()) }
}

/// What a file begins as.
enum Begin {
    Elf,
    Script(PathBuf),
    Text,
    Unknown,
}

impl Begin {
    fn of(path: &Path) -> Begin {
        // To open a named pipe would wait for somebody who writes.
        if !path.is_file() {
            return Begin::Unknown;
        }
        let mut bytes = Vec::new();
        let taken = File::open(path)
            .and_then(|file| file.take(LINE_BYTES_MAX as u64).read_to_end(&mut bytes));
        if taken.is_err() {
            return Begin::Unknown;
        }
        if bytes.starts_with(b"\x7fELF") {
            return Begin::Elf;
        }
        if let Some(rest) = bytes.strip_prefix(b"#!") {
            let line = rest.split(|byte| *byte == b'\n').next().unwrap_or_default();
            let words = line.split(|byte| matches!(byte, b' ' | b'\t' | b'\r'));
            return match words.into_iter().find(|word| !word.is_empty()) {
                Some(word) => Begin::Script(PathBuf::from(OsString::from_vec(word.to_vec()))),
                None => Begin::Unknown,
            };
        }
        if bytes.contains(&0) { Begin::Unknown } else { Begin::Text }
    }
}

/// Whether running the file changes who we are.
fn is_privileged(path: &Path) -> bool {
    let Ok(meta) = fs::metadata(path) else { return false };
    let (mode, own) = (meta.permissions().mode(), rustix::process::getuid());
    let changes_user = mode & 0o4000 != 0 && meta.uid() != own.as_raw();
    let changes_group = mode & 0o2010 == 0o2010 && meta.gid() != rustix::process::getgid().as_raw();
    let mut value = [0; 64];
    let has_capabilities =
        !own.is_root() && rustix::fs::getxattr(path, "security.capability", &mut value).is_ok();
    changes_user || changes_group || has_capabilities
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_by_path_and_by_name() {
        let found = Program::find("sh".as_ref()).expect("a shell");
        assert!(found.path.is_absolute() && found.image.is_some());
        assert!(!found.is_plain_text && !found.is_privileged);
        assert!(Program::find("/bin/sh".as_ref()).is_ok());
    }

    #[test]
    fn what_is_not_there_has_the_status_of_shells() {
        let status = |name: &str| Program::find(name.as_ref()).err().map(|it| it.status());
        assert_eq!(status("no-such-program-anywhere"), Some(127));
        assert_eq!(status("/no/such/program"), Some(127));
        assert_eq!(status(""), Some(127));
        assert_eq!(status("/etc"), Some(126));
        assert_eq!(status("/etc/passwd"), Some(126));
    }

    #[test]
    fn obstacles_are_named() {
        let program = Program::find("sh".as_ref()).expect("a shell");
        assert_eq!(program.obstacle(|_| true), None);
        let text = program.obstacle(|_| false).expect("an obstacle");
        assert!(text.contains("no libheddle-preload") && text.contains("not named"), "{text}");
    }
}
