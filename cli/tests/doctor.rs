//! `heddle doctor` on the machine that runs this test, whatever it supports.

use std::process::{Command, Output};

use serde_json::Value;

fn doctor(flags: &[&str], io: Option<&str>) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_heddle"));
    command.arg("doctor").args(flags).env_remove("HEDDLE_IO");
    command.envs(io.map(|io| ("HEDDLE_IO", io)));
    let output = command.output().expect("heddle runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output
}

fn checks(flags: &[&str], io: Option<&str>) -> Vec<Value> {
    let output = doctor(&[flags, &["--json"]].concat(), io);
    let checks: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    checks.as_array().expect("an array").clone()
}

#[test]
fn every_check_is_complete() {
    let checks = checks(&[], None);
    assert!(checks.len() > 20, "{}", checks.len());
    for check in &checks {
        for key in ["area", "name", "value", "verdict", "consequence"] {
            assert!(check[key].as_str().is_some_and(|text| !text.is_empty()), "{check}");
        }
        let verdict = check["verdict"].as_str().expect("a word");
        assert!(["good", "fallback", "missing"].contains(&verdict), "{check}");
    }
    let text = String::from_utf8(doctor(&[], None).stdout).expect("text");
    for check in &checks {
        assert!(text.contains(check["consequence"].as_str().expect("a text")), "{check}");
    }
}

#[test]
fn problems_are_what_is_not_good() {
    let bad = |check: &&Value| check["verdict"] != "good";
    let all = checks(&[], Some("epoll"));
    let problems = checks(&["--problems"], Some("epoll"));
    let names = |checks: &[Value]| checks.iter().map(|it| it["name"].clone()).collect::<Vec<_>>();
    let expected: Vec<_> = all.iter().filter(bad).cloned().collect();
    assert_eq!(names(&problems), names(&expected));
}

#[test]
fn settings_that_are_not_understood_are_told() {
    let told = |name: &str, value: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_heddle"));
        command.args(["doctor", "--problems"]).env_remove("HEDDLE_IO").env(name, value);
        let output = command.output().expect("heddle runs");
        String::from_utf8(output.stdout).expect("text")
    };
    assert!(told("HEDDLE_IO", "quick").contains("HEDDLE_IO=quick: not understood"));
    assert!(told("HEDDLE_WORKERS", "0").contains("0 workers: must be 1 to 256"));
    assert!(told("HEDDLE_WORKRES", "1").contains("HEDDLE_WORKRES is not read"));
    assert!(!told("HEDDLE_WORKERS", "1").contains("settings"));
}

#[test]
fn the_fallback_in_force_follows_the_environment() {
    let reactor = |io| {
        let checks = checks(&[], io);
        let found = checks.iter().find(|check| check["name"] == "reactor in force");
        found.expect("the check")["value"].as_str().expect("a text").to_owned()
    };
    assert_eq!(reactor(Some("epoll")), "epoll (HEDDLE_IO)");
    assert!(["io_uring", "epoll"].contains(&reactor(None).as_str()));
}

#[test]
fn what_run_can_do_here_is_told() {
    let checks = checks(&[], None);
    let programs: Vec<_> = checks.iter().filter(|it| it["area"] == "programs").collect();
    let find = |name: &str| {
        let found = programs.iter().find(|it| it["name"] == name);
        found.unwrap_or_else(|| panic!("no check {name}"))["value"].as_str().expect("a text")
    };
    let means = ["rr", "idle", "cgroup", "nice", "none"];
    assert!(means.contains(&find("mediator")), "{}", find("mediator"));
    for name in ["preload library", "32-bit programs", "way back from SCHED_IDLE"] {
        assert!(!find(name).is_empty());
    }
}
