//! What runs below a filter on system calls that a sandbox has set before the command, as
//! containers and service managers do: old ones refuse what they do not know, strict ones kill.

use std::process::Command;

use common::{built, can_run, folder, heddle, output, text};

mod common;

/// What `waits` prints below `filter`, with what the command says.
fn below(filter: &str) -> Option<(String, String)> {
    let folder = folder(&format!("filtered-{filter}"));
    built(&folder, "waits", &[]);
    built(&folder, "filtered", &[]);
    let mut command = Command::new(folder.join("filtered"));
    command.arg(filter).arg(heddle()).args(["run", "--threads", "user", "--", "./waits"]);
    command.current_dir(&folder).envs(common::drawn::said());
    let output = output(command);
    std::fs::remove_dir_all(folder).expect("ours");
    if output.status.code() == Some(2) {
        println!("skip: no filters on system calls here");
        return None;
    }
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
