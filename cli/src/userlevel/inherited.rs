//! What a program is started with, as far as it decides about its threads.
//!
//! Invariant: a limit is `None` where there is none.

use std::ffi::OsString;

use heddle_preload::plan::Question;
use rustix::process::{Resource, getrlimit, getuid};

pub struct Inherited {
    /// RLIMIT_AS.
    pub address_space: Option<u64>,
    /// RLIMIT_DATA.
    pub data: Option<u64>,
    /// RLIMIT_STACK.
    pub stack: Option<u64>,
    /// RLIMIT_NOFILE. Of a program that another one starts it is not known: the library looks.
    pub descriptors: Option<u64>,
    /// RLIMIT_NPROC, which is the user's and does not bind root. Known as RLIMIT_NOFILE is.
    pub processes: Option<u64>,
    /// LD_PRELOAD.
    pub preload: OsString,
    /// LD_LIBRARY_PATH.
    pub library_path: OsString,
}

impl Inherited {
    /// What this process has, and gives on.
    pub fn own() -> Inherited {
        let variable = |name| std::env::var_os(name).unwrap_or_default();
        Inherited {
            address_space: getrlimit(Resource::As).current,
            data: getrlimit(Resource::Data).current,
            stack: getrlimit(Resource::Stack).current,
            descriptors: getrlimit(Resource::Nofile).current,
            processes: getrlimit(Resource::Nproc).current.filter(|_| !getuid().is_root()),
            preload: variable("LD_PRELOAD"),
            library_path: variable("LD_LIBRARY_PATH"),
        }
    }
}

impl From<&Question> for Inherited {
    fn from(question: &Question) -> Inherited {
        let limit = |number| (number != u64::MAX).then_some(number);
        Inherited {
            address_space: limit(question.address_space),
            data: limit(question.data),
            stack: limit(question.stack),
            descriptors: None,
            processes: None,
            preload: question.preload.clone(),
            library_path: question.library_path.clone(),
        }
    }
}
