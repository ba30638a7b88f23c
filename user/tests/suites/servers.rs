//! Servers with threads of their own: every answer is what it has to be.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::thread;

use crate::common::drawn::many;
use crate::common::{TIME_LIMIT, ask, can_run, folder, free_port, output, serve, text};

const FILES: usize = 20;

fn content(file: usize) -> String {
    format!("file {file};").repeat(1 + file * 4000)
}

/// One process, so that its thread pool is not in a forked child.
fn nginx_conf(folder: &str, port: u16) -> String {
    let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .iter()
        .map(|kind| format!("{kind}_temp_path {folder}/{kind};\n"))
        .collect();
    format!(
        "daemon off; master_process off; pid {folder}/pid; error_log stderr;\n\
         thread_pool readers threads=8;\n\
         events {{ worker_connections 256; }}\n\
         http {{ access_log off; sendfile off; aio threads=readers;\n{temporary}\
         server {{ listen 127.0.0.1:{port}; root {folder}/root; }} }}\n"
    )
}

fn ask_nginx(port: u16, client: usize) {
    for round in 0..40 {
        let file = (client + round) % FILES;
        let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("a connection");
        stream.set_read_timeout(Some(TIME_LIMIT)).expect("a timeout");
        write!(stream, "GET /{file} HTTP/1.0\r\n\r\n").expect("sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        let (head, body) = answer.split_once("\r\n\r\n").expect("a body");
        assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
        assert!(body == content(file), "file {file} is not what was written");
    }
}

#[test]
fn nginx_serves_files_from_its_thread_pool() {
    if !can_run(&["nginx"]) {
        return;
    }
    let version = Command::new("nginx").arg("-V").output().expect("nginx");
    if !text(&version.stderr).contains("--with-threads") {
        return println!("skip: this nginx was built without threads");
    }
    let folder = folder("nginx");
    let place = folder.to_str().expect("a name");
    fs::create_dir_all(folder.join("root")).expect("a folder");
    for file in 0..FILES {
        fs::write(folder.join("root").join(file.to_string()), content(file)).expect("a file");
    }
    let conf = folder.join("nginx.conf");
    many("nginx", || {
        let port = free_port();
        fs::write(&conf, nginx_conf(place, port)).expect("a configuration");
        let server = serve(&["nginx", "-p", place, "-c", conf.to_str().expect("a name")], port);
        thread::scope(|scope| {
            for client in 0..8 {
                scope.spawn(move || ask_nginx(port, client));
            }
        });
        drop(server);
    });
    fs::remove_dir_all(folder).expect("ours");
}

#[test]
fn redis_holds_what_it_was_sent_beside_its_benchmark() {
    if can_run(&["redis-server", "redis-benchmark"]) {
        many("redis", redis_holds);
    }
}

/// What a client writes to its keys: as long as no buffer's size divides.
fn value(client: usize, key: usize, turn: usize) -> String {
    format!("{client}/{key}/{turn};").repeat(1 + (client + key * 37) % 997)
}

/// Writes values of its own in batches and reads each of them again, in one batch with what others
/// do to a set that all of them share.
fn ask_redis(port: u16, client: usize) {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("a connection");
    stream.set_read_timeout(Some(TIME_LIMIT)).expect("a timeout");
    for turn in 0..20 {
        let (mut text, mut answer) = (String::new(), String::new());
        for key in 0..16 {
            let (name, value) = (format!("own:{client}:{key}"), value(client, key, turn));
            let (name_bytes, bytes) = (name.len(), value.len());
            text += &format!("*3\r\n$3\r\nSET\r\n${name_bytes}\r\n{name}\r\n");
            text +=
                &format!("${bytes}\r\n{value}\r\nGET {name}\r\nSADD all {client}/{turn}/{key}\r\n");
            answer += &format!("+OK\r\n${bytes}\r\n{value}\r\n:1\r\n");
        }
        ask(&mut stream, &text, &answer);
    }
    // As they are at the end, whatever came between.
    for key in 0..16 {
        let value = value(client, key, 19);
        let answer = format!("${}\r\n{value}\r\n", value.len());
        ask(&mut stream, &format!("GET own:{client}:{key}\r\n"), &answer);
    }
}

fn redis_holds() {
    let (port, folder) = (free_port().to_string(), folder("redis-benchmark"));
    let place = folder.to_str().expect("a name");
    let words = ["redis-server", "--port", &port, "--bind", "127.0.0.1", "--save", "", "--dir"];
    let threads = ["--io-threads", "2", "--io-threads-do-reads", "yes"];
    let number = port.parse().expect("a number");
    let _server = serve(&[&words[..], &[place], &threads].concat(), number);
    let mut load = Command::new("redis-benchmark");
    load.args(["-p", &port, "-n", "3000", "-c", "50", "-P", "4", "-q", "-t", "set,incr"]);
    let load = thread::scope(|scope| {
        for client in 0..8 {
            scope.spawn(move || ask_redis(number, client));
        }
        output(load)
    });
    assert!(load.status.success(), "{}", text(&load.stderr));
    let mut stream = TcpStream::connect(("127.0.0.1", number)).expect("a connection");
    stream.set_read_timeout(Some(TIME_LIMIT)).expect("a timeout");
    ask(&mut stream, "GET counter:__rand_int__\r\n", "$4\r\n3000\r\n");
    ask(&mut stream, "SCARD all\r\n", ":2560\r\n");
    fs::remove_dir_all(folder).expect("ours");
}
