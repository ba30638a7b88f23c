//! SVG plots: one per suite, and the figures of the uThread paper.
//!
//! Two shapes are enough: lines over a logarithmic count, and dots of one metric per line on a
//! logarithmic axis, where a ratio is a distance. Every implementation keeps its colour everywhere.

use std::path::Path;

use anyhow::{Result, anyhow};
use plotters::coord::ranged1d::{AsRangedCoord, ValueFormatter};
use plotters::prelude::*;

use super::impls::NAMES;
use super::result::{Row, SuiteResult};
use super::{tek, unmodified};

const WIDTH: u32 = 900;
const LINES_HEIGHT: u32 = 480;
const FONT: &str = "sans-serif";

/// An implementation's points.
pub type Line = (String, Vec<(f64, f64)>);

/// Colours that stay apart for most eyes and in grey; heddle's is the strongest.
fn colour(name: &str) -> RGBColor {
    match name {
        "heddle" => RGBColor(0xc2, 0x18, 0x5b),
        "heddle_epoll" => RGBColor(0xf0, 0x7c, 0xa8),
        "native" => RGBColor(0x6a, 0x3d, 0x9a),
        "pthread" => RGBColor(0xb3, 0x9d, 0xdb),
        "go" | "go_net_http" => RGBColor(0x00, 0x97, 0xa7),
        "tokio" => RGBColor(0xe6, 0x7e, 0x22),
        "may" => RGBColor(0x8d, 0x6e, 0x63),
        "boost_fiber" => RGBColor(0x7c, 0x8a, 0x00),
        "c_epoll" => RGBColor(0x42, 0x42, 0x42),
        "c_uring" => RGBColor(0x9e, 0x9e, 0x9e),
        "nginx" => RGBColor(0x81, 0xc7, 0x84),
        "auto" | "rr" => RGBColor(0xc2, 0x18, 0x5b),
        "idle_unprivileged" => RGBColor(0xf0, 0x7c, 0xa8),
        "stack_8m" | "default" => RGBColor(0x42, 0x42, 0x42),
        "stack_4m" | "direct" => RGBColor(0x9e, 0x9e, 0x9e),
        "stack_2m" | "used" => RGBColor(0x00, 0x97, 0xa7),
        "nice" => RGBColor(0x6a, 0x3d, 0x9a),
        "cgroup" => RGBColor(0xe6, 0x7e, 0x22),
        _ => RGBColor(0x2e, 0x7d, 0x32),
    }
}

/// Writes the plots that a suite's rows allow; returns their file names and captions.
pub fn write(folder: &Path, result: &SuiteResult) -> Result<Vec<(String, String)>> {
    let mut written = Vec::new();
    let mut lines = |file: &str, caption: &str, x: &str, y: &str, log_y, lines: Vec<Line>| {
        if lines.iter().all(|(_, points)| points.len() < 2) {
            return Ok(());
        }
        let axes = Axes { caption, x, y, log_x: true, log_y };
        draw_lines(&folder.join(file), &axes, &lines)?;
        written.push((file.to_string(), caption.to_string()));
        anyhow::Ok(())
    };
    let same = |value| value;
    match result.suite.as_str() {
        "micro" => {
            let points = over_counts(result, "yield_at_", |ns| 1e9 / ns);
            let caption = "Yields per second by number of threads, one worker (uThread Fig. 5)";
            lines("fig5-yield.svg", caption, "threads", "yields/s", true, points)?;
        }
        "memory" => {
            let points = over_counts(result, "create_at_", same);
            let caption = "Accumulated CPU time to create threads that stay (uThread Fig. 4)";
            lines("fig4-create.svg", caption, "threads", "ms", true, points)?;
        }
        "echo" => {
            let points = over_counts(result, "echo_cpu_us_", same);
            let caption = "64-byte echo: server CPU time per request, one worker";
            lines("echo.svg", caption, "connections", "us per request", false, points)?;
        }
        "http" => {
            let points = over_counts(result, "http_cpu_us_", same);
            let caption = "612-byte file, keep-alive: server CPU time per request, one worker";
            lines("http.svg", caption, "connections", "us per request", false, points)?;
            let caption = "Web server throughput, one worker (uThread Fig. 7)";
            let points = over_counts(result, "http_rps_", same);
            lines("fig7-web-one.svg", caption, "connections", "requests/s", false, points)?;
            let caption = "Web server throughput, a worker per CPU (uThread Fig. 6)";
            let points = over_counts(result, "http_multi_rps_", same);
            lines("fig6-web-multi.svg", caption, "connections", "requests/s", false, points)?;
        }
        "tek" => return tek::plots::write(folder, result),
        "unmodified" => return unmodified::plots::write(folder, result),
        _ => {}
    }
    let caption = match result.suite.as_str() {
        "micro" => "Nanoseconds of CPU time per operation, one worker",
        "memory" => "Bytes per thread",
        "class" => "Microseconds from wake to running, 1000 threads busy on the worker",
        _ => return Ok(written),
    };
    let file = format!("{}.svg", result.suite);
    let wanted = |row: &&Row| match result.suite.as_str() {
        "memory" => row.unit == "bytes",
        _ => !row.metric.starts_with("yield_at_"),
    };
    let rows: Vec<&Row> = result.rows.iter().filter(wanted).collect();
    if !rows.is_empty() {
        draw_dots(&folder.join(&file), caption, &rows)?;
        written.insert(0, (file, caption.to_string()));
    }
    Ok(written)
}

/// Rows `prefix<count>` as one line per implementation, in the order of the legend.
pub fn over_counts(result: &SuiteResult, prefix: &str, y: impl Fn(f64) -> f64) -> Vec<Line> {
    let line = |name: &&str| {
        let of_name = result.rows.iter().filter(|row| row.implementation == *name);
        let mut points: Vec<(f64, f64)> = of_name
            .filter_map(|row| Some((count(row.metric.strip_prefix(prefix)?)?, y(row.value))))
            .collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        (!points.is_empty()).then(|| (name.to_string(), points))
    };
    NAMES.iter().filter_map(line).collect()
}

/// Reads what `plan::short` writes.
fn count(text: &str) -> Option<f64> {
    let (digits, factor) = match text.strip_suffix('k') {
        Some(digits) => (digits, 1e3),
        None => text.strip_suffix('m').map_or((text, 1.0), |digits| (digits, 1e6)),
    };
    digits.parse::<u64>().ok().map(|n| n as f64 * factor)
}

/// What stands beside the lines.
pub struct Axes<'a> {
    pub caption: &'a str,
    pub x: &'a str,
    pub y: &'a str,
    pub log_x: bool,
    pub log_y: bool,
}

fn bounds(values: impl Iterator<Item = f64>) -> (f64, f64) {
    values.fold((f64::INFINITY, 0.0), |(low, high), value| (low.min(value), high.max(value)))
}

/// A line per implementation.
pub fn draw_lines(file: &Path, axes: &Axes, lines: &[Line]) -> Result<()> {
    let points = || lines.iter().flat_map(|(_, points)| points.iter());
    let (x_low, x_high) = bounds(points().map(|point| point.0));
    let (y_low, y_high) = bounds(points().map(|point| point.1));
    let log_x = (x_low * 0.8..x_high * 1.25).log_scale();
    let log_y = (y_low * 0.7..y_high * 1.4).log_scale();
    // A line at zero all along still needs an axis.
    let (x, y) = (0.0..x_high * 1.05, 0.0..y_high.max(1.0) * 1.1);
    match (axes.log_x, axes.log_y) {
        (true, true) => draw_chart(file, axes, lines, log_x, log_y),
        (true, false) => draw_chart(file, axes, lines, log_x, y),
        (false, true) => draw_chart(file, axes, lines, x, log_y),
        (false, false) => draw_chart(file, axes, lines, x, y),
    }
}

fn draw_chart<X, Y>(file: &Path, axes: &Axes, lines: &[Line], x: X, y: Y) -> Result<()>
where
    X: AsRangedCoord<Value = f64>,
    Y: AsRangedCoord<Value = f64>,
    X::CoordDescType: Ranged<ValueType = f64> + ValueFormatter<f64>,
    Y::CoordDescType: Ranged<ValueType = f64> + ValueFormatter<f64>,
{
    let area = SVGBackend::new(file, (WIDTH, LINES_HEIGHT)).into_drawing_area();
    let bad = |error: &dyn std::fmt::Display| anyhow!("{}: {error}", file.display());
    area.fill(&WHITE).map_err(|e| bad(&e))?;
    let (plot, legend) = area.split_horizontally(WIDTH - 150);
    let mut chart = ChartBuilder::on(&plot)
        .caption(axes.caption, (FONT, 17))
        .margin(12)
        .x_label_area_size(42)
        .y_label_area_size(72)
        .build_cartesian_2d(x, y)
        .map_err(|e| bad(&e))?;
    chart
        .configure_mesh()
        .x_desc(axes.x)
        .y_desc(axes.y)
        .label_style((FONT, 12))
        .bold_line_style(BLACK.mix(0.12))
        .light_line_style(TRANSPARENT)
        .x_label_formatter(&|value| short_number(*value))
        .y_label_formatter(&|value| short_number(*value))
        .draw()
        .map_err(|e| bad(&e))?;
    // heddle last, so that its line lies on top.
    for (at, (name, points)) in lines.iter().enumerate().rev() {
        let (colour, width) = (colour(name), if name == "heddle" { 3 } else { 2 });
        let style = colour.stroke_width(width);
        chart
            .draw_series(LineSeries::new(points.iter().copied(), style).point_size(width + 1))
            .map_err(|e| bad(&e))?;
        legend_entry(&legend, name, 48 + 20 * at as i32).map_err(|e| bad(&e))?;
    }
    area.present().map_err(|e| bad(&e))
}

type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;

fn legend_entry(area: &Area, name: &str, y: i32) -> Result<()> {
    let bad = |e: DrawingAreaErrorKind<std::io::Error>| anyhow!("legend: {e}");
    area.draw(&Circle::new((8, y), 5, colour(name).filled())).map_err(bad)?;
    area.draw(&Text::new(name.to_string(), (20, y - 6), (FONT, 13))).map_err(bad)
}

/// One line per metric; a dot per implementation at its value, on a logarithmic axis.
pub fn draw_dots(file: &Path, caption: &str, rows: &[&Row]) -> Result<()> {
    const LINE: i32 = 34;
    const TOP: i32 = 64;
    const LEFT: i32 = 190;
    let mut metrics: Vec<&str> = Vec::new();
    for row in rows {
        if !metrics.contains(&row.metric.as_str()) {
            metrics.push(&row.metric);
        }
    }
    let names: Vec<&str> = NAMES
        .iter()
        .copied()
        .chain(["used"])
        .filter(|name| rows.iter().any(|row| row.implementation == *name))
        .collect();
    let height = (TOP + LINE * metrics.len() as i32 + 40).max(TOP + 20 * names.len() as i32);
    let area = SVGBackend::new(file, (WIDTH, height as u32)).into_drawing_area();
    let bad = |e: DrawingAreaErrorKind<std::io::Error>| anyhow!("{}: {e}", file.display());
    area.fill(&WHITE).map_err(bad)?;
    area.draw(&Text::new(caption.to_string(), (16, 16), (FONT, 17))).map_err(bad)?;
    let (low, high) = bounds(rows.iter().map(|row| row.value));
    let (low, high) = ((low.max(1e-3) * 0.8).log10(), (high.max(1e-3) * 1.25).log10());
    let right = WIDTH as i32 - 160;
    let place = |value: f64| {
        LEFT + ((value.max(1e-3).log10() - low) / (high - low) * (right - LEFT) as f64) as i32
    };
    let bottom = TOP + LINE * metrics.len() as i32;
    for decade in low.ceil() as i32..=high.floor() as i32 {
        let (value, x) = (10f64.powi(decade), place(10f64.powi(decade)));
        let line = PathElement::new([(x, TOP - 14), (x, bottom)], BLACK.mix(0.12));
        area.draw(&line).map_err(bad)?;
        area.draw(&Text::new(short_number(value), (x - 8, bottom + 8), (FONT, 12))).map_err(bad)?;
    }
    for (at, metric) in metrics.iter().enumerate() {
        let y = TOP + LINE * at as i32;
        area.draw(&Text::new(metric.to_string(), (16, y - 6), (FONT, 13))).map_err(bad)?;
        let rule = PathElement::new([(LEFT, y), (right, y)], BLACK.mix(0.08));
        area.draw(&rule).map_err(bad)?;
        // heddle last, so that its dot lies on top.
        for name in names.iter().rev() {
            let mut mine = rows.iter().filter(|row| row.metric == *metric);
            if let Some(row) = mine.find(|row| row.implementation == *name) {
                let radius = if *name == "heddle" { 8 } else { 6 };
                let dot = Circle::new((place(row.value), y), radius, colour(name).filled());
                area.draw(&dot).map_err(bad)?;
            }
        }
    }
    for (at, name) in names.iter().enumerate() {
        let legend = area.clone().shrink((right + 20, 0), (140u32, height as u32));
        legend_entry(&legend, name, TOP + 20 * at as i32)?;
    }
    area.present().map_err(bad)
}

fn short_number(value: f64) -> String {
    let (scaled, unit) = match value.abs() {
        v if v >= 1e9 => (value / 1e9, "G"),
        v if v >= 1e6 => (value / 1e6, "M"),
        v if v >= 1e4 => (value / 1e3, "k"),
        _ => (value, ""),
    };
    let digits = if scaled.abs() >= 10.0 || scaled.fract() == 0.0 { 0 } else { 1 };
    if value != 0.0 && value.abs() < 0.1 {
        return format!("{value}");
    }
    format!("{scaled:.digits$}{unit}")
}

#[cfg(test)]
mod tests {
    use super::super::result::Pick;
    use super::*;

    #[test]
    fn counts_are_read_back() {
        assert_eq!(count("8000"), Some(8000.0));
        assert_eq!(count("100k"), Some(100_000.0));
        assert_eq!(count("1m"), Some(1e6));
        assert_eq!(count("p99"), None);
    }

    #[test]
    fn numbers_on_axes_are_short() {
        let words = [0.01, 0.5, 7.0, 1000.0, 20_000.0, 3e6].map(short_number);
        assert_eq!(words, ["0.01", "0.5", "7", "1000", "20k", "3M"]);
    }

    #[test]
    fn draws_what_a_suite_has() {
        let folder = std::env::temp_dir().join(format!("heddle-plot-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let mut result = SuiteResult::new("micro", true);
        for (metric, value) in [("yield_2", 7.0), ("yield_at_1", 5.0), ("yield_at_10", 6.0)] {
            result.add(metric, "heddle", "ns", Pick::Least, &[value]);
        }
        let files: Vec<_> = write(&folder, &result).unwrap().into_iter().map(|f| f.0).collect();
        assert_eq!(files, ["micro.svg", "fig5-yield.svg"]);
        for file in files {
            assert!(std::fs::read_to_string(folder.join(file)).unwrap().contains("heddle"));
        }
        std::fs::remove_dir_all(folder).unwrap();
    }
}
