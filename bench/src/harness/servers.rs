//! Suites echo and http: server CPU time per request, throughput and latency by connections.
//!
//! The server runs on one CPU, the load generator on another. Closed loop, one outstanding request
//! per connection. Each run has a fresh server on a fresh port.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;

use super::child::{Cpus, Job};
use super::impls::{ECHO, HTTP, Impl};
use super::nginx;
use super::plan::{Plan, short};
use super::programs::Program;
use super::progress::Progress;
use super::result::{Pick, SuiteResult};
use super::rounds::interleave;

/// Bytes of an echoed message, and of the served file.
const ECHO_BYTES: usize = 64;
const FILE_BYTES: usize = 612;

/// What the load generator prints.
#[derive(Debug, Deserialize)]
struct Load {
    requests: f64,
    seconds: f64,
    errors: u64,
    server_cpu_us: f64,
    p50_us: f64,
    p99_us: f64,
    p999_us: f64,
}

/// One suite, or one half of http.
struct Series {
    /// Beginning of the metric names.
    prefix: &'static str,
    protocol: &'static str,
    workers: usize,
    server_cpus: Vec<usize>,
    connections: Vec<usize>,
    rounds: usize,
    /// Server CPU per request means something only while the server has a CPU of its own.
    reports_cpu: bool,
}

pub fn run_echo(plan: &Plan) -> SuiteResult {
    let series = Series {
        prefix: "echo",
        protocol: "echo",
        workers: 1,
        server_cpus: plan.cpus.measured(),
        connections: plan.pick(vec![1, 100], vec![1, 10, 100, 1000, 8000]),
        rounds: plan.rounds(1, 5),
        reports_cpu: true,
    };
    run(plan, "echo", ECHO, &[series])
}

/// One worker (uThread Fig. 7) and as many as there are CPUs (Fig. 6).
pub fn run_http(plan: &Plan) -> SuiteResult {
    let connections = plan.pick(vec![1, 100], vec![1, 10, 100, 1000, 8000]);
    let one = Series {
        prefix: "http",
        protocol: "http",
        workers: 1,
        server_cpus: plan.cpus.measured(),
        connections: connections.clone(),
        rounds: plan.rounds(1, 5),
        reports_cpu: true,
    };
    let many = Series {
        prefix: "http_multi",
        workers: plan.cpus.all().len(),
        server_cpus: plan.cpus.all(),
        rounds: plan.rounds(1, 3),
        reports_cpu: false,
        protocol: "http",
        connections,
    };
    run(plan, "http", HTTP, &[one, many])
}

fn run(plan: &Plan, suite: &'static str, all: &'static [Impl], series: &[Series]) -> SuiteResult {
    let mut result = SuiteResult::new(suite, plan.quick);
    let chosen = plan.chosen(all);
    let steps = series.iter().map(|s| s.connections.len() * s.rounds * chosen.len()).sum();
    let mut progress = Progress::new(suite, steps);
    for series in series {
        for &connections in &series.connections {
            if !plan.wants(&name(series, "cpu_us", connections))
                && !plan.wants(&name(series, "rps", connections))
            {
                continue;
            }
            let label = format!("{} {connections} connections", series.prefix);
            let turns = interleave(&label, series.rounds, &chosen, &mut progress, |one| {
                measure(plan, series, one, connections)
            });
            for (one, loads) in turns {
                add(&mut result, series, connections, one, loads);
            }
        }
    }
    result.versions = plan.versions(all);
    result
}

fn name(series: &Series, what: &str, connections: usize) -> String {
    format!("{}_{what}_{}", series.prefix, short(connections))
}

fn add(
    result: &mut SuiteResult,
    series: &Series,
    connections: usize,
    one: &Impl,
    loads: Result<Vec<Load>, String>,
) {
    type Figure = (&'static str, &'static str, Pick, fn(&Load) -> f64);
    const CPU: Figure = ("cpu_us", "us", Pick::Median, |load| load.server_cpu_us / load.requests);
    const OTHERS: [Figure; 4] = [
        ("rps", "1/s", Pick::Median, |load| load.requests / load.seconds),
        ("p50_us", "us", Pick::Median, |load| load.p50_us),
        ("p99_us", "us", Pick::Median, |load| load.p99_us),
        ("p999_us", "us", Pick::Median, |load| load.p999_us),
    ];
    let figures = series.reports_cpu.then_some(CPU).into_iter().chain(OTHERS);
    for (what, unit, pick, of) in figures {
        let metric = name(series, what, connections);
        match &loads {
            Ok(loads) => {
                let values: Vec<f64> = loads.iter().map(of).collect();
                result.add(&metric, one.name, unit, pick, &values);
            }
            Err(reason) => result.skip(&metric, one.name, reason),
        }
    }
}

fn measure(plan: &Plan, series: &Series, one: &Impl, connections: usize) -> Result<Load, String> {
    room_for(connections)?;
    let generator = plan.programs.get(Program::Load)?;
    let program = plan.programs.get(one.program)?;
    let port = free_port().map_err(|e| format!("no free port: {e}"))?;
    let args = server_args(plan, series, one, port)?;
    let env = one.env(series.workers);
    let job = Job { program: &program, args, env, cpus: series.server_cpus.clone() };
    let mut server = job.serve(port)?;
    // With thousands of connections one answer for each takes a while.
    let (warm_ms, measure_ms) = match connections {
        1000.. => plan.pick((300, 500), (500, 1500)),
        _ => plan.pick((100, 250), (200, 1000)),
    };
    let what = match series.protocol {
        "http" => "/index.html".to_string(),
        _ => ECHO_BYTES.to_string(),
    };
    let numbers = [port as usize, connections, warm_ms, measure_ms].map(|n| n.to_string());
    let pids = server.pids().into_iter().map(|pid| pid.to_string());
    let args = std::iter::once(series.protocol.to_string()).chain(numbers);
    let job = Job {
        program: &generator,
        args: args.chain([what]).chain(pids).collect(),
        env: Vec::new(),
        cpus: generator_cpus(series, &plan.cpus),
    };
    let output = job.run(Duration::from_secs(60));
    let said = server.last_words();
    let output = output.map_err(|e| match said {
        Some(words) => format!("{e}; the server said: {words}"),
        None => e,
    })?;
    let load: Load = serde_json::from_str(output.text.trim())
        .map_err(|e| format!("the load generator printed {:?}: {e}", output.text))?;
    match load.errors {
        0 => Ok(load),
        errors => Err(format!("{errors} of {} answers were wrong", load.requests)),
    }
}

/// With several workers the generator shares the CPUs with them; the report says so.
fn generator_cpus(series: &Series, cpus: &Cpus) -> Vec<usize> {
    if series.reports_cpu { cpus.driver() } else { cpus.all() }
}

fn server_args(plan: &Plan, series: &Series, one: &Impl, port: u16) -> Result<Vec<String>, String> {
    let scratch = plan.programs.scratch();
    if series.protocol == "echo" {
        return Ok(vec!["echo".into(), port.to_string(), series.workers.to_string()]);
    }
    let root = served_folder(&scratch).map_err(|e| format!("cannot write the served file: {e}"))?;
    if one.program == Program::Nginx {
        return nginx::configure(&scratch, one.name, port, series.workers, &root);
    }
    let root = root.to_string_lossy().into_owned();
    Ok(vec!["http".into(), port.to_string(), series.workers.to_string(), root])
}

fn served_folder(scratch: &Path) -> std::io::Result<PathBuf> {
    let folder = scratch.join("www");
    let file = folder.join("index.html");
    if !file.metadata().is_ok_and(|data| data.len() == FILE_BYTES as u64) {
        std::fs::create_dir_all(&folder)?;
        let mut page = String::from("<!doctype html><title>heddle</title><p>");
        while page.len() < FILE_BYTES - 1 {
            page.push_str("warp and weft ");
        }
        page.truncate(FILE_BYTES - 1);
        std::fs::write(&file, page + "\n")?;
    }
    Ok(folder)
}

pub fn free_port() -> std::io::Result<u16> {
    Ok(std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

pub fn room_for(connections: usize) -> Result<(), String> {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).maximum;
    match limit {
        Some(limit) if limit < connections as u64 + 64 => {
            Err(format!("RLIMIT_NOFILE is {limit}, too few for {connections} connections"))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn served_file_has_the_promised_size() {
        let scratch = std::env::temp_dir().join(format!("heddle-bench-{}", std::process::id()));
        let folder = served_folder(&scratch).unwrap();
        assert_eq!(folder.join("index.html").metadata().unwrap().len(), 612);
        std::fs::remove_dir_all(scratch).unwrap();
    }

    #[test]
    fn reads_what_the_generator_prints() {
        let line = r#"{"requests":10,"seconds":0.5,"errors":0,"server_cpu_us":60.0,
            "client_cpu_us":1.0,"p50_us":1.0,"p99_us":2.0,"p999_us":3.0,"max_us":4.0}"#;
        let load: Load = serde_json::from_str(line).unwrap();
        assert_eq!(load.server_cpu_us / load.requests, 6.0);
    }
}
