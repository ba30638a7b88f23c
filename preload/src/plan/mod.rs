//! The plan: what `heddle run` tells libheddle-preload before the program starts.
//!
//! Invariants
//! - `include/heddle/plan.h` is the truth about the file; [`layout`] is its mirror.
//! - There is at most one rule for a start function and refining word. Rules are sorted by the
//!   bytes of their start, those with a refining word (by its bytes) before the one without; and
//!   each says everything that holds: the library takes the first that fits.
//!
//! The command resolves everything that takes symbols, profiles or parsing beforehand ([`Rules`]);
//! the library only compares numbers.

mod codec;
pub mod layout;
mod question;
mod rules;

use std::ffi::OsString;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use crate::key::Key;
use crate::policy::{Attributes, Pattern, Policy, Zones};

pub use codec::Error;
pub use question::Question;
pub use rules::{RULES_MAX, Rules};

/// What happens to the sizes of stacks.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
#[repr(u8)]
pub enum Stacks {
    /// They are measured.
    #[default]
    Observe = 0,
    /// Threads of default size get the size that history asks for.
    Auto = 1,
    /// All do, but for those on the program's own memory.
    Force = 2,
}

impl Stacks {
    /// All of them.
    pub const ALL: [Stacks; 3] = [Stacks::Observe, Stacks::Auto, Stacks::Force];

    /// Its word on the command line.
    pub const fn word(self) -> &'static str {
        match self {
            Stacks::Observe => "observe",
            Stacks::Auto => "auto",
            Stacks::Force => "force",
        }
    }
}

/// How a start function that starts others is seen through.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
#[repr(u8)]
pub enum Trampoline {
    /// It starts no others, or nobody knows how.
    #[default]
    None = 0,
    /// The argument points at a vtable or function pointer.
    Word0 = 1,
    /// As the second word (Rust's `Box<dyn FnOnce>`).
    Word1 = 2,
    /// One function starts all; threads are told by their names.
    Name = 3,
}

impl Trampoline {
    /// All of them.
    pub const ALL: [Trampoline; 4] =
        [Trampoline::None, Trampoline::Word0, Trampoline::Word1, Trampoline::Name];

    /// Whether a word of the argument tells its kinds apart.
    pub const fn has_word(self) -> bool {
        matches!(self, Trampoline::Word0 | Trampoline::Word1)
    }
}

/// The size of a kind's stacks.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct StackRule {
    /// Bytes below the start function's call.
    pub bytes: u32,
    /// The user's own word: in every mode.
    pub forced: bool,
}

/// What holds for threads of one kind.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Rule {
    /// Which kind; without a refining word, all with this start function that have no own rule.
    pub key: Key,
    /// What they are.
    pub attributes: Option<Attributes>,
    /// How large their stacks are.
    pub stack: Option<StackRule>,
    /// How the start function is seen through.
    pub trampoline: Trampoline,
}

/// What holds for threads with names like this.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct NameRule {
    /// The names.
    pub pattern: Pattern,
    /// What the threads are.
    pub attributes: Attributes,
}

/// What it takes to have user-level threads in a program that a process of the run becomes, or
/// starts.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct User {
    /// The library that makes them.
    pub library: PathBuf,
    /// Kernel threads that are to run them, if that was said.
    pub workers: Option<u16>,
}

/// What a run tells its processes.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Plan {
    /// The run, from [`heddle_record::process::own_run`].
    pub run: u64,
    /// Process id of `heddle run`: its direct child makes its table at once.
    pub parent: i32,
    /// What happens to the sizes of stacks.
    pub stacks: Stacks,
    /// Borders of the zones.
    pub zones: Zones,
    /// Report a crossing of the High zone's border when it happens.
    pub tripwire: bool,
    /// `heddle run` watches the tables and sets kernel policies.
    pub mediated: bool,
    /// No messages on standard error.
    pub quiet: bool,
    /// Filters on system calls that `heddle run` is under itself, and so all that it starts.
    pub filters: u32,
    /// LD_PRELOAD as it was before, for the program to see; `None` if it was not set.
    pub preload: Option<OsString>,
    /// Programs may get user-level threads: `heddle run` is asked about each; `None`: none do.
    pub user: Option<User>,
    /// By what starts threads; [`Rules::finish`] makes them.
    pub rules: Vec<Rule>,
    /// By the names of threads, the first that fits holds; see [`name_rules`].
    pub names: Vec<NameRule>,
}

impl Plan {
    /// A plan that only observes.
    pub fn new(run: u64, parent: i32) -> Plan {
        Plan {
            run,
            parent,
            stacks: Stacks::Observe,
            zones: Zones::default(),
            tripwire: false,
            mediated: false,
            quiet: false,
            filters: 0,
            preload: None,
            user: None,
            rules: Vec::new(),
            names: Vec::new(),
        }
    }

    /// The plan as a file's bytes.
    ///
    /// # Errors
    /// If it would be larger than 16 MiB, or a text in it holds a NUL.
    pub fn encode(&self) -> Result<Vec<u8>, Error> {
        codec::encode(self)
    }

    /// Reads a plan's bytes, trusting none of them.
    ///
    /// # Errors
    /// The first field that is not right.
    pub fn parse(bytes: &[u8]) -> Result<Plan, Error> {
        codec::parse(bytes)
    }

    /// Writes the plan to a new file that everybody may read: a program's later processes may
    /// run as other users.
    ///
    /// # Errors
    /// If there is a file by this name, it cannot be written, or as [`Plan::encode`].
    pub fn write(&self, path: &Path) -> io::Result<()> {
        let bytes = self.encode().map_err(io::Error::other)?;
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o644).open(path)?;
        file.write_all(&bytes)
    }
}

/// The rules of a policy that go by the names of threads, in the policy's order.
pub fn name_rules(policy: &Policy) -> Vec<NameRule> {
    let rules = policy.threads.iter().filter_map(|rule| {
        let (pattern, attributes) = (rule.name.clone()?, rule.attributes.clone()?);
        Some(NameRule { pattern, attributes })
    });
    rules.collect()
}
