//! A full thread that wakes does not interrupt one that computes and is of a more urgent group.

use std::time::{Duration, Instant};

use common::need_preemption;
use heddle::Group;
use heddle::thread::Builder;

#[path = "common/full.rs"]
mod common;

const SLICE: Duration = Duration::from_secs(60);
const NAP: Duration = Duration::from_millis(300);
const WORK: Duration = Duration::from_millis(900);

#[test]
fn one_of_a_less_urgent_group_waits_for_the_slice() {
    if !need_preemption(heddle::Config::new().workers(1).slice(Some(SLICE))) {
        return;
    }
    let nap = || {
        let wake = Instant::now() + NAP;
        heddle::thread::sleep(NAP);
        (wake, Instant::now())
    };
    let work = || {
        let begin = Instant::now();
        while begin.elapsed() < WORK {}
        (begin, Instant::now())
    };
    for _ in 0..10 {
        let naps = Builder::new().full().group(Group::Background).spawn(nap).unwrap();
        let works = Builder::new().full().group(Group::Urgent).spawn(work).unwrap();
        let ((wake, awake), (begin, end)) = (naps.join().unwrap(), works.join().unwrap());
        if begin < wake && end > wake {
            return assert!(awake > end, "{:?} too early", end - awake);
        }
        // The machine was so busy that they did not meet.
    }
    println!("skip: the machine is too busy");
}
