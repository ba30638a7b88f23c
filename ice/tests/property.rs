//! What must hold for every input: the fuzzer's checks on inputs that are made from grammar, on
//! inputs that are broken copies of good ones, and on bytes from nowhere.

use std::path::PathBuf;
use std::sync::OnceLock;

use heddle_ice::fuzzing::{Target, parts};
use proptest::prelude::*;

fn target() -> &'static Target {
    static TARGET: OnceLock<Target> = OnceLock::new();
    TARGET.get_or_init(|| {
        let folder: PathBuf = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("ice-property");
        std::fs::create_dir_all(folder.join("d")).unwrap();
        std::fs::write(folder.join("a"), "content of a").unwrap();
        std::fs::write(folder.join("a.gz"), "squeezed").unwrap();
        std::fs::write(folder.join("d/index.html"), "index").unwrap();
        std::fs::write(folder.join("large"), vec![b'x'; 70_000]).unwrap();
        Target::new(&folder).unwrap()
    })
}

fn word() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("/a".to_owned()),
        Just("/d/".to_owned()),
        Just("/d".to_owned()),
        Just("/large".to_owned()),
        Just("/../a".to_owned()),
        Just("/%2e%2e/%00".to_owned()),
        "(/[a-d.%2]{0,4}){1,6}",
    ]
}

fn field() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("Host: h".to_owned()),
        Just("Connection: close".to_owned()),
        Just("Connection: keep-alive".to_owned()),
        Just("Expect: 100-continue".to_owned()),
        Just("Transfer-Encoding: chunked".to_owned()),
        Just("Content-Length: 5".to_owned()),
        Just("If-None-Match: *".to_owned()),
        Just("Accept-Encoding: gzip;q=0.5, br".to_owned()),
        "Range: bytes=[0-9,-]{0,12}",
        "Content-Length: [0-9]{1,3}",
        "[A-Za-z-]{1,16}:[ -~]{0,20}",
    ]
}

fn request() -> impl Strategy<Value = String> {
    let method = prop_oneof![
        4 => Just("GET"), 1 => Just("HEAD"), 1 => Just("POST"), 1 => Just("OPTIONS"), 1 => Just("X")
    ];
    let version = prop_oneof![6 => Just("HTTP/1.1"), 1 => Just("HTTP/1.0"), 1 => Just("HTTP/2.0")];
    let body = prop_oneof![
        4 => Just(""), 1 => Just("hello"), 1 => Just("5\r\nhello\r\n0\r\n\r\n"), 1 => Just("zz\r\n")
    ];
    (method, word(), version, prop::collection::vec(field(), 0..6), body).prop_map(
        |(method, word, version, fields, body)| {
            let fields: String = fields.iter().map(|f| format!("{f}\r\n")).collect();
            format!("{method} {word} {version}\r\nHost: h\r\n{fields}\r\n{body}")
        },
    )
}

fn config() -> ProptestConfig {
    ProptestConfig { cases: 1500, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn requests_from_the_grammar(
        requests in prop::collection::vec(request(), 1..4),
        split in 0_usize..600,
    ) {
        target().check(requests.concat().as_bytes(), split);
    }

    #[test]
    fn broken_requests(
        good in request(),
        at in any::<prop::sample::Index>(),
        with in any::<u8>(),
        cut in any::<bool>(),
        split in 0_usize..300,
    ) {
        let mut bytes = good.into_bytes();
        let at = at.index(bytes.len());
        match cut {
            true => drop(bytes.remove(at)),
            false => bytes[at] = with,
        }
        target().check(&bytes, split);
    }

    #[test]
    fn bytes_from_nowhere(
        bytes in prop::collection::vec(any::<u8>(), 0..2000),
        split in 0_usize..2000,
    ) {
        target().check(&bytes, split);
        parts(&bytes);
    }

    #[test]
    fn parts_from_their_alphabets(
        path in "/[./%02eEaf#?]{0,40}",
        range in "bytes ?=[0-9, -]{0,40}",
        body in "[0-9a-fA-F\r\n;:x ]{0,60}",
    ) {
        parts(path.as_bytes());
        parts(range.as_bytes());
        parts(body.as_bytes());
    }
}
