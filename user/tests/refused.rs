//! Programs, and C libraries, that user-level threads cannot be made for: the program runs as it
//! does without heddle, one line says why, and `heddle doctor --program` says it beforehand.
//!
//! A C library that is otherwise than expected is made of the real one and of a library before it
//! that lies, about one thing at a time (`programs/lies.c`). Each lie is told in both places that
//! could believe it: to the command, and in the program.
//!
//! Invariant: every program has a time limit, and none outlives the run.

mod common;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use common::{can_run, folder, heddle, output, run, text};

const REFUSAL: &str = "heddle: threads are kernel threads: ";
const ON_KERNEL_THREADS: &str = "36, kernel\n";
const ON_USER_LEVEL_THREADS: &str = "36, user\n";

/// Where a lie is noticed that is told in the program alone: not the command's to try.
const IN_PROGRAM: &[&str] = &["cond"];

/// Lies, and what is said of each; `None`: it is noticed, and threads are made in another way.
const LIES: &[(&str, Option<&str>)] = &[
    ("missing _thread_db_sizeof_pthread", Some("the C library has no _thread_db_sizeof_pthread")),
    ("missing _thread_db_pthread_specific", Some("does not say where keys are")),
    ("missing _thread_db_pthread_list", Some("does not say where its list of threads is")),
    ("missing _dl_allocate_tls", Some("the C library has no _dl_allocate_tls")),
    ("missing _dl_deallocate_tls", Some("the C library has no _dl_deallocate_tls")),
    ("missing _dl_get_tls_static_info", Some("the C library has no _dl_get_tls_static_info")),
    ("missing __ctype_init", Some("the C library has no __ctype_init")),
    ("missing __call_tls_dtors", Some("the C library has no __call_tls_dtors")),
    ("missing __pthread_keys", Some("the C library has no __pthread_keys")),
    ("moved _thread_db_pthread_tid", Some("the tid of the C library's threads was not found")),
    ("moved _thread_db_pthread_specific", Some("the C library's keys are not where it says")),
    ("moved _thread_db_pthread_list", Some("list of threads is not where it says")),
    ("grown _thread_db_sizeof_pthread", Some("threads that are larger than they are")),
    ("table", Some("the C library's keys are not where it says")),
    ("stack", Some("the stack of the C library's threads was not found")),
    ("bytes", Some("the stack size of the C library's threads was not found")),
    ("refused", Some("no kernel thread to look at")),
    ("robust", Some("the kernel has another robust list than the C library")),
    ("aligned", Some("a library asks for TLS aligned to 8192 bytes")),
    ("small", Some("this library was loaded too late to have static TLS")),
    ("libraries", Some("the C library has no TLS of its own")),
    ("cond", Some("condition variables that are not known")),
    ("words", Some("malloc keeps more than is known per thread")),
    ("missing _dl_allocate_tls_init", None),
    ("missing __res_nclose", None),
    ("missing __rseq_offset", None),
    ("nothing", None),
];

/// Compiles a program or library of this test; `None`, with the reason said, if that cannot be.
fn compile(into: &Path, words: &[&str], source: &Path) -> Option<PathBuf> {
    let (compiler, flags) = words.split_first().expect("a compiler");
    let mut built = Command::new(compiler);
    built.arg("-O1").args(flags).arg("-o").args([into, source]).args(["-pthread", "-ldl"]);
    match built.output() {
        Ok(output) if output.status.success() => Some(into.to_owned()),
        Ok(output) => {
            println!("skip: {words:?}: {}", text(&output.stderr).trim());
            None
        }
        Err(error) => {
            println!("skip: {compiler}: {error}");
            None
        }
    }
}

fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(name)
}

/// The program linked with the library, which is behind heddle's so: what is preloaded is before.
fn linked_with(library: &Path, folder: &Path) -> PathBuf {
    let words = ["cc", "-Wl,--no-as-needed", name(library)];
    compile(&folder.join("linked"), &words, &source("threads.c")).expect("built")
}

/// The program that says what its threads are, and the library that lies to it.
fn program_and_liar(folder: &Path) -> (PathBuf, PathBuf) {
    let library = ["cc", "-shared", "-fPIC", "-Wl,-Bsymbolic"];
    let program = compile(&folder.join("threads"), &["cc"], &source("threads.c"));
    let liar = compile(&folder.join("lies.so"), &library, &source("lies.c"));
    (program.expect("built"), liar.expect("built"))
}

fn name(path: &Path) -> &str {
    path.to_str().expect("a name")
}

/// What is said of the threads, which is one line or none.
fn said(output: &Output) -> Option<String> {
    let errors = text(&output.stderr);
    let mut lines = errors.lines().filter_map(|line| line.strip_prefix(REFUSAL));
    let said = lines.next().map(str::to_owned);
    assert_eq!(lines.next(), None, "{errors}");
    said
}

/// That the program runs on kernel threads for this reason, as the doctor says.
fn is_refused(words: &[&str], environment: &[(&str, &str)], expected: &str) -> Output {
    let mut doctor = Command::new(heddle());
    doctor.args(["doctor", "--problems", "--program", words[0]]).envs(environment.iter().copied());
    let doctor = output(doctor);
    let told = text(&doctor.stdout);
    assert!(told.contains(expected), "the doctor says: {told}; expected: {expected}");
    assert_eq!(doctor.status.code(), Some(1), "{told}");

    let mut command = run(words);
    command.envs(environment.iter().copied());
    let output = output(command);
    assert!(output.status.success(), "{words:?}: {output:?}");
    let said = said(&output).unwrap_or_else(|| panic!("{words:?}: {output:?}"));
    assert!(said.contains(expected), "{words:?}: {said}");
    output
}

#[test]
fn lies_of_a_c_library_are_seen_through() {
    if !can_run(&["cc"]) {
        return;
    }
    let folder = folder("lies");
    let (program, lies) = program_and_liar(&folder);
    let library = heddle().with_file_name("libheddle-user.so");
    let loaded = format!("{}:{}", name(&library), name(&lies));
    for (lie, expected) in LIES {
        // In the program.
        let mut alone = Command::new(&program);
        alone.env("LD_PRELOAD", &loaded).env("TEST_LIE", lie);
        let output = output(alone);
        let threads = if expected.is_some() { ON_KERNEL_THREADS } else { ON_USER_LEVEL_THREADS };
        assert_eq!(text(&output.stdout), threads, "{lie}: {output:?}");
        match (said(&output), expected) {
            (None, None) => continue,
            (Some(said), Some(expected)) => assert!(said.contains(expected), "{lie}: {said}"),
            (said, expected) => panic!("{lie}: {said:?}, not {expected:?}"),
        }
        if IN_PROGRAM.contains(lie) {
            continue;
        }
        // In the command.
        let environment = [("LD_PRELOAD", name(&lies)), ("TEST_LIE", *lie)];
        let expected = expected.expect("others have gone on");
        let output = is_refused(&[name(&program)], &environment, expected);
        assert_eq!(text(&output.stdout), ON_KERNEL_THREADS, "{lie}");
    }
    fs::remove_dir_all(folder).expect("ours");
}

/// The program by the command, below limits that a shell sets.
fn below(limits: &str, program: &Path) -> Command {
    let line = format!("ulimit {limits}; exec \"$@\"");
    let mut command = Command::new("sh");
    command.args(["-c", &line, "sh", name(heddle()), "run", "--threads", "user", name(program)]);
    command
}

#[test]
fn limited_address_space_is_left_to_the_program() {
    if !can_run(&["cc"]) {
        return;
    }
    let folder = folder("space");
    let program = compile(&folder.join("threads"), &["cc"], &source("threads.c")).expect("built");
    for (limit, word) in [("-v 4000000", "RLIMIT_AS"), ("-d 4000000", "RLIMIT_DATA")] {
        let output = output(below(limit, &program));
        assert_eq!(text(&output.stdout), ON_KERNEL_THREADS, "{output:?}");
        let said = said(&output).unwrap_or_default();
        assert!(said.starts_with(&format!("address space: limited ({word})")), "{said}");
    }
    fs::remove_dir_all(folder).expect("ours");
}

/// One that it sets itself, which the command cannot know of.
#[test]
fn address_space_that_the_program_limits_is_left_to_it() {
    if !can_run(&["cc"]) {
        return;
    }
    let folder = folder("limited");
    let program = compile(&folder.join("limited"), &["cc"], &source("limited.c")).expect("built");
    for mebibytes in ["600", "900", "4000"] {
        let output = output(run(&[name(&program), mebibytes]));
        assert_eq!(text(&output.stdout), "kernel\n", "{mebibytes}: {output:?}");
        let said = said(&output).unwrap_or_default();
        assert_eq!(said, "address space is limited (RLIMIT_AS)", "{mebibytes}: {output:?}");
    }
    fs::remove_dir_all(folder).expect("ours");
}

/// What runs with `ulimit OPTION COUNT`, and what is said where those are kernel threads.
fn are_left_to_the_program(name_of_folder: &str, option: &str, counts: &[(u32, &str)], why: &str) {
    let folder = folder(name_of_folder);
    let program = compile(&folder.join("threads"), &["cc"], &source("threads.c")).expect("built");
    for &(count, expected) in counts {
        let output = output(below(&format!("{option} {count}"), &program));
        assert_eq!(text(&output.stdout), expected, "{count}: {output:?}");
        let is_told = said(&output).is_some_and(|it| it.starts_with(why));
        assert_eq!(is_told, expected == ON_KERNEL_THREADS, "{count}: {output:?}");
    }
    fs::remove_dir_all(folder).expect("ours");
}

#[test]
fn a_small_main_stack_is_left_to_the_program() {
    if !can_run(&["cc"]) {
        return;
    }
    let counts = [(32, ON_KERNEL_THREADS), (255, ON_KERNEL_THREADS), (256, ON_USER_LEVEL_THREADS)];
    are_left_to_the_program("small", "-s", &counts, "main stack: limited (RLIMIT_STACK)");
}

/// A user's, who is not root: one that nobody else is, with copies that he may read.
#[test]
fn few_processes_are_left_to_the_program() {
    if !can_run(&["cc", "prlimit"]) {
        return;
    }
    if !rustix::process::getuid().is_root() {
        println!("skip: only root can become a user who has no processes");
        return;
    }
    let folder = folder("processes");
    for program in ["threads", "few_processes"] {
        let source = source(&format!("{program}.c"));
        compile(&folder.join(program), &["cc"], &source).expect("built");
    }
    for file in ["heddle", "libheddle-user.so"] {
        fs::copy(heddle().with_file_name(file), folder.join(file)).expect("a copy");
    }
    let by_user = |line: &str| {
        let mut command = Command::new("prlimit");
        command.args(line.split(' ')).current_dir(&folder).uid(64_321).gid(64_321);
        output(command)
    };
    let below = |limit, line: &str| by_user(&format!("--nproc={limit} {line} ./threads"));
    let by_command = "./heddle run --threads user";
    // So the library alone has to look.
    let alone = "env LD_PRELOAD=./libheddle-user.so";
    let why = "processes: limited (RLIMIT_NPROC)";
    let why_alone = "fewer than 16 processes are allowed (RLIMIT_NPROC)";
    for (line, why) in [(by_command, why), (alone, why_alone)] {
        let few = below(15, line);
        assert_eq!(text(&few.stdout), ON_KERNEL_THREADS, "{few:?}");
        assert!(said(&few).is_some_and(|it| it.starts_with(why)), "{few:?}");
        let more = below(60, line);
        assert_eq!(text(&more.stdout), ON_USER_LEVEL_THREADS, "{more:?}");
        assert_eq!(said(&more), None, "{more:?}");
    }
    // What the limit leaves is told to nobody beforehand: the kernel refuses a kernel thread.
    let some = below(24, "env HEDDLE_WORKERS=40 LD_PRELOAD=./libheddle-user.so");
    assert_eq!(text(&some.stdout), ON_USER_LEVEL_THREADS, "{some:?}");
    let errors = text(&some.stderr);
    assert!(errors.contains(" workers instead of 40: worker "), "{errors}");
    let none = by_user(&format!("--nproc=60 {alone} ./few_processes"));
    assert_eq!(text(&none.stdout), "2 made, 0 left behind\n", "{none:?}");
    assert!(said(&none).is_some_and(|it| it.contains("RLIMIT_NPROC")), "{none:?}");
    fs::remove_dir_all(folder).expect("ours");
}

#[test]
fn few_descriptors_are_left_to_the_program() {
    if !can_run(&["cc"]) {
        return;
    }
    let counts = [(12, ON_KERNEL_THREADS), (31, ON_KERNEL_THREADS), (32, ON_USER_LEVEL_THREADS)];
    are_left_to_the_program("few", "-n", &counts, "descriptors: limited (RLIMIT_NOFILE)");
    // One that the program gets on its way, of which the command does not know.
    let folder = folder("few-later");
    let program = compile(&folder.join("threads"), &["cc"], &source("threads.c")).expect("built");
    let line = format!("ulimit -n 31; exec {}", name(&program));
    let output = output(run(&["sh", "-c", &line]));
    assert_eq!(text(&output.stdout), ON_KERNEL_THREADS, "{output:?}");
    let said = said(&output).unwrap_or_default();
    assert_eq!(said, "fewer than 32 descriptors are allowed (RLIMIT_NOFILE)", "{output:?}");
    fs::remove_dir_all(folder).expect("ours");
}

/// What it is called to load is judged; which C library that gets is found out as it starts.
#[test]
fn a_loader_called_by_its_name_is_looked_through() {
    let loader = Path::new("/lib64/ld-linux-x86-64.so.2");
    if !can_run(&["cc"]) || !loader.exists() {
        return println!("skip: no compiler, or no {}", loader.display());
    }
    let folder = folder("loader");
    let (program, lies) = program_and_liar(&folder);
    let words = [name(loader), "--argv0", "other", name(&program)];
    let able = output(run(&words));
    assert_eq!((text(&able.stdout).as_str(), said(&able)), (ON_USER_LEVEL_THREADS, None));
    // Judged where it is found out.
    let mut command = run(&[name(loader), "--argv0", "x", name(&linked_with(&lies, &folder))]);
    command.env("TEST_LIE", "missing __ctype_init");
    let unable = output(command);
    assert_eq!(text(&unable.stdout), ON_KERNEL_THREADS, "{unable:?}");
    assert!(said(&unable).is_some_and(|it| it.contains("no __ctype_init")), "{unable:?}");
    let marked = folder.join("jvm.c");
    let source = format!(
        "#include \"{}\"\nint JNI_CreateJavaVM(void) {{ return 0; }}\n",
        source("threads.c").display()
    );
    fs::write(&marked, source).expect("a file");
    let program = compile(&folder.join("jvm"), &["cc"], &marked).expect("built");
    let output = output(run(&[name(loader), name(&program)]));
    assert_eq!(text(&output.stdout), ON_KERNEL_THREADS, "{output:?}");
    assert!(said(&output).is_some_and(|it| it.contains("inspects kernel threads")), "{output:?}");
    fs::remove_dir_all(folder).expect("ours");
}

#[test]
fn threads_wait_where_there_can_be_no_runtime() {
    if !can_run(&["cc"]) {
        return;
    }
    let folder = folder("waits");
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let headers = format!("-I{}", tests.join("../../capi/tests").display());
    let words = ["cc", &headers];
    let program = compile(&folder.join("locks"), &words, &tests.join("allocator_locks.c"));
    let program = program.expect("built");
    let library = heddle().with_file_name("libheddle-user.so");
    // A setting that means nothing.
    let mut command = Command::new(program);
    command.env("LD_PRELOAD", &library).env("HEDDLE_SLICE", "0");
    let output = output(command);
    assert!(output.status.success(), "{output:?}");
    let said = said(&output).unwrap_or_else(|| panic!("{output:?}"));
    assert!(said.contains("HEDDLE_SLICE=0: not understood"), "{said}");
    fs::remove_dir_all(folder).expect("ours");
}

#[test]
fn few_file_descriptors_are_named_as_what_is_missing() {
    if !can_run(&["cc"]) {
        return;
    }
    let folder = folder("files");
    let program = compile(&folder.join("threads"), &["cc"], &source("threads.c")).expect("built");
    for most in 4..24 {
        let output = output(below(&format!("-n {most}"), &program));
        assert_eq!(text(&output.stdout), ON_KERNEL_THREADS, "{most}: {output:?}");
        let said = said(&output).unwrap_or_default();
        let words = ["open files", "file descriptors", "RLIMIT_NOFILE"];
        assert!(words.iter().any(|word| said.contains(word)), "{most}: {said}");
    }
    fs::remove_dir_all(folder).expect("ours");
}

#[test]
fn who_asks_for_kernel_threads_has_them_and_none_failed() {
    if !can_run(&["cc"]) {
        return;
    }
    let folder = folder("native");
    let program = compile(&folder.join("threads"), &["cc"], &source("threads.c")).expect("built");
    let mut command = run(&[name(&program)]);
    command.env("HEDDLE_BACKEND", "native");
    let output = output(command);
    assert_eq!(text(&output.stdout), ON_KERNEL_THREADS, "{output:?}");
    assert_eq!(said(&output).as_deref(), Some("HEDDLE_BACKEND=native asks for them"));
    let report = text(&output.stderr);
    assert!(report.contains("8 threads created"), "{report}");
    assert!(!report.contains("could not be created"), "{report}");
    fs::remove_dir_all(folder).expect("ours");
}

#[test]
fn without_lies_threads_are_user_level() {
    if !can_run(&["cc"]) {
        return;
    }
    let folder = folder("truth");
    let mut command = run(&[name(&linked_with(&program_and_liar(&folder).1, &folder))]);
    command.env("TEST_LIE", "none");
    let output = output(command);
    assert_eq!((text(&output.stdout).as_str(), said(&output)), (ON_USER_LEVEL_THREADS, None));
    fs::remove_dir_all(folder).expect("ours");
}

#[test]
fn programs_of_other_kinds_run_on_kernel_threads() {
    if !can_run(&["cc"]) {
        return;
    }
    let folder = folder("kinds");
    let threads = source("threads.c");
    let kinds: [(&str, &[&str], &str); 8] = [
        ("static", &["cc", "-static"], "no library can be added"),
        ("pie", &["cc", "-static-pie", "-fPIE"], "no library can be added"),
        ("address", &["cc", "-fsanitize=address"], "knows stacks of kernel threads only"),
        ("thread", &["cc", "-fsanitize=thread"], "knows stacks of kernel threads only"),
        ("leak", &["cc", "-fsanitize=leak"], "knows stacks of kernel threads only"),
        ("memory", &["clang", "-fsanitize=memory"], "knows stacks of kernel threads only"),
        ("bits", &["cc", "-m32"], "of the processor that heddle is built for"),
        ("musl", &["musl-gcc", "-D_GNU_SOURCE"], "user-level threads are made for glibc"),
    ];
    for (kind, words, expected) in kinds {
        if let Some(program) = compile(&folder.join(kind), words, &threads) {
            let output = is_refused(&[name(&program)], &[], expected);
            assert_eq!(text(&output.stdout), ON_KERNEL_THREADS, "{kind}");
        }
    }
    // What a loader of programs for Windows, and an allocator with caches per processor, have.
    for (kind, mark, expected) in [
        ("wine", "int wine_main_preload_info[4];", "it makes and switches threads itself"),
        ("rseq", "int rseq_register_current_thread(void) { return 0; }", "caches per processor"),
        ("jvm", "int JNI_CreateJavaVM(void) { return 0; }", "stops and inspects kernel threads"),
    ] {
        let marked = folder.join(format!("{kind}.c"));
        let include = format!("#include \"{}\"\n{mark}\n", threads.display());
        fs::write(&marked, include).expect("a file");
        let program = compile(&folder.join(kind), &["cc"], &marked).expect("built");
        let output = is_refused(&[name(&program)], &[], expected);
        assert_eq!(text(&output.stdout), ON_KERNEL_THREADS, "{kind}");
    }
    fs::remove_dir_all(folder).expect("ours");
}

/// A script is judged by what runs it, and that runs it as ever.
#[test]
fn scripts_run_as_what_interprets_them_can() {
    if !can_run(&["cc"]) {
        return;
    }
    let folder = folder("scripts");
    let threads = source("threads.c");
    let able = compile(&folder.join("able"), &["cc"], &threads).expect("built");
    let still = compile(&folder.join("still"), &["cc", "-static"], &threads);
    for (interpreter, expected) in [(Some(able), None), (still, Some("no library can be added"))] {
        let Some(interpreter) = interpreter else { continue };
        let script = folder.join("script");
        fs::write(&script, format!("#!{}\n", interpreter.display())).expect("a file");
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).expect("its mode");
        let (words, shown) = ([name(&script)], [ON_USER_LEVEL_THREADS, ON_KERNEL_THREADS]);
        match expected {
            Some(expected) => {
                let output = is_refused(&words, &[], expected);
                assert_eq!(text(&output.stdout), shown[1]);
            }
            None => {
                let output = output(run(&words));
                assert_eq!((text(&output.stdout).as_str(), said(&output)), (shown[0], None));
            }
        }
    }
    fs::remove_dir_all(folder).expect("ours");
}

#[test]
fn a_program_that_changes_its_user_runs_on_kernel_threads() {
    // SAFETY: no memory is involved.
    if unsafe { libc::getuid() } != 0 {
        println!("skip: only root can make a program that starts as another user");
        return;
    }
    if !can_run(&["cc"]) {
        return;
    }
    let folder = folder("rights");
    let threads = folder.join("threads");
    let program = compile(&threads, &["cc"], &source("threads.c")).expect("built");
    std::os::unix::fs::chown(&program, Some(65534), None).expect("root may");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o4755)).expect("its mode");
    let output = is_refused(&[name(&program)], &[], "the loader adds no library");
    assert_eq!(text(&output.stdout), ON_KERNEL_THREADS);
    fs::remove_dir_all(folder).expect("ours");
}

/// The compiler is a Go program itself.
#[test]
fn go_runs_on_kernel_threads() {
    if !can_run(&["go"]) {
        return;
    }
    let asked = Command::new("go").args(["env", "GOROOT"]).output().expect("go");
    let compiler = Path::new(text(&asked.stdout).trim()).join("bin/go");
    if !fs::read(&compiler).is_ok_and(|bytes| bytes.starts_with(b"\x7fELF")) {
        println!("skip: {} is no program", compiler.display());
        return;
    }
    let output = is_refused(&[name(&compiler), "version"], &[], "");
    assert!(text(&output.stdout).starts_with("go version"), "{output:?}");
}

#[test]
fn java_runs_on_kernel_threads() {
    if can_run(&["java"]) {
        let output = is_refused(&["java", "-version"], &[], "stops and inspects kernel threads");
        assert!(text(&output.stderr).contains("version"), "{output:?}");
    }
}
