//! A program that uses what Rust's std has for threads, built for this test.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::common::drawn::{many, said};
use crate::common::{can_run, folder, output, run, text};

/// With one worker and with several, with short slices, on both ways to wait for the world outside.
const WAYS: &[&[(&str, &str)]] = &[
    &[],
    &[("HEDDLE_WORKERS", "1")],
    &[("HEDDLE_WORKERS", "4"), ("HEDDLE_SLICE", "1")],
    &[("HEDDLE_IO", "uring")],
];

#[test]
fn std_of_rust_holds() {
    if !can_run(&["rustc"]) {
        return;
    }
    let folder = folder("rust");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/std.rs");
    let program = folder.join("std");
    let mut compiler = Command::new("rustc");
    compiler.args(["--edition", "2024", "-C", "opt-level=1", "-o"]).args([&program, &source]);
    let built = output(compiler);
    assert!(built.status.success(), "{}", text(&built.stderr));
    let plain = output(Command::new(&program));
    assert_eq!(text(&plain.stdout), "done\n", "{}", text(&plain.stderr));
    let in_way = |way: &[(&str, &str)]| {
        let mut command = run(&[program.to_str().expect("a name")]);
        command.envs(way.iter().copied());
        let user = output(command);
        let said = text(&user.stderr);
        assert!(user.status.success() && text(&user.stdout) == "done\n", "{way:?}: {said}");
        assert!(!said.contains("kernel threads"), "{way:?}: {said}");
    };
    many("rust", || {
        let ways = if said().is_empty() { WAYS } else { &WAYS[..1] };
        ways.iter().for_each(|way| in_way(way));
    });
    fs::remove_dir_all(folder).expect("ours");
}
