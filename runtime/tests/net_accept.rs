//! Accepting: bursts, many acceptors, listeners that go while connections wait. One operation in
//! a ring may serve all of them; no connection and no descriptor may be lost.

use heddle::net::{TcpListener, TcpStream};
use heddle::thread;
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The tests count the descriptors of the process: one at a time.
static ALONE: Mutex<()> = Mutex::new(());

fn alone<T: Send + 'static>(body: impl FnOnce() -> T + Send + 'static) -> T {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    thread::spawn(body).join().unwrap()
}

fn listener() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

/// Waits until the process has at most `count` descriptors.
fn wait_for_descriptors(count: usize) {
    let start = Instant::now();
    while descriptors() > count {
        assert!(start.elapsed() < Duration::from_secs(60), "{} > {count}", descriptors());
        thread::sleep(Duration::from_millis(1));
    }
}

/// Connects from outside the runtime.
fn connect(address: SocketAddr) -> std::net::TcpStream {
    std::net::TcpStream::connect(address).unwrap()
}

#[test]
fn a_burst_is_accepted_by_all() {
    alone(|| {
        let (listener, address) = listener();
        let acceptors: Vec<_> = (0..4)
            .map(|_| {
                let listener = listener.try_clone().unwrap();
                thread::spawn(move || {
                    for _ in 0..100 {
                        listener.accept().unwrap().0.write_all(b"x").unwrap();
                    }
                })
            })
            .collect();
        let clients: Vec<_> = (0..4)
            .map(|_| {
                std::thread::spawn(move || {
                    let streams: Vec<_> = (0..100).map(|_| connect(address)).collect();
                    for mut stream in streams {
                        let mut text = String::new();
                        stream.read_to_string(&mut text).unwrap();
                        assert_eq!(text, "x");
                    }
                })
            })
            .collect();
        acceptors.into_iter().for_each(|acceptor| acceptor.join().unwrap());
        clients.into_iter().for_each(|client| client.join().unwrap());
    });
}

/// What connecting to `address` fails with. A socket that got that very port for itself and is
/// connected to itself proves nothing.
fn refusal(address: SocketAddr) -> io::Error {
    for _ in 0..10 {
        match std::net::TcpStream::connect(address) {
            Err(error) => return error,
            Ok(own) => assert_eq!(own.local_addr().unwrap(), address, "somebody listens"),
        }
    }
    panic!("the port came ten times in a row");
}

#[test]
fn a_dropped_listener_refuses_and_leaks_nothing() {
    alone(|| {
        // What the runtime opens on first use is open now.
        drop(connect(listener().1));
        let before = descriptors();
        for _ in 0..10 {
            let (listener, address) = listener();
            let first = connect(address);
            drop(listener.accept().unwrap());
            let waiting: Vec<_> = (0..20).map(|_| connect(address)).collect();
            thread::sleep(Duration::from_millis(2));
            drop(listener);
            assert_eq!(refusal(address).kind(), io::ErrorKind::ConnectionRefused);
            for mut stream in waiting {
                // Closed by us or reset by the kernel.
                stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
                assert!(!matches!(stream.read(&mut [0; 4]), Ok(1..)));
            }
            drop(first);
        }
        wait_for_descriptors(before);
    });
}

#[test]
fn connections_nobody_asks_for_stay_in_the_kernel() {
    alone(|| {
        let (listener, address) = listener();
        let first = connect(address);
        drop(listener.accept().unwrap());
        let before = descriptors();
        let mut waiting: Vec<_> = (0..400).map(|_| connect(address)).collect();
        thread::sleep(Duration::from_millis(20));
        let taken = descriptors().saturating_sub(before + waiting.len());
        assert!(taken < 200, "{taken} connections were accepted ahead");
        for (number, stream) in waiting.iter_mut().enumerate() {
            stream.write_all(&(number as u32).to_ne_bytes()).unwrap();
        }
        // All of them are there, in order.
        for number in 0..400u32 {
            let mut bytes = [0; 4];
            listener.accept().unwrap().0.read_exact(&mut bytes).unwrap();
            assert_eq!(u32::from_ne_bytes(bytes), number);
        }
        drop(first);
    });
}

#[test]
fn who_gives_up_loses_no_connection() {
    alone(|| {
        let (listener, address) = listener();
        for round in 0..50u64 {
            let impatient = listener.try_clone().unwrap();
            impatient.set_accept_timeout(Some(Duration::from_micros(1 + round * 20))).unwrap();
            let waiter = thread::spawn(move || impatient.accept().is_ok());
            let cancelled = listener.try_clone().unwrap();
            let other = thread::spawn(move || cancelled.accept().is_ok());
            let client = std::thread::spawn(move || connect(address));
            other.thread().cancel();
            let taken = usize::from(waiter.join().unwrap()) + usize::from(other.join().unwrap());
            assert!(taken <= 1);
            if taken == 0 {
                listener.accept().unwrap();
            }
            drop(client.join().unwrap());
        }
    });
}

#[test]
fn kernel_threads_accept_too() {
    alone(|| {
        let (listener, address) = listener();
        let theirs = listener.try_clone().unwrap();
        let light = thread::spawn(move || {
            for _ in 0..50 {
                drop(listener.accept().unwrap());
            }
        });
        thread::sleep(Duration::from_millis(5));
        let kernel = std::thread::spawn(move || {
            for _ in 0..50 {
                drop(theirs.accept().unwrap());
            }
        });
        let clients = std::thread::spawn(move || {
            for _ in 0..100 {
                drop(connect(address));
            }
        });
        light.join().unwrap();
        kernel.join().unwrap();
        clients.join().unwrap();
    });
}

#[test]
fn a_listener_goes_to_std_and_comes_back() {
    alone(|| {
        let (listener, address) = listener();
        let first = connect(address);
        drop(listener.accept().unwrap());
        let theirs = std::net::TcpListener::from(listener);
        let client = std::thread::spawn(move || (connect(address), connect(address)));
        drop(theirs.accept().unwrap());
        let ours = TcpListener::from(theirs);
        drop(ours.accept().unwrap());
        drop((first, client.join().unwrap()));
        ours.set_accept_timeout(Some(Duration::from_millis(5))).unwrap();
        assert_eq!(ours.accept().unwrap_err().kind(), io::ErrorKind::TimedOut);
    });
}

#[test]
fn a_cancelled_server_ends() {
    alone(|| {
        let (listener, address) = listener();
        let count = Arc::new(AtomicUsize::new(0));
        let accepted = count.clone();
        let server = thread::spawn(move || {
            for stream in listener.incoming() {
                match stream {
                    Ok(_) => drop(accepted.fetch_add(1, SeqCst)),
                    Err(error) => return error,
                }
            }
            unreachable!("incoming has no end")
        });
        for _ in 0..10 {
            drop(TcpStream::connect(address).unwrap());
        }
        let start = Instant::now();
        while count.load(SeqCst) < 10 && start.elapsed() < Duration::from_secs(60) {
            thread::sleep(Duration::from_millis(1));
        }
        thread::sleep(Duration::from_millis(20));
        server.thread().cancel();
        let (count, error) = (count.load(SeqCst), server.join().unwrap());
        assert!(count == 10 && heddle::is_cancelled(&error), "{count}, {error}");
    });
}
