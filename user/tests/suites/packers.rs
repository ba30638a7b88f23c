//! Packers and an encoder on several threads: the same bytes as on kernel threads.

use std::fs;
use std::process::Command;

use crate::common::drawn::many;
use crate::common::{can_run, folder, output, run, text};

/// Numbers that do not compress to nothing, and are enough for several blocks.
fn input() -> Vec<u8> {
    let mut state = 1_u64;
    let lines = (0..200_000).map(|at| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        format!("{at} {:x}\n", state >> 52)
    });
    lines.collect::<String>().into_bytes()
}

/// What comes out, natively and under heddle.
fn same(words: &[&str]) {
    if !can_run(&words[..1]) {
        return;
    }
    let folder = folder(words[0]);
    fs::write(folder.join("input"), input()).expect("a file");
    let mut plain = Command::new(words[0]);
    plain.args(&words[1..]).current_dir(&folder);
    let plain = output(plain);
    assert!(plain.status.success() && !plain.stdout.is_empty(), "{}", text(&plain.stderr));
    let once = || {
        let mut command = run(words);
        command.current_dir(&folder);
        let user = output(command);
        let said = text(&user.stderr);
        assert!(user.status.success() && !said.contains("kernel threads"), "{said}");
        assert!(plain.stdout == user.stdout, "{words:?} makes other bytes: {said}");
    };
    many(words[0], || (0..3).for_each(|_| once()));
    fs::remove_dir_all(folder).expect("ours");
}

#[test]
fn pigz_packs_the_same() {
    same(&["pigz", "-p", "4", "-1", "-n", "--keep", "--stdout", "input"]);
}

#[test]
fn zstd_packs_the_same() {
    same(&["zstd", "-T4", "-1", "-q", "-B1MiB", "--stdout", "input"]);
}

#[test]
fn xz_packs_the_same() {
    same(&["xz", "-T4", "-1", "--block-size=300KiB", "--keep", "--stdout", "input"]);
}

#[test]
fn ffmpeg_encodes_the_same() {
    let picture = "testsrc2=duration=1:size=320x180:rate=25";
    same(&[
        "ffmpeg",
        "-v",
        "error",
        "-nostdin",
        "-f",
        "lavfi",
        "-i",
        picture,
        "-f",
        "lavfi",
        "-i",
        "sine=duration=1",
        "-c:v",
        "mpeg4",
        "-threads",
        "4",
        "-c:a",
        "aac",
        "-f",
        "md5",
        "-",
    ]);
}
