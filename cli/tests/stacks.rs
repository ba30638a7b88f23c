//! `heddle stacks` on what runs of small programs have left.

#[path = "run_common/mod.rs"]
mod common;

use std::fs;

use common::{Scratch, compile, row, stderr, stdout};
use serde_json::Value;

const PROGRAM: &str = "
#include <pthread.h>
#include <string.h>
static void *work(void *a) { char b[20000]; memset(b, 1, sizeof b); return b[17] ? a : 0; }
static void *asked(void *a) { char b[90000]; memset(b, 1, sizeof b); return b[17] ? a : 0; }
int main(void)
{
    pthread_t t;
    pthread_attr_t at;
    pthread_attr_init(&at);
    pthread_attr_setstacksize(&at, 1 << 20);
    pthread_create(&t, 0, work, 0);
    pthread_join(t, 0);
    pthread_create(&t, &at, asked, 0);
    pthread_join(t, 0);
    return 0;
}";

#[test]
fn a_run_leaves_a_profile_that_the_next_one_uses() {
    let scratch = Scratch::new("profile");
    let Some(program) = compile(&scratch, "sized", PROGRAM, &[]) else { return };
    let first = scratch.report_with(&["--stacks", "auto"], &[&program]);
    assert_eq!(row(&first, "work")["tuned"], false, "no history, no size");
    assert_eq!(row(&first, "work")["stack_given_bytes"], row(&first, "work")["stack_asked_bytes"]);

    let output = scratch.heddle(&["stacks", "show", "sized"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let shown = stdout(&output);
    assert!(shown.lines().any(|it| it.contains("work") && it.ends_with("auto")), "{shown}");
    assert!(shown.lines().any(|it| it.contains("asked") && it.ends_with("force")), "{shown}");

    let second = scratch.report_with(&["--stacks", "auto"], &[&program]);
    let work = row(&second, "work");
    assert_eq!(work["tuned"], true, "{work:#}");
    let given = work["stack_given_bytes"].as_u64().expect("a size");
    assert!((64 << 10..512 << 10).contains(&given), "{given}");
    assert_eq!(row(&second, "asked")["tuned"], false, "explicit sizes stay");
    let third = scratch.report_with(&["--stacks", "force"], &[&program]);
    assert_eq!(row(&third, "asked")["tuned"], true);
}

#[test]
fn profiles_are_exported_and_forgotten() {
    let scratch = Scratch::new("export");
    let Some(program) = compile(&scratch, "sized", PROGRAM, &[]) else { return };
    assert!(scratch.run(&[&program]).status.success());
    let export = |arguments: &[&str]| -> Value {
        let output = scratch.heddle(arguments);
        serde_json::from_str(&stdout(&output)).expect("JSON")
    };
    let all = export(&["stacks", "export", "--json"]);
    let one = all.as_array().and_then(|all| all.first()).expect("a profile");
    let path = fs::canonicalize(&program).expect("a path");
    assert_eq!(one["executable"]["path"].as_str(), path.to_str());
    let rows = one["rows"].as_array().expect("rows");
    let work = rows.iter().find(|row| row["name"] == "work").expect("a row");
    assert!(work["peak_bytes"].as_u64().is_some_and(|peak| peak >= 20_000), "{work:#}");
    assert!(work["size_bytes"].as_u64().is_some_and(|size| size >= 64 << 10), "{work:#}");

    let output = scratch.heddle(&["stacks", "reset", &program]);
    assert!(output.status.success() && stdout(&output).starts_with("forgot "));
    assert_eq!(export(&["stacks", "export"]), serde_json::json!([]));
    let output = scratch.heddle(&["stacks", "show", &program]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("no run of"), "{}", stderr(&output));
}

#[test]
fn a_corrupt_profile_is_told_and_kept_aside() {
    let scratch = Scratch::new("corrupt");
    let Some(program) = compile(&scratch, "sized", PROGRAM, &[]) else { return };
    assert!(scratch.run(&[&program]).status.success());
    let folder = scratch.path("state/heddle/stacks");
    let is_profile = |it: &std::path::PathBuf| it.extension().is_some_and(|it| it == "stacks");
    let files = || fs::read_dir(&folder).expect("a folder").map(|it| it.expect("an entry").path());
    let file = files().find(is_profile).expect("a profile");
    fs::write(&file, "garbage\n").expect("it is ours");
    let output = scratch.run(&[&program]);
    assert!(output.status.success());
    let said = stderr(&output).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains("is ignored and kept as"), "{said}");
    assert!(said.contains("2 threads created"), "{said}");
    assert!(files().any(|it| it.to_string_lossy().ends_with(".corrupt")));
    assert!(scratch.heddle(&["stacks", "show"]).status.success(), "there is a new one");
}
