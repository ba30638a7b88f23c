//! The same server over TLS, with a client that trusts the test's own certificate.

mod common;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use common::{Site, folder, pattern};
use heddle_ice::{Config, Server, TlsFiles};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

struct Secure {
    site: Site,
    client: Arc<ClientConfig>,
}

fn files() -> (TlsFiles, CertificateDer<'static>) {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let dir = folder();
    let (cert, key) = (dir.join("cert.pem"), dir.join("key.pem"));
    std::fs::write(&cert, made.cert.pem()).unwrap();
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    (TlsFiles { cert, key }, made.cert.der().clone())
}

impl Secure {
    fn new() -> Secure {
        let (files, der) = files();
        let site = Site::with(|config| {
            config.tls = Some(files.clone());
            config.head_timeout = Duration::from_secs(3);
        });
        std::fs::remove_dir_all(files.cert.parent().unwrap().parent().unwrap()).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(der).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let client = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        Secure { site, client: Arc::new(client) }
    }

    fn connect(&self) -> StreamOwned<ClientConnection, TcpStream> {
        let name = ServerName::try_from("localhost").unwrap();
        let session = ClientConnection::new(self.client.clone(), name).unwrap();
        let stream = TcpStream::connect(self.site.addr).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        StreamOwned::new(session, stream)
    }
}

#[test]
fn files_over_tls() {
    let secure = Secure::new();
    let large = pattern(500_000);
    secure.site.file("a", "x").file("large", &large);
    let mut stream = secure.connect();
    for _ in 0..3 {
        stream.write_all(b"GET /a HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
        let mut buf = [0; 4096];
        let mut text = Vec::new();
        while !text.ends_with(b"\r\n\r\nx") {
            let got = stream.read(&mut buf).unwrap();
            assert!(got > 0);
            text.extend_from_slice(&buf[..got]);
        }
        assert!(text.starts_with(b"HTTP/1.1 200 OK\r\n"));
    }
    stream.write_all(b"GET /large HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n").unwrap();
    let mut all = Vec::new();
    // Without a close_notify this would be an error: truncation is told from the end.
    stream.read_to_end(&mut all).unwrap();
    let body = all.windows(4).position(|w| w == b"\r\n\r\n").unwrap() + 4;
    assert!(all[body..] == large);
}

#[test]
fn who_does_not_speak_tls_is_dropped() {
    let secure = Secure::new();
    secure.site.file("a", "x");
    let mut plain = TcpStream::connect(secure.site.addr).unwrap();
    plain.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    plain.write_all(b"GET /a HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    let _ = plain.read_to_end(&mut answer);
    assert!(!answer.starts_with(b"HTTP"), "{answer:?}");
    let mut silent = TcpStream::connect(secure.site.addr).unwrap();
    silent.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let mut answer = Vec::new();
    silent.read_to_end(&mut answer).unwrap();
    assert!(answer.is_empty());
}

#[test]
fn files_that_are_no_certificate() {
    let (good, _) = files();
    let mut config = Config::new(good.cert.parent().unwrap());
    config.port = 0;
    for (cert, key) in [
        (good.key.clone(), good.key.clone()),
        (good.cert.clone(), good.cert.clone()),
        (good.cert.with_file_name("missing"), good.key.clone()),
    ] {
        config.tls = Some(TlsFiles { cert, key });
        let error = Server::bind(config.clone()).unwrap_err().to_string();
        assert!(error.contains("for TLS: "), "{error}");
    }
    let (other, _) = files();
    config.tls = Some(TlsFiles { cert: good.cert.clone(), key: other.key.clone() });
    assert!(Server::bind(config).is_err(), "a key of another certificate");
    for files in [good, other] {
        std::fs::remove_dir_all(files.cert.parent().unwrap().parent().unwrap()).unwrap();
    }
}
