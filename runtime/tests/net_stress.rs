//! Lost wake-ups: many threads on few descriptors, several workers, timeouts in between. A wake
//! that is lost shows as a thread that never ends; every loop is bounded, so the test fails then.

use heddle::net::{TcpListener, TcpStream, UnixStream};
use heddle::thread::{self, JoinHandle};
use std::io::{self, Read, Write};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(60);

fn join_all<T>(handles: Vec<JoinHandle<T>>) -> Vec<T> {
    let start = Instant::now();
    handles
        .into_iter()
        .enumerate()
        .map(|(number, handle)| {
            while !handle.is_finished() {
                assert!(start.elapsed() < PATIENCE, "thread {number} was never woken");
                std::thread::sleep(Duration::from_millis(1));
            }
            handle.join().unwrap()
        })
        .collect()
}

/// Sends `value` around a ring of threads, each of which reads one pipe and writes the next.
#[test]
fn tokens_go_around() {
    const THREADS: usize = 64;
    const ROUNDS: u8 = 100;
    let (writers, readers): (Vec<_>, Vec<_>) =
        (0..THREADS).map(|_| UnixStream::pair().unwrap()).unzip();
    let mut writers: Vec<_> = writers.into_iter().map(Some).collect();
    let handles: Vec<_> = readers
        .into_iter()
        .enumerate()
        .map(|(number, mut reader)| {
            let mut writer = writers[(number + 1) % THREADS].take().unwrap();
            thread::spawn(move || {
                if number == 0 {
                    writer.write_all(&[0]).unwrap();
                }
                for round in 0..ROUNDS {
                    let mut token = [0];
                    reader.read_exact(&mut token).unwrap();
                    assert_eq!(token[0], round);
                    if number == 0 {
                        token[0] += 1;
                    }
                    if number != 0 || round + 1 < ROUNDS {
                        writer.write_all(&token).unwrap();
                    }
                }
                (reader, writer)
            })
        })
        .collect();
    join_all(handles);
}

/// Reads with timeouts so short that they pass at the moment when data arrives.
#[test]
fn short_timeouts_and_data_at_the_same_time() {
    const PAIRS: usize = 50;
    const MESSAGES: u32 = 200;
    let handles: Vec<_> = (0..PAIRS)
        .flat_map(|number| {
            let (mut writer, mut reader) = UnixStream::pair().unwrap();
            let writing = thread::spawn(move || {
                for message in 0..MESSAGES {
                    writer.write_all(&message.to_ne_bytes()).unwrap();
                    if message as usize % 8 == number % 8 {
                        thread::sleep(Duration::from_micros(300));
                    }
                }
                thread::park_timeout(Duration::from_millis(1));
            });
            let reading = thread::spawn(move || {
                reader.set_read_timeout(Some(Duration::from_micros(100))).unwrap();
                let mut bytes = Vec::new();
                let mut buffer = [0; 64];
                loop {
                    match reader.read(&mut buffer) {
                        Ok(0) => break,
                        Ok(count) => bytes.extend_from_slice(&buffer[..count]),
                        Err(error) => assert_eq!(error.kind(), io::ErrorKind::TimedOut),
                    }
                }
                let numbers =
                    bytes.chunks_exact(4).map(|b| u32::from_ne_bytes(b.try_into().unwrap()));
                assert!(numbers.eq(0..MESSAGES));
            });
            [writing, reading]
        })
        .collect();
    join_all(handles);
}

/// Connections come and go: descriptors are closed and reused while others wait.
#[test]
fn descriptors_are_reused_at_once() {
    const CLIENTS: usize = 32;
    const CONNECTIONS: usize = 25;
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let acceptors: Vec<_> = (0..4)
        .map(|_| {
            let listener = listener.try_clone().unwrap();
            thread::spawn(move || {
                let mut handlers = Vec::new();
                for _ in 0..CLIENTS * CONNECTIONS / 4 {
                    let (mut stream, _) = listener.accept().unwrap();
                    handlers.push(thread::spawn(move || {
                        let mut bytes = [0; 8];
                        while let Ok(()) = stream.read_exact(&mut bytes) {
                            stream.write_all(&bytes).unwrap();
                        }
                    }));
                }
                handlers
            })
        })
        .collect();
    let clients: Vec<_> = (0..CLIENTS as u64)
        .map(|number| {
            thread::spawn(move || {
                for round in 0..CONNECTIONS as u64 {
                    let mut stream = TcpStream::connect(address).unwrap();
                    let sent = (number << 32 | round).to_ne_bytes();
                    stream.write_all(&sent).unwrap();
                    let mut got = [0; 8];
                    stream.read_exact(&mut got).unwrap();
                    assert_eq!(got, sent);
                }
            })
        })
        .collect();
    join_all(clients);
    for handlers in join_all(acceptors) {
        join_all(handlers);
    }
}

/// Several threads wait for one descriptor; each message wakes one that takes it.
#[test]
fn many_readers_of_one_socket() {
    const READERS: usize = 16;
    const MESSAGES: usize = 1_600;
    let (one, two) = heddle::net::UnixDatagram::pair().unwrap();
    let readers: Vec<_> = (0..READERS)
        .map(|_| {
            let socket = one.try_clone().unwrap();
            thread::spawn(move || {
                for _ in 0..MESSAGES / READERS {
                    assert_eq!(socket.recv(&mut [0; 4]).unwrap(), 4);
                }
            })
        })
        .collect();
    let writer = thread::spawn(move || {
        for _ in 0..MESSAGES {
            two.send(b"word").unwrap();
        }
        two
    });
    join_all(readers);
    drop(join_all(vec![writer]));
}

/// Cancellations arrive at every stage of a wait.
#[test]
fn cancellations_at_any_moment() {
    for round in 0..200u64 {
        let (mut reader, mut writer) = UnixStream::pair().unwrap();
        let thread = thread::spawn(move || reader.read(&mut [0; 8]));
        for _ in 0..round * 20 {
            std::hint::spin_loop();
        }
        thread.thread().cancel();
        if round % 3 == 0 {
            // The reader may have gone already.
            let _ = writer.write_all(b"x");
        }
        for result in join_all(vec![thread]) {
            match result {
                Ok(count) => assert_eq!((count, round % 3), (1, 0)),
                Err(error) => assert!(heddle::is_cancelled(&error), "{error}"),
            }
        }
    }
}

/// Cancellations meet threads that have hardly started: on their way to the first wait, and from
/// one worker to another.
#[test]
fn cancellations_of_new_threads() {
    const THREADS: u64 = 4;
    let (silent, _open) = heddle::net::UnixDatagram::pair().unwrap();
    for round in 0..5_000 {
        let threads: Vec<_> = (0..THREADS)
            .map(|_| {
                let silent = silent.try_clone().unwrap();
                thread::spawn(move || silent.recv(&mut [0; 4]).unwrap_err())
            })
            .collect();
        for (number, thread) in (0..THREADS).zip(&threads) {
            for _ in 0..(round * 7 + number * 13) % 64 {
                std::hint::spin_loop();
            }
            thread.thread().cancel();
        }
        for error in join_all(threads) {
            assert!(heddle::is_cancelled(&error), "{error}");
        }
    }
}
