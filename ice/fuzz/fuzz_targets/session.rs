//! Bytes of a client, through the whole request path, to the bytes of the answers.
//!
//! `cargo +nightly fuzz run session` in `ice/`. The first two bytes say where the rest is split.
#![no_main]

use std::sync::OnceLock;

use heddle_ice::fuzzing::{Target, parts};
use libfuzzer_sys::fuzz_target;

fn target() -> &'static Target {
    static TARGET: OnceLock<Target> = OnceLock::new();
    TARGET.get_or_init(|| {
        let folder = std::env::temp_dir().join(format!("ice-fuzz-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("d")).expect("a folder");
        std::fs::write(folder.join("a"), "content").expect("a file");
        std::fs::write(folder.join("a.gz"), "squeezed").expect("a file");
        Target::new(&folder).expect("a server")
    })
}

fuzz_target!(|bytes: &[u8]| {
    let Some((split, rest)) = bytes.split_first_chunk() else { return };
    target().check(rest, usize::from(u16::from_le_bytes(*split)));
    parts(rest);
});
