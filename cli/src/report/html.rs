//! The report as a page: one file that needs no other.
//!
//! Invariant: every text from the program is escaped; the page loads and runs nothing.

use heddle_record::Zone;

use super::text;
use super::{Kind, Report, Summary};
use crate::text::{bytes, duration, harmless};

const STYLE: &str = "\
:root{color-scheme:light dark;--line:#8884;--low:#4a90d9;--normal:#3fa34d;--high:#d9534f}
body{font:15px/1.45 system-ui,sans-serif;margin:2rem auto;max-width:72rem;padding:0 1rem}
h1{font-size:1.3rem}h2{font-size:1.05rem;margin-top:2rem}
.wide{overflow-x:auto}table{border-collapse:collapse;width:100%}
th,td{text-align:left;padding:.3rem .6rem;border-bottom:1px solid var(--line);vertical-align:top}
td.n,th.n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
td.t{overflow-wrap:anywhere}small{opacity:.7;display:block}
.bar{position:relative;width:11rem;height:.9rem;background:#8882;border-radius:.2rem;margin-top:.2rem}
.bar i{position:absolute;left:0;top:0;bottom:0;border-radius:.2rem;min-width:2px}
.bar b{position:absolute;top:-.15rem;bottom:-.15rem;width:1px;background:var(--line)}
.low{background:var(--low)}.normal{background:var(--normal)}.high{background:var(--high)}
.-{background:#8886}ul{padding-left:1.2rem}";

/// The page.
pub fn page(report: &Report) -> String {
    let lines = text::lines(report, usize::MAX);
    let headline = lines.first().map(|line| line.trim_start_matches("heddle: ")).unwrap_or("");
    let command: Vec<&str> =
        std::iter::once(&*report.program).chain(report.arguments.iter().map(|it| &**it)).collect();
    let mut page = format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{title}</title>\n<style>{STYLE}</style></head>\n<body>\n\
         <h1>{title}</h1>\n<p><code>{command}</code><br>{elapsed}, stacks: {stacks}</p>\n",
        title = escaped(headline),
        command = escaped(&command.join(" ")),
        elapsed = duration(report.elapsed_ns),
        stacks = report.stacks,
    );
    for summary in report.summaries() {
        page += &section(report, &summary);
    }
    let notes = said(report);
    if !notes.is_empty() {
        page += "<h2>What was done, and what was not</h2>\n<ul>\n";
        for note in &notes {
            page += &format!("<li>{}</li>\n", escaped(note.trim()));
        }
        page += "</ul>\n";
    }
    page + "</body></html>\n"
}

/// What the Stack Tuner and the Mediator said, and the notes.
fn said(report: &Report) -> Vec<String> {
    let tuner = text::tuner(report, &report.summaries(), usize::MAX);
    let mediator = report.mediator.iter().flat_map(|(lines, _)| lines.clone());
    tuner.into_iter().chain(mediator).chain(report.notes.iter().cloned()).collect()
}

fn section(report: &Report, summary: &Summary) -> String {
    let processes = match summary.processes {
        1 => String::new(),
        count => format!(", {count} processes"),
    };
    let mut section =
        format!("<h2>{}{processes}</h2>\n<div class=\"wide\"><table>\n", escaped(&summary.program));
    section += "<tr><th>thread</th><th class=\"n\">threads</th><th class=\"n\">asks</th>\
        <th class=\"n\">gets</th><th class=\"n\">peak</th><th>stack</th><th class=\"n\">CPU</th>\
        <th>advice</th></tr>\n";
    for kind in &summary.kinds {
        section += &row(report, kind);
    }
    section + "</table></div>\n"
}

fn row(report: &Report, kind: &Kind) -> String {
    let size = |count: u64| if count == 0 { "-".into() } else { bytes(count) };
    let asked = if kind.main { "-".into() } else { size(kind.stack_asked) };
    let mut about: Vec<String> = Vec::new();
    about.extend(kind.name.iter().map(|name| format!("named {name}")));
    about.extend(kind.site.iter().map(|site| format!("created at {site}")));
    about.extend(kind.defined_at.iter().map(|place| format!("written at {place}")));
    if kind.priority > 0 {
        about.push(format!("{}, priority {}", kind.class, kind.priority));
    }
    format!(
        "<tr><td class=\"t\">{title}<small>{about}</small></td><td class=\"n\">{created}</td>\
         <td class=\"n\">{asked}</td><td class=\"n\">{given}</td><td class=\"n\">{peak}</td>\
         <td>{bar}</td><td class=\"n\">{cpu}</td><td>{advice}</td></tr>\n",
        title = escaped(kind.title()),
        about = escaped(&about.join("; ")),
        created = kind.created,
        given = size(kind.stack_given),
        peak = size(kind.peak),
        bar = bar(report, kind),
        cpu = if kind.cpu_ns == 0 { "-".into() } else { duration(kind.cpu_ns) },
        advice = escaped(kind.advice.as_deref().unwrap_or("")),
    )
}

/// The stack as a bar with the zones' borders, and the peak in it.
fn bar(report: &Report, kind: &Kind) -> String {
    let Some(percent) = kind.used_percent() else { return "-".into() };
    let zone = if kind.zone == Zone::Unknown { "-" } else { kind.zone.word() };
    let shown = if percent == 0 { "&lt;1".into() } else { percent.to_string() };
    format!(
        "{shown} % <div class=\"bar\"><i class=\"{zone}\" style=\"width:{}%\"></i>\
         <b style=\"left:{}%\"></b><b style=\"left:{}%\"></b></div>",
        percent.min(100),
        report.zones.low,
        report.zones.high
    )
}

fn escaped(text: &str) -> String {
    harmless(text)
        .replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::super::tests::{kind, report};
    use super::*;

    #[test]
    fn a_page_stands_alone_and_escapes() {
        let mut report = report(vec![kind("queue<int>::run", 8 << 20, 8 << 20, 7 << 20)]);
        report.notes.push("<script>alert(1)</script>".into());
        let page = page(&report);
        assert!(page.contains("queue&lt;int&gt;::run") && page.contains("&lt;script&gt;"));
        assert!(!page.contains("<script") && !page.contains("http"));
        assert!(page.contains("class=\"high\" style=\"width:87%\""), "{page}");
    }
}
