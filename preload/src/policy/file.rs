//! The policy file as TOML: its shape, and the checks that one value alone cannot fail.
//!
//! Invariant: unknown keys are errors everywhere, so that a misspelled one is never ignored.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::time::Duration;

use heddle_record::{Category, Class, Group};
use serde::{Deserialize, Deserializer, de::Error as _};
use toml::Spanned;

use super::error::line_and_column;
use super::{
    Attributes, Error, FILE_BYTES_MAX, Means, MediatorPolicy, PRIORITY_DEFAULT, Pattern, Policy,
    ROLE_BYTES_MAX, RULES_MAX, TIME_MAX, ThreadRule, Zones, size,
};
use crate::key::Key;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TomlPolicy {
    #[serde(default)]
    mediator: TomlMediator,
    #[serde(default)]
    zones: Option<Spanned<TomlZones>>,
    #[serde(default)]
    thread: Vec<Spanned<TomlRule>>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct TomlMediator {
    means: Option<Means>,
    hold_ms: Option<Time>,
    lazy_bound_ms: Option<Bound>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TomlZones {
    low: Option<Percent>,
    high: Option<Percent>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TomlRule {
    start: Option<TomlPattern>,
    key: Option<TomlKey>,
    name: Option<TomlPattern>,
    role: Option<Role>,
    #[serde(default, deserialize_with = "word")]
    class: Option<Class>,
    priority: Option<Spanned<Priority>>,
    #[serde(default, deserialize_with = "word")]
    group: Option<Group>,
    #[serde(default, deserialize_with = "word")]
    category: Option<Category>,
    stack: Option<Size>,
}

/// Defines a type for one value, read from a TOML type by a function that may refuse it.
macro_rules! values {
    ($($name:ident($inner:ty) from $raw:ty: $read:expr;)*) => {
        $(struct $name($inner);

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let read: fn($raw) -> Result<$inner, String> = $read;
                read(<$raw>::deserialize(deserializer)?).map($name).map_err(D::Error::custom)
            }
        })*
    };
}

values! {
    Time(Duration) from i64: time;
    Bound(Option<Duration>) from NumberOrText: |raw| match raw {
        NumberOrText::Number(ms) => time(ms).map(Some),
        NumberOrText::Text(text) if text == "off" => Ok(None),
        NumberOrText::Text(text) => Err(format!("{text:?}: expected milliseconds or \"off\"")),
    };
    Percent(u8) from NumberOrText: percent;
    TomlPattern(Pattern) from String: |text| Pattern::new(&text);
    TomlKey(Key) from String: |text| text.parse().map_err(|error| format!("{text:?} is {error}"));
    Role(String) from String: role;
    Priority(u8) from i64: |number| match u8::try_from(number) {
        Ok(priority @ 1..=99) => Ok(priority),
        _ => Err(format!("priority {number}: expected 1 to 99")),
    };
    Size(u32) from NumberOrText: |raw| match raw {
        NumberOrText::Number(bytes) => size::within(u64::try_from(bytes).unwrap_or(0)),
        NumberOrText::Text(text) => size::parse_size(&text),
    };
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "expected a number or a text")]
enum NumberOrText {
    Number(i64),
    Text(String),
}

fn time(ms: i64) -> Result<Duration, String> {
    let most = TIME_MAX.as_millis() as u64;
    match u64::try_from(ms) {
        Ok(ms @ 1..) if ms <= most => Ok(Duration::from_millis(ms)),
        _ => Err(format!("{ms} ms: expected 1 to {most}")),
    }
}

fn percent(raw: NumberOrText) -> Result<u8, String> {
    let number = match &raw {
        NumberOrText::Number(number) => Some(*number),
        NumberOrText::Text(text) => text.strip_suffix('%').and_then(|it| it.trim().parse().ok()),
    };
    match number.map(u8::try_from) {
        Some(Ok(percent @ 1..=99)) => Ok(percent),
        _ => Err("expected a percentage from 1 to 99".into()),
    }
}

fn role(text: String) -> Result<String, String> {
    if text.is_empty() || text.len() > ROLE_BYTES_MAX {
        return Err(format!("a role of {} bytes: expected 1 to {ROLE_BYTES_MAX}", text.len()));
    }
    if text.chars().any(char::is_control) {
        return Err("a role cannot hold control characters".into());
    }
    Ok(text)
}

/// The record's words, by the texts that it prints.
trait Word: Copy + 'static {
    const ALL: &'static [Self];
    fn word(self) -> &'static str;
}

macro_rules! record_words {
    ($($name:ident)*) => {
        $(impl Word for $name {
            const ALL: &'static [Self] = $name::ALL;
            fn word(self) -> &'static str { $name::word(self) }
        })*
    };
}

record_words! { Class Group Category }

fn word<'de, D: Deserializer<'de>, W: Word>(deserializer: D) -> Result<Option<W>, D::Error> {
    let text = String::deserialize(deserializer)?;
    if let Some(word) = W::ALL.iter().find(|word| word.word() == text) {
        return Ok(Some(*word));
    }
    let known: Vec<_> = W::ALL.iter().map(|word| format!("`{}`", word.word())).collect();
    Err(D::Error::custom(format!("unknown word `{text}`, expected one of {}", known.join(", "))))
}

pub(super) fn parse(text: &str) -> Result<Policy, Error> {
    let file: TomlPolicy = toml::from_str(text).map_err(|error| {
        let offset = error.span().map_or(0, |span| span.start);
        Error::at(text, offset, error.message())
    })?;
    if let Some(rule) = file.thread.get(RULES_MAX) {
        let message = format!("more than {RULES_MAX} rules for threads");
        return Err(Error::at(text, rule.span().start, message));
    }
    let rules = file.thread.into_iter().map(|rule| thread_rule(text, rule));
    Ok(Policy {
        mediator: mediator(file.mediator),
        zones: file.zones.map_or(Ok(Zones::default()), |it| zones(text, it))?,
        threads: rules.collect::<Result<_, _>>()?,
    })
}

pub(super) fn load(path: &Path) -> Result<Policy, Error> {
    let fail = |error: std::io::Error| Error::of_file(path, format!("cannot read it: {error}"));
    let file = File::open(path).map_err(fail)?;
    let mut text = String::new();
    // One byte more than allowed shows that there is more.
    file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text).map_err(fail)?;
    if text.len() as u64 > FILE_BYTES_MAX {
        return Err(Error::of_file(path, format!("larger than {FILE_BYTES_MAX} bytes")));
    }
    parse(&text).map_err(|error| Error { path: Some(path.to_owned()), ..error })
}

fn mediator(file: TomlMediator) -> MediatorPolicy {
    let default = MediatorPolicy::default();
    MediatorPolicy {
        means: file.means.unwrap_or(default.means),
        hold: file.hold_ms.map_or(default.hold, |time| time.0),
        lazy_bound: file.lazy_bound_ms.map_or(default.lazy_bound, |bound| bound.0),
    }
}

fn zones(text: &str, file: Spanned<TomlZones>) -> Result<Zones, Error> {
    let (start, file, default) = (file.span().start, file.into_inner(), Zones::default());
    let low = file.low.map_or(default.low, |percent| percent.0);
    let high = file.high.map_or(default.high, |percent| percent.0);
    if low < high {
        Ok(Zones { low, high })
    } else {
        let message = format!("low = {low} and high = {high}: expected low below high");
        Err(Error::at(text, start, message))
    }
}

fn thread_rule(text: &str, file: Spanned<TomlRule>) -> Result<ThreadRule, Error> {
    let (start, file) = (file.span().start, file.into_inner());
    if file.start.is_none() && file.key.is_none() && file.name.is_none() {
        let message = "a rule that means no thread: expected `start`, `key` or `name`";
        return Err(Error::at(text, start, message));
    }
    let attributes = attributes(text, &file)?;
    if attributes.is_none() && file.stack.is_none() {
        let message = "a rule that says nothing: expected `role`, `class`, `priority`, `group`, \
                       `category` or `stack`";
        return Err(Error::at(text, start, message));
    }
    if file.stack.is_some() && file.start.is_none() && file.key.is_none() {
        let message = "`stack` needs `start` or `key`: a thread has its stack before its name";
        return Err(Error::at(text, start, message));
    }
    Ok(ThreadRule {
        start: file.start.map(|pattern| pattern.0),
        key: file.key.map(|key| key.0),
        name: file.name.map(|pattern| pattern.0),
        attributes,
        stack: file.stack.map(|size| size.0),
        line: line_and_column(text, start).0,
    })
}

fn attributes(text: &str, file: &TomlRule) -> Result<Option<Attributes>, Error> {
    let class = match (file.class, &file.priority) {
        (Some(Class::Lazy), Some(priority)) => {
            let message = "a lazy thread has no priority: expected class = \"time-critical\"";
            return Err(Error::at(text, priority.span().start, message));
        }
        (None, Some(_)) => Some(Class::TimeCritical),
        (class, _) => class,
    };
    let says = file.role.is_some() || class.is_some();
    if !says && file.group.is_none() && file.category.is_none() {
        return Ok(None);
    }
    let asked = file.priority.as_ref().map(|priority| priority.get_ref().0);
    let class = class.unwrap_or_default();
    let is_critical = class == Class::TimeCritical;
    Ok(Some(Attributes {
        role: file.role.as_ref().map(|role| role.0.clone()),
        class,
        priority: if is_critical { asked.unwrap_or(PRIORITY_DEFAULT) } else { 0 },
        group: file.group.unwrap_or_default(),
        category: file.category.unwrap_or_default(),
    }))
}
