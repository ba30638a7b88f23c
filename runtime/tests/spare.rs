//! Unavoidable blocking (uThread, section 2.4): alone in its process, because it adds a worker.

use std::time::{Duration, Instant};

use heddle::thread::{self, Builder};

#[test]
fn a_worker_blocked_in_the_kernel_gets_a_spare() {
    if std::env::var("HEDDLE_BACKEND").as_deref() == Ok("native") {
        return println!("skip: kernel threads block nobody else");
    }
    heddle::Config::new().workers(1).start().unwrap();
    let blocked = Builder::new().role("blocks its worker").spawn(|| {
        // Not heddle's sleep: the kernel thread sleeps.
        std::thread::sleep(Duration::from_millis(400));
        Instant::now()
    });
    let blocked = blocked.unwrap();
    std::thread::sleep(Duration::from_millis(30));
    let others: Vec<_> = (0..4).map(|_| thread::spawn(Instant::now)).collect();
    let ran = others.into_iter().map(|thread| thread.join().unwrap()).max().unwrap();
    let until = blocked.join().unwrap();
    assert!(ran < until, "threads that had not started waited for a blocked worker");
}
