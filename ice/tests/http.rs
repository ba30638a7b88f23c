//! HTTP as a client sees it: methods, versions, framing, persistence, pipelining, conditions.

mod common;

use common::{Site, pattern};

#[test]
fn a_file_with_all_its_headers() {
    let site = Site::new();
    site.file("a.html", "<p>hello");
    for _ in 0..3 {
        let answer = site.get("/a.html");
        assert_eq!(answer.status, 200);
        assert_eq!(answer.text(), "<p>hello");
        assert_eq!(answer.header("content-type"), Some("text/html; charset=utf-8"));
        assert_eq!(answer.header("accept-ranges"), Some("bytes"));
        assert_eq!(answer.header("last-modified").map(str::len), Some(29));
        assert_eq!(answer.header("connection"), None);
        assert_eq!(answer.header("vary"), None);
        let etag = answer.header("etag").unwrap();
        assert!(etag.starts_with('"') && etag.ends_with('"') && etag.len() > 8, "{etag}");
    }
}

#[test]
fn content_types() {
    let site = Site::new();
    let cases = [
        ("a.css", "text/css; charset=utf-8"),
        ("a.js", "text/javascript; charset=utf-8"),
        ("a.json", "application/json"),
        ("a.png", "image/png"),
        ("a.SVG", "image/svg+xml"),
        ("a.txt", "text/plain; charset=utf-8"),
        ("a.wasm", "application/wasm"),
        ("a.tar.gz", "application/gzip"),
        ("README", "application/octet-stream"),
        ("dir.html/x", "application/octet-stream"),
    ];
    for (name, kind) in cases {
        site.file(name, "x");
        assert_eq!(site.get(&format!("/{name}")).header("content-type"), Some(kind), "{name}");
    }
}

#[test]
fn files_of_all_sizes_arrive_whole() {
    let site = Site::new();
    let sizes = [0, 1, 2, 1023, 4096, 65535, 65536, 65537, 131_072, 131_073, 3_000_000];
    for size in sizes {
        site.file(&format!("{size}"), pattern(size));
    }
    let mut client = site.client();
    for round in 0..3 {
        for size in sizes {
            client.send(format!("GET /{size} HTTP/1.1\r\nHost: h\r\n\r\n"));
            let answer = client.response();
            assert_eq!(answer.status, 200);
            assert!(answer.body == pattern(size), "{size} bytes, round {round}");
        }
    }
}

#[test]
fn head_is_get_without_the_body() {
    let site = Site::new();
    site.file("small", "12345").file("large", pattern(200_000));
    let mut client = site.client();
    for path in ["/small", "/large", "/missing"] {
        client.send(format!("GET {path} HTTP/1.1\r\nHost: h\r\n\r\n"));
        let get = client.response();
        client.send(format!("HEAD {path} HTTP/1.1\r\nHost: h\r\n\r\n"));
        let head = client.head_response();
        assert_eq!(get.status, head.status);
        let without_date = |r: &common::Response| {
            r.headers.iter().filter(|(n, _)| n != "date").cloned().collect::<Vec<_>>()
        };
        assert_eq!(without_date(&get), without_date(&head));
    }
    client.send("GET /small HTTP/1.1\r\nHost: h\r\n\r\n");
    assert_eq!(client.response().text(), "12345");
}

#[test]
fn methods() {
    let site = Site::new();
    site.file("a", "x");
    let mut client = site.client();
    for method in ["POST", "PUT", "DELETE", "PATCH", "TRACE"] {
        client.send(format!("{method} /a HTTP/1.1\r\nHost: h\r\n\r\n"));
        let answer = client.response();
        assert_eq!(answer.status, 405, "{method}");
        assert_eq!(answer.header("allow"), Some("GET, HEAD, OPTIONS"));
    }
    client.send("CONNECT h:80 HTTP/1.1\r\nHost: h:80\r\n\r\n");
    assert_eq!(client.response().status, 405);
    for target in ["/a", "*"] {
        client.send(format!("OPTIONS {target} HTTP/1.1\r\nHost: h\r\n\r\n"));
        let answer = client.response();
        assert_eq!((answer.status, answer.header("allow")), (204, Some("GET, HEAD, OPTIONS")));
        assert_eq!(answer.header("content-length"), None);
    }
    for method in ["BREW", "get", "GETS", "PROPFIND"] {
        client.send(format!("{method} /a HTTP/1.1\r\nHost: h\r\n\r\n"));
        assert_eq!(client.response().status, 501, "{method}");
    }
}

#[test]
fn malformed_requests_end_the_connection() {
    let site = Site::new();
    site.file("a", "x");
    let host = "Host: h\r\n";
    for (status, request) in [
        (400, "\0\r\n\r\n".to_owned()),
        (400, "GET\r\n\r\n".into()),
        (400, "GET /a\r\n\r\n".into()),
        (400, format!("GET  /a HTTP/1.1\r\n{host}\r\n")),
        (400, format!("GET /a  HTTP/1.1\r\n{host}\r\n")),
        (400, format!("GET /a b HTTP/1.1\r\n{host}\r\n")),
        (400, format!("GET a HTTP/1.1\r\n{host}\r\n")),
        (400, "GET /a HTTP/1.1\r\n\r\n".into()),
        (400, format!("GET /a HTTP/1.1\r\n{host}{host}\r\n")),
        (400, "GET /a HTTP/1.1\r\nHost: h/x\r\n\r\n".into()),
        (400, format!("GET /a HTTP/1.1\r\n{host}X : y\r\n\r\n")),
        (400, format!("GET /a HTTP/1.1\r\n{host}X: y\r\n z\r\n\r\n")),
        (400, format!("GET /a HTTP/1.1\r\n{host}X: \0\r\n\r\n")),
        (400, format!("GET /a HTTP/1.1\r\n{host}X\r\n\r\n")),
        (400, format!("GET /a HTTP/1.1\r\n{host}: y\r\n\r\n")),
        (400, format!("GET /a HTTP/11\r\n{host}\r\n")),
        (505, format!("GET /a HTTP/2.0\r\n{host}\r\n")),
        (505, format!("GET /a HTTP/0.9\r\n{host}\r\n")),
        (505, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".into()),
        (400, format!("GET ftp://h/a HTTP/1.1\r\n{host}\r\n")),
        (400, format!("GET http:///a HTTP/1.1\r\n{host}\r\n")),
        (400, "\x16\x03\x01\x02\x00\x01\x00\x01\u{fc}\x03\x03".into()),
    ] {
        assert_eq!(site.refused(&request), status, "{request:?}");
    }
}

#[test]
fn requests_cannot_be_smuggled() {
    let site = Site::new();
    site.file("a", "x").file("b", "y");
    for framing in [
        "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
        "Content-Length: 5\r\nContent-Length: 6\r\n",
        "Content-Length: 5\r\nContent-Length: 5\r\n",
        "Content-Length: 5, 5\r\n",
        "Content-Length: +5\r\n",
        "Content-Length: -5\r\n",
        "Content-Length: 5 5\r\n",
        "Content-Length: 0x5\r\n",
        "Content-Length: 18446744073709551616\r\n",
        "Content-Length : 5\r\n",
        "Content-Length:\r\n 5\r\n",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n",
        "Transfer-Encoding : chunked\r\n",
    ] {
        let smuggled = "0\r\n\r\nGET /b HTTP/1.1\r\nHost: h\r\n\r\n";
        let request = format!("GET /a HTTP/1.1\r\nHost: h\r\n{framing}\r\n{smuggled}");
        assert_eq!(site.refused(&request), 400, "{framing:?}");
    }
    for coding in ["gzip", "gzip, chunked", "chunked, gzip", "xchunked", "identity", "chunked,"] {
        let request = format!("GET /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: {coding}\r\n\r\n");
        assert_eq!(site.refused(&request), 501, "{coding:?}");
    }
    let request = "GET /a HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n";
    assert_eq!(site.refused(request), 400);
}

#[test]
fn bodies_are_dropped_and_the_next_request_is_found() {
    let site = Site::new();
    site.file("a", "x").file("b", "y");
    let next = "GET /b HTTP/1.1\r\nHost: h\r\n\r\n";
    for (line, body) in [
        ("Content-Length: 5", "GET /"),
        ("Content-Length: 0", ""),
        ("Transfer-Encoding: chunked", "5\r\nGET /\r\n1;x=y\r\na\r\n0\r\nT: u\r\n\r\n"),
        ("Transfer-Encoding: Chunked", "0\r\n\r\n"),
    ] {
        for split in [0, 1, body.len() / 2, body.len()] {
            let mut client = site.client();
            let (first, second) = body.split_at(split.min(body.len()));
            client.send(format!("GET /a HTTP/1.1\r\nHost: h\r\n{line}\r\n\r\n{first}"));
            std::thread::sleep(std::time::Duration::from_millis(2));
            client.send(format!("{second}{next}"));
            assert_eq!(client.response().text(), "x", "{line}");
            assert_eq!(client.response().text(), "y", "{line}");
        }
    }
    let mut client = site.client();
    client.send("POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\nbody");
    assert_eq!(client.response().status, 405);
    client.send(next);
    assert_eq!(client.response().text(), "y");
}

#[test]
fn bodies_that_are_too_long_or_malformed() {
    let site = Site::with(|config| config.max_body_bytes = 1000);
    site.file("a", "x");
    let with =
        |fields: &str, body: &str| format!("GET /a HTTP/1.1\r\nHost: h\r\n{fields}\r\n\r\n{body}");
    let filler = "z".repeat(2000);
    assert_eq!(site.refused(with("Content-Length: 1001", &filler)), 413);
    assert_eq!(site.refused(with("Content-Length: 9999999999999", "")), 413);
    assert_eq!(site.refused(with("Transfer-Encoding: chunked", "3e9\r\n")), 413);
    assert_eq!(site.refused(with("Transfer-Encoding: chunked", "1\r\nab\r\n")), 400);
    assert_eq!(site.refused(with("Transfer-Encoding: chunked", "zz\r\n")), 400);
    assert_eq!(site.refused(with("Transfer-Encoding: chunked", "1\na\n0\n\n")), 400);
}

#[test]
fn expectations() {
    let site = Site::new();
    site.file("a", "x");
    let mut client = site.client();
    let expect = "Host: h\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n";
    client.send(format!("GET /a HTTP/1.1\r\n{expect}"));
    assert_eq!(client.response().status, 100);
    client.send("ok");
    assert_eq!(client.response().text(), "x");
    client.send("GET /a HTTP/1.1\r\nHost: h\r\nExpect: miracles\r\n\r\n");
    assert_eq!(client.response().status, 417);
    let mut old = site.client();
    old.send(format!("GET /a HTTP/1.0\r\n{expect}ok"));
    assert_eq!((old.response().text(), old.ended()), ("x", true));
    client.send(format!("POST /a HTTP/1.1\r\n{expect}"));
    assert_eq!(client.response().status, 405);
    assert!(client.ended());
}

#[test]
fn limits_of_a_head() {
    let site = Site::with(|config| {
        config.max_target_bytes = 1000;
        config.max_head_bytes = 4000;
        config.max_fields = 30;
    });
    site.file("a", "x");
    let long = "b".repeat(1001);
    assert_eq!(site.refused(format!("GET /{long} HTTP/1.1\r\nHost: h\r\n\r\n")), 414);
    assert_eq!(site.refused(format!("GET /{}", "b".repeat(20_000))), 414);
    let large = "c".repeat(4000);
    assert_eq!(site.refused(format!("GET /a HTTP/1.1\r\nHost: h\r\nX: {large}\r\n\r\n")), 431);
    assert_eq!(site.refused(format!("GET /a HTTP/1.1\r\nHost: h\r\nX: {large}")), 431);
    let many = "X: y\r\n".repeat(30);
    assert_eq!(site.refused(format!("GET /a HTTP/1.1\r\nHost: h\r\n{many}\r\n")), 431);
    let fits = "X: y\r\n".repeat(29);
    assert_eq!(site.get_with("/a", &fits).text(), "x");
    let query = "q".repeat(990);
    assert_eq!(site.get(&format!("/a?{query}")).text(), "x");
}

#[test]
fn old_clients() {
    let site = Site::new();
    site.file("a", "x").file("large", pattern(100_000));
    for path in ["/a", "/a", "/large"] {
        let mut client = site.client();
        client.send(format!("GET {path} HTTP/1.0\r\n\r\n"));
        let answer = client.response();
        assert_eq!((answer.status, answer.header("connection")), (200, Some("close")));
        assert!(client.ended());
    }
    let mut client = site.client();
    for path in ["/a", "/large", "/a"] {
        client.send(format!("GET {path} HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"));
        let answer = client.response();
        assert_eq!((answer.status, answer.header("connection")), (200, Some("keep-alive")));
    }
}

#[test]
fn close_means_close() {
    let site = Site::new();
    site.file("a", "x");
    for _ in 0..2 {
        let mut client = site.client();
        client.send("GET /a HTTP/1.1\r\nHost: h\r\nConnection: foo, close\r\n\r\n");
        assert_eq!(client.response().header("connection"), Some("close"));
        assert!(client.ended());
    }
}

#[test]
fn absolute_targets() {
    let site = Site::new();
    site.file("a", "x").file("index.html", "i");
    let mut client = site.client();
    client.send("GET http://other:80/a?q HTTP/1.1\r\nHost: h\r\n\r\n");
    assert_eq!(client.response().text(), "x");
    client.send("GET HTTPS://other HTTP/1.1\r\nHost: h\r\n\r\n");
    assert_eq!(client.response().text(), "i");
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let site = Site::new();
    for n in 0..10 {
        site.file(&format!("{n}"), format!("content {n}"));
    }
    site.file("large", pattern(300_000));
    let mut client = site.client();
    let mut all = String::new();
    let plan: Vec<usize> = (0..400).map(|n| n * 7 % 12).collect();
    for n in &plan {
        all += &match n {
            10 => "GET /missing HTTP/1.1\r\nHost: h\r\n\r\n".to_owned(),
            11 => "GET /large HTTP/1.1\r\nHost: h\r\nRange: bytes=1-70000\r\n\r\n".to_owned(),
            n => format!("GET /{n} HTTP/1.1\r\nHost: h\r\n\r\n"),
        };
    }
    // From another thread: the answers are longer than what sockets hold.
    let mut writer = client.stream.try_clone().unwrap();
    let sender = std::thread::spawn(move || std::io::Write::write_all(&mut writer, all.as_bytes()));
    for n in plan {
        let answer = client.response();
        match n {
            10 => assert_eq!(answer.status, 404),
            11 => assert!(answer.body == pattern(300_000)[1..=70_000]),
            n => assert_eq!(answer.text(), format!("content {n}")),
        }
    }
    sender.join().unwrap().unwrap();
}

#[test]
fn a_pipeline_ends_with_its_first_close() {
    let site = Site::new();
    site.file("a", "x");
    let mut client = site.client();
    client.send(
        "GET /a HTTP/1.1\r\nHost: h\r\n\r\n\
         GET /a HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n\
         GET /a HTTP/1.1\r\nHost: h\r\n\r\n",
    );
    assert_eq!(client.response().header("connection"), None);
    assert_eq!(client.response().header("connection"), Some("close"));
    assert!(client.ended(), "a third answer, or a reset");
}

#[test]
fn a_request_in_pieces() {
    let site = Site::new();
    site.file("a", "x");
    let mut client = site.client();
    let request = "\r\nGET /a HTTP/1.1\r\nHost: h\r\n\r\n";
    for byte in request.as_bytes() {
        client.send([*byte]);
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    assert_eq!(client.response().text(), "x");
    let long = format!("GET /a HTTP/1.1\r\nHost: h\r\nX: {}\r\n\r\n", "y".repeat(9000));
    client.send(&long[..1024]);
    std::thread::sleep(std::time::Duration::from_millis(20));
    client.send(&long[1024..]);
    assert_eq!(client.response().text(), "x");
    client.send(&request[..20]);
    client.half_close();
    assert!(client.ended());
}

#[test]
fn conditions() {
    let site = Site::new();
    site.file("a", "x");
    let first = site.get("/a");
    let etag = first.header("etag").unwrap().to_owned();
    let modified = first.header("last-modified").unwrap().to_owned();
    for line in [
        format!("If-None-Match: {etag}\r\n"),
        format!("If-None-Match: W/{etag}\r\n"),
        format!("If-None-Match: \"zzz\", {etag}\r\n"),
        "If-None-Match: *\r\n".to_owned(),
        format!("If-Modified-Since: {modified}\r\n"),
        format!("If-None-Match: {etag}\r\nIf-Modified-Since: Thu, 01 Jan 1970 00:00:01 GMT\r\n"),
        format!("If-None-Match: {etag}\r\nRange: bytes=0-0\r\n"),
    ] {
        let answer = site.get_with("/a", &line);
        assert_eq!(answer.status, 304, "{line}");
        assert_eq!(answer.header("etag"), Some(etag.as_str()));
        assert_eq!(answer.header("content-length"), None);
    }
    for line in [
        "If-None-Match: \"zzz\"\r\n".to_owned(),
        format!("If-None-Match: \"zzz\"\r\nIf-Modified-Since: {modified}\r\n"),
        "If-Modified-Since: Thu, 01 Jan 1970 00:00:01 GMT\r\n".to_owned(),
        "If-Modified-Since: garbage\r\n".to_owned(),
        format!("If-Match: {etag}\r\n"),
    ] {
        assert_eq!(site.get_with("/a", &line).status, 200, "{line}");
    }
    assert_eq!(site.get_with("/a", "If-Match: \"zzz\"\r\n").status, 412);
    let line = "If-Unmodified-Since: Thu, 01 Jan 1970 00:00:01 GMT\r\n";
    assert_eq!(site.get_with("/a", line).status, 412);
}

#[test]
fn connections_survive_304_and_404() {
    let site = Site::new();
    site.file("a", "x");
    let mut client = site.client();
    for _ in 0..3 {
        client.send("GET /a HTTP/1.1\r\nHost: h\r\nIf-None-Match: *\r\n\r\n");
        assert_eq!(client.response().status, 304);
        client.send("GET /nothing HTTP/1.1\r\nHost: h\r\n\r\n");
        assert_eq!(client.response().status, 404);
        client.send("GET /a HTTP/1.1\r\nHost: h\r\n\r\n");
        assert_eq!(client.response().text(), "x");
    }
}
