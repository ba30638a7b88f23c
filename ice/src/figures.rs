//! The figures of the live page: the thread table of this process and the server's counters,
//! as one line of JSON.
//!
//! Invariant: the line is valid JSON whatever texts the threads have, and its length is bounded
//! however many threads there are: threads are summed by role and class.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{SystemTime, UNIX_EPOCH};

use heddle_record::{Class, Group, Kind, Reader, Snapshot, State, Thread, Zone};

use crate::server::Shared;
use crate::stats::bucket_start_ns;

/// Roles that are shown one by one; the smallest others are summed.
const ROLES_MAX: usize = 40;

/// Collects everything.
pub fn collect(shared: &Arc<Shared>) -> String {
    let mut out = Json::new();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    out.number("now_ms", now.as_millis());
    out.number("uptime_s", shared.clock.uptime_s().into());
    out.number("pid", std::process::id().into());
    out.text("version", env!("CARGO_PKG_VERSION"));
    out.number("resident_bytes", resident_bytes().into());
    server(shared, &mut out);
    match Reader::open(std::process::id() as i32).and_then(|reader| reader.snapshot()) {
        Ok(snapshot) => threads(&snapshot, &mut out),
        Err(error) => out.text("table_error", &error.to_string()),
    }
    out.finish()
}

/// Memory of the process as the kernel counts it.
fn resident_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = statm.split(' ').nth(1).and_then(|p| p.parse::<u64>().ok()).unwrap_or(0);
    pages * rustix::param::page_size() as u64
}

fn server(shared: &Shared, out: &mut Json) {
    let stats = &shared.stats;
    let (requests, bytes) = shared.conns.totals(stats);
    out.number("requests", requests.into());
    out.number("bytes", bytes.into());
    out.number("connections", shared.conns.open() as u128);
    out.number("connections_max", shared.connections_max as u128);
    out.number("accepted", stats.accepted.load(Relaxed).into());
    out.number("rejected", stats.rejected.load(Relaxed).into());
    out.number("timed_out", stats.timed_out.load(Relaxed).into());
    let [_, redirects, client_errors, server_errors] = stats.classes();
    out.number("answers_3xx", redirects.into());
    out.number("answers_4xx", client_errors.into());
    out.number("answers_5xx", server_errors.into());
    let cache = shared.cache.figures();
    out.number("cache_entries", cache.entries as u128);
    out.number("cache_bytes", cache.bytes as u128);
    out.number("cache_bytes_max", cache.bytes_max as u128);
    out.number("cache_files", cache.files as u128);
    out.number("cache_hits", cache.hits.into());
    out.number("cache_misses", cache.misses.into());
    out.list("latency_ns", |out| {
        for (bucket, count) in shared.stats.latency.counts().into_iter().enumerate() {
            if count > 0 {
                out.raw(format_args!("[{},{count}]", bucket_start_ns(bucket)));
            }
        }
    });
}

/// Sums of threads that have role and class in common.
#[derive(Default)]
struct Sum {
    groups: BTreeMap<Group, u64>,
    states: BTreeMap<State, u64>,
    zones: BTreeMap<Zone, u64>,
    count: u64,
    stack_size: u32,
    stack_peak: u32,
    stack_resident: u64,
    cpu_ns: u64,
    switches: u64,
}

impl Sum {
    fn add(&mut self, thread: &Thread) {
        let fields = &thread.fields;
        *self.groups.entry(fields.group).or_default() += 1;
        *self.states.entry(fields.state).or_default() += 1;
        *self.zones.entry(fields.zone).or_default() += 1;
        self.count += 1;
        self.stack_size = self.stack_size.max(fields.stack_size);
        self.stack_peak = self.stack_peak.max(fields.stack_peak);
        self.stack_resident += u64::from(fields.stack_resident);
        self.cpu_ns += fields.cpu_ns;
        self.switches += u64::from(fields.switches);
    }

    fn join(&mut self, other: Sum) {
        let sum = |mine: &mut u64, theirs| *mine += theirs;
        other.groups.into_iter().for_each(|(k, n)| sum(self.groups.entry(k).or_default(), n));
        other.states.into_iter().for_each(|(k, n)| sum(self.states.entry(k).or_default(), n));
        other.zones.into_iter().for_each(|(k, n)| sum(self.zones.entry(k).or_default(), n));
        self.count += other.count;
        self.stack_size = self.stack_size.max(other.stack_size);
        self.stack_peak = self.stack_peak.max(other.stack_peak);
        self.stack_resident += other.stack_resident;
        self.cpu_ns += other.cpu_ns;
        self.switches += other.switches;
    }

    fn write(&self, role: &str, class: Class, out: &mut Json) {
        out.text("role", role);
        out.text("class", class.word());
        out.number("count", self.count.into());
        out.counts("groups", self.groups.iter().map(|(k, n)| (k.word(), *n)));
        out.counts("states", self.states.iter().map(|(k, n)| (k.word(), *n)));
        out.counts("zones", self.zones.iter().map(|(k, n)| (k.word(), *n)));
        out.number("stack_size", self.stack_size.into());
        out.number("stack_peak", self.stack_peak.into());
        out.number("stack_resident", self.stack_resident.into());
        out.number("cpu_ns", self.cpu_ns.into());
        out.number("switches", self.switches.into());
    }
}

type Sums = BTreeMap<(Arc<str>, Class), Sum>;

fn threads(snapshot: &Snapshot, out: &mut Json) {
    out.text("backend", if snapshot.native { "kernel threads" } else { "user-level threads" });
    out.number("threads", snapshot.threads.len() as u128);
    out.number("faults", snapshot.faults.len() as u128);
    let mut sums = Sums::new();
    let mut workers = HashMap::<u16, OfWorker>::new();
    for thread in &snapshot.threads {
        sums.entry((purpose(thread), thread.fields.class)).or_default().add(thread);
        if let Some(worker) = thread.worker() {
            let sum = workers.entry(worker).or_default();
            sum.threads += 1;
            sum.switches += u64::from(thread.fields.switches);
        }
    }
    let mut roles: Vec<_> = sums.into_iter().collect();
    roles.sort_by_key(|(_, sum)| std::cmp::Reverse(sum.count));
    let others = roles.split_off(roles.len().min(ROLES_MAX));
    let mut rest = Sums::new();
    for ((_, class), sum) in others {
        rest.entry(("(other roles)".into(), class)).or_default().join(sum);
    }
    out.list("roles", |out| {
        for ((role, class), sum) in roles.into_iter().chain(rest) {
            out.object(|out| sum.write(&role, class, out));
        }
    });
    out.list("workers", |out| {
        for worker in &snapshot.workers {
            let sum = worker.worker().and_then(|w| workers.get(&w).copied()).unwrap_or_default();
            out.object(|out| write_worker(worker, sum, snapshot, out));
        }
    });
}

/// Sums of a worker's threads.
#[derive(Clone, Copy, Default)]
struct OfWorker {
    threads: u64,
    switches: u64,
}

/// What a thread is for: its role, or what else is known.
fn purpose(thread: &Thread) -> Arc<str> {
    match (&thread.role, &thread.name, thread.fields.kind) {
        (Some(known), ..) | (None, Some(known), _) => known.clone(),
        (None, None, Kind::KernelThread) => "(kernel thread)".into(),
        (None, None, _) => "(no role)".into(),
    }
}

fn write_worker(worker: &Thread, sum: OfWorker, snapshot: &Snapshot, out: &mut Json) {
    let fields = &worker.fields;
    out.number("worker", worker.worker().unwrap_or(0).into());
    out.number("tid", fields.tid.max(0).cast_unsigned().into());
    out.number("cpu_ns", cpu_ns(fields.tid).unwrap_or(fields.cpu_ns).into());
    out.number("switches", u128::from(sum.switches.max(fields.switches.into())));
    let found = worker.runs.and_then(|slot| {
        let at = snapshot.threads.binary_search_by_key(&slot, |t| t.id.slot).ok()?;
        Some(&snapshot.threads[at])
    });
    out.text("runs", found.map(purpose).as_deref().unwrap_or(""));
    out.number("threads", sum.threads.into());
}

/// CPU time of a kernel thread as the kernel counts it.
fn cpu_ns(tid: i32) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/self/task/{tid}/schedstat")).ok()?;
    text.split(' ').next()?.parse().ok()
}

/// Writes JSON, one level after the other; commas come by themselves.
struct Json {
    out: String,
}

impl Json {
    fn new() -> Json {
        Json { out: "{".to_owned() }
    }

    fn finish(mut self) -> String {
        self.out.push('}');
        self.out
    }

    fn comma(&mut self) {
        if !self.out.ends_with(['{', '[']) {
            self.out.push(',');
        }
    }

    fn raw(&mut self, value: std::fmt::Arguments<'_>) {
        self.comma();
        // Writing to a String cannot fail.
        let _ = self.out.write_fmt(value);
    }

    fn key(&mut self, key: &str) {
        self.raw(format_args!("\"{key}\":"));
    }

    fn number(&mut self, key: &str, value: u128) {
        self.raw(format_args!("\"{key}\":{value}"));
    }

    fn text(&mut self, key: &str, value: &str) {
        self.key(key);
        self.out.push('"');
        for char in value.chars() {
            match char {
                '"' | '\\' => self.out.extend(['\\', char]),
                // Line ends would also end the event.
                '\0'..='\x1f' | '\u{2028}' | '\u{2029}' => {
                    // Writing to a String cannot fail.
                    let _ = write!(self.out, "\\u{:04x}", char as u32);
                }
                _ => self.out.push(char),
            }
        }
        self.out.push('"');
    }

    fn counts<'a>(&mut self, key: &str, counts: impl Iterator<Item = (&'a str, u64)>) {
        self.key(key);
        self.out.push('{');
        counts.for_each(|(word, count)| self.number(word, count.into()));
        self.out.push('}');
    }

    fn list(&mut self, key: &str, items: impl FnOnce(&mut Json)) {
        self.key(key);
        self.out.push('[');
        items(self);
        self.out.push(']');
    }

    fn object(&mut self, fields: impl FnOnce(&mut Json)) {
        self.comma();
        self.out.push('{');
        fields(self);
        self.out.push('}');
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use heddle_record::{Fields, Options, Place};

    #[test]
    fn json_is_well_formed_whatever_the_texts() {
        let mut json = Json::new();
        json.text("a", "x\"\\\n\u{2028}é");
        json.list("b", |json| {
            json.raw(format_args!("[1,2]"));
            json.object(|json| json.number("c", 3));
            json.object(|_| {});
        });
        json.counts("d", [("e", 1), ("f", 2)].into_iter());
        let expected = "{\"a\":\"x\\\"\\\\\\u000a\\u2028é\",\"b\":[[1,2],{\"c\":3},{}],\
                        \"d\":{\"e\":1,\"f\":2}}";
        assert_eq!(json.finish(), expected);
    }

    #[test]
    fn threads_are_summed_by_role_and_class() {
        let table = Options::new().capacity(1 << 12).place(Place::Memfd).create().unwrap();
        table.set_high_water(100).unwrap();
        for slot in 0..100 {
            let role = table.intern_role(&format!("role {}", slot % 50));
            let fields =
                Fields { kind: Kind::Light, state: State::Parked, role, ..Fields::default() };
            table.record(slot).publish(&Fields { stack_peak: slot, ..fields });
        }
        let mut out = Json::new();
        threads(&table.reader().unwrap().snapshot().unwrap(), &mut out);
        let text = out.finish();
        assert!(text.contains("\"threads\":100,"), "{text}");
        assert_eq!(text.matches("\"role\":").count(), ROLES_MAX + 1);
        assert!(text.contains("\"role\":\"(other roles)\",\"class\":\"lazy\",\"count\":20,"));
        assert!(text.contains("\"states\":{\"parked\":2}"), "{text}");
    }
}
