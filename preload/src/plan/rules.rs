//! From what the user says and what history knows to one rule per kind of thread.
//!
//! Invariant: a size of history goes only to the very kind that it was measured for. So the kinds
//! of a trampoline that were never seen get none, though the trampoline was.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::codec::raw_where;
use super::{Rule, StackRule, Trampoline};
use crate::key::{Key, Where};
use crate::policy::{Attributes, Pattern, Policy};
use crate::profile::Row;

/// Most rules of a plan.
pub const RULES_MAX: usize = 1 << 16;

/// What the policy says of one kind, or of all kinds with a start function.
#[derive(Clone, Debug)]
struct Decision {
    key: Key,
    attributes: Option<Attributes>,
    stack: Option<u32>,
}

/// The rules of a plan in the making.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    /// In the policy's order: the first that covers a kind holds.
    decisions: Vec<Decision>,
    /// Which of them are about a start function, in that order.
    by_start: HashMap<Where, Vec<usize>>,
    history: HashMap<Key, u32>,
    /// Start functions of which history has kinds that a word tells apart.
    worded: HashSet<Where>,
    trampolines: HashMap<Where, Trampoline>,
}

impl Rules {
    /// None.
    pub fn new() -> Rules {
        Rules::default()
    }

    /// Adds what a policy says of keys and start functions; `resolve` gives the places of the
    /// functions that a pattern fits.
    pub fn policy(&mut self, policy: &Policy, mut resolve: impl FnMut(&Pattern) -> Vec<Where>) {
        for rule in &policy.threads {
            let starts = rule.start.as_ref().map(&mut resolve).unwrap_or_default();
            let starts = starts.into_iter().map(|start| Key { start, refine: None });
            for key in rule.key.into_iter().chain(starts) {
                let attributes = rule.attributes.clone();
                self.by_start.entry(key.start).or_default().push(self.decisions.len());
                self.decisions.push(Decision { key, attributes, stack: rule.stack });
            }
        }
    }

    /// Adds what profiles' rows need; of several for one kind (in libraries that
    /// programs share) the largest.
    pub fn history(&mut self, rows: &[Row]) {
        self.kinds(rows);
        for (key, size) in rows.iter().filter_map(|row| Some((row.key, row.need()?))) {
            let known = self.history.entry(key).or_default();
            *known = size.max(*known);
        }
    }

    /// Adds what profiles' rows say of how kinds are told apart, and nothing of their sizes.
    pub fn kinds(&mut self, rows: &[Row]) {
        let with_word = rows.iter().filter(|row| row.key.refine.is_some());
        self.worded.extend(with_word.map(|row| row.key.start));
    }

    /// Says how a start function is seen through.
    ///
    /// A library that was found late may be called one whose threads are told by name, when the
    /// history has kinds of it that a word tells apart: then the word goes on telling them.
    pub fn trampoline(&mut self, start: Where, trampoline: Trampoline) {
        if trampoline != Trampoline::None {
            self.trampolines.insert(start, trampoline);
        }
    }

    /// The rules, sorted as the library wants them. Beyond [`RULES_MAX`] those of history go
    /// first, then the policy's last ones.
    pub fn finish(&self) -> Vec<Rule> {
        let starts = self.trampolines.keys().map(|start| Key { start: *start, refine: None });
        let mut keys: Vec<Key> = self.decisions.iter().map(|it| it.key).chain(starts).collect();
        let mut known: Vec<Key> = self.history.keys().copied().collect();
        known.sort_unstable();
        keys.extend(known);
        keys.truncate(RULES_MAX);
        let sorted: BTreeMap<_, _> = keys.into_iter().map(|key| (order(&key), key)).collect();
        sorted.into_values().filter_map(|key| self.rule(key)).collect()
    }

    /// How a start function is seen through, with all that is known now.
    fn trampoline_of(&self, start: &Where) -> Trampoline {
        match self.trampolines.get(start) {
            Some(Trampoline::Name) if self.worded.contains(start) => Trampoline::None,
            known => known.copied().unwrap_or_default(),
        }
    }

    /// The rule of one kind; `None` if there is nothing to say.
    fn rule(&self, key: Key) -> Option<Rule> {
        let about = self.by_start.get(&key.start).into_iter().flatten();
        let mut decisions = about.map(|index| &self.decisions[*index]);
        let decision = decisions.find(|it| it.key.covers(&key));
        let trampoline = self.trampoline_of(&key.start);
        let forced = decision.and_then(|it| it.stack);
        let known = self.history.get(&key).filter(|_| is_one_kind(&key, trampoline));
        let stack = match (forced, known) {
            (Some(bytes), _) => Some(StackRule { bytes, forced: true }),
            (None, Some(bytes)) => Some(StackRule { bytes: *bytes, forced: false }),
            (None, None) => None,
        };
        let attributes = decision.and_then(|it| it.attributes.clone());
        let says = attributes.is_some() || stack.is_some() || trampoline != Trampoline::None;
        says.then_some(Rule { key, attributes, stack, trampoline })
    }
}

/// Whether the key names one kind, not what is left of many.
fn is_one_kind(key: &Key, trampoline: Trampoline) -> bool {
    key.refine.is_some() || !trampoline.has_word()
}

/// By the bytes of the start, refined before unrefined.
pub(super) fn order(key: &Key) -> impl Ord + use<> {
    let refine = key.refine.as_ref().map(raw_where);
    (raw_where(&key.start), refine.is_none(), refine)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::Sort;

    fn key(text: &str) -> Key {
        text.parse().expect("a key")
    }

    fn row(text: &str, peak: u32) -> Row {
        Row { peak, ..Row::new(key(text), 0) }
    }

    /// Key, role, size and whether that is forced.
    type Summary = (String, Option<String>, Option<(u32, bool)>);

    fn summary(rules: &Rules) -> Vec<Summary> {
        let role = |rule: &Rule| rule.attributes.as_ref().and_then(|it| it.role.clone());
        let stack = |rule: &Rule| rule.stack.map(|stack| (stack.bytes, stack.forced));
        let line = |rule: &Rule| (rule.key.to_string(), role(rule), stack(rule));
        rules.finish().iter().map(line).collect()
    }

    #[test]
    fn each_rule_says_everything() {
        let policy = Policy::parse(
            "[[thread]]\nkey = 'ab+0x1~cd+0x2'\nstack = '256K'\n\
             [[thread]]\nstart = 'work*'\nrole = 'work'\n\
             [[thread]]\nkey = 'ab+0x1~cd+0x3'\nrole = 'too late'",
        )
        .expect("a policy");
        let mut rules = Rules::new();
        rules.policy(&policy, |pattern| {
            assert_eq!(pattern.as_str(), "work*");
            vec![key("ab+0x1").start, key("ab+0x0").start]
        });
        rules.history(&[
            row("ab+0x1~cd+0x2", 1),
            row("ab+0x1~cd+0x4", 100 << 10),
            row("ab+0x9", 0),
        ]);
        let work = || Some("work".to_owned());
        assert_eq!(
            summary(&rules),
            [
                ("ab+0x0".into(), work(), None),
                ("ab+0x1~cd+0x2".into(), None, Some((256 << 10, true))),
                ("ab+0x1~cd+0x3".into(), work(), None),
                ("ab+0x1~cd+0x4".into(), work(), Some((192 << 10, false))),
                ("ab+0x1".into(), work(), None),
            ]
        );
    }

    #[test]
    fn what_is_left_of_a_trampoline_has_no_history() {
        let rows = [row("ab+0x1", 1), row("ab+0x1~cd+0x1", 1), row("ab+0x2", 1)];
        let mut rules = Rules::new();
        rules.history(&rows);
        rules.trampoline(key("ab+0x1").start, Trampoline::Word0);
        rules.trampoline(key("ab+0x2").start, Trampoline::Name);
        let made = rules.finish();
        let sizes: Vec<_> = made.iter().map(|rule| rule.stack.map(|it| it.bytes)).collect();
        assert_eq!(sizes, [Some(44 << 10), None, Some(44 << 10)]);
        let trampolines: Vec<_> = made.iter().map(|rule| rule.trampoline).collect();
        assert_eq!(trampolines, [Trampoline::Word0, Trampoline::Word0, Trampoline::Name]);
    }

    #[test]
    fn kinds_that_a_word_tells_apart_stay_so() {
        let start = key("ab+0x1").start;
        let trampoline = |rows: &[Row]| {
            let mut rules = Rules::new();
            rules.trampoline(start, Trampoline::Name);
            rules.history(rows);
            rules.finish().first().map(|rule| rule.trampoline)
        };
        assert_eq!(trampoline(&[]), Some(Trampoline::Name));
        assert_eq!(trampoline(&[row("ab+0x1", 1)]), Some(Trampoline::Name));
        let both = [row("ab+0x1", 1), row("ab+0x1~cd+0x1", 1)];
        assert_eq!(trampoline(&both), Some(Trampoline::None));
    }

    #[test]
    fn of_two_programs_the_deeper_counts() {
        let mut rules = Rules::new();
        rules.history(&[row("ab+0x1", 200 << 10)]);
        rules.history(&[row("ab+0x1", 1)]);
        let expected = crate::profile::size_of_history(200 << 10, 0);
        assert_eq!(rules.finish()[0].stack.map(|stack| stack.bytes), Some(expected));
    }

    #[test]
    fn the_first_thread_gets_no_rule() {
        let mut rules = Rules::new();
        rules.history(&[Row { sort: Sort::Main, ..row("ab+0x1", 1) }]);
        assert!(rules.finish().is_empty());
    }
}
