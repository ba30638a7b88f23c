//! `heddle run --threads user` with real programs: their output is what it is on kernel threads.
//!
//! The command and the library are built and put beside each other. A program that is not
//! installed is skipped with its name.
//!
//! Invariant: every program has a time limit, and none outlives the run.

mod common;

use std::fs;
use std::net::TcpStream;
use std::process::Command;

use common::{
    TIME_LIMIT, ask, built, can_run, folder, free_port, output, python, run, serve, text,
};

#[test]
fn threads_of_python_compute() {
    let Some(python) = python() else { return };
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
    let output = output(run(&[&python, "-c", script]));
    assert!(output.status.success(), "{output:?}");
    assert!(!text(&output.stderr).contains("kernel threads"), "{}", text(&output.stderr));
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

#[test]
fn a_mutex_that_the_kernel_hands_on_is_refused_to_threads() {
    if !can_run(&["cc"]) {
        return;
    }
    let folder = folder("inherits");
    let program = built(&folder, "inherits", &["-pthread"]);
    let output = output(run(&[program.to_str().expect("a name")]));
    let refused = libc::ENOTSUP;
    assert_eq!(text(&output.stdout), format!("{refused} {refused} {refused} 0 0\n"), "{output:?}");
    let said = text(&output.stderr);
    assert_eq!(said.matches("heddle: a mutex refused (ENOTSUP)").count(), 1, "{said}");
    fs::remove_dir_all(folder).expect("ours");
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
    let server = serve(
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
    drop(server);
    fs::remove_dir_all(folder).expect("ours");
}
