//! UDP and Unix-domain sockets, names, and descriptors of other libraries.

use heddle::net::{
    TcpListener, TcpStream, ToSocketAddrs, UdpSocket, UnixAddr, UnixDatagram, UnixListener,
    UnixStream,
};
use heddle::thread;
use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

fn socket_path() -> PathBuf {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    std::env::temp_dir().join(format!("heddle-net-{}-{number}", std::process::id()))
}

#[test]
fn datagrams_wait_for_each_other() {
    let server = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = server.local_addr().unwrap();
    let echo = thread::spawn(move || {
        let mut buffer = [0; 100];
        for _ in 0..200 {
            let (count, from) = server.recv_from(&mut buffer).unwrap();
            server.send_to(&buffer[..count], from).unwrap();
        }
    });
    let clients: Vec<_> = (0..10)
        .map(|number| {
            thread::spawn(move || {
                let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
                socket.connect(address).unwrap();
                assert_eq!(socket.peer_addr().unwrap(), address);
                let mut buffer = [0; 100];
                for round in 0..20 {
                    let text = format!("{number} {round}");
                    socket.send(text.as_bytes()).unwrap();
                    let count = socket.recv(&mut buffer).unwrap();
                    assert_eq!(&buffer[..count], text.as_bytes());
                }
            })
        })
        .collect();
    clients.into_iter().for_each(|client| client.join().unwrap());
    echo.join().unwrap();
}

#[test]
fn datagrams_time_out_and_are_peeked() {
    thread::spawn(|| {
        let socket = UdpSocket::bind(("127.0.0.1", 0)).unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(10))).unwrap();
        let mut buffer = [0; 8];
        let error = socket.recv_from(&mut buffer).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        socket.send_to(b"self", socket.local_addr().unwrap()).unwrap();
        assert_eq!(socket.peek_from(&mut buffer).unwrap().0, 4);
        assert_eq!(socket.recv_from(&mut buffer[..2]).unwrap().0, 2);
        assert_eq!(socket.recv(&mut buffer).unwrap_err().kind(), io::ErrorKind::TimedOut);
    })
    .join()
    .unwrap();
}

#[test]
fn unix_streams_echo() {
    let path = socket_path();
    let listener = UnixListener::bind(&path).unwrap();
    assert_eq!(listener.local_addr().unwrap().as_pathname(), Some(path.as_path()));
    let server = thread::spawn(move || {
        let handlers: Vec<_> = (0..20)
            .map(|_| {
                let (mut stream, peer) = listener.accept().unwrap();
                assert!(peer.is_unnamed(), "{peer:?}");
                thread::spawn(move || {
                    let mut buffer = [0; 32];
                    loop {
                        match stream.read(&mut buffer).unwrap() {
                            0 => return,
                            count => stream.write_all(&buffer[..count]).unwrap(),
                        }
                    }
                })
            })
            .collect();
        handlers.into_iter().for_each(|handler| handler.join().unwrap());
    });
    let clients: Vec<_> = (0..20u8)
        .map(|number| {
            let path = path.clone();
            thread::spawn(move || {
                let mut stream = UnixStream::connect(path).unwrap();
                assert_eq!(stream.peer_credentials().unwrap().0, std::process::id());
                for round in 0..20 {
                    stream.write_all(&[number, round]).unwrap();
                    let mut answer = [0; 2];
                    stream.read_exact(&mut answer).unwrap();
                    assert_eq!(answer, [number, round]);
                }
            })
        })
        .collect();
    clients.into_iter().for_each(|client| client.join().unwrap());
    server.join().unwrap();
    std::fs::remove_file(path).unwrap();
}

#[test]
fn abstract_names_and_datagrams() {
    let name = format!("heddle-{}", std::process::id());
    let address = UnixAddr::from_abstract_name(&name).unwrap();
    let receiver = UnixDatagram::bind_addr(&address).unwrap();
    assert_eq!(receiver.local_addr().unwrap().as_abstract_name(), Some(name.as_bytes()));
    let thread = thread::spawn(move || {
        let mut buffer = [0; 8];
        let (count, from) = receiver.recv_from(&mut buffer).unwrap();
        assert!(from.is_unnamed());
        buffer[..count].to_vec()
    });
    UnixDatagram::unbound().unwrap().send_to_addr(b"hello", &address).unwrap();
    assert_eq!(thread.join().unwrap(), b"hello");
    let (one, two) = UnixDatagram::pair().unwrap();
    let thread = thread::spawn(move || one.recv(&mut [0; 8]).unwrap());
    two.send(b"abc").unwrap();
    assert_eq!(thread.join().unwrap(), 3);
}

#[test]
fn a_full_datagram_queue_blocks_only_the_sender() {
    let (one, two) = UnixDatagram::pair().unwrap();
    let sender = thread::spawn(move || {
        (0..2_000u32).for_each(|n| {
            one.send(&n.to_ne_bytes()).unwrap();
        })
    });
    let receiver = thread::spawn(move || {
        thread::sleep(Duration::from_millis(10));
        for n in 0..2_000u32 {
            let mut bytes = [0; 4];
            two.recv(&mut bytes).unwrap();
            assert_eq!(u32::from_ne_bytes(bytes), n);
        }
    });
    sender.join().unwrap();
    receiver.join().unwrap();
}

#[test]
fn names_are_looked_up() {
    thread::spawn(|| {
        let addresses: Vec<_> = ("127.0.0.1", 80).to_socket_addrs().unwrap().collect();
        assert_eq!(addresses, ["127.0.0.1:80".parse().unwrap()]);
        assert_eq!("[::1]:8".to_socket_addrs().unwrap().next(), "[::1]:8".parse().ok());
        let mut local = ("localhost", 80).to_socket_addrs().unwrap();
        assert!(local.all(|address| address.ip().is_loopback() && address.port() == 80));
        assert!("no port".to_socket_addrs().is_err());
        let listener = TcpListener::bind("localhost:0").unwrap();
        let none: &[std::net::SocketAddr] = &[];
        assert_eq!(TcpStream::connect(none).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        TcpStream::connect(("localhost", listener.local_addr().unwrap().port())).unwrap();
    })
    .join()
    .unwrap();
}

#[test]
fn stds_sockets_become_ours_and_back() {
    let (one, two) = std::os::unix::net::UnixStream::pair().unwrap();
    let mut ours = UnixStream::from(one);
    let reader = thread::spawn(move || {
        let mut text = [0; 4];
        ours.read_exact(&mut text).unwrap();
        (text, std::os::unix::net::UnixStream::from(ours))
    });
    (&two).write_all(b"word").unwrap();
    let (text, one) = reader.join().unwrap();
    assert_eq!(&text, b"word");
    (&one).write_all(b"back").unwrap();
    let mut text = [0; 4];
    (&two).read_exact(&mut text).unwrap();
    assert_eq!(&text, b"back");
}

#[test]
fn foreign_descriptors_can_be_waited_for() {
    let (one, two) = std::os::unix::net::UnixStream::pair().unwrap();
    thread::spawn(move || {
        let short = Some(Duration::from_millis(10));
        let error = heddle::io::wait_readable(&one, short).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        heddle::io::wait_writable(&one, None).unwrap();
        let writer = thread::spawn(move || (&two).write_all(b"x").map(|()| two).unwrap());
        heddle::io::wait_readable(&one, None).unwrap();
        assert_eq!((&one).read(&mut [0; 4]).unwrap(), 1);
        drop(writer.join());
        heddle::io::wait_readable(&one, None).unwrap();
        assert_eq!((&one).read(&mut [0; 4]).unwrap(), 0);
        // A regular file is always ready.
        heddle::io::wait_readable(std::fs::File::open("/etc/passwd").unwrap(), None).unwrap();
    })
    .join()
    .unwrap();
}
