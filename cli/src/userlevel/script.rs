//! From a name to the program that will really run: through `#!` lines and through `env`.
//!
//! Invariant: as the kernel and execvp have it, with `env` looked through in addition, because
//! half of all scripts begin with it. No more than `STEPS_MAX` steps, so a circle ends.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use crate::run::program::{Missing, Program};

/// Scripts that name each other through `env`.
const STEPS_MAX: usize = 4;
/// Of a script's first line; the kernel reads no more.
const LINE_BYTES_MAX: u64 = 256;

/// The program that was asked for, then each one that `env` would start instead.
pub struct Chain {
    pub programs: Vec<Program>,
}

impl Chain {
    /// What runs the script, if it is one.
    pub fn interpreter(&self) -> Option<PathBuf> {
        let (first, last) = (self.programs.first()?, self.programs.last()?);
        let image = last.image.as_ref().map_or(&last.path, |image| &image.path);
        (*image != first.path).then(|| image.clone())
    }
}

/// Finds the program of these words, and what it stands for.
///
/// # Errors
/// When there is none, or `env` would find none.
pub fn follow(words: &[OsString]) -> Result<Chain, Missing> {
    let mut programs = vec![Program::of(words)?];
    for _ in 0..STEPS_MAX {
        let Some(next) = programs.last().and_then(|program| behind_env(&program.path)) else {
            break;
        };
        programs.push(Program::find(&next)?);
    }
    Ok(Chain { programs })
}

/// The program that a script's first line has `env` start.
fn behind_env(script: &Path) -> Option<OsString> {
    let mut line = Vec::new();
    File::open(script).ok()?.take(LINE_BYTES_MAX).read_to_end(&mut line).ok()?;
    let line = line.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    let words = line.split(|byte| matches!(byte, b' ' | b'\t' | b'\r'));
    let mut words = words.filter(|word| !word.is_empty());
    let interpreter = Path::new(OsStr::from_bytes(words.next()?));
    if interpreter.file_name() != Some(OsStr::new("env")) {
        return None;
    }
    let is_name = |word: &&[u8]| !word.starts_with(b"-") && !word.contains(&b'=');
    words.find(is_name).map(|word| OsString::from_vec(word.to_vec()))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn script(name: &str, line: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("heddle-env-{}-{name}", std::process::id()));
        fs::write(&path, line).expect("a file");
        path
    }

    #[test]
    fn env_is_looked_through() {
        let cases = [
            ("plain", "#!/usr/bin/env python3\n", Some("python3")),
            ("split", "#!/usr/bin/env -S A=b perl -w\n", Some("perl")),
            ("spaces", "#! /bin/env\tsh\nexit\n", Some("sh")),
            ("other", "#!/bin/sh env\n", None),
            ("alone", "#!/usr/bin/env\n", None),
            ("text", "env sh\n", None),
        ];
        for (name, line, expected) in cases {
            let path = script(name, line);
            let found = behind_env(&path);
            fs::remove_file(&path).expect("our file");
            assert_eq!(found.as_deref(), expected.map(OsStr::new), "{line}");
        }
        assert_eq!(behind_env(Path::new("/bin/sh")), None);
    }
}
