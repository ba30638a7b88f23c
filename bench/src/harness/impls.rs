//! The implementations: what is compared with what, by the names that rows carry.

use super::programs::Program;

/// One side of a comparison.
#[derive(Clone, Copy, Debug)]
pub struct Impl {
    pub name: &'static str,
    pub program: Program,
    env: &'static [(&'static str, &'static str)],
}

impl Impl {
    const fn new(name: &'static str, program: Program) -> Self {
        Impl { name, program, env: &[] }
    }

    const fn with(self, env: &'static [(&'static str, &'static str)]) -> Self {
        Impl { env, ..self }
    }

    /// The environment of a run with `workers`.
    pub fn env(&self, workers: usize) -> Vec<(String, String)> {
        let mut env: Vec<(String, String)> =
            self.env.iter().map(|&(key, value)| (key.into(), value.into())).collect();
        env.push(("HEDDLE_WORKERS".into(), workers.to_string()));
        env.push(("GOMAXPROCS".into(), workers.to_string()));
        env
    }
}

const NATIVE: &[(&str, &str)] = &[("HEDDLE_BACKEND", "native")];
const EPOLL: &[(&str, &str)] = &[("HEDDLE_IO", "epoll")];

/// micro, memory and class.
pub const THREADS: &[Impl] = &[
    Impl::new("heddle", Program::HeddlePeer),
    Impl::new("native", Program::HeddlePeer).with(NATIVE),
    Impl::new("pthread", Program::Pthread),
    Impl::new("go", Program::Go),
    Impl::new("tokio", Program::Tokio),
    Impl::new("may", Program::May),
    Impl::new("boost_fiber", Program::BoostFiber),
];

pub const ECHO: &[Impl] = &[
    Impl::new("heddle", Program::HeddlePeer),
    Impl::new("heddle_epoll", Program::HeddlePeer).with(EPOLL),
    Impl::new("native", Program::HeddlePeer).with(NATIVE),
    Impl::new("c_epoll", Program::Epoll),
    Impl::new("c_uring", Program::Uring),
    Impl::new("go", Program::Go),
    Impl::new("tokio", Program::Tokio),
    Impl::new("may", Program::May),
];

pub const HTTP: &[Impl] = &[
    Impl::new("heddle", Program::HeddleHttp),
    Impl::new("native", Program::HeddleHttp).with(NATIVE),
    Impl::new("nginx", Program::Nginx),
    Impl::new("nginx_cached", Program::Nginx),
    Impl::new("go_net_http", Program::Go),
    Impl::new("c_epoll", Program::Epoll),
    Impl::new("c_uring", Program::Uring),
];

/// Suite tek: a thread's life, plain and under `heddle run`.
pub const LIVES: &[Impl] = &[
    Impl::new("plain", Program::Churn),
    Impl::new("observe", Program::Churn),
    Impl::new("auto", Program::Churn),
];

/// Suite tek: who orders the threads of the response experiment.
pub const RESPONSE: &[Impl] = &[
    Impl::new("default", Program::Response),
    Impl::new("rr", Program::Response),
    Impl::new("idle_unprivileged", Program::Response),
    Impl::new("nice", Program::Response),
    Impl::new("cgroup", Program::Response),
    Impl::new("heddled", Program::Response),
    Impl::new("direct", Program::Response),
];

/// Suite unmodified: a program by itself and under `heddle run --threads user`.
pub const UNMODIFIED: &[Impl] =
    &[Impl::new("native", Program::Heddle), Impl::new("heddle", Program::Heddle)];

/// Every name that a row may carry, in the order of reports and legends.
pub const NAMES: &[&str] = &[
    "heddle",
    "heddle_epoll",
    "native",
    "pthread",
    "go",
    "go_net_http",
    "tokio",
    "may",
    "boost_fiber",
    "c_epoll",
    "c_uring",
    "nginx",
    "nginx_cached",
    "default",
    "rr",
    "idle_unprivileged",
    "nice",
    "cgroup",
    "heddled",
    "direct",
    "plain",
    "observe",
    "stack_2m",
    "stack_4m",
    "stack_8m",
    "auto",
    "memcached",
    "redis",
    "mariadb",
    "ffmpeg",
    "python",
    "java",
    "node",
];

/// What a name means, for the report.
pub fn about(name: &str) -> &'static str {
    match name {
        "heddle" => {
            "heddle, user-level threads; in http: Ice on them; in unmodified: the program under \
             heddle run --threads user"
        }
        "heddle_epoll" => "heddle with HEDDLE_IO=epoll instead of io_uring",
        "native" => {
            "heddle's API on kernel threads (HEDDLE_BACKEND=native), same source; in unmodified: \
             the program by itself"
        }
        "pthread" => "POSIX threads in C, without heddle's API",
        "go" => "goroutines and channels",
        "go_net_http" => "Go's net/http with http.ServeContent",
        "tokio" => "tasks (stackless) on the current-thread runtime when one worker",
        "may" => "stackful coroutines in Rust",
        "boost_fiber" => "Boost.Fiber, round-robin scheduler; it has no sockets",
        "c_epoll" => "hand-written epoll loop, one canned response: a floor",
        "c_uring" => "hand-written io_uring loop, one canned response: a floor",
        "nginx" => "nginx, sendfile, no access log; in tek: a thread pool of 32 reads files",
        "nginx_cached" => "nginx with open_file_cache",
        "default" => "the program by itself, on plain pthreads",
        "rr" => "heddle run, CPU Mediator with SCHED_RR",
        "idle_unprivileged" => "heddle run as an ordinary user, Mediator with SCHED_IDLE",
        "nice" => "heddle run, Mediator with nice values",
        "cgroup" => "heddle run, Mediator with cgroup v2 weights",
        "heddled" => "heddle's daemon",
        "direct" => "the program sets SCHED_RR and SCHED_IDLE itself: a floor",
        "plain" => "create + join on plain pthreads",
        "observe" => "heddle run, which only watches",
        "stack_2m" => "default stacks of 2 MiB",
        "stack_4m" => "default stacks of 4 MiB",
        "stack_8m" => "default stacks of 8 MiB",
        "auto" => "heddle run --stacks auto, sizes from an earlier run",
        "memcached" => "4 worker threads, 8 clients",
        "redis" => "4 io-threads, redis-benchmark with 50 clients",
        "mariadb" => "a thread per connection, mysqlslap with 100 clients",
        "ffmpeg" => "encodes a test picture by libx264",
        "python" => "32 threads of one script",
        "java" => "16 threads of one class",
        "node" => "8 workers",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_implementation_is_named_and_explained() {
        for one in THREADS.iter().chain(ECHO).chain(HTTP).chain(LIVES).chain(RESPONSE) {
            assert!(NAMES.contains(&one.name), "{}", one.name);
            assert!(!about(one.name).is_empty(), "{}", one.name);
        }
    }
}
