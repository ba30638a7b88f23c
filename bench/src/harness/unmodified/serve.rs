//! Servers under the load generator: a plain thread per connection on one CPU, and memcached.
//!
//! CPU time is the process clock of the server's own processes, read by the generator at the
//! beginning and the end of its measurement.

use std::time::Duration;

use serde::Deserialize;

use super::super::child::Job;
use super::super::impls::Impl;
use super::super::plan::short;
use super::super::programs::{Program, installed};
use super::super::result::{Pick, SuiteResult};
use super::super::servers::{free_port, room_for};
use super::super::tek::words;
use super::watch::{Peaks, Watch, kernel_stack_kb};
use super::way::{Running, Way};
use super::{Bench, Figure, Values, figure};

const LIMIT_S: u64 = 60;
const MESSAGE_BYTES: &str = "64";
const VALUE_BYTES: &str = "100";
const CLIENTS: usize = 50;
/// The kernel frees an ended thread's stack a little later.
const STACKS_FREED: Duration = Duration::from_millis(300);

/// What the load generator prints.
#[derive(Debug, Deserialize)]
struct Load {
    requests: f64,
    seconds: f64,
    errors: u64,
    server_cpu_us: f64,
}

/// A load: protocol, connections, size of what is sent, CPUs of the generator.
struct Kind<'a> {
    protocol: &'a str,
    connections: usize,
    bytes: &'a str,
    cpus: Vec<usize>,
}

pub fn run(bench: &Bench<'_>, result: &mut SuiteResult) {
    for connections in bench.plan.pick(vec![100], vec![100, 1000, 8000]) {
        thread_per_connection(bench, result, connections);
    }
    memcached(bench, result);
}

fn thread_per_connection(bench: &Bench<'_>, result: &mut SuiteResult, connections: usize) {
    let count = short(connections);
    let name = |what: &str, unit| figure(format!("tpc_{what}_{count}"), unit, Pick::Median);
    let figures: [Figure; 4] = [
        name("cpu_us", "us"),
        name("kernel_stack_kb", "KiB"),
        name("kernel_threads", "count"),
        name("rps", "1/s"),
    ];
    let label = format!("tpc {connections} connections");
    bench.turns(result, &label, bench.plan.rounds(1, 5), &figures, |one| {
        tpc_once(bench, one, connections)
    });
}

fn tpc_once(bench: &Bench<'_>, one: &Impl, connections: usize) -> Result<Values, String> {
    room_for(connections)?;
    let cpus = &bench.plan.cpus;
    let program = bench.plan.programs.get(Program::Tpc)?;
    let port = free_port().map_err(|e| format!("no free port: {e}"))?;
    std::thread::sleep(STACKS_FREED);
    let stack_before_kb = kernel_stack_kb();
    let way = Way::new(bench, one);
    let line = words(&[&program.to_string_lossy(), &port.to_string()]);
    let server = way.serve(&line, port, cpus.measured())?;
    let kind = Kind { protocol: "echo", connections, bytes: MESSAGE_BYTES, cpus: cpus.driver() };
    let (load, peaks) = under_load(bench, server, port, &kind)?;
    Ok(vec![
        Ok(load.server_cpu_us / load.requests),
        Ok((peaks.kernel_stack_kb - stack_before_kb).max(0.0)),
        Ok(peaks.kernel_threads),
        Ok(load.requests / load.seconds),
    ])
}

fn memcached(bench: &Bench<'_>, result: &mut SuiteResult) {
    let figures = [
        figure("memcached_ops", "1/CPU s", Pick::Median),
        figure("memcached_rps", "1/s", Pick::Median),
    ];
    bench.turns(result, "memcached", bench.plan.rounds(1, 7), &figures, |one| {
        let cpus = bench.plan.cpus.all();
        let port = free_port().map_err(|e| format!("no free port: {e}"))?;
        let (program, listen) = (installed("memcached")?, port.to_string());
        let mut line = words(&[&program, "-l", "127.0.0.1", "-U", "0", "-t", "4", "-p", &listen]);
        if rustix::process::geteuid().is_root() {
            line.extend(words(&["-u", "root"]));
        }
        let way = Way::new(bench, one);
        let server = way.serve(&line, port, cpus.clone())?;
        let kind = Kind { protocol: "memcached", connections: CLIENTS, bytes: VALUE_BYTES, cpus };
        let (load, _) = under_load(bench, server, port, &kind)?;
        Ok(vec![Ok(load.requests / (load.server_cpu_us / 1e6)), Ok(load.requests / load.seconds)])
    });
}

/// Loads the server, then ends it.
fn under_load(
    bench: &Bench<'_>,
    server: Running<'_>,
    port: u16,
    kind: &Kind<'_>,
) -> Result<(Load, Peaks), String> {
    let pids = server.pids();
    let watch = Watch::begin(pids.clone());
    let load = load(bench, port, kind, &pids);
    let peaks = watch.end();
    let ended = server.finish();
    let load = load?;
    ended?;
    Ok((load, peaks))
}

fn load(bench: &Bench<'_>, port: u16, kind: &Kind<'_>, pids: &[u32]) -> Result<Load, String> {
    let generator = bench.plan.programs.get(Program::Load)?;
    // With thousands of connections one answer for each takes a while.
    let (warm_ms, measure_ms) = match kind.connections {
        1000.. => bench.plan.pick((300, 500), (500, 1500)),
        _ => bench.plan.pick((100, 250), (200, 1000)),
    };
    let numbers = [port as usize, kind.connections, warm_ms, measure_ms].map(|n| n.to_string());
    let mut args = vec![kind.protocol.to_string()];
    args.extend(numbers);
    args.push(kind.bytes.to_string());
    args.extend(pids.iter().map(u32::to_string));
    let job = Job { program: &generator, args, env: Vec::new(), cpus: kind.cpus.clone() };
    let output = job.run(Duration::from_secs(LIMIT_S))?;
    let load: Load = serde_json::from_str(output.text.trim())
        .map_err(|e| format!("the load generator printed {:?}: {e}", output.text))?;
    match load.errors {
        0 => Ok(load),
        errors => Err(format!("{errors} of {} answers were wrong", load.requests)),
    }
}
