//! Code in whose middle no full thread is left: that of a library between this one and the C
//! library, as libheddle-preload is one.
//!
//! A thread that was preempted there, in the middle of a step of `sigwait`, had its call answered
//! there: the signal stayed pending for ever. That needs one preemption within some nanoseconds;
//! here the library in between takes its time (`programs/between.c`), so that each call of the
//! program would be left if it could be.
//!
//! Invariant: every program has a time limit, and none outlives the run.

#![cfg(target_arch = "x86_64")]

mod common;

use std::path::Path;
use std::process::Command;

use common::{can_run, folder, heddle, output, text};

fn compile(source: &str, into: &Path, words: &[&std::ffi::OsStr]) {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(source);
    let mut compiler = Command::new("cc");
    compiler.arg("-O1").arg("-o").arg(into).arg(source).args(words).arg("-pthread");
    let said = output(compiler);
    assert!(said.status.success(), "{}", text(&said.stderr));
}

/// What the program says: a word, and two numbers after each.
fn numbers(said: &str) -> Vec<u32> {
    said.split([' ', ',', '\n']).filter_map(|word| word.parse().ok()).collect()
}

#[test]
fn nobody_is_left_between_this_library_and_the_kernel() {
    if !can_run(&["cc"]) {
        return;
    }
    let folder = folder("guarded");
    let (library, program) = (folder.join("libbetween.so"), folder.join("left"));
    compile("between.c", &library, &["-shared".as_ref(), "-fPIC".as_ref()]);
    compile("left.c", &program, &[library.as_os_str()]);
    let mut command = Command::new(&program);
    let own = heddle().with_file_name("libheddle-user.so");
    command.env("LD_PRELOAD", format!("{}:{}", own.display(), library.display()));
    command.env("HEDDLE_WORKERS", "1").env("HEDDLE_SLICE", "2");
    let output = output(command);
    let said = text(&output.stdout);
    assert!(output.status.success(), "{said}{}", text(&output.stderr));
    let [in_calls, calls, in_program, times] = numbers(&said)[..] else { panic!("{said}") };
    assert!(calls >= 20 && in_calls == 0, "left in the middle of a call: {said}");
    // On a busy machine the other thread does not come by each time.
    assert!(in_program * 2 > times, "nobody is left anywhere: {said}");
    std::fs::remove_dir_all(folder).expect("ours");
}
