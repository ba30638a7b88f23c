//! `heddle doctor --program P`: whether P could run on user-level threads.
//!
//! Invariant: only shows; the judgement is `userlevel`'s, the same for whoever asks.

use std::ffi::OsStr;

use heddle::doctor::Verdict;

use super::Row;
use crate::userlevel::{self, Finding, Purpose};

const AREA: &str = "user-level threads";

/// A row for each thing that was looked at.
pub fn examine(program: &OsStr) -> Vec<Row> {
    userlevel::judge(&[program.to_owned()], Purpose::Report).into_iter().map(Row::from).collect()
}

impl From<Finding> for Row {
    fn from(finding: Finding) -> Row {
        Row {
            area: AREA.to_owned(),
            name: finding.name.to_owned(),
            value: finding.value,
            verdict: if finding.fits { Verdict::Good } else { Verdict::Missing },
            consequence: finding.why,
        }
    }
}
