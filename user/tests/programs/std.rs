//! What Rust's std waits with, which is the futex system call, and the rest that its threads do:
//! prints `done` if all of it holds.
//!
//! Invariant: nothing is expected of how fast a thread comes to its turn.

use std::cell::RefCell;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Barrier, Condvar, LazyLock, Mutex, Once, OnceLock, RwLock, mpsc};
use std::thread;
use std::time::{Duration, Instant};

const THREADS: usize = 12;
const ROUNDS: usize = 300;

static DROPPED: AtomicUsize = AtomicUsize::new(0);

struct Counted(usize);

impl Drop for Counted {
    fn drop(&mut self) {
        DROPPED.fetch_add(self.0, SeqCst);
    }
}

thread_local! {
    static OWN: RefCell<Vec<Counted>> = const { RefCell::new(Vec::new()) };
}

fn locks() {
    let count = Mutex::new(0);
    let pair = RwLock::new((0, 0));
    let barrier = Barrier::new(THREADS);
    let leaders = AtomicUsize::new(0);
    thread::scope(|scope| {
        for index in 0..THREADS {
            let (count, pair, barrier, leaders) = (&count, &pair, &barrier, &leaders);
            scope.spawn(move || {
                for round in 0..ROUNDS {
                    let mut guard = count.lock().unwrap();
                    if round % 64 == index {
                        thread::yield_now();
                    }
                    *guard += 1;
                    drop(guard);
                    if round % 8 == 0 {
                        let mut guard = pair.write().unwrap();
                        guard.0 += 1;
                        thread::yield_now();
                        guard.1 += 1;
                    } else {
                        let guard = pair.read().unwrap();
                        assert_eq!(guard.0, guard.1);
                    }
                }
                for _ in 0..20 {
                    leaders.fetch_add(usize::from(barrier.wait().is_leader()), SeqCst);
                }
            });
        }
    });
    assert_eq!(*count.lock().unwrap(), THREADS * ROUNDS);
    assert_eq!(leaders.into_inner(), 20);
}

fn conditions() {
    let state = Arc::new((Mutex::new(0), Condvar::new()));
    let threads: Vec<_> = (0..THREADS)
        .map(|index| {
            let state = state.clone();
            thread::spawn(move || {
                let (turn, changed) = &*state;
                let guard = turn.lock().unwrap();
                *changed.wait_while(guard, |turn| *turn != index).unwrap() += 1;
                changed.notify_all();
            })
        })
        .collect();
    threads.into_iter().for_each(|it| it.join().unwrap());
    let (turn, changed) = &*state;
    let guard = turn.lock().unwrap();
    let (_guard, waited) = changed.wait_timeout(guard, Duration::from_millis(20)).unwrap();
    assert!(waited.timed_out());
}

fn channels() {
    let (sender, receiver) = mpsc::sync_channel(2);
    let senders: Vec<_> = (0..THREADS)
        .map(|_| {
            let sender = sender.clone();
            thread::spawn(move || (1..=ROUNDS).for_each(|it| sender.send(it).unwrap()))
        })
        .collect();
    drop(sender);
    assert_eq!(receiver.iter().sum::<usize>(), THREADS * ROUNDS * (ROUNDS + 1) / 2);
    senders.into_iter().for_each(|it| it.join().unwrap());
    let (_sender, receiver) = mpsc::channel::<()>();
    assert!(receiver.recv_timeout(Duration::from_millis(20)).is_err());
}

fn parks() {
    let is_over = Arc::new(AtomicBool::new(false));
    let theirs = is_over.clone();
    let parked = thread::spawn(move || {
        let start = Instant::now();
        thread::park_timeout(Duration::from_millis(20));
        assert!(start.elapsed() >= Duration::from_millis(19) || theirs.load(SeqCst));
        while !theirs.load(SeqCst) {
            thread::park();
        }
    });
    thread::sleep(Duration::from_millis(40));
    is_over.store(true, SeqCst);
    parked.thread().unpark();
    parked.join().unwrap();
}

fn onces() {
    static ONCE: Once = Once::new();
    static LOCK: OnceLock<usize> = OnceLock::new();
    static LAZY: LazyLock<usize> = LazyLock::new(|| {
        thread::sleep(Duration::from_millis(5));
        7
    });
    let count = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                ONCE.call_once(|| {
                    thread::sleep(Duration::from_millis(5));
                    count.fetch_add(1, SeqCst);
                });
                assert_eq!(count.load(SeqCst), 1);
                assert_eq!(*LOCK.get_or_init(|| 3) + *LAZY, 10);
            });
        }
    });
}

fn locals_and_panics() {
    let threads: Vec<_> = (0..THREADS)
        .map(|index| {
            let body = move || {
                OWN.with_borrow_mut(|own| own.push(Counted(1)));
                thread::yield_now();
                assert_eq!(OWN.with_borrow(Vec::len), 1);
                assert_eq!(thread::current().name(), Some(format!("own {index}").as_str()));
                if index % 2 == 1 {
                    std::panic::resume_unwind(Box::new(index));
                }
                index
            };
            thread::Builder::new().name(format!("own {index}")).spawn(body).unwrap()
        })
        .collect();
    for (index, thread) in threads.into_iter().enumerate() {
        match thread.join() {
            Ok(result) => assert!(result == index && index % 2 == 0),
            Err(payload) => assert_eq!(*payload.downcast::<usize>().unwrap(), index),
        }
    }
    assert_eq!(DROPPED.load(SeqCst), THREADS);
}

fn sockets() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..THREADS {
                let (mut stream, _) = listener.accept().unwrap();
                scope.spawn(move || {
                    let mut byte = [0];
                    while stream.read(&mut byte).unwrap() == 1 {
                        stream.write_all(&byte).unwrap();
                    }
                });
            }
        });
        for index in 0..THREADS {
            scope.spawn(move || {
                let mut stream = TcpStream::connect(address).unwrap();
                for round in 0..50 {
                    let mut byte = [(index + round) as u8];
                    stream.write_all(&byte).unwrap();
                    stream.read_exact(&mut byte).unwrap();
                    assert_eq!(byte[0], (index + round) as u8);
                }
                stream.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
                assert!(stream.read(&mut [0]).is_err());
            });
        }
    });
}

fn main() {
    locks();
    conditions();
    channels();
    parks();
    onces();
    locals_and_panics();
    sockets();
    println!("done");
}
