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

pub fn full<T: Send + 'static>(body: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    Builder::new().full().spawn(body).unwrap()
}
