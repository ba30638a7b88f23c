//! Programs of other kinds: static, of another C library, of another processor's mode.
//!
//! Invariant: each runs as without heddle; where the library cannot be loaded, one line says so.

use std::path::PathBuf;

use crate::build::Recipe;
use crate::support::{Ended, Folder, skip};

fn make(compiler: &str, flags: &[&str], name: &str) -> Result<PathBuf, String> {
    Recipe { source: "c/plain_threads.c", name, compiler, flags }.make()
}

fn both(folder: &Folder, program: &PathBuf) -> Ended {
    let plain = folder.run(folder.plain(program));
    let under = folder.run(folder.under(&[], program));
    under.same_as(&plain);
    under
}

#[test]
fn a_static_program_runs_with_a_message() {
    let folder = Folder::new("static");
    match make("cc", &["-static", "-O1"], "plain_static") {
        Err(reason) => skip!("no static program: {reason}"),
        Ok(program) => {
            let ended = both(&folder, &program);
            assert_eq!(ended.messages().lines().count(), 1, "{}", ended.errors);
            assert!(ended.messages().contains("static"), "{}", ended.messages());
        }
    }
    match make("cc", &["-static-pie", "-O1", "-fPIE"], "plain_static_pie") {
        Err(reason) => skip!("no static PIE: {reason}"),
        Ok(program) => assert!(both(&folder, &program).messages().contains("static")),
    }
}

#[test]
fn a_program_at_a_fixed_address() {
    let folder = Folder::new("fixed");
    let program = make("cc", &["-no-pie", "-fno-pie", "-O1"], "plain_fixed").expect("compiles");
    assert_eq!(both(&folder, &program).messages(), "");
    let report = folder.report();
    report.check();
    assert_eq!(report.told("named").len(), 1, "{}", report.0);
}

#[test]
fn a_stripped_program() {
    let folder = Folder::new("stripped");
    let flags = ["-s", "-O1", "-Wl,--build-id=none"];
    let program = make("cc", &flags, "plain_stripped").expect("compiles");
    assert_eq!(both(&folder, &program).messages(), "");
    let report = folder.report();
    assert_eq!(report.created(), 8);
    // No symbols: the name that the threads give themselves is what tells of them.
    assert_eq!(report.told("worker").len(), 1, "{}", report.0);
    folder.run(folder.under(&["--stacks", "auto"], &program));
    assert!(folder.report().kinds().iter().all(|kind| kind.is("tuned")), "{}", folder.report().0);
}

#[test]
fn a_32_bit_program() {
    let folder = Folder::new("i386");
    // Where only gcc-12-multilib is installed, <asm/...> lies in the 64-bit folder.
    let flags = ["-m32", "-O1", "-g", "-idirafter", "/usr/include/x86_64-linux-gnu"];
    match make("cc", &flags, "plain_i386") {
        Err(reason) => skip!("no 32-bit programs here: {}", first(&reason)),
        Ok(program) => {
            assert_eq!(both(&folder, &program).messages(), "");
            let report = folder.report();
            report.check();
            assert_eq!((report.created(), report.told("named").len()), (8, 1), "{}", report.0);
            folder.run(folder.under(&["--stacks", "auto"], &program));
            assert!(folder.report().kinds().iter().any(|kind| kind.is("tuned")));
        }
    }
}

#[test]
fn a_program_of_another_c_library() {
    let folder = Folder::new("musl");
    match make("musl-gcc", &["-O1", "-g"], "plain_musl") {
        Err(reason) => skip!("no programs of musl's here: {}", first(&reason)),
        Ok(program) => {
            let ended = both(&folder, &program);
            // It either takes part or says in a line that it does not.
            let told = ended.messages();
            let count = if told.is_empty() { folder.report().created() } else { 0 };
            assert!(count == 8 || told.lines().count() == 1, "{told}");
        }
    }
}

fn first(text: &str) -> &str {
    text.lines().find(|line| line.contains("error")).or(text.lines().next()).unwrap_or("")
}
