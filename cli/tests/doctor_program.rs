//! `heddle doctor --program P` on real programs of each kind that it tells apart, made here with
//! the compilers that are there.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

const MAIN: &str = "int main(void) { return 0; }";

/// A folder of one test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("doctor-{name}"));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).expect("a folder");
        Folder(path)
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().expect("text").to_owned()
    }

    fn script(&self, name: &str, text: &str) -> String {
        let path = self.path(name);
        fs::write(&path, text).expect("a file");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("its mode");
        path
    }

    /// A C program, or `None` with the reason printed.
    fn compile(&self, name: &str, source: &str, words: &[&str]) -> Option<String> {
        let (compiler, flags) = words.split_first().expect("a compiler");
        let (input, path) = (self.path(&format!("{name}.c")), self.path(name));
        fs::write(&input, source).expect("a file");
        let output = Command::new(compiler).args(["-o", &path, &input]).args(flags).output();
        match output {
            Ok(output) if output.status.success() => Some(path),
            Ok(output) => {
                println!("skip: {words:?}: {}", String::from_utf8_lossy(&output.stderr));
                None
            }
            Err(error) => {
                println!("skip: {compiler}: {error}");
                None
            }
        }
    }
}

fn doctor(program: &str, flags: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_heddle"));
    command.args(["doctor", "--program", program]).args(flags).env_remove("LD_PRELOAD");
    command.output().expect("heddle runs")
}

/// All rows, and that the exit status says the same.
fn rows(program: &str) -> Vec<Value> {
    let output = doctor(program, &["--json"]);
    let rows: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let rows = rows.as_array().expect("an array").clone();
    assert!(!rows.is_empty(), "{program}");
    let missing = rows.iter().any(|row| row["verdict"] != "good");
    assert_eq!(output.status.code(), Some(i32::from(missing)), "{program}: {rows:?}");
    for row in &rows {
        assert_eq!(row["area"], "user-level threads");
    }
    rows
}

fn text<'a>(row: &'a Value, key: &str) -> &'a str {
    row[key].as_str().expect("a text")
}

/// That exactly one row speaks against the program, and what it says.
fn only_obstacle(program: &str, name: &str, value: &str) {
    let rows = rows(program);
    let bad: Vec<_> = rows.iter().filter(|row| row["verdict"] != "good").collect();
    let [row] = bad[..] else { panic!("{program}: {bad:?}") };
    assert_eq!((text(row, "name"), text(row, "value")), (name, value), "{row}");
    assert!(!text(row, "consequence").is_empty());
}

#[test]
fn an_ordinary_program_could() {
    let folder = Folder::new("plain");
    let program = folder.compile("plain", MAIN, &["cc"]).expect("a C compiler");
    let rows = rows(&program);
    let library = rows.iter().find(|row| row["name"] == "C library").expect("the row");
    let value = text(library, "value");
    let version = value.strip_prefix("glibc ").expect(value);
    assert!(version.starts_with("2."), "{value}");
    let output = doctor(&program, &["--problems"]);
    let shown = String::from_utf8_lossy(&output.stdout);
    assert_eq!(shown, "nothing speaks against user-level threads\n");
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn a_name_is_searched_in_path() {
    let output = doctor("sh", &[]);
    let shown = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{shown}");
    assert!(shown.starts_with("user-level threads\n") && shown.contains("/sh"), "{shown}");
    assert!(!shown.contains("!!"), "{shown}");
}

#[test]
fn what_is_not_there_is_said() {
    for program in ["no-such-program-anywhere", "/no/such/program", "/etc", "/etc/passwd", ""] {
        only_obstacle(program, "program", "none");
    }
    let folder = Folder::new("none");
    let script = folder.script("script", "#!/usr/bin/env no-such-program-anywhere\n");
    only_obstacle(&script, "program", "none");
}

#[test]
fn a_missing_interpreter_is_named() {
    let folder = Folder::new("interpreter");
    let script = folder.script("script", "#!/no/such/interpreter\n");
    only_obstacle(&script, "interpreter", "missing");
    let outer = folder.script("outer", &format!("#!{script}\n"));
    only_obstacle(&outer, "interpreter", "missing");
    let words = ["cc", "-Wl,--dynamic-linker=/no/such/loader"];
    if let Some(program) = folder.compile("plain", MAIN, &words) {
        only_obstacle(&program, "interpreter", "missing");
    }
}

#[test]
fn nobody_is_waited_for_who_writes_a_pipe() {
    let folder = Folder::new("pipe");
    let pipe = folder.path("pipe");
    let made = Command::new("mkfifo").args(["-m", "755", &pipe]).status();
    assert!(made.expect("mkfifo").success());
    let script = folder.script("script", &format!("#!{pipe}\n"));
    for (program, expected) in [(&pipe, "is no plain file"), (&script, "no sound ELF program")] {
        let mut command = Command::new("timeout");
        command.args(["60", env!("CARGO_BIN_EXE_heddle"), "doctor", "--program", program]);
        let output = command.output().expect("timeout runs heddle");
        let told = String::from_utf8_lossy(&output.stdout);
        assert_eq!(output.status.code(), Some(1), "{told}");
        assert!(told.contains(expected), "{told}");
    }
}

#[test]
fn static_programs_cannot() {
    let folder = Folder::new("static");
    for (name, words) in
        [("plain", &["cc", "-static"][..]), ("pie", &["cc", "-static-pie", "-fPIE"][..])]
    {
        if let Some(program) = folder.compile(name, MAIN, words) {
            only_obstacle(&program, "linking", "static");
        }
    }
}

#[test]
fn programs_for_32_bits_cannot() {
    let folder = Folder::new("32");
    if let Some(program) = folder.compile("plain", MAIN, &["cc", "-m32"]) {
        only_obstacle(&program, "machine", "i386, 32-bit");
    }
}

#[test]
fn programs_for_musl_cannot() {
    let folder = Folder::new("musl");
    if let Some(program) = folder.compile("plain", MAIN, &["musl-gcc"]) {
        only_obstacle(&program, "C library", "musl");
    }
}

#[test]
fn sanitized_programs_cannot() {
    let folder = Folder::new("sanitized");
    let kinds = [
        ("address", "AddressSanitizer", "cc"),
        ("thread", "ThreadSanitizer", "cc"),
        ("leak", "LeakSanitizer", "cc"),
        ("memory", "MemorySanitizer", "clang"),
    ];
    for (flag, kind, compiler) in kinds {
        let flag = format!("-fsanitize={flag}");
        if let Some(program) = folder.compile(kind, MAIN, &[compiler, &flag]) {
            only_obstacle(&program, "sanitizer", kind);
        }
    }
    // The runtime may be linked in: then its symbol is all there is.
    let source = format!("void __tsan_init(void) {{}} {MAIN}");
    let program = folder.compile("linked", &source, &["cc"]).expect("a C compiler");
    only_obstacle(&program, "sanitizer", "ThreadSanitizer");
}

#[test]
fn go_programs_cannot() {
    // The compiler itself is one; some builds of it are dynamic.
    let places = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&places).map(|folder| folder.join("go"));
    let is_program = |path: &PathBuf| fs::read(path).is_ok_and(|it| it.starts_with(b"\x7fELF"));
    let Some(go) = found.into_iter().find(is_program) else {
        println!("skip: there is no Go program here");
        return;
    };
    let rows = rows(go.to_str().expect("text"));
    let row = rows.iter().find(|row| row["name"] == "language runtime").expect("the row");
    assert_eq!((text(row, "value"), text(row, "verdict")), ("Go", "missing"));
}

#[test]
fn java_cannot() {
    let folder = Folder::new("java");
    let found = Command::new("sh").args(["-c", "command -v java"]).output().expect("sh runs");
    if found.status.success() {
        only_obstacle("java", "language runtime", "Java virtual machine");
    } else {
        println!("skip: java is not installed");
    }
    // A program that has its virtual machine linked to it.
    let library = "int JNI_CreateJavaVM(void) { return 0; }";
    let library = folder.compile("libjvm.so", library, &["cc", "-shared", "-fPIC"]);
    let library = library.expect("a C compiler");
    let program = folder.compile("embeds", MAIN, &["cc", "-Wl,--no-as-needed", &library]);
    only_obstacle(&program.expect("it links"), "language runtime", "Java virtual machine");
}

#[test]
fn wine_cannot() {
    let folder = Folder::new("wine");
    let source = format!("int wine_main_preload_info[4]; {MAIN}");
    let loader = folder.compile("loader", &source, &["cc", "-rdynamic"]).expect("a C compiler");
    only_obstacle(&loader, "Wine", "yes");
    let program = folder.script("program.exe", "MZ\0\0not really");
    only_obstacle(&program, "format", "PE");
}

#[test]
fn emulators_of_programs_cannot() {
    let folder = Folder::new("emulator");
    let source = format!("void print_syscall_ret(void) {{}} {MAIN}");
    let program = folder.compile("emulates", &source, &["cc", "-rdynamic"]);
    only_obstacle(&program.expect("a C compiler"), "emulator", "qemu's user mode");
}

#[test]
fn allocators_with_caches_per_processor_are_told() {
    let folder = Folder::new("allocator");
    let compile = |name| folder.compile(name, "int tc;", &["cc", "-shared", "-fPIC"]);
    let said = |program: &str| {
        let rows = rows(program);
        let row = rows.iter().find(|row| row["name"] == "allocator").expect("the row");
        (text(row, "value").to_owned(), text(row, "verdict").to_owned())
    };
    let good = |value: &str| (value.to_owned(), "good".to_owned());
    // Of gperftools, which has none; Google's, which has none where it cannot register them.
    for (file, value) in [("libtcmalloc.so.4", "no rseq"), ("libtcmalloc.so", "tcmalloc")] {
        let library = compile(file).expect("a C compiler");
        let soname = ["cc", "-Wl,--no-as-needed", &library];
        assert_eq!(said(&folder.compile("linked", MAIN, &soname).expect("it links")), good(value));
    }
    for (source, value) in
        [("int tcmalloc_slabs;", "tcmalloc"), ("__thread int __rseq_abi;", "caches per processor")]
    {
        let program = folder.compile("own", &format!("{source} {MAIN}"), &["cc"]);
        assert_eq!(said(&program.expect("it compiles")), good(value));
    }
    // Those of the C library's area.
    let library = compile("librseq.so.0").expect("a C compiler");
    let soname = ["cc", "-Wl,--no-as-needed", &library];
    let program = folder.compile("linked", MAIN, &soname).expect("it links");
    only_obstacle(&program, "allocator", "restartable sequences");
    // What the environment adds counts as well.
    let plain = folder.compile("plain", MAIN, &["cc"]).expect("a C compiler");
    preloaded_cannot(&plain, &library, "!! allocator  restartable sequences");
}

#[test]
fn faked_clocks_cannot() {
    let folder = Folder::new("clocks");
    let library = folder.compile("libfaketimeMT.so.1", "int ft;", &["cc", "-shared", "-fPIC"]);
    let plain = folder.compile("plain", MAIN, &["cc"]).expect("a C compiler");
    preloaded_cannot(&plain, &library.expect("a C compiler"), "!! clocks  faked");
}

fn preloaded_cannot(program: &str, library: &str, expected: &str) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_heddle"));
    command.args(["doctor", "--problems", "--program", program]).env("LD_PRELOAD", library);
    let output = command.output().expect("heddle runs");
    let shown = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{shown}");
    assert!(shown.contains(expected), "{shown}");
}

#[test]
fn an_allocator_in_the_program_is_told() {
    let folder = Folder::new("malloc");
    let said = |program: &str| {
        let rows = rows(program);
        let row = rows.iter().find(|row| row["name"] == "allocator").expect("the row");
        (text(row, "value").to_owned(), text(row, "verdict").to_owned())
    };
    let good = |value: &str| (value.to_owned(), "good".to_owned());
    let source = format!("void *malloc(unsigned long n) {{ return n ? 0 : 0; }} {MAIN}");
    let flags = ["cc", "-fno-builtin"];
    let program = folder.compile("own", &source, &flags).expect("a C compiler");
    assert_eq!(said(&program), good("the program's own"));
    let uses = "void *malloc(unsigned long n); int main(void) { return malloc(1) == 0; }";
    let program = folder.compile("plain", uses, &flags).expect("a C compiler");
    assert_eq!(said(&program), good("no rseq"));
}

#[test]
fn programs_that_gain_rights_cannot() {
    let folder = Folder::new("rights");
    if !rustix::process::getuid().is_root() {
        // A program of root's that everybody may start.
        match ["/usr/bin/su", "/bin/su", "/usr/bin/passwd"].iter().find(|it| Path::new(it).exists())
        {
            Some(program) => only_obstacle(program, "privileges", "changed"),
            None => println!("skip: no setuid program is here"),
        }
        return;
    }
    let program = folder.compile("other", MAIN, &["cc"]).expect("a C compiler");
    let nobody = rustix::fs::Uid::from_raw(65534);
    rustix::fs::chown(&program, Some(nobody), None).expect("root may");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o4755)).expect("its mode");
    only_obstacle(&program, "privileges", "changed");
}

#[test]
fn scripts_are_followed_to_what_runs_them() {
    let folder = Folder::new("script");
    let cases = [
        ("direct", "#!/bin/sh\n"),
        ("env", "#!/usr/bin/env sh\n"),
        ("split", "#!/usr/bin/env -S A=b sh -e\n"),
        ("text", "echo no first line\n"),
    ];
    for (name, content) in cases {
        let script = folder.script(name, content);
        let rows = rows(&script);
        let program = &rows[0];
        assert_eq!((text(program, "name"), text(program, "value")), ("program", &*script));
        let why = text(program, "consequence");
        assert!(why.contains("sh") && why.contains("script"), "{name}: {why}");
        assert!(rows.iter().all(|row| row["verdict"] == "good"), "{rows:?}");
    }
    if let Some(program) = folder.compile("interpreter", MAIN, &["cc", "-static"]) {
        let script = folder.script("static", &format!("#!{program}\n"));
        only_obstacle(&script, "linking", "static");
    }
    let circle = folder.path("circle");
    folder.script("circle", &format!("#!/usr/bin/env {circle}\n"));
    assert_eq!(doctor(&circle, &[]).status.code(), Some(0), "it is env that runs");
}

#[test]
fn what_makes_no_sense_is_no_program() {
    let folder = Folder::new("nonsense");
    for (name, content) in [("short", "\x7fELF"), ("bytes", "\0\x01\x02"), ("line", "#!\n")] {
        let path = folder.script(name, content);
        only_obstacle(&path, "format", "unknown");
    }
}

#[test]
fn a_library_that_wraps_what_threads_wait_in_stands_in_the_way() {
    let folder = Folder::new("wraps");
    let wraps = "int connect(int fd) { return fd; }";
    let shared = ["cc", "-shared", "-fPIC"];
    let library = folder.compile("libwraps.so", wraps, &shared).expect("a C compiler");
    let linked = ["cc", "-Wl,--no-as-needed", &library];
    let program = folder.compile("linked", MAIN, &linked).expect("a C compiler");
    only_obstacle(&program, "wrapping libraries", &library);
    // Of the program's own functions all threads call its own.
    let main = format!("{wraps} {MAIN}");
    let own = folder.compile("own", &main, &["cc", "-rdynamic"]).expect("a C compiler");
    assert!(rows(&own).iter().all(|row| row["verdict"] == "good"));
    // What only calls it does not wrap it.
    let calls = "int connect(int); int calls(int fd) { return connect(fd); }";
    let library = folder.compile("libcalls.so", calls, &shared).expect("a C compiler");
    let linked = ["cc", "-Wl,--no-as-needed", &library];
    let program = folder.compile("calls", MAIN, &linked).expect("a C compiler");
    assert!(rows(&program).iter().all(|row| row["verdict"] == "good"));
}
