//! What a program finds around itself, and the ways in which it locks itself in.
//!
//! Invariant: the environment, the rights and the limits that a program sees are its own.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::PathBuf;
use std::process::Command;

use crate::build::{c, fixed, library};
use crate::support::{Folder, find, is_root, skip};

const NOBODY: u32 = 65534;

#[test]
fn everything_inherited_is_as_without_heddle() {
    let folder = Folder::new("inherited");
    let run = |mut command: Command| {
        command.args(["one", "--two"]).env("STRANGE", "a=b\nc").env("EMPTY", "");
        folder.run(command)
    };
    let plain = run(folder.plain(c("inherited")));
    run(folder.under(&[], c("inherited"))).same_as(&plain);
    run(folder.under(&["--stacks", "auto"], c("inherited"))).same_as(&plain);
}

/// What nohup and daemons' starters do to a program, they do to this one.
#[test]
fn ignored_signals_and_closed_descriptors_are_inherited() {
    let folder = Folder::new("inherited-more");
    for setting in ["trap '' HUP INT PIPE USR1", "exec 0<&-", "exec 5</dev/null", "ulimit -n 64"] {
        let run = |command: Command| {
            let mut shell = folder.plain("sh");
            shell.args(["-c", &format!("{setting}; exec \"$@\""), "sh"]);
            folder.run({
                shell.arg(command.get_program()).args(command.get_args());
                shell
            })
        };
        let plain = run(folder.plain(c("inherited")));
        assert!(plain.status.success(), "{plain:?}");
        run(folder.under(&[], c("inherited"))).same_as(&plain);
    }
}

/// Some parents forget to unblock what they blocked for themselves.
#[test]
fn blocked_signals_are_inherited_and_hold_nobody_up() {
    let folder = Folder::new("blocked");
    let run = |command: Command| {
        let mut blocking = folder.plain(c("block_exec"));
        blocking.arg(find_in(&command)).args(command.get_args());
        folder.run(blocking)
    };
    let plain = run(folder.plain(c("inherited")));
    assert!(plain.output.contains("signal 17: blocked 1"), "{}", plain.output);
    run(folder.under(&[], c("inherited"))).same_as(&plain);
    // Nothing but its end tells that this one ends: it has no table to look at.
    match fixed("plain_threads") {
        Err(reason) => skip!("{reason}"),
        Ok(program) => run(folder.under(&[], &program)).same_as(&run(folder.plain(&program))),
    }
}

/// A command's program, for who does not search.
fn find_in(command: &Command) -> PathBuf {
    let program = command.get_program();
    program.to_str().and_then(find).unwrap_or_else(|| program.into())
}

#[test]
fn a_reader_that_goes_away_ends_the_program_as_before() {
    let folder = Folder::new("pipe");
    let run = |command: Command| {
        let mut shell = folder.plain("bash");
        shell.args(["-c", "\"$@\" | true; echo ${PIPESTATUS[0]}", "bash"]);
        shell.arg(command.get_program()).args(command.get_args());
        folder.run(shell).output
    };
    if find("bash").is_none() {
        skip!("bash is not installed: the status of a pipe's first part is not to be had");
    }
    // `yes` writes for ever.
    let plain = run(folder.plain("yes"));
    assert_eq!(plain, "141\n");
    assert_eq!(run(folder.under(&[], "yes")), plain);
}

#[test]
fn a_preload_of_the_programs_own_stays() {
    let folder = Folder::new("own-preload");
    let own = library("own_preload");
    let run = |mut command: Command| {
        command.env("LD_PRELOAD", &own);
        folder.run(command)
    };
    let plain = run(folder.plain(c("with_preload")));
    assert!(plain.output.contains("counted 6\n"), "{}", plain.output);
    run(folder.under(&[], c("with_preload"))).same_as(&plain);
    assert_eq!(folder.report().created(), 6, "{}", folder.report().0);
    // One that is not there makes the loader complain in either case, and no more than that.
    let run = |mut command: Command| {
        folder.run({
            command.env("LD_PRELOAD", "/nonexistent/own.so");
            command
        })
    };
    let plain = run(folder.plain(c("plain_threads")));
    let under = run(folder.under(&[], c("plain_threads")));
    assert_eq!((&under.output, under.status), (&plain.output, plain.status));
    assert_eq!(folder.report().created(), 8);
}

#[test]
fn a_filter_on_system_calls() {
    for when in ["before", "after"] {
        let folder = Folder::new(&format!("seccomp-{when}"));
        let run = |mut command: Command| {
            command.arg(when);
            folder.run(command)
        };
        let plain = run(folder.plain(c("seccomp")));
        if !plain.status.success() {
            skip!("the program itself cannot confine itself here: {}", plain.errors);
        }
        run(folder.under(&[], c("seccomp"))).same_as(&plain);
        let report = folder.report();
        assert_eq!(report.created(), if when == "after" { 23 } else { 20 }, "{}", report.0);
        run(folder.under(&["--stacks", "auto"], c("seccomp"))).same_as(&plain);
    }
}

/// A process further down makes its table at its first thread, which the filter may not allow.
#[test]
fn a_filter_in_a_process_further_down() {
    let folder = Folder::new("seccomp-deep");
    for when in ["before", "after"] {
        let script = format!("{} {when}; echo ended with $?", c("seccomp").display());
        let run = |mut command: Command| {
            command.args(["-c", &script]);
            folder.run(command)
        };
        let plain = run(folder.plain("sh"));
        if !plain.output.contains("ended with 0") {
            skip!("the program itself cannot confine itself here: {}", plain.errors);
        }
        run(folder.under(&[], "sh")).same_as(&plain);
    }
}

/// A sandbox sets a filter up and starts what it guards: the library finds itself confined.
#[test]
fn a_filter_that_was_there_before() {
    let folder = Folder::new("seccomp-exec");
    let sandbox = match fixed("seccomp") {
        Ok(program) => program,
        Err(reason) => skip!("{reason}"),
    };
    let script = "\"$@\"; echo ended with $?";
    let run = |mut command: Command| {
        command.args(["-c", script, "sh"]).arg(&sandbox).arg("exec").arg(c("plain_threads"));
        folder.run(command)
    };
    let plain = run(folder.plain("sh"));
    if !plain.output.contains("ended with 12") {
        skip!("the program itself cannot confine itself here: {plain:?}");
    }
    run(folder.under(&[], "sh")).same_as(&plain);
    run(folder.under(&["--stacks", "auto"], "sh")).same_as(&plain);
}

#[test]
fn another_root_folder() {
    if !is_root() {
        skip!("not root: cannot change the root folder");
    }
    let folder = Folder::new("chroot");
    let inside = match fixed("seccomp") {
        Ok(program) => program,
        Err(reason) => skip!("{reason}"),
    };
    let root = folder.path("root");
    fs::create_dir(&root).expect("a folder");
    fs::copy(inside, root.join("inside")).expect("a copy");
    let run = |mut command: Command| {
        command.arg(&root);
        folder.run(command)
    };
    let plain = run(folder.plain(c("chroot")));
    assert!(plain.status.success(), "{plain:?}");
    for flags in [&[][..], &["--stacks", "auto"]] {
        run(folder.under(flags, c("chroot"))).same_as(&plain);
        assert!(folder.report().created() >= 7, "{}", folder.report().0);
    }
}

#[test]
fn strict_mode_in_a_thread() {
    let folder = Folder::new("strict");
    let plain = folder.run(folder.plain(c("seccomp_strict")));
    folder.run(folder.under(&[], c("seccomp_strict"))).same_as(&plain);
    assert_eq!(folder.report().created(), 7);
}

#[test]
fn a_program_that_gives_up_root() {
    if !is_root() {
        skip!("not root: there is nothing to give up");
    }
    let folder = Folder::new("change-user");
    let plain = folder.run(folder.plain(c("change_user")));
    let under = folder.run(folder.under(&[], c("change_user")));
    under.same_as(&plain);
    folder.report().check();
    assert!(folder.report().created() >= 11, "{}", folder.report().0);
}

/// What an ordinary user needs of a test: heddle, a program and a place for profiles.
struct Ordinary {
    folder: Folder,
    heddle: PathBuf,
    program: PathBuf,
}

impl Ordinary {
    /// None with a printed reason where this cannot be.
    fn new(test: &str) -> Option<Self> {
        let reason = match (is_root(), find("setpriv")) {
            (false, _) => "not root: cannot become another user",
            (_, None) => "setpriv is not installed",
            _ => "",
        };
        if !reason.is_empty() {
            println!("skip: {reason}");
            return None;
        }
        let folder = Folder::new(test);
        let (heddle, program) = (folder.path("heddle"), folder.path("program"));
        fs::copy(env!("CARGO_BIN_EXE_heddle"), &heddle).expect("a copy of heddle");
        fs::copy(c("plain_threads"), &program).expect("a copy of the program");
        for (name, mode) in [("", 0o755), ("state", 0o755)] {
            let path = folder.path(name);
            fs::create_dir_all(&path).expect("a folder");
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("its rights");
            chown(&path, Some(NOBODY), Some(NOBODY)).expect("its owner");
        }
        Some(Self { folder, heddle, program })
    }

    fn command(&self, words: &[OsString]) -> Command {
        let mut command = self.folder.plain("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--"]).args(words);
        command
    }

    fn under(&self, flags: &[&str]) -> Command {
        let report = self.folder.path("report.json");
        let mut words: Vec<OsString> = vec![self.heddle.clone().into(), "run".into()];
        words.extend(["--report", "json", "--report-to"].map(OsString::from));
        words.push(report.into());
        words.extend(flags.iter().map(OsString::from));
        words.push(self.program.clone().into());
        self.command(&words)
    }
}

#[test]
fn an_ordinary_user() {
    let Some(user) = Ordinary::new("ordinary") else { return };
    let plain = user.folder.run(user.command(&[user.program.clone().into()]));
    for flags in [&[][..], &["--stacks", "auto"]] {
        let under = user.folder.run(user.under(flags));
        under.same_as(&plain);
        assert_eq!(under.messages(), "");
        let report = user.folder.report();
        report.check();
        assert_eq!(report.created(), 8);
    }
}

#[test]
fn a_setuid_program_runs_with_a_message() {
    let Some(user) = Ordinary::new("setuid") else { return };
    fs::set_permissions(&user.program, fs::Permissions::from_mode(0o4755)).expect("setuid");
    let plain = user.folder.run(user.command(&[user.program.clone().into()]));
    let under = user.folder.run(user.under(&[]));
    under.same_as(&plain);
    assert_eq!(under.messages().lines().count(), 1, "{}", under.errors);
    assert!(under.messages().contains("setuid"), "{}", under.messages());
}
