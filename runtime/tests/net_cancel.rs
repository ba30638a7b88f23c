//! Cancellation and timeouts: every kind of call that can wait for ever is ended by both.

use heddle::io::pipe;
use heddle::net::{TcpListener, TcpStream, UdpSocket, UnixDatagram, UnixListener, UnixStream};
use heddle::process::Command;
use heddle::signal::{Signal, Signals};
use heddle::thread;
use std::io::{self, Read, Write};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// A call that waits for ever, made with an optional timeout where the call has one.
type Call = Box<dyn FnOnce(Option<Duration>) -> io::Result<()> + Send>;

fn pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    (listener.accept().unwrap().0, client)
}

/// A name that no other test of this process has.
fn fresh_path() -> std::path::PathBuf {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Relaxed);
    std::env::temp_dir().join(format!("heddle-cancel-{}-{number}", std::process::id()))
}

/// A file of a gigabyte that takes no room.
fn large_file() -> std::fs::File {
    let path = fresh_path();
    let file = std::fs::OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(true)
        .open(&path)
        .unwrap();
    std::fs::remove_file(path).unwrap();
    file.set_len(1 << 30).unwrap();
    file
}

fn write_for_ever(stream: &mut impl Write) -> io::Result<()> {
    loop {
        stream.write_all(&[0; 65536])?;
    }
}

fn calls() -> Vec<(&'static str, Call)> {
    let mut calls = Vec::new();
    let mut add = |name, call| calls.push((name, call));
    stream_calls(&mut add);
    accept_calls(&mut add);
    datagram_calls(&mut add);
    pipe_calls(&mut add);
    other_calls(&mut add);
    calls
}

fn stream_calls(add: &mut impl FnMut(&'static str, Call)) {
    let (peer, mut stream) = pair();
    add(
        "read of a TCP stream",
        Box::new(move |timeout| {
            let _peer = peer;
            stream.set_read_timeout(timeout)?;
            stream.read(&mut [0; 8]).map(drop)
        }),
    );
    let (peer, mut stream) = pair();
    add(
        "write to a TCP stream",
        Box::new(move |timeout| {
            let _peer = peer;
            stream.set_write_timeout(timeout)?;
            write_for_ever(&mut stream)
        }),
    );
    let (peer, stream) = pair();
    add(
        "send_file",
        Box::new(move |timeout| {
            let _peer = peer;
            stream.set_write_timeout(timeout)?;
            stream.send_file(&large_file(), 0, 1 << 30).map(drop)
        }),
    );
    let (peer, mut stream) = UnixStream::pair().unwrap();
    add(
        "write to a Unix stream",
        Box::new(move |timeout| {
            let _peer = peer;
            stream.set_write_timeout(timeout)?;
            write_for_ever(&mut stream)
        }),
    );
}

fn accept_calls(add: &mut impl FnMut(&'static str, Call)) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    add(
        "accept",
        Box::new(move |timeout| {
            listener.set_accept_timeout(timeout)?;
            listener.accept().map(drop)
        }),
    );
    let path = fresh_path();
    let listener = UnixListener::bind(&path).unwrap();
    std::fs::remove_file(path).unwrap();
    add(
        "accept on a Unix listener",
        Box::new(move |timeout| {
            listener.set_accept_timeout(timeout)?;
            listener.accept().map(drop)
        }),
    );
}

fn datagram_calls(add: &mut impl FnMut(&'static str, Call)) {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    add(
        "recv_from of a UDP socket",
        Box::new(move |timeout| {
            socket.set_read_timeout(timeout)?;
            socket.recv_from(&mut [0; 8]).map(drop)
        }),
    );
    let (peer, socket) = UnixDatagram::pair().unwrap();
    add(
        "recv of a Unix datagram socket",
        Box::new(move |timeout| {
            let _peer = peer;
            socket.set_read_timeout(timeout)?;
            socket.recv(&mut [0; 8]).map(drop)
        }),
    );
}

fn pipe_calls(add: &mut impl FnMut(&'static str, Call)) {
    let (mut reader, writer) = pipe().unwrap();
    add(
        "read of a pipe",
        Box::new(move |timeout| {
            let _writer = writer;
            match timeout {
                Some(timeout) => reader.read_timeout(&mut [0; 8], timeout).map(drop),
                None => reader.read(&mut [0; 8]).map(drop),
            }
        }),
    );
    let (reader, mut writer) = pipe().unwrap();
    add(
        "write to a pipe",
        Box::new(move |timeout| {
            let _reader = reader;
            match timeout {
                Some(timeout) => loop {
                    writer.write_timeout(&[0; 4096], timeout)?;
                },
                None => write_for_ever(&mut writer),
            }
        }),
    );
}

fn other_calls(add: &mut impl FnMut(&'static str, Call)) {
    let (one, two) = std::os::unix::net::UnixStream::pair().unwrap();
    add(
        "wait_readable",
        Box::new(move |timeout| {
            let _two = two;
            heddle::io::wait_readable(&one, timeout)
        }),
    );
    add(
        "wait for a child",
        Box::new(move |timeout| {
            let mut child = Command::new("sleep").arg("60").spawn()?;
            let result = match timeout {
                Some(timeout) => child.wait_timeout(timeout).and_then(none_is_a_timeout),
                None => child.wait().map(drop),
            };
            child.kill()?;
            std::thread::spawn(move || child.wait());
            result
        }),
    );
    add(
        "wait for a signal",
        Box::new(move |timeout| {
            let signals = Signals::new(&[Signal::USR2])?;
            match timeout {
                Some(timeout) => signals.wait_timeout(timeout).and_then(none_is_a_timeout),
                None => signals.wait().map(drop),
            }
        }),
    );
}

fn none_is_a_timeout<T>(value: Option<T>) -> io::Result<()> {
    value.map(drop).ok_or_else(|| io::ErrorKind::TimedOut.into())
}

/// Far more than anything here takes, under an emulator on a busy machine too.
const PATIENCE: Duration = Duration::from_secs(60);

/// Gives up on a call that does not end.
fn join_soon<T>(name: &str, handle: thread::JoinHandle<T>) -> T {
    let start = Instant::now();
    while !handle.is_finished() {
        assert!(start.elapsed() < PATIENCE, "{name}: does not end");
        std::thread::sleep(Duration::from_millis(1));
    }
    handle.join().unwrap()
}

#[test]
fn every_call_is_cancelled_while_it_waits() {
    for (name, call) in calls() {
        let handle = thread::spawn(move || call(None));
        std::thread::sleep(Duration::from_millis(30));
        assert!(!handle.is_finished(), "{name}: does not wait");
        handle.thread().cancel();
        let error = join_soon(name, handle).unwrap_err();
        assert!(heddle::is_cancelled(&error), "{name}: {error}");
    }
}

#[test]
fn every_call_fails_at_once_when_the_cancellation_came_before() {
    for (name, call) in calls() {
        let handle = thread::spawn(move || {
            thread::current().cancel();
            call(None)
        });
        let error = join_soon(name, handle).unwrap_err();
        assert!(heddle::is_cancelled(&error), "{name}: {error}");
    }
}

/// A cancellation, and a deadline now and then, meet each call on its way into the wait, in it and
/// on its way out, while other calls keep the workers busy.
#[test]
fn every_call_is_cancelled_at_any_moment() {
    const ROUNDS: u64 = 200;
    for round in 0..ROUNDS {
        let handles: Vec<_> = calls()
            .into_iter()
            .enumerate()
            .map(|(number, (name, call))| {
                let timeout = (number as u64 + round).is_multiple_of(3);
                let timeout = timeout.then(|| Duration::from_micros(1 + round * 7 % 300));
                (name, thread::spawn(move || call(timeout)))
            })
            .collect();
        for (number, (_, handle)) in (0..).zip(&handles) {
            for _ in 0..(round * 37 + number * 11) % 200 {
                std::hint::spin_loop();
            }
            handle.thread().cancel();
        }
        for (name, handle) in handles {
            let error = join_soon(name, handle).unwrap_err();
            let fits = heddle::is_cancelled(&error) || error.kind() == io::ErrorKind::TimedOut;
            assert!(fits, "round {round}, {name}: {error}");
        }
    }
}

#[test]
fn every_call_times_out() {
    for (name, call) in calls() {
        let handle = thread::spawn(move || {
            let start = Instant::now();
            (call(Some(Duration::from_millis(20))), start.elapsed())
        });
        let (result, took) = join_soon(name, handle);
        let error = result.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut, "{name}: {error}");
        assert!(took >= Duration::from_millis(20), "{name}: too early, {took:?}");
    }
}

#[test]
fn kernel_threads_time_out_too() {
    let (_peer, mut stream) = pair();
    stream.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
    let error = stream.read(&mut [0; 8]).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::TimedOut);
}

#[test]
fn a_kernel_thread_of_the_program_is_cancelled() {
    let (_peer, mut stream) = pair();
    let (send, receive) = std::sync::mpsc::channel();
    let reader = std::thread::spawn(move || {
        send.send(thread::current()).unwrap();
        stream.read(&mut [0; 8]).unwrap_err()
    });
    let thread = receive.recv().unwrap();
    std::thread::sleep(Duration::from_millis(20));
    thread.cancel();
    assert!(heddle::is_cancelled(&reader.join().unwrap()));
}

/// Deadlines that pass at the moment when the data arrives lose no data.
#[test]
fn a_timeout_never_loses_a_byte() {
    let (mut sender, mut receiver) = pair();
    const BYTES: usize = 2_000;
    let reader = thread::spawn(move || {
        receiver.set_read_timeout(Some(Duration::from_micros(200))).unwrap();
        let mut got = 0;
        let mut byte = [0];
        let start = Instant::now();
        while got < BYTES && start.elapsed() < PATIENCE / 2 {
            match receiver.read(&mut byte) {
                Ok(count) => {
                    assert_eq!((count, byte[0]), (1, got as u8));
                    got += 1;
                }
                Err(error) => assert_eq!(error.kind(), io::ErrorKind::TimedOut),
            }
        }
        got
    });
    let writer = thread::spawn(move || {
        for number in 0..BYTES {
            sender.write_all(&[number as u8]).unwrap();
            thread::sleep(Duration::from_micros(150 + number as u64 % 100));
        }
        sender
    });
    assert_eq!(join_soon("reader", reader), BYTES);
    drop(writer.join());
}
