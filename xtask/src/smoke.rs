//! `cargo xtask smoke`: the first minute of a new user, by machine.
//!
//! Starts `make run` on a free port, reads the sample page and the live page over HTTP, finds the
//! connection's thread in `heddle ps`, interrupts the server as a terminal would and sees it go.
//! Invariant: however the look ends, nothing that was started is left running.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::process::Signal;

use crate::processes;
use crate::repo::Repo;

/// From a clean tree `make run` compiles first.
const START_LIMIT: Duration = Duration::from_secs(600);
const ANSWER_LIMIT: Duration = Duration::from_secs(60);
const END_LIMIT: Duration = Duration::from_secs(60);
const LOOK_EVERY: Duration = Duration::from_millis(50);

struct Server {
    make: Child,
    address: SocketAddr,
}

impl Drop for Server {
    fn drop(&mut self) {
        processes::signal_tree(self.make.id(), Signal::KILL);
        // It was killed; there is nothing to learn from how it ended.
        let _ = self.make.wait();
    }
}

pub fn run(repo: &Repo) -> Result<()> {
    let mut server = start(repo)?;
    let page = get(server.address, "/")?;
    ensure!(page.starts_with("HTTP/1.1 200 "), "GET / says: {}", first_line(&page));
    ensure!(page.contains("heddle"), "GET / is not the sample page");
    let live = get(server.address, "/heddle/")?;
    ensure!(live.starts_with("HTTP/1.1 200 "), "GET /heddle/ says: {}", first_line(&live));
    let gone = get(server.address, "/no-such-file")?;
    ensure!(gone.starts_with("HTTP/1.1 404 "), "a missing file says: {}", first_line(&gone));
    look_at_threads(repo, server.address)?;
    interrupt(&mut server)?;
    println!("served, looked at, interrupted");
    Ok(())
}

fn start(repo: &Repo) -> Result<Server> {
    let address = free_address()?;
    let mut make = Command::new("make");
    make.current_dir(&repo.root).args(["run", &format!("PORT={}", address.port())]);
    let child = make.stdin(Stdio::null()).spawn().context("cannot start make")?;
    let mut server = Server { make: child, address };
    let deadline = Instant::now() + START_LIMIT;
    while TcpStream::connect(address).is_err() {
        if let Some(status) = server.make.try_wait()? {
            bail!("make run ended before it served: {status}");
        }
        ensure!(Instant::now() < deadline, "make run does not listen after {START_LIMIT:?}");
        sleep(LOOK_EVERY);
    }
    Ok(server)
}

/// A port that nobody has at the moment; if somebody takes it now, `make run` says so and ends.
fn free_address() -> Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("no loopback")?;
    Ok(listener.local_addr()?)
}

fn connect(address: SocketAddr) -> Result<TcpStream> {
    let stream = TcpStream::connect(address).with_context(|| format!("cannot reach {address}"))?;
    stream.set_read_timeout(Some(ANSWER_LIMIT))?;
    Ok(stream)
}

fn get(address: SocketAddr, path: &str) -> Result<String> {
    let mut stream = connect(address)?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).with_context(|| format!("no answer to GET {path}"))?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

fn first_line(answer: &str) -> &str {
    answer.lines().next().unwrap_or("nothing")
}

/// While a connection is open, its thread is in the table.
fn look_at_threads(repo: &Repo, address: SocketAddr) -> Result<()> {
    let mut stream = connect(address)?;
    write!(stream, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")?;
    let mut start = [0; 12];
    stream.read_exact(&mut start).context("no answer on an open connection")?;
    let output = Command::new(repo.target().join("release/heddle"))
        .args(["ps", "--json"])
        .output()
        .context("cannot start heddle ps")?;
    let table = String::from_utf8_lossy(&output.stdout);
    ensure!(output.status.success(), "heddle ps: {}", String::from_utf8_lossy(&output.stderr));
    ensure!(table.contains("http connection"), "no thread of a connection in heddle ps");
    Ok(())
}

fn interrupt(server: &mut Server) -> Result<()> {
    processes::signal_tree(server.make.id(), Signal::INT);
    let deadline = Instant::now() + END_LIMIT;
    while server.make.try_wait()?.is_none() || TcpStream::connect(server.address).is_ok() {
        ensure!(Instant::now() < deadline, "still there {END_LIMIT:?} after an interrupt");
        sleep(LOOK_EVERY);
    }
    Ok(())
}
