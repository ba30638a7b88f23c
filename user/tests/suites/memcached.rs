//! memcached's own tests of the server that is installed: each file that passes natively passes
//! under heddle.
//!
//! They come with its source, which `scripts/package-source` fetches from the system's package
//! sources. They start the server by a program of their own, through which it comes under heddle.
//!
//! A file that differs is run again by itself, on both, as for Python.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::common::drawn::{many, said};
use crate::common::{can_run, folder, free_port, heddle, output_within, serve, text};
use crate::is_nightly;

/// More than all of them take on a busy machine.
const LIMIT: Duration = Duration::from_secs(1800);
/// How many files at once; they mostly wait.
const AT_ONCE: &str = "-j6";
/// An option that only servers with a sandbox know, which few builds have.
const SANDBOX: &str = "$args .= \" -o relaxed_privileges\";";

/// The source, if it is to be had; says so if not.
fn source(folder: &Path) -> Option<PathBuf> {
    let place = folder.join("source");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scripts/package-source");
    let mut fetch = Command::new(script);
    fetch.arg("memcached").arg(&place);
    let fetched = output_within(fetch, Duration::from_secs(300));
    if !fetched.status.success() {
        println!("skip: memcached's source is not to be had: {}", text(&fetched.stderr).trim());
        return None;
    }
    Some(place)
}

/// A copy of the source whose tests start the server by `words`.
fn prepared(source: &Path, name: &str, words: &str) -> PathBuf {
    let copy = source.with_file_name(name);
    let mut copying = Command::new("cp");
    copying.arg("-r").arg(source).arg(&copy);
    assert!(output_within(copying, LIMIT).status.success());
    let mut build = Command::new("cc");
    build.args(["-O1", "-o", "timedrun", "timedrun.c"]).current_dir(&copy);
    assert!(output_within(build, LIMIT).status.success());
    let library = copy.join("t/lib/MemcachedTest.pm");
    let lines = fs::read_to_string(&library).expect("their library");
    fs::write(&library, lines.replace(SANDBOX, "")).expect("ours");
    let server = copy.join("memcached-debug");
    fs::write(&server, format!("#!/bin/sh\nexec {words} \"$@\"\n")).expect("ours");
    fs::set_permissions(&server, fs::Permissions::from_mode(0o755)).expect("ours");
    copy
}

/// The files that pass, and all that was said.
fn passed(copy: &Path, files: &[String]) -> (BTreeSet<String>, String) {
    let mut prove = Command::new("prove");
    prove.arg(AT_ONCE).args(files).envs(said()).current_dir(copy);
    let output = output_within(prove, LIMIT);
    let said = text(&output.stdout) + &text(&output.stderr);
    let passed = said.lines().filter_map(|line| {
        let (name, outcome) = line.split_once(" .")?;
        outcome.ends_with(". ok").then(|| name.to_owned())
    });
    (passed.collect(), said)
}

#[test]
fn memcached_passes_its_own_tests() {
    if !is_nightly() {
        return println!("skip: memcached's tests take minutes; cargo xtask ci nightly runs them");
    }
    if !can_run(&["memcached", "prove", "cc", "perl"]) {
        return;
    }
    let folder = folder("memcached");
    let Some(source) = source(&folder) else { return };
    let user = format!("{} run --threads user --report none -- memcached", heddle().display());
    let native = prepared(&source, "native", "memcached");
    let user = prepared(&source, "user", &user);
    let (held, _) = passed(&native, &["t/".to_owned()]);
    assert!(!held.is_empty(), "not one file passes natively");
    // Their servers are started by a script, which would not show that one has kernel threads.
    let port = free_port();
    drop(serve(&["memcached", "-u", "nobody", "-p", &port.to_string()], port));
    many("memcached", || {
        let (same, _) = passed(&user, &["t/".to_owned()]);
        let mut different: Vec<String> = held.difference(&same).cloned().collect();
        println!("{} files pass natively, {} differ", held.len(), different.len());
        if !different.is_empty() {
            println!("again, by themselves: {different:?}");
            let (held, _) = passed(&native, &different);
            let (same, said) = passed(&user, &different);
            different = held.difference(&same).cloned().collect();
            assert!(different.is_empty(), "{different:?}: {said}");
        }
    });
    fs::remove_dir_all(folder).expect("ours");
}
