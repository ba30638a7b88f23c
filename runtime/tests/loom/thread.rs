//! Park and join, from `src`.

#[path = "../../src/thread/join.rs"]
pub mod join;
#[path = "../../src/thread/park.rs"]
pub mod park;

pub fn yield_now() {
    loom::thread::yield_now();
}
