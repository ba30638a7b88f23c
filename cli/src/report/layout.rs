//! Columns for terminals.
//!
//! Invariant: a line is at most as wide as was asked for if the elastic columns can give way; no
//! column becomes narrower than its title.

/// A table of texts.
pub struct Columns {
    titles: Vec<&'static str>,
    /// Whether numbers stand in it, and how narrow it may become.
    kinds: Vec<Column>,
    rows: Vec<Vec<String>>,
}

#[derive(Clone, Copy, PartialEq)]
pub enum Column {
    Left,
    Right,
    /// To the left, and shortened by the caller's function if the line is too long.
    Elastic,
}

/// Between columns.
const GAP: usize = 2;
/// An elastic column keeps this much.
const ELASTIC_MIN: usize = 16;

impl Columns {
    pub fn new(columns: &[(&'static str, Column)]) -> Columns {
        let (titles, kinds) = columns.iter().copied().unzip();
        Columns { titles, kinds, rows: Vec::new() }
    }

    pub fn row(&mut self, cells: Vec<String>) {
        debug_assert_eq!(cells.len(), self.titles.len());
        self.rows.push(cells);
    }

    /// The lines, titles first, with `indent` blanks before each.
    pub fn lines(
        &self,
        width: usize,
        indent: usize,
        shorten: impl Fn(&str, usize) -> String,
    ) -> Vec<String> {
        let mut widths: Vec<usize> = self.titles.iter().map(|it| it.len()).collect();
        for row in &self.rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(cell.chars().count());
            }
        }
        self.give_way(&mut widths, width.saturating_sub(indent));
        let titles = self.titles.iter().map(|it| it.to_string()).collect();
        std::iter::once(&titles)
            .chain(&self.rows)
            .map(|row| self.line(row, &widths, indent, &shorten))
            .collect()
    }

    /// Takes what is too much from the widest elastic column, again and again.
    fn give_way(&self, widths: &mut [usize], room: usize) {
        let gaps = GAP * widths.len().saturating_sub(1);
        loop {
            let excess = (widths.iter().sum::<usize>() + gaps).saturating_sub(room);
            let elastic = (0..widths.len()).filter(|it| self.kinds[*it] == Column::Elastic);
            let Some(widest) = elastic.max_by_key(|it| widths[*it]) else { return };
            if excess == 0 || widths[widest] <= ELASTIC_MIN {
                return;
            }
            widths[widest] -= 1;
        }
    }

    fn line(
        &self,
        row: &[String],
        widths: &[usize],
        indent: usize,
        shorten: &impl Fn(&str, usize) -> String,
    ) -> String {
        let mut line = " ".repeat(indent);
        for ((cell, width), kind) in row.iter().zip(widths).zip(&self.kinds) {
            let cell = if *kind == Column::Elastic { shorten(cell, *width) } else { cell.clone() };
            let blanks = " ".repeat(width.saturating_sub(cell.chars().count()));
            match kind {
                Column::Right => line += &format!("{blanks}{cell}"),
                _ => line += &format!("{cell}{blanks}"),
            }
            line += &" ".repeat(GAP);
        }
        line.truncate(line.trim_end().len());
        line
    }
}

/// A sentence in lines of at most `width` characters, the second and later ones indented.
pub fn wrapped(text: &str, width: usize, first: usize, later: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = " ".repeat(first);
    let mut is_empty = true;
    for word in text.split_whitespace() {
        let needed = line.chars().count() + usize::from(!is_empty) + word.chars().count();
        if needed > width && !is_empty {
            lines.push(std::mem::replace(&mut line, " ".repeat(later)));
            is_empty = true;
        }
        if !is_empty {
            line.push(' ');
        }
        line += word;
        is_empty = false;
    }
    lines.push(line);
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(text: &str, width: usize) -> String {
        text.chars().take(width).collect()
    }

    #[test]
    fn columns_line_up_and_give_way() {
        let mut columns =
            Columns::new(&[("THREAD", Column::Elastic), ("N", Column::Right), ("X", Column::Left)]);
        columns.row(vec!["a".repeat(30), "7".into(), "y".into()]);
        columns.row(vec!["b".into(), "123".into(), String::new()]);
        let lines = columns.lines(80, 2, cut);
        assert_eq!(lines[0], format!("  THREAD{}    N  X", " ".repeat(24)));
        assert_eq!(lines[2], format!("  b{}  123", " ".repeat(29)));
        assert!(columns.lines(30, 2, cut).iter().all(|line| line.chars().count() <= 30));
        assert!(columns.lines(5, 2, cut)[1].starts_with(&format!("  {}  ", "a".repeat(16))));
    }

    #[test]
    fn sentences_are_wrapped_between_words() {
        assert_eq!(wrapped("one two three", 9, 2, 4), ["  one two", "    three"]);
        assert_eq!(wrapped("unbreakable", 4, 0, 2), ["unbreakable"]);
        assert_eq!(wrapped("", 10, 0, 0), [""]);
    }
}
