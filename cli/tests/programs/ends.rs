//! How a program ends, and that it does not begin: status, signals, daemons, refusals.
//!
//! Invariant: whoever waits for `heddle run` learns what waiting for the program would tell.

use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;

use crate::build::{c, cxx};
use crate::support::{Folder, eventually, skip};

#[test]
fn deaths_are_the_programs_own() {
    for how in ["kill", "segv", "abort", "exit", "quick", "term"] {
        let folder = Folder::new(&format!("dies-{how}"));
        let run = |mut command: std::process::Command| {
            command.arg(how);
            folder.run(command)
        };
        let plain = run(folder.plain(c("dies")));
        let under = run(folder.under(&[], c("dies")));
        under.same_as(&plain);
        let report = folder.report();
        assert_eq!(report.created(), 7, "{how}: {}", report.0);
    }
}

#[test]
fn an_exception_that_nobody_catches() {
    let folder = Folder::new("terminate");
    match cxx("cxx_terminate") {
        Err(reason) => skip!("{reason}"),
        Ok(program) => {
            let plain = folder.run(folder.plain(&program));
            folder.run(folder.under(&[], &program)).same_as(&plain);
        }
    }
}

#[test]
fn programs_without_threads() {
    for (script, status) in [("exit 0", 0), ("exit 5", 5), ("exit 255", 255)] {
        let folder = Folder::new(&format!("sh-{status}"));
        let mut command = folder.under(&[], "sh");
        command.args(["-c", script]);
        let ended = folder.run(command);
        assert_eq!(ended.status.code(), Some(status), "{}", ended.errors);
    }
}

#[test]
fn a_program_in_a_group_of_its_own() {
    let folder = Folder::new("group");
    let mut command = folder.under(&[], "setsid");
    command.args(["sh", "-c", "sleep 0.1; echo ended; exit 3"]);
    let ended = folder.run(command);
    assert_eq!((ended.status.code(), ended.output.as_str()), (Some(3), "ended\n"));
}

#[test]
fn what_cannot_be_started() {
    let folder = Folder::new("refused");
    let status = |program: &str| {
        let mut command = folder.under(&[], program);
        command.args(["--flag", "word"]);
        let ended = folder.run(command);
        assert_eq!(ended.output, "");
        assert_eq!(ended.errors.lines().count(), 1, "{}", ended.errors);
        assert!(ended.errors.contains(program), "{}", ended.errors);
        ended.status.code()
    };
    fs::write(folder.path("text"), "no program\n").expect("a file");
    fs::write(folder.path("empty"), "").expect("a file");
    fs::create_dir(folder.path("folder")).expect("a folder");
    let broken = folder.path("broken");
    fs::write(&broken, "#!/nonexistent/interpreter\n").expect("a script");
    fs::set_permissions(&broken, fs::Permissions::from_mode(0o755)).expect("its rights");
    assert_eq!(status("no-such-program-anywhere"), Some(127));
    assert_eq!(status("/nonexistent/program"), Some(127));
    assert_eq!(status("./text"), Some(126));
    assert_eq!(status("./folder"), Some(126));
    // What is neither: as the shell has it.
    for program in ["./text/below", "./broken"] {
        let mut command = folder.plain("sh");
        command.args(["-c", program]);
        assert_eq!(status(program), folder.run(command).status.code(), "{program}");
    }
}

#[test]
fn a_text_without_an_interpreter_runs_as_in_the_shell() {
    let folder = Folder::new("script");
    for (name, text) in [("bare", "echo $1; exit 3\n"), ("with", "#!/bin/sh\necho $1; exit 3\n")] {
        fs::write(folder.path(name), text).expect("a script");
        fs::set_permissions(folder.path(name), fs::Permissions::from_mode(0o755)).expect("rights");
    }
    let mut command = folder.under(&[], "./with");
    command.args(["--word"]);
    let ended = folder.run(command);
    assert_eq!((ended.status.code(), ended.output.as_str()), (Some(3), "--word\n"));
    let mut command = folder.under(&[], "./bare");
    command.args(["--word"]);
    let ended = folder.run(command);
    // A shell would run it; execve says ENOEXEC, and a message with 126 is as good.
    assert!([Some(3), Some(126)].contains(&ended.status.code()), "{}", ended.errors);
}

#[test]
fn a_daemon_lives_on() {
    let folder = Folder::new("daemon");
    let file = folder.path("daemon-says");
    for flags in [&[][..], &["--stacks", "auto"]] {
        let _ = fs::remove_file(&file);
        let mut command = folder.under(flags, c("daemon"));
        command.arg(&file);
        let ended = folder.run_daemon(command).good();
        assert_eq!(ended.output, "sum 2\n");
        eventually("the daemon's file", || fs::read_to_string(&file).is_ok_and(|t| t == "60\n"));
    }
}

/// What the program closes is closed: who waits for the end of its output does not wait for it.
#[test]
fn what_the_program_lets_go_nobody_holds() {
    let folder = Folder::new("lets-go");
    let (go, report) = (folder.path("go"), folder.path("report.json"));
    let (mut output, output_end) = std::io::pipe().expect("a pipe");
    let (mut other, other_end) = std::io::pipe().expect("a pipe");
    let inner = folder.under(&[], c("lets_go"));
    let mut command = folder.plain("sh");
    command.args(["-c", "exec 7<&0 </dev/null; exec \"$@\"", "sh"]);
    command.arg(inner.get_program()).args(inner.get_args()).arg(&go);
    // Standard input is a way to hand a descriptor over; any number above 2 is as good as 7.
    command.stdin(other_end).stdout(output_end).stderr(std::process::Stdio::null());
    let mut child = command.spawn().expect("a shell");
    drop(command);
    let mut text = String::new();
    let ends = std::thread::spawn(move || {
        output.read_to_string(&mut text).expect("text");
        other.read_to_end(&mut Vec::new()).expect("nothing");
        text
    });
    eventually("the pipes' ends", || ends.is_finished());
    let still_runs = child.try_wait().expect("a child of ours").is_none();
    fs::write(&go, "").expect("a file");
    let status = child.wait().expect("a child of ours");
    assert!(still_runs && ends.join().expect("text") == "ready\n");
    assert_eq!(status.code(), Some(21));
    assert_eq!(crate::report::Report::read(&report).created(), 2);
}

/// The report is not lost where standard error is non-blocking and full.
#[test]
fn a_report_waits_for_its_reader() {
    let folder = Folder::new("full-stderr");
    let mut command = folder.plain(env!("CARGO_BIN_EXE_heddle"));
    command.arg("run").arg(c("fills_stderr"));
    let (mut reader, writer) = std::io::pipe().expect("a pipe");
    command.stdout(std::process::Stdio::null()).stderr(writer);
    let mut child = command.spawn().expect("heddle");
    drop(command);
    // Time to lose it.
    std::thread::sleep(std::time::Duration::from_millis(500));
    let mut text = String::new();
    reader.read_to_string(&mut text).expect("text");
    assert_eq!(child.wait().expect("a child of ours").code(), Some(22));
    let report = text.lines().filter(|line| !line.contains("own words")).collect::<Vec<_>>();
    assert!(report.iter().any(|line| line.contains("fills_stderr: 2 threads")), "{report:?}");
    assert!(report.len() > 3, "{report:?}");
}

#[test]
fn words_and_input_pass_through() {
    let folder = Folder::new("words");
    let mut command = folder.under(&[], c("plain_threads"));
    command.args(["--help", "--stacks", "", "two words", "--"]);
    let ended = folder.run(command);
    assert_eq!(ended.output, "sum 56\n--help\n--stacks\n\ntwo words\n--\n");
    assert_eq!(ended.status.code(), Some(12));

    fs::write(folder.path("input"), "through\n").expect("a file");
    let mut command = folder.under(&[], "cat");
    command.stdin(fs::File::open(folder.path("input")).expect("the file"));
    assert_eq!(folder.run(command).good().output, "through\n");
}

#[test]
fn a_report_in_every_form() {
    let folder = Folder::new("forms");
    for form in ["text", "json", "html"] {
        let mut command = folder.plain(env!("CARGO_BIN_EXE_heddle"));
        command.args(["run", "--report", form, "--report-to"]).arg(folder.path(form));
        command.arg("--").arg(c("plain_threads"));
        assert_eq!(folder.run(command).status.code(), Some(12));
        let text = folder.text(form);
        assert!(text.contains("plain_threads") && text.contains("worker"), "{form}: {text}");
    }
    // Without a file the report is the last thing on standard error.
    let mut command = folder.plain(env!("CARGO_BIN_EXE_heddle"));
    command.arg("run").arg(c("plain_threads"));
    let ended = folder.run(command);
    assert_eq!((ended.status.code(), ended.output.as_str()), (Some(12), "sum 56\n"));
    assert!(ended.errors.contains("worker"), "{}", ended.errors);
}

#[test]
fn nothing_stays_in_shared_memory() {
    let folder = Folder::new("tables");
    let tables = || {
        let entries = fs::read_dir("/dev/shm").expect("shared memory");
        let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let ours = names.filter_map(|name| name.strip_prefix("heddle.").map(str::to_owned));
        // Of processes that are gone; other tests have theirs while they run.
        let dead = ours.filter(|pid| fs::metadata(format!("/proc/{pid}")).is_err());
        dead.collect::<Vec<_>>()
    };
    folder.run(folder.under(&[], c("fork_threaded"))).good();
    let own: Vec<String> =
        folder.report().processes().iter().map(|process| process["pid"].to_string()).collect();
    assert!(!own.is_empty());
    assert!(!tables().iter().any(|pid| own.contains(pid)), "left: {own:?}");
}
