//! MariaDB, a thread per client, by number of clients: mysqlslap's mixed load, reads and writes.
//!
//! One server per turn serves all numbers of clients, each implementation on a database of its
//! own. Time is mysqlslap's, which begins when all clients may; CPU time is the server's, from
//! before mysqlslap is started until it has ended.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use super::super::child::Job;
use super::super::impls::Impl;
use super::super::programs::installed;
use super::super::result::{Pick, SuiteResult};
use super::super::servers::free_port;
use super::super::tek::{client, words};
use super::watch::{Watch, cpu_ticks};
use super::way::{Running, Way};
use super::{Bench, Figure, Values, figure};

const LIMIT_S: u64 = 60;
const QUERIES: usize = 2000;
const QUERIES_WARM: usize = 200;
/// What each number of clients gives, as metrics end.
const FIGURES: [(&str, &str); 3] =
    [("seconds", "s"), ("cpu_ticks", "ticks"), ("kernel_threads", "count")];

pub fn run(bench: &Bench<'_>, result: &mut SuiteResult) {
    let clients = bench.plan.pick(vec![10, 50], vec![10, 50, 200, 500, 1000]);
    let of = |clients: &usize| {
        let name = |what: &str| format!("mariadb_{clients}_{what}");
        FIGURES.map(|(what, unit)| figure(name(what), unit, Pick::Median))
    };
    let figures: Vec<Figure> = clients.iter().flat_map(of).collect();
    bench.turns(result, "mariadb", bench.plan.rounds(1, 5), &figures, |one| {
        let port = free_port().map_err(|e| format!("no free port: {e}"))?;
        let line = line(bench, one, port)?;
        let way = Way::new(bench, one);
        let server = way.serve(&line, port, bench.plan.cpus.all())?;
        let mut values = Values::new();
        slap(bench, one, 10, QUERIES_WARM)?;
        for &clients in &clients {
            match once(bench, one, &server, clients) {
                Ok(of_clients) => values.extend(of_clients.map(Ok)),
                Err(reason) => values.extend(FIGURES.map(|_| Err(reason.clone()))),
            }
        }
        server.finish()?;
        Ok(values)
    });
}

fn once(
    bench: &Bench<'_>,
    one: &Impl,
    server: &Running<'_>,
    clients: usize,
) -> Result<[f64; 3], String> {
    let pids = server.pids();
    if pids.is_empty() {
        return Err("the server has died".into());
    }
    let before = cpu_ticks(&pids);
    let watch = Watch::begin(pids.clone());
    let seconds = slap(bench, one, clients, bench.plan.pick(QUERIES / 4, QUERIES));
    let peaks = watch.end();
    let seconds = seconds.map_err(|reason| format!("with {clients} clients: {reason}"))?;
    Ok([seconds, cpu_ticks(&pids) - before, peaks.kernel_threads])
}

/// The time in seconds that the clients took together.
fn slap(bench: &Bench<'_>, one: &Impl, clients: usize, queries: usize) -> Result<f64, String> {
    let program = installed("mysqlslap")?;
    let socket = format!("--socket={}/socket", data(bench, one));
    let (clients, queries) =
        (format!("--concurrency={clients}"), format!("--number-of-queries={queries}"));
    let mut args = words(&["--no-defaults", "--user=root", "--csv", "--auto-generate-sql"]);
    args.extend(words(&["--auto-generate-sql-load-type=mixed", "--number-char-cols=4"]));
    args.extend([clients, queries, socket]);
    let cpus = bench.plan.cpus.all();
    let job = Job { program: Path::new(&program), args, env: Vec::new(), cpus };
    let output = job.run(Duration::from_secs(LIMIT_S))?;
    seconds(&output.text).ok_or_else(|| format!("mysqlslap printed {:?}", output.text))
}

/// Engine, load, mean, least and most seconds, clients, queries of each.
fn seconds(csv: &str) -> Option<f64> {
    csv.lines().last()?.split(',').nth(2)?.parse().ok()
}

fn data(bench: &Bench<'_>, one: &Impl) -> String {
    bench.scratch.path(&format!("mariadb-{}", one.name)).to_string_lossy().into_owned()
}

/// The database is made once; later turns find it as the last one left it.
fn line(bench: &Bench<'_>, one: &Impl, port: u16) -> Result<Vec<String>, String> {
    let program = installed("mariadbd")?;
    // Root has to say that it means it.
    let user = rustix::process::geteuid().is_root().then_some("--user=root");
    let data = data(bench, one);
    let datadir = format!("--datadir={data}");
    if !Path::new(&data).is_dir() {
        let mut install = Command::new(installed("mariadb-install-db")?);
        install.args(["--no-defaults", "--auth-root-authentication-method=normal"]).args(user);
        client(install.args(["--skip-test-db", &datadir])).inspect_err(|_| {
            // Half a database must not be taken for one.
            let _ = std::fs::remove_dir_all(&data);
        })?;
    }
    let mut line = words(&[&program, "--no-defaults", &datadir]);
    line.extend(user.map(String::from));
    line.extend([format!("--socket={data}/socket"), format!("--pid-file={data}/pid")]);
    line.extend(words(&["--bind-address=127.0.0.1", "--max-connections=1200"]));
    line.push(format!("--port={port}"));
    Ok(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_mysqlslap_prints() {
        assert_eq!(seconds(",mixed,1.995,1.990,2.000,50,40\n"), Some(1.995));
        assert_eq!(seconds("mysqlslap: Error when connecting"), None);
    }
}
