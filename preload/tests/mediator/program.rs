//! The program under test, `tests/programs/regions.c`, as a child of ours.
//!
//! Invariant: it is told one thing at a time, and ends with this value.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

use heddle_preload::sys::sched::{self, Scheduling};

const PATIENCE: Duration = Duration::from_secs(60);

/// The program under test, compiled once.
fn program() -> Option<&'static PathBuf> {
    static PROGRAM: OnceLock<Option<PathBuf>> = OnceLock::new();
    let build = || {
        let folder = std::env::temp_dir().join(format!("heddle-mediator-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let output = folder.join("regions");
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs/regions.c");
        let mut cc = Command::new("cc");
        cc.args(["-O1", "-pthread", "-o"]).arg(&output).arg(source);
        cc_status(&mut cc).then_some(output)
    };
    PROGRAM.get_or_init(build).as_ref()
}

fn cc_status(command: &mut Command) -> bool {
    match command.status() {
        Ok(status) => {
            assert!(status.success(), "the test's program does not compile");
            true
        }
        Err(error) => {
            eprintln!("skip: no C compiler: {error}");
            false
        }
    }
}

pub struct Program {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

/// Makes this thread's nice value 0, which its children inherit: the tests count from there, and
/// may be run under nice(1).
fn begin_at_zero() -> bool {
    let own = sched::get(0).expect("our own");
    let result = sched::set(0, &Scheduling { nice: 0, ..own });
    if let Err(error) = &result {
        println!("skip: started with a nice value of {}: {error}", own.nice);
    }
    result.is_ok()
}

impl Program {
    pub fn start(prefix: &[&str]) -> Option<Program> {
        let path = program().filter(|_| begin_at_zero())?.to_str().expect("a plain path");
        let words = [prefix, &[path, "3"]].concat();
        let mut child = Command::new(words[0])
            .args(&words[1..])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let input = child.stdin.take().expect("a pipe");
        let output = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut program = Program { child, input, output };
        assert_eq!(program.line(), "ready");
        wait("names", || {
            let named = program.named("hog").len() == 3 && program.named("critical").len() == 1;
            named.then_some(())
        });
        Some(program)
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).expect("an answer");
        line.trim_end().to_owned()
    }

    pub fn say(&mut self, command: &str) -> i32 {
        writeln!(self.input, "{command}").expect("it listens");
        self.line().parse().expect("a number")
    }

    pub fn pid(&self) -> i32 {
        self.child.id() as i32
    }

    pub fn threads(&self) -> BTreeMap<i32, (String, Scheduling)> {
        let entries = std::fs::read_dir(format!("/proc/{}/task", self.pid())).expect("it lives");
        let tids = entries.filter_map(|it| it.ok()?.file_name().to_str()?.parse().ok());
        let look = |tid| {
            let comm = format!("/proc/{}/task/{tid}/comm", self.pid());
            let name = std::fs::read_to_string(comm).ok()?.trim_end().to_owned();
            Some((tid, (name, sched::get(tid).ok()?)))
        };
        tids.filter_map(look).collect()
    }

    pub fn named(&self, name: &str) -> Vec<Scheduling> {
        let threads = self.threads().into_values();
        threads.filter(|(it, _)| it == name).map(|(_, it)| it).collect()
    }

    /// Waits until all threads of a name have this policy.
    pub fn wait_for(&self, name: &str, policy: u32) {
        wait(&format!("{name} to get policy {policy}"), || {
            let all = self.named(name);
            (!all.is_empty() && all.iter().all(|it| it.policy == policy)).then_some(())
        });
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub fn wait<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begin = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begin.elapsed() < PATIENCE, "waited in vain for {what}");
        thread::sleep(Duration::from_millis(5));
    }
}
