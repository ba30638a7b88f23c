//! The rules that a policy file has for threads by their names: known to a program that runs
//! under `heddle run --policy`, through the library that the run has loaded into it. So one file
//! serves the kernel threads and the user-level threads of a program.
//!
//! Invariant: what the library says is checked before it is believed; without the library there
//! are no rules, and asking costs one load.

use core::ffi::{CStr, c_char, c_int, c_void};
use std::ffi::CString;
use std::sync::OnceLock;

use heddle_record::Group;

/// `HEDDLE_ROLE_BYTES_MAX`.
const ROLE_BYTES: usize = 64;

/// `struct heddle_attributes` of <heddle/pthread_np.h>.
#[repr(C)]
struct Attributes {
    size_bytes: usize,
    thread_class: c_int,
    priority: c_int,
    group: c_int,
    category: c_int,
    role: [c_char; ROLE_BYTES],
}

/// What a rule says.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Rule {
    /// 0: lazy, 1..=99: time-critical.
    pub priority: u8,
    pub group: Group,
    pub role: Option<String>,
}

/// `heddle_preload_rule_of_name`: 0 if a rule holds, which it writes.
type RuleOfName = unsafe extern "C" fn(*const c_char, *mut Attributes) -> c_int;

/// The library's function, if the library is there.
fn library() -> Option<RuleOfName> {
    static FOUND: OnceLock<Option<RuleOfName>> = OnceLock::new();
    *FOUND.get_or_init(|| {
        // SAFETY: a NUL-ended name; the result is null or the address of the symbol.
        let address =
            unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"heddle_preload_rule_of_name".as_ptr()) };
        // SAFETY: nobody else has a function of this name; it has this type since it exists.
        (!address.is_null())
            .then(|| unsafe { core::mem::transmute::<*mut c_void, RuleOfName>(address) })
    })
}

/// The rule for threads of this name.
pub(crate) fn rule_of_name(name: &str) -> Option<Rule> {
    let library = library()?;
    let name = CString::new(name).ok()?;
    let mut said = Attributes {
        size_bytes: size_of::<Attributes>(),
        thread_class: 0,
        priority: 0,
        group: 0,
        category: 0,
        role: [0; ROLE_BYTES],
    };
    // SAFETY: both pointers are valid across the call, which keeps neither.
    let result = unsafe { library(name.as_ptr(), &raw mut said) };
    if result == 0 { believe(&mut said) } else { None }
}

fn believe(said: &mut Attributes) -> Option<Rule> {
    let priority = match said.thread_class {
        0 => 0,
        1 => u8::try_from(said.priority).ok().filter(|it| (1..=99).contains(it))?,
        _ => return None,
    };
    said.role[ROLE_BYTES - 1] = 0;
    // SAFETY: the last byte is NUL.
    let role = unsafe { CStr::from_ptr(said.role.as_ptr()) }.to_str().ok()?;
    Some(Rule {
        priority,
        group: Group::from_raw(u8::try_from(said.group).ok()?)?,
        role: (!role.is_empty()).then(|| role.to_owned()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_makes_no_sense_is_no_rule() {
        let said = |thread_class, priority, group| Attributes {
            size_bytes: size_of::<Attributes>(),
            thread_class,
            priority,
            group,
            category: 0,
            role: [b'x' as c_char; ROLE_BYTES],
        };
        let rule = believe(&mut said(1, 20, 0)).unwrap();
        assert_eq!((rule.priority, rule.group), (20, Group::Urgent));
        assert_eq!(rule.role.unwrap().len(), ROLE_BYTES - 1);
        assert_eq!(believe(&mut said(0, 20, 3)).unwrap().priority, 0);
        for (class, priority, group) in [(1, 0, 0), (1, 100, 0), (1, -1, 0), (2, 1, 0), (0, 0, 4)] {
            assert_eq!(believe(&mut said(class, priority, group)), None);
        }
        assert_eq!(rule_of_name("nobody told us"), None);
    }
}
