//! Policy files: what they mean, and where each mistake is found.

use std::ffi::CString;
use std::time::Duration;

use heddle_preload::policy::{Means, Pattern, Policy, Zones};
use heddle_record::{Category, Class, Group};
use proptest::prelude::*;

#[test]
fn a_full_policy_is_understood() {
    let policy = Policy::parse(
        r#"
        [mediator]
        means = "idle"
        hold_ms = 500
        lazy_bound_ms = "off"

        [zones]
        low = "20%"
        high = 80

        [[thread]]
        name = "mc-worker*"
        start = "worker_libevent"
        role = "requests"
        class = "time-critical"
        priority = 60
        stack = "128K"

        [[thread]]
        key = "abcd+0x10~ef+0x0"
        group = "background"
        category = "drawing"
        "#,
    )
    .expect("a policy");
    assert_eq!(policy.mediator.means, Means::Idle);
    assert_eq!(policy.mediator.hold, Duration::from_millis(500));
    assert_eq!(policy.mediator.lazy_bound, None);
    assert_eq!(policy.zones, Zones { low: 20, high: 80 });
    assert!(policy.has_time_critical());
    let [first, second] = &policy.threads[..] else { panic!("{:?}", policy.threads) };
    assert_eq!((first.line, second.line), (11, 19));
    assert_eq!(first.stack, Some(128 << 10));
    let attributes = first.attributes.as_ref().expect("some");
    assert_eq!((attributes.class, attributes.priority), (Class::TimeCritical, 60));
    assert_eq!(attributes.role.as_deref(), Some("requests"));
    let attributes = second.attributes.as_ref().expect("some");
    assert_eq!((attributes.group, attributes.category), (Group::Background, Category::Drawing));
    let key = "abcd+0x10~ef+0x0".parse().expect("a key");
    assert_eq!(policy.for_key(&key), Some(second));
    assert_eq!(policy.for_key(&"abcd+0x10".parse().expect("a key")), None);
    assert_eq!(policy.for_function("worker_libevent"), Some(first));
}

#[test]
fn an_empty_file_is_the_default() {
    assert_eq!(Policy::parse("# nothing\n"), Ok(Policy::default()));
    assert_eq!(Policy::default().mediator.lazy_bound, Some(Duration::from_millis(100)));
}

#[test]
fn a_priority_alone_makes_time_critical() {
    let of = |text: &str| {
        let policy = Policy::parse(&format!("[[thread]]\nname = 'x'\n{text}")).expect("a policy");
        policy.threads[0].attributes.clone().map(|it| (it.class, it.priority))
    };
    assert_eq!(of("priority = 7"), Some((Class::TimeCritical, 7)));
    assert_eq!(of("class = 'time-critical'"), Some((Class::TimeCritical, 50)));
    assert_eq!(of("role = 'x'"), Some((Class::Lazy, 0)));
}

/// Where the mistake is, and a part of the message.
const MISTAKES: &[(&str, &str, &str)] = &[
    ("medaitor = 1", "1:1", "unknown field `medaitor`, expected one of `mediator`"),
    ("[mediator]\nmeans = 'fast'", "2:9", "unknown variant `fast`, expected one of `auto`"),
    ("[mediator]\nhold = 3", "2:1", "unknown field `hold`, expected one of `means`, `hold_ms`"),
    ("[mediator]\nhold_ms = 0", "2:11", "expected 1 to 3600000"),
    ("[mediator]\nhold_ms = '1s'", "2:11", "invalid type: string"),
    ("[mediator]\nlazy_bound_ms = 'on'", "2:17", "expected milliseconds or \"off\""),
    ("[mediator]\nlazy_bound_ms = -1", "2:17", "-1 ms: expected 1 to"),
    ("[zones]\nlow = 0", "2:7", "expected a percentage from 1 to 99"),
    ("[zones]\nhigh = '75'", "2:8", "expected a percentage"),
    ("\n[zones]\nlow = 80", "2:1", "low = 80 and high = 75: expected low below high"),
    ("[thread]\nname = 'x'", "1:1", "expected a sequence"),
    ("[[thread]]\nrole = 'x'", "1:1", "means no thread: expected `start`, `key` or `name`"),
    ("[[thread]]\nname = 'x'", "1:1", "says nothing: expected `role`, `class`"),
    ("[[thread]]\nname = ''\nrole = 'x'", "2:8", "an empty pattern"),
    ("[[thread]]\nkey = 'main'\nrole = 'x'", "2:7", "\"main\" is no key"),
    ("[[thread]]\nname = 'x'\nrole = ''", "3:8", "a role of 0 bytes"),
    ("[[thread]]\nname = 'x'\nrole = \"a\\u001bb\"", "3:8", "control characters"),
    (
        "[[thread]]\nname = 'x'\nclass = 'fast'",
        "3:9",
        "unknown word `fast`, expected one of `lazy`",
    ),
    ("[[thread]]\nname = 'x'\ngroup = 'low'", "3:9", "`urgent`, `normal`, `service`, `background`"),
    ("[[thread]]\nname = 'x'\ncategory = 1", "3:12", "invalid type: integer"),
    ("[[thread]]\nname = 'x'\npriority = 100", "3:12", "priority 100: expected 1 to 99"),
    (
        "[[thread]]\nname = 'x'\nclass = 'lazy'\npriority = 3",
        "4:12",
        "a lazy thread has no priority",
    ),
    ("[[thread]]\nstart = 'x'\nstack = '64X'", "3:9", "\"64X\" is no size"),
    ("[[thread]]\nstart = 'x'\nstack = 100", "3:9", "expected 16K to 1G"),
    ("[[thread]]\nstart = 'x'\nstack = 1.5", "3:9", "expected a number or a text"),
    ("[[thread]]\nname = 'x'\nstack = '64K'", "1:1", "`stack` needs `start` or `key`"),
    ("[[thread]]\nname = 'x'\nname = 'y'", "3:1", "duplicate key"),
    ("x = ", "1:5", ""),
    ("[mediator", "1:10", ""),
];

#[test]
fn each_mistake_is_named_with_its_place() {
    for (text, place, message) in MISTAKES {
        let error = Policy::parse(text).expect_err(text).to_string();
        assert!(error.starts_with(&format!("{place}: ")), "{text:?}: {error}");
        assert!(error.contains(message), "{text:?}: {error}");
    }
}

#[test]
fn files_that_are_none_are_errors_with_their_name() {
    let dir = std::path::Path::new(env!("CARGO_TARGET_TMPDIR"));
    let message = |path: &std::path::Path| Policy::load(path).expect_err("none").to_string();
    let path = dir.join("policy-missing.toml");
    assert!(message(&path).starts_with(&format!("{}: cannot read it: No such", path.display())));
    assert!(message(dir).contains("Is a directory"), "{}", message(dir));
    let path = dir.join("policy-binary.toml");
    std::fs::write(&path, [0xff, 0xfe]).expect("a file");
    assert!(message(&path).contains("UTF-8"), "{}", message(&path));
    std::fs::write(&path, "#".repeat(2 << 20)).expect("a file");
    assert!(message(&path).contains("larger than"), "{}", message(&path));
    std::fs::write(&path, "\nx = 1\n").expect("a file");
    assert!(message(&path).starts_with(&format!("{}:2:1: unknown field", path.display())));
    assert!(message(std::path::Path::new("/dev/zero")).contains("larger than"));
}

#[test]
fn rules_are_bounded() {
    let text = "[[thread]]\nname = 'x'\nrole = 'y'\n".repeat(4097);
    let error = Policy::parse(&text).expect_err("too many").to_string();
    assert!(error.starts_with("12289:1: more than 4096 rules"), "{error}");
}

/// What the C library makes of it.
fn fnmatch(pattern: &str, text: &str) -> bool {
    let (pattern, text) = (CString::new(pattern).expect("text"), CString::new(text).expect("text"));
    // SAFETY: both are strings that end, and `fnmatch` keeps neither.
    unsafe { libc::fnmatch(pattern.as_ptr(), text.as_ptr(), 0) == 0 }
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None, cases: 4000, ..ProptestConfig::default()
    })]

    #[test]
    fn patterns_mean_what_they_mean_to_the_c_library(
        pattern in "[ab*?!^\\[\\]\\-\\\\]{1,8}", text in "[ab!^\\[\\]\\-]{0,6}",
    ) {
        // A set that ends in a backslash, or a range over one, is broken differently everywhere.
        prop_assume!(!pattern.contains('\\') || !pattern.contains('['));
        // glibc lets nothing match what ends in the middle of a range; POSIX has it literally.
        prop_assume!(!pattern.ends_with('-') || !pattern.contains('['));
        let ours = Pattern::new(&pattern).expect("a pattern").matches(&text);
        prop_assert_eq!(ours, fnmatch(&pattern, &text), "{} {}", pattern, text);
    }

    #[test]
    fn any_text_is_a_policy_or_an_error_with_a_place(text in "\\PC{0,200}") {
        if let Err(error) = Policy::parse(&text) {
            prop_assert!(error.line >= 1 && error.column >= 1);
        }
    }
}
