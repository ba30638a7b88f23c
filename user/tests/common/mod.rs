//! What the tests share that run programs by `heddle run --threads user`: the command with the
//! library beside it, programs in process groups of their own, and their output.
//!
//! Invariant: every program has a time limit, and none outlives the run.

#![allow(dead_code)]

pub mod drawn;

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

pub const TIME_LIMIT: Duration = Duration::from_secs(120);

/// The command, with the library beside it; built once.
pub fn heddle() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let exe = std::env::current_exe().expect("this test");
        let profile = exe.parent().and_then(Path::parent).expect("a target folder");
        let source = Path::new(env!("CARGO_MANIFEST_DIR"));
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()));
        cargo.args(["build", "--quiet", "-p", "heddle-cli", "-p", "heddle-user", "--target-dir"]);
        cargo.arg(profile.parent().expect("a target folder")).current_dir(source);
        if profile.ends_with("release") {
            cargo.arg("--release");
        }
        assert!(cargo.status().expect("cargo").success());
        let mut link = Command::new(source.join("link-shared.sh"));
        link.arg(profile.join("libheddle_user.a")).arg(profile);
        assert!(link.status().expect("a shell").success());
        profile.join("heddle")
    })
}

/// Whether programs can be run so here, and these are there; says so if not.
pub fn can_run(programs: &[&str]) -> bool {
    if !cfg!(all(target_arch = "x86_64", target_env = "gnu")) {
        println!("skip: programs are run on user-level threads on x86-64 with glibc alone");
        return false;
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_there = |name: &str| std::env::split_paths(&path).any(|it| it.join(name).exists());
    let missing: Vec<_> = programs.iter().filter(|name| !is_there(name)).collect();
    if !missing.is_empty() {
        println!("skip: not installed: {missing:?}");
    }
    missing.is_empty()
}

/// The command for a program on user-level threads, in a process group of its own.
pub fn run(arguments: &[&str]) -> Command {
    let mut command = Command::new(heddle());
    command.args(["run", "--threads", "user", "--"]).args(arguments).process_group(0);
    command.envs(drawn::said());
    command
}

/// Ends the group of a child, the program included, when it goes.
pub struct Ended(pub Child);

impl Drop for Ended {
    fn drop(&mut self) {
        // SAFETY: no memory is involved; the group is the child's own.
        unsafe { libc::kill(-(self.0.id() as i32), libc::SIGKILL) };
        let _ = self.0.wait();
    }
}

/// The output of a program that ends by itself.
pub fn output(command: Command) -> Output {
    output_within(command, TIME_LIMIT)
}

/// As [`output`], of a program that does more than one thing.
pub fn output_within(mut command: Command, limit: Duration) -> Output {
    command.process_group(0);
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = Ended(child.spawn().expect("the command starts"));
    let (mut out, mut err) = (child.0.stdout.take().unwrap(), child.0.stderr.take().unwrap());
    let read = std::thread::spawn(move || {
        let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
        let errors = std::thread::spawn(move || err.read_to_end(&mut stderr).map(|_| stderr));
        out.read_to_end(&mut stdout).expect("output");
        (stdout, errors.join().unwrap().expect("errors"))
    });
    let end = Instant::now() + limit;
    let status = loop {
        if let Some(status) = child.0.try_wait().expect("a child") {
            break status;
        }
        assert!(Instant::now() < end, "{command:?} does not end");
        std::thread::sleep(Duration::from_millis(5));
    };
    let (stdout, stderr) = read.join().unwrap();
    Output { status, stdout, stderr }
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A folder for a test's files.
pub fn folder(name: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("heddle-user-{}-{name}", std::process::id()));
    let _ = fs::remove_dir_all(&path);
    fs::create_dir_all(&path).expect("a temporary folder");
    path
}

/// Builds the program `name` of `tests/programs` in `folder`.
pub fn built(folder: &Path, name: &str, options: &[&str]) -> PathBuf {
    let program = folder.join(name);
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/programs/{name}.c"));
    let mut cc = Command::new("cc");
    cc.args(["-O1", "-g", "-rdynamic", "-pthread", "-Wall", "-Wextra", "-Werror"]).args(options);
    assert!(cc.arg("-o").args([&program, &source]).status().expect("a compiler").success());
    program
}

/// The Python interpreter itself, which may be behind scripts; says so if there is none.
pub fn python() -> Option<String> {
    if !can_run(&["python3"]) {
        return None;
    }
    let asked = Command::new("python3").args(["-c", "import sys; print(sys.executable)"]).output();
    Some(text(&asked.expect("python3").stdout).trim().to_owned())
}

/// Starts a server under the command and waits until it takes connections, on user-level threads.
pub fn serve(arguments: &[&str], port: u16) -> Ended {
    let mut command = run(arguments);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let server = Ended(command.spawn().expect("the command starts"));
    let end = Instant::now() + TIME_LIMIT;
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        assert!(Instant::now() < end, "{arguments:?} does not listen");
        std::thread::sleep(Duration::from_millis(20));
    }
    let end = Instant::now() + TIME_LIMIT;
    while !has_workers(server.0.id()) {
        assert!(Instant::now() < end, "{arguments:?} runs on kernel threads");
        std::thread::sleep(Duration::from_millis(20));
    }
    server
}

/// Whether this process, or one that comes from it, has workers of heddle's.
fn has_workers(process: u32) -> bool {
    let comm = |task: std::fs::DirEntry| std::fs::read_to_string(task.path().join("comm")).ok();
    let tasks = std::fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    tasks.filter_map(comm).any(|name| name.trim() == "heddle-0")
        || children(process).into_iter().any(has_workers)
}

/// The processes that this one has started.
pub fn children(parent: u32) -> Vec<u32> {
    let parent_of = |process: u32| {
        let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
        stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse::<u32>().ok()
    };
    let all = std::fs::read_dir("/proc").expect("processes").flatten();
    let numbers = all.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    numbers.filter(|&process| parent_of(process) == Some(parent)).collect()
}

/// A port that nobody uses now.
pub fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    listener.local_addr().expect("its number").port()
}

/// Sends `text`, and expects `answer`.
pub fn ask(stream: &mut TcpStream, text: &str, answer: &str) {
    stream.write_all(text.as_bytes()).expect("taken");
    let mut got = vec![0; answer.len()];
    stream.read_exact(&mut got).expect("an answer");
    assert_eq!(String::from_utf8_lossy(&got), answer);
}
