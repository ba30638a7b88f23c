//! The tables of suite tek: one per question, since its implementations differ from metric to
//! metric. Written from the rows alone.

use std::fmt::Write as _;

use super::super::impls::{NAMES, about};
use super::super::report::figure;
use super::super::result::SuiteResult;

/// Title, what stands in each line, implementations across.
struct Table {
    title: &'static str,
    metrics: &'static [&'static str],
    implementations: &'static [&'static str],
}

const TABLES: [Table; 4] = [
    Table {
        title: "Watching threads",
        metrics: &["record_read_ns", "record_write_ns", "peak_measure_ns", "peak_measure_64k_ns"],
        implementations: &["heddle"],
    },
    Table {
        title: "A thread's life: create + join",
        metrics: &[
            "create_join_ns",
            "create_join_overhead_ns",
            "create_join_instructions",
            "create_join_overhead_instructions",
        ],
        implementations: &["plain", "observe", "auto"],
    },
    Table {
        title: "How many threads, and what they lock",
        metrics: &[
            "threads_32bit_max",
            "threads_as_1g_max",
            "threads_overcommit_max",
            "mlockall_200_rss_bytes",
        ],
        implementations: &["stack_2m", "stack_4m", "stack_8m", "default", "auto"],
    },
    Table {
        title: "Response of time-critical threads while all CPUs are busy",
        metrics: &[
            "response_mean_ms",
            "response_p99_ms",
            "response_max_ms",
            "involuntary_switches",
            "hog_work",
        ],
        implementations: &[
            "default",
            "rr",
            "idle_unprivileged",
            "nice",
            "cgroup",
            "heddled",
            "direct",
        ],
    },
];

/// All tables that have a row.
pub fn write(text: &mut String, result: &SuiteResult) {
    legend(text, result);
    for table in &TABLES {
        one(text, result, table);
    }
    programs(text, result);
}

/// What the names mean, as far as they occur.
fn legend(text: &mut String, result: &SuiteResult) {
    let occurs = |name: &&&str| result.rows.iter().any(|row| row.implementation == **name);
    let names: Vec<&str> = NAMES.iter().filter(occurs).copied().collect();
    if names.is_empty() {
        return;
    }
    text.push_str("| impl | what |\n|---|---|\n");
    for name in names {
        let _ = writeln!(text, "| {name} | {} |", about(name));
    }
    text.push('\n');
}

fn one(text: &mut String, result: &SuiteResult, table: &Table) {
    let has = |metric: &str, name: &str| result.value(metric, name).is_some();
    let shown = |name: &&&str| table.metrics.iter().any(|metric| has(metric, name));
    let names: Vec<&str> = table.implementations.iter().filter(shown).copied().collect();
    if names.is_empty() {
        return;
    }
    let _ = writeln!(text, "**{}**\n\n| metric | unit | {} |", table.title, names.join(" | "));
    let _ = writeln!(text, "|---|---|{}", "--:|".repeat(names.len()));
    for metric in table.metrics {
        let Some(row) = result.rows.iter().find(|row| row.metric == *metric) else { continue };
        let cell = |name: &&str| result.value(metric, name).map_or(String::new(), figure);
        let cells: Vec<String> = names.iter().map(cell).collect();
        let _ = writeln!(text, "| `{metric}` | {} | {} |", row.unit, cells.join(" | "));
    }
    text.push('\n');
}

/// Programs down; what they reserve, what is left of it, what they use.
fn programs(text: &mut String, result: &SuiteResult) {
    let names: Vec<&str> = of_programs(result);
    if names.is_empty() {
        return;
    }
    text.push_str(
        "**Stacks of real programs, KiB**\n\n\
         | program | threads | reserved | with auto | of default size | with auto | times less | \
         used |\n|---|--:|--:|--:|--:|--:|--:|--:|\n",
    );
    for name in names {
        let tuned = format!("{name}+auto");
        let value = |metric: &str, name: &str| result.value(metric, name);
        let kib = |value: Option<f64>| value.map_or(String::new(), |v| figure(v / 1024.0));
        let default = "stack_reserved_default_bytes";
        let times = match (value(default, name), value(default, &tuned)) {
            (Some(before), Some(after)) if after > 0.0 => figure(before / after),
            _ => String::new(),
        };
        let _ = writeln!(
            text,
            "| {name} | {} | {} | {} | {} | {} | {times} | {} |",
            value("stack_threads", name).map_or(String::new(), |n| format!("{n:.0}")),
            kib(value("stack_reserved_bytes", name)),
            kib(value("stack_reserved_bytes", &tuned)),
            kib(value(default, name)),
            kib(value(default, &tuned)),
            kib(value("stack_peak_bytes", name)),
        );
    }
}

/// The programs that have rows, in their order.
pub fn of_programs(result: &SuiteResult) -> Vec<&str> {
    let rows = result.rows.iter().filter(|row| row.metric == "stack_reserved_bytes");
    rows.map(|row| row.implementation.as_str()).filter(|name| !name.contains('+')).collect()
}

#[cfg(test)]
mod tests {
    use super::super::super::result::Pick;
    use super::*;

    #[test]
    fn programs_stand_in_lines_with_their_ratio() {
        let mut result = SuiteResult::new("tek", true);
        let mut add = |metric: &str, name: &str, value: f64| {
            result.add(metric, name, "bytes", Pick::Median, &[value]);
        };
        for metric in ["stack_reserved_bytes", "stack_reserved_default_bytes"] {
            add(metric, "redis", 8388608.0 * 6.0);
            add(metric, "redis+auto", 65536.0 * 6.0);
        }
        add("stack_peak_bytes", "redis", 20480.0);
        add("stack_threads", "redis", 6.0);
        let mut text = String::new();
        write(&mut text, &result);
        let line = "| redis | 6 | 49152 | 384 | 49152 | 384 | 128 | 20.0 |";
        assert!(text.contains(line), "{text}");
    }

    #[test]
    fn tables_without_rows_are_left_out() {
        let mut text = String::new();
        write(&mut text, &SuiteResult::new("tek", true));
        assert!(text.is_empty());
    }
}
