//! Signals of the process, received by threads. One binary of its own: they are process-wide.

use heddle::signal::{Signal, Signals, raise};
use heddle::thread;
use std::time::Duration;

#[test]
fn a_signal_wakes_the_thread_that_waits() {
    let signals = Signals::new(&[Signal::USR1, Signal::HUP]).unwrap();
    let waiter = thread::spawn(move || (signals.wait().unwrap(), signals.wait().unwrap()));
    thread::sleep(Duration::from_millis(20));
    raise(Signal::HUP).unwrap();
    thread::sleep(Duration::from_millis(20));
    raise(Signal::USR1).unwrap();
    assert_eq!(waiter.join().unwrap(), (Signal::HUP, Signal::USR1));
}

#[test]
fn waiting_for_a_signal_times_out() {
    let signals = Signals::new(&[Signal::WINCH]).unwrap();
    let waiter = thread::spawn(move || {
        let none = signals.wait_timeout(Duration::from_millis(20)).unwrap();
        raise(Signal::WINCH).unwrap();
        (none, signals.wait_timeout(Duration::from_secs(5)).unwrap(), signals.try_wait())
    });
    assert_eq!(waiter.join().unwrap(), (None, Some(Signal::WINCH), None));
}

#[test]
fn every_receiver_gets_it() {
    let receivers: Vec<_> = (0..3).map(|_| Signals::new(&[Signal::USR2]).unwrap()).collect();
    let waiters: Vec<_> = receivers
        .into_iter()
        .map(|signals| thread::spawn(move || signals.wait().unwrap()))
        .collect();
    raise(Signal::USR2).unwrap();
    assert!(waiters.into_iter().all(|waiter| waiter.join().unwrap() == Signal::USR2));
}

#[test]
fn two_threads_share_a_receiver() {
    let signals = std::sync::Arc::new(Signals::new(&[Signal::ALRM, Signal::CONT]).unwrap());
    let waiters: Vec<_> = (0..2)
        .map(|_| {
            let signals = signals.clone();
            thread::spawn(move || signals.wait().unwrap())
        })
        .collect();
    raise(Signal::ALRM).unwrap();
    raise(Signal::CONT).unwrap();
    let mut got: Vec<_> = waiters.into_iter().map(|waiter| waiter.join().unwrap()).collect();
    got.sort();
    assert_eq!(got, [Signal::ALRM, Signal::CONT]);
}

#[test]
fn what_cannot_be_received_is_refused() {
    assert_eq!(Signal::from_raw(9), None);
    assert_eq!(Signal::from_raw(11), None);
    assert_eq!(Signal::from_raw(0), None);
    assert_eq!(Signal::from_raw(15), Some(Signal::TERM));
    assert!(Signals::new(&[]).is_err());
    // Another test may give a place back at any moment: the first refusal counts.
    let mut many = Vec::new();
    let error = loop {
        match Signals::new(&[Signal::CHLD]) {
            Ok(signals) => many.push(signals),
            Err(error) => break error,
        }
        assert!(many.len() < 100, "receivers without end");
    };
    assert!(error.to_string().contains("signal receivers"));
}
