//! `heddle top` without a screen, and what it says when it cannot have one.

use std::process::{Command, Output, Stdio};

use serde_json::Value;

fn top(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_heddle"));
    command.arg("top").args(arguments).stdin(Stdio::null()).output().expect("heddle runs")
}

fn stdout(output: &Output) -> &str {
    str::from_utf8(&output.stdout).expect("text")
}

fn stderr(output: &Output) -> &str {
    str::from_utf8(&output.stderr).expect("text")
}

#[test]
fn one_look_has_rates_and_all_threads() {
    let own = std::process::id().to_string();
    let output = top(&["--once", "--json", "--interval", "0.2", "--sort", "id", &own]);
    assert!(output.status.success(), "{}", stderr(&output));
    let whole: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(whole["processes"][0]["source"], "proc");
    let threads = whole["threads"].as_array().expect("threads");
    let main = threads.iter().find(|it| it["tid"] == std::process::id()).expect("the main thread");
    assert!(main["cpu_permille"].is_u64() && main["switches_per_second"].is_u64(), "{main}");
    assert!(main["scheduling"].is_string(), "{main}");
    let ids: Vec<_> = threads.iter().map(|it| it["tid"].as_i64().expect("a tid")).collect();
    assert!(ids.is_sorted(), "{ids:?}");
    assert!(whole["advice"].is_array());
}

#[test]
fn one_look_as_text_is_a_line_per_thread() {
    let own = std::process::id().to_string();
    let output = top(&["--once", "--interval", "0.1", &own]);
    let text = stdout(&output);
    assert!(text.starts_with("     PID     TID/ID  STATE"), "{text}");
    assert!(text.lines().skip(1).all(|line| line.trim_start().starts_with(&own)), "{text}");
    let none = top(&["--once", "--interval", "0.1", "--filter", "no such thread", &own]);
    assert_eq!(stdout(&none).lines().count(), 1);
}

#[test]
fn what_cannot_be_shown_is_one_message() {
    for (arguments, words) in [
        (&["8388608"][..], "there is no process 8388608"),
        (&["--once", "8388608"], "there is no process 8388608"),
        (&["1"], "must be a terminal"),
    ] {
        let output = top(arguments);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        assert_eq!(stderr(&output).lines().count(), 1, "{}", stderr(&output));
        assert!(stderr(&output).contains(words), "{}", stderr(&output));
    }
    for wrong in [&["--json"][..], &["--interval", "0"], &["--interval", "x"], &["0"]] {
        assert_eq!(top(wrong).status.code(), Some(2), "{wrong:?}");
    }
}

/// Runs `heddle top` at a terminal of its own, changes the terminal's size, then presses q or sends
/// SIGTERM; prints what was shown, and ends with the command's status. Every wait has an end.
const DRIVER: &str = r#"
import fcntl, os, pty, select, signal, struct, sys, termios, time
heddle, watched, act = sys.argv[1:]
pid, terminal = pty.fork()
if pid == 0:
    os.environ["TERM"] = "xterm"
    time.sleep(0.2)
    os.execv(heddle, ["heddle", "top", watched])
size = lambda rows, columns: fcntl.ioctl(
    terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
size(24, 80)
shown, end, done, resized = b"", time.time() + 40, False, 0
while time.time() < end:
    if select.select([terminal], [], [], 0.05)[0]:
        try:
            shown += os.read(terminal, 65536)
        except OSError:
            break
    if not resized and b"PEAK/SIZE" in shown:
        size(10, 60)
        resized = time.time()
    if resized and not done and time.time() > resized + 0.5:
        done = True
        os.write(terminal, b"q") if act == "q" else os.kill(pid, signal.SIGTERM)
found, state = os.waitpid(pid, 0 if done else os.WNOHANG)
if not found:
    os.kill(pid, 9)
    sys.exit("it does not end: %r" % shown)
sys.stdout.buffer.write(shown)
sys.exit(os.waitstatus_to_exitcode(state))
"#;

#[test]
fn the_terminal_is_given_back_after_q_and_after_a_signal() {
    for act in ["q", "TERM"] {
        let own = std::process::id().to_string();
        let mut python = Command::new("python3");
        python.args(["-c", DRIVER, env!("CARGO_BIN_EXE_heddle"), &own, act]);
        let output = match python.stdin(Stdio::null()).output() {
            Ok(output) if stderr(&output).contains("ModuleNotFoundError") => {
                eprintln!("skip: this python3 has no terminals");
                return;
            }
            Ok(output) => output,
            Err(error) => {
                eprintln!("skip: there is no python3: {error}");
                return;
            }
        };
        let text = String::from_utf8_lossy(&output.stdout);
        assert_eq!(output.status.code(), Some(0), "{act}: {text:?} {}", stderr(&output));
        let (enter, leave) = (text.find("\x1b[?1049h"), text.rfind("\x1b[?1049l"));
        assert!(enter.is_some() && enter < leave, "{act}: {text:?}");
        assert!(text.contains("PEAK/SIZE") && text.contains("q quit"), "{act}: {text:?}");
    }
}

#[test]
#[cfg(all(target_arch = "x86_64", target_env = "gnu"))]
fn a_time_critical_thread_that_waits_for_a_lazy_one_is_told() {
    use std::io::{BufRead, BufReader};

    let folder = std::env::temp_dir().join(format!("heddle-top-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let (program, policy) = (folder.join("lock"), folder.join("policy.toml"));
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/top_lock.c");
    match Command::new("cc").args(["-pthread", "-o"]).arg(&program).arg(source).status() {
        Ok(status) => assert!(status.success(), "the test's program does not compile"),
        Err(error) => {
            eprintln!("skip: no C compiler: {error}");
            return;
        }
    }
    let rule = "[mediator]\nmeans = 'none'\n[[thread]]\nname = 'critical'\npriority = 70\n";
    std::fs::write(&policy, rule).expect("a file");
    let mut run = Command::new(env!("CARGO_BIN_EXE_heddle"))
        .args(["run", "--report", "none", "--policy"])
        .args([&policy, &program])
        .env("XDG_STATE_HOME", &folder)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("heddle runs");
    let mut line = String::new();
    let read = BufReader::new(run.stdout.take().expect("a pipe")).read_line(&mut line);
    let children = format!("/proc/{0}/task/{0}/children", run.id());
    let children = std::fs::read_to_string(children).unwrap_or_default();
    let child = children.split_whitespace().next().unwrap_or("0");
    let output = top(&["--once", "--interval", "0.1", child]);
    let _ = Command::new("kill").args(["-9", child]).status();
    run.kill().expect("it ends");
    run.wait().expect("it ended");
    std::fs::remove_dir_all(&folder).expect("cleaned up");
    assert!(read.is_ok() && line == "ready\n", "{line}");
    let text = stdout(&output);
    let words = "time-critical, waits for a lock that the lazy thread holder (";
    assert!(text.contains(words), "{text} {}", stderr(&output));
}
