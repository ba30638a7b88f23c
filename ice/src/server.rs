//! A server from its start to its end: listening, turning away, watching, shutting down.
//!
//! Threads: one accepts, one watches (coarse clock, deadlines), one writes the access log if
//! there is one, and one per connection. Invariant: when `run` returns, all of them are gone.

use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::net::{Shutdown, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::net::SendFlags;
use rustix::process::{Resource, Rlimit};

use crate::bell::Bell;
use crate::cache::Cache;
use crate::clock::Clock;
use crate::config::Config;
use crate::conns::{Conns, Deadlines};
use crate::error::Error;
use crate::live::Live;
use crate::log::Log;
use crate::request::Limits;
use crate::root::Root;
use crate::rt::{self, Group, JoinHandle, Mutex, TcpListener, TcpStream, lock};
use crate::session;
use crate::stats::Stats;
use crate::tls;

/// Connections that the kernel holds until they are accepted.
const BACKLOG: i32 = 4096;
/// The kernel may hold the listener of a server that was killed for a moment after its end, while
/// it takes the ring down: so often, and after this pause, a taken address is tried again.
const BIND_ATTEMPTS: usize = 10;
const BIND_PAUSE: Duration = Duration::from_millis(50);
/// Open files that are kept for everything but connections and the cache.
const FILES_RESERVED: usize = 64;
/// Connections that are turned away politely at a time; more are closed at once.
const TURNED_AWAY_MAX: usize = 64;
/// How long a client that was refused may go on sending.
const LINGER: Duration = Duration::from_secs(2);
/// Stack of the server's own threads.
const STACK_BYTES: usize = 256 * 1024;

const BUSY: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nServer: Ice\r\nConnection: close\r\n\
Retry-After: 1\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: 43\r\n\r\n\
The server has as many clients as it takes.";

/// What all threads of a server share.
#[derive(Debug)]
pub struct Shared {
    pub(crate) config: Config,
    pub(crate) limits: Limits,
    pub(crate) root: Root,
    pub(crate) cache: Cache,
    pub(crate) clock: Clock,
    pub(crate) conns: Conns,
    pub(crate) stats: Stats,
    pub(crate) log: Option<Log>,
    pub(crate) live: Live,
    pub(crate) tls: Option<Arc<rustls::ServerConfig>>,
    /// Random; known to this process alone.
    pub(crate) secret: u64,
    pub(crate) connections_max: usize,
    listener: TcpListener,
    deadlines: Deadlines,
    stopping: AtomicBool,
    done: AtomicBool,
    watch: Bell,
    turned_away: Mutex<usize>,
    /// Given up to accept one more connection when there are no more descriptors, so that its
    /// client hears why.
    spare: Mutex<Option<File>>,
    complained: AtomicU64,
}

/// A server that listens.
#[derive(Debug)]
pub struct Server {
    shared: Arc<Shared>,
    local_addr: SocketAddr,
}

/// Controls a server from elsewhere.
#[derive(Debug, Clone)]
pub struct Handle {
    shared: Arc<Shared>,
}

impl Handle {
    /// Shuts the server down: it accepts nothing more, answers in progress finish within the
    /// grace time, and `Server::run` returns. May be called more than once.
    pub fn shutdown(&self) {
        if !self.shared.stopping.swap(true, SeqCst) {
            // This ends the wait in accept, whichever thread is in it.
            let _ = rustix::net::shutdown(&self.shared.listener, rustix::net::Shutdown::Both);
        }
    }

    /// Opens the access log anew, after it was renamed.
    ///
    /// # Errors
    /// The file cannot be opened; the old one stays in use.
    pub fn reopen_log(&self) -> Result<(), Error> {
        self.shared.log.as_ref().map_or(Ok(()), Log::reopen)
    }
}

impl Shared {
    /// No further requests are wanted.
    #[inline]
    pub(crate) fn stopping(&self) -> bool {
        self.stopping.load(Relaxed)
    }

    /// Tells the operator, at most once a second.
    fn complain(&self, message: std::fmt::Arguments<'_>) {
        self.clock.refresh();
        let second = self.clock.unix();
        if self.complained.swap(second, Relaxed) != second {
            eprintln!("ice: {message}");
        }
    }
}

/// How many open files connections and cache may have.
#[derive(Debug, PartialEq, Eq)]
struct Files {
    connections: usize,
    cached: usize,
}

impl Files {
    /// Raises the limit on open files as far as it goes without privileges.
    fn raise(config: &Config) -> Files {
        let limit = rustix::process::getrlimit(Resource::Nofile);
        let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
        let files = match rustix::process::setrlimit(Resource::Nofile, raised) {
            Ok(()) => limit.maximum,
            Err(_) => limit.current,
        };
        Files::divide(files.unwrap_or(u64::MAX), config)
    }

    /// Divides a limit: first the reserve, then at most a quarter for the cache, the rest for
    /// connections. Even a tiny limit leaves a connection.
    fn divide(limit: u64, config: &Config) -> Files {
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let left = limit.saturating_sub(FILES_RESERVED).max(limit / 4);
        let cached = config.cache_files.min(left / 4);
        Files { connections: config.max_connections.min(left - cached).max(1), cached }
    }
}

impl Server {
    /// Opens the folder, reads certificate and key, opens the log and listens.
    ///
    /// The limit on open files is raised as far as it goes, as each connection needs one.
    ///
    /// # Errors
    /// Any of these cannot be done; the error says which and why.
    pub fn bind(config: Config) -> Result<Server, Error> {
        let root = Root::open(&config.root).map_err(|e| Error::Root(config.root.clone(), e))?;
        let tls = config.tls.as_ref().map(tls::load).transpose()?;
        let stripes = rt::parallelism();
        let files = Files::raise(&config);
        let log = Log::open(&config.access_log, stripes)?;
        let address = config.socket_addr();
        let listener = listen(address).map_err(|e| Error::Bind(address, e))?;
        let local_addr = listener.local_addr().map_err(|e| Error::Bind(address, e))?;
        let shared = Shared {
            limits: config.limits(),
            root,
            cache: Cache::new(stripes, config.cache_bytes, files.cached),
            clock: Clock::new(),
            conns: Conns::default(),
            stats: Stats::default(),
            log,
            live: Live::default(),
            tls,
            secret: RandomState::new().hash_one(0),
            connections_max: files.connections,
            listener,
            deadlines: Deadlines {
                idle: config.idle_timeout,
                head: config.head_timeout,
                send: config.send_timeout,
                linger: LINGER,
            },
            stopping: AtomicBool::new(false),
            done: AtomicBool::new(false),
            watch: Bell::default(),
            turned_away: Mutex::new(0),
            spare: Mutex::new(File::open("/dev/null").ok()),
            complained: AtomicU64::new(0),
            config,
        };
        Ok(Server { shared: Arc::new(shared), local_addr })
    }

    /// What the threads will share.
    pub(crate) fn shared(&self) -> Arc<Shared> {
        self.shared.clone()
    }

    /// Where the server listens; the port is the real one, also when 0 was asked for.
    pub fn local_addr(&self) -> SocketAddr {
        self.local_addr
    }

    /// A handle to shut the server down with.
    pub fn handle(&self) -> Handle {
        Handle { shared: self.shared.clone() }
    }

    /// Serves until the server is shut down.
    ///
    /// # Errors
    /// One of the server's own threads cannot be started.
    pub fn run(self) -> Result<(), Error> {
        let shared = &self.shared;
        let mut own = vec![start("http watch", Group::Service, shared, watch)?];
        if shared.log.is_some() {
            own.push(start("http log", Group::Background, shared, write_log)?);
        }
        let accepted = start("http acceptor", Group::Urgent, shared, accept).map(|thread| {
            // A panic there was reported when it happened.
            let _ = thread.join();
        });
        drain(shared);
        shared.done.store(true, SeqCst);
        shared.watch.ring();
        if let Some(log) = &shared.log {
            log.bell.ring();
        }
        for thread in own {
            let _ = thread.join();
        }
        accepted
    }
}

fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let mut attempts = 0..BIND_ATTEMPTS;
    let listener = loop {
        match TcpListener::bind(address) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse && attempts.next().is_some() => {
                rt::sleep(BIND_PAUSE);
            }
            other => break other?,
        }
    };
    rustix::net::listen(&listener, BACKLOG)?;
    // Inherited by every connection, so it costs nothing per connection.
    rustix::net::sockopt::set_tcp_nodelay(&listener, true)?;
    Ok(listener)
}

fn start(
    role: &'static str,
    group: Group,
    shared: &Arc<Shared>,
    body: fn(&Arc<Shared>),
) -> Result<JoinHandle<()>, Error> {
    let shared = shared.clone();
    rt::spawn(role, group, STACK_BYTES, move || body(&shared)).map_err(|e| Error::Thread(role, e))
}

/// The acceptor's thread.
fn accept(shared: &Arc<Shared>) {
    while !shared.stopping() {
        match shared.listener.accept() {
            Ok((stream, peer)) => admit(shared, stream, peer),
            Err(_) if shared.stopping() => break,
            Err(error) => recover(shared, &error),
        }
    }
}

fn admit(shared: &Arc<Shared>, stream: TcpStream, peer: SocketAddr) {
    shared.stats.accepted.fetch_add(1, Relaxed);
    let open = shared.conns.open();
    if open >= shared.connections_max {
        let limit = shared.connections_max;
        shared.complain(format_args!("turning clients away: {limit} connections are the limit"));
        return turn_away(shared, stream);
    }
    if open == 0 {
        // The watch thread sleeps while there is nothing to watch, and the clock with it.
        shared.clock.refresh();
    }
    let conn = shared.conns.insert(stream, peer, &shared.clock);
    if open == 0 {
        shared.watch.ring();
    }
    let (theirs, ours) = (conn.clone(), shared.clone());
    let stack = shared.config.stack();
    let spawned = rt::spawn("http connection", Group::Normal, stack, move || {
        let guard = Leave { shared: &ours, conn: &theirs };
        session::serve(guard.shared, guard.conn);
    });
    if let Err(error) = spawned {
        shared.conns.remove(&conn, &shared.stats);
        shared.complain(format_args!("no thread for a connection: {error}"));
        say_busy(&conn.stream);
        shared.stats.rejected.fetch_add(1, Relaxed);
    }
}

/// Takes a connection out of the table however its thread ends.
struct Leave<'a> {
    shared: &'a Arc<Shared>,
    conn: &'a crate::conns::Conn,
}

impl Drop for Leave<'_> {
    fn drop(&mut self) {
        self.shared.conns.remove(self.conn, &self.shared.stats);
    }
}

/// Sends 503 as far as it goes without waiting. Over TLS that would take a handshake, which is
/// what a server at its limit should not do.
fn say_busy(stream: &TcpStream) {
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    let _ = rustix::net::send(stream, BUSY, flags);
    let _ = stream.shutdown(Shutdown::Write);
}

/// Answers 503 and waits, elsewhere and not for long, until the client has read it.
fn turn_away(shared: &Arc<Shared>, stream: TcpStream) {
    shared.stats.rejected.fetch_add(1, Relaxed);
    if shared.tls.is_some() {
        return;
    }
    say_busy(&stream);
    {
        let mut lingering = lock(&shared.turned_away);
        if *lingering == TURNED_AWAY_MAX {
            return;
        }
        *lingering += 1;
    }
    let ours = shared.clone();
    let stack = shared.config.stack();
    let spawned = rt::spawn("http turn away", Group::Service, stack, move || {
        linger(&stream);
        *lock(&ours.turned_away) -= 1;
    });
    if spawned.is_err() {
        *lock(&shared.turned_away) -= 1;
    }
}

fn linger(mut stream: &TcpStream) {
    let start = Instant::now();
    let mut buf = [0; 512];
    if stream.set_read_timeout(Some(LINGER)).is_ok() {
        while start.elapsed() < LINGER && matches!(io::Read::read(&mut stream, &mut buf), Ok(1..)) {
        }
    }
}

/// Goes on after accept has failed.
fn recover(shared: &Arc<Shared>, error: &io::Error) {
    let errno = Errno::from_io_error(error);
    let gone = [Errno::CONNABORTED, Errno::INTR, Errno::PROTO, Errno::AGAIN];
    if errno.is_some_and(|e| gone.contains(&e)) {
        return;
    }
    shared.complain(format_args!("cannot accept a connection: {error}"));
    // Only for a client who is there: the kernel takes the descriptor before it waits, so it
    // complains without one, and the next one should find the descriptors as they are then.
    if matches!(errno, Some(Errno::MFILE | Errno::NFILE))
        && has_client(&shared.listener)
        && lock(&shared.spare).take().is_some()
    {
        if let Ok((stream, _)) = shared.listener.accept() {
            shared.stats.rejected.fetch_add(1, Relaxed);
            say_busy(&stream);
        }
        *lock(&shared.spare) = File::open("/dev/null").ok();
    }
    // Whatever is exhausted, asking again at once would only burn the processor.
    rt::sleep(Duration::from_millis(20));
}

/// Would accept have a client without waiting?
fn has_client(listener: &TcpListener) -> bool {
    let mut polled = [PollFd::new(listener, PollFlags::IN)];
    rustix::event::poll(&mut polled, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
}

/// The watch thread: the clock and the deadlines, while there are connections.
fn watch(shared: &Arc<Shared>) {
    let period = shared.deadlines.period();
    while !shared.done.load(SeqCst) {
        if shared.conns.open() == 0 {
            shared.watch.wait(None);
        } else {
            shared.watch.wait(Some(period.min(until_next_second())));
        }
        shared.clock.refresh();
        shared.conns.sweep(&shared.deadlines, &shared.clock, &shared.stats);
    }
}

/// The date should change when it does, not up to a period later.
fn until_next_second() -> Duration {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Duration::from_secs(1) - Duration::from_nanos(now.subsec_nanos().into())
}

/// The log's thread.
fn write_log(shared: &Arc<Shared>) {
    /// Lines are gathered for so long.
    const GATHER: Duration = Duration::from_millis(200);
    let Some(log) = &shared.log else { return };
    while !shared.done.load(SeqCst) {
        log.bell.wait(None);
        if !shared.done.load(SeqCst) {
            rt::sleep(GATHER);
        }
        if let Err(error) = log.flush() {
            shared.complain(format_args!("cannot write the access log: {error}"));
        }
    }
    // Lines of connections that ended after the last look.
    let _ = log.flush();
}

/// Lets the connections end: idle ones at once, others within the grace time, and then all.
fn drain(shared: &Arc<Shared>) {
    /// A thread whose socket is shut down has this long to notice.
    const FORCED: Duration = Duration::from_secs(5);
    const LOOK_EVERY: Duration = Duration::from_millis(10);
    shared.stopping.store(true, SeqCst);
    let start = Instant::now();
    while shared.conns.open() > 0 && start.elapsed() < shared.config.grace {
        // Again and again: a connection may have become idle since the last look.
        shared.conns.dismiss_idle();
        rt::sleep(LOOK_EVERY);
    }
    let start = Instant::now();
    while shared.conns.open() > 0 && start.elapsed() < FORCED {
        shared.conns.dismiss_all();
        rt::sleep(LOOK_EVERY);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_and_cache_share_what_the_limit_leaves() {
        let config = Config::new("/");
        let files = |limit| Files::divide(limit, &config);
        assert_eq!(files(20_000), Files { connections: 18_912, cached: 1024 });
        assert_eq!(files(1024), Files { connections: 720, cached: 240 });
        assert_eq!(files(40), Files { connections: 8, cached: 2 });
        assert_eq!(files(0), Files { connections: 1, cached: 0 });
        assert_eq!(files(u64::MAX), Files { connections: 100_000, cached: 1024 });
    }
}
