//! The connections that are open, and the limits on how long each may take for what it does.
//!
//! Protocol: a connection's thread writes what it is doing and since when (`Conn::enter`, one
//! relaxed store). The watch thread looks at all connections once per period and shuts down the
//! socket of one that is overdue, which wakes its thread from whatever it waits for. So a timeout
//! costs no timer and no system call on the path of a request, and covers a client that trickles
//! bytes as well as one that is silent.
//!
//! What an expiry does depends on the phase: reading is ended in a way that still lets an answer
//! out (408); sending is ended for good.

use std::net::{Shutdown, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use crate::clock::Clock;
use crate::rt::{Mutex, TcpStream, lock};
use crate::stats::{Single, Stats};

/// What a connection's thread is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Phase {
    /// Waits for a request.
    Idle,
    /// Has the beginning of a head, or does a TLS handshake.
    Head,
    /// Reads a body.
    Body,
    /// Sends.
    Send,
    /// Waits for the next event of a stream.
    Stream,
    /// Has answered for the last time and waits for the client to notice.
    Linger,
}

/// One connection.
#[derive(Debug)]
pub struct Conn {
    /// The socket.
    pub stream: TcpStream,
    /// The client.
    pub peer: SocketAddr,
    slot: usize,
    phase: AtomicU64,
    expired: AtomicBool,
    /// Answers sent.
    pub requests: Single,
    /// Bytes of bodies sent.
    pub bytes: Single,
}

impl Conn {
    /// Notes what the thread does from now on.
    #[inline]
    pub fn enter(&self, phase: Phase, clock: &Clock) {
        self.phase.store(clock.ticks() << 8 | phase as u64, Relaxed);
    }

    /// The watch thread has ended the wait.
    pub fn expired(&self) -> bool {
        self.expired.load(Relaxed)
    }

    /// A number that differs from those of other open connections.
    pub fn number(&self) -> usize {
        self.slot
    }

    fn phase(&self) -> (Phase, u64) {
        let word = self.phase.load(Relaxed);
        let phase = match word & 0xff {
            0 => Phase::Idle,
            1 => Phase::Head,
            2 => Phase::Body,
            3 => Phase::Send,
            4 => Phase::Stream,
            _ => Phase::Linger,
        };
        (phase, word >> 8)
    }
}

/// How long each phase may last.
#[derive(Debug, Clone, Copy)]
pub struct Deadlines {
    /// `Phase::Idle`.
    pub idle: Duration,
    /// `Phase::Head` and `Phase::Body`.
    pub head: Duration,
    /// `Phase::Send`.
    pub send: Duration,
    /// `Phase::Linger`.
    pub linger: Duration,
}

impl Deadlines {
    fn of(&self, phase: Phase) -> Option<Duration> {
        match phase {
            Phase::Idle => Some(self.idle),
            Phase::Head | Phase::Body => Some(self.head),
            Phase::Send => Some(self.send),
            Phase::Linger => Some(self.linger),
            Phase::Stream => None,
        }
    }

    /// How often to look: often enough for the shortest, at most once and at least 20 times per
    /// second.
    pub fn period(&self) -> Duration {
        let shortest = self.idle.min(self.head).min(self.send).min(self.linger);
        (shortest / 4).clamp(Duration::from_millis(50), Duration::from_secs(1))
    }
}

const SHARDS: usize = 16;

/// All open connections.
#[derive(Debug, Default)]
pub struct Conns {
    shards: [Mutex<Shard>; SHARDS],
    next: AtomicUsize,
    open: AtomicUsize,
}

#[derive(Debug, Default)]
struct Shard {
    slots: Vec<Option<Arc<Conn>>>,
    free: Vec<usize>,
}

impl Conns {
    /// Open connections.
    pub fn open(&self) -> usize {
        self.open.load(Relaxed)
    }

    /// Takes a new connection in.
    pub fn insert(&self, stream: TcpStream, peer: SocketAddr, clock: &Clock) -> Arc<Conn> {
        let shard_at = self.next.fetch_add(1, Relaxed) % SHARDS;
        let mut shard = lock(&self.shards[shard_at]);
        let at = shard.free.pop().unwrap_or(shard.slots.len());
        let conn = Arc::new(Conn {
            stream,
            peer,
            slot: at * SHARDS + shard_at,
            phase: AtomicU64::new(0),
            expired: AtomicBool::new(false),
            requests: Single::default(),
            bytes: Single::default(),
        });
        conn.enter(Phase::Idle, clock);
        match shard.slots.get_mut(at) {
            Some(slot) => *slot = Some(conn.clone()),
            None => shard.slots.push(Some(conn.clone())),
        }
        self.open.fetch_add(1, Relaxed);
        conn
    }

    /// Lets a connection go; its counters join the totals.
    pub fn remove(&self, conn: &Conn, stats: &Stats) {
        let mut shard = lock(&self.shards[conn.slot % SHARDS]);
        let at = conn.slot / SHARDS;
        if shard.slots[at].take().is_some() {
            shard.free.push(at);
            stats.closed_requests.fetch_add(conn.requests.get(), Relaxed);
            stats.closed_bytes.fetch_add(conn.bytes.get(), Relaxed);
            self.open.fetch_sub(1, Relaxed);
        }
    }

    /// Calls `f` for every open connection, one shard locked at a time.
    fn each(&self, mut f: impl FnMut(&Conn)) {
        for shard in &self.shards {
            lock(shard).slots.iter().flatten().for_each(|conn| f(conn));
        }
    }

    /// Answers and body bytes of all connections there ever were.
    pub fn totals(&self, stats: &Stats) -> (u64, u64) {
        let (mut requests, mut bytes) =
            (stats.closed_requests.load(Relaxed), stats.closed_bytes.load(Relaxed));
        self.each(|conn| {
            requests += conn.requests.get();
            bytes += conn.bytes.get();
        });
        (requests, bytes)
    }

    /// Ends what is overdue.
    pub fn sweep(&self, deadlines: &Deadlines, clock: &Clock, stats: &Stats) {
        let now = clock.ticks();
        self.each(|conn| {
            let (phase, since) = conn.phase();
            let Some(allowed) = deadlines.of(phase) else { return };
            if u128::from(now.saturating_sub(since)) < allowed.as_millis() {
                return;
            }
            let how = match phase {
                Phase::Idle | Phase::Head | Phase::Body => Shutdown::Read,
                _ => Shutdown::Both,
            };
            if !conn.expired.swap(true, Relaxed) && phase != Phase::Idle && phase != Phase::Linger {
                stats.timed_out.fetch_add(1, Relaxed);
            }
            // The client may be gone already; then there is nothing left to end.
            let _ = conn.stream.shutdown(how);
        });
    }

    /// Wakes every connection that only waits: for a request, or for the next event.
    pub fn dismiss_idle(&self) {
        self.each(|conn| {
            if matches!(conn.phase().0, Phase::Idle | Phase::Stream) {
                let _ = conn.stream.shutdown(Shutdown::Read);
            }
        });
    }

    /// Ends every connection, whatever it does.
    pub fn dismiss_all(&self) {
        self.each(|conn| {
            let _ = conn.stream.shutdown(Shutdown::Both);
        });
    }
}
