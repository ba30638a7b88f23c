//! `heddle run --threads user` with real programs: their output is what it is on kernel threads.
//!
//! The command and the library are built and put beside each other. A program that is not
//! installed is skipped with its name.
//!
//! Invariant: every program has a time limit, and none outlives the run.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

const TIME_LIMIT: Duration = Duration::from_secs(120);

/// The command, with the library beside it; built once.
fn heddle() -> &'static Path {
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
fn can_run(programs: &[&str]) -> bool {
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
fn run(arguments: &[&str]) -> Command {
    let mut command = Command::new(heddle());
    command.args(["run", "--threads", "user", "--"]).args(arguments).process_group(0);
    command
}

/// Ends the group of a child, the program included, when it goes.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        // SAFETY: no memory is involved; the group is the child's own.
        unsafe { libc::kill(-(self.0.id() as i32), libc::SIGKILL) };
        let _ = self.0.wait();
    }
}

/// The output of a program that ends by itself.
fn output(mut command: Command) -> Output {
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = Ended(child.spawn().expect("the command starts"));
    let (mut out, mut err) = (child.0.stdout.take().unwrap(), child.0.stderr.take().unwrap());
    let read = std::thread::spawn(move || {
        let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
        let errors = std::thread::spawn(move || err.read_to_end(&mut stderr).map(|_| stderr));
        out.read_to_end(&mut stdout).expect("output");
        (stdout, errors.join().unwrap().expect("errors"))
    });
    let end = Instant::now() + TIME_LIMIT;
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

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A folder for a test's files.
fn folder(name: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("heddle-user-{}-{name}", std::process::id()));
    let _ = fs::remove_dir_all(&path);
    fs::create_dir_all(&path).expect("a temporary folder");
    path
}

#[test]
fn threads_of_python_compute() {
    if !can_run(&["python3"]) {
        return;
    }
    let script = "
import threading, queue
q, out = queue.Queue(), queue.Queue()
def work():
    for n in iter(q.get, None):
        out.put(n * n)
threads = [threading.Thread(target=work) for _ in range(20)]
for t in threads: t.start()
for n in range(1000): q.put(n)
for t in threads: q.put(None)
for t in threads: t.join()
print(sum(out.get() for _ in range(1000)))";
    let output = output(run(&["python3", "-c", script]));
    assert!(output.status.success(), "{output:?}");
    assert_eq!(text(&output.stdout), "332833500\n");
}

#[test]
fn xz_packs_with_threads() {
    if !can_run(&["xz"]) {
        return;
    }
    let folder = folder("xz");
    let bytes: Vec<u8> =
        (0..4_000_000u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 20) as u8).collect();
    let file = folder.join("bytes");
    fs::write(&file, &bytes).expect("a file");
    let name = file.to_str().expect("a name");
    let packed = output(run(&["xz", "-1", "-T4", "--block-size=300000", "-k", "-c", name]));
    assert!(packed.status.success(), "{}", text(&packed.stderr));
    assert!(!text(&packed.stderr).contains("kernel threads"), "{}", text(&packed.stderr));
    fs::write(folder.join("bytes.xz"), &packed.stdout).expect("a file");
    let mut unpack = Command::new("xz");
    unpack.args(["-d", "-c"]).arg(folder.join("bytes.xz"));
    assert!(output(unpack).stdout == bytes);
    fs::remove_dir_all(folder).expect("ours");
}

#[test]
fn a_program_that_cannot_says_why_and_runs() {
    if !can_run(&["true"]) {
        return;
    }
    let folder = folder("static");
    let source = folder.join("still.c");
    fs::write(&source, "int main(void) { return 7; }\n").expect("a file");
    let program = folder.join("still");
    let built = Command::new("cc").arg("-static").arg("-o").args([&program, &source]).status();
    if !built.is_ok_and(|status| status.success()) {
        println!("skip: no static C library");
        return;
    }
    let output = output(run(&[program.to_str().expect("a name")]));
    assert_eq!(output.status.code(), Some(7));
    let said = text(&output.stderr);
    assert!(said.contains("threads are kernel threads: "), "{said}");
    fs::remove_dir_all(folder).expect("ours");
}

/// Starts a server under the command and waits until it takes connections.
fn serve(arguments: &[&str], port: u16) -> Ended {
    let mut command = run(arguments);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let server = Ended(command.spawn().expect("the command starts"));
    let end = Instant::now() + TIME_LIMIT;
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        assert!(Instant::now() < end, "{arguments:?} does not listen");
        std::thread::sleep(Duration::from_millis(20));
    }
    server
}

/// A port that nobody uses now.
fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    listener.local_addr().expect("its number").port()
}

/// Sends `text`, and expects `answer`.
fn ask(stream: &mut TcpStream, text: &str, answer: &str) {
    stream.write_all(text.as_bytes()).expect("taken");
    let mut got = vec![0; answer.len()];
    stream.read_exact(&mut got).expect("an answer");
    assert_eq!(String::from_utf8_lossy(&got), answer);
}

/// Twenty clients at once, each with values of its own.
fn values_come_back(port: u16, exchange: impl Fn(&mut TcpStream, usize) + Sync) {
    std::thread::scope(|scope| {
        for client in 0..20 {
            let exchange = &exchange;
            scope.spawn(move || {
                let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("a connection");
                stream.set_read_timeout(Some(TIME_LIMIT)).expect("a timeout");
                for round in 0..50 {
                    exchange(&mut stream, client * 1000 + round);
                }
            });
        }
    });
}

#[test]
fn memcached_keeps_values() {
    if !can_run(&["memcached"]) {
        return;
    }
    let port = free_port();
    let text = port.to_string();
    let _server =
        serve(&["memcached", "-u", "root", "-t", "4", "-l", "127.0.0.1", "-p", &text], port);
    values_come_back(port, |stream, n| {
        let value = format!("value {n}");
        let bytes = value.len();
        ask(stream, &format!("set k{n} 0 0 {bytes}\r\n{value}\r\n"), "STORED\r\n");
        let answer = format!("VALUE k{n} 0 {bytes}\r\n{value}\r\nEND\r\n");
        ask(stream, &format!("get k{n}\r\n"), &answer);
    });
}

#[test]
fn redis_keeps_values_with_io_threads() {
    if !can_run(&["redis-server"]) {
        return;
    }
    let port = free_port();
    let text = port.to_string();
    let folder = folder("redis");
    let place = folder.to_str().expect("a name");
    let _server = serve(
        &[
            "redis-server",
            "--port",
            &text,
            "--bind",
            "127.0.0.1",
            "--save",
            "",
            "--dir",
            place,
            "--io-threads",
            "3",
            "--io-threads-do-reads",
            "yes",
        ],
        port,
    );
    values_come_back(port, |stream, n| {
        ask(stream, &format!("SET k{n} value{n}\r\n"), "+OK\r\n");
        let value = format!("value{n}");
        let answer = format!("${}\r\n{value}\r\n", value.len());
        ask(stream, &format!("GET k{n}\r\n"), &answer);
    });
}
