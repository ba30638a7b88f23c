//! The screen of `heddle top`: headline, table, advice, detail, help.
//!
//! Invariant: draws what the view says and keeps nothing; every text of another process is made
//! harmless first; fits into 80 by 24 and does not fail in less.

use heddle_record::{Kind, Zone};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Borders, Cell, Paragraph, Row as Cells, Table};

use super::sample::Row;
use super::view::{View, fill_permille};
use crate::ps::state;
use crate::text::{bytes, duration, harmless};

/// Lines of advice on the screen, at most.
const ADVICE_LINES_MAX: usize = 3;
const DETAIL_LINES: u16 = 8;
/// Cells of a stack bar.
const BAR_CELLS: u64 = 12;
const HELP: &str =
    "q quit Enter detail / filter R reverse; c cpu s stack p peak w rate t r n i sort";

/// Draws everything, and tells the view how many lines of the table there are.
pub fn draw(frame: &mut Frame<'_>, view: &mut View) {
    let advice = view.sample.advice.len().min(ADVICE_LINES_MAX) as u16;
    let detail = if view.shows_detail { DETAIL_LINES } else { 0 };
    let [head, table, below, pane, foot] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Min(3),
        Constraint::Length(advice),
        Constraint::Length(detail),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    // One line is the columns' names.
    view.lines = usize::from(table.height.saturating_sub(1));
    view.scroll();
    frame.render_widget(headline(view), head);
    draw_table(frame, view, table);
    let lines: Vec<Line<'_>> =
        view.sample.advice.iter().take(ADVICE_LINES_MAX).map(|it| warning(&it.text)).collect();
    frame.render_widget(Paragraph::new(lines), below);
    if let (true, Some(row)) = (view.shows_detail, view.row()) {
        draw_detail(frame, view, row, pane);
    }
    frame.render_widget(foot_line(view), foot);
}

fn warning(text: &str) -> Line<'_> {
    Line::styled(format!("! {}", harmless(text)), Style::new().fg(Color::Yellow))
}

fn headline(view: &View) -> Line<'static> {
    let sample = &view.sample;
    let threads = view.rows().len();
    let cpu: u64 = view.rows().filter_map(|row| row.cpu_permille).sum();
    let who = match &sample.processes[..] {
        [] => match sample.troubles.first() {
            Some(trouble) => trouble.clone(),
            None => {
                "no process has a thread table: start one by `heddle run`, or give a PID".into()
            }
        },
        [one] => {
            let outside = if one.source == "proc" { ", from /proc" } else { "" };
            format!("{} ({}){outside}", harmless(&one.program), one.pid)
        }
        many => format!("{} processes", many.len()),
    };
    let order = if view.reversed { ", reversed" } else { "" };
    let filter = match view.filter.as_str() {
        "" => String::new(),
        text => format!("; filter \"{}\"", harmless(text)),
    };
    let text = format!(
        "{who}: {threads} threads, {}.{} % CPU; by {}{order}{filter}",
        cpu / 10,
        cpu % 10,
        view.key.word()
    );
    Line::styled(text, Style::new().add_modifier(Modifier::BOLD))
}

fn foot_line(view: &View) -> Line<'static> {
    if view.is_typing {
        return Line::from(format!(
            "role or name: {}_   Enter done  Esc none",
            harmless(&view.filter)
        ));
    }
    Line::styled(HELP, Style::new().add_modifier(Modifier::DIM))
}

fn draw_table(frame: &mut Frame<'_>, view: &View, area: Rect) {
    let widths = [
        Constraint::Length(8),
        Constraint::Length(8),
        Constraint::Length(6),
        Constraint::Length(6),
        Constraint::Length(BAR_CELLS as u16),
        Constraint::Length(10),
        Constraint::Min(16),
    ];
    let names = ["TID/ID", "STATE", "CLASS", "CPU%", "STACK", "PEAK/SIZE", "ROLE: NAME"];
    let header = Cells::new(names).style(Style::new().add_modifier(Modifier::UNDERLINED));
    let lines = view.rows().enumerate().skip(view.top).take(view.lines);
    let rows = lines.map(|(index, row)| {
        let style = match index == view.selected {
            true => Style::new().add_modifier(Modifier::REVERSED),
            false => Style::new(),
        };
        table_row(row).style(style)
    });
    frame.render_widget(Table::new(rows, widths).header(header).column_spacing(1), area);
}

fn table_row(row: &Row) -> Cells<'static> {
    let class = if row.is_fast() { Style::new().fg(Color::Magenta) } else { Style::new() };
    Cells::new([
        Cell::from(row.id()),
        Cell::from(state(&row.thread)),
        Cell::from(class_text(row)).style(class),
        Cell::from(cpu_text(row)),
        Cell::from(bar(row)),
        Cell::from(sizes(row)),
        Cell::from(harmless(&row.title()).into_owned()),
    ])
}

/// "tc:80", or the group of a lazy thread.
fn class_text(row: &Row) -> String {
    let fields = &row.thread.fields;
    match (fields.kind, row.is_fast()) {
        (Kind::Worker, _) => "worker".into(),
        (_, true) => format!("tc:{}", fields.priority),
        (_, false) => fields.group.word().chars().take(6).collect(),
    }
}

fn cpu_text(row: &Row) -> String {
    row.cpu_permille.map_or("-".into(), |it| format!("{}.{}", it / 10, it % 10))
}

fn sizes(row: &Row) -> String {
    let fields = &row.thread.fields;
    match (fields.stack_peak, fields.stack_size) {
        (0, 0) => "-".into(),
        (0, size) => format!("-/{}", bytes(size.into())),
        (peak, size) => format!("{}/{}", bytes(peak.into()), bytes(size.into())),
    }
}

fn zone_colour(zone: Zone) -> Color {
    match zone {
        Zone::Unknown => Color::DarkGray,
        Zone::Low => Color::Blue,
        Zone::Normal => Color::Green,
        Zone::High => Color::Red,
    }
}

/// How full the stack is, in the colour of its zone; the zones' borders where it is empty.
fn bar(row: &Row) -> Line<'static> {
    let fill = fill_permille(row);
    if row.thread.fields.stack_size == 0 {
        return Line::from("");
    }
    // What was used at all is seen.
    let full = (fill * BAR_CELLS / 1000).max(u64::from(fill > 0));
    let empty = (full..BAR_CELLS).map(|cell| match cell {
        cell if cell == BAR_CELLS / 4 || cell == BAR_CELLS * 3 / 4 => '|',
        _ => '.',
    });
    Line::from(vec![
        Span::styled("#".repeat(full as usize), zone_colour(row.thread.fields.zone)),
        Span::styled(empty.collect::<String>(), Color::DarkGray),
    ])
}

fn draw_detail(frame: &mut Frame<'_>, view: &View, row: &Row, area: Rect) {
    let fields = &row.thread.fields;
    let text =
        |it: &Option<std::sync::Arc<str>>| harmless(it.as_deref().unwrap_or("-")).into_owned();
    let scheduling = if row.scheduling.is_empty() { "-" } else { &row.scheduling };
    let age = heddle_record::process::now_ns().saturating_sub(fields.created_ns);
    let mut lines = vec![
        Line::from(format!("role {}   name {}", text(&row.thread.role), text(&row.thread.name))),
        Line::from(format!("start {}", text(&row.thread.start))),
        Line::from(format!(
            "class {}:{}   group {}   category {}   kernel: {scheduling}",
            fields.class, fields.priority, fields.group, fields.category
        )),
        Line::from(format!(
            "stack {}, peak {}, resident {}, zone {}",
            bytes(fields.stack_size.into()),
            bytes(fields.stack_peak.into()),
            bytes(fields.stack_resident.into()),
            fields.zone
        )),
        Line::from(format!(
            "cpu {}   switches {} ({}/s)   age {}",
            duration(fields.cpu_ns),
            fields.switches,
            row.switch_rate.map_or("-".into(), |it| it.to_string()),
            duration(age)
        )),
    ];
    let own =
        |it: &&super::advice::Advice| it.pid == row.pid && it.thread == row.thread.id.to_string();
    lines.extend(view.sample.advice.iter().find(own).map(|it| warning(&it.text)));
    let kind = match fields.kind {
        Kind::KernelThread => "thread",
        kind => kind.word(),
    };
    let title = format!(" {kind} {} of process {} ", row.id(), row.pid);
    let block = Block::new().borders(Borders::TOP | Borders::BOTTOM).title(title);
    frame.render_widget(Paragraph::new(lines).block(block), area);
}
