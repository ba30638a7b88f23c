//! Threads of interpreters and virtual machines: python3, a JVM, node's workers.
//!
//! Invariant: what they print and how they end is that of a plain run.

use std::path::PathBuf;
use std::process::Command;

use crate::report::Report;
use crate::support::{Folder, find, skip, source};

const PYTHON: &str = "\
import threading, queue, sys
jobs, results = queue.Queue(), queue.Queue()
def work():
    while (job := jobs.get()) is not None:
        results.put(sum(range(job)))
threads = [threading.Thread(target=work, name=f'worker {at}') for at in range(8)]
[thread.start() for thread in threads]
[jobs.put(job) for job in range(500)]
[jobs.put(None) for _ in threads]
[thread.join() for thread in threads]
print(sum(results.get() for _ in range(500)))
def deep(at): return 0 if at == 0 else deep(at - 1) + 1
thread = threading.Thread(target=lambda: print(deep(800)))
thread.start(); thread.join()
import subprocess
print(subprocess.run(['sh', '-c', 'exit 4']).returncode)
print(sorted(name for name in __import__('os').environ if 'PRELOAD' in name))
sys.exit(19)
";

const NODE: &str = "\
const { Worker, isMainThread, parentPort, workerData } = require('worker_threads');
const crypto = require('crypto');
const source = `
  const { parentPort, workerData } = require('worker_threads');
  let sum = 0;
  for (let at = 0; at < 1e6; at++) sum += at % workerData;
  const deep = at => at === 0 ? 0 : deep(at - 1) + 1;
  parentPort.postMessage(sum + deep(5000));
`;
let sums = 0, left = 4, hashes = 8;
const end = () => { if (left + hashes === 0) { console.log(sums); process.exit(23); } };
for (let at = 1; at <= 4; at++) {
  const worker = new Worker(source, { eval: true, workerData: at + 2 });
  worker.on('message', sum => { sums += sum; });
  worker.on('exit', () => { left--; end(); });
}
for (let at = 0; at < 8; at++)
  crypto.pbkdf2('secret', 'salt', 1000, 32, 'sha256', () => { hashes--; end(); });
";

/// The same plainly, observed and tuned; gives the observed report.
fn same(name: &str, program: &PathBuf, words: &[&str], status: i32) -> Report {
    let folder = Folder::new(name);
    let run = |mut command: Command| {
        folder.run({
            command.args(words);
            command
        })
    };
    let plain = run(folder.plain(program));
    assert_eq!(plain.status.code(), Some(status), "{}{}", plain.output, plain.errors);
    run(folder.under(&[], program)).same_as(&plain);
    let observed = folder.report();
    observed.check();
    run(folder.under(&["--stacks", "auto"], program)).same_as(&plain);
    let tuned = folder.report();
    tuned.check();
    assert!(tuned.reserved() <= observed.reserved());
    observed
}

#[test]
fn python() {
    let Some(program) = find("python3") else { skip!("python3 is not installed") };
    let report = same("python", &program, &["-c", PYTHON], 19);
    assert!(report.created() >= 9, "{}", report.0);
    // One trampoline of the interpreter starts them all.
    assert!(!report.told("thread").is_empty(), "{}", report.0);
}

#[test]
fn java() {
    let (Some(program), Some(_)) = (find("java"), find("javac")) else {
        skip!("java or its compiler is not installed and could not be")
    };
    let script = source("java/Threads.java").display().to_string();
    let words = ["-XX:+UseParallelGC", "-XX:TieredStopAtLevel=1", "-Xmx64m", &script];
    let report = same("java", &program, &words, 17);
    assert!(report.created() >= 15, "{}", report.0);
    // One function starts Java's threads; their names tell them apart.
    report.told("GC Thread");
    report.told("deep");
}

#[test]
fn node() {
    let Some(program) = find("node").or_else(|| find("nodejs")) else {
        skip!("node is not installed and could not be");
    };
    let report = same("node", &program, &["-e", NODE], 23);
    assert!(report.created() >= 8, "{}", report.0);
}
