//! `libheddle-preload.so` in small C programs, for every libc and size of addresses that this
//! machine's compiler can build for.
//!
//! Invariant: a program checks itself where it can (status 0, 1, 77 for "not here"), and this
//! driver looks at what is left of it: its table, its messages, how it died.

mod c_support;

use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, Stdio};

use c_support::{Ended, build, command, folder, library, plan, run, targets};
use heddle_preload::key::Key;
use heddle_preload::library::FILE_NAME;
use heddle_preload::plan::{NameRule, Plan, Rule, StackRule, Stacks, Trampoline};
use heddle_preload::policy::{Attributes, Pattern};
use heddle_record::{Category, Class, CodePlace, Group, Use};

/// Builds and runs a program that checks itself, on every target.
fn checks_itself(name: &str, arguments: &[&str]) {
    for target in targets() {
        let program = build(target, name, &[]);
        let ended = run(command(target, &program, &plan()).args(arguments));
        ended.expect_success(&format!("{name} {arguments:?} on {}", target.name));
    }
}

#[test]
fn peaks_are_exact_on_stacks_that_are_used_again() {
    checks_itself("peaks", &[]);
}

#[test]
fn ten_thousand_threads_are_counted() {
    checks_itself("many", &[]);
}

#[test]
fn creators_forks_names_and_an_end_in_between_get_along() {
    for target in targets() {
        let program = build(target, "stress", &[]);
        for tripwire in [false, true] {
            let ended = run(&mut command(target, &program, &Plan { tripwire, ..plan() }));
            let ended = ended.expect_success(&format!("{} {tripwire}", target.name));
            let table = ended.table.expect("a table");
            assert!(table.faults.is_empty(), "{:?}", table.faults);
            assert!(table.use_faults.is_empty(), "{:?}", table.use_faults);
            let (created, done): (u32, u32) = table
                .uses
                .iter()
                .filter(|it| !it.is_main())
                .fold((0, 0), |sum, it| (sum.0 + it.created, sum.1 + it.ended));
            assert_eq!(created, 4 + 4 * 600, "{}", target.name);
            assert!(done <= created && table.ended);
        }
    }
}

#[test]
fn the_library_needs_libc_alone_and_no_executable_stack() {
    for file in ["lib/x86_64-linux-gnu", "lib/i386-linux-gnu", "lib/aarch64-linux-gnu"] {
        let path = library().root().join(file).join(FILE_NAME);
        if !path.exists() {
            continue;
        }
        let output = Command::new("readelf").args(["-dlW"]).arg(&path).output();
        let Ok(output) = output else {
            eprintln!("skip: readelf is not here");
            return;
        };
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let needed: Vec<&str> = text.lines().filter(|line| line.contains("(NEEDED)")).collect();
        assert!(needed.len() == 1 && needed[0].contains("[libc.so.6]"), "{needed:?}");
        let stack = text.lines().find(|line| line.contains("GNU_STACK")).expect("a header");
        assert!(stack.contains("RW ") && !stack.contains("RWE"), "{stack}");
    }
}

#[test]
fn kinds_of_std_thread_are_told_apart_and_where_they_were_created() {
    let program = folder().join("stdthread");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/c/stdthread.cc");
    let mut compiler = Command::new("c++");
    compiler.args(["-O1", "-pthread", source, "-o"]).arg(&program);
    if !compiler.output().is_ok_and(|output| output.status.success()) {
        eprintln!("skip: c++ cannot build for this machine");
        return;
    }
    let target = targets().iter().find(|it| it.name == "native").expect("built a moment ago");
    let ended = run(&mut command(target, &program, &plan())).expect_success("stdthread");
    let kinds: Vec<Use> = ended.table.expect("a table").uses.split_off(1);
    assert_eq!(kinds.iter().map(|kind| kind.created).collect::<Vec<_>>(), [3, 3]);
    for kind in &kinds {
        let (start, word) = kind.places();
        assert!(start.expect("a place").path.contains("libstdc++"));
        assert_eq!(word.expect("a vtable").path, program.to_string_lossy());
        let site = kind.site.as_deref().and_then(CodePlace::parse).expect("a place");
        assert_eq!(site.path, program.to_string_lossy());
    }
    assert_ne!(kinds[0].start, kinds[1].start);
}

#[test]
fn threads_of_a_cxx_library_that_a_c_program_loads_were_created_in_that_library() {
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/c/cxx_plugin.cc");
    for target in targets().iter().filter(|it| it.name != "musl") {
        let plugin = folder().join(format!("cxx_plugin-{}.so", target.name));
        let mut compiler = Command::new("c++");
        compiler.args(target.flags).args(["-O1", "-g", "-shared", "-fPIC", source, "-o"]);
        if !compiler.arg(&plugin).output().is_ok_and(|output| output.status.success()) {
            eprintln!("skip: c++ cannot build for {}", target.name);
            continue;
        }
        let program = build(target, "cxx_host", &["-ldl"]);
        for scope in ["global", "local"] {
            let mut command = command(target, &program, &plan());
            let ended = run(command.arg(&plugin).arg(scope)).expect_success("cxx_host");
            let kinds: Vec<Use> = ended.table.expect("a table").uses.split_off(1);
            assert_eq!(kinds.len(), 4, "{} {scope}", target.name);
            for kind in &kinds {
                let site = kind.site.as_deref().and_then(CodePlace::parse).expect("a place");
                assert_eq!(site.path, plugin.to_string_lossy(), "{} {scope}", target.name);
            }
        }
    }
}

#[test]
fn every_way_to_end_is_measured_after_the_programs_destructors() {
    checks_itself("endings", &[]);
}

#[test]
fn a_forked_child_has_its_own_table() {
    checks_itself("forked", &[]);
}

#[test]
fn threads_are_made_while_another_has_the_loaders_lock() {
    checks_itself("iterated", &[]);
}

#[test]
fn the_environment_is_the_programs_own_and_children_are_followed() {
    for target in targets() {
        // musl's loader knows no $LIB: what such a program starts is followed if it is musl's.
        let program = build(target, "environment", &[]);
        let ended = run(&mut command(target, &program, &plan()));
        ended.expect_success(target.name);
    }
}

#[test]
fn attributes_are_recorded_and_read_back() {
    checks_itself("said", &[]);
}

#[test]
fn attributes_are_hints_without_the_library() {
    for target in targets() {
        for (name, flags) in [("position-independent", &[][..]), ("fixed", &["-no-pie"][..])] {
            let program = build(target, "said", flags);
            let output = Command::new(&program).arg("alone").output().expect("it was built");
            assert!(output.status.success(), "{name} on {}: {output:?}", target.name);
            let ended = run(command(target, &program, &plan()).env("X", name));
            ended.expect_success(&format!("{name} on {}", target.name));
        }
    }
}

#[test]
fn limits_and_filters_make_no_difference_to_the_program() {
    for limit in ["files", "size", "space", "seccomp", "probes", "closed"] {
        checks_itself("limits", &[limit]);
    }
}

/// A plan that is not there: not worth a word once `heddle run`, which removes it, has ended.
#[test]
fn the_plan_of_a_run_that_is_over_is_not_missed() {
    let mut over = Command::new("true").spawn().expect("a process");
    over.wait().expect("it ends");
    let (over, own) = (over.id(), std::process::id());
    let here = heddle_record::process::own_namespace();
    for target in targets() {
        let program = build(target, "create_join", &[]);
        for (name, is_missed) in [
            (format!("heddle-plan.{here}.{over}"), false),
            (format!("heddle-plan.{here}.{own}"), true),
            (format!("heddle-plan.{}.{over}", here - 1), true),
            (format!("heddle-plan.{over}"), true),
            (format!("{here}.{over}"), true),
            ("heddle-plan.".to_owned(), true),
        ] {
            let path = folder().join(&name);
            let mut command = command(target, &program, &plan());
            let ended = run(command.arg("1").env("HEDDLE_PLAN", &path));
            let ended = ended.expect_success(&format!("{name} on {}", target.name));
            let line = format!(
                "heddle: the plan {} cannot be read: threads are only observed\n",
                path.display()
            );
            let expected = if is_missed { line } else { String::new() };
            assert_eq!(ended.stderr(), expected, "{name} on {}", target.name);
        }
    }
}

#[test]
fn threads_before_main_and_of_libraries_that_go() {
    for target in targets() {
        let plugin = build(target, "plugin", &["-fPIC", "-shared"]);
        let program = build(target, "constructed", &["-ldl"]);
        let mut command = command(target, &program, &plan());
        // musl's dlclose() keeps every library, which is the better case.
        run(command.arg(plugin)).expect_success(target.name);
    }
}

/// The sizes that `sizes.c` printed.
fn sizes(ended: &Ended) -> Vec<u64> {
    let words = ended.stdout();
    words.lines().map(|line| line.rsplit(' ').next().expect("a word").parse().unwrap()).collect()
}

fn rule_for(kind: &Use, bytes: u32, forced: bool) -> Rule {
    Rule {
        key: Key::of_use(kind).expect("its text is a place"),
        attributes: None,
        stack: Some(StackRule { bytes, forced }),
        trampoline: Trampoline::None,
    }
}

#[test]
fn sizes_follow_the_mode() {
    const BYTES: u32 = 200 << 10;
    let near = |size: u64| (190 << 10..240 << 10).contains(&size);
    for target in targets() {
        let program = build(target, "sizes", &[]);
        let observed = run(&mut command(target, &program, &plan())).expect_success(target.name);
        let usual = sizes(&observed)[0];
        let table = observed.table.expect("a table");
        let rules = |forced| {
            let kinds = table.uses.iter().filter(|it| !it.is_main());
            kinds.map(|it| rule_for(it, BYTES, forced)).collect::<Vec<_>>()
        };
        for (stacks, forced, tuned) in [
            (Stacks::Observe, false, [false, false]),
            (Stacks::Auto, false, [true, false]),
            (Stacks::Force, false, [true, true]),
            (Stacks::Observe, true, [true, true]),
        ] {
            let plan = Plan { stacks, rules: rules(forced), ..plan() };
            let ended = run(&mut command(target, &program, &plan)).expect_success(target.name);
            let found = sizes(&ended);
            let what = format!("{} {stacks:?} {forced}: {found:?}", target.name);
            assert_eq!(found[0] == usual, !tuned[0], "{what}");
            // glibc may give a larger stack again that it has: not a smaller one.
            assert_eq!(found[1] >= 3 << 20, !tuned[1], "{what}");
            assert_eq!([near(found[0]), near(found[1])], tuned, "{what}");
            assert!(found[2] > 1000 << 10, "{what}");
            let flags: Vec<bool> =
                ended.table.expect("a table").uses[1..].iter().map(Use::is_tuned).collect();
            assert_eq!(flags, [tuned[0], tuned[1], false], "{what}");
        }
    }
}

/// A rule that is far too small to create a thread with is no reason for the program to fail.
#[test]
fn a_size_that_libc_refuses_is_not_insisted_on() {
    for target in targets() {
        let program = build(target, "peaks", &[]);
        let observed = run(&mut command(target, &program, &plan())).expect_success(target.name);
        let rule = rule_for(observed.first_kind(), u32::MAX - (1 << 20), false);
        let plan = Plan { stacks: Stacks::Auto, rules: vec![rule], ..plan() };
        // 4 GiB of address space are no problem for 64 bits: only there it is given.
        let mut command = command(target, &program, &plan);
        let ended = run(&mut command).expect_success(target.name);
        if target.class == 1 {
            assert_eq!(ended.first_kind().failed, 0);
            assert!(ended.first_kind().stack_given < 100 << 20);
        }
    }
}

#[test]
fn an_overflow_of_a_tuned_stack_is_named_and_the_program_dies_as_it_would() {
    for target in targets() {
        let program = build(target, "overflow", &[]);
        let observed = run(command(target, &program, &plan()).arg("50000"));
        let observed = observed.expect_success(target.name);
        let rules = vec![rule_for(observed.first_kind(), 64 << 10, true)];
        let plan = Plan { stacks: Stacks::Auto, rules, ..plan() };
        let fits = run(command(target, &program, &plan).arg("50000"));
        assert_eq!(fits.expect_success(target.name).stderr(), "", "{}", target.name);

        let ended = run(command(target, &program, &plan).arg("2000000"));
        assert_eq!(ended.output.status.signal(), Some(libc::SIGSEGV), "{}", ended.stderr());
        let text = ended.stderr();
        assert!(text.contains("\"digger\"") && text.contains("over the end"), "{text}");
        assert_eq!(text.lines().count(), 1, "{text}");
        assert!(ended.first_kind().has_overflowed());
        assert!(ended.first_kind().peak >= 60 << 10);
        // The next run will do as the policy says again, and history as history does.
        assert!(text.contains("policy's word") && !text.contains("next run"), "{text}");
        let rules = vec![rule_for(observed.first_kind(), 64 << 10, false)];
        let ended = run(command(target, &program, &Plan { rules, ..plan }).arg("2000000"));
        let text = ended.stderr();
        assert!(text.contains("next run") && !text.contains("policy"), "{text}");
    }
}

#[test]
fn the_least_size_holds_for_all_that_a_stack_is_given() {
    for target in targets() {
        let program = build(target, "overflow", &[]);
        let observed = run(command(target, &program, &plan()).arg("1000"));
        let observed = observed.expect_success(target.name);
        let given = |need: u32, forced| {
            let rules = vec![rule_for(observed.first_kind(), need, forced)];
            let plan = Plan { stacks: Stacks::Auto, rules, ..plan() };
            let ended = run(command(target, &program, &plan).arg("1000"));
            ended.expect_success(target.name).first_kind().stack_given
        };
        // What the C library and a signal's frame take, by the user's own word on top of it.
        let added = given(64 << 10, true) - (64 << 10);
        assert!(added >= 4096, "{}: {added}", target.name);
        let (small, large) = (given(44 << 10, false), given(256 << 10, false));
        assert_eq!(small, (64 << 10).max((44 << 10) + added), "{}", target.name);
        assert_eq!(large, (256 << 10) + added, "{}", target.name);
    }
}

#[test]
fn each_living_thread_has_its_own_signal_stack() {
    for target in targets() {
        let program = build(target, "signal_stacks", &[]);
        let observed = run(&mut command(target, &program, &plan())).expect_success(target.name);
        assert_eq!(observed.stdout(), "0 apart\n", "{}", target.name);
        let table = observed.table.as_ref().expect("a table");
        let rules = table.uses[1..].iter().map(|kind| rule_for(kind, 64 << 10, false)).collect();
        let plan = Plan { stacks: Stacks::Auto, rules, ..plan() };
        let tuned = run(&mut command(target, &program, &plan)).expect_success(target.name);
        assert_eq!(tuned.stdout(), "40 apart\n", "{}: {}", target.name, tuned.stderr());
    }
}

#[test]
fn a_program_with_a_handler_gets_its_faults() {
    for target in targets() {
        let program = build(target, "overflow", &[]);
        let observed = run(command(target, &program, &plan()).args(["50000", "handled"]));
        let observed = observed.expect_success(target.name);
        assert_eq!(observed.stdout(), "handled 1\n");
        let rules = vec![rule_for(observed.first_kind(), 64 << 10, true)];
        let plan = Plan { stacks: Stacks::Auto, rules, ..plan() };
        let ended = run(command(target, &program, &plan).args(["2000000", "handled"]));
        let ended = ended.expect_success(target.name);
        assert_eq!(ended.stdout(), "handled 2\n", "{}: {}", target.name, ended.stderr());
        assert!(ended.stderr().contains("over the end"), "{}", ended.stderr());
        assert!(ended.first_kind().has_overflowed());
    }
}

#[test]
fn the_tripwire_tells_and_the_thread_goes_on() {
    for target in targets() {
        let program = build(target, "overflow", &[]);
        let observed = run(command(target, &program, &plan()).arg("1000"));
        let rules = vec![rule_for(observed.first_kind(), 200 << 10, true)];
        let plan = Plan { tripwire: true, rules, ..plan() };
        let low = run(command(target, &program, &plan).arg("100000")).expect_success(target.name);
        assert_eq!(low.stderr(), "");
        assert!(!low.first_kind().has_tripped());
        let high = run(command(target, &program, &plan).arg("180000")).expect_success(target.name);
        assert!(high.stderr().contains("High zone"), "{}: {}", target.name, high.stderr());
        assert!(high.first_kind().has_tripped());
        assert!(high.first_kind().peak >= 180_000);
    }
}

#[test]
fn rules_for_names_and_start_functions_set_attributes() {
    let attributes = |role: &str, priority| Attributes {
        role: Some(role.to_owned()),
        class: Class::TimeCritical,
        priority,
        group: Group::Urgent,
        category: Category::Event,
    };
    for target in targets() {
        let program = build(target, "overflow", &[]);
        let observed = run(command(target, &program, &plan()).arg("1000"));
        let mut rule = rule_for(observed.first_kind(), 1 << 20, false);
        rule.attributes = Some(attributes("digs", 7));
        let plan = Plan { rules: vec![rule], mediated: true, ..plan() };
        let ended = run(command(target, &program, &plan).arg("1000"));
        let kind = ended.first_kind();
        assert_eq!((kind.role.as_deref(), kind.priority), (Some("digs"), 7), "{}", target.name);
        assert_eq!(kind.name.as_deref(), Some("digger"));

        let pattern = Pattern::new("dig*").expect("a pattern");
        let names = vec![NameRule { pattern, attributes: attributes("by name", 9) }];
        let ended = run(command(target, &program, &Plan { names, ..plan }).arg("1000"));
        let kind = ended.first_kind();
        assert_eq!((kind.role.as_deref(), kind.priority), (Some("by name"), 9), "{}", target.name);
    }
}

#[test]
fn a_plan_that_makes_no_sense_is_told_and_left() {
    for target in targets() {
        let program = build(target, "peaks", &[]);
        let path = folder().join(format!("garbage-{}", target.name));
        fs::write(&path, b"HEDPLAN1 and nothing more, but long enough for a header of 64 bytes")
            .expect("writable");
        let mut command = command(target, &program, &plan());
        let ended = run(command.env("HEDDLE_PLAN", &path)).expect_success(target.name);
        assert_eq!(ended.stderr().lines().count(), 1, "{}", ended.stderr());
        assert!(ended.stderr().contains("makes no sense"), "{}", ended.stderr());
    }
}

#[test]
fn a_lowered_thread_may_say_its_own_policy() {
    for target in targets() {
        let program = build(target, "lowered", &[]);
        for mediated in [true, false] {
            let ended = run(&mut command(target, &program, &Plan { mediated, ..plan() }));
            if ended.output.status.code() == Some(77) {
                println!("skip: {}", ended.stderr().trim());
                return;
            }
            // Without a Mediator the program's own doing stays its own.
            let result = ended.expect_success(target.name).stdout().trim().to_owned();
            let expected = if mediated { 0 } else { libc::EPERM };
            let expected = format!("{expected} {expected}");
            assert_eq!(result, expected, "{} {mediated}", target.name);
        }
    }
}

#[test]
fn a_full_shared_memory_is_no_reason_to_fail() {
    for target in targets() {
        let program = build(target, "limits", &[]);
        for size in ["4k", "200k"] {
            let command = command(target, &program, &plan());
            let text = format!("mount -t tmpfs -o size={size} none /dev/shm && exec \"$0\" full");
            let mut shell = Command::new("unshare");
            shell.args(["-m", "sh", "-c", &text]).arg(command.get_program());
            shell.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
            shell.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
            let ended = run(&mut shell);
            if ended.stderr().contains("unshare") || ended.stderr().contains("mount:") {
                eprintln!("skip: a small /dev/shm: {}", ended.stderr().trim());
                return;
            }
            ended.expect_success(&format!("{} {size}", target.name));
        }
    }
}

/// No figure is demanded here: it would be the machine's. The figures are the benchmark's.
#[test]
fn creating_and_joining_prints_a_figure() {
    let target = targets()[0];
    let program = build(&target, "create_join", &[]);
    let ended = run(command(&target, &program, &plan()).arg("5")).expect_success("create_join");
    assert!(ended.stdout().trim().parse::<u64>().expect("a number") > 0);
    assert_eq!(ended.first_kind().ended, 1000);
}
