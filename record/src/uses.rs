//! What the threads of one kind did, ended ones included: the preload's account of a process.
//!
//! Invariant: one kind is one start function and one refining word; texts and enumerators of a
//! [`Use`] were checked, its counters are the process's own word.

use std::fmt;
use std::mem::offset_of;
use std::sync::Arc;

use crate::Fault;
use crate::copy::UseBytes;
use crate::fields::{u16_at, u32_at, u64_at};
use crate::layout::{
    RawUse, USE_EXPLICIT, USE_MAIN, USE_OVERFLOWED, USE_TRIPPED, USE_TUNED, USE_USER_STACK,
};
use crate::lookup::Texts;
use crate::words::{Category, Class, Group};

/// The account of one kind of thread. Sizes are in bytes; counters saturate.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Use {
    /// Which it is; [`StackPlace::use_index`](crate::StackPlace::use_index) refers to it.
    pub index: u32,
    /// `USE_*` of [`layout`](crate::layout).
    pub flags: u32,
    /// What starts them: one line, or two with a refining word; see [`Use::places`].
    pub start: Option<Arc<str>>,
    /// Where the first one was created; [`CodePlace::parse`] reads it.
    pub site: Option<Arc<str>>,
    /// The last name that one was given.
    pub name: Option<Arc<str>>,
    /// What they are for.
    pub role: Option<Arc<str>>,
    /// How urgent they are.
    pub class: Class,
    /// 1..99 in the time-critical class, else 0.
    pub priority: u8,
    /// Their scheduling group.
    pub group: Group,
    /// What they do in a GUI.
    pub category: Category,
    /// Threads so far.
    pub created: u32,
    /// Threads that could not be created.
    pub failed: u32,
    /// Threads that have ended, of those created.
    pub ended: u32,
    /// Stack that the last one asked for, the default where it asked for none.
    pub stack_asked: u32,
    /// Stack that the last one got.
    pub stack_given: u32,
    /// Deepest use of any of their stacks that was measured.
    pub peak: u32,
    /// Most memory that any of their stacks had.
    pub resident: u32,
    /// CPU time of the ended ones together.
    pub cpu_ns: u64,
    /// Reserved for the stacks of the living ones.
    pub reserved: u64,
    /// Most that was reserved at one time.
    pub reserved_peak: u64,
}

impl Use {
    fn from_bytes(index: u32, bytes: &UseBytes) -> Result<Use, Fault> {
        let word = |field, raw| Fault::Word { field, raw };
        let byte = |offset: usize| bytes[offset];
        let number = |offset| u32_at(bytes, offset);
        let long = |offset| u64_at(bytes, offset);
        let class = byte(offset_of!(RawUse, class));
        let group = byte(offset_of!(RawUse, group));
        let category = byte(offset_of!(RawUse, category));
        Ok(Use {
            index,
            flags: number(offset_of!(RawUse, flags)),
            class: Class::from_raw(class).ok_or(word("class", class))?,
            priority: byte(offset_of!(RawUse, priority)),
            group: Group::from_raw(group).ok_or(word("group", group))?,
            category: Category::from_raw(category).ok_or(word("category", category))?,
            created: number(offset_of!(RawUse, created)),
            failed: number(offset_of!(RawUse, failed)),
            ended: number(offset_of!(RawUse, ended)),
            stack_asked: number(offset_of!(RawUse, stack_asked)),
            stack_given: number(offset_of!(RawUse, stack_given)),
            peak: number(offset_of!(RawUse, peak)),
            resident: number(offset_of!(RawUse, resident)),
            cpu_ns: long(offset_of!(RawUse, cpu_ns)),
            reserved: long(offset_of!(RawUse, reserved)),
            reserved_peak: long(offset_of!(RawUse, reserved_peak)),
            ..Use::default()
        })
    }

    /// The start function and the refining word, as far as the process told them.
    pub fn places(&self) -> (Option<CodePlace>, Option<CodePlace>) {
        let mut lines = self.start.as_deref().unwrap_or_default().lines().map(CodePlace::parse);
        (lines.next().flatten(), lines.next().flatten())
    }

    /// The process's first thread.
    pub fn is_main(&self) -> bool {
        self.flags & USE_MAIN != 0
    }

    /// They asked for another size than the default.
    pub fn is_explicit(&self) -> bool {
        self.flags & USE_EXPLICIT != 0
    }

    /// The program gave the stacks' memory.
    pub fn is_user_stack(&self) -> bool {
        self.flags & USE_USER_STACK != 0
    }

    /// The Stack Tuner chose the size.
    pub fn is_tuned(&self) -> bool {
        self.flags & USE_TUNED != 0
    }

    /// One of them ran into its guard.
    pub fn has_overflowed(&self) -> bool {
        self.flags & USE_OVERFLOWED != 0
    }

    /// One of them crossed the border of the High zone.
    pub fn has_tripped(&self) -> bool {
        self.flags & USE_TRIPPED != 0
    }
}

/// Which use cannot be believed, and why.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct UseFault {
    /// Which it is.
    pub index: u32,
    /// What is wrong with it.
    pub fault: Fault,
}

impl fmt::Display for UseFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "use {}: {}", self.index, self.fault)
    }
}

/// Turns copies into uses, and what is wrong with them into not more than `faults_max` faults.
pub(crate) fn resolve(
    copies: Vec<Result<UseBytes, Fault>>,
    texts: &mut Texts,
    faults_max: usize,
) -> (Vec<Use>, Vec<UseFault>) {
    let (mut uses, mut faults) = (Vec::with_capacity(copies.len()), Vec::new());
    for (index, copy) in (0..).zip(copies) {
        let decoded = copy.and_then(|bytes| Ok((Use::from_bytes(index, &bytes)?, bytes)));
        let mut fail = |fault| {
            if faults.len() < faults_max {
                faults.push(UseFault { index, fault });
            }
        };
        match decoded {
            Ok((kind, bytes)) => uses.push(with_texts(kind, &bytes, texts, &mut fail)),
            Err(fault) => fail(fault),
        }
    }
    (uses, faults)
}

/// A text that cannot be had costs that text alone.
fn with_texts(kind: Use, bytes: &UseBytes, texts: &mut Texts, fail: &mut impl FnMut(Fault)) -> Use {
    let mut text = |field, offset| {
        let text = texts.text(field, u32_at(bytes, offset));
        text.unwrap_or_else(|fault| {
            fail(fault);
            None
        })
    };
    let start = text("start", offset_of!(RawUse, start));
    let site = text("site", offset_of!(RawUse, site));
    let name = text("name", offset_of!(RawUse, name));
    let role = texts.role(u16_at(bytes, offset_of!(RawUse, role))).unwrap_or_else(|fault| {
        fail(fault);
        None
    });
    Use { start, site, name, role, ..kind }
}

/// A place in a program's code or data: which module, and where in it.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct CodePlace {
    /// The module's build-id in lowercase hexadecimal; `None` if it has none.
    pub build_id: Option<String>,
    /// Bytes from the module's load address, as in its symbol table.
    pub offset: u64,
    /// The module's file, as the process saw it. Empty if it did not say.
    pub path: String,
}

/// Most bytes of a build-id that anything here deals with.
const BUILD_ID_MAX: usize = 32;

impl CodePlace {
    /// Reads a line `BUILD-ID+OFFSET PATH`; `None` if it is none.
    ///
    /// ```
    /// let place = heddle_record::CodePlace::parse("beef+1f0 /usr/bin/x").unwrap();
    /// assert_eq!((place.build_id.as_deref(), place.offset), (Some("beef"), 0x1f0));
    /// assert_eq!(heddle_record::CodePlace::parse("-+1f0 /x").unwrap().build_id, None);
    /// assert_eq!(heddle_record::CodePlace::parse("/usr/bin/x"), None);
    /// ```
    pub fn parse(line: &str) -> Option<CodePlace> {
        let (place, path) = line.split_once(' ').unwrap_or((line, ""));
        let (id, offset) = place.split_once('+')?;
        let offset = offset.strip_prefix("0x").unwrap_or(offset);
        // from_str_radix would take another sign.
        let is_hex = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_hexdigit());
        if !is_hex(offset) || (id != "-" && !is_build_id(id)) {
            return None;
        }
        Some(CodePlace {
            build_id: (id != "-").then(|| id.to_ascii_lowercase()),
            offset: u64::from_str_radix(offset, 16).ok()?,
            path: path.to_owned(),
        })
    }
}

/// Whole bytes in hexadecimal, not more than a build-id has.
fn is_build_id(text: &str) -> bool {
    (2..=2 * BUILD_ID_MAX).contains(&text.len())
        && text.len().is_multiple_of(2)
        && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

impl fmt::Display for CodePlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let id = self.build_id.as_deref().unwrap_or("-");
        write!(f, "{id}+{:x} {}", self.offset, self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_are_no_place_are_refused() {
        for line in ["", "+", "a+1", "abc+1 x", "ab+", "ab+-1", "ab+1ffffffffffffffff /x", "zz+1"] {
            assert_eq!(CodePlace::parse(line), None, "{line}");
        }
        let long = format!("{}+0 /x", "a".repeat(66));
        assert_eq!(CodePlace::parse(&long), None);
        let place = CodePlace::parse("AB+0x10 /with space/x").expect("one");
        assert_eq!(place.to_string(), "ab+10 /with space/x");
        assert_eq!(CodePlace::parse(&place.to_string()), Some(place));
    }

    #[test]
    fn a_use_has_one_place_or_two() {
        let start = |text: &str| Use { start: Some(text.into()), ..Use::default() }.places();
        assert_eq!(Use::default().places(), (None, None));
        let (first, second) = start("aa+1 /x\nbb+2 /y");
        assert_eq!((first.unwrap().offset, second.unwrap().path.as_str()), (1, "/y"));
        assert!(matches!(start("aa+1 /x"), (Some(_), None)));
        assert!(matches!(start("nonsense\nbb+2 /y"), (None, Some(_))));
    }
}
