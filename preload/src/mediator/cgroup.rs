//! Control groups for the regions, below the one that the process is in.
//!
//! ```text
//! HOME                              where the process is
//! HOME/heddle.PID.fast              weight 10000
//! HOME/heddle.PID.lazy              weight 1
//! HOME/heddle.PID.lazy/GROUP        urgent 800, normal 100, service 30, background idle
//! ```
//!
//! Invariants
//! - Threads move, their process stays: a threaded subtree of cgroup v2, or, where the cpu
//!   controller still is in a hierarchy of its own, the `tasks` files of v1.
//! - Only folders with our own prefix are made and removed; HOME's settings are put back.
//! - [`Groups::remove`] puts every thread found in our folders back into HOME first.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use heddle_record::Group;

use super::world::Cell;

/// The weight that the kernel gives a group for which nothing is said.
const WEIGHT_USUAL: u32 = 100;

/// A hierarchy with a cpu controller: which files do what.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Version {
    One,
    Two,
}

impl Version {
    fn threads_file(self) -> &'static str {
        if self == Version::Two { "cgroup.threads" } else { "tasks" }
    }

    /// The weight's file and text; v1 counts 1024 where v2 counts 100.
    fn weight(self, weight: u32) -> (&'static str, String) {
        match self {
            Version::Two => ("cpu.weight", weight.to_string()),
            Version::One => ("cpu.shares", (weight * 1024 / WEIGHT_USUAL).max(2).to_string()),
        }
    }
}

/// The regions' control groups of one process.
#[derive(Clone, Debug)]
pub struct Groups {
    version: Version,
    home: PathBuf,
    pid: i32,
    /// HOME did not give its cpu controller to subgroups before us.
    enabled: bool,
}

/// The control group of a process that this user may divide.
///
/// # Errors
/// Why there is none, in words.
pub fn find(pid: i32) -> Result<PathBuf, String> {
    locate(pid).and_then(|(version, home)| {
        let file = home.join(version.threads_file());
        let writable = rustix::fs::access(&file, rustix::fs::Access::WRITE_OK).is_ok()
            && rustix::fs::access(&home, rustix::fs::Access::WRITE_OK).is_ok();
        if writable {
            Ok(home)
        } else {
            Err(format!("{} is not delegated to this user", home.display()))
        }
    })
}

fn locate(pid: i32) -> Result<(Version, PathBuf), String> {
    let read = |path: String| fs::read_to_string(&path).map_err(|it| format!("{path}: {it}"));
    let groups = read(format!("/proc/{pid}/cgroup"))?;
    let mounts = read("/proc/self/mountinfo".into())?;
    locate_in(&groups, &mounts, &|path| path.exists())
}

/// By the texts of /proc/PID/cgroup and /proc/self/mountinfo.
fn locate_in(
    groups: &str,
    mounts: &str,
    exists: &dyn Fn(&Path) -> bool,
) -> Result<(Version, PathBuf), String> {
    for line in groups.lines() {
        let mut parts = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(path)) = (parts.next(), parts.next(), parts.next())
        else {
            continue;
        };
        let version = match controllers {
            "" => Version::Two,
            names if names.split(',').any(|name| name == "cpu") => Version::One,
            _ => continue,
        };
        let Some(home) = mounted(mounts, version, path) else { continue };
        // The file is there if the controller is, but in the root group of v2.
        let has_cpu = match version {
            Version::One => true,
            Version::Two => exists(&home.join("cpu.weight")),
        };
        if has_cpu {
            return Ok((version, home));
        }
    }
    Err("the process is in no control group with a cpu controller below the root".into())
}

/// Where a group of this hierarchy is mounted here.
fn mounted(mounts: &str, version: Version, path: &str) -> Option<PathBuf> {
    for line in mounts.lines() {
        let (fields, kind) = line.split_once(" - ")?;
        let mut fields = fields.split(' ').skip(3);
        let (root, point) = (fields.next()?, fields.next()?);
        let mut kind = kind.split(' ');
        let (name, options) = (kind.next()?, kind.nth(1).unwrap_or(""));
        let fits = match version {
            Version::Two => name == "cgroup2",
            Version::One => name == "cgroup" && options.split(',').any(|it| it == "cpu"),
        };
        let below = if root == "/" { Some(path) } else { path.strip_prefix(root) };
        if let (true, Some(below)) = (fits, below) {
            return Some(Path::new(point).join(below.trim_start_matches('/')));
        }
    }
    None
}

impl Groups {
    /// Finds out where the groups of a process would be; makes nothing.
    ///
    /// # Errors
    /// Why there can be none, in words.
    pub fn plan(pid: i32) -> Result<Groups, String> {
        let (version, home) = locate(pid)?;
        Ok(Groups::plan_in(version, home, pid))
    }

    fn plan_in(version: Version, home: PathBuf, pid: i32) -> Groups {
        let enabled = version == Version::Two && !has_cpu(&home);
        Groups { version, home, pid, enabled }
    }

    /// Makes the groups.
    ///
    /// # Errors
    /// If a file could not be made or written; nothing is left behind then.
    pub fn make(&self) -> io::Result<()> {
        self.build().inspect_err(|_| self.remove())
    }

    fn build(&self) -> io::Result<()> {
        let (fast, lazy) = (self.path(Cell::Fast), self.lazy());
        let mut folders = vec![(fast, 10_000), (lazy, 1)];
        let weights = [800, WEIGHT_USUAL, 30, 1];
        folders.extend(Group::ALL.iter().map(|it| self.path(Cell::Lazy(*it))).zip(weights));
        for (folder, _) in &folders {
            make_folder(folder)?;
            if self.version == Version::Two {
                write(&folder.join("cgroup.type"), "threaded")?;
            }
        }
        if self.version == Version::Two {
            enable(&self.home)?;
            enable(&self.lazy())?;
        }
        for (folder, weight) in &folders {
            let (file, text) = self.version.weight(*weight);
            write(&folder.join(file), &text)?;
        }
        // Linux 5.15; without it the weight alone tells background threads apart.
        let idle = self.path(Cell::Lazy(Group::Background)).join("cpu.idle");
        let _ = write(&idle, "1");
        Ok(())
    }

    fn lazy(&self) -> PathBuf {
        self.home.join(format!("heddle.{}.lazy", self.pid))
    }

    fn path(&self, cell: Cell) -> PathBuf {
        match cell {
            Cell::Home => self.home.clone(),
            Cell::Fast => self.home.join(format!("heddle.{}.fast", self.pid)),
            Cell::Lazy(group) => self.lazy().join(group.word()),
        }
    }

    /// Puts a thread into a group.
    ///
    /// # Errors
    /// ESRCH if it is no more; EACCES, EBUSY, EOPNOTSUPP if the kernel does not want to.
    pub fn place(&self, tid: i32, cell: Cell) -> io::Result<()> {
        write(&self.path(cell).join(self.version.threads_file()), &tid.to_string())
    }

    /// Puts all threads back and removes the groups. What cannot be removed stays, empty.
    pub fn remove(&self) {
        const ROUNDS_MAX: usize = 8;
        let cells = Group::ALL.iter().map(|it| self.path(Cell::Lazy(*it)));
        let cells = cells.chain([self.lazy(), self.path(Cell::Fast)]);
        for folder in cells {
            for _ in 0..ROUNDS_MAX {
                let text = fs::read_to_string(folder.join(self.version.threads_file()));
                let text = text.unwrap_or_default();
                for tid in text.lines().filter_map(|line| line.parse().ok()) {
                    let _ = self.place(tid, Cell::Home);
                }
                if text.is_empty() {
                    break;
                }
            }
            let _ = fs::remove_dir(folder);
        }
        if self.enabled {
            let _ = write(&self.home.join("cgroup.subtree_control"), "-cpu");
        }
    }
}

fn make_folder(path: &Path) -> io::Result<()> {
    match fs::create_dir(path) {
        // Left by an earlier process with this number.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        other => other,
    }
}

/// Whether a group gives the cpu controller to its subgroups.
fn has_cpu(folder: &Path) -> bool {
    let text = fs::read_to_string(folder.join("cgroup.subtree_control")).unwrap_or_default();
    text.split_ascii_whitespace().any(|it| it == "cpu")
}

fn enable(folder: &Path) -> io::Result<()> {
    if has_cpu(folder) { Ok(()) } else { write(&folder.join("cgroup.subtree_control"), "+cpu") }
}

/// Control files are written, not created.
fn write(path: &Path, text: &str) -> io::Result<()> {
    use std::io::Write;
    fs::OpenOptions::new().write(true).open(path)?.write_all(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "\
30 20 0:26 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu,cpuacct
31 20 0:27 /box /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw,nsdelegate
";

    #[test]
    fn groups_are_found_in_both_versions() {
        let one = "4:cpu,cpuacct:/app\n0::/box/app\n";
        let found = locate_in(one, MOUNTS, &|_| false).expect("v1");
        assert_eq!(found, (Version::One, "/sys/fs/cgroup/cpu/app".into()));
        let found = locate_in("0::/box/app\n", MOUNTS, &|_| true).expect("v2");
        assert_eq!(found, (Version::Two, "/sys/fs/cgroup/unified/app".into()));
        assert!(locate_in("0::/box/app\n", MOUNTS, &|_| false).is_err());
        assert!(locate_in("0::/elsewhere\n", MOUNTS, &|_| true).is_err());
        assert!(locate_in("nonsense", MOUNTS, &|_| true).is_err());
    }

    #[test]
    fn weights_keep_their_relation_in_both_versions() {
        assert_eq!(Version::Two.weight(10_000), ("cpu.weight", "10000".into()));
        assert_eq!(Version::One.weight(10_000), ("cpu.shares", "102400".into()));
        assert_eq!(Version::One.weight(1), ("cpu.shares", "10".into()));
    }

    /// As far as plain files can play a control group: what is written where.
    #[test]
    fn the_tree_is_made_as_the_kernel_wants_it() {
        let home = std::env::temp_dir().join(format!("heddle-cgroup-{}", std::process::id()));
        let all = ["", "heddle.7.fast", "heddle.7.lazy"].map(|it| home.join(it));
        let groups = Group::ALL.iter().map(|it| home.join("heddle.7.lazy").join(it.word()));
        let folders: Vec<_> = all.into_iter().chain(groups).collect();
        for folder in &folders {
            fs::create_dir_all(folder).expect("a folder");
            for file in ["cgroup.type", "cgroup.threads", "cpu.weight", "cpu.idle"] {
                fs::write(folder.join(file), "").expect("a file");
            }
            fs::write(folder.join("cgroup.subtree_control"), "").expect("a file");
        }
        let made = Groups::plan_in(Version::Two, home.clone(), 7);
        made.make().expect("groups");
        let read = |path: &str| fs::read_to_string(home.join(path)).expect("a file");
        assert_eq!(read("heddle.7.fast/cpu.weight"), "10000");
        assert_eq!(read("heddle.7.lazy/cpu.weight"), "1");
        assert_eq!(read("heddle.7.lazy/service/cgroup.type"), "threaded");
        assert_eq!(read("heddle.7.lazy/background/cpu.idle"), "1");
        assert_eq!(read("heddle.7.lazy/cgroup.subtree_control"), "+cpu");
        assert_eq!(read("cgroup.subtree_control"), "+cpu");
        made.place(4711, Cell::Lazy(Group::Urgent)).expect("a thread is placed");
        assert_eq!(read("heddle.7.lazy/urgent/cgroup.threads"), "4711");
        made.remove();
        assert_eq!(read("cgroup.threads"), "4711");
        assert_eq!(read("cgroup.subtree_control"), "-cpu");
        fs::remove_dir_all(&home).expect("cleaned up");
    }
}
