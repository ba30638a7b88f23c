//! The live page: who may see it, what it says, and that watching ends.

mod common;

use std::cell::{Cell, RefCell};
use std::io::{BufRead, BufReader, Read};
use std::time::Duration;

use common::Site;

#[test]
fn the_page_needs_nothing_from_elsewhere() {
    let site = Site::new();
    let page = ask(&site, "/heddle/", "localhost", "");
    assert_eq!(page.header("content-type"), Some("text/html; charset=utf-8"));
    assert!(page.header("content-security-policy").unwrap().contains("default-src 'none'"));
    let text = page.text();
    for needle in ["src=\"", "href=\"http", "@import", "url(", "fetch("] {
        assert!(!text.contains(needle), "{needle}");
    }
    assert_eq!(ask(&site, "/heddle", "localhost", "").header("location"), Some("/heddle/"));
    assert_eq!(ask(&site, "/heddle/other", "localhost", "").status, 404);
}

fn ask(site: &Site, path: &str, host: &str, lines: &str) -> common::Response {
    let mut client = site.client();
    client.send(format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n{lines}\r\n"));
    client.response()
}

#[test]
fn only_for_this_machine() {
    let site = Site::new();
    for host in ["localhost", "127.0.0.1:80", "[::1]"] {
        assert_eq!(ask(&site, "/heddle/now", host, "").status, 200, "{host}");
    }
    for path in ["/heddle/", "/heddle/now", "/heddle/events"] {
        assert_eq!(ask(&site, path, "evil.test", "").status, 403);
        assert_eq!(ask(&site, path, "localhost", "X-Forwarded-For: 10.0.0.1\r\n").status, 403);
        assert_eq!(ask(&site, path, "localhost", "Forwarded: for=10.0.0.1\r\n").status, 403);
    }
    let off = Site::with(|config| config.live = false);
    assert_eq!(ask(&off, "/heddle/", "localhost", "").status, 404);
}

#[test]
fn a_peer_from_elsewhere_is_refused() {
    let Some(address) = outside_address() else {
        println!("skip: this machine has no address but loopback");
        return;
    };
    let site = Site::with(|config| config.addr = std::net::IpAddr::from([0, 0, 0, 0]));
    site.file("a", "x");
    let mut client = common::Client::to((address, site.addr.port()).into());
    client.send("GET /heddle/ HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let answer = client.response();
    assert_eq!(answer.status, 403);
    assert!(answer.text().contains("clients on this machine"));
    client.send("GET /a HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert_eq!(client.response().text(), "x");
}

/// An address of this machine that is not loopback. Nothing is sent to find it.
fn outside_address() -> Option<std::net::IpAddr> {
    let socket = std::net::UdpSocket::bind("0.0.0.0:0").ok()?;
    socket.connect("192.0.2.1:9").ok()?;
    Some(socket.local_addr().ok()?.ip()).filter(|a| !a.is_loopback() && !a.is_unspecified())
}

#[test]
fn the_figures_count() {
    let site = Site::new();
    site.file("a", "hello");
    for _ in 0..5 {
        site.get("/a");
    }
    site.get("/missing");
    // An answer counts when it has been sent: the client may have it, and ask, a moment before.
    // Those of one connection are counted by the time that its next request is read.
    let client = RefCell::new(site.client());
    let asked = Cell::new(6);
    let now = RefCell::new(None);
    common::eventually("all answers are counted", || {
        let mut client = client.borrow_mut();
        client.send("GET /heddle/now HTTP/1.1\r\nHost: localhost\r\n\r\n");
        let response = client.response();
        let all = format!("\"requests\":{},", asked.replace(asked.get() + 1));
        let counted = response.text().contains(&all);
        now.replace(Some(response));
        counted
    });
    let now = now.take().unwrap();
    assert_eq!(now.header("content-type"), Some("application/json"));
    let text = now.text();
    for part in ["\"answers_4xx\":1,", "\"accepted\":7,", "\"latency_ns\":[["] {
        assert!(text.contains(part), "{part} in {text}");
    }
    assert!(text.contains("\"roles\":[") || text.contains("\"table_error\":"), "{text}");
    assert!(!text.contains('\n'));
}

#[test]
fn events_come_until_the_server_stops() {
    let mut site = Site::new();
    let mut client = site.client();
    client.send("GET /heddle/events HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let head = client.read_head();
    assert_eq!(head.header("content-type"), Some("text/event-stream"));
    assert_eq!(head.header("connection"), Some("close"));
    let early = std::io::Cursor::new(std::mem::take(&mut client.buffer));
    let mut lines = BufReader::new(early.chain(&client.stream));
    let mut events = 0;
    while events < 3 {
        let mut line = String::new();
        assert!(lines.read_line(&mut line).unwrap() > 0);
        events += usize::from(line.starts_with("data: {") && line.ends_with("}\n"));
    }
    let took = site.stop();
    assert!(took < Duration::from_secs(4), "{took:?}");
    let mut rest = String::new();
    lines.read_to_string(&mut rest).unwrap();
}

#[test]
fn events_end_when_the_client_leaves() {
    let mut site = Site::new();
    for _ in 0..3 {
        let mut client = site.client();
        client.send("GET /heddle/events HTTP/1.1\r\nHost: localhost\r\n\r\n");
        client.read_head();
    }
    // The figures themselves may be a second old.
    common::eventually("only who asks is connected", || {
        ask(&site, "/heddle/now", "localhost", "").text().contains("\"connections\":1,")
    });
    site.stop();
}
