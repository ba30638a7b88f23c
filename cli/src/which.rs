//! Which process is meant: a number or a name.
//!
//! Invariant: a text of digits is a number, never a name; this process itself is never meant by
//! a name.

use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::str::FromStr;

use anyhow::{Result, bail};

/// What the kernel keeps of a program's name.
const COMM_BYTES_MAX: usize = 15;

/// As it was typed.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Which {
    Pid(i32),
    Name(String),
}

impl FromStr for Which {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Which, &'static str> {
        if !text.bytes().all(|byte| byte.is_ascii_digit()) {
            return Ok(Which::Name(text.to_owned()));
        }
        let pid = text.parse().ok().filter(|pid| *pid > 0);
        pid.map(Which::Pid).ok_or("no process has this number")
    }
}

impl Which {
    /// The processes that are meant, at least one, by number.
    pub fn pids(&self) -> Result<Vec<i32>> {
        match self {
            Which::Pid(pid) => Ok(vec![*pid]),
            Which::Name(name) => match named(name) {
                pids if pids.is_empty() => bail!("there is no process called {name:?}"),
                pids => Ok(pids),
            },
        }
    }

    /// The only one that is meant.
    pub fn pid(&self) -> Result<i32> {
        match (self.pids()?.as_slice(), self) {
            ([pid], _) => Ok(*pid),
            (pids, Which::Name(name)) => {
                let pids = pids.iter().map(i32::to_string).collect::<Vec<_>>().join(", ");
                bail!("several processes are called {name:?}, say which one: {pids}")
            }
            _ => unreachable!("a number is one process"),
        }
    }
}

/// The processes whose program's file or whose own name is this.
fn named(name: &str) -> Vec<i32> {
    let own = std::process::id().cast_signed();
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let mut pids: Vec<i32> = pids.filter(|pid| *pid != own && is_named(*pid, name)).collect();
    pids.sort_unstable();
    pids
}

fn is_named(pid: i32, name: &str) -> bool {
    let folder = Path::new("/proc").join(pid.to_string());
    let Ok(comm) = fs::read(folder.join("comm")) else { return false };
    let comm = comm.strip_suffix(b"\n").unwrap_or(&comm);
    // A longer name is told whole by the file alone.
    if name.len() <= COMM_BYTES_MAX && comm == name.as_bytes() {
        return true;
    }
    let file = fs::read_link(folder.join("exe")).unwrap_or_default();
    file.file_name() == Some(OsStr::new(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn which(text: &str) -> Which {
        text.parse().expect("a number or a name")
    }

    #[test]
    fn numbers_are_numbers() {
        assert_eq!(which("4711"), Which::Pid(4711));
        for name in ["-1", "4711x", "x"] {
            assert_eq!(which(name), Which::Name(name.into()));
        }
        for wrong in ["0", "99999999999", ""] {
            assert!(wrong.parse::<Which>().is_err(), "{wrong:?}");
        }
        assert_eq!(which("4711").pid().expect("a number"), 4711);
    }

    #[test]
    fn names_are_of_files_and_of_processes() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().expect("sleep");
        let pid = child.id().cast_signed();
        let pids = which("sleep").pids();
        child.kill().and_then(|()| child.wait().map(drop)).expect("its end");
        assert!(pids.expect("at least one").contains(&pid));
        let error = which("no process is called so").pids().expect_err("none");
        assert!(error.to_string().contains("no process is called so"));
        let own = std::env::current_exe().expect("a file");
        let own = own.file_name().and_then(OsStr::to_str).expect("text").to_owned();
        let others = named(&own);
        assert!(!others.contains(&std::process::id().cast_signed()), "{others:?}");
    }
}
