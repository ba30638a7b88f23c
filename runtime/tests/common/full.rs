//! Full threads for tests, where there are any.

use heddle::thread::{Builder, JoinHandle};

/// A full thread; `None`, said once, where there can't be one.
pub fn try_full<T: Send + 'static>(
    body: impl FnOnce() -> T + Send + 'static,
) -> Option<JoinHandle<T>> {
    match Builder::new().full().spawn(body) {
        Ok(handle) => Some(handle),
        Err(error) => {
            assert_eq!(error.kind(), std::io::ErrorKind::Unsupported, "{error}");
            println!("skip: {error}");
            None
        }
    }
}

/// Starts the runtime as `config` says, if it does not run; false, said once, where full threads
/// are not preempted by it.
#[allow(dead_code, reason = "not every test needs it")]
pub fn need_preemption(config: heddle::Config) -> bool {
    let _ = config.start();
    let Some(handle) = try_full(|| ()) else { return false };
    handle.join().unwrap();
    let checks = heddle::doctor::examine();
    let check = checks.iter().find(|check| check.name == "preemption").unwrap();
    if check.verdict != heddle::doctor::Verdict::Good {
        println!("skip: no preemption: {}", check.value);
        return false;
    }
    if std::env::var("HEDDLE_BACKEND").as_deref() == Ok("native") {
        println!("skip: the kernel preempts kernel threads");
        return false;
    }
    true
}

#[allow(dead_code, reason = "not every test needs it")]
pub fn full<T: Send + 'static>(body: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    Builder::new().full().spawn(body).unwrap()
}
