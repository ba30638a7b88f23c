//! Unavoidable blocking (uThread, section 2.4): alone in its process, because it adds a worker.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use heddle::thread::{self, Builder};

/// How long the worker stays blocked where it is not compensated for.
const LIMIT: Duration = Duration::from_secs(60);

#[test]
fn a_worker_blocked_in_the_kernel_gets_a_spare() {
    if std::env::var("HEDDLE_BACKEND").as_deref() == Ok("native") {
        return println!("skip: kernel threads block nobody else");
    }
    heddle::Config::new().workers(1).start().unwrap();
    let (mut inside, mut outside) = UnixStream::pair().unwrap();
    inside.set_read_timeout(Some(LIMIT)).unwrap();
    let blocked = Builder::new().role("blocks its worker").spawn(move || {
        // Not heddle's read: the kernel thread waits.
        inside.read_exact(&mut [0]).is_ok()
    });
    let blocked = blocked.unwrap();
    std::thread::sleep(Duration::from_millis(30));
    let others: Vec<_> = (0..4).map(|_| thread::spawn(|| ())).collect();
    others.into_iter().for_each(|thread| thread.join().unwrap());
    let _ = outside.write_all(&[1]);
    let was_blocked = blocked.join().unwrap();
    assert!(was_blocked, "threads that had not started waited for a blocked worker");
}
