//! The real programs, as Debian has them: how each is started, and what keeps its threads busy.
//!
//! Invariant: all files lie in the site's folder or the suite's scratch, and every server listens
//! on a free port of the loopback.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::process::Command;

use super::super::programs::{self, Program, installed};
use super::drive::Site;
use super::words;

/// A program that many use, unchanged.
pub struct Real {
    pub name: &'static str,
    pub command: fn(&Site<'_>) -> Result<Vec<String>, String>,
    pub load: Load,
    /// The command whose first line says the version.
    version: [&'static str; 2],
}

/// Where the work comes from.
pub enum Load {
    /// It works and ends by itself.
    Itself,
    /// It serves, and these are its clients.
    Clients(fn(&Site<'_>) -> Result<(), String>),
}

pub const ALL: [Real; 8] = [
    Real {
        name: "memcached",
        command: memcached,
        load: Load::Clients(memcached_clients),
        version: ["memcached", "--version"],
    },
    Real {
        name: "redis",
        command: redis,
        load: Load::Clients(redis_clients),
        version: ["redis-server", "--version"],
    },
    Real {
        name: "nginx",
        command: nginx,
        load: Load::Clients(nginx_clients),
        version: ["nginx", "-v"],
    },
    Real {
        name: "mariadb",
        command: mariadb,
        load: Load::Clients(mariadb_clients),
        version: ["mariadbd", "--version"],
    },
    Real { name: "ffmpeg", command: ffmpeg, load: Load::Itself, version: ["ffmpeg", "-version"] },
    Real { name: "python", command: python, load: Load::Itself, version: ["python3", "--version"] },
    Real { name: "java", command: java, load: Load::Itself, version: ["java", "--version"] },
    Real { name: "node", command: node, load: Load::Itself, version: ["node", "--version"] },
];

impl Real {
    pub fn version(&self) -> String {
        let Ok(program) = installed(self.version[0]) else { return String::new() };
        let line = programs::line_of(Command::new(program).arg(self.version[1]));
        let short: Vec<&str> = line.split_whitespace().take(4).collect();
        match (self.name, short.as_slice()) {
            // Its line is the bare number.
            ("node", [number]) => format!("node {number}"),
            _ => short.join(" "),
        }
    }
}

/// Runs a client program to its end.
pub fn client(command: &mut Command) -> Result<(), String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|e| format!("{name}: {e}"))?;
    if output.status.success() {
        return Ok(());
    }
    let stderr = String::from_utf8_lossy(&output.stderr);
    Err(format!("{name} failed: {}", stderr.trim().lines().last().unwrap_or("no message")))
}

fn memcached(site: &Site<'_>) -> Result<Vec<String>, String> {
    let program = installed("memcached")?;
    let port = site.port.to_string();
    let mut line = words(&[&program, "-l", "127.0.0.1", "-U", "0", "-t", "4", "-p", &port]);
    if rustix::process::geteuid().is_root() {
        line.extend(words(&["-u", "root"]));
    }
    Ok(line)
}

/// Eight connections, each sets and gets values of 1000 bytes.
fn memcached_clients(site: &Site<'_>) -> Result<(), String> {
    let (port, rounds) = (site.port, site.tek.plan.pick(500, 5000));
    let clients: Vec<_> =
        (0..8).map(|id| std::thread::spawn(move || memcached_client(port, id, rounds))).collect();
    for client in clients {
        let outcome = client.join().map_err(|_| "a client of memcached panicked".to_string())?;
        outcome.map_err(|e| format!("a client of memcached: {e}"))?;
    }
    Ok(())
}

fn memcached_client(port: u16, id: usize, rounds: usize) -> std::io::Result<()> {
    let value = "v".repeat(1000);
    let mut to = TcpStream::connect(("127.0.0.1", port))?;
    let mut from = BufReader::new(to.try_clone()?);
    let mut expect = |wanted: &str| -> std::io::Result<()> {
        let mut line = String::new();
        from.read_line(&mut line)?;
        match line.trim_end() == wanted {
            true => Ok(()),
            false => Err(std::io::Error::other(format!("{wanted:.20} expected, not {line:.60}"))),
        }
    };
    for round in 0..rounds {
        let key = format!("key-{id}-{}", round % 100);
        // In one piece each: else Nagle's algorithm waits 40 ms for an acknowledgement.
        let set = format!("set {key} 0 0 {}\r\n{value}\r\n", value.len());
        to.write_all(set.as_bytes())?;
        expect("STORED")?;
        to.write_all(format!("get {key}\r\n").as_bytes())?;
        expect(&format!("VALUE {key} 0 {}", value.len()))?;
        expect(&value)?;
        expect("END")?;
    }
    Ok(())
}

fn redis(site: &Site<'_>) -> Result<Vec<String>, String> {
    let program = installed("redis-server")?;
    let (port, folder) = (site.port.to_string(), site.folder.to_string_lossy().into_owned());
    let mut line = words(&[&program, "--bind", "127.0.0.1", "--port", &port, "--dir", &folder]);
    line.extend(words(&["--save", "", "--appendonly", "no", "--daemonize", "no"]));
    line.extend(words(&["--io-threads", "4", "--io-threads-do-reads", "yes"]));
    Ok(line)
}

fn redis_clients(site: &Site<'_>) -> Result<(), String> {
    let requests = site.tek.plan.pick("5000", "50000");
    let mut benchmark = Command::new(installed("redis-benchmark")?);
    benchmark.args(["-q", "-c", "50", "-P", "8", "-d", "200", "-t", "set,get,lpush,lrange_100"]);
    client(benchmark.args(["-n", requests, "-p", &site.port.to_string()]))
}

const NGINX_FILE: &str = "page.html";

fn nginx(site: &Site<'_>) -> Result<Vec<String>, String> {
    let program = installed("nginx")?;
    let folder = site.folder.display();
    let port = site.port;
    let temps = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|name| format!("{name}_temp_path {folder}/{name};"))
        .join(" ");
    // Whoever starts the run can read the folder; nginx's own user perhaps cannot.
    let user = if rustix::process::geteuid().is_root() { "user root;" } else { "" };
    let text = format!(
        "daemon off; {user} worker_processes 1; pid {folder}/pid; error_log {folder}/errors;\n\
         thread_pool default threads=32;\n\
         events {{ worker_connections 1024; }}\n\
         http {{ access_log off; {temps} sendfile off; aio threads;\n\
         server {{ listen 127.0.0.1:{port}; root {folder};\n\
         keepalive_requests 100000000; }} }}\n"
    );
    let configuration = site.folder.join("nginx.conf");
    let page = site.folder.join(NGINX_FILE);
    std::fs::write(&configuration, text)
        .and_then(|()| std::fs::write(&page, "warp and weft ".repeat(1000)))
        .map_err(|e| format!("{folder}: {e}"))?;
    Ok(words(&[&program, "-p", &folder.to_string(), "-c", &configuration.to_string_lossy()]))
}

fn nginx_clients(site: &Site<'_>) -> Result<(), String> {
    let load = site.tek.plan.programs.get(Program::Load)?;
    let (port, measure_ms) = (site.port.to_string(), site.tek.plan.pick("500", "3000"));
    let page = format!("/{NGINX_FILE}");
    client(Command::new(load).args(["http", &port, "64", "200", measure_ms, &page]))
}

/// The database is made once; later runs find it as the last one left it.
fn mariadb(site: &Site<'_>) -> Result<Vec<String>, String> {
    let program = installed("mariadbd")?;
    // Root has to say that it means it.
    let user = rustix::process::geteuid().is_root().then_some("--user=root");
    let data = site.tek.scratch.path("mariadb-data");
    let datadir = format!("--datadir={}", data.display());
    if !data.is_dir() {
        let mut install = Command::new(installed("mariadb-install-db")?);
        install.args(["--no-defaults", "--auth-root-authentication-method=normal"]).args(user);
        client(install.args(["--skip-test-db", &datadir])).inspect_err(|_| {
            // Half a database must not be taken for one.
            let _ = std::fs::remove_dir_all(&data);
        })?;
    }
    let in_folder = |option: &str, name: &str| format!("--{option}={}/{name}", data.display());
    let mut line = words(&[&program, "--no-defaults", &datadir]);
    line.extend(user.map(String::from));
    line.extend([in_folder("socket", "socket"), in_folder("pid-file", "pid")]);
    line.extend(words(&["--bind-address=127.0.0.1", "--max-connections=200"]));
    line.push(format!("--port={}", site.port));
    Ok(line)
}

fn mariadb_clients(site: &Site<'_>) -> Result<(), String> {
    let socket = format!("--socket={}", site.tek.scratch.path("mariadb-data/socket").display());
    let queries = format!("--number-of-queries={}", site.tek.plan.pick(500, 10_000));
    let mut slap = Command::new(installed("mysqlslap")?);
    slap.args(["--no-defaults", "--user=root", "--concurrency=100", "--auto-generate-sql"]);
    slap.args(["--auto-generate-sql-load-type=mixed", "--number-char-cols=4", &socket]);
    client(slap.arg(queries))
}

fn ffmpeg(site: &Site<'_>) -> Result<Vec<String>, String> {
    let program = installed("ffmpeg")?;
    let seconds = site.tek.plan.pick(1, 6);
    let picture = format!("testsrc2=size=640x360:rate=25:duration={seconds}");
    let mut line = words(&[&program, "-hide_banner", "-loglevel", "error", "-nostdin"]);
    line.extend(words(&["-f", "lavfi", "-i", &picture, "-threads", "4", "-c:v", "libx264"]));
    line.extend(words(&["-f", "null", "-"]));
    Ok(line)
}

const PYTHON: &str = "\
import json, re, threading, zlib
together = threading.Barrier(32)
def work(number):
    together.wait()
    for turn in range(20):
        text = json.dumps({'n': [number, turn], 'deep': [[[list(range(50))]]]})
        assert json.loads(zlib.decompress(zlib.compress(text.encode())))['n'][0] == number
        re.match(r'(a|b)*c', 'ab' * 200 + 'c')
threads = [threading.Thread(target=work, args=(n,), name=f'work-{n}') for n in range(32)]
[t.start() for t in threads]
[t.join() for t in threads]
";

fn python(site: &Site<'_>) -> Result<Vec<String>, String> {
    let program = installed("python3")?;
    let script = site.tek.scratch.write("work.py", PYTHON)?;
    Ok(words(&[&program, "-I", &script.to_string_lossy()]))
}

const JAVA: &str = "\
import java.util.*;
public class Work {
    static void work(int number) {
        Map<String, Integer> counts = new TreeMap<>();
        for (int i = 0; i < 100000; i++)
            counts.merge(\"k\" + (i * 31 + number) % 1000, 1, Integer::sum);
    }
    public static void main(String[] args) throws Exception {
        List<Thread> threads = new ArrayList<>();
        for (int i = 0; i < 16; i++) {
            int number = i;
            threads.add(new Thread(() -> work(number), \"work-\" + i));
        }
        for (Thread thread : threads) thread.start();
        for (Thread thread : threads) thread.join();
    }
}
";

fn java(site: &Site<'_>) -> Result<Vec<String>, String> {
    let (program, compiler) = (installed("java")?, installed("javac")?);
    let source = site.tek.scratch.write("Work.java", JAVA)?;
    let classes = site.tek.scratch.path("classes");
    if !classes.is_dir() {
        client(Command::new(compiler).arg("-d").arg(&classes).arg(&source))?;
    }
    Ok(words(&[&program, "-cp", &classes.to_string_lossy(), "Work"]))
}

const NODE: &str = "\
const { Worker, isMainThread } = require('worker_threads');
const zlib = require('zlib');
if (isMainThread) {
    for (let i = 0; i < 8; i++) new Worker(__filename);
} else {
    const text = JSON.stringify([...Array(20000).keys()]);
    if (JSON.parse(text).length !== 20000) throw new Error('lost');
    zlib.deflate(text, () => {});
}
";

fn node(site: &Site<'_>) -> Result<Vec<String>, String> {
    let program = installed("node")?;
    let script = site.tek.scratch.write("work.js", NODE)?;
    Ok(words(&[&program, &script.to_string_lossy()]))
}
