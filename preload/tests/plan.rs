//! The plan against `plan.h`, and against itself.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use heddle_preload::key::{BUILD_ID_MAX, BuildId, Key, Module, Where};
use heddle_preload::plan::layout::{self, STRUCTURES};
use heddle_preload::plan::{
    Error, NameRule, Plan, Rule, StackRule, Stacks, Trampoline, User, name_rules,
};
use heddle_preload::policy::{Attributes, Pattern, Policy, Zones};
use heddle_record::{Category, Class, Group};
use proptest::prelude::*;

fn include_dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("include")
}

/// Every constant of the header and what Rust has for it.
fn constants() -> Vec<(&'static str, u64)> {
    vec![
        ("HEDDLE_PLAN_MAGIC", layout::MAGIC),
        ("HEDDLE_PLAN_BYTES_MAX", layout::BYTES_MAX as u64),
        ("HEDDLE_BUILD_ID_MAX", BUILD_ID_MAX as u64),
        ("HEDDLE_QUESTION_BYTES_MAX", layout::QUESTION_BYTES_MAX as u64),
        ("HEDDLE_STACKS_OBSERVE", Stacks::Observe as u64),
        ("HEDDLE_STACKS_AUTO", Stacks::Auto as u64),
        ("HEDDLE_STACKS_FORCE", Stacks::Force as u64),
        ("HEDDLE_PLAN_TRIPWIRE", u64::from(layout::FLAG_TRIPWIRE)),
        ("HEDDLE_PLAN_MEDIATED", u64::from(layout::FLAG_MEDIATED)),
        ("HEDDLE_PLAN_QUIET", u64::from(layout::FLAG_QUIET)),
        ("HEDDLE_PROGRAM_HAD_PRELOAD", u64::from(layout::PROGRAM_HAD_PRELOAD)),
        ("HEDDLE_RULE_ATTRIBUTES", u64::from(layout::RULE_ATTRIBUTES)),
        ("HEDDLE_RULE_STACK", u64::from(layout::RULE_STACK)),
        ("HEDDLE_RULE_REFINED", u64::from(layout::RULE_REFINED)),
        ("HEDDLE_RULE_TRAMPOLINE", u64::from(layout::RULE_TRAMPOLINE)),
        ("HEDDLE_RULE_FORCED", u64::from(layout::RULE_FORCED)),
        ("HEDDLE_TRAMPOLINE_NONE", Trampoline::None as u64),
        ("HEDDLE_TRAMPOLINE_WORD0", Trampoline::Word0 as u64),
        ("HEDDLE_TRAMPOLINE_WORD1", Trampoline::Word1 as u64),
        ("HEDDLE_TRAMPOLINE_NAME", Trampoline::Name as u64),
    ]
}

/// A program that prints `name number` for every field and constant.
fn printer() -> String {
    let preamble = "#include <stddef.h>\n#include <stdio.h>\n#include <heddle/plan.h>\n";
    let mut source = format!("{preamble}int main(void) {{\n");
    let mut print = |name: &str, value: &str| {
        writeln!(source, "printf(\"{name} %llu\\n\", (unsigned long long)({value}));").unwrap();
    };
    for (structure, _, fields) in STRUCTURES {
        print(structure, &format!("sizeof(struct {structure})"));
        for (field, ..) in *fields {
            print(
                &format!("{structure}.{field}"),
                &format!("offsetof(struct {structure}, {field})"),
            );
            let member = format!("sizeof(((struct {structure} *)0)->{field})");
            print(&format!("{structure}.{field}.size"), &member);
        }
    }
    for (name, _) in constants() {
        print(name, name);
    }
    source + "return 0; }\n"
}

/// Compiles and runs the printer; `None` if there is no such compiler.
fn printed(name: &str, flags: &[&str]) -> Option<String> {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let (input, output) = (dir.join(format!("{name}.c")), dir.join(name));
    let compile = |input: &Path| {
        let mut cc = Command::new("cc");
        cc.args(flags).arg("-I").arg(include_dir()).arg(input).arg("-o").arg(&output);
        cc.stderr(Stdio::piped()).output()
    };
    std::fs::write(&input, "int main(void) { return 0; }\n").expect("writable");
    if !compile(&input).is_ok_and(|result| result.status.success()) {
        eprintln!("skip: no compiler here takes {flags:?}");
        return None;
    }
    std::fs::write(&input, printer()).expect("writable");
    let result = compile(&input).expect("it ran before");
    assert!(result.status.success(), "{}", String::from_utf8_lossy(&result.stderr));
    let result = Command::new(&output).output().expect("the program runs");
    Some(String::from_utf8(result.stdout).expect("numbers"))
}

fn agree(name: &str, flags: &[&str]) {
    let Some(printed) = printed(name, flags) else { return };
    let c: BTreeMap<_, _> = printed.lines().filter_map(|line| line.split_once(' ')).collect();
    let check = |name: &str, rust: u64| assert_eq!(c[name], rust.to_string(), "{name}");
    for (structure, bytes, fields) in STRUCTURES {
        check(structure, *bytes as u64);
        for (field, offset, bytes) in *fields {
            check(&format!("{structure}.{field}"), *offset as u64);
            check(&format!("{structure}.{field}.size"), *bytes as u64);
        }
        // No field of the header is missing in the mirror: the sizes add up.
        let sum: usize = fields.iter().map(|(_, _, bytes)| bytes).sum();
        check(structure, sum as u64);
    }
    for (name, rust) in constants() {
        check(name, rust);
    }
}

#[test]
fn the_header_and_the_mirror_agree() {
    agree("plan64", &["-std=c11", "-Wall", "-Wextra", "-Werror"]);
}

#[test]
fn thirty_two_bit_programs_read_the_same() {
    // The kernel's headers are the same for both, and may be installed for 64 bit only.
    let idirafter = ["-idirafter", "/usr/include/x86_64-linux-gnu"];
    let flags = ["-m32", "-std=c11", "-Wall", "-Wextra", "-Werror", idirafter[0], idirafter[1]];
    agree("plan32", &flags);
}

#[test]
fn every_constant_of_the_header_is_compared() {
    let header = std::fs::read_to_string(include_dir().join("heddle/plan.h")).expect("it");
    let known = constants();
    let words = header.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    // The guard, the environment variable, and the starred name of a family are no constants.
    let others = ["HEDDLE_PLAN_H", "HEDDLE_PLAN", "HEDDLE_PROGRAM_"];
    for word in words.filter(|word| word.starts_with("HEDDLE_") && !others.contains(word)) {
        assert!(known.iter().any(|(name, _)| *name == word), "{word} is not compared");
    }
}

fn sample() -> Plan {
    let policy = "[[thread]]\nname = 'io*'\nrole = 'disk'\npriority = 9\n";
    let attributes = Attributes { role: Some("disk".into()), ..Attributes::default() };
    let stack = Some(StackRule { bytes: 65536, forced: false });
    let key: Key = "ab+0x10".parse().expect("a key");
    Plan {
        stacks: Stacks::Auto,
        mediated: true,
        preload: Some("/lib/x.so".into()),
        rules: vec![Rule {
            key,
            attributes: Some(attributes),
            stack,
            trampoline: Trampoline::Name,
        }],
        names: name_rules(&Policy::parse(policy).expect("a policy")),
        user: Some(User { library: "/lib/u.so".into(), workers: Some(3) }),
        ..Plan::new(77, 4711)
    }
}

#[test]
fn a_plan_comes_back() {
    let plan = sample();
    let bytes = plan.encode().expect("bytes");
    assert_eq!(Plan::parse(&bytes), Ok(plan));
    let texts = bytes.windows(5).filter(|window| window == b"disk\0").count();
    assert_eq!(texts, 1, "each text is kept once");
    let empty = Plan::new(1, 2);
    assert_eq!(Plan::parse(&empty.encode().expect("bytes")), Ok(empty));
    let unset = Plan { preload: Some(OsString::new()), ..Plan::new(1, 2) };
    assert_eq!(Plan::parse(&unset.encode().expect("bytes")), Ok(unset), "set, though empty");
}

#[test]
fn a_plan_is_written_once_and_for_everyone() {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("plan-written");
    let _ = std::fs::remove_file(&path);
    sample().write(&path).expect("written");
    assert_eq!(Plan::parse(&std::fs::read(&path).expect("it")), Ok(sample()));
    let mode = std::os::unix::fs::MetadataExt::mode(&path.metadata().expect("it"));
    assert_eq!(mode & 0o444, 0o444);
    let error = sample().write(&path).expect_err("there already");
    assert_eq!(error.kind(), std::io::ErrorKind::AlreadyExists);
}

#[test]
fn what_cannot_be_written_is_an_error() {
    let plan = Plan { preload: Some("a\0b".into()), ..Plan::new(1, 2) };
    assert_eq!(plan.encode(), Err(Error::Nul));
    let mut plan = sample();
    plan.rules = vec![plan.rules[0].clone(); 140_000];
    let bytes = layout::HEADER_SIZE + 140_000 * 128 + 16;
    assert_eq!(plan.encode(), Err(Error::TooLarge { bytes }));
}

#[test]
fn each_lie_is_named() {
    let good = sample().encode().expect("bytes");
    let lie = |offset: usize, value: u32| {
        let mut bytes = good.clone();
        bytes[offset..offset + 4].copy_from_slice(&value.to_le_bytes());
        match Plan::parse(&bytes) {
            Err(Error::Field { field }) => field,
            other => panic!("{offset}: {other:?}"),
        }
    };
    let (rule, name) = (layout::HEADER_SIZE, layout::HEADER_SIZE + 128);
    assert_eq!(lie(0, 1), "magic");
    assert_eq!(lie(8, 1), "bytes");
    assert_eq!(lie(12, 8), "flags");
    assert_eq!(lie(28, 0x004b_1903), "stacks");
    assert_eq!(lie(28, 0x0019_4b00), "low");
    assert_eq!(lie(32, 70_000), "rules");
    assert_eq!(lie(32, 1000), "rules_offset");
    assert_eq!(lie(36, 0), "rules_offset");
    assert_eq!(lie(36, 73), "rules_offset");
    assert_eq!(lie(40, u32::MAX), "names_offset");
    assert_eq!(lie(48, 71), "texts_offset");
    assert_eq!(lie(48, u32::MAX), "texts_offset");
    assert_eq!(lie(52, u32::MAX), "preload");
    assert_eq!(lie(56, 2), "flags_program");
    assert_eq!(lie(rule + 32, 33), "where.id_bytes");
    assert_eq!(lie(rule + 4, 1), "where.id");
    assert_eq!(lie(rule + 96, 64), "rule.flags");
    assert_eq!(lie(rule + 96, 16), "rule.flags");
    assert_eq!(lie(rule + 104, u32::MAX), "role");
    assert_eq!(lie(rule + 108, 2), "thread_class");
    assert_eq!(lie(rule + 108, 1), "priority");
    assert_eq!(lie(rule + 108, 0x0004_0000), "group");
    assert_eq!(lie(rule + 108, 0x0500_0000), "category");
    assert_eq!(lie(rule + 112, 0), "rule.trampoline");
    assert_eq!(lie(rule + 112, 4), "rule.trampoline");
    assert_eq!(lie(name, 0), "name_rule.pattern");
    assert_eq!(lie(name + 4, 0), "name_rule.flags");
    assert_eq!(Plan::parse(&good[..63]), Err(Error::Field { field: "size" }));
    let mut twice = sample();
    twice.rules.push(twice.rules[0].clone());
    let bytes = twice.encode().expect("bytes");
    assert_eq!(Plan::parse(&bytes), Err(Error::Field { field: "order of rules" }));
}

fn any_where() -> impl Strategy<Value = Where> {
    let id = proptest::collection::vec(any::<u8>(), 1..=32);
    let id = id.prop_map(|bytes| Module::BuildId(BuildId::new(&bytes).expect("an id")));
    let module = prop_oneof![id, any::<u64>().prop_map(Module::Path)];
    (module, any::<u64>()).prop_map(|(module, offset)| Where { module, offset })
}

fn any_attributes() -> impl Strategy<Value = Attributes> {
    let role = proptest::option::of("[^\\x00]{1,20}");
    (role, 0..=99_u8, 0..4_u8, 0..5_u8).prop_map(|(role, priority, group, category)| Attributes {
        role,
        class: if priority == 0 { Class::Lazy } else { Class::TimeCritical },
        priority,
        group: Group::from_raw(group).expect("one"),
        category: Category::from_raw(category).expect("one"),
    })
}

fn any_rule() -> impl Strategy<Value = Rule> {
    let key = (any_where(), proptest::option::of(any_where()));
    let stack = any::<(u32, bool)>().prop_map(|(bytes, forced)| StackRule { bytes, forced });
    let (attributes, stack) = (proptest::option::of(any_attributes()), proptest::option::of(stack));
    (key, attributes, stack, 0..4_usize).prop_map(|((start, refine), attributes, stack, at)| Rule {
        key: Key { start, refine },
        attributes,
        stack,
        trampoline: Trampoline::ALL[at],
    })
}

fn any_plan() -> impl Strategy<Value = Plan> {
    let name = ("[^\\x00]{1,20}", any_attributes()).prop_map(|(pattern, attributes)| NameRule {
        pattern: Pattern::new(&pattern).expect("a pattern"),
        attributes,
    });
    let preload = proptest::option::of(proptest::collection::vec(1..=255_u8, 0..30));
    let lists = (proptest::option::of(any_rule()), proptest::collection::vec(name, 0..4), preload);
    (any::<(u64, i32, [bool; 3])>(), 0..3_usize, 0..99_u8, lists).prop_map(
        |((run, parent, flags), stacks, low, (rule, names, preload))| Plan {
            stacks: Stacks::ALL[stacks],
            zones: Zones { low, high: low + 1 },
            tripwire: flags[0],
            mediated: flags[1],
            quiet: flags[2],
            filters: 3,
            preload: preload.map(OsString::from_vec),
            user: flags[0].then(|| User { library: "/u".into(), workers: Some(2) }),
            rules: rule.into_iter().collect(),
            names,
            ..Plan::new(run, parent)
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_written_is_what_is_read(plan in any_plan()) {
        let bytes = plan.encode().expect("bytes");
        prop_assert_eq!(Plan::parse(&bytes), Ok(plan));
    }

    #[test]
    fn any_change_is_survived(
        plan in any_plan(), changes in proptest::collection::vec(any::<(u16, u8)>(), 1..8),
        cut in any::<u16>(),
    ) {
        let mut bytes = plan.encode().expect("bytes");
        for (at, byte) in changes {
            let at = usize::from(at) % bytes.len();
            bytes[at] = byte;
        }
        if let Ok(plan) = Plan::parse(&bytes) {
            let again = plan.encode().expect("what is read can be written");
            prop_assert_eq!(Plan::parse(&again), Ok(plan));
        }
        bytes.truncate(usize::from(cut) % bytes.len());
        let _ = Plan::parse(&bytes);
    }
}
