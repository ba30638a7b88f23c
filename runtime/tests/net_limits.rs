//! Descriptors run out: the call that needed one says so, and the process goes on. In a child
//! process, which has the limit for itself.

use heddle::io::pipe;
use heddle::net::{TcpListener, TcpStream};
use heddle::process::Command;
use heddle::thread;
use std::io::{self, Read, Write};
use std::time::Duration;

/// Descriptors that there may be above those of the runtime: each worker has some.
const MORE: u64 = 32;

#[test]
fn descriptors_run_out() {
    if std::env::var_os("HEDDLE_TEST_CHILD").is_some() {
        return child();
    }
    let this = std::env::current_exe().unwrap();
    let output = std::process::Command::new(this)
        .args(["--exact", "descriptors_run_out", "--nocapture"])
        .env("HEDDLE_TEST_CHILD", "1")
        .output()
        .unwrap();
    let (out, err) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{out}\n{err}");
    assert!(out.contains("went on"), "{out}\n{err}");
}

fn is_exhausted(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::EMFILE)
}

fn highest_descriptor() -> u64 {
    let entries = std::fs::read_dir("/proc/self/fd").unwrap();
    let numbers = entries.map(|entry| entry.unwrap().file_name().to_string_lossy().parse());
    numbers.map(|number| number.expect("a number")).max().expect("the one that reads them")
}

/// Those included that the runtime has for a moment.
fn take_all_descriptors() -> Vec<std::fs::File> {
    let (mut files, mut refused) = (Vec::new(), 0);
    while refused < 20 {
        match std::fs::File::open("/dev/null") {
            Ok(file) => {
                files.push(file);
                refused = 0;
            }
            Err(error) => {
                assert!(is_exhausted(&error), "{error}");
                refused += 1;
                thread::sleep(Duration::from_millis(1));
            }
        }
    }
    files
}

fn child() {
    // The runtime takes what it needs first.
    thread::spawn(|| ()).join().unwrap();
    heddle::blocking(|| ());
    let most = highest_descriptor() + 1 + MORE;
    let limit = libc::rlimit { rlim_cur: most, rlim_max: most };
    // SAFETY: a valid limit.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) }, 0);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();

    let body = move || {
        let mut waiting = TcpStream::connect(address).unwrap();
        let hoard = take_all_descriptors();
        listener.set_accept_timeout(Some(Duration::from_secs(10))).unwrap();
        assert!(is_exhausted(&listener.accept().unwrap_err()));
        assert!(is_exhausted(&listener.accept().unwrap_err()));
        assert!(is_exhausted(&TcpStream::connect(address).unwrap_err()));
        assert!(is_exhausted(&TcpListener::bind("127.0.0.1:0").unwrap_err()));
        assert!(is_exhausted(&pipe().unwrap_err()));
        assert!(is_exhausted(&heddle::fs::File::open("/dev/null").unwrap_err()));
        assert!(is_exhausted(&heddle::fs::read_dir("/").unwrap_err()));
        assert!(is_exhausted(&waiting.try_clone().unwrap_err()));
        assert!(Command::new("true").output().is_err());
        assert!(heddle::signal::Signals::new(&[heddle::signal::Signal::USR1]).is_err());

        drop(hoard);
        // The connection that could not be accepted is still there.
        let (mut stream, _) = listener.accept().unwrap();
        waiting.write_all(b"still here").unwrap();
        let mut text = [0; 10];
        stream.read_exact(&mut text).unwrap();
        assert_eq!(&text, b"still here");
        assert!(Command::new("true").status().unwrap().success());
    };
    thread::spawn(body).join().unwrap();
    println!("went on");
}
