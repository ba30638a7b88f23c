//! Any text as a policy: `cargo +nightly fuzz run policy` in `preload/`.
//!
//! Invariant: it is refused with a place in it, or understood within the limits, and its rules
//! become a plan that can be read. Most random texts fail at once, so they are also put behind
//! the beginning of a rule.
#![no_main]

use heddle_preload::key::Where;
use heddle_preload::plan::{Plan, Rules, name_rules};
use heddle_preload::policy::{Policy, STACK_BYTES_MAX, STACK_BYTES_MIN};
use heddle_record::Class;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    check(text);
    check(&format!("[[thread]]\nname = 'x'\n{text}"));
    check(&format!("[mediator]\n{text}"));
});

fn check(text: &str) {
    let policy = match Policy::parse(text) {
        Ok(policy) => policy,
        Err(error) => {
            assert!(error.line >= 1 && error.column >= 1);
            assert!(error.line <= text.matches('\n').count() + 1, "{error}");
            return;
        }
    };
    assert!(policy.zones.low < policy.zones.high && policy.zones.high < 100);
    for rule in &policy.threads {
        assert!(rule.stack.is_none_or(|size| (STACK_BYTES_MIN..=STACK_BYTES_MAX).contains(&size)));
        let attributes = rule.attributes.clone().unwrap_or_default();
        assert_eq!(attributes.class == Class::TimeCritical, attributes.priority != 0);
        for pattern in [&rule.start, &rule.name].into_iter().flatten() {
            let _ = (pattern.matches(text), pattern.matches_function(text));
        }
    }
    let place: Where = "ab+0x1".parse().expect("a place");
    let mut rules = Rules::new();
    rules.policy(&policy, |_| vec![place]);
    let names = name_rules(&policy);
    let plan = Plan { rules: rules.finish(), names, zones: policy.zones, ..Plan::new(1, 2) };
    let bytes = plan.encode().expect("small and without NULs");
    assert_eq!(Plan::parse(&bytes), Ok(plan));
}
