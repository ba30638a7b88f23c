//! What is on the screen: the order, the filter, the selected thread; and what keys do to it.
//!
//! Invariant: the selection is a thread, not a line: it stays on its thread when the order
//! changes, and on its line when the thread is gone.

use clap::ValueEnum;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::sample::{Row, Sample};

/// What threads are sorted by.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub enum Key {
    /// CPU use since the last look
    Cpu,
    /// Deepest stack use
    Peak,
    /// How full the stack is
    Stack,
    /// Switches since the last look
    Switches,
    /// Time-critical first, by priority
    Class,
    /// Role, then name
    Role,
    /// Name
    Name,
    /// Process and thread id
    Id,
}

impl Key {
    pub fn word(self) -> &'static str {
        match self {
            Key::Cpu => "cpu",
            Key::Peak => "peak",
            Key::Stack => "stack",
            Key::Switches => "switches",
            Key::Class => "class",
            Key::Role => "role",
            Key::Name => "name",
            Key::Id => "id",
        }
    }
}

/// The state of the screen.
pub struct View {
    pub sample: Sample,
    pub key: Key,
    pub reversed: bool,
    /// Part of a role or name that threads must have to be shown.
    pub filter: String,
    /// The filter is being typed.
    pub is_typing: bool,
    pub shows_detail: bool,
    /// Index into [`View::shown`].
    pub selected: usize,
    /// First line of the table that is on the screen.
    pub top: usize,
    /// Lines of the table on the screen, told by the drawing.
    pub lines: usize,
    /// Indices of the sample's rows, in order.
    shown: Vec<usize>,
    chosen: Option<(i32, String)>,
}

/// What a key asks for beyond the screen.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Wish {
    Nothing,
    Quit,
}

impl View {
    pub fn new(key: Key, filter: String) -> View {
        View {
            sample: Sample::default(),
            key,
            reversed: false,
            filter,
            is_typing: false,
            shows_detail: false,
            selected: 0,
            top: 0,
            lines: 10,
            shown: Vec::new(),
            chosen: None,
        }
    }

    /// Shows another sample.
    pub fn show(&mut self, sample: Sample) {
        self.sample = sample;
        self.arrange();
    }

    /// The rows to be shown, in order.
    pub fn rows(&self) -> impl ExactSizeIterator<Item = &Row> {
        self.shown.iter().map(|index| &self.sample.rows[*index])
    }

    /// The selected thread.
    pub fn row(&self) -> Option<&Row> {
        self.shown.get(self.selected).map(|index| &self.sample.rows[*index])
    }

    fn arrange(&mut self) {
        let rows = &self.sample.rows;
        let filter = self.filter.to_lowercase();
        let has = |text: &str| text.to_lowercase().contains(&filter);
        let fits = |row: &Row| filter.is_empty() || has(row.role()) || has(row.name());
        self.shown = (0..rows.len()).filter(|index| fits(&rows[*index])).collect();
        let key = self.key;
        self.shown.sort_by(|one, two| compare(key, &rows[*one], &rows[*two]));
        if self.reversed {
            self.shown.reverse();
        }
        let found = self.chosen.as_ref().and_then(|(pid, id)| {
            self.shown.iter().position(|it| rows[*it].pid == *pid && rows[*it].id() == *id)
        });
        self.selected = found.unwrap_or(self.selected);
        self.select(self.selected);
    }

    fn select(&mut self, index: usize) {
        self.selected = index.min(self.shown.len().saturating_sub(1));
        self.chosen = self.row().map(|row| (row.pid, row.id()));
        self.scroll();
    }

    /// Keeps the selected line on the screen.
    pub fn scroll(&mut self) {
        let last = self.selected + 1;
        self.top = self.top.clamp(last.saturating_sub(self.lines.max(1)), self.selected);
    }

    /// Does what a key means.
    pub fn press(&mut self, key: KeyEvent) -> Wish {
        if key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL) {
            return Wish::Quit;
        }
        if self.is_typing {
            self.type_filter(key.code);
            return Wish::Nothing;
        }
        let page = self.lines.max(1);
        match key.code {
            KeyCode::Char('q') => return Wish::Quit,
            KeyCode::Esc if self.shows_detail => self.shows_detail = false,
            KeyCode::Esc if !self.filter.is_empty() => self.filter.clear(),
            KeyCode::Esc => return Wish::Quit,
            KeyCode::Enter | KeyCode::Char('d') => self.shows_detail = !self.shows_detail,
            KeyCode::Up | KeyCode::Char('k') => self.select(self.selected.saturating_sub(1)),
            KeyCode::Down | KeyCode::Char('j') => self.select(self.selected + 1),
            KeyCode::PageUp => self.select(self.selected.saturating_sub(page)),
            KeyCode::PageDown => self.select(self.selected + page),
            KeyCode::Home => self.select(0),
            KeyCode::End => self.select(usize::MAX),
            KeyCode::Char('/') => self.is_typing = true,
            KeyCode::Char('R') => self.reversed = !self.reversed,
            KeyCode::Char(letter) => self.sort_by(letter),
            _ => {}
        }
        self.arrange();
        Wish::Nothing
    }

    fn sort_by(&mut self, letter: char) {
        self.key = match letter {
            'c' => Key::Cpu,
            'p' => Key::Peak,
            's' => Key::Stack,
            'w' => Key::Switches,
            't' => Key::Class,
            'r' => Key::Role,
            'n' => Key::Name,
            'i' => Key::Id,
            _ => self.key,
        };
    }

    fn type_filter(&mut self, code: KeyCode) {
        const FILTER_CHARS_MAX: usize = 40;
        match code {
            KeyCode::Enter => self.is_typing = false,
            KeyCode::Esc => {
                self.is_typing = false;
                self.filter.clear();
            }
            KeyCode::Backspace => {
                self.filter.pop();
            }
            KeyCode::Char(letter) if self.filter.chars().count() < FILTER_CHARS_MAX => {
                self.filter.push(letter);
            }
            _ => {}
        }
        self.arrange();
    }
}

/// Numbers largest first, texts in their order; equals by id, so that lines do not jump.
fn compare(key: Key, one: &Row, two: &Row) -> std::cmp::Ordering {
    let id = |row: &Row| (row.pid, row.thread.fields.tid, row.thread.id);
    let number = |row: &Row| {
        let fields = &row.thread.fields;
        match key {
            Key::Cpu => row.cpu_permille.unwrap_or(0),
            Key::Peak => fields.stack_peak.into(),
            Key::Stack => fill_permille(row),
            Key::Switches => row.switch_rate.unwrap_or(0),
            Key::Class => u64::from(row.is_fast()) * 1000 + u64::from(fields.priority),
            Key::Role | Key::Name | Key::Id => 0,
        }
    };
    let text = |row: &Row| match key {
        Key::Role => (row.role().to_owned(), row.name().to_owned()),
        Key::Name => (row.name().to_owned(), String::new()),
        _ => Default::default(),
    };
    let by_text = || {
        if matches!(key, Key::Role | Key::Name) {
            text(one).cmp(&text(two))
        } else {
            std::cmp::Ordering::Equal
        }
    };
    number(two).cmp(&number(one)).then_with(by_text).then_with(|| id(one).cmp(&id(two)))
}

/// How full a stack is.
pub fn fill_permille(row: &Row) -> u64 {
    let fields = &row.thread.fields;
    match fields.stack_size {
        0 => 0,
        size => (u64::from(fields.stack_peak) * 1000 / u64::from(size)).min(1000),
    }
}
