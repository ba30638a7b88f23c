//! Programs that only compute, on all CPUs: what user-level threads must not cost them. And one
//! that has next to nothing to compute: the start.

use std::path::PathBuf;
use std::time::Instant;

use heddle_bench::measure::Random;

use super::super::programs::installed;
use super::super::result::{Pick, SuiteResult};
use super::super::tek::words;
use super::way::Way;
use super::{Bench, figure};

const LIMIT_S: u64 = 120;

type Line = fn(&Bench<'_>) -> Result<Vec<String>, String>;

/// Bytes of text that take xz some seconds, so that the start is no part worth a word; and that
/// take it no time.
const TEXT_BYTES: usize = 96 << 20;
const LITTLE_BYTES: usize = 4 << 10;

pub fn run(bench: &Bench<'_>, result: &mut SuiteResult) {
    const SECONDS: (&str, &str, f64) = ("seconds", "s", 1.0);
    let rows: [(_, _, Line, _); 3] = [
        ("xz", SECONDS, xz, 7),
        ("ffmpeg", SECONDS, ffmpeg, 7),
        ("start", ("ms", "ms", 1e3), xz_little, 31),
    ];
    for (name, (metric, unit, of_second), line, rounds) in rows {
        let figures = [figure(format!("{name}_{metric}"), unit, Pick::Least)];
        bench.turns(result, name, bench.plan.rounds(1, rounds), &figures, |one| {
            let line = line(bench)?;
            let begin = Instant::now();
            Way::new(bench, one).run(&line, bench.plan.cpus.all(), LIMIT_S)?;
            Ok(vec![Ok(begin.elapsed().as_secs_f64() * of_second)])
        });
    }
}

fn xz(bench: &Bench<'_>) -> Result<Vec<String>, String> {
    xz_of(bench, "text", bench.plan.pick(2 << 20, TEXT_BYTES))
}

/// One thread, that is done at once.
fn xz_little(bench: &Bench<'_>) -> Result<Vec<String>, String> {
    xz_of(bench, "little-text", LITTLE_BYTES)
}

fn xz_of(bench: &Bench<'_>, name: &str, bytes: usize) -> Result<Vec<String>, String> {
    let program = installed("xz")?;
    let text = text(bench, name, bytes)?;
    let options = ["-T4", "-2", "--block-size=1MiB", "--keep", "--force"];
    let mut line = words(&[&program]);
    line.extend(words(&options));
    line.push(text.to_string_lossy().into_owned());
    Ok(line)
}

/// A file of words in random order.
fn text(bench: &Bench<'_>, name: &str, bytes: usize) -> Result<PathBuf, String> {
    const WORDS: [&str; 8] =
        ["warp ", "weft ", "heddle ", "reed ", "shed ", "pick ", "beam ", "\n"];
    let file = bench.scratch.path(name);
    if file.is_file() {
        return Ok(file);
    }
    let mut random = Random(1);
    let mut text = String::with_capacity(bytes + 16);
    while text.len() < bytes {
        text.push_str(WORDS[random.below(WORDS.len() as u64) as usize]);
    }
    std::fs::write(&file, text).map_err(|e| format!("{}: {e}", file.display()))?;
    Ok(file)
}

fn ffmpeg(bench: &Bench<'_>) -> Result<Vec<String>, String> {
    let program = installed("ffmpeg")?;
    let picture = format!("testsrc2=size=640x360:rate=25:duration={}", bench.plan.pick(1, 8));
    let mut line = words(&[&program, "-hide_banner", "-loglevel", "error", "-nostdin"]);
    line.extend(words(&["-f", "lavfi", "-i", &picture, "-threads", "4", "-c:v", "libx264"]));
    line.extend(words(&["-f", "null", "-"]));
    Ok(line)
}
