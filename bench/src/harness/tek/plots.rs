//! The paper's figures 3, 9, 10, 11 and 12, from the rows and samples of suite tek.

use std::path::Path;

use anyhow::Result;

use super::super::plot::{Axes, Line, draw_dots, draw_lines, over_counts};
use super::super::result::{Row, SuiteResult};
use super::response::BY_EVENT;
use super::stacks::{KIND_RESERVED, KIND_USED};
use super::tables::of_programs;

/// File names and captions of what was drawn.
pub type Written = Vec<(String, String)>;

pub fn write(folder: &Path, result: &SuiteResult) -> Result<Written> {
    let mut written = Written::new();
    let mut lines = |file: &str, axes: Axes<'_>, lines: Vec<Line>| -> Result<()> {
        if lines.iter().all(|(_, points)| points.len() < 2) {
            return Ok(());
        }
        draw_lines(&folder.join(file), &axes, &lines)?;
        written.push((file.to_string(), axes.caption.to_string()));
        Ok(())
    };
    let caption = "Stack per kind of thread in all programs, by reserved size (TEK Fig. 3)";
    let axes = Axes { caption, x: "kind of thread", y: "bytes", log_x: false, log_y: true };
    lines("fig3-stacks.svg", axes, kinds(result))?;
    let caption = "Response of time-critical threads to each event (TEK Fig. 10)";
    let axes = Axes { caption, x: "event", y: "ms", log_x: false, log_y: true };
    lines("fig10-response.svg", axes, by_event(result))?;
    let caption = "Failed creations by number of threads, 32 bits (TEK Fig. 12)";
    let axes = Axes { caption, x: "threads", y: "failures", log_x: false, log_y: false };
    lines("fig12-failures.svg", axes, over_counts(result, "failures_at_", |count| count))?;

    let mut dots = |file: &str, caption: &str, rows: Vec<Row>| -> Result<()> {
        if !rows.is_empty() {
            draw_dots(&folder.join(file), caption, &rows.iter().collect::<Vec<_>>())?;
            written.push((file.to_string(), caption.to_string()));
        }
        Ok(())
    };
    let caption = "Bytes of stack per program: reserved, tuned, used (TEK Fig. 11)";
    dots("fig11-programs.svg", caption, programs(result))?;
    let caption = "Involuntary switches (none: 0.5) and response in ms, time-critical (TEK Fig. 9)";
    dots("fig9-switches.svg", caption, switches(result))?;
    Ok(written)
}

/// What a thread of each kind reserves and what it uses, largest reservation first.
fn kinds(result: &SuiteResult) -> Vec<Line> {
    let values = |metric: &str| -> Vec<f64> {
        let plain = result
            .samples
            .iter()
            .filter(|s| s.metric == metric && !s.implementation.ends_with("+auto"));
        // A kind that used nothing that can be seen stands at one byte: the axis has no zero.
        plain.flat_map(|samples| samples.values.iter().map(|value| value.max(1.0))).collect()
    };
    let mut pairs: Vec<(f64, f64)> =
        values(KIND_RESERVED).into_iter().zip(values(KIND_USED)).collect();
    pairs.sort_by(|a, b| b.0.total_cmp(&a.0).then(b.1.total_cmp(&a.1)));
    let line = |of: fn(&(f64, f64)) -> f64| {
        pairs.iter().enumerate().map(|(i, pair)| (i as f64 + 1.0, of(pair))).collect()
    };
    vec![("default".into(), line(|pair| pair.0)), ("used".into(), line(|pair| pair.1))]
}

fn by_event(result: &SuiteResult) -> Vec<Line> {
    let samples = result.samples.iter().filter(|samples| samples.metric == BY_EVENT);
    let numbered = samples.map(|samples| {
        let values = samples.values.iter().enumerate();
        let points = values.map(|(i, ms)| (i as f64 + 1.0, *ms)).collect();
        (samples.implementation.clone(), points)
    });
    numbered.collect()
}

/// Programs as lines; what was reserved, tuned and used as dots.
fn programs(result: &SuiteResult) -> Vec<Row> {
    let mut rows = Vec::new();
    for program in of_programs(result) {
        let tuned = format!("{program}+auto");
        let dots = [
            ("default", result.value("stack_reserved_bytes", program)),
            ("auto", result.value("stack_reserved_bytes", &tuned)),
            ("used", result.value("stack_peak_bytes", program)),
        ];
        for (name, value) in dots {
            rows.extend(value.map(|value| Row {
                metric: program.to_string(),
                implementation: name.to_string(),
                value,
                unit: "bytes".into(),
                n: 1,
            }));
        }
    }
    rows
}

fn switches(result: &SuiteResult) -> Vec<Row> {
    let metrics = ["involuntary_switches", "response_mean_ms", "response_p99_ms"];
    let of = |metric| result.rows.iter().filter(move |row: &&Row| row.metric == metric);
    // A logarithmic axis has no zero, and what stands for it must not stretch the axis.
    let row = |row: &Row| Row { value: row.value.max(0.5), ..row.clone() };
    metrics.into_iter().flat_map(of).map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::super::super::result::{Pick, Samples};
    use super::*;

    #[test]
    fn draws_all_five_figures() {
        let folder = std::env::temp_dir().join(format!("heddle-tek-plot-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let mut result = SuiteResult::new("tek", true);
        for (metric, name, value) in [
            ("stack_reserved_bytes", "redis", 8e6),
            ("stack_reserved_bytes", "redis+auto", 65e3),
            ("stack_peak_bytes", "redis", 3e3),
            ("involuntary_switches", "default", 800.0),
            ("failures_at_100", "stack_8m", 0.0),
            ("failures_at_200", "stack_8m", 50.0),
        ] {
            result.add(metric, name, "x", Pick::Median, &[value]);
        }
        for (metric, name) in [(KIND_RESERVED, "redis"), (KIND_USED, "redis"), (BY_EVENT, "rr")] {
            let (metric, implementation) = (metric.to_string(), name.to_string());
            result.samples.push(Samples { metric, implementation, values: vec![3.0, 4.0] });
        }
        let mut files: Vec<_> =
            write(&folder, &result).unwrap().into_iter().map(|file| file.0).collect();
        files.sort();
        let expected = ["fig10-response", "fig11-programs", "fig12-failures", "fig3-stacks"];
        let mut expected: Vec<_> = expected.iter().map(|name| format!("{name}.svg")).collect();
        expected.push("fig9-switches.svg".into());
        assert_eq!(files, expected);
        std::fs::remove_dir_all(folder).unwrap();
    }
}
