//! What runs below a filter on system calls that a sandbox has set before the command, as
//! containers and service managers do: old ones refuse what they do not know, strict ones kill.

use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Output};

use common::{built, can_run, folder, heddle, output, text};

mod common;

/// How a command ended in its folder, which is gone then; says so where there are no filters.
fn ended(mut command: Command, folder: &Path) -> Option<Output> {
    command.current_dir(folder).envs(common::drawn::said());
    let output = output(command);
    std::fs::remove_dir_all(folder).expect("ours");
    if output.status.code() == Some(2) {
        println!("skip: no filters on system calls here");
        return None;
    }
    Some(output)
}

/// What `waits` prints below `filter`, with what the command says.
fn below(filter: &str) -> Option<(String, String)> {
    let folder = folder(&format!("filtered-{filter}"));
    built(&folder, "waits", &[]);
    built(&folder, "filtered", &[]);
    let mut command = Command::new(folder.join("filtered"));
    command.arg(filter).arg(heddle()).args(["run", "--threads", "user", "--", "./waits"]);
    let output = ended(command, &folder)?;
    assert!(output.status.success(), "{filter}: {output:?}");
    Some((text(&output.stdout), text(&output.stderr)))
}

#[test]
fn what_the_filter_refuses_is_done_in_another_way() {
    if !can_run(&["cc"]) {
        return;
    }
    for call in [libc::SYS_epoll_pwait2, libc::SYS_faccessat2, libc::SYS_preadv2] {
        let Some((out, _)) = below(&format!("refuse={call}")) else { return };
        assert_eq!(out, "done, user, asleep\n", "{call}");
    }
}

#[test]
fn without_what_it_takes_to_watch_the_program_runs_alone() {
    if !can_run(&["cc"]) {
        return;
    }
    let Some((out, err)) = below(&format!("refuse={}", libc::SYS_socketpair)) else { return };
    assert_eq!(out, "done, kernel, asleep\n");
    assert!(err.contains("it runs without heddle") && err.lines().count() == 1, "{err}");
}

#[test]
fn who_would_be_killed_for_looking_at_stacks_does_not() {
    if !can_run(&["cc"]) {
        return;
    }
    for call in [libc::SYS_mincore, libc::SYS_process_vm_readv] {
        let Some((out, err)) = below(&format!("kill={call}")) else { return };
        assert_eq!(out, "done, user, asleep\n", "{call}");
        let note = "a filter on system calls kills who looks at stacks: threads are not followed";
        assert!(err.contains(note), "{call}: {err}");
    }
}

/// What `filters_itself` prints with these words, how it ended, and what is said.
fn filters_itself(what: &str, when: &str) -> Option<(String, Option<i32>, String)> {
    let folder = folder(&format!("filters-itself-{what}-{when}"));
    let program = built(&folder, "filters_itself", &[]);
    let mut command = Command::new(heddle());
    command.args(["run", "--threads", "user", "--"]).arg(program).args([what, when]);
    let output = ended(command, &folder)?;
    let status = output.status.code().or(output.status.signal().map(|it| -it));
    Some((text(&output.stdout), status, text(&output.stderr)))
}

#[test]
fn below_a_filter_of_the_programs_own_threads_are_kernel_threads() {
    if !can_run(&["cc"]) {
        return;
    }
    for what in ["fails", "kills"] {
        let Some((out, status, err)) = filters_itself(what, "first") else { return };
        assert_eq!((out.as_str(), status), ("800\n", Some(0)), "{what}: {err}");
        assert!(err.contains("threads are kernel threads below the filter"), "{what}: {err}");
    }
}

#[test]
fn of_a_filter_that_kills_beside_threads_a_line_tells() {
    if !can_run(&["cc"]) {
        return;
    }
    let Some((out, status, err)) = filters_itself("fails", "later") else { return };
    assert_eq!((out.as_str(), status), ("1600\n", Some(0)), "{err}");
    let Some((_, status, err)) = filters_itself("kills", "later") else { return };
    assert!(
        err.contains("the filter on system calls that the program sets kills who calls"),
        "{err}"
    );
    assert_eq!(status, Some(-libc::SIGSYS), "{err}");
}
