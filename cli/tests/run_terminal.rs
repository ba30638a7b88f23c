//! `heddle run` at a terminal: keys reach the program once, and job control works.
//!
//! A session with a terminal of its own is made by python3, whose library has what that takes;
//! without it the tests are skipped. Every wait in it has an end.

#[path = "run_common/mod.rs"]
mod common;

use std::process::Command;

use common::{Scratch, stderr, stdout};

/// Runs a command at a terminal. Further arguments are pairs: a text to wait for, and keys to
/// press then. Prints all that was shown, and ends with the command's status.
const DRIVER: &str = r#"
import os, pty, select, signal, sys, time
command, steps = sys.argv[1], sys.argv[2:]
pid, terminal = pty.fork()
if pid == 0:
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGTSTP):
        signal.signal(number, signal.SIG_DFL)
    os.execvp("sh", ["sh", "-c", command])
shown, looked, end = b"", 0, time.time() + 60
def look():
    global shown
    if select.select([terminal], [], [], 0.05)[0]:
        try:
            shown += os.read(terminal, 4096)
        except OSError:
            return False
    return time.time() < end
for text, keys in zip(steps[::2], steps[1::2]):
    while shown.find(text.encode(), looked) < 0:
        if not look():
            sys.exit("no %r in %r" % (text, shown))
    looked = shown.find(text.encode(), looked) + len(text)
    os.write(terminal, keys.encode().decode("unicode_escape").encode())
while look():
    pass
sys.stdout.buffer.write(shown)
status = None
while status is None and time.time() < end:
    found, state = os.waitpid(pid, os.WNOHANG)
    status = os.waitstatus_to_exitcode(state) if found else time.sleep(0.02)
if status is None:
    os.kill(pid, 9)
    sys.exit("it does not end: %r" % shown)
sys.exit(status)
"#;

/// What the terminal showed, and the status; none if there is no python3.
fn session(scratch: &Scratch, command: &str, steps: &[(&str, &str)]) -> Option<(String, i32)> {
    let driver = scratch.file("driver.py", DRIVER);
    let mut python = Command::new("python3");
    python.arg(driver).arg(command);
    for (text, keys) in steps {
        python.args([text, keys]);
    }
    match scratch.environment(&mut python).output() {
        Ok(output) if stderr(&output).contains("ModuleNotFoundError") => {
            eprintln!("skip: this python3 has no terminals");
            None
        }
        Ok(output) => {
            let shown = stdout(&output) + &stderr(&output);
            Some((shown, output.status.code().unwrap_or(-1)))
        }
        Err(error) => {
            eprintln!("skip: there is no python3: {error}");
            None
        }
    }
}

#[test]
fn the_interrupt_key_arrives_once() {
    let scratch = Scratch::new("interrupt");
    // After the first one, time for a second one, if there were one.
    let program = scratch.file(
        "count.sh",
        "n=0; trap 'n=$((n+1)); echo interrupt $n' INT\n\
         echo ready; i=0; while [ $n = 0 ] && [ $i -lt 600 ]; do sleep 0.05; i=$((i+1)); done\n\
         sleep 0.3; sleep 0.1; echo sum $n; exit 4\n",
    );
    let heddle = env!("CARGO_BIN_EXE_heddle");
    let command = format!("exec {heddle} run --report none sh {program}");
    let Some((shown, status)) = session(&scratch, &command, &[("ready", "\\x03")]) else { return };
    assert!(shown.contains("interrupt 1") && shown.contains("sum 1"), "{shown}");
    assert_eq!(status, 4, "{shown}");
}

#[test]
fn a_job_is_stopped_and_goes_on() {
    let scratch = Scratch::new("job");
    let program = scratch.file("job.sh", "echo ready; read line; echo got $line; exit 6\n");
    let heddle = env!("CARGO_BIN_EXE_heddle");
    let start = format!("{heddle} run --report none sh {program}\\n");
    // What is typed is shown as well: texts to wait for are written so that they differ from it.
    let steps = [
        ("", "echo be''gin\\n"),
        ("begin", start.as_str()),
        ("ready", "\\x1a"),
        ("topped", "jobs; echo li''sted\\n"),
        ("listed", "fg\\n"),
        ("run --report none", "word\\n"),
        ("got word", "echo status $?; exit 3\\n"),
        ("status 6", ""),
    ];
    let Some((shown, status)) = session(&scratch, "exec sh -i", &steps) else { return };
    assert_eq!(status, 3, "{shown}");
}

/// What a job was stopped by is told to the shell, be it the terminal or itself. It is continued
/// once.
#[test]
fn a_job_stops_by_the_signal_that_stopped_it() {
    let scratch = Scratch::new("stopped");
    let program = scratch.file(
        "stops.sh",
        // It starts nothing when the key comes: a shell that is about to start one, by vfork, can't
        // stop before that one has.
        "n=0; trap 'n=$((n+1)); echo continued $n' CONT; sleep 30 & \n\
         [ $1 = key ] && echo ready || kill -$1 $$\n\
         while [ $n = 0 ]; do wait; done; kill $!\n\
         sleep 0.3; sleep 0.1; echo sum $n; exit 7\n",
    );
    let heddle = env!("CARGO_BIN_EXE_heddle");
    for (by, keys, status) in [("STOP", "", 147), ("TSTP", "", 148), ("key", "\\x1a", 148)] {
        let start = format!("{heddle} run --report none sh {program} {by}\\n");
        let stopped = format!("stopped {status}");
        let steps = [
            ("", "echo be''gin\\n"),
            ("begin", start.as_str()),
            (if by == "key" { "ready" } else { "run --report none" }, keys),
            ("topped", "echo stop''ped $?\\n"),
            (&stopped, "fg\\n"),
            ("sum", "echo status $?; exit 3\\n"),
            ("status 7", ""),
        ];
        let Some((shown, status)) = session(&scratch, "exec sh -i", &steps) else { return };
        assert_eq!(status, 3, "{by}: {shown}");
        assert!(shown.contains("sum 1"), "{by}: {shown}");
    }
}
