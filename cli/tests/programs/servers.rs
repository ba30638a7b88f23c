//! memcached, redis-server and nginx under load, observed and then tuned.
//!
//! Invariant: every answer that a client gets is checked; the servers listen on loopback ports
//! or sockets of the test's own and end by the signal that their documents name.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::thread;

use rustix::process::Signal;

use crate::report::{Report, check_tuned};
use crate::support::{Folder, find, is_root, skip};

/// At least so many times less is reserved for stacks of default size.
const TIMES_LESS: u64 = 50;

/// The same load twice: observed, which makes the history, then tuned by it.
fn observed_and_tuned(name: &str, load: impl Fn(&Folder, &[&str]) -> Report) -> Report {
    let folder = Folder::new(name);
    let observed = load(&folder, &[]);
    observed.check();
    let tuned = load(&folder, &["--stacks", "auto"]);
    tuned.check();
    check_tuned(&observed, &tuned, TIMES_LESS);
    observed
}

#[test]
fn memcached() {
    if find("memcached").is_none() {
        skip!("memcached is not installed and could not be");
    }
    let observed = observed_and_tuned("memcached", memcached_load);
    // Four workers and those that look after items, the hash table and the log.
    assert!(observed.created() >= 8, "{}", observed.0);
    let four = observed.kinds().into_iter().find(|kind| kind.number("created") == 4);
    assert!(four.is_some_and(|kind| kind.tells("worker")), "{}", observed.0);
}

fn memcached_load(folder: &Folder, flags: &[&str]) -> Report {
    let socket = folder.path("memcached.sock");
    let mut command = folder.under(flags, "memcached");
    command.args(["-t", "4", "-U", "0", "-s"]).arg(&socket);
    if is_root() {
        command.args(["-u", "root"]);
    }
    let mut server = folder.start(command);
    server.until("a connection", || UnixStream::connect(&socket).is_ok());
    thread::scope(|scope| {
        for client in 0..16 {
            let socket = &socket;
            scope.spawn(move || memcached_client(socket, client));
        }
    });
    server.signal(Signal::INT);
    server.end().good();
    folder.report()
}

/// Sets and gets values of its own, small and large ones, and reads back what it set.
fn memcached_client(socket: &Path, client: usize) {
    let mut stream = BufReader::new(UnixStream::connect(socket).expect("a connection"));
    let mut line = String::new();
    for round in 0..200 {
        let value = format!("{client}-{round}-").repeat(1 + round * 7 % 400);
        let size = value.len();
        write!(stream.get_mut(), "set key-{client}-{round} 0 0 {size}\r\n{value}\r\n")
            .expect("sent");
        line.clear();
        stream.read_line(&mut line).expect("an answer");
        assert_eq!(line, "STORED\r\n");
        write!(stream.get_mut(), "get key-{client}-{round}\r\n").expect("sent");
        let mut answer = vec![0; format!("VALUE key-{client}-{round} 0 {size}\r\n").len()];
        stream.read_exact(&mut answer).expect("a head");
        let mut body = vec![0; size + "\r\nEND\r\n".len()];
        stream.read_exact(&mut body).expect("a value");
        assert_eq!(body, format!("{value}\r\nEND\r\n").into_bytes());
    }
}

#[test]
fn redis_with_threads_for_input_and_output() {
    if find("redis-server").is_none() || find("redis-benchmark").is_none() {
        skip!("redis-server or redis-tools is not installed and could not be");
    }
    let observed = observed_and_tuned("redis", redis_load);
    let threads = observed.told("io_thd");
    let created: u64 = threads.iter().map(|kind| kind.number("created")).sum();
    assert_eq!(created, 3, "four threads, main among them: {threads:?}");
    assert_eq!(observed.told("bio_").len(), 1, "three of one kind");
}

fn redis_load(folder: &Folder, flags: &[&str]) -> Report {
    let socket = folder.path("redis.sock");
    let mut command = folder.under(flags, "redis-server");
    command.args(["--port", "0", "--save", "", "--io-threads", "4", "--io-threads-do-reads"]);
    command.args(["yes", "--appendonly", "yes", "--unixsocket"]).arg(&socket);
    let mut server = folder.start(command);
    // What the run before left is loaded first.
    let up = || UnixStream::connect(&socket).is_ok() && redis(&socket, "PING\r\n") == "+PONG\r\n";
    server.until("an answer", up);
    let mut benchmark = folder.plain("redis-benchmark");
    benchmark.arg("-s").arg(&socket);
    benchmark.args(["-q", "-c", "50", "-P", "16", "-n", "20000", "-t", "set,get,lpush"]);
    let output = benchmark.output().expect("redis-benchmark runs");
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("LPUSH"), "{text}{errors}");
    assert_eq!(redis(&socket, "SET key value\r\n"), "+OK\r\n");
    assert_eq!(redis(&socket, "GET key\r\n"), "$5\r\nvalue\r\n");
    // The server forks to save: a child of a threaded program.
    assert_eq!(redis(&socket, "SAVE\r\n"), "+OK\r\n");
    assert!(redis(&socket, "BGSAVE\r\n").starts_with("+Background"));
    server.signal(Signal::TERM);
    server.end().good();
    folder.report()
}

/// One command, one answer.
fn redis(socket: &Path, command: &str) -> String {
    let mut stream = UnixStream::connect(socket).expect("a connection");
    stream.write_all(command.as_bytes()).expect("sent");
    let mut answer = [0; 256];
    let mut count = stream.read(&mut answer).expect("an answer");
    if answer[0] == b'$' && count < "$5\r\nvalue\r\n".len() {
        count += stream.read(&mut answer[count..]).expect("the rest");
    }
    String::from_utf8_lossy(&answer[..count]).into_owned()
}

#[test]
fn nginx_with_a_thread_pool() {
    if find("nginx").is_none() {
        skip!("nginx is not installed and could not be");
    }
    let version = std::process::Command::new("nginx").arg("-V").output();
    let version = version.map(|it| String::from_utf8_lossy(&it.stderr).into_owned());
    if !version.is_ok_and(|text| text.contains("--with-threads")) {
        skip!("this nginx was built without threads");
    }
    let observed = observed_and_tuned("nginx", nginx_load);
    assert_eq!(observed.created(), 8, "{}", observed.0);
}

fn nginx_load(folder: &Folder, flags: &[&str]) -> Report {
    let port = free_port();
    let root = folder.path("root");
    fs::create_dir_all(&root).expect("a folder");
    for file in 0..20_usize {
        let text = format!("file {file};").repeat(1 + file * 4000);
        fs::write(root.join(format!("{file}")), text).expect("a file");
    }
    fs::write(folder.path("nginx.conf"), nginx_conf(folder, port)).expect("a configuration");
    let mut command = folder.under(flags, "nginx");
    command.arg("-p").arg(folder.path("")).arg("-c").arg(folder.path("nginx.conf"));
    let mut server = folder.start(command);
    server.until("a connection", || connect(port).is_ok());
    thread::scope(|scope| {
        for client in 0..8 {
            scope.spawn(move || nginx_client(port, client));
        }
    });
    server.signal(Signal::QUIT);
    server.end().good();
    folder.report()
}

fn nginx_conf(folder: &Folder, port: u16) -> String {
    let at = |name: &str| folder.path(name).display().to_string();
    let user = if is_root() { "user root;" } else { "" };
    let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .iter()
        .map(|kind| format!("{kind}_temp_path {};\n", at(kind)))
        .collect();
    format!(
        "daemon off; {user} worker_processes 1; pid {};\n\
         error_log stderr;\n\
         thread_pool readers threads=8;\n\
         events {{ worker_connections 256; }}\n\
         http {{ access_log off; sendfile off; aio threads=readers;\n{temporary}\
         server {{ listen 127.0.0.1:{port}; root {}; }} }}\n",
        at("pid"),
        at("root")
    )
}

fn connect(port: u16) -> std::io::Result<TcpStream> {
    TcpStream::connect((Ipv4Addr::LOCALHOST, port))
}

fn nginx_client(port: u16, client: usize) {
    for round in 0..40 {
        let file = (client + round) % 20;
        let mut stream = connect(port).expect("a connection");
        write!(stream, "GET /{file} HTTP/1.0\r\n\r\n").expect("sent");
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).expect("an answer");
        let answer = String::from_utf8(answer).expect("text");
        assert!(answer.starts_with("HTTP/1.1 200 "), "{}", answer.lines().next().unwrap_or(""));
        let body = answer.split_once("\r\n\r\n").expect("a body").1;
        assert!(body == format!("file {file};").repeat(1 + file * 4000), "file {file} is not it");
    }
}

fn free_port() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("loopback");
    listener.local_addr().expect("an address").port()
}
