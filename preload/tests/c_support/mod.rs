//! Builds the test programs of `tests/c` and runs them under the library.
//!
//! Invariant: nothing of a program stays behind it: its table is read and removed, and one that
//! does not end is killed.
#![allow(dead_code, reason = "each test file uses its own part")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use heddle_preload::library::{Library, MISSING_32};
use heddle_preload::plan::Plan;
use heddle_record::{Reader, Snapshot, Use};

const TIMEOUT: Duration = Duration::from_secs(60);
const RUN: u64 = 4711;

/// A way to build a program, and the ELF class of what comes out.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    pub name: &'static str,
    pub compiler: &'static str,
    pub flags: &'static [&'static str],
    pub class: u8,
    pub is_musl: bool,
}

const NATIVE_CLASS: u8 = if cfg!(target_pointer_width = "64") { 2 } else { 1 };

const TARGETS: &[Target] = &[
    Target { name: "native", compiler: "cc", flags: &[], class: NATIVE_CLASS, is_musl: false },
    Target {
        name: "i386",
        compiler: "cc",
        flags: &["-m32", "-idirafter", "/usr/include/x86_64-linux-gnu"],
        class: 1,
        is_musl: false,
    },
    Target {
        name: "musl",
        compiler: "musl-gcc",
        flags: &["-Wl,--build-id", "-idirafter", "/usr/include", "-idirafter", MUSL_ASM],
        class: NATIVE_CLASS,
        is_musl: true,
    },
];

/// musl-gcc leaves the kernel's headers out.
const MUSL_ASM: &str = "/usr/include/x86_64-linux-gnu";

/// ELF's number of the machine.
pub fn machine(target: &Target) -> u16 {
    match (std::env::consts::ARCH, target.class) {
        ("x86_64", 1) | ("x86", _) => 3,
        ("x86_64", _) => 62,
        ("aarch64", _) => 183,
        _ => 0,
    }
}

pub fn folder() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("c_programs");
        fs::create_dir_all(&path).expect("cargo's folder is writable");
        path
    })
}

pub fn library() -> &'static Library {
    static LIBRARY: OnceLock<Library> = OnceLock::new();
    LIBRARY.get_or_init(|| Library::in_folder(&folder().join("library")).expect("writable"))
}

/// The targets that can be built for here; the others are named once.
pub fn targets() -> &'static [Target] {
    static TARGETS_HERE: OnceLock<Vec<Target>> = OnceLock::new();
    TARGETS_HERE.get_or_init(|| TARGETS.iter().copied().filter(can_build).collect())
}

fn can_build(target: &Target) -> bool {
    if target.class == 1
        && NATIVE_CLASS == 2
        && let Some(reason) = MISSING_32
    {
        eprintln!("skip: {}: {reason}", target.name);
        return false;
    }
    let probe = folder().join(format!("probe-{}.c", target.name));
    fs::write(&probe, "#include <stdio.h>\nint main(void) { return 0; }\n").expect("writable");
    let mut command = Command::new(target.compiler);
    command.args(target.flags).arg(&probe).arg("-o").arg(probe.with_extension("out"));
    let done = command.output().is_ok_and(|output| output.status.success());
    if !done {
        eprintln!("skip: {}: {} cannot build for it", target.name, target.compiler);
    }
    done
}

/// Builds `tests/c/NAME.c`.
pub fn build(target: &Target, name: &str, more: &[&str]) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let out = folder().join(format!("{name}-{}", target.name));
    // Tests run at the same time: nobody must run what somebody else is writing.
    let fresh = out.with_extension(format!("{:?}", std::thread::current().id()));
    let mut command = Command::new(target.compiler);
    command.args(target.flags).args(["-std=gnu11", "-O1", "-g", "-Wall", "-Wextra", "-pthread"]);
    command.arg("-I").arg(root.join("include")).arg("-I").arg(root.join("../record/include"));
    command.args(more).arg(root.join(format!("tests/c/{name}.c"))).arg("-o").arg(&fresh);
    let output = command.output().expect("the compiler was there a moment ago");
    assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
    fs::rename(&fresh, &out).expect("one folder");
    out
}

pub fn plan() -> Plan {
    Plan::new(RUN, 0)
}

/// What is left of a program.
pub struct Ended {
    pub output: Output,
    pub table: Option<Snapshot>,
}

impl Ended {
    pub fn stderr(&self) -> String {
        String::from_utf8_lossy(&self.output.stderr).into_owned()
    }

    pub fn stdout(&self) -> String {
        String::from_utf8_lossy(&self.output.stdout).into_owned()
    }

    /// The use of the kind that is no first thread and was created first.
    pub fn first_kind(&self) -> &Use {
        let table = self.table.as_ref().expect("the program has a table");
        table.uses.iter().find(|it| !it.is_main()).expect("it created a thread")
    }

    pub fn expect_success(self, what: &str) -> Ended {
        if self.output.status.code() == Some(77) {
            eprintln!("{what}: {}", self.stderr().trim());
            return self;
        }
        assert!(self.output.status.success(), "{what}: {}\n{}", self.output.status, self.stderr());
        self
    }
}

/// A plan's file, by a name of its own.
fn write_plan(plan: &Plan) -> PathBuf {
    use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let path = folder().join(format!("plan-{}", NEXT.fetch_add(1, Relaxed)));
    let _ = fs::remove_file(&path);
    plan.write(&path).expect("a plan can be written");
    path
}

pub fn command(target: &Target, program: &Path, plan: &Plan) -> Command {
    let text = library().preload_for(target.class, machine(target), target.is_musl);
    let mut command = Command::new(program);
    command.env("LD_PRELOAD", text.expect("there is a library for it"));
    command.env("HEDDLE_PLAN", write_plan(plan)).stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

pub fn run(command: &mut Command) -> Ended {
    let child = command.spawn().expect("it was built");
    let pid = i32::try_from(child.id()).expect("pids are small");
    let output = wait(child);
    let table = Reader::open(pid).ok().and_then(|reader| reader.snapshot().ok());
    let _ = fs::remove_file(format!("/dev/shm/heddle.{pid}"));
    Ended { output, table }
}

fn wait(mut child: Child) -> Output {
    let start = Instant::now();
    while child.try_wait().expect("our child").is_none() {
        if start.elapsed() > TIMEOUT {
            let _ = child.kill();
            panic!("no end after {TIMEOUT:?}");
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    child.wait_with_output().expect("our child")
}
