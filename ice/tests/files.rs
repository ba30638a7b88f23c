//! Paths, folders, symlinks, siblings, ranges: what of the disk is served, and what is not.

mod common;

use std::os::unix::fs::{PermissionsExt, symlink};
use std::time::{Duration, Instant};

use common::{Site, eventually, pattern};

#[test]
fn index_and_redirect() {
    let site = Site::new();
    site.file("index.html", "root").file("d/index.html", "d").file("a b/index.html", "ab");
    assert_eq!(site.get("/").text(), "root");
    assert_eq!(site.get("/?x").text(), "root");
    assert_eq!(site.get("/d/").text(), "d");
    let answer = site.get("/d?x=y");
    assert_eq!((answer.status, answer.header("location")), (301, Some("/d/?x=y")));
    let answer = site.get("/a%20b");
    assert_eq!((answer.status, answer.header("location")), (301, Some("/a%20b/")));
    assert_eq!(site.get("/d/index.html/").status, 404);
}

#[test]
fn a_redirect_stays_on_the_site() {
    let site = Site::new();
    site.file("evil.test/index.html", "x");
    for path in
        ["//evil.test", "///evil.test", "/.//evil.test", "/%2Fevil.test", "/x/..//evil.test"]
    {
        let answer = site.get(path);
        assert_eq!(
            (answer.status, answer.header("location")),
            (301, Some("/evil.test/")),
            "{path}"
        );
    }
}

#[test]
fn listings() {
    let site = Site::with(|config| config.listing = true);
    site.file("d/<b>.txt", "x")
        .file("d/sub/y", "y")
        .file("d/.hidden", "z")
        .file("e/index.html", "e");
    let page = site.get("/d/");
    assert_eq!(page.header("content-type"), Some("text/html; charset=utf-8"));
    let text = page.text();
    assert!(text.contains("href=\"./%3Cb%3E.txt\"") && text.contains("&lt;b&gt;.txt"), "{text}");
    assert!(text.contains("href=\"./sub/\"") && text.contains("href=\"../\""), "{text}");
    assert!(!text.contains("hidden") && !text.contains("<b>"), "{text}");
    assert_eq!(site.get("/e/").text(), "e");
    assert_eq!(site.get("/d/%3Cb%3E.txt").text(), "x");
    let closed = Site::new();
    closed.file("d/a", "x");
    assert_eq!(closed.get("/d/").status, 403);
    assert_eq!(closed.get("/").status, 403);
}

#[test]
fn paths_with_tricks() {
    let site = Site::new();
    site.file("a", "x").file("d/b", "y").file("%2e", "literal").file("caf\u{e9}", "z");
    for (path, text) in [
        ("/%61", "x"),
        ("/./a", "x"),
        ("/d/../a", "x"),
        ("//a", "x"),
        ("/d//b", "y"),
        ("/d%2Fb", "y"),
        ("/%64/%62", "y"),
        ("/%252e", "literal"),
        ("/caf%C3%A9", "z"),
        ("/a?/../../secret", "x"),
    ] {
        assert_eq!(site.get(path).text(), text, "{path}");
    }
    for path in [
        "/..",
        "/../secret",
        "/%2e%2e/secret",
        "/%2E%2e%2fsecret",
        "/d/../../secret",
        "/d/..%2F..%2Fsecret",
        "/a%00.html",
        "/%00",
        "/%",
        "/%2",
        "/%g1",
        "/a%2",
        "/a#b",
    ] {
        let answer = site.get(path);
        assert_eq!(answer.status, 400, "{path}");
        assert!(!answer.text().contains("SECRET"));
    }
    for path in
        ["/..%5csecret", "/...", "/....//secret", "/a/", "/a/b", "/%252e%252e/secret", "/\\"]
    {
        assert_eq!(site.get(path).status, 404, "{path}");
    }
    let name = "n".repeat(300);
    assert_eq!(site.get(&format!("/{name}")).status, 404);
    let deep = "/x".repeat(2500);
    assert_eq!(site.get(&deep).status, 404);
}

#[test]
fn symlinks_do_not_lead_out() {
    let site = Site::new();
    site.file("d/a", "x");
    symlink("../secret", site.dir.join("relative")).unwrap();
    symlink(site.dir.parent().unwrap().join("secret"), site.dir.join("absolute")).unwrap();
    symlink("..", site.dir.join("up")).unwrap();
    symlink("/", site.dir.join("slash")).unwrap();
    symlink("/proc/self/root", site.dir.join("magic")).unwrap();
    symlink("loop", site.dir.join("loop")).unwrap();
    let secret = site.dir.parent().unwrap().join("secret");
    symlink(&secret, site.dir.join("d/s.gz")).unwrap();
    site.file("d/s", "plain");
    for path in
        ["/relative", "/absolute", "/up/secret", "/slash/etc/passwd", "/magic/etc/passwd", "/loop"]
    {
        for _ in 0..2 {
            let answer = site.get(path);
            assert_eq!(answer.status, 403, "{path}");
            assert!(!answer.text().contains("SECRET"));
        }
    }
    assert_eq!(site.get_with("/d/s", "Accept-Encoding: gzip\r\n").text(), "plain");
}

#[test]
fn a_cached_file_does_not_become_a_way_out() {
    let site = Site::new();
    site.file("a", "x");
    assert_eq!(site.get("/a").text(), "x");
    std::fs::remove_file(site.dir.join("a")).unwrap();
    symlink("../secret", site.dir.join("a")).unwrap();
    eventually("refused", || {
        let answer = site.get("/a");
        assert!(!answer.text().contains("SECRET"));
        answer.status == 403
    });
}

#[test]
fn only_files_are_served() {
    let site = Site::new();
    let fifo = site.dir.join("fifo");
    let made = std::process::Command::new("mkfifo").arg(&fifo).status();
    if !made.is_ok_and(|s| s.success()) {
        println!("skip: no mkfifo here");
        return;
    }
    let _socket = std::os::unix::net::UnixListener::bind(site.dir.join("socket")).unwrap();
    for path in ["/fifo", "/socket"] {
        assert_eq!(site.get(path).status, 403, "{path}");
    }
}

#[test]
fn unreadable_files() {
    let site = Site::new();
    site.file("locked", "x");
    let mode = std::fs::Permissions::from_mode(0o000);
    std::fs::set_permissions(site.dir.join("locked"), mode).unwrap();
    if std::fs::File::open(site.dir.join("locked")).is_ok() {
        println!("skip: permissions do not bind this user");
        return;
    }
    assert_eq!(site.get("/locked").status, 403);
}

#[test]
fn changes_show_within_a_second() {
    let site = Site::new();
    site.file("a", "old").file("large", pattern(100_000));
    assert_eq!(site.get("/a").text(), "old");
    assert_eq!(site.get("/new").status, 404);
    assert_eq!(site.get("/large").body.len(), 100_000);
    let old = site.get("/a").header("etag").unwrap().to_owned();
    site.file("a", "new").file("new", "there").file("large", pattern(90_000));
    let start = Instant::now();
    eventually("new content", || {
        site.get("/a").text() == "new"
            && site.get("/new").status == 200
            && site.get("/large").body == pattern(90_000)
    });
    assert!(start.elapsed() < Duration::from_secs(9), "{:?}", start.elapsed());
    eventually("a new tag", || site.get("/a").header("etag") != Some(&old));
    std::fs::remove_file(site.dir.join("a")).unwrap();
    eventually("gone", || site.get("/a").status == 404);
}

#[test]
fn the_date_moves() {
    let site = Site::new();
    site.file("a", "x");
    let mut client = site.client();
    let mut dates = std::collections::BTreeSet::new();
    let start = Instant::now();
    while dates.len() < 3 && start.elapsed() < Duration::from_secs(20) {
        client.send("GET /a HTTP/1.1\r\nHost: h\r\n\r\n");
        dates.insert(client.response().header("date").unwrap().to_owned());
        std::thread::sleep(Duration::from_millis(20));
    }
    // One a second: no fewer than that, unless the machine was too busy to ask, and no more.
    let seconds = start.elapsed().as_secs_f64();
    assert!(dates.len() == 3 && seconds > 1.0, "{dates:?} in {seconds} s");
}

#[test]
fn precompressed_siblings() {
    let site = Site::new();
    site.file("a.js", "plain").file("a.js.gz", "GZ").file("a.js.br", "BROTLI").file("b.js", "b");
    let ask = |accept: &str| site.get_with("/a.js", &format!("Accept-Encoding: {accept}\r\n"));
    for (accept, coding, body) in [
        ("gzip", Some("gzip"), "GZ"),
        ("gzip, deflate, br, zstd", Some("br"), "BROTLI"),
        ("gzip;q=1, br;q=0.9", Some("gzip"), "GZ"),
        ("br;q=0, *;q=0.1", Some("gzip"), "GZ"),
        ("zstd", None, "plain"),
        ("gzip;q=0", None, "plain"),
        ("identity", None, "plain"),
        ("", None, "plain"),
    ] {
        for _ in 0..2 {
            let answer = ask(accept);
            assert_eq!(answer.text(), body, "{accept}");
            assert_eq!(answer.header("content-encoding"), coding, "{accept}");
            assert_eq!(answer.header("vary"), Some("Accept-Encoding"));
            let kind = answer.header("content-type");
            assert_eq!(kind, Some("text/javascript; charset=utf-8"));
        }
    }
    assert_ne!(ask("gzip").header("etag"), ask("br").header("etag"));
    assert_eq!(site.get("/b.js").header("vary"), None);
    assert_eq!(site.get("/a.js.gz").header("content-encoding"), None);
    site.file("b.js.zst", "ZSTD");
    eventually("a sibling that came later", || {
        site.get_with("/b.js", "Accept-Encoding: zstd\r\n").text() == "ZSTD"
    });
    std::fs::remove_file(site.dir.join("b.js.zst")).unwrap();
    eventually("a sibling that went", || {
        site.get_with("/b.js", "Accept-Encoding: zstd\r\n").text() == "b"
    });
}

#[test]
fn single_ranges() {
    let site = Site::new();
    for size in [10_usize, 70_000] {
        let path = format!("/{size}");
        let all = pattern(size);
        site.file(&path[1..], &all);
        let last = size - 1;
        for (range, from, to) in [
            ("0-0".to_owned(), 0, 0),
            ("0-".into(), 0, last),
            ("1-5".into(), 1, 5),
            ("-3".into(), size - 3, last),
            (format!("-{}", size * 2), 0, last),
            (format!("{last}-"), last, last),
            (format!("5-{}", size * 2), 5, last),
            (format!("0-0,{size}-"), 0, 0),
        ] {
            let answer = site.get_with(&path, &format!("Range: bytes={range}\r\n"));
            assert_eq!(answer.status, 206, "{range}");
            assert!(answer.body == all[from..=to], "{range}");
            let expected = format!("bytes {from}-{to}/{size}");
            assert_eq!(answer.header("content-range"), Some(expected.as_str()));
        }
        for range in [format!("{size}-"), format!("{}-{}", size, size + 5), "-0".to_owned()] {
            let answer = site.get_with(&path, &format!("Range: bytes={range}\r\n"));
            assert_eq!(answer.status, 416, "{range}");
            let expected = format!("bytes */{size}");
            assert_eq!(answer.header("content-range"), Some(expected.as_str()));
        }
        for range in ["bytes=5-1", "bytes=x", "lines=1-2", "bytes=1-2,zz", "bytes 1-2"] {
            let answer = site.get_with(&path, &format!("Range: {range}\r\n"));
            assert_eq!((answer.status, answer.body.len()), (200, size), "{range}");
        }
        let twice = site.get_with(&path, "Range: bytes=0-1\r\nRange: bytes=2-3\r\n");
        assert_eq!((twice.status, twice.body.len()), (200, size));
    }
}

#[test]
fn several_ranges() {
    let site = Site::new();
    for size in [1000_usize, 200_000] {
        let all = pattern(size);
        site.file(&format!("{size}"), &all);
        let line = "Range: bytes=10-19, 0-0 ,-5\r\n";
        let answer = site.get_with(&format!("/{size}"), line);
        assert_eq!(answer.status, 206);
        assert_eq!(answer.header("content-range"), None);
        let kind = answer.header("content-type").unwrap();
        let boundary = kind.strip_prefix("multipart/byteranges; boundary=").unwrap();
        let mut expected = Vec::new();
        for (from, to) in [(10, 19), (0, 0), (size - 5, size - 1)] {
            let head = format!(
                "\r\n--{boundary}\r\nContent-Type: application/octet-stream\r\n\
                 Content-Range: bytes {from}-{to}/{size}\r\n\r\n"
            );
            expected.extend_from_slice(head.as_bytes());
            expected.extend_from_slice(&all[from..=to]);
        }
        expected.extend_from_slice(format!("\r\n--{boundary}--\r\n").as_bytes());
        assert!(answer.body == expected);
    }
}

#[test]
fn ranges_cannot_amplify() {
    let site = Site::new();
    site.file("f", pattern(1000));
    let overlapping = format!("Range: bytes={}\r\n", vec!["0-999"; 20].join(","));
    let answer = site.get_with("/f", &overlapping);
    assert_eq!((answer.status, answer.body.len()), (200, 1000));
    let many = format!("Range: bytes={}\r\n", vec!["0-0"; 500].join(","));
    let answer = site.get_with("/f", &many);
    assert_eq!((answer.status, answer.body.len()), (200, 1000));
}

#[test]
fn if_range() {
    let site = Site::new();
    site.file("f", pattern(100));
    let first = site.get("/f");
    let etag = first.header("etag").unwrap();
    let modified = first.header("last-modified").unwrap();
    for (value, status) in [
        (etag.to_owned(), 206),
        (modified.to_owned(), 206),
        (format!("W/{etag}"), 200),
        ("\"other\"".to_owned(), 200),
        ("Thu, 01 Jan 1970 00:00:01 GMT".to_owned(), 200),
        ("garbage".to_owned(), 200),
    ] {
        let lines = format!("Range: bytes=0-4\r\nIf-Range: {value}\r\n");
        assert_eq!(site.get_with("/f", &lines).status, status, "{value}");
    }
}

#[test]
fn ranges_of_siblings() {
    let site = Site::new();
    site.file("a.txt", "0123456789").file("a.txt.gz", "abcdefgh");
    let answer = site.get_with("/a.txt", "Accept-Encoding: gzip\r\nRange: bytes=2-3\r\n");
    assert_eq!((answer.status, answer.text()), (206, "cd"));
    assert_eq!(answer.header("content-range"), Some("bytes 2-3/8"));
    assert_eq!(answer.header("content-encoding"), Some("gzip"));
}

#[test]
fn many_files_in_a_small_cache() {
    let site = Site::with(|config| {
        config.cache_bytes = 64 * 1024;
        config.cache_files = 2;
    });
    for n in 0..40 {
        site.file(&format!("s{n}"), pattern(1000 + n)).file(&format!("l{n}"), pattern(66_000 + n));
    }
    let mut client = site.client();
    for n in (0..40).chain(0..40) {
        client.send(format!("GET /s{n} HTTP/1.1\r\nHost: h\r\n\r\n"));
        assert!(client.response().body == pattern(1000 + n));
        client.send(format!("GET /l{n} HTTP/1.1\r\nHost: h\r\n\r\n"));
        assert!(client.response().body == pattern(66_000 + n));
    }
}

#[test]
fn a_file_that_shrinks_ends_the_connection() {
    let site = Site::new();
    site.file("f", pattern(50_000_000));
    let mut client = site.client();
    client.send("GET /f HTTP/1.1\r\nHost: h\r\n\r\n");
    let head = client.read_head();
    assert_eq!(head.header("content-length"), Some("50000000"));
    std::fs::File::options().write(true).open(site.dir.join("f")).unwrap().set_len(10).unwrap();
    let mut rest = Vec::new();
    let _ = std::io::Read::read_to_end(&mut client.stream, &mut rest);
    assert!(client.buffer.len() + rest.len() < 50_000_000);
    assert_eq!(site.get("/missing").status, 404);
}
