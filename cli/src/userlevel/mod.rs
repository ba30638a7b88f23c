//! Whether a program could run on user-level threads, judged before it is started.
//!
//! Each finding is about one thing that could stand in the way, and stands for itself. What is not
//! known beforehand (what the program loads by dlopen) is not judged here.
//!
//! Invariant: nothing of the program is run and nothing in the files is trusted; a file that can't
//! be read or makes no sense is a finding against the program.

mod exec;
mod image;
mod inherited;
mod library;
mod makers;
mod script;
mod wrappers;

use std::ffi::OsString;
use std::fs::File;
use std::path::PathBuf;

use crate::run::program::{Missing, Program};
use crate::symbols::image::Image;
use crate::symbols::needed;
use image::Loaded;

pub use exec::{Verdict, at_exec};
pub use inherited::Inherited;

/// Below this the main thread's stack has too little room beside the program for what heddle does
/// there: making threads, waiting, handlers of signals.
const MAIN_STACK_BYTES_MIN: u64 = 256 << 10;
/// As the library has it, which looks again before the first thread.
const DESCRIPTORS_MIN: u64 = 32;
const PROCESSES_MIN: u64 = 16;

/// The finding that some files could not be read.
const FILES: &str = "files";

/// One thing that was looked at.
pub struct Finding {
    pub name: &'static str,
    /// What was found.
    pub value: String,
    /// Whether it allows user-level threads.
    pub fits: bool,
    /// Why, or why not.
    pub why: String,
}

impl Finding {
    fn good(name: &'static str, value: impl Into<String>, why: impl Into<String>) -> Finding {
        Finding { name, value: value.into(), fits: true, why: why.into() }
    }

    fn bad(name: &'static str, value: impl Into<String>, why: impl Into<String>) -> Finding {
        Finding { name, value: value.into(), fits: false, why: why.into() }
    }
}

/// What the findings are for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Purpose {
    /// The program is about to start: whether each fits is enough.
    Start,
    /// They are told: what is found out by reading much is said, too.
    Report,
}

/// Judges the program that the shell would run by these words: its name and its arguments, as far
/// as they are known. The program can use user-level threads if all findings allow it.
pub fn judge(words: &[OsString], purpose: Purpose) -> Vec<Finding> {
    let chain = match script::follow(words) {
        Ok(chain) => chain,
        Err(missing) => return vec![absent(&missing)],
    };
    let mut findings = vec![found(&chain)];
    let Some(last) = chain.programs.last() else { return findings };
    match &last.image {
        None => findings.push(no_program(last)),
        Some(image) => {
            let inherited = Inherited::own();
            let loaded = load(last, image, &inherited);
            of_image(last, image, loaded.as_ref(), &inherited, purpose, &mut findings);
        }
    }
    findings
}

fn absent(missing: &Missing) -> Finding {
    Finding::bad("program", "none", missing.to_string())
}

/// The file, and for a script what runs it.
fn found(chain: &script::Chain) -> Finding {
    let shown = |path: &PathBuf| path.display().to_string();
    let mut paths = chain.programs.iter().map(|program| shown(&program.path));
    let first = paths.next().unwrap_or_default();
    if let [only] = &chain.programs[..]
        && let Some(image) = only.image.as_ref().filter(|_| only.is_by_loader)
    {
        let why = format!("a loader, called to run {}", image.path.display());
        return Finding::good("program", first, why);
    }
    match chain.interpreter() {
        None => Finding::good("program", first, "an executable file"),
        Some(interpreter) => Finding::good(
            "program",
            first,
            format!("a script for {}: what it starts is judged by itself", interpreter.display()),
        ),
    }
}

/// What is to load it, or to interpret it, is not there.
fn missing_interpreter(program: &Program) -> Option<Finding> {
    let why = format!("there is no {}, which it needs", program.missing_interpreter()?.display());
    Some(Finding::bad("interpreter", "missing", why))
}

/// Something that is neither ELF nor a script, or a script without its interpreter.
fn no_program(program: &Program) -> Finding {
    if let Some(finding) = missing_interpreter(program) {
        return finding;
    }
    if image::is_windows(&program.path) {
        return Finding::bad(
            "format",
            "PE",
            "a program for Windows: Wine makes threads of its own",
        );
    }
    let why = match File::open(&program.path) {
        Err(error) => format!("it cannot be read: {error}"),
        Ok(_) => "no sound ELF program: the kernel will say what it is".to_owned(),
    };
    Finding::bad("format", "unknown", why)
}

/// What the loader would take together; `None`: the program's file has gone.
fn load(program: &Program, image: &Image, inherited: &Inherited) -> Option<Loaded> {
    // Opened anew: the list of what is loaded begins with the program.
    let again = Image::open(&image.path).ok()?;
    let images = needed(again, &inherited.library_path);
    Some(Loaded::new(images, &inherited.preload, program.is_by_loader))
}

fn of_image(
    program: &Program,
    image: &Image,
    loaded: Option<&Loaded>,
    inherited: &Inherited,
    purpose: Purpose,
    findings: &mut Vec<Finding>,
) {
    let machine = image::machine(&image.head);
    // Another machine's loader is no surprise.
    let missing = missing_interpreter(program).filter(|_| machine.fits);
    findings.push(machine);
    findings.push(image::linking(&image.head));
    findings.push(privileges(program));
    findings.push(address_space(inherited));
    findings.push(main_stack(inherited));
    findings.push(descriptors(inherited));
    findings.push(processes(inherited));
    if let Some(finding) = missing {
        return findings.push(finding);
    }
    let Some(loaded) = loaded else { return findings.push(no_program(program)) };
    // These files are open: where there is no room for one more, some of them are missing.
    if let Err(error) = File::open(&image.path) {
        return findings.push(Finding::bad(FILES, "not all read", error.to_string()));
    }
    findings.push(loaded.language());
    if image.head.is_static() {
        // It has its own copy of everything, the C library's parts among them.
        return;
    }
    findings.push(loaded.c_library(purpose));
    findings.push(loaded.sanitizer());
    findings.push(loaded.wine());
    findings.push(loaded.emulator());
    findings.push(loaded.clocks());
    findings.push(loaded.allocator());
    // Where nothing else speaks against it: another C library defines all of that, and a sanitizer
    // wraps it.
    if purpose == Purpose::Report && findings.iter().all(|it| it.fits) {
        findings.push(loaded.wrappers());
    }
    findings.push(library::test(loaded.c_library_path()));
}

/// The kernel counts what may be written as data, used or not.
fn address_space(inherited: &Inherited) -> Finding {
    let name = "address space";
    let limits = [(inherited.address_space, "RLIMIT_AS"), (inherited.data, "RLIMIT_DATA")];
    let mut limited = limits.iter().filter_map(|&(limit, word)| Some((limit?, word)));
    match limited.next() {
        None => Finding::good(name, "unlimited", "stacks can be reserved ahead"),
        Some((bytes, word)) => Finding::bad(
            name,
            format!("{} MiB", bytes >> 20),
            format!(
                "limited ({word}): stacks that are reserved ahead would take what it needs itself"
            ),
        ),
    }
}

fn main_stack(inherited: &Inherited) -> Finding {
    let name = "main stack";
    match inherited.stack {
        Some(bytes) if bytes < MAIN_STACK_BYTES_MIN => Finding::bad(
            name,
            format!("{} KiB", bytes >> 10),
            "limited (RLIMIT_STACK): too little for the program's main thread and for heddle on it",
        ),
        Some(bytes) => Finding::good(name, format!("{} KiB", bytes >> 10), "enough"),
        None => Finding::good(name, "unlimited", "enough"),
    }
}

fn descriptors(inherited: &Inherited) -> Finding {
    let why = "limited (RLIMIT_NOFILE): heddle keeps a dozen open, and would leave too few";
    at_least("descriptors", inherited.descriptors, DESCRIPTORS_MIN, why)
}

fn processes(inherited: &Inherited) -> Finding {
    let why = "limited (RLIMIT_NPROC): heddle's own kernel threads would leave too few";
    at_least("processes", inherited.processes, PROCESSES_MIN, why)
}

fn at_least(name: &'static str, limit: Option<u64>, least: u64, why: &str) -> Finding {
    match limit {
        Some(count) if count < least => Finding::bad(name, count.to_string(), why),
        Some(count) => Finding::good(name, count.to_string(), "enough"),
        None => Finding::good(name, "unlimited", "enough"),
    }
}

fn privileges(program: &Program) -> Finding {
    if program.is_privileged {
        return Finding::bad(
            "privileges",
            "changed",
            "it gets another user, group or capabilities as it starts, so that the loader adds \
             no library",
        );
    }
    Finding::good("privileges", "kept", "it starts with the caller's")
}
