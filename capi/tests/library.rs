//! The library as its users meet it: what it exports, what its headers take, how it links.
//!
//! Invariant: each check that a missing tool makes impossible says so on standard output.

mod common;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;

use common::{Library, output_of, succeed};

/// Names of the system's headers that heddle leaves to the C library, each for a reason.
const LEFT_ALONE: [&str; 2] = [
    // Handlers of fork are the process's.
    "pthread_atfork",
    // Signals belong to kernel threads; the manual says so.
    "pthread_sigmask",
];

fn library() -> &'static Library {
    static LIBRARY: OnceLock<Library> = OnceLock::new();
    LIBRARY.get_or_init(|| Library::build().expect("the library builds and links"))
}

fn include() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("include")
}

fn read(header: &str) -> String {
    fs::read_to_string(include().join(header)).expect("the header is there")
}

/// Identifiers in `text` that begin with `prefix` and stand before a `(`.
fn called(text: &str, prefix: &str) -> BTreeSet<String> {
    let part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    text.match_indices('(')
        .filter_map(|(at, _)| {
            let head = text[..at].trim_end();
            let start = head.rfind(|c| !part(c)).map_or(0, |at| at + 1);
            head[start..].starts_with(prefix).then(|| head[start..].to_owned())
        })
        .collect()
}

/// The functions that `heddle.h` declares, as the preprocessor sees it.
fn declared() -> BTreeSet<String> {
    let header = include().join("heddle.h");
    let mut command = Command::new("cc");
    command.args(["-E", "-P", "-x", "c", "-I"]).arg(include()).arg(header);
    let text = output_of(&mut command).expect("the header compiles");
    called(&text, "heddle_").into_iter().collect()
}

#[test]
fn exports_are_what_the_header_declares() {
    let library = library();
    let shared = library.folder.join("libheddle.so.0");
    let listing = output_of(
        Command::new("nm").args(["-D", "--defined-only", "--with-symbol-versions"]).arg(&shared),
    );
    let Ok(listing) = listing else {
        println!("skip: nm is not here");
        return;
    };
    let mut exported = BTreeSet::new();
    for symbol in listing.lines().filter_map(|line| line.split_whitespace().nth(2)) {
        if symbol.starts_with("HEDDLE_") {
            continue;
        }
        let (name, version) = symbol.split_once("@@").unwrap_or((symbol, ""));
        assert_eq!(version, "HEDDLE_0.1", "{symbol}: every export has a version");
        exported.insert(name.to_owned());
    }
    assert!(exported.remove("heddle_debugger"), "runtime/gdb/heddle.py looks for it");
    assert_eq!(exported, declared());
    let dynamic = output_of(Command::new("readelf").arg("-d").arg(&shared)).unwrap_or_default();
    assert!(dynamic.contains("[libheddle.so.0]"), "the soname is libheddle.so.0");
}

#[test]
fn headers_take_every_standard() {
    for (compiler, standards) in [
        ("cc", ["c99", "c11", "gnu17"].as_slice()),
        ("c++", ["c++98", "c++11", "c++17", "gnu++20"].as_slice()),
    ] {
        for standard in standards {
            for header in ["heddle.h", "heddle/pthread.h"] {
                let language = if compiler == "cc" { "c" } else { "c++" };
                let mut command = Command::new(compiler);
                command.arg(format!("-std={standard}")).args(["-x", language]);
                command.args(["-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-I"]);
                command.arg(include()).args(["-include", header, "/dev/null"]);
                if let Err(error) = succeed(&mut command) {
                    panic!("{header} in {standard}: {error}");
                }
            }
        }
    }
}

#[test]
fn feature_macros_and_fortification_are_the_sources() {
    let source = "#define _POSIX_C_SOURCE 200809L\n#include <string.h>\n#include <unistd.h>\n\
                  int main(void) { char b[9]; return strerror_r(1, b, 9) + (int)read(0, b, 9); }\n";
    let folder = &library().folder;
    let file = folder.join("features.c");
    fs::write(&file, source).expect("the target folder is writable");
    for options in
        [["-O0", "-DNONE"], ["-O2", "-D_FORTIFY_SOURCE=2"], ["-O2", "-D_FILE_OFFSET_BITS=64"]]
    {
        let object = folder.join("features.o");
        let mut command = Command::new("cc");
        command.args(options).args(["-Wall", "-Werror", "-c", "-I"]).arg(include());
        command.args(["-include", "heddle/pthread.h"]).arg(&file).arg("-o").arg(&object);
        succeed(&mut command).unwrap_or_else(|error| panic!("{options:?}: {error}"));
        let symbols = output_of(Command::new("nm").arg(&object)).unwrap_or_default();
        assert!(symbols.contains("heddle_read"), "{options:?}: read is mapped");
    }
}

#[test]
fn every_pthread_function_is_mapped() {
    let mapping = read("heddle/pthread.h");
    let text = output_of(Command::new("sh").args([
        "-c",
        "printf '#include <pthread.h>\\n#include <signal.h>\\n' | cc -D_GNU_SOURCE -E -P -",
    ]))
    .expect("pthread.h compiles");
    let known: BTreeSet<&str> = mapping
        .lines()
        .filter_map(|line| line.strip_prefix("#define ")?.split(' ').next())
        .collect();
    let missing: Vec<_> = called(&text, "pthread_")
        .into_iter()
        .filter(|name| !known.contains(name.as_str()) && !LEFT_ALONE.contains(&name.as_str()))
        .collect();
    assert!(missing.is_empty(), "not in heddle/pthread.h: {missing:?}");
}

#[test]
fn every_mapping_has_its_function() {
    let mapping = read("heddle/pthread.h");
    let functions = declared();
    let header = read("heddle/types.h");
    for line in mapping.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let target = match words.as_slice() {
            ["#pragma", "redefine_extname", _, target] => target,
            ["#define", name, target] if target.starts_with("heddle_") && !name.contains('(') => {
                target
            }
            _ => continue,
        };
        let is_inline =
            target.starts_with("heddle_private_") && mapping.contains(&format!("{target}("));
        let is_type = header.contains(&format!("{target};"));
        assert!(functions.contains(*target) || is_inline || is_type, "{line}: no such thing");
    }
}

#[test]
fn programs_link_statically() {
    let library = library();
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    for source in ["thread_exit.c", "cancel_storm.c", "cxx_exit.cpp", "io_tcp.c"] {
        let program = library.folder.join("static-program");
        let mut command = Command::new(if source.ends_with("pp") { "c++" } else { "cc" });
        command.arg("-I").arg(include()).args(["-include", "heddle/pthread.h"]);
        command.arg(tests.join(source)).arg("-o").arg(&program).arg(&library.archive);
        command.args(["-lgcc_s", "-lpthread", "-lm", "-ldl"]);
        succeed(&mut command).unwrap_or_else(|error| panic!("{source}: {error}"));
        succeed(&mut Command::new(&program)).unwrap_or_else(|error| panic!("{source}: {error}"));
    }
}

#[test]
fn pkg_config_finds_what_a_program_needs() {
    let library = library();
    let lib = library.folder.display().to_string();
    let template = Path::new(env!("CARGO_MANIFEST_DIR")).join("heddle.pc.in");
    let text = fs::read_to_string(template).expect("the template is there");
    let prefix = include().parent().expect("a folder").display().to_string();
    let text = text.replace("@PREFIX@", &prefix).replace("@LIBDIR@", &lib);
    let text = text.replace("@VERSION@", env!("CARGO_PKG_VERSION"));
    fs::write(library.folder.join("heddle.pc"), text).expect("the target folder is writable");
    let flags =
        output_of(Command::new("pkg-config").env("PKG_CONFIG_PATH", &library.folder).args([
            "--cflags",
            "--libs",
            "heddle >= 0.1",
        ]));
    let Ok(flags) = flags else {
        println!("skip: pkg-config is not here");
        return;
    };
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/thread_once.c");
    let program = library.folder.join("by-pkg-config");
    let mut command = Command::new("cc");
    command.args(["-include", "heddle/pthread.h"]).arg(source).arg("-o").arg(&program);
    command.args(flags.split_whitespace());
    succeed(&mut command).expect("the flags suffice");
    let mut run = Command::new(&program);
    succeed(run.env("LD_LIBRARY_PATH", &lib)).expect("the program runs");
}

#[test]
fn a_refused_configuration_is_an_error_with_a_reason() {
    let library = library();
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let program = library.folder.join("refused");
    let mut command = Command::new("cc");
    command.arg("-I").arg(include()).args(["-include", "heddle/pthread.h"]);
    command.arg(tests.join("thread_create.c")).arg("-o").arg(&program).arg(&library.archive);
    command.args(["-lgcc_s", "-lpthread", "-lm", "-ldl"]);
    succeed(&mut command).expect("the program compiles");
    let output = Command::new(&program).env("HEDDLE_IO", "carrier pigeon").output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains("HEDDLE_IO=carrier pigeon"), "{text}");
    assert_eq!(output.status.code(), Some(1), "the program sees an error number");
}
