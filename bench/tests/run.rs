//! The harness end to end on peers that need only a C compiler: rows, skips, files, refusals.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Runs a quick suite of the peers `only`; results go to a folder of the test's own.
fn bench(args: &[&str], out: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_heddle-bench"))
        .args(args)
        .args(["--quick", "--out"])
        .arg(out)
        .output()
        .expect("the harness starts")
}

fn scratch(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("heddle-bench-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a scratch folder");
    folder
}

fn has_compiler() -> bool {
    let found = Command::new("cc").arg("--version").output().is_ok();
    if !found {
        println!("skip: cc is not installed");
    }
    found
}

fn rows(file: &Path) -> Vec<serde_json::Value> {
    let text = std::fs::read_to_string(file).expect("the rows' file");
    serde_json::from_str(&text).expect("rows are JSON")
}

#[test]
fn micro_writes_rows_report_and_plot() {
    if !has_compiler() {
        return;
    }
    let out = scratch("micro");
    let json = out.join("rows.json");
    let file = json.to_str().expect("a plain name");
    let args = ["micro", "--only", "pthread", "--metrics", "mutex", "--json", file];
    let done = bench(&args, &out);
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let rows = rows(&json);
    assert_eq!(rows.len(), 1);
    let row = rows[0].as_object().expect("a row");
    let keys: Vec<_> = row.keys().map(String::as_str).collect();
    assert_eq!(keys, ["impl", "metric", "n", "unit", "value"]);
    assert!(row["value"].as_f64().expect("a number") > 0.5, "a lock takes time");
    for name in ["micro.json", "micro.svg", "REPORT.md"] {
        assert!(out.join(name).is_file(), "{name}");
    }
    std::fs::remove_dir_all(out).expect("remove the scratch folder");
}

#[test]
fn echo_measures_a_server_with_the_load_generator() {
    if !has_compiler() {
        return;
    }
    let out = scratch("echo");
    let json = out.join("rows.json");
    let file = json.to_str().expect("a plain name");
    let done = bench(&["echo", "--only", "c_epoll", "--json", file], &out);
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let rows = rows(&json);
    let find = |metric: &str| {
        let row = rows.iter().find(|row| row["metric"] == metric);
        row.and_then(|row| row["value"].as_f64()).unwrap_or_else(|| panic!("no {metric}"))
    };
    let (cpu_us, rps) = (find("echo_cpu_us_100"), find("echo_rps_100"));
    // No figure is asserted that a busy machine would change; but one CPU cannot do more than a
    // second of work per second.
    assert!(rps > 0.0, "{rps} requests per second");
    assert!(cpu_us > 0.5 && cpu_us * rps <= 1.1e6, "{cpu_us} us at {rps}/s");
    std::fs::remove_dir_all(out).expect("remove the scratch folder");
}

#[test]
fn what_a_peer_does_not_offer_is_skipped_with_its_reason() {
    if !has_compiler() {
        return;
    }
    let out = scratch("skip");
    let done = bench(&["class", "--only", "pthread"], &out);
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let report = std::fs::read_to_string(out.join("REPORT.md")).expect("a report");
    assert!(report.contains("POSIX threads have no wake_critical"), "{report}");
    std::fs::remove_dir_all(out).expect("remove the scratch folder");
}

#[test]
fn tek_counts_threads_and_measures_response_and_peaks() {
    if !has_compiler() {
        return;
    }
    let out = scratch("tek");
    let json = out.join("rows.json");
    let file = json.to_str().expect("a plain name");
    let metrics = "threads_32bit_max,response,involuntary,peak_measure";
    let args = ["tek", "--only", "stack_8m,direct,heddle", "--metrics", metrics, "--json", file];
    let done = bench(&args, &out);
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let rows = rows(&json);
    let report = std::fs::read_to_string(out.join("REPORT.md")).expect("a report");
    let find = |metric: &str| {
        let row = rows.iter().find(|row| row["metric"] == metric);
        row.and_then(|row| row["value"].as_f64())
    };
    match find("threads_32bit_max") {
        // 3 GiB hold 383 stacks of 8 MiB, and something else lives there, too.
        Some(reached) => assert!((300.0..384.0).contains(&reached), "{reached} threads"),
        // A reason such as a missing 32-bit compiler is in the report.
        None => assert!(report.contains("| `threads_32bit_max` | stack_8m |"), "{report}"),
    }
    // The library's own source, in a program of its own: it builds, and finds the peak.
    assert!(find("peak_measure_ns").is_some_and(|ns| ns > 0.0), "{report}");
    match find("response_mean_ms") {
        Some(ms) => assert!(ms >= 2.0, "{ms} ms for 2 ms of work"),
        None => assert!(report.contains("| direct |"), "{report}"),
    }
    std::fs::remove_dir_all(out).expect("remove the scratch folder");
}

#[test]
fn unmodified_measures_programs_by_themselves() {
    if !has_compiler() {
        return;
    }
    let out = scratch("unmodified");
    let json = out.join("rows.json");
    let file = json.to_str().expect("a plain name");
    let metrics = "create_join,sched_yield,tpc";
    let args = ["unmodified", "--only", "native", "--metrics", metrics, "--json", file];
    let done = bench(&args, &out);
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let rows = rows(&json);
    let find = |metric: &str| {
        let row = rows.iter().find(|row| row["metric"] == metric);
        row.and_then(|row| row["value"].as_f64()).unwrap_or_else(|| panic!("no {metric}"))
    };
    for metric in ["create_join_ns", "create_join_thread_ns", "sched_yield_ns", "tpc_cpu_us_100"] {
        assert!(find(metric) > 0.0, "{metric}");
    }
    // A thread for each connection, the one that accepts, and the main thread; perhaps that of the
    // connection which found the server ready.
    assert!((102.0..=103.0).contains(&find("tpc_kernel_threads_100")));
    // Of the whole machine, where others' threads end, too; so that it is there is all to ask.
    find("tpc_kernel_stack_kb_100");
    std::fs::remove_dir_all(out).expect("remove the scratch folder");
}

#[test]
fn a_misspelt_implementation_is_refused() {
    let out = scratch("misspelt");
    let done = bench(&["micro", "--only", "heddel"], &out);
    assert!(!done.status.success());
    let stderr = String::from_utf8_lossy(&done.stderr);
    assert!(stderr.contains("no implementation is called heddel"), "{stderr}");
    std::fs::remove_dir_all(out).expect("remove the scratch folder");
}
