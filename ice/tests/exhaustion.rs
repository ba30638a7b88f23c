//! No more descriptors: a client hears why, and the server goes on.
//!
//! Alone in its file, because the limit is that of the process.

mod common;

use std::fs::File;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use common::{Site, eventually};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

const LIMIT: u64 = 200;

/// Takes all descriptors but so many.
fn take_all_but(left: usize) -> Vec<File> {
    let mut taken = Vec::new();
    while let Ok(file) = File::open("/dev/null") {
        taken.push(file);
    }
    taken.truncate(taken.len() - left);
    taken
}

#[test]
fn a_client_beyond_the_descriptors_hears_503() {
    let limit = Rlimit { current: Some(LIMIT), maximum: Some(LIMIT) };
    if getrlimit(Resource::Nofile).maximum.is_some_and(|m| m < LIMIT) {
        println!("skip: the limit on open files is below {LIMIT}");
        return;
    }
    setrlimit(Resource::Nofile, limit).unwrap();
    let site = Site::new();
    site.file("a", "x");
    let mut before = site.client();
    before.send("GET /a HTTP/1.1\r\nHost: h\r\n\r\n");
    assert_eq!(before.response().text(), "x");

    let taken = take_all_but(1);
    let mut refused = TcpStream::connect(site.addr).unwrap();
    refused.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let mut answer = Vec::new();
    // Closing with the request unread may reset the connection, but only after the answer.
    let _ = refused.write_all(b"GET /a HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
    let _ = refused.read_to_end(&mut answer);
    // A kernel thread in accept has taken its descriptor before it waits: this client gets in,
    // and whether there is a descriptor for its file is a matter of luck.
    let native = std::env::var("HEDDLE_BACKEND").is_ok_and(|b| b == "native");
    let answer = String::from_utf8_lossy(&answer);
    let lucky = native && answer.starts_with("HTTP/1.1 200 ");
    assert!(answer.starts_with("HTTP/1.1 503 ") || lucky, "{answer}");
    before.send("GET /a HTTP/1.1\r\nHost: h\r\n\r\n");
    assert_eq!(before.response().text(), "x");
    // Whether there is such a file, nobody can tell just now.
    before.send("GET /b HTTP/1.1\r\nHost: h\r\n\r\n");
    let status = before.response().status;
    assert!(status == 503 || (native && status == 404), "{status}");

    drop(taken);
    before.send("GET /b HTTP/1.1\r\nHost: h\r\n\r\n");
    assert_eq!(before.response().status, 404);
    eventually("room again", || {
        let mut client = site.client();
        client.send("GET /a HTTP/1.1\r\nHost: h\r\n\r\n");
        client.response().status == 200
    });
}
