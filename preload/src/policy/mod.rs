//! The policy: what the user says of a program's threads, in one TOML file.
//!
//! Invariant: whatever a [`Policy`] holds is within its limits; a file that says something else,
//! or something that nobody knows, is an [`Error`] with the line and the column.
//!
//! ```toml
//! [mediator]
//! means = "auto"          # auto, rr, idle, nice, cgroup, none
//! hold_ms = 1000          # how long a sleeping time-critical thread keeps the others lazy
//! lazy_bound_ms = 100     # how long the lazy ones may starve; "off": for ever
//!
//! [zones]
//! low = 25                # percent of the usable stack: below is Low
//! high = 75               # and from here on is High
//!
//! [[thread]]
//! name = "mc-worker*"     # or start = "function name or pattern", or key = "..."
//! role = "requests"
//! class = "time-critical" # or lazy
//! priority = 60           # 1 to 99; alone it makes a thread time-critical
//! group = "normal"        # urgent, normal, service, background
//! category = "event"      # event, drawing, foreground, background
//! stack = "64K"           # in every mode
//! ```
//!
//! The selectors of one rule (`start`, `key`, `name`) are alternatives: a thread that any of them
//! picks is meant. Of several rules that fit a thread the first of the file holds, alone.
//!
//! Words and meanings are those of the runtime's builder: one file serves kernel threads and
//! heddle's own. The classes, groups and the mediator are TEK's (section IV-A), the zones those of
//! its Stack Tuner (IV-B).

mod error;
mod file;
mod glob;
mod size;

use std::path::Path;
use std::time::Duration;

use heddle_record::{Category, Class, Group, Zone};

use crate::key::Key;

pub use error::Error;
pub use glob::{PATTERN_BYTES_MAX, Pattern};
pub use size::{STACK_BYTES_MAX, STACK_BYTES_MIN, parse_size};

/// Most bytes of a policy file.
pub const FILE_BYTES_MAX: u64 = 1 << 20;
/// Most `[[thread]]` rules of a policy.
pub const RULES_MAX: usize = 4096;
/// Most bytes of a role.
pub const ROLE_BYTES_MAX: usize = 256;
/// Longest time that a policy can name.
pub const TIME_MAX: Duration = Duration::from_secs(3600);
/// The priority of a time-critical thread that asks for none.
pub const PRIORITY_DEFAULT: u8 = 50;

/// What the user wants for a program's threads. The default wants nothing.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Policy {
    /// How the CPU is shared.
    pub mediator: MediatorPolicy,
    /// Borders of the stack zones.
    pub zones: Zones,
    /// Rules for threads, in the file's order.
    pub threads: Vec<ThreadRule>,
}

/// How the CPU Mediator works.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct MediatorPolicy {
    /// By what means.
    pub means: Means,
    /// How long the other threads stay lazy after the last time-critical one went to sleep.
    pub hold: Duration,
    /// How long lazy threads may starve; `None`: as long as it takes.
    pub lazy_bound: Option<Duration>,
}

impl Default for MediatorPolicy {
    fn default() -> Self {
        MediatorPolicy {
            means: Means::Auto,
            hold: Duration::from_millis(1000),
            lazy_bound: Some(Duration::from_millis(100)),
        }
    }
}

/// What the CPU Mediator sets.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Means {
    /// The best that this user may use here.
    #[default]
    Auto,
    /// SCHED_RR for the time-critical threads.
    Rr,
    /// SCHED_IDLE for the others.
    Idle,
    /// Nice values.
    Nice,
    /// Weights of cgroups.
    Cgroup,
    /// Nothing is changed.
    None,
}

impl Means {
    /// The word that a policy file has for it.
    pub const fn word(self) -> &'static str {
        match self {
            Means::Auto => "auto",
            Means::Rr => "rr",
            Means::Idle => "idle",
            Means::Nice => "nice",
            Means::Cgroup => "cgroup",
            Means::None => "none",
        }
    }
}

impl std::fmt::Display for Means {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.word())
    }
}

/// Borders of the stack zones, in percent of the usable stack; `low < high`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Zones {
    /// A peak below this is Low.
    pub low: u8,
    /// A peak of at least this is High.
    pub high: u8,
}

impl Default for Zones {
    fn default() -> Self {
        Zones { low: 25, high: 75 }
    }
}

impl Zones {
    /// The zone of a peak in a stack of `usable` bytes; unknown if either is 0.
    pub fn of(self, peak: u64, usable: u64) -> Zone {
        // A peak and a size in bytes, a hundredfold, are far from the end of 128 bits.
        let share = |percent: u8| u128::from(usable) * u128::from(percent);
        let peak_share = u128::from(peak) * 100;
        if peak == 0 || usable == 0 {
            Zone::Unknown
        } else if peak_share < share(self.low) {
            Zone::Low
        } else if peak_share < share(self.high) {
            Zone::Normal
        } else {
            Zone::High
        }
    }
}

/// What threads are, apart from their stacks.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub struct Attributes {
    /// What they are for.
    pub role: Option<String>,
    /// How urgent they are.
    pub class: Class,
    /// 1 to 99 in the time-critical class, else 0.
    pub priority: u8,
    /// Their scheduling group.
    pub group: Group,
    /// What they do in a GUI.
    pub category: Category,
}

/// One `[[thread]]`: whom it means, and what holds for them.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct ThreadRule {
    /// Threads whose start function has this name.
    pub start: Option<Pattern>,
    /// Threads of this kind; without a refining word, of all kinds with the start function.
    pub key: Option<Key>,
    /// Threads that are given this name.
    pub name: Option<Pattern>,
    /// What they are; `None` if the rule is only about their stacks.
    pub attributes: Option<Attributes>,
    /// Bytes that their stacks shall have, in every mode.
    pub stack: Option<u32>,
    /// Line of the file, 0 if it came from none.
    pub line: usize,
}

impl Policy {
    /// Reads a policy's text.
    ///
    /// # Errors
    /// The first thing in it that is not right, with its line and column.
    ///
    /// ```
    /// use heddle_preload::policy::Policy;
    ///
    /// let policy = Policy::parse("[[thread]]\nname = 'io*'\nrole = 'disk'").unwrap();
    /// let attributes = policy.for_name("io_thd_1").unwrap().attributes.clone().unwrap();
    /// assert_eq!(attributes.role.as_deref(), Some("disk"));
    ///
    /// let error = Policy::parse("[zones]\nlow = 25\nhihg = 75").unwrap_err();
    /// assert!(error.to_string().starts_with("3:1: unknown field `hihg`"), "{error}");
    /// ```
    pub fn parse(text: &str) -> Result<Policy, Error> {
        file::parse(text)
    }

    /// Reads a policy file.
    ///
    /// # Errors
    /// If it cannot be read, is larger than a MiB, is not UTF-8, or as [`Policy::parse`].
    pub fn load(path: &Path) -> Result<Policy, Error> {
        file::load(path)
    }

    /// What holds for threads with this name.
    pub fn for_name(&self, name: &str) -> Option<&ThreadRule> {
        self.first(|rule| rule.name.as_ref().is_some_and(|pattern| pattern.matches(name)))
    }

    /// What holds for threads whose start function has this name.
    pub fn for_function(&self, function: &str) -> Option<&ThreadRule> {
        let fits = |pattern: &Pattern| pattern.matches_function(function);
        self.first(|rule| rule.start.as_ref().is_some_and(fits))
    }

    /// What holds for threads of this kind.
    pub fn for_key(&self, key: &Key) -> Option<&ThreadRule> {
        self.first(|rule| rule.key.as_ref().is_some_and(|own| own.covers(key)))
    }

    /// What holds for a thread of which this much is known.
    pub fn for_thread(
        &self,
        key: Option<&Key>,
        function: Option<&str>,
        name: Option<&str>,
    ) -> Option<&ThreadRule> {
        self.first(|rule| {
            let by_key = rule.key.as_ref().zip(key).is_some_and(|(own, key)| own.covers(key));
            let by_function = rule.start.as_ref().zip(function);
            let by_name = rule.name.as_ref().zip(name);
            by_key
                || by_function.is_some_and(|(pattern, it)| pattern.matches_function(it))
                || by_name.is_some_and(|(pattern, it)| pattern.matches(it))
        })
    }

    fn first(&self, fits: impl Fn(&ThreadRule) -> bool) -> Option<&ThreadRule> {
        self.threads.iter().find(|rule| fits(rule))
    }

    /// Whether any rule makes threads time-critical.
    pub fn has_time_critical(&self) -> bool {
        let class = |rule: &ThreadRule| rule.attributes.as_ref().map(|it| it.class);
        self.threads.iter().any(|rule| class(rule) == Some(Class::TimeCritical))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zones_split_at_their_borders() {
        let zones = Zones::default();
        assert_eq!(zones.of(0, 100), Zone::Unknown);
        assert_eq!(zones.of(1, 0), Zone::Unknown);
        assert_eq!(zones.of(24, 100), Zone::Low);
        assert_eq!(zones.of(25, 100), Zone::Normal);
        assert_eq!(zones.of(74, 100), Zone::Normal);
        assert_eq!(zones.of(75, 100), Zone::High);
        assert_eq!(zones.of(u64::MAX, u64::MAX), Zone::High);
    }

    #[test]
    fn the_first_rule_that_fits_holds_alone() {
        let policy = Policy::parse(
            "[[thread]]\nname = 'a*'\nrole = 'first'\n[[thread]]\nname = '*'\ngroup = 'urgent'",
        )
        .expect("a policy");
        let role = |name| policy.for_name(name)?.attributes.as_ref()?.role.as_deref();
        assert_eq!((role("ab"), role("b")), (Some("first"), None));
        assert_eq!(policy.for_function("ab"), None);
        let rule = policy.for_thread(None, Some("ab"), Some("b")).expect("by name");
        assert_eq!(rule.attributes.as_ref().map(|it| it.group), Some(Group::Urgent));
    }
}
