//! The folder that is served, and the only way to a file in it.
//!
//! Invariant: every file is opened relative to one directory descriptor, and the kernel itself
//! refuses a path whose resolution leaves that directory (`openat2` with `RESOLVE_BENEATH` and
//! `RESOLVE_NO_MAGICLINKS`). On kernels without `openat2` the path is walked component by
//! component and every symlink is refused, which is stricter, never laxer.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{AtFlags, Mode, OFlags, ResolveFlags, Statx, StatxFlags};
use rustix::io::Errno;

use crate::rt;

const OPEN: OFlags =
    OFlags::RDONLY.union(OFlags::CLOEXEC).union(OFlags::NONBLOCK).union(OFlags::NOCTTY);
const BENEATH: ResolveFlags = ResolveFlags::BENEATH.union(ResolveFlags::NO_MAGICLINKS);
/// A rename on the way makes the kernel give up with EAGAIN; so often is it asked again.
const ATTEMPTS: usize = 8;

/// How paths are kept beneath the root.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Guard {
    /// The kernel resolves and refuses.
    Openat2,
    /// Component by component, no symlinks at all.
    Walk,
}

/// The folder that is served.
#[derive(Debug)]
pub struct Root {
    dir: OwnedFd,
    guard: Guard,
}

/// What says that a file is still the file that was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity {
    device: (u32, u32),
    inode: u64,
    /// Length in bytes.
    pub size: u64,
    /// Modification time: seconds since 1970 (not negative) and nanoseconds.
    pub modified: (u64, u32),
    changed: (i64, u32),
    mode: u16,
}

impl Identity {
    fn new(stat: &Statx) -> Identity {
        Identity {
            device: (stat.stx_dev_major, stat.stx_dev_minor),
            inode: stat.stx_ino,
            size: stat.stx_size,
            modified: (stat.stx_mtime.tv_sec.max(0) as u64, stat.stx_mtime.tv_nsec),
            changed: (stat.stx_ctime.tv_sec, stat.stx_ctime.tv_nsec),
            mode: stat.stx_mode,
        }
    }

    /// It is a regular file.
    pub fn is_file(&self) -> bool {
        rustix::fs::FileType::from_raw_mode(self.mode.into()).is_file()
    }

    /// It is a directory.
    pub fn is_dir(&self) -> bool {
        rustix::fs::FileType::from_raw_mode(self.mode.into()).is_dir()
    }

    /// A strong entity tag: any write to the file changes it.
    pub fn etag(&self) -> String {
        let (seconds, nanos) = self.modified;
        format!("\"{seconds:x}.{nanos:x}-{:x}-{:x}\"", self.size, self.inode)
    }
}

impl Root {
    /// Opens the folder and finds out how the kernel guards it.
    ///
    /// # Errors
    /// The folder does not exist, is not a folder, or may not be read.
    pub fn open(path: &Path) -> io::Result<Root> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let dir = rustix::fs::open(path, flags, Mode::empty())?;
        let probe = rustix::fs::openat2(&dir, c".", OPEN, Mode::empty(), BENEATH);
        let guard = match probe {
            Err(Errno::NOSYS | Errno::INVAL | Errno::PERM) => Guard::Walk,
            _ => Guard::Openat2,
        };
        Ok(Root { dir, guard })
    }

    /// The same folder guarded the other way, to test it where `openat2` exists.
    #[cfg(test)]
    fn with_guard(self, guard: Guard) -> Root {
        Root { guard, ..self }
    }

    /// How paths are kept beneath the root on this kernel.
    #[cfg(test)]
    fn guard(&self) -> Guard {
        self.guard
    }

    /// Opens a path (relative, as `path::locate` makes them) for reading.
    ///
    /// # Errors
    /// The kernel's; `XDEV` or `LOOP` for a path that leads out of the root.
    pub fn file(&self, path: &[u8]) -> Result<(File, Identity), Errno> {
        let path = if path.is_empty() { b"." } else { path };
        let fd = match self.guard {
            Guard::Openat2 => self.resolve(path)?,
            Guard::Walk => self.walk(path)?,
        };
        let file = File::from(fd);
        let identity = identify(&file)?;
        Ok((file, identity))
    }

    /// Names that are not in the kernel's cache are looked up off the worker: a slow disk must
    /// not keep other connections waiting.
    fn resolve(&self, path: &[u8]) -> Result<OwnedFd, Errno> {
        let cached = BENEATH | ResolveFlags::CACHED;
        match rustix::fs::openat2(&self.dir, path, OPEN, Mode::empty(), cached) {
            // INVAL: a kernel before 5.12, which can't tell.
            Err(Errno::AGAIN | Errno::INTR | Errno::INVAL) => {
                rt::blocking(|| self.resolve_from_disk(path))
            }
            other => other,
        }
    }

    fn resolve_from_disk(&self, path: &[u8]) -> Result<OwnedFd, Errno> {
        for _ in 0..ATTEMPTS {
            match rustix::fs::openat2(&self.dir, path, OPEN, Mode::empty(), BENEATH) {
                // AGAIN: the kernel met a rename meanwhile.
                Err(Errno::AGAIN | Errno::INTR) => {}
                other => return other,
            }
        }
        Err(Errno::BUSY)
    }

    fn walk(&self, path: &[u8]) -> Result<OwnedFd, Errno> {
        let step = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut dir: Option<OwnedFd> = None;
        let mut rest = path;
        while let Some(slash) = rest.iter().position(|&b| b == b'/') {
            let from = dir.as_ref().unwrap_or(&self.dir);
            dir = Some(rustix::fs::openat(from, &rest[..slash], step, Mode::empty())?);
            rest = &rest[slash + 1..];
        }
        let from = dir.as_ref().unwrap_or(&self.dir);
        rustix::fs::openat(from, rest, OPEN | OFlags::NOFOLLOW, Mode::empty())
    }

    /// Says what a path names now, without opening it.
    ///
    /// Only for comparison with the identity of a file that `file` once opened: symlinks are
    /// followed wherever they lead, so the answer alone permits nothing.
    pub fn identity(&self, path: &[u8]) -> Result<Identity, Errno> {
        let path = if path.is_empty() { b"." } else { path };
        let flags = AtFlags::NO_AUTOMOUNT;
        let stat = rustix::fs::statx(&self.dir, path, flags, StatxFlags::BASIC_STATS)?;
        Ok(Identity::new(&stat))
    }
}

/// Says what an open file is now.
///
/// # Errors
/// Those of `statx`.
pub fn identify(file: &File) -> Result<Identity, Errno> {
    let stat = rustix::fs::statx(file, c"", AtFlags::EMPTY_PATH, StatxFlags::BASIC_STATS)?;
    Ok(Identity::new(&stat))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn site(name: &str) -> std::path::PathBuf {
        let dir = std::env::temp_dir().join(format!("ice-root-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&dir);
        std::fs::create_dir_all(dir.join("site/sub")).unwrap();
        std::fs::write(dir.join("secret"), "s").unwrap();
        std::fs::write(dir.join("site/sub/a"), "abc").unwrap();
        symlink("../../secret", dir.join("site/sub/out")).unwrap();
        symlink("/etc/hostname", dir.join("site/absolute")).unwrap();
        symlink("/proc/self/root", dir.join("site/magic")).unwrap();
        symlink("..", dir.join("site/up")).unwrap();
        symlink("a", dir.join("site/sub/in")).unwrap();
        dir
    }

    #[test]
    fn nothing_leads_out_by_either_guard() {
        let dir = site("escape");
        for guard in [Guard::Openat2, Guard::Walk] {
            let root = Root::open(&dir.join("site")).unwrap().with_guard(guard);
            assert_eq!(root.file(b"sub/a").unwrap().1.size, 3);
            assert!(root.file(b"").unwrap().1.is_dir());
            for path in
                [&b"sub/out"[..], b"absolute", b"magic/etc/hostname", b"up/secret", b"../secret"]
            {
                let refused = root.file(path).map(|_| ());
                // The walk is handed no `..` by `path`; all others it must refuse as well.
                if guard == Guard::Openat2 || !path.starts_with(b"..") {
                    assert!(
                        matches!(refused, Err(Errno::XDEV | Errno::LOOP | Errno::NOTDIR)),
                        "{guard:?} {refused:?} {}",
                        String::from_utf8_lossy(path)
                    );
                }
            }
        }
        std::fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn symlinks_inside_the_root_work() {
        let dir = site("inside");
        let root = Root::open(&dir.join("site")).unwrap();
        if root.guard() == Guard::Walk {
            println!("skip: no openat2 on this kernel, so no symlink is followed");
        } else {
            assert_eq!(root.file(b"sub/in").unwrap().1, root.identity(b"sub/a").unwrap());
        }
        std::fs::remove_dir_all(dir).unwrap();
    }
}
