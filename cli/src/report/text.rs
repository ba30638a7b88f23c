//! The report for people.
//!
//! Invariant: nothing that the program wrote reaches the terminal unescaped; what needs no word
//! gets none: a program without threads has one line.

use heddle_record::Zone;

use super::advice::{enough, words};
use super::layout::{Column, Columns, wrapped};
use super::{Exit, Kind, Report, Summary};
use crate::symbols::shorten;
use crate::text::{bytes, duration, harmless};

/// Kinds beyond this are summed up: a program with a thousand start functions has another problem.
const KINDS_MAX: usize = 60;
/// So many kinds with the same advice share a sentence.
const ALIKE_MIN: usize = 5;
/// The names of tables of functions can be longer than any line.
const NAME_CHARS_MAX: usize = 60;

/// The report in lines of at most `width` characters, where that is possible.
pub fn lines(report: &Report, width: usize) -> Vec<String> {
    let mut lines = vec![headline(report)];
    let summaries = report.summaries();
    let several = summaries.len() > 1;
    for summary in &summaries {
        if several {
            lines.push(program_line(summary));
        }
        // A process whose only thread is its first one is said by the headline.
        if summary.kinds.iter().any(|kind| !kind.main) || summary.kinds.iter().any(is_notable) {
            lines.extend(table(summary, width));
            lines.extend(advice(summary, width));
        }
    }
    lines.extend(tuner(report, &summaries, width));
    if let Some((said, _)) = &report.mediator {
        for line in said {
            lines.extend(wrapped(&harmless(line), width, 2, 4));
        }
    }
    for note in &report.notes {
        lines.extend(wrapped(&harmless(note), width, 2, 4));
    }
    lines
}

fn is_notable(kind: &Kind) -> bool {
    kind.zone == Zone::High || kind.overflowed
}

fn headline(report: &Report) -> String {
    let totals = report.totals();
    let name = file_name(&report.program);
    let mut line = format!("heddle: {}: ", harmless(name));
    line += &match (totals.threads_created, report.user_level) {
        (0, Some(1)) => "1 user-level thread at most at once".into(),
        (0, Some(most)) => format!("{most} user-level threads at most at once"),
        (0, None) if totals.processes == 0 => "no thread table".into(),
        (0, None) => "no threads besides the main one".into(),
        (1, _) => "1 thread created".into(),
        (count, _) => format!("{count} threads created"),
    };
    if totals.threads_created > 0 {
        line += &format!(", at most {} at once with the main one", totals.threads_peak);
        if totals.processes > 1 {
            line = line.replace("with the main one", "with the main ones");
        }
    }
    if totals.threads_failed > 0 {
        line += &format!(", {} could not be created", totals.threads_failed);
    }
    if totals.processes > 1 {
        line += &format!(", in {} processes", totals.processes);
    }
    if let Exit::Signal(signal) = report.exit {
        line += &format!("; ended by signal {signal}");
    }
    line
}

fn program_line(summary: &Summary) -> String {
    let name = harmless(file_name(&summary.program)).into_owned();
    match summary.processes {
        1 => format!("  {name}"),
        count => format!("  {name}, {count} processes"),
    }
}

fn table(summary: &Summary, width: usize) -> Vec<String> {
    let has_source = summary.kinds.iter().any(|kind| kind.written_at().is_some());
    let mut titles = vec![("THREAD", Column::Elastic)];
    if has_source {
        titles.push(("SOURCE", Column::Elastic));
    }
    for title in ["THREADS", "ASKS", "GETS", "PEAK", "USED"] {
        titles.push((title, Column::Right));
    }
    titles.extend([("ZONE", Column::Left), ("CPU", Column::Right)]);
    let mut columns = Columns::new(&titles);
    for kind in summary.kinds.iter().take(KINDS_MAX) {
        let mut cells = vec![label(kind)];
        if has_source {
            cells.push(source(kind));
        }
        cells.extend(numbers(kind));
        columns.row(cells);
    }
    let mut lines = columns.lines(width, 2, shorten);
    if let Some(more) = summary.kinds.len().checked_sub(KINDS_MAX).filter(|more| *more > 0) {
        lines.push(format!("  and {more} more kinds of threads (--report json has them all)"));
    }
    lines
}

/// What a kind of thread is called in a line, with what tells it from its likes.
fn label(kind: &Kind) -> String {
    let title = shorten(kind.title(), NAME_CHARS_MAX);
    let name = kind.name.as_deref().filter(|name| !kind.main && !title.contains(name));
    let text = match name {
        Some(name) => format!("{title} \"{name}\""),
        None => title,
    };
    harmless(&text).into_owned()
}

fn source(kind: &Kind) -> String {
    let place = kind.written_at().unwrap_or("-");
    harmless(file_name(place)).into_owned()
}

/// A path whose first folders say nothing new.
fn short_path(path: &str) -> String {
    const CHARS_MAX: usize = 48;
    let mut short = path;
    while short.chars().count() > CHARS_MAX {
        match short.split_once('/') {
            Some((_, rest)) if rest.contains('/') => short = rest,
            _ => break,
        }
    }
    if short.len() == path.len() { path.to_owned() } else { format!("../{short}") }
}

fn numbers(kind: &Kind) -> Vec<String> {
    let size = |count: u64| if count == 0 { "-".into() } else { bytes(count) };
    let asked = match kind {
        kind if kind.main => "-".into(),
        kind if kind.user_stack => "own".into(),
        kind => size(kind.stack_asked),
    };
    let used = kind.used_percent().map_or("-".into(), |percent| match percent {
        0 => "<1%".into(),
        percent => format!("{percent}%"),
    });
    let zone = match kind.zone {
        Zone::Unknown => "-".into(),
        zone => zone.word().to_owned(),
    };
    let cpu = if kind.cpu_ns == 0 { "-".into() } else { duration(kind.cpu_ns) };
    let given = size(kind.stack_given);
    let created = kind.created.to_string();
    vec![created, asked, given, size(kind.peak), used, zone, cpu]
}

fn advice(summary: &Summary, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let kinds: Vec<&Kind> = summary.kinds.iter().take(KINDS_MAX).collect();
    let mut told: Vec<(u64, u64)> = Vec::new();
    for kind in &kinds {
        let Some(advice) = &kind.advice else { continue };
        let alike = alike(kind, &kinds);
        if alike.len() < ALIKE_MIN {
            lines.extend(wrapped(&format!("{}: {advice}", with_source(kind)), width, 2, 4));
        } else if !told.contains(&waste(kind)) {
            told.push(waste(kind));
            lines.extend(wrapped(&shared_advice(&alike), width, 2, 4));
        }
    }
    for kind in summary.kinds.iter().filter(|kind| kind.failed > 0) {
        let title = harmless(&shorten(kind.title(), NAME_CHARS_MAX)).into_owned();
        let threads = if kind.failed == 1 { "thread" } else { "threads" };
        let text = format!("{title}: {} {threads} could not be created", kind.failed);
        lines.extend(wrapped(&text, width, 2, 4));
    }
    lines
}

/// Kinds that get the same advice for the same reason: they ask for the same, and need the same.
fn alike<'a>(kind: &Kind, kinds: &[&'a Kind]) -> Vec<&'a Kind> {
    let is_waste = |it: &Kind| it.zone == Zone::Low && it.advice.is_some() && !it.overflowed;
    if !is_waste(kind) {
        return Vec::new();
    }
    kinds.iter().copied().filter(|it| is_waste(it) && waste(it) == waste(kind)).collect()
}

/// What is asked for and what would do.
fn waste(kind: &Kind) -> (u64, u64) {
    (kind.stack_asked, enough(kind.peak))
}

fn shared_advice(alike: &[&Kind]) -> String {
    let names: Vec<String> = alike.iter().map(|kind| with_source(kind)).collect();
    let peak = alike.iter().map(|kind| kind.peak).max().unwrap_or(0);
    let (asked, better) = alike.first().map_or((0, 0), |kind| waste(kind));
    let (asked, peak, better) = (words(asked), words(peak), words(better));
    let names = names.join(", ");
    format!("{names}: each asks {asked}, never used more than {peak}: {better} would do")
}

/// The title, and where that is in the source.
fn with_source(kind: &Kind) -> String {
    let place = kind.written_at().map(|place| format!(" ({})", harmless(&short_path(place))));
    let title = shorten(kind.title(), NAME_CHARS_MAX);
    format!("{}{}", harmless(&title), place.unwrap_or_default())
}

/// What the Stack Tuner did, or would do.
pub fn tuner(report: &Report, summaries: &[Summary], width: usize) -> Vec<String> {
    let kinds: Vec<&Kind> =
        summaries.iter().flat_map(|it| &it.kinds).filter(|it| !it.main && !it.user_stack).collect();
    let reserved: u64 = kinds.iter().map(|kind| kind.reserved_peak).sum();
    let text = if kinds.iter().any(|kind| kind.tuned) {
        let asked = |kind: &&&Kind| if kind.tuned { kind.stack_asked } else { kind.stack_given };
        let asked = kinds.iter().map(|kind| scaled(kind, asked(&kind))).sum();
        let (what, reserved, asked) = (sized_by(&kinds), words(reserved), words(asked));
        format!("stacks: {what}; {reserved} reserved at most instead of {asked}")
    } else {
        // What the next run would reserve, by mode.
        let by_mode = |force: bool| -> u64 {
            let known = |kind: &&Kind| kind.peak > 0 && !kind.forgotten;
            let sized = |kind: &&Kind| known(kind) && (force || !kind.explicit);
            let size = |kind: &&Kind| match sized(kind) {
                true => enough(kind.peak).min(kind.stack_given),
                false => kind.stack_given,
            };
            kinds.iter().map(|kind| scaled(kind, size(kind))).sum()
        };
        let (auto, force) = (by_mode(false), by_mode(true));
        let told = words(reserved);
        if auto < reserved && report.stacks == "observe" {
            let next = words(auto);
            format!(
                "stacks: {told} reserved at most; with --stacks auto the next run reserves {next}"
            )
        } else if auto < reserved {
            let next = words(auto);
            format!(
                "stacks: {told} reserved at most, without history; the next run reserves {next}"
            )
        } else if force < reserved / 2 && report.stacks != "force" {
            let next = words(force);
            format!(
                "stacks: {told} reserved at most, as asked; --stacks force would make it {next}"
            )
        } else {
            return Vec::new();
        }
    };
    wrapped(&text, width, 2, 4)
}

/// Who chose the sizes that are not the program's own: "2 kinds sized from earlier runs".
fn sized_by(kinds: &[&Kind]) -> String {
    let count =
        |by_policy| kinds.iter().filter(|kind| kind.tuned && kind.by_policy == by_policy).count();
    let part = |count: usize, whence: &str| match count {
        0 => None,
        1 => Some(format!("1 kind sized {whence}")),
        _ => Some(format!("{count} kinds sized {whence}")),
    };
    let parts = [part(count(false), "from earlier runs"), part(count(true), "by the policy")];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// What would have been reserved with stacks of this size.
fn scaled(kind: &Kind, size: u64) -> u64 {
    match kind.stack_given {
        0 => kind.reserved_peak,
        given => (u128::from(kind.reserved_peak) * u128::from(size) / u128::from(given)) as u64,
    }
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::super::tests::{kind, report};
    use super::*;

    #[test]
    fn a_report_reads_like_this() {
        let main = Kind {
            main: true,
            created: 1,
            stack_given: 8 << 20,
            peak: 7000,
            zone: Zone::Low,
            cpu_ns: 12_000_000,
            ..Kind::default()
        };
        let mut worker = kind("worker", 8 << 20, 8 << 20, 12 << 10);
        worker.site = Some("/src/pool.c:117".into());
        let lines = lines(&report(vec![main, worker]), 100);
        let wanted = "\
heddle: prog: 4 threads created, at most 5 at once with the main one
  THREAD  SOURCE      THREADS  ASKS  GETS  PEAK  USED  ZONE     CPU
  main    -                 1     -    8M  6.8K   <1%  low   12.0ms
  worker  pool.c:117        4    8M    8M   12K   <1%  low   1.50ms
  worker (/src/pool.c:117): asks 8 MiB, never used more than 12 KiB: 64 KiB would do
  stacks: 32 MiB reserved at most; with --stacks auto the next run reserves 256 KiB";
        assert_eq!(lines.join("\n"), wanted);
    }

    #[test]
    fn nothing_is_promised_for_a_run_that_will_not_know() {
        let tuned = Kind { zone: Zone::High, ..kind("tuned", 8 << 20, 64 << 10, 60 << 10) };
        let full = Kind { overflowed: true, ..kind("full", 8 << 20, 64 << 10, 64 << 10) };
        for kinds in [vec![kind("worker", 8 << 20, 8 << 20, 12 << 10)], vec![tuned, full]] {
            let mut report = report(kinds);
            for mode in ["observe", "auto", "force"] {
                report.stacks = mode;
                report.forget(|program| program == "/usr/bin/prog");
                let said = lines(&report, 100).join(" ");
                assert!(!said.contains("next") && said.contains("would do"), "{said}");
            }
        }
        let mut unkeyed = report(vec![Kind { key: "".into(), ..kind("x", 8 << 20, 8 << 20, 9) }]);
        unkeyed.forget(|_| false);
        assert!(!lines(&unkeyed, 100).join(" ").contains("next"));
    }

    #[test]
    fn a_program_without_threads_has_one_line() {
        let main = Kind { main: true, created: 1, ..Kind::default() };
        let mut report = report(vec![main]);
        assert_eq!(lines(&report, 80), ["heddle: prog: no threads besides the main one"]);
        report.exit = Exit::Signal(11);
        assert!(lines(&report, 80)[0].ends_with("; ended by signal 11"));
    }

    #[test]
    fn many_kinds_share_their_advice() {
        let name = |index| format!("kind_{}", "x".repeat(index));
        let kinds = (1..8).map(|it| kind(&name(it), 8 << 20, 8 << 20, 900)).collect();
        let lines = lines(&report(kinds), 200).join("\n");
        assert_eq!(lines.matches("64 KiB would do").count(), 1, "{lines}");
        assert!(lines.contains("kind_x, kind_xx, ") && lines.contains(": each asks 8 MiB"));
    }

    #[test]
    fn what_was_tuned_is_told() {
        let lines = lines(&report(vec![kind("worker", 8 << 20, 64 << 10, 12 << 10)]), 80);
        let said = "stacks: 1 kind sized from earlier runs; 256 KiB reserved at most instead of";
        assert!(lines.join("\n").contains(said), "{lines:#?}");
        let mut other = kind("other", 8 << 20, 256 << 10, 12 << 10);
        other.by_policy = true;
        let kinds = [other, kind("worker", 8 << 20, 64 << 10, 12 << 10)];
        let both = [&kinds[0], &kinds[1]];
        assert_eq!(sized_by(&both[..1]), "1 kind sized by the policy");
        let text = "1 kind sized from earlier runs, 1 kind sized by the policy";
        assert_eq!(sized_by(&both), text);
    }

    #[test]
    fn lines_keep_to_the_width_and_hide_controls() {
        let mut long = kind(&"very::long::name<with::arguments>".repeat(6), 8 << 20, 8 << 20, 99);
        long.name = Some("x\x1b[2J".into());
        let lines = lines(&report(vec![long]), 80);
        assert!(lines.iter().all(|line| line.chars().count() <= 80), "{lines:#?}");
        assert!(!lines.join("").contains('\x1b'));
    }
}
