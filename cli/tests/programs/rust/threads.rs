//! Threads of Rust's std: named, scoped, panicking, with thread-locals that have destructors.
//!
//! Invariant: the output depends on nothing but this text.

use std::cell::RefCell;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::mpsc;
use std::thread;

static DROPPED: AtomicUsize = AtomicUsize::new(0);

struct Local(Vec<usize>);

impl Drop for Local {
    fn drop(&mut self) {
        DROPPED.fetch_add(self.0.len(), SeqCst);
    }
}

thread_local! {
    static LOCAL: RefCell<Local> = const { RefCell::new(Local(Vec::new())) };
}

fn counter(from: usize, results: mpsc::Sender<usize>) {
    LOCAL.with(|local| local.borrow_mut().0.push(from));
    results.send((from..from + 1000).sum()).expect("somebody listens");
}

fn main() {
    let (sender, results) = mpsc::channel();
    let counters: Vec<_> = (0..6)
        .map(|at| {
            let sender = sender.clone();
            let named = thread::Builder::new().name(format!("counter {at}"));
            named.spawn(move || counter(at * 1000, sender)).expect("a thread")
        })
        .collect();
    drop(sender);
    println!("sum {}", results.iter().sum::<usize>());
    counters.into_iter().for_each(|thread| thread.join().expect("no panic"));
    println!("dropped {}", DROPPED.load(SeqCst));
    std::panic::set_hook(Box::new(|_| {}));
    let failed = (0..3).filter(|at| {
        let at = *at;
        thread::spawn(move || assert!(at == 1, "told so")).join().is_err()
    });
    println!("failed {}", failed.count());
    let mut words = [0_u8; 3];
    thread::scope(|scope| {
        for word in &mut words {
            scope.spawn(|| *word = 7);
        }
    });
    println!("{words:?}");
}
