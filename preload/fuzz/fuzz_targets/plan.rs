//! Any bytes as a plan: `cargo +nightly fuzz run plan` in `preload/`.
//!
//! Invariant: they are refused, or the plan that they are can be written and read again. Most
//! random bytes fail at the magic number, so they are laid over an honest plan: the first two
//! bytes say where.
#![no_main]

use std::sync::LazyLock;

use heddle_preload::plan::{Plan, Rules, Trampoline, name_rules};
use heddle_preload::policy::Policy;
use libfuzzer_sys::fuzz_target;

static HONEST: LazyLock<Vec<u8>> = LazyLock::new(honest);

fuzz_target!(|data: &[u8]| {
    check(data);
    if let [low, high, bytes @ ..] = data {
        let mut plan = HONEST.clone();
        let at = usize::from(u16::from_le_bytes([*low, *high])) % plan.len();
        let length = bytes.len().min(plan.len() - at);
        plan[at..at + length].copy_from_slice(&bytes[..length]);
        check(&plan);
    }
});

fn check(bytes: &[u8]) {
    if let Ok(plan) = Plan::parse(bytes) {
        let again = plan.encode().expect("what is read can be written");
        assert_eq!(Plan::parse(&again), Ok(plan));
    }
}

/// A plan with rules of every sort.
fn honest() -> Vec<u8> {
    let policy = Policy::parse(
        "[[thread]]\nname = 'io*'\nrole = 'disk'\npriority = 9\n\
         [[thread]]\nkey = 'ab+0x1~cd+0x2'\nstack = '64K'\n\
         [[thread]]\nkey = '-0123456789abcdef+0x3'\ncategory = 'drawing'\n",
    )
    .expect("a policy");
    let mut rules = Rules::new();
    rules.policy(&policy, |_| Vec::new());
    rules.trampoline("ab+0x1".parse().expect("a place"), Trampoline::Word1);
    let preload = Some("/lib/x.so".into());
    let plan = Plan { preload, names: name_rules(&policy), ..Plan::new(1, 2) };
    Plan { rules: rules.finish(), ..plan }.encode().expect("bytes")
}
