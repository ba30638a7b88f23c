//! TCP: the calls of std, on user-level threads, with many threads on one worker.

use heddle::net::{TcpListener, TcpStream};
use heddle::thread;
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::time::{Duration, Instant};

fn listener() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

/// Two ends of one connection.
fn pair() -> (TcpStream, TcpStream) {
    let (listener, address) = listener();
    let accepting = thread::spawn(move || listener.accept().unwrap());
    let client = TcpStream::connect(address).unwrap();
    let (server, peer) = accepting.join().unwrap();
    assert_eq!(peer, client.local_addr().unwrap());
    assert_eq!(server.local_addr().unwrap(), client.peer_addr().unwrap());
    (server, client)
}

#[test]
fn echo_over_many_connections() {
    let (listener, address) = listener();
    const CONNECTIONS: usize = 200;
    let server = thread::spawn(move || {
        let handlers: Vec<_> = (0..CONNECTIONS)
            .map(|_| {
                let (mut stream, _) = listener.accept().unwrap();
                thread::spawn(move || {
                    let mut buffer = [0; 64];
                    loop {
                        let count = stream.read(&mut buffer).unwrap();
                        if count == 0 {
                            return;
                        }
                        stream.write_all(&buffer[..count]).unwrap();
                    }
                })
            })
            .collect();
        handlers.into_iter().for_each(|handler| handler.join().unwrap());
    });
    let clients: Vec<_> = (0..CONNECTIONS)
        .map(|number| {
            thread::spawn(move || {
                let mut stream = TcpStream::connect(address).unwrap();
                stream.set_nodelay(true).unwrap();
                for round in 0..20 {
                    let text = format!("{number} {round}");
                    stream.write_all(text.as_bytes()).unwrap();
                    let mut answer = vec![0; text.len()];
                    stream.read_exact(&mut answer).unwrap();
                    assert_eq!(answer, text.as_bytes());
                }
            })
        })
        .collect();
    clients.into_iter().for_each(|client| client.join().unwrap());
    server.join().unwrap();
}

#[test]
fn a_hibernating_thread_receives() {
    let (mut server, client) = pair();
    // SAFETY: nobody borrows from its stack but heddle's own calls.
    let reader = unsafe { thread::Builder::new().hibernate(true) }
        .spawn(move || {
            let mut client = client;
            let mut bytes = [0; 5];
            for _ in 0..3 {
                client.read_exact(&mut bytes).unwrap();
                assert_eq!(&bytes, b"hello");
            }
        })
        .unwrap();
    for _ in 0..3 {
        thread::sleep(Duration::from_millis(5));
        server.write_all(b"hello").unwrap();
    }
    reader.join().unwrap();
}

#[test]
fn reads_time_out_and_go_on() {
    let (mut server, mut client) = pair();
    let worker = thread::spawn(move || {
        assert_eq!(client.read_timeout().unwrap(), None);
        client.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
        let start = Instant::now();
        let error = client.read(&mut [0; 8]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert!(start.elapsed() >= Duration::from_millis(20));
        client.set_read_timeout(None).unwrap();
        assert!(client.set_read_timeout(Some(Duration::ZERO)).is_err());
        client
    });
    client = worker.join().unwrap();
    server.write_all(b"late").unwrap();
    let mut bytes = [0; 4];
    client.read_exact(&mut bytes).unwrap();
    assert_eq!(&bytes, b"late");
}

#[test]
fn writes_time_out_when_the_peer_is_slow() {
    let (mut server, client) = pair();
    let error = thread::spawn(move || {
        server.set_write_timeout(Some(Duration::from_millis(30))).unwrap();
        let block = [7; 65536];
        loop {
            if let Err(error) = server.write_all(&block) {
                return error;
            }
        }
    })
    .join()
    .unwrap();
    assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    drop(client);
}

#[test]
fn accept_times_out() {
    let (listener, _) = listener();
    listener.set_accept_timeout(Some(Duration::from_millis(20))).unwrap();
    let error = thread::spawn(move || listener.accept().map(drop)).join().unwrap().unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::TimedOut);
}

#[test]
fn connecting_to_nobody_is_refused() {
    let (listener, mut address) = listener();
    // Not the address that the connection would come from: it may get the port that has just
    // become free, and a socket can be connected to itself.
    address.set_ip([127, 0, 0, 2].into());
    drop(listener);
    let error = thread::spawn(move || TcpStream::connect(address)).join().unwrap().unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
    let timeout = Duration::from_secs(5);
    let error = TcpStream::connect_timeout(&address, timeout).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
}

#[test]
fn several_threads_accept_on_one_listener() {
    let (listener, address) = listener();
    let acceptors: Vec<_> = (0..4)
        .map(|_| {
            let listener = listener.try_clone().unwrap();
            thread::spawn(move || {
                for _ in 0..10 {
                    listener.accept().unwrap().0.write_all(b"x").unwrap();
                }
            })
        })
        .collect();
    let clients: Vec<_> = (0..40)
        .map(|_| {
            thread::spawn(move || {
                let mut text = String::new();
                TcpStream::connect(address).unwrap().read_to_string(&mut text).unwrap();
                assert_eq!(text, "x");
            })
        })
        .collect();
    clients.into_iter().for_each(|client| client.join().unwrap());
    acceptors.into_iter().for_each(|acceptor| acceptor.join().unwrap());
}

#[test]
fn vectored_calls_and_peek() {
    let (mut server, mut client) = pair();
    thread::spawn(move || {
        let count = server.write_vectored(&[IoSlice::new(b"ab"), IoSlice::new(b"cde")]).unwrap();
        assert_eq!(count, 5);
        let mut bytes = [0; 8];
        while client.peek(&mut bytes).unwrap() < 5 {}
        let (mut one, mut two) = ([0; 3], [0; 3]);
        let mut buffers = [IoSliceMut::new(&mut one), IoSliceMut::new(&mut two)];
        assert_eq!(client.read_vectored(&mut buffers).unwrap(), 5);
        assert_eq!((&one, &two), (b"abc", b"de\0"));
    })
    .join()
    .unwrap();
}

#[test]
fn shutdown_ends_the_other_side() {
    let (server, mut client) = pair();
    server.shutdown(Shutdown::Write).unwrap();
    let count = thread::spawn(move || client.read(&mut [0; 8]).unwrap()).join().unwrap();
    assert_eq!(count, 0);
}

#[test]
fn files_are_sent_while_the_peer_is_slow() {
    let path = std::env::temp_dir().join(format!("heddle-send-file-{}", std::process::id()));
    let content: Vec<u8> = (0..8u32 << 20).map(|i| (i / 7) as u8).collect();
    std::fs::write(&path, &content).unwrap();
    let file = std::fs::File::open(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    let (server, mut client) = pair();
    let sender = thread::spawn(move || server.send_file(&file, 3, 1 << 40).unwrap());
    let receiver = thread::spawn(move || {
        thread::sleep(Duration::from_millis(50));
        let mut bytes = Vec::new();
        client.read_to_end(&mut bytes).unwrap();
        bytes
    });
    assert_eq!(sender.join().unwrap(), content.len() as u64 - 3);
    assert!(receiver.join().unwrap() == content[3..]);
}

#[test]
fn a_cancelled_thread_leaves_its_read() {
    let (_server, mut client) = pair();
    let reader = thread::spawn(move || client.read(&mut [0; 8]));
    thread::sleep(Duration::from_millis(20));
    reader.thread().cancel();
    assert!(heddle::is_cancelled(&reader.join().unwrap().unwrap_err()));
}

#[test]
fn nonblocking_handles_fail_instead_of_waiting() {
    let (listener, _) = listener();
    listener.set_nonblocking(true).unwrap();
    assert_eq!(listener.accept().unwrap_err().kind(), io::ErrorKind::WouldBlock);
    let (_server, mut client) = pair();
    client.set_nonblocking(true).unwrap();
    assert_eq!(client.read(&mut [0; 8]).unwrap_err().kind(), io::ErrorKind::WouldBlock);
    // The mode goes with the descriptor.
    let mut client = std::net::TcpStream::from(client);
    assert_eq!(client.read(&mut [0; 8]).unwrap_err().kind(), io::ErrorKind::WouldBlock);
}
