//! xz, pigz and zstd on several threads: the same bytes, and the way back.
//!
//! Invariant: the input does not compress to nothing, and is large enough for several blocks.

use std::fs;
use std::process::Command;

use crate::report::check_tuned;
use crate::support::{Folder, find, skip};

fn input(folder: &Folder) {
    let mut state = 1_u64;
    let words = (0..600_000).map(|at| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        format!("{at} {:x}\n", state >> 52)
    });
    fs::write(folder.path("input"), words.collect::<String>()).expect("an input");
}

/// Compresses plainly, observed and tuned, to the same bytes; `back` restores the input.
fn same(program: &str, words: &[&str], back: &[&str]) {
    if find(program).is_none() {
        skip!("{program} is not installed and could not be");
    }
    let folder = Folder::new(program);
    input(&folder);
    let run = |mut command: Command, to: &str| {
        // The output is bytes: a shell would redirect it, a test names a file.
        command.args(words).arg("input");
        let file = fs::File::create(folder.path(to)).expect("a file");
        let output = command.stdout(file).output().expect("it runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        fs::read(folder.path(to)).expect("what it made")
    };
    let plain = run(folder.plain(program), "plain");
    assert!(plain == run(folder.under(&[], program), "observed"), "other bytes, observed");
    let observed = folder.report();
    observed.check();
    assert!(observed.created() >= 2, "{}", observed.0);
    let flags = ["--stacks", "auto"];
    assert!(plain == run(folder.under(&flags, program), "tuned"), "other bytes, tuned");
    let tuned = folder.report();
    tuned.check();
    check_tuned(&observed, &tuned, 10);
    let mut restore = folder.under(&flags, program);
    let packed = format!("tuned.{program}");
    fs::rename(folder.path("tuned"), folder.path(&packed)).expect("renamed");
    let file = fs::File::create(folder.path("back")).expect("a file");
    restore.args(back).arg(packed).stdout(file);
    assert!(restore.status().expect("it runs").success());
    assert!(fs::read(folder.path("back")).ok() == fs::read(folder.path("input")).ok());
}

#[test]
fn xz() {
    let words = ["-T2", "-1", "--block-size=1MiB", "--keep", "--stdout"];
    same("xz", &words, &["--decompress", "--stdout"]);
}

#[test]
fn pigz() {
    same("pigz", &["-p", "4", "-1", "-n", "--keep", "--stdout"], &["-d", "-c", "-S", ".pigz"]);
}

#[test]
fn zstd() {
    same("zstd", &["-T4", "-1", "-q", "-B1MiB", "--stdout"], &["-d", "-q", "--stdout"]);
}
