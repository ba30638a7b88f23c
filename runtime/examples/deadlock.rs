//! Two threads wait for each other's end of a semaphore pair: what heddle says about it.
//!
//! Prints the deadlock report, and ends after a minute by an alarm signal.

use heddle::sync::Semaphore;
use heddle::thread::Builder;
use std::sync::Arc;

fn main() {
    // SAFETY: plain libc call; the default action of SIGALRM ends the process.
    unsafe { libc::alarm(60) };
    let never = Arc::new(Semaphore::new(0));
    let threads: Vec<_> = ["philosopher", "other philosopher"]
        .into_iter()
        .map(|role| {
            let never = never.clone();
            Builder::new().role(role).spawn(move || never.acquire()).unwrap()
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}
