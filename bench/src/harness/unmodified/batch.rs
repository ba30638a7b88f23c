//! Programs that only compute, on all CPUs: what user-level threads must not cost them.

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

pub fn run(bench: &Bench<'_>, result: &mut SuiteResult) {
    for (name, line) in [("xz", xz as Line), ("ffmpeg", ffmpeg)] {
        let figures = [figure(format!("{name}_seconds"), "s", Pick::Least)];
        bench.turns(result, name, bench.plan.rounds(1, 7), &figures, |one| {
            let line = line(bench)?;
            let begin = Instant::now();
            Way::new(bench, one).run(&line, bench.plan.cpus.all(), LIMIT_S)?;
            Ok(vec![Ok(begin.elapsed().as_secs_f64())])
        });
    }
}

fn xz(bench: &Bench<'_>) -> Result<Vec<String>, String> {
    let program = installed("xz")?;
    let text = text(bench)?;
    let options = ["-T4", "-2", "--block-size=1MiB", "--keep", "--force"];
    let mut line = words(&[&program]);
    line.extend(words(&options));
    line.push(text.to_string_lossy().into_owned());
    Ok(line)
}

/// A file of words in random order.
fn text(bench: &Bench<'_>) -> Result<PathBuf, String> {
    const WORDS: [&str; 8] =
        ["warp ", "weft ", "heddle ", "reed ", "shed ", "pick ", "beam ", "\n"];
    let file = bench.scratch.path("text");
    if file.is_file() {
        return Ok(file);
    }
    let bytes = bench.plan.pick(2 << 20, 24 << 20);
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
