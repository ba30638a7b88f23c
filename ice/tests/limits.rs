//! Limits in time and number: slow clients, too many clients, shutdown, exhaustion.

mod common;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use common::{Client, Site, eventually, pattern};

const SHORT: Duration = Duration::from_millis(300);
/// Less than what the limits are by default, or than what the other side takes.
const SOON: Duration = Duration::from_secs(9);

#[test]
fn a_head_that_never_ends_gets_408() {
    let site = Site::with(|config| config.head_timeout = SHORT);
    site.file("a", "x");
    let start = Instant::now();
    assert_eq!(site.refused("GET /a HTTP/1.1\r\nHost:"), 408);
    assert!(start.elapsed() >= SHORT / 2 && start.elapsed() < SOON);
}

#[test]
fn a_client_that_trickles_gets_408_all_the_same() {
    let site = Site::with(|config| config.head_timeout = SHORT);
    site.file("a", "x");
    let mut client = site.client();
    let mut writer = client.stream.try_clone().unwrap();
    let trickle = std::thread::spawn(move || {
        let text = "GET /a HTTP/1.1\r\nHost: h\r\n".to_owned() + &"X: y\r\n".repeat(50);
        for byte in text.as_bytes().iter().cycle().take(2000) {
            if writer.write_all(&[*byte]).is_err() {
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    });
    let start = Instant::now();
    assert_eq!(client.response().status, 408);
    assert!(start.elapsed() < SOON, "{:?}", start.elapsed());
    drop(client);
    trickle.join().unwrap();
}

#[test]
fn slow_clients_do_not_slow_others() {
    let site = Site::with(|config| config.head_timeout = Duration::from_secs(30));
    site.file("a", "x");
    let slow: Vec<Client> = (0..200)
        .map(|_| {
            let mut client = site.client();
            client.send("GET /a HTTP/1.1\r\n");
            client
        })
        .collect();
    let start = Instant::now();
    for _ in 0..20 {
        assert_eq!(site.get("/a").text(), "x");
    }
    assert!(start.elapsed() < SOON, "{:?}", start.elapsed());
    drop(slow);
}

#[test]
fn a_body_that_never_ends_gets_408() {
    let site = Site::with(|config| config.head_timeout = SHORT);
    site.file("a", "x");
    let request = "GET /a HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\n123";
    assert_eq!(site.refused(request), 408);
}

#[test]
fn an_idle_connection_is_closed_without_a_word() {
    // Longer than the client takes for its request, on a busy machine too.
    const IDLE: Duration = Duration::from_secs(2);
    let site = Site::with(|config| config.idle_timeout = IDLE);
    site.file("a", "x");
    let mut client = site.client();
    client.send("GET /a HTTP/1.1\r\nHost: h\r\n\r\n");
    assert_eq!(client.response().text(), "x");
    let start = Instant::now();
    assert!(client.ended());
    assert!(start.elapsed() >= IDLE / 2 && start.elapsed() < SOON);
}

#[test]
fn a_client_that_does_not_read_is_dropped() {
    let site = Site::with(|config| config.send_timeout = SHORT);
    site.file("f", pattern(24_000_000));
    let is_dropped_after = |seconds| {
        let mut client = site.client();
        client.send("GET /f HTTP/1.1\r\nHost: h\r\n\r\n");
        std::thread::sleep(Duration::from_secs(seconds));
        let mut rest = Vec::new();
        let _ = client.stream.read_to_end(&mut rest);
        rest.len() < 24_000_000
    };
    // On a busy machine the server may still be on its way into the wait after a second.
    assert!([1, 4, 16].into_iter().any(is_dropped_after), "all of it arrived");
}

#[test]
fn a_slow_reader_that_goes_on_gets_everything() {
    let site = Site::with(|config| config.send_timeout = Duration::from_secs(3));
    let all = pattern(20_000_000);
    site.file("f", &all);
    let mut client = site.client();
    client.send("GET /f HTTP/1.1\r\nHost: h\r\n\r\n");
    client.read_head();
    let mut got = std::mem::take(&mut client.buffer);
    let mut buf = vec![0; 1 << 20];
    while got.len() < all.len() {
        std::thread::sleep(Duration::from_millis(200));
        let step = buf.len().min(all.len() - got.len());
        client.stream.read_exact(&mut buf[..step]).unwrap();
        got.extend_from_slice(&buf[..step]);
    }
    assert!(got == all);
}

#[test]
fn too_many_clients_hear_503_and_then_others_get_in() {
    let site = Site::with(|config| config.max_connections = 3);
    site.file("a", "x");
    let mut inside: Vec<Client> = (0..3).map(|_| site.client()).collect();
    for client in &mut inside {
        client.send("GET /a HTTP/1.1\r\nHost: h\r\n\r\n");
        assert_eq!(client.response().text(), "x");
    }
    for _ in 0..100 {
        let mut text = String::new();
        let mut outside = TcpStream::connect(site.addr).unwrap();
        // It may be closed already; the answer must be there all the same.
        let _ = outside.write_all(b"GET /a HTTP/1.1\r\nHost: h\r\n\r\n");
        outside.read_to_string(&mut text).unwrap();
        assert!(text.starts_with("HTTP/1.1 503 Service Unavailable\r\n"), "{text:?}");
        assert!(text.contains("Retry-After: 1\r\n") && text.contains("Connection: close\r\n"));
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(&format!("Content-Length: {}", body.len())), "{text:?}");
    }
    inside[0].send("GET /a HTTP/1.1\r\nHost: h\r\n\r\n");
    assert_eq!(inside[0].response().text(), "x");
    drop(inside);
    eventually("a place becomes free", || {
        let mut outside = site.client();
        let _ = outside.stream.write_all(b"GET /a HTTP/1.1\r\nHost: h\r\n\r\n");
        let mut byte = [0; 12];
        outside.stream.read_exact(&mut byte).is_ok() && &byte == b"HTTP/1.1 200"
    });
}

#[test]
fn many_connections_come_and_go() {
    let site = Site::new();
    site.file("a", "x");
    for _ in 0..5 {
        let mut clients: Vec<Client> = (0..100).map(|_| site.client()).collect();
        for client in &mut clients {
            client.send("GET /a HTTP/1.1\r\nHost: h\r\n\r\n");
        }
        for client in &mut clients {
            assert_eq!(client.response().text(), "x");
        }
    }
}

#[test]
fn shutdown_lets_a_download_finish() {
    let mut site = Site::with(|config| config.grace = Duration::from_secs(15));
    let all = pattern(24_000_000);
    site.file("f", &all).file("a", "x");
    let mut idle = site.client();
    idle.send("GET /a HTTP/1.1\r\nHost: h\r\n\r\n");
    assert_eq!(idle.response().text(), "x");
    let mut client = site.client();
    client.send("GET /f HTTP/1.1\r\nHost: h\r\n\r\n");
    client.read_head();
    site.handle.shutdown();
    assert!(idle.ended(), "an idle connection outlives the shutdown");
    eventually("nothing is accepted", || TcpStream::connect(site.addr).is_err());
    assert!(site.running());
    let mut rest = Vec::new();
    std::thread::sleep(Duration::from_millis(200));
    client.stream.read_to_end(&mut rest).unwrap();
    client.buffer.extend_from_slice(&rest);
    assert!(client.buffer == all, "{} bytes", client.buffer.len());
    site.stop();
}

#[test]
fn shutdown_says_close_to_requests_in_progress() {
    // What a connection is closed without that has not sent anything yet, as far as the server
    // knows: on a busy machine it may not have looked within the time.
    let is_answered_after = |time| {
        let mut site = Site::new();
        site.file("a", "x");
        let mut client = site.client();
        client.send("GET /a HTTP/1.1\r\n");
        std::thread::sleep(time);
        site.handle.shutdown();
        std::thread::sleep(time);
        let mut answer = String::new();
        let is_sent = client.stream.write_all(b"Host: h\r\n\r\n").is_ok();
        let _ = client.stream.read_to_string(&mut answer);
        site.stop();
        is_sent && {
            let (head, text) = answer.split_once("\r\n\r\n").unwrap_or_default();
            text == "x" && head.to_lowercase().contains("connection: close")
        }
    };
    assert!([100, 1000, 4000].map(Duration::from_millis).into_iter().any(is_answered_after));
}

#[test]
fn shutdown_does_not_wait_beyond_the_grace_time() {
    let mut site = Site::with(|config| config.grace = SHORT);
    site.file("f", pattern(24_000_000));
    let mut client = site.client();
    client.send("GET /f HTTP/1.1\r\nHost: h\r\n\r\n");
    client.read_head();
    let took = site.stop();
    assert!(took >= SHORT && took < 2 * SOON, "{took:?}");
}

#[test]
fn shutdown_without_clients_is_immediate() {
    let mut site = Site::new();
    let took = site.stop();
    // Less than the time of grace.
    assert!(took < Duration::from_secs(4), "{took:?}");
    site.handle.shutdown();
}

#[test]
fn what_cannot_start_says_why() {
    use heddle_ice::{Config, Server};
    let missing = Server::bind(Config::new("/nonexistent/folder")).unwrap_err().to_string();
    assert!(
        missing.contains("/nonexistent/folder") && missing.contains("No such file"),
        "{missing}"
    );
    let site = Site::new();
    let mut config = Config::new(&site.dir);
    config.port = site.addr.port();
    let taken = Server::bind(config).unwrap_err().to_string();
    assert!(taken.contains("in use") && taken.contains(&site.addr.to_string()), "{taken}");
    let mut config = Config::new(site.file("file", "x").dir.join("file"));
    config.port = 0;
    assert!(Server::bind(config).is_err());
}
