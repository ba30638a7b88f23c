//! Plots of suite unmodified: MariaDB's time and CPU time against its clients, and the server with
//! a thread per connection.

use std::path::Path;

use anyhow::Result;

use super::super::plot::{Axes, Line, draw_lines, over_counts};
use super::super::result::SuiteResult;

pub fn write(folder: &Path, result: &SuiteResult) -> Result<Vec<(String, String)>> {
    let plots = [
        ("unmodified-mariadb-time.svg", "MariaDB: time of 2000 queries", "clients", "s"),
        ("unmodified-mariadb-cpu.svg", "MariaDB: CPU time of 2000 queries", "clients", "ticks"),
        (
            "unmodified-tpc.svg",
            "A thread per connection: CPU time per request",
            "connections",
            "us",
        ),
    ];
    let lines = [
        over_clients(result, "seconds"),
        over_clients(result, "cpu_ticks"),
        over_counts(result, "tpc_cpu_us_", |us| us),
    ];
    let mut written = Vec::new();
    for ((file, caption, x, y), lines) in plots.into_iter().zip(lines) {
        if lines.iter().any(|(_, points)| points.len() > 1) {
            draw_lines(
                &folder.join(file),
                &Axes { caption, x, y, log_x: true, log_y: false },
                &lines,
            )?;
            written.push((file.to_string(), caption.to_string()));
        }
    }
    Ok(written)
}

/// Rows `mariadb_<clients>_<what>` as rows that end with the count.
fn over_clients(result: &SuiteResult, what: &str) -> Vec<Line> {
    let mut turned = result.clone();
    turned.rows.retain_mut(|row| {
        let rest = row.metric.strip_prefix("mariadb_").and_then(|rest| rest.strip_suffix(what));
        let Some(clients) = rest.and_then(|rest| rest.strip_suffix('_')) else { return false };
        row.metric = format!("clients_{clients}");
        true
    });
    over_counts(&turned, "clients_", |value| value)
}

#[cfg(test)]
mod tests {
    use super::super::super::result::Pick;
    use super::*;

    #[test]
    fn draws_time_against_clients() {
        let folder = std::env::temp_dir().join(format!("heddle-unm-plot-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let mut result = SuiteResult::new("unmodified", true);
        for (metric, value) in [("mariadb_10_seconds", 1.0), ("mariadb_500_seconds", 2.0)] {
            result.add(metric, "native", "s", Pick::Median, &[value]);
        }
        result.add("mariadb_10_cpu_ticks", "native", "ticks", Pick::Median, &[90.0]);
        let files: Vec<_> = write(&folder, &result).unwrap().into_iter().map(|f| f.0).collect();
        assert_eq!(files, ["unmodified-mariadb-time.svg"]);
        let lines = over_clients(&result, "seconds");
        assert_eq!(lines, [("native".to_string(), vec![(10.0, 1.0), (500.0, 2.0)])]);
        std::fs::remove_dir_all(folder).unwrap();
    }
}
