//! Little of what heddle itself needs: shared memory, room for profiles, /proc, limits.
//!
//! Invariant: the program runs as it would alone; heddle says in one line what is missing.

use std::fs;
use std::process::Command;

use crate::build::c;
use crate::support::{Ended, Folder, find, is_root};

#[test]
fn an_unwritable_state_directory() {
    let folder = Folder::new("unwritable");
    fs::write(folder.path("a-file"), "").expect("a file");
    for mode in ["observe", "auto"] {
        let mut command = folder.under(&["--stacks", mode], c("plain_threads"));
        command.env("XDG_STATE_HOME", folder.path("a-file").join("below"));
        let ended = folder.run(command);
        assert_eq!(ended.status.code(), Some(12), "{}", ended.errors);
        assert!(ended.messages().contains("a-file"), "the place is named: {}", ended.errors);
        assert_eq!(folder.report().created(), 8);
        let mut command = folder.under_text(&["--stacks", mode], c("plain_threads"));
        command.env("XDG_STATE_HOME", folder.path("a-file").join("below"));
        let ended = folder.run(command);
        assert!(ended.errors.contains("8 threads created"), "{}", ended.errors);
        assert!(!ended.errors.contains("next run"), "it would not know: {}", ended.errors);
    }
    // Nowhere to keep profiles at all.
    let mut command = folder.under(&["--stacks", "auto"], c("plain_threads"));
    command.env_remove("XDG_STATE_HOME").env_remove("HOME");
    let ended = folder.run(command);
    assert_eq!((ended.status.code(), ended.output.as_str()), (Some(12), "sum 56\n"));
}

#[test]
fn a_corrupt_profile_is_kept_aside() {
    let folder = Folder::new("corrupt");
    folder.run(folder.under(&[], c("plain_threads")));
    let files = profiles(&folder);
    assert!(!files.is_empty(), "no profile was written");
    let garbage: Vec<u8> = (0..999_u32).map(|at| (at * 7919 % 251) as u8).collect();
    for text in [&b""[..], b"{", b"null", b"[version = 99]\n", &garbage] {
        files.iter().for_each(|file| fs::write(file, text).expect("a profile spoilt"));
        let ended = folder.run(folder.under(&["--stacks", "auto"], c("plain_threads")));
        assert_eq!((ended.status.code(), ended.output.as_str()), (Some(12), "sum 56\n"));
        assert!(!ended.messages().is_empty(), "no message about {text:?}");
        let kept = profiles(&folder).iter().any(|file| fs::read(file).is_ok_and(|it| it == text));
        assert!(kept, "{text:?} was not kept aside: {}", ended.errors);
        // What this run wrote is a profile again.
        let ended = folder.run(folder.under(&["--stacks", "auto"], c("plain_threads")));
        assert_eq!(ended.messages(), "");
        assert!(folder.report().kinds().iter().any(|kind| kind.is("tuned")));
    }
}

/// Every file below the state folder.
fn profiles(folder: &Folder) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![folder.path("state")];
    while let Some(next) = open.pop() {
        for entry in fs::read_dir(&next).into_iter().flatten().flatten() {
            let path = entry.path();
            let is_folder = path.is_dir();
            let list = if is_folder { &mut open } else { &mut found };
            list.push(path);
        }
    }
    found
}

/// Runs `heddle run PROGRAM` with other mounts, which `script` makes; None where that cannot be.
fn in_mounts(folder: &Folder, script: &str, program: &str) -> Option<Ended> {
    let reason = match (is_root(), find("unshare")) {
        (false, _) => "not root: cannot mount",
        (_, None) => "unshare is not installed",
        _ => "",
    };
    if !reason.is_empty() {
        println!("skip: {reason}");
        return None;
    }
    let inner = folder.under(&[], c(program));
    let mut command = folder.plain("unshare");
    command.args(["--mount", "sh", "-c", &format!("{script} || exit 88; exec \"$@\""), "sh"]);
    command.arg(inner.get_program()).args(inner.get_args());
    let ended = folder.run(command);
    if ended.status.code() == Some(88) || ended.errors.contains("unshare failed") {
        println!("skip: cannot mount here: {}", ended.errors);
        return None;
    }
    Some(ended)
}

#[test]
fn a_full_shared_memory() {
    let folder = Folder::new("full-shm");
    let script = "mount -t tmpfs -o size=64k tmpfs /dev/shm && \
                  { cat /dev/zero >/dev/shm/filler 2>/dev/null; true; }";
    let Some(ended) = in_mounts(&folder, script, "plain_threads") else { return };
    assert_eq!((ended.status.code(), ended.output.as_str()), (Some(12), "sum 56\n"));
    told_or_complete(&folder, &ended);
}

#[test]
fn shared_memory_that_fills_up_later() {
    let folder = Folder::new("filling-shm");
    let script = "mount -t tmpfs -o size=4m tmpfs /dev/shm";
    let Some(ended) = in_mounts(&folder, script, "fill_shm") else { return };
    assert_eq!((ended.status.code(), ended.output.as_str()), (Some(0), "sum 2\nsum 999000\n"));
}

#[test]
fn no_shared_memory() {
    let folder = Folder::new("no-shm");
    let script = "mount -t tmpfs -o ro tmpfs /dev/shm";
    let Some(ended) = in_mounts(&folder, script, "plain_threads") else { return };
    assert_eq!((ended.status.code(), ended.output.as_str()), (Some(12), "sum 56\n"));
    told_or_complete(&folder, &ended);
}

/// The table may lie elsewhere; if it cannot, a line says so.
fn told_or_complete(folder: &Folder, ended: &Ended) {
    let created = folder.report().created();
    assert!(created == 8 || !ended.messages().is_empty(), "nothing is said about it");
}

#[test]
fn no_proc() {
    let folder = Folder::new("no-proc");
    let script = "mount -t tmpfs tmpfs /proc";
    let Some(ended) = in_mounts(&folder, script, "plain_threads") else { return };
    assert_eq!((ended.status.code(), ended.output.as_str()), (Some(12), "sum 56\n"));
}

#[test]
fn limits_that_a_program_sets_itself() {
    for which in ["files", "size", "memory"] {
        let folder = Folder::new(&format!("limits-{which}"));
        let run = |mut command: Command| {
            command.arg(which);
            folder.run(command)
        };
        let plain = run(folder.plain(c("limits")));
        run(folder.under(&[], c("limits"))).same_as(&plain);
        run(folder.under(&["--stacks", "auto"], c("limits"))).same_as(&plain);
    }
}

/// The same further down, where the table is made under the limit.
#[test]
fn limits_that_a_shell_sets() {
    for limit in ["-n 4", "-f 0", "-c 0", "-v 400000", "-s 256"] {
        let folder = Folder::new(&format!("ulimit{}", limit.replace(' ', "")));
        // The pipe is for the limit on the size of files.
        let program = c("plain_threads");
        let script = format!("{{ ulimit {limit} && {}; echo $?; }} | cat", program.display());
        let run = |mut command: Command| {
            command.args(["-c", &script]);
            folder.run(command)
        };
        let plain = run(folder.plain("sh"));
        assert!(plain.output.contains("sum 56"), "{limit}: {plain:?}");
        run(folder.under(&[], "sh")).same_as(&plain);
    }
}

/// And around heddle itself, down to limits that leave room for the program alone.
#[test]
fn limits_around_heddle() {
    for limit in ["-n 4", "-n 8", "-f 0", "-f 8", "-v 60000", "-s 256"] {
        let folder = Folder::new(&format!("around{}", limit.replace(' ', "")));
        let script = format!("{{ (ulimit {limit}; exec \"$@\"); echo $?; }} | cat");
        let run = |inner: Command| {
            let mut command = folder.plain("sh");
            command.args(["-c", &script, "sh"]).arg(inner.get_program()).args(inner.get_args());
            folder.run(command).output
        };
        let plain = run(folder.plain(c("plain_threads")));
        assert_eq!(plain, "sum 56\n12\n", "{limit}");
        let mut under = folder.plain(env!("CARGO_BIN_EXE_heddle"));
        under.args(["run", "--report", "none", "--"]).arg(c("plain_threads"));
        assert_eq!(run(under), plain, "{limit}: {}", folder.text("err"));
    }
}

#[test]
fn many_processes_at_once() {
    let folder = Folder::new("many");
    let script = "i=0; while [ $i -lt 60 ]; do $0 & i=$((i + 1)); done; wait";
    let run = |flags: &[&str]| {
        let mut command = folder.under(flags, "sh");
        command.args(["-c", script]).arg(c("plain_threads"));
        let ended = folder.run(command).good();
        assert_eq!(ended.output.lines().filter(|line| *line == "sum 56").count(), 60);
        folder.report()
    };
    let observed = run(&[]);
    observed.check();
    assert_eq!(observed.created(), 480, "{}", observed.0);
    let tuned = run(&["--stacks", "auto"]);
    assert!(tuned.kinds().iter().any(|kind| kind.is("tuned")), "{}", tuned.0);
}

#[test]
fn many_runs_at_once() {
    let folders: Vec<Folder> = (0..6).map(|at| Folder::new(&format!("runs-{at}"))).collect();
    let state = folders[0].path("state");
    let running: Vec<_> = folders
        .iter()
        .map(|folder| {
            let mut command = folder.under(&[], c("plain_threads"));
            command.env("XDG_STATE_HOME", &state);
            folder.start(command)
        })
        .collect();
    for (folder, running) in folders.iter().zip(running) {
        let ended = running.end();
        assert_eq!((ended.status.code(), ended.messages()), (Some(12), String::new()));
        assert_eq!(folder.report().created(), 8);
    }
    let mut show = folders[0].plain(env!("CARGO_BIN_EXE_heddle"));
    show.args(["stacks", "show"]);
    let shown = folders[0].run(show).good();
    assert!(shown.output.contains("named"), "{}", shown.output);
}
