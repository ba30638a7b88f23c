//! A profile as text: one line per kind of thread.
//!
//! Invariant: [`parse`] gives back exactly what [`render`] was given; anything else (another
//! version, a cut or changed file) is refused as a whole, because a wrong peak makes a stack too
//! small.
//!
//! ```text
//! heddle stacks 1
//! executable      /usr/bin/memcached
//! build-id        3f2a...
//! KEY SORT THREADS RUNS PEAK RESIDENT ASKED GIVEN OVERFLOWED FIRST LAST MODULE NAME
//! end     1
//! ```
//!
//! Fields are parted by tabs. Control characters and `%` in texts are written as `%XX`.

use std::fmt::Write as _;

use super::Executable;
use super::row::{Row, Sort, TEXT_BYTES_MAX};

/// The first line, up to the version.
const MAGIC: &str = "heddle stacks ";
/// The version that is written and read.
pub const VERSION: u32 = 1;
/// Most rows of a profile; the ones that were not seen for longest go.
pub const ROWS_MAX: usize = 4096;
/// Most bytes of a profile.
pub const FILE_BYTES_MAX: u64 = 16 << 20;

/// A profile's content.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Content {
    /// Whose threads these are.
    pub executable: Executable,
    /// What is known of them, in no order.
    pub rows: Vec<Row>,
}

/// The content as text.
pub fn render(content: &Content) -> String {
    let Content { executable, rows } = content;
    let build_id = executable.build_id.as_deref().unwrap_or("-");
    let path = escape(&executable.path);
    let mut out = format!("{MAGIC}{VERSION}\nexecutable\t{path}\nbuild-id\t{build_id}\n");
    for row in rows {
        let (key, sort, name) = (row.key, row.sort.word(), row.name.as_deref().unwrap_or(""));
        let Row { threads, runs, peak, resident, asked, given, overflowed, .. } = row;
        let (first, last) = (row.first_seen, row.last_seen);
        let (module, name) = (escape(&row.module), escape(name));
        // Writing to a String cannot fail.
        let _ = writeln!(
            out,
            "{key}\t{sort}\t{threads}\t{runs}\t{peak}\t{resident}\t{asked}\t{given}\t{overflowed}\
             \t{first}\t{last}\t{module}\t{name}"
        );
    }
    let _ = writeln!(out, "end\t{}", rows.len());
    out
}

/// The text's content.
///
/// # Errors
/// The first line that is not right, and what is wrong with it.
pub fn parse(text: &str) -> Result<Content, String> {
    let whole = text.strip_suffix('\n').ok_or("it does not end with a line")?;
    let mut lines = (1..).zip(whole.split('\n'));
    let mut next = || lines.next().ok_or_else(|| "it is cut off".to_owned());
    let version = next()?.1.strip_prefix(MAGIC).ok_or("it is no profile of stacks")?;
    if version != VERSION.to_string() {
        let version: String = version.chars().filter(char::is_ascii_digit).take(9).collect();
        return Err(format!("its version is {version}, expected {VERSION}"));
    }
    let path = labelled(next()?, "executable")?;
    let path = unescape(path).ok_or("line 2: the executable's path is no text")?;
    let build_id = labelled(next()?, "build-id")?;
    let executable = Executable { path, build_id: read_build_id(build_id)? };
    let mut rows = Vec::new();
    loop {
        let (number, line) = next()?;
        if let Some(count) = line.strip_prefix("end\t") {
            if count != rows.len().to_string() {
                return Err(format!(
                    "line {number}: {} rows, not as many as there were",
                    rows.len()
                ));
            }
            break;
        }
        if rows.len() == ROWS_MAX {
            return Err(format!("line {number}: more than {ROWS_MAX} rows"));
        }
        rows.push(row(line).ok_or_else(|| format!("line {number} is no row"))?);
    }
    match lines.next() {
        Some((number, _)) => Err(format!("line {number}: something follows the end")),
        None => Ok(Content { executable, rows }),
    }
}

fn labelled<'a>((number, line): (usize, &'a str), label: &str) -> Result<&'a str, String> {
    let value = line.strip_prefix(label).and_then(|rest| rest.strip_prefix('\t'));
    value.ok_or_else(|| format!("line {number}: expected {label}"))
}

fn read_build_id(text: &str) -> Result<Option<String>, String> {
    if text == "-" {
        return Ok(None);
    }
    let id = crate::key::BuildId::parse(text).filter(|id| id.to_string() == text);
    Ok(Some(id.ok_or("line 3: that is no build-id")?.to_string()))
}

fn row(line: &str) -> Option<Row> {
    let mut fields = line.split('\t');
    let key = fields.next()?;
    let sort = fields.next()?;
    let row = Row {
        key: key.parse().ok()?,
        sort: Sort::ALL.into_iter().find(|it| it.word() == sort)?,
        threads: number(fields.next()?)?,
        runs: number(fields.next()?)?,
        peak: number(fields.next()?)?,
        resident: number(fields.next()?)?,
        asked: number(fields.next()?)?,
        given: number(fields.next()?)?,
        overflowed: number(fields.next()?)?,
        first_seen: number(fields.next()?)?,
        last_seen: number(fields.next()?)?,
        module: unescape(fields.next()?)?,
        name: Some(unescape(fields.next()?)?).filter(|name| !name.is_empty()),
    };
    // One text for each key: otherwise one kind could have two rows.
    (fields.next().is_none() && row.key.to_string() == key).then_some(row)
}

/// A decimal number as it is printed: no sign, no leading zeros.
fn number<T: std::str::FromStr + std::fmt::Display>(text: &str) -> Option<T> {
    let number: T = text.parse().ok()?;
    (number.to_string() == text).then_some(number)
}

fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if c == '%' || c.is_ascii_control() {
            let _ = write!(out, "%{:02X}", u32::from(c));
        } else {
            out.push(c);
        }
    }
    out
}

/// The text that [`escape`] was given; `None` if it could not have written this.
fn unescape(text: &str) -> Option<String> {
    let mut parts = text.split('%');
    let mut out = parts.next()?.to_owned();
    for part in parts {
        let byte = u8::from_str_radix(part.get(..2)?, 16).ok()?;
        out.push(char::from(byte));
        out.push_str(&part[2..]);
    }
    (out.len() <= TEXT_BYTES_MAX && escape(&out) == text).then_some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_come_back() {
        for text in ["", "plain", "a\tb\nc%d\x7f", "ä /x"] {
            assert_eq!(unescape(&escape(text)).as_deref(), Some(text));
        }
        for text in ["%", "%0", "%zz", "%41", "%c3%a4", "a\tb", "%+1", &"x".repeat(4097)] {
            assert_eq!(unescape(text), None, "{text}");
        }
    }

    #[test]
    fn numbers_have_one_text() {
        assert_eq!(number::<u32>("17"), Some(17));
        for text in ["", "+1", "01", "-1", " 1", "4294967296"] {
            assert_eq!(number::<u32>(text), None, "{text}");
        }
    }
}
