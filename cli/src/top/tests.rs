//! The screen drawn into memory, and keys pressed on it.

use std::sync::Arc;

use heddle_record::{Class, Fields, Group, Kind, State, Thread, ThreadId, Zone};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::sample::{Process, Row, Sample};
use super::view::{Key, View, Wish};
use super::{advice, draw};

fn row(tid: i32, name: &str, role: Option<&str>, cpu_permille: u64, peak: u32) -> Row {
    let fields = Fields {
        tid,
        kind: Kind::KernelThread,
        state: State::Parked,
        group: Group::Normal,
        stack_size: 65536,
        stack_peak: peak,
        zone: Zone::of(peak, 65536),
        ..Fields::default()
    };
    let thread = Thread {
        id: ThreadId { slot: tid as u32, generation: 0 },
        fields,
        role: role.map(Arc::from),
        start: Some("work(void*)".into()),
        name: Some(name.into()),
        runs: None,
        stack: None,
    };
    Row {
        pid: 7,
        thread,
        cpu_permille: Some(cpu_permille),
        switch_rate: Some(12),
        scheduling: "other".into(),
    }
}

fn sample(rows: Vec<Row>) -> Sample {
    let process = Process { pid: 7, program: "panel".into(), source: "table" };
    let advice = advice::give(&rows);
    Sample { processes: vec![process], rows, advice, troubles: Vec::new() }
}

fn some() -> Sample {
    let mut gas = row(102, "sensor", Some("gas detection"), 15, 2048);
    gas.thread.fields.class = Class::TimeCritical;
    gas.thread.fields.priority = 80;
    sample(vec![
        row(101, "ui\x1b[2J", Some("drawing"), 330, 60_000),
        gas,
        row(103, "log", None, 900, 0),
    ])
}

fn view(sample: Sample) -> View {
    let mut view = View::new(Key::Cpu, String::new());
    view.show(sample);
    view
}

fn screen(view: &mut View, width: u16, height: u16) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a terminal");
    terminal.draw(|frame| draw::draw(frame, view)).expect("a drawing");
    let buffer = terminal.backend().buffer();
    let line = |y| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>();
    (0..height).map(|y| line(y).trim_end().to_owned()).collect()
}

fn press(view: &mut View, keys: &[KeyCode]) -> Wish {
    let mut wish = Wish::Nothing;
    for code in keys {
        wish = view.press(KeyEvent::new(*code, KeyModifiers::NONE));
    }
    wish
}

fn order(view: &View) -> Vec<i32> {
    view.rows().map(|row| row.thread.fields.tid).collect()
}

#[test]
fn the_screen_has_all_that_matters_in_80_by_24() {
    let lines = screen(&mut view(some()), 80, 24);
    assert_eq!(lines[0], "panel (7): 3 threads, 124.5 % CPU; by cpu");
    let columns = "TID/ID STATE CLASS CPU% STACK PEAK/SIZE ROLE: NAME";
    assert!(lines[1].split_whitespace().eq(columns.split_whitespace()), "{}", lines[1]);
    assert!(lines[2].contains("103") && lines[2].contains("90.0") && lines[2].ends_with("log"));
    assert!(lines[3].contains("##########|.") || lines[3].contains("##########.."), "{}", lines[3]);
    assert!(lines[3].contains("59K/64K"), "{}", lines[3]);
    assert!(lines[4].contains("tc:80") && lines[4].ends_with("gas detection: sensor"));
    assert!(lines[4].contains("#..|.....|.."), "{}", lines[4]);
    assert!(lines[22].starts_with("! ui\\u{1b}[2J (101): stack near its end: 91 % of 64K used"));
    assert!(lines[23].starts_with("q quit") && lines[23].contains("filter"), "{}", lines[23]);
    assert!(lines.iter().all(|line| !line.contains('\x1b')));
}

#[test]
fn keys_sort_filter_select_and_quit() {
    let mut view = view(some());
    assert_eq!(order(&view), [103, 101, 102]);
    press(&mut view, &[KeyCode::Char('t')]);
    assert_eq!(order(&view), [102, 101, 103]);
    press(&mut view, &[KeyCode::Char('s')]);
    assert_eq!(order(&view), [101, 102, 103]);
    press(&mut view, &[KeyCode::Char('i'), KeyCode::Char('R')]);
    assert_eq!(order(&view), [103, 102, 101]);
    press(&mut view, &[KeyCode::Char('R'), KeyCode::Char('/'), KeyCode::Char('g')]);
    press(&mut view, &[KeyCode::Char('a'), KeyCode::Char('S'), KeyCode::Enter]);
    assert_eq!(order(&view), [102]);
    assert!(screen(&mut view, 80, 24)[0].ends_with("filter \"gaS\""));
    assert_eq!(press(&mut view, &[KeyCode::Esc]), Wish::Nothing);
    assert_eq!(order(&view), [101, 102, 103]);
    assert_eq!(press(&mut view, &[KeyCode::Char('q')]), Wish::Quit);
    let interrupt = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
    assert_eq!(view.press(interrupt), Wish::Quit);
}

#[test]
fn the_selection_stays_on_its_thread() {
    let mut view = view(some());
    press(&mut view, &[KeyCode::End]);
    assert_eq!(view.row().expect("a thread").thread.fields.tid, 102);
    press(&mut view, &[KeyCode::Char('t')]);
    assert_eq!(view.row().expect("a thread").thread.fields.tid, 102);
    let mut without = some();
    without.rows.remove(1);
    view.show(without);
    assert!(view.row().is_some());
    view.show(sample(Vec::new()));
    assert!(view.row().is_none());
    press(&mut view, &[KeyCode::Down, KeyCode::Enter, KeyCode::PageDown]);
    screen(&mut view, 80, 24);
}

#[test]
fn detail_shows_one_thread() {
    let mut view = view(some());
    press(&mut view, &[KeyCode::Char('t'), KeyCode::Home, KeyCode::Enter]);
    let text = screen(&mut view, 80, 24).join("\n");
    for words in [
        "thread 102 of process 7",
        "start work(void*)",
        "class time-critical:80",
        "kernel: other",
        "peak 2K",
        "zone low",
        "(12/s)",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
}

#[test]
fn long_tables_scroll_and_small_screens_do_not_fail() {
    let rows = (0..10_000).map(|it| row(1000 + it, "worker", None, 0, 100)).collect();
    let mut view = view(sample(rows));
    screen(&mut view, 80, 24);
    press(&mut view, &[KeyCode::End]);
    let lines = screen(&mut view, 80, 24);
    assert!(lines.iter().any(|line| line.starts_with("10999 ")), "{lines:?}");
    press(&mut view, &[KeyCode::PageUp, KeyCode::Enter]);
    for (width, height) in [(1, 1), (10, 3), (20, 5), (80, 8), (300, 100)] {
        screen(&mut view, width, height);
    }
}
