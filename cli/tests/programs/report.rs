//! `heddle run --report json`, read as a script of a user would.
//!
//! Invariant: a field that is not there, or not of its type, fails the test.

use std::fs;
use std::path::Path;

use serde_json::Value;

/// What all threads of one kind did.
#[derive(Debug, Clone)]
pub struct Kind(Value);

impl Kind {
    pub fn number(&self, field: &str) -> u64 {
        self.0[field].as_u64().unwrap_or_else(|| panic!("{field} in {}", self.0))
    }

    /// Empty where there is none.
    pub fn text(&self, field: &str) -> &str {
        self.0[field].as_str().unwrap_or("")
    }

    pub fn is(&self, field: &str) -> bool {
        self.0[field].as_bool().unwrap_or_else(|| panic!("{field} in {}", self.0))
    }

    /// Whether a word is in what tells people what these threads are.
    pub fn tells(&self, word: &str) -> bool {
        ["start", "species", "name", "role"].iter().any(|field| self.text(field).contains(word))
    }
}

pub struct Report(pub Value);

impl Report {
    pub fn read(path: &Path) -> Self {
        let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("no report: {error}"));
        Self(serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error} in {text}")))
    }

    /// Empty where there is no report.
    pub fn notes(path: &Path) -> Vec<String> {
        let text = fs::read_to_string(path).unwrap_or_default();
        let report: Value = serde_json::from_str(&text).unwrap_or_default();
        let notes = report["notes"].as_array().cloned().unwrap_or_default();
        notes.iter().map(|note| note.as_str().expect("a text").to_owned()).collect()
    }

    pub fn processes(&self) -> &[Value] {
        self.0["processes"].as_array().unwrap_or_else(|| panic!("processes in {}", self.0))
    }

    /// The kinds of threads of all processes, without the main threads.
    pub fn kinds(&self) -> Vec<Kind> {
        self.all().into_iter().filter(|kind| !kind.is("main")).collect()
    }

    pub fn all(&self) -> Vec<Kind> {
        let of = |process: &Value| process["threads"].as_array().cloned().unwrap_or_default();
        self.processes().iter().flat_map(of).map(Kind).collect()
    }

    pub fn created(&self) -> u64 {
        self.kinds().iter().map(|kind| kind.number("created")).sum()
    }

    /// Bytes that the stacks of default size had reserved at most.
    pub fn reserved(&self) -> u64 {
        let kinds = self.kinds();
        let default = kinds.iter().filter(|kind| !kind.is("explicit"));
        default.map(|kind| kind.number("stack_reserved_peak_bytes")).sum()
    }

    /// What must hold of every report: keys, peaks within stacks, zones that fit them.
    pub fn check(&self) {
        assert!(!self.all().is_empty(), "{}", self.0);
        for kind in self.kinds() {
            // What lies in no module has nothing that names it in another run.
            let nowhere = kind.text("module").is_empty() && kind.text("name").is_empty();
            assert!(nowhere || kind.text("key").contains("+0x"), "no key: {kind:?}");
            assert!(kind.number("created") + kind.number("failed") > 0, "{kind:?}");
            assert!(kind.number("ended") <= kind.number("created"), "{kind:?}");
            let (peak, given) = (kind.number("stack_peak_bytes"), kind.number("stack_given_bytes"));
            if kind.number("ended") == 0 {
                continue;
            }
            assert!(peak > 0 && peak < given, "peak {peak} of {given}: {kind:?}");
            let zone = kind.text("zone");
            assert!(["low", "normal", "high"].contains(&zone), "{kind:?}");
            // The borders are shares of the usable stack; a percent of slack for what that is.
            match zone {
                "low" => assert!(peak * 100 < given * 26, "{kind:?}"),
                "high" => assert!(peak * 100 >= given * 74, "{kind:?}"),
                _ => assert!(peak * 100 >= given * 24 && peak * 100 < given * 76, "{kind:?}"),
            }
        }
    }

    /// The kinds that a word tells of; at least one.
    pub fn told(&self, word: &str) -> Vec<Kind> {
        let told: Vec<_> = self.kinds().into_iter().filter(|kind| kind.tells(word)).collect();
        assert!(!told.is_empty(), "nothing tells of {word} in {}", self.0);
        told
    }
}

/// The tuned run reserves that much less than the observed one, for what had the default size.
pub fn check_tuned(observed: &Report, tuned: &Report, times: u64) {
    let (before, after) = (observed.reserved(), tuned.reserved());
    assert!(after > 0 && after * times <= before, "{before} bytes before, {after} tuned");
    assert!(tuned.kinds().iter().any(|kind| kind.is("tuned")), "{}", tuned.0);
}
