//! Child processes and pipes.

use heddle::io::pipe;
use heddle::process::{Command, Stdio};
use heddle::thread;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::time::{Duration, Instant};

fn on_thread<T: Send + 'static>(body: impl FnOnce() -> T + Send + 'static) -> T {
    thread::spawn(body).join().unwrap()
}

#[test]
fn status_and_output() {
    on_thread(|| {
        assert!(Command::new("true").status().unwrap().success());
        assert_eq!(Command::new("sh").args(["-c", "exit 7"]).status().unwrap().code(), Some(7));
        let output = Command::new("sh")
            .args(["-c", "echo out; echo err >&2"])
            .env("UNUSED", "1")
            .output()
            .unwrap();
        assert_eq!((&output.stdout[..], &output.stderr[..]), (&b"out\n"[..], &b"err\n"[..]));
        let error = Command::new("/no/such/program").spawn().unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    });
}

#[test]
fn large_outputs_on_both_streams() {
    let script = "head -c 300000 /dev/zero; head -c 300000 /dev/zero >&2";
    let output = on_thread(move || Command::new("sh").args(["-c", script]).output().unwrap());
    assert_eq!((output.stdout.len(), output.stderr.len()), (300_000, 300_000));
}

#[test]
fn waiting_blocks_only_the_thread() {
    let start = Instant::now();
    let sleepers: Vec<_> = (0..10)
        .map(|_| thread::spawn(|| Command::new("sleep").arg("2").status().unwrap()))
        .collect();
    assert!(sleepers.into_iter().all(|sleeper| sleeper.join().unwrap().success()));
    assert!(start.elapsed() < Duration::from_secs(15), "the children ran one by one");
}

#[test]
fn a_wait_times_out_and_goes_on() {
    on_thread(|| {
        let mut child = Command::new("sleep").arg("30").spawn().unwrap();
        assert_eq!(child.wait_timeout(Duration::from_millis(30)).unwrap(), None);
        assert_eq!(child.try_wait().unwrap(), None);
        child.kill().unwrap();
        assert_eq!(child.wait().unwrap().code(), None);
        assert!(child.wait_timeout(Duration::from_millis(1)).unwrap().is_some());
    });
}

#[test]
fn talking_to_a_child() {
    on_thread(|| {
        let mut child =
            Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut input = child.stdin.take().unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        for number in 0..20 {
            writeln!(input, "line {number}").unwrap();
            let mut line = String::new();
            output.read_line(&mut line).unwrap();
            assert_eq!(line, format!("line {number}\n"));
        }
        drop(input);
        assert!(child.wait().unwrap().success());
    });
}

#[test]
fn a_pipe_of_ours_as_a_childs_output() {
    on_thread(|| {
        let (mut reader, writer) = pipe().unwrap();
        let mut child = Command::new("echo").arg("hello").stdout(writer).spawn().unwrap();
        let mut text = [0; 6];
        reader.read_exact(&mut text).unwrap();
        assert_eq!(&text, b"hello\n");
        child.wait().unwrap();
    });
}

#[test]
fn a_full_pipe_blocks_only_its_writer() {
    let (mut reader, mut writer) = pipe().unwrap();
    let sender = thread::spawn(move || {
        (0..200u32).for_each(|number| writer.write_all(&[number as u8; 4096]).unwrap());
    });
    let receiver = thread::spawn(move || {
        thread::sleep(Duration::from_millis(10));
        let mut bytes = Vec::new();
        reader.read_to_end(&mut bytes).unwrap();
        bytes
    });
    sender.join().unwrap();
    let bytes = receiver.join().unwrap();
    assert_eq!(bytes.len(), 200 * 4096);
    assert!(bytes.chunks(4096).zip(0u32..).all(|(chunk, n)| chunk.iter().all(|&b| b == n as u8)));
}

#[test]
fn pipes_time_out() {
    on_thread(|| {
        let (reader, writer) = pipe().unwrap();
        let short = Duration::from_millis(10);
        let error = reader.read_timeout(&mut [0; 4], short).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        let error = loop {
            if let Err(error) = writer.write_timeout(&[0; 65536], short) {
                break error;
            }
        };
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert!(heddle::io::wait_readable(&reader, Some(short)).is_ok());
        let error = heddle::io::wait_writable(&writer, Some(short)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    });
}

/// The child: one worker; a thread reads lines while another counts.
fn read_lines() {
    heddle::Config::new().workers(1).start().unwrap();
    let reader = thread::spawn(|| {
        let mut lines = Vec::new();
        let input = heddle::io::stdin();
        loop {
            let mut line = String::new();
            if input.read_line(&mut line).unwrap() == 0 {
                return lines;
            }
            println!("got {line}");
            lines.push(line);
        }
    });
    let ticker = thread::spawn(|| {
        for _ in 0..3 {
            thread::sleep(Duration::from_millis(1));
            println!("tick");
        }
    });
    ticker.join().unwrap();
    println!("ticked");
    assert_eq!(reader.join().unwrap(), ["one\n", "two\n"]);
}

#[test]
fn standard_input_blocks_only_its_reader() {
    if std::env::var_os("HEDDLE_TEST_CHILD").is_some() {
        return read_lines();
    }
    on_thread(|| {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "standard_input_blocks_only_its_reader", "--nocapture"])
            .env("HEDDLE_TEST_CHILD", "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut input = child.stdin.take().unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut wait_for = |text: &str| {
            let mut line = String::new();
            while !line.contains(text) {
                line.clear();
                assert_ne!(output.read_line(&mut line).unwrap(), 0, "{text}: not said");
            }
        };
        // The reader waits; the other thread goes on all the same.
        wait_for("ticked");
        writeln!(input, "one").unwrap();
        wait_for("got one");
        writeln!(input, "two").unwrap();
        wait_for("got two");
        drop(input);
        assert!(child.wait().unwrap().success());
    });
}

#[test]
fn a_file_as_standard_input() {
    if std::env::var_os("HEDDLE_TEST_CHILD").is_some() {
        return read_lines();
    }
    on_thread(|| {
        let path = std::env::temp_dir().join(format!("heddle-stdin-{}", std::process::id()));
        std::fs::write(&path, "one\ntwo\n").unwrap();
        let status = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "a_file_as_standard_input"])
            .env("HEDDLE_TEST_CHILD", "1")
            .stdin(std::fs::File::open(&path).unwrap())
            .stdout(Stdio::null())
            .status();
        std::fs::remove_file(&path).unwrap();
        assert!(status.unwrap().success());
    });
}
