//! `heddle top`: threads live.
//!
//! Invariants
//! - The terminal is given back as it was: after q, a signal, an error, a panic.
//! - Uses at most a twentieth of a CPU: with many threads it looks less often.

mod advice;
mod draw;
mod once;
mod sample;
#[cfg(test)]
mod tests;
mod view;

use std::io::{self, BufWriter, IsTerminal, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyEventKind};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::which::Which;
use sample::Sampler;
use view::{Key, View, Wish};

/// The time between looks is at least this many times what a look takes.
const COST_FACTOR: u32 = 20;
/// How late a signal may be obeyed.
const NAP: Duration = Duration::from_millis(100);

/// Show threads live: what they do, how full their stacks are, what to look at
///
/// Without a process given, shows the threads of every one with a thread table that this user may
/// read: those under `heddle run` and those that use heddle's runtime. A process that is given may
/// be any, with what the kernel knows of it if it has no table.
///
/// CPU use is in percent of one CPU since the last look. A stack bar shows the deepest use so far
/// in a stack of this size; its colour is the zone (blue Low, green Normal, red High), and | marks
/// the zones' borders.
#[derive(clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub struct Args {
    /// Process to look at, or its name if no other has it; all with a thread table if not given
    #[arg(value_name = "PID|NAME")]
    which: Option<Which>,
    /// Print one look instead of a live screen
    #[arg(long)]
    once: bool,
    /// Print JSON: an object with processes, threads and advice
    #[arg(long, requires = "once")]
    json: bool,
    /// Seconds between looks; with --once, over which rates are taken
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = seconds)]
    interval: Duration,
    /// What to sort threads by
    #[arg(long, value_name = "KEY", default_value = "cpu")]
    sort: Key,
    /// Only threads that have this in their role or name
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    filter: String,
}

const EXAMPLES: &str = "\
Keys:
  q quit, Up Down PageUp PageDown Home End select, Enter detail of the thread, / filter by role or
  name, c s p w t r n i sort by CPU, stack fill, peak, switches, class, role, name, id, R reverse

Examples:
  heddle top                          every process with a table
  heddle top 4711 --sort stack        the fullest stacks of one process
  heddle top --once --json | jq '.advice[].text'

Exit status:
  0; 1 if the process is not there or standard output is no terminal and --once was not given.";

fn seconds(text: &str) -> Result<Duration, String> {
    let value: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    match value {
        value if (0.1..=3600.0).contains(&value) => Ok(Duration::from_secs_f64(value)),
        _ => Err("not between 0.1 and 3600".into()),
    }
}

pub fn run(args: &Args) -> Result<ExitCode> {
    let pid = args.which.as_ref().map(Which::pid).transpose()?;
    if pid.is_none() {
        // What earlier runs left behind is nobody's news; failing leaves it.
        let _ = heddle_record::sweep_left();
    }
    let mut sampler = Sampler::new(pid);
    let mut view = View::new(args.sort, args.filter.clone());
    view.show(sampler.take());
    if let (Some(pid), true) = (pid, view.sample.processes.is_empty()) {
        match view.sample.troubles.first() {
            Some(trouble) if !trouble.contains("no thread table") => bail!("{trouble}"),
            _ => bail!("there is no process {pid}"),
        }
    }
    if args.once {
        return once(args, &mut sampler, &mut view);
    }
    if !io::stdout().is_terminal() || !io::stdin().is_terminal() {
        bail!("standard input and output must be a terminal; `heddle top --once` prints");
    }
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, stop.clone()).context("cannot wait for signals")?;
    }
    // A panic gives the terminal back as well.
    let mut terminal = ratatui::try_init().context("cannot use the terminal")?;
    let result = live(args, &mut terminal, &mut sampler, &mut view, &stop);
    ratatui::restore();
    result.map(|()| ExitCode::SUCCESS)
}

fn once(args: &Args, sampler: &mut Sampler, view: &mut View) -> Result<ExitCode> {
    std::thread::sleep(args.interval);
    view.show(sampler.take());
    let mut out = BufWriter::new(io::stdout().lock());
    if args.json {
        once::write_json(&mut out, view)?;
    } else {
        once::write_text(&mut out, view)?;
    }
    out.flush()?;
    for trouble in &view.sample.troubles {
        eprintln!("heddle: {trouble}");
    }
    Ok(ExitCode::SUCCESS)
}

fn live(
    args: &Args,
    terminal: &mut DefaultTerminal,
    sampler: &mut Sampler,
    view: &mut View,
    stop: &AtomicBool,
) -> Result<()> {
    let mut next = Instant::now() + args.interval.min(Duration::from_millis(300));
    let mut changed = true;
    while !stop.load(Relaxed) {
        if changed {
            terminal.draw(|frame| draw::draw(frame, view))?;
        }
        let wait = next.saturating_duration_since(Instant::now()).min(NAP);
        changed = false;
        if event::poll(wait)? {
            changed = true;
            // Whatever else happens, a new size above all, is drawn.
            if let Event::Key(key) = event::read()?
                && key.kind != KeyEventKind::Release
                && view.press(key) == Wish::Quit
            {
                break;
            }
        }
        if Instant::now() >= next {
            let begin = Instant::now();
            view.show(sampler.take());
            next = begin + args.interval.max(begin.elapsed() * COST_FACTOR);
            changed = true;
        }
    }
    Ok(())
}
