//! `heddle serve`: Ice, from its flags.
//!
//! Invariant: a flag that is not given leaves Ice's or the runtime's own default; nothing is
//! decided here.

use std::io::{self, Write};
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::ValueEnum;
use heddle::signal::{Signal, Signals};
use heddle_ice::{AccessLog, Config, Handle, Server, TlsFiles};

/// Serve the files of a folder over HTTP, one thread per connection
///
/// Serves with Ice: HTTP/1.1 with persistent connections, ranges, validators, precompressed
/// siblings (.gz, .br, .zst) and TLS. Nothing outside the folder is served, links that leave it
/// included. A page about the server's own threads is at /heddle/, for clients on this machine.
///
/// SIGINT and SIGTERM end the server after the answers in progress; a second one ends it at once.
/// SIGHUP opens the access log anew.
#[derive(clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub struct Args {
    /// Folder to serve
    dir: PathBuf,
    /// Address to listen on; 0.0.0.0 or :: for all [default: 127.0.0.1]
    #[arg(long, value_name = "ADDRESS")]
    addr: Option<IpAddr>,
    /// Port to listen on; 0 takes a free one [default: 8080]
    #[arg(long)]
    port: Option<u16>,
    /// What connections run on: user-level threads, or a kernel thread each [default: user]
    #[arg(long, value_name = "KIND")]
    threads: Option<Threads>,
    /// Kernel threads that run the user-level threads [default: one per CPU]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    workers: Option<u16>,
    /// List folders that have no index.html (otherwise: 403)
    #[arg(long)]
    listing: bool,
    /// No page about the threads at /heddle/
    #[arg(long)]
    no_live: bool,
    /// Speak TLS with this certificate chain (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// Private key of the certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Append a line per request to this file, in the combined format; - for standard output
    #[arg(long, value_name = "FILE")]
    access_log: Option<PathBuf>,
    /// Connections at a time; more are answered 503 [default: 100000]
    #[arg(long, value_name = "N")]
    max_connections: Option<usize>,
    /// Memory for heads and small files, such as 64M [default: 64M]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    cache: Option<usize>,
    /// Seconds that a connection may rest between requests [default: 60]
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds)]
    idle_timeout: Option<Duration>,
    /// Seconds that a request may take to arrive [default: 10]
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds)]
    head_timeout: Option<Duration>,
    /// Seconds that a client may take for 128 KiB of an answer [default: 30]
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds)]
    send_timeout: Option<Duration>,
    /// Seconds that answers in progress get at the end [default: 10]
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds)]
    grace: Option<Duration>,
}

const EXAMPLES: &str = "\
Examples:
  heddle serve site                         http://127.0.0.1:8080/
  heddle serve site --addr :: --port 80     to everyone
  heddle serve site --threads kernel        the same server on kernel threads
  heddle serve site --tls-cert chain.pem --tls-key key.pem

Environment:
  HEDDLE_WORKERS, HEDDLE_BACKEND, HEDDLE_IO and the others of heddle(7) hold where no flag speaks.

Exit status:
  0 after an orderly end, 1 if the server could not start.";

#[derive(Clone, Copy, ValueEnum)]
enum Threads {
    User,
    Kernel,
}

/// "64M": a number with an optional unit of 1024, 1024^2 or 1024^3.
fn parse_size(text: &str) -> Result<usize, String> {
    let (digits, unit) = match text.trim_end_matches(['B', 'b']) {
        short if short.ends_with(['K', 'k']) => (&short[..short.len() - 1], 1 << 10),
        short if short.ends_with(['M', 'm']) => (&short[..short.len() - 1], 1 << 20),
        short if short.ends_with(['G', 'g']) => (&short[..short.len() - 1], 1 << 30),
        short => (short, 1),
    };
    let number: usize = digits.parse().map_err(|_| "not a size like 64M".to_owned())?;
    number.checked_mul(unit).ok_or("larger than any memory".to_owned())
}

/// Seconds, with decimals; more than none and less than a year.
fn parse_seconds(text: &str) -> Result<Duration, String> {
    const YEAR: f64 = 366.0 * 86400.0;
    match text.parse::<f64>() {
        Ok(seconds) if seconds > 0.0 && seconds <= YEAR => Ok(Duration::from_secs_f64(seconds)),
        _ => Err("not a number of seconds above 0".into()),
    }
}

pub fn run(args: Args) -> Result<ExitCode> {
    start_runtime(&args)?;
    let dir = args.dir.display().to_string();
    let scheme = if args.tls_cert.is_some() { "https" } else { "http" };
    let live = !args.no_live;
    let server = Server::bind(config(args))?;
    obey_signals(server.handle()).context("cannot receive signals")?;
    announce(&dir, scheme, server.local_addr(), live);
    server.run()?;
    Ok(ExitCode::SUCCESS)
}

fn start_runtime(args: &Args) -> Result<()> {
    let mut runtime = heddle::Config::new();
    if let Some(workers) = args.workers {
        runtime = runtime.workers(usize::from(workers));
    }
    runtime = match args.threads {
        Some(Threads::User) => runtime.backend(heddle::Backend::User),
        Some(Threads::Kernel) => runtime.backend(heddle::Backend::Native),
        None => runtime,
    };
    runtime.start().context("cannot start the runtime")
}

/// Starts the thread that turns signals into what they ask for.
fn obey_signals(server: Handle) -> io::Result<()> {
    let signals = Signals::new(&[Signal::INT, Signal::TERM, Signal::HUP])?;
    let obey = move || {
        let mut ending = false;
        while let Ok(signal) = signals.wait() {
            match signal {
                Signal::HUP => reopen_log(&server),
                // The shell's convention for "ended by a signal".
                _ if ending => std::process::exit(128 + signal.as_raw()),
                _ => {
                    ending = true;
                    server.shutdown();
                }
            }
        }
    };
    heddle::thread::Builder::new().role("signals").spawn(obey).map(drop)
}

fn reopen_log(server: &Handle) {
    if let Err(error) = server.reopen_log() {
        let _ = writeln!(io::stderr(), "heddle: {error}; the old log stays in use");
    }
}

fn config(args: Args) -> Config {
    let mut config = Config::new(args.dir);
    set(&mut config.addr, args.addr);
    set(&mut config.port, args.port);
    set(&mut config.max_connections, args.max_connections);
    set(&mut config.cache_bytes, args.cache);
    set(&mut config.idle_timeout, args.idle_timeout);
    set(&mut config.head_timeout, args.head_timeout);
    set(&mut config.send_timeout, args.send_timeout);
    set(&mut config.grace, args.grace);
    config.listing = args.listing;
    config.live = !args.no_live;
    config.tls = args.tls_cert.zip(args.tls_key).map(|(cert, key)| TlsFiles { cert, key });
    set(&mut config.access_log, args.access_log.map(access_log));
    config
}

/// What was given replaces the default.
fn set<T>(field: &mut T, given: Option<T>) {
    if let Some(given) = given {
        *field = given;
    }
}

fn access_log(path: PathBuf) -> AccessLog {
    if path.as_os_str() == "-" { AccessLog::Stdout } else { AccessLog::File(path) }
}

/// Says where to look; "everywhere" is no address for a browser.
///
/// Nobody may be listening to the messages; that is no reason not to serve.
fn announce(dir: &str, scheme: &str, address: SocketAddr, live: bool) {
    let local = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => SocketAddr::from(([127, 0, 0, 1], address.port())),
        IpAddr::V6(ip) if ip.is_unspecified() => {
            SocketAddr::from((std::net::Ipv6Addr::LOCALHOST, address.port()))
        }
        _ => address,
    };
    let mut out = io::stderr().lock();
    let _ = writeln!(out, "heddle: serving {dir} at {scheme}://{local}/");
    if live && local.ip().is_loopback() {
        let _ = writeln!(out, "heddle: its threads, live: {scheme}://{local}/heddle/");
    }
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, Parser};

    use super::*;

    #[test]
    fn sizes_have_units() {
        assert_eq!(parse_size("0"), Ok(0));
        assert_eq!(parse_size("64M"), Ok(64 << 20));
        assert_eq!(parse_size("1kB"), Ok(1024));
        assert!(parse_size("M").is_err() && parse_size("-1").is_err());
        assert!(parse_size("99999999999999999999G").is_err());
        assert!(parse_size("17179869184G").is_err(), "2^64");
    }

    #[test]
    fn the_defaults_that_help_states_are_ices() {
        let root = crate::Cli::command();
        let serve = root.find_subcommand("serve").expect("the command");
        let mut words = vec!["heddle".to_owned(), "serve".into(), "x".into()];
        for argument in serve.get_arguments().filter(|argument| argument.get_id() != "workers") {
            let help = argument.get_help().map(ToString::to_string).unwrap_or_default();
            let stated = help.split_once("[default: ").and_then(|(_, rest)| rest.split_once(']'));
            if let (Some((value, _)), Some(flag)) = (stated, argument.get_long()) {
                words.extend([format!("--{flag}"), value.to_owned()]);
            }
        }
        assert!(words.len() > 15, "{words:?}");
        let crate::Command::Serve(args) = crate::Cli::parse_from(words).command else {
            panic!("not serve")
        };
        assert_eq!(config(args), Config::new("x"));
    }

    #[test]
    fn seconds_are_bounded() {
        assert_eq!(parse_seconds("0.5"), Ok(Duration::from_millis(500)));
        for bad in ["0", "-1", "nan", "inf", "1e300", "x"] {
            assert!(parse_seconds(bad).is_err(), "{bad}");
        }
    }
}
