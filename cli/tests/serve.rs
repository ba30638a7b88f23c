//! `heddle serve` from its command line: it starts, answers, and refuses what it cannot do.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

/// A folder with one file, of this test alone.
fn folder(name: &str) -> PathBuf {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::create_dir_all(&dir).expect("a folder");
    std::fs::write(dir.join("index.html"), "<p>warp and weft").expect("a file");
    dir
}

/// A server that ends with the value.
struct Running {
    child: Child,
    /// Kept open: the server goes on writing to it.
    _messages: BufReader<std::process::ChildStderr>,
    address: SocketAddr,
}

impl Running {
    fn start(dir: &Path, flags: &[&str]) -> Running {
        let mut child = Command::new(env!("CARGO_BIN_EXE_heddle"))
            .arg("serve")
            .arg(dir)
            .args(["--port", "0"])
            .args(flags)
            .stderr(Stdio::piped())
            .spawn()
            .expect("heddle runs");
        let mut line = String::new();
        let mut messages = BufReader::new(child.stderr.take().expect("a pipe"));
        messages.read_line(&mut line).expect("text");
        let address =
            line.split("http://").nth(1).and_then(|rest| rest.trim_end().strip_suffix('/'));
        let address = address.and_then(|text| text.parse().ok());
        let address = address.unwrap_or_else(|| panic!("no address in {line:?}"));
        Running { child, _messages: messages, address }
    }

    /// The answer to one request, whole.
    fn get(&self, target: &str) -> String {
        let mut stream = TcpStream::connect(self.address).expect("a connection");
        stream.set_read_timeout(Some(Duration::from_secs(10))).expect("a timeout");
        let host = self.address;
        write!(stream, "GET {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n")
            .expect("sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        answer
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        // A killed process leaves its table, like a crashed one.
        let _ = std::fs::remove_file(format!("/dev/shm/heddle.{}", self.child.id()));
    }
}

fn heddle(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_heddle")).args(arguments).output().expect("heddle runs")
}

#[test]
fn both_kinds_of_threads_serve_a_file() {
    let dir = folder("both");
    for flags in [&["--threads", "user", "--workers", "1"][..], &["--threads", "kernel"]] {
        let server = Running::start(&dir, flags);
        let answer = server.get("/");
        assert!(answer.starts_with("HTTP/1.1 200 "), "{flags:?}: {answer}");
        assert!(answer.ends_with("<p>warp and weft"), "{flags:?}: {answer}");
        assert!(server.get("/none").starts_with("HTTP/1.1 404 "));
    }
}

/// The process's table, by the other command.
fn table_of(server: &Running) -> serde_json::Value {
    let output = heddle(&["ps", "--json", &server.child.id().to_string()]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

#[test]
fn its_threads_are_seen_from_outside() {
    let dir = folder("seen");
    for (threads, kind) in [("user", "light"), ("kernel", "kernel thread")] {
        let server = Running::start(&dir, &["--threads", threads, "--workers", "2"]);
        let _waiting = TcpStream::connect(server.address).expect("a connection");
        assert!(server.get("/").starts_with("HTTP/1.1 200 "));
        let table = table_of(&server);
        assert_eq!(table["native"], threads == "kernel");
        let all = table["threads"].as_array().expect("threads");
        let of_role = |role: &str| all.iter().filter(|it| it["role"] == *role).collect::<Vec<_>>();
        let acceptor = of_role("http acceptor");
        assert_eq!((acceptor.len(), &acceptor[0]["kind"]), (1, &kind.into()), "{table}");
        // At least the one that waits; the answered one may be on its way out.
        let connections = of_role("http connection");
        assert!(connections.iter().any(|it| it["state"] == "parked"), "{table}");
        if threads == "user" {
            assert_eq!(table["workers"].as_array().map(Vec::len), Some(2), "{table}");
        }
        assert_eq!(table["faults"].as_array().map(Vec::len), Some(0), "{table}");
    }
}

#[test]
fn flags_reach_the_server() {
    let dir = folder("flags");
    std::fs::create_dir_all(dir.join("sub")).expect("a folder");
    let log = dir.join("../flags.log");
    let _ = std::fs::remove_file(&log);
    let path = log.to_str().expect("a path");
    let server = Running::start(&dir, &["--listing", "--no-live", "--access-log", path]);
    assert!(server.get("/sub/").starts_with("HTTP/1.1 200 "));
    assert!(server.get("/heddle/").starts_with("HTTP/1.1 404 "));
    let logged = || std::fs::read_to_string(&log).unwrap_or_default();
    for _ in 0..1200 {
        if logged().contains("GET /sub/ HTTP/1.1") {
            return;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    panic!("not in the access log: {}", logged());
}

/// Sends a signal by name, as an operator does.
fn send(signal: &str, child: &Child) {
    let pid = child.id().to_string();
    let status = Command::new("kill").args([signal, &pid]).status().expect("kill runs");
    assert!(status.success());
}

/// The exit status, if it comes within a minute.
fn status_of(child: &mut Child) -> std::process::ExitStatus {
    for _ in 0..1200 {
        if let Some(status) = child.try_wait().expect("a child") {
            return status;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    panic!("the server does not end");
}

#[test]
fn signals_end_the_server_in_order() {
    let dir = folder("signals");
    for threads in ["user", "kernel"] {
        for signal in ["-INT", "-TERM"] {
            let mut server = Running::start(&dir, &["--threads", threads]);
            assert!(server.get("/").starts_with("HTTP/1.1 200 "));
            // A connection between two requests is no answer in progress.
            let _idle = TcpStream::connect(server.address).expect("a connection");
            send(signal, &server.child);
            assert_eq!(status_of(&mut server.child).code(), Some(0), "{threads} {signal}");
            assert!(TcpStream::connect(server.address).is_err());
        }
    }
}

#[test]
fn a_hangup_opens_the_log_anew() {
    let dir = folder("hangup");
    let log = dir.join("../hangup.log");
    let old = dir.join("../hangup.log.1");
    let _ = (std::fs::remove_file(&log), std::fs::remove_file(&old));
    let server = Running::start(&dir, &["--access-log", log.to_str().expect("a path")]);
    std::fs::rename(&log, &old).expect("it was opened at the start");
    send("-HUP", &server.child);
    for _ in 0..1200 {
        server.get("/");
        if std::fs::read_to_string(&log).is_ok_and(|text| text.contains("GET / HTTP/1.1")) {
            return;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    panic!("nothing in the new log");
}

#[test]
fn what_cannot_be_served_is_one_message() {
    let dir = folder("refused");
    let dir = dir.to_str().expect("a path");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = taken.local_addr().expect("an address").port().to_string();
    for (arguments, part) in [
        (vec!["serve", "/nonexistent"], "/nonexistent"),
        (vec!["serve", dir, "--port", &port], "cannot listen on 127.0.0.1:"),
        (vec!["serve", dir, "--tls-cert", "/none.pem", "--tls-key", "/none.pem"], "/none.pem"),
    ] {
        let output = heddle(&arguments);
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {text}");
        assert!(text.lines().count() == 1 && text.contains(part), "{arguments:?}: {text}");
    }
}

#[test]
fn misuse_is_told_apart() {
    for arguments in [
        &["serve"][..],
        &["serve", ".", "--port", "70000"],
        &["serve", ".", "--workers", "0"],
        &["serve", ".", "--tls-cert", "x"],
        &["serve", ".", "--grace", "-1"],
        &["serve", ".", "--threads", "green"],
    ] {
        assert_eq!(heddle(arguments).status.code(), Some(2), "{arguments:?}");
    }
}
