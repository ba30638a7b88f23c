//! The Mediator and a real program on a real kernel: policies read back before, during and after,
//! as whoever runs the tests, and as nobody.
//!
//! Nothing here needs quiet timing: every state is waited for, for a long time if need be.

mod program;

use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use heddle_preload::mediator::{Mediator, Powers, Report};
use heddle_preload::policy::Policy;
use heddle_preload::sys::sched::{self, BATCH, IDLE, OTHER, RR, Scheduling};

use program::{Program, wait};

/// Set in the copy of this test that is to be killed: the pid to mediate, and the policy.
const AGENT: &str = "HEDDLE_TEST_AGENT";
/// Set in the copy of this test that is to say whether it is capable.
const PROBE: &str = "HEDDLE_TEST_PROBE";

fn policy(means: &str, more: &str) -> Policy {
    let text = format!(
        "[mediator]\nmeans = '{means}'\nhold_ms = 200\n{more}\n\
         [[thread]]\nname = 'critical'\nclass = 'time-critical'\npriority = 80\n"
    );
    Policy::parse(&text).expect("a policy")
}

/// Runs a Mediator on a thread of its own while `test` runs, then gives its report.
fn mediate(program: &mut Program, policy: &Policy, test: impl FnOnce(&mut Program)) -> Report {
    let (pid, stop) = (program.pid(), AtomicBool::new(false));
    thread::scope(|scope| {
        let agent = scope.spawn(|| {
            let mut mediator = Mediator::new(pid, policy).expect("a mediator");
            while !stop.load(Relaxed) {
                thread::sleep(mediator.step());
            }
            mediator.finish();
            mediator.report()
        });
        struct Stop<'a>(&'a AtomicBool);
        impl Drop for Stop<'_> {
            fn drop(&mut self) {
                self.0.store(true, Relaxed);
            }
        }
        let stopper = Stop(&stop);
        test(program);
        drop(stopper);
        agent.join().expect("no panic")
    })
}

/// Whether this user may do what root may.
fn may(wanted: Scheduling) -> bool {
    let attempt = thread::spawn(move || {
        sched::set(0, &wanted)?;
        sched::set(0, &Scheduling { policy: OTHER, priority: 0, ..wanted })
    });
    let result = attempt.join().expect("no panic");
    if let Err(error) = &result {
        eprintln!("skip: not permitted here: {error}");
    }
    result.is_ok()
}

/// What this kernel makes of the longest slice: 0 before Linux 6.12.
fn longest_slice_ns() -> u64 {
    let attempt = || {
        sched::set(0, &Scheduling { slice_ns: 100_000_000, ..sched::get(0)? })?;
        sched::get(0)
    };
    thread::spawn(attempt).join().expect("no panic").expect("no permission is needed").slice_ns
}

const SOME_RR: Scheduling =
    Scheduling { policy: RR, priority: 1, nice: 0, reset_on_fork: false, slice_ns: 0 };
const SOME_IDLE: Scheduling = Scheduling { policy: IDLE, priority: 0, ..SOME_RR };

#[test]
fn idle_means_lower_the_others_and_restore_them() {
    let Some(mut program) = Program::start(&["nice", "-n", "2"]) else { return };
    if !may(SOME_IDLE) {
        return;
    }
    let before = program.threads();
    let report = mediate(&mut program, &policy("idle", ""), |program| {
        program.say("busy");
        program.wait_for("hog", IDLE);
        let critical = program.named("critical")[0];
        assert!(critical.policy == OTHER && critical.nice == 2, "{critical:?}");
        assert_eq!(critical.slice_ns, longest_slice_ns(), "fewer preemptions");
        // The newborn inherits SCHED_IDLE, and comes back as what its creator was.
        program.say("birth");
        program.wait_for("late", IDLE);
        program.say("rest");
        program.wait_for("hog", OTHER);
        program.wait_for("late", OTHER);
        assert_eq!(program.named("late")[0].nice, 2);
        program.say("busy");
        program.wait_for("hog", IDLE);
        program.say("end");
        program.wait_for("hog", OTHER);
    });
    assert_eq!((report.means, report.way_back), ("idle", true));
    assert!(report.divided >= 2, "{report}");
    assert!(report.conflicts.is_empty() && report.refused.is_empty(), "{report}");
    let after = program.threads();
    for (tid, it) in before.iter().filter(|(_, (name, _))| name != "critical") {
        assert_eq!(Some(it), after.get(tid));
    }
}

#[test]
fn rr_means_raise_the_critical_ones() {
    if !may(SOME_RR) {
        return;
    }
    let Some(mut program) = Program::start(&["nice", "-n", "2"]) else { return };
    let before = program.threads();
    let report = mediate(&mut program, &policy("rr", ""), |program| {
        program.say("busy");
        program.wait_for("critical", RR);
        let critical = program.named("critical")[0];
        assert!(critical.reset_on_fork && (30..50).contains(&critical.priority), "{critical:?}");
        assert!(program.named("hog").iter().all(|it| it.policy == OTHER && it.nice == 2));
        program.say("rest");
        program.wait_for("critical", OTHER);
    });
    assert_eq!(report.means, "rr");
    assert_eq!(program.threads(), before);
}

#[test]
fn nice_means_order_groups() {
    if !may(Scheduling { nice: -5, ..Scheduling::default() }) {
        return;
    }
    let Some(mut program) = Program::start(&["nice", "-n", "0"]) else { return };
    let before = program.threads();
    let rule = "[[thread]]\nname = 'hog'\ngroup = 'service'\n";
    mediate(&mut program, &policy("nice", rule), |program| {
        program.say("busy");
        wait("nice values", || program.named("hog").iter().all(|it| it.nice == 17).then_some(()));
        assert!(program.named("critical")[0].nice < 0);
        program.say("rest");
        wait("nice values", || program.named("hog").iter().all(|it| it.nice == 0).then_some(()));
    });
    assert_eq!(program.threads(), before);
}

#[test]
fn cgroup_means_move_threads_and_leave_no_group() {
    let Some(mut program) = Program::start(&["nice", "-n", "0"]) else { return };
    let pid = program.pid();
    let groups = |it: &Program| {
        let read = |tid: &i32| std::fs::read_to_string(format!("/proc/{pid}/task/{tid}/cgroup"));
        it.threads().keys().filter_map(|tid| read(tid).ok()).collect::<String>()
    };
    let before = groups(&program);
    let mut found = true;
    let report = mediate(&mut program, &policy("cgroup", ""), |program| {
        program.say("busy");
        let begin = Instant::now();
        while found && !groups(program).contains(".fast") {
            found = begin.elapsed() < Duration::from_secs(20);
            thread::sleep(Duration::from_millis(10));
        }
        if found {
            // The threads move one after the other.
            wait("the others' group", || groups(program).contains(".lazy/normal").then_some(()));
            program.say("birth");
            program.say("rest");
            wait("home", || (!groups(program).contains("heddle.")).then_some(()));
            program.say("busy");
            wait("regions", || groups(program).contains(".fast").then_some(()));
        }
    });
    if report.means == "none" {
        eprintln!("skip: no control groups for this user: {:?} {:?}", report.why, report.notes);
        return;
    }
    assert!(found, "{report}");
    let one = before.lines().next().expect("a line");
    assert!(groups(&program).starts_with(one) && !groups(&program).contains("heddle."));
    let left = Command::new("find")
        .args(["/sys/fs/cgroup", "-name", &format!("heddle.{pid}.*")])
        .output()
        .expect("find runs");
    assert!(left.stdout.is_empty(), "{}", String::from_utf8_lossy(&left.stdout));
}

#[test]
fn what_the_program_sets_itself_is_left_alone() {
    let Some(mut program) = Program::start(&["nice", "-n", "0"]) else { return };
    if !may(SOME_IDLE) {
        return;
    }
    let mut own = 0;
    let report = mediate(&mut program, &policy("idle", ""), |program| {
        program.say("busy");
        program.wait_for("hog", IDLE);
        own = program.say("own");
        program.say("rest");
        wait("the others", || {
            let threads = program.threads();
            threads.iter().all(|(tid, it)| *tid == own || it.1.policy == OTHER).then_some(())
        });
    });
    let kept = Scheduling { policy: BATCH, nice: 3, ..Scheduling::default() };
    assert_eq!(program.threads()[&own].1, kept);
    assert_eq!(report.conflicts.len(), 1, "{report}");
    assert!(report.conflicts[0].tid == own && report.conflicts[0].text.contains("batch"));
}

#[test]
fn a_nice_value_of_its_own_does_not_keep_a_thread_lowered() {
    let Some(mut program) = Program::start(&["nice", "-n", "0"]) else { return };
    if !may(Scheduling { nice: 6, ..SOME_IDLE }) {
        return;
    }
    let mut own = 0;
    let report = mediate(&mut program, &policy("idle", ""), |program| {
        program.say("busy");
        program.wait_for("hog", IDLE);
        own = program.say("nice");
        program.say("rest");
        program.wait_for("hog", OTHER);
    });
    assert_eq!(program.threads()[&own].1, Scheduling { nice: 6, ..Scheduling::default() });
    assert!(report.conflicts.is_empty() && report.refused.is_empty(), "{report}");
}

#[test]
fn a_few_descriptors_are_enough_for_many_time_critical_threads() {
    if !may(SOME_IDLE) {
        return;
    }
    let Some(mut program) = Program::start(&["nice", "-n", "0"]) else { return };
    program.say("many");
    wait("names", || (program.named("critical").len() == 61).then_some(()));
    let mut agent = start_agent(&["prlimit", "--nofile=40:40"], program.pid(), "idle");
    program.say("busy");
    program.wait_for("hog", IDLE);
    program.say("rest");
    program.wait_for("hog", OTHER);
    program.say("busy");
    program.wait_for("hog", IDLE);
    agent.kill().expect("killed");
    agent.wait().expect("dead");
    program.wait_for("hog", OTHER);
}

#[test]
fn children_of_lowered_threads_are_restored() {
    let Some(mut program) = Program::start(&["nice", "-n", "4"]) else { return };
    if !may(SOME_IDLE) {
        return;
    }
    let mut child = 0;
    mediate(&mut program, &policy("idle", ""), |program| {
        program.say("busy");
        program.wait_for("hog", IDLE);
        child = program.say("fork");
        assert_eq!(sched::get(child).expect("it sleeps").policy, IDLE);
    });
    let plain = Scheduling { nice: 4, ..Scheduling::default() };
    assert_eq!(sched::get(child).expect("it sleeps"), plain);
    kill(child);
}

#[test]
fn children_that_lived_before_belong_to_the_program() {
    let Some(mut program) = Program::start(&["nice", "-n", "4"]) else { return };
    if !may(SOME_IDLE) {
        return;
    }
    let child = program.say("fork");
    let plain = Scheduling { nice: 4, ..Scheduling::default() };
    let wait_for = |wanted| {
        let has_it = || sched::get(child).is_ok_and(|it| it == wanted).then_some(());
        wait("what the child gets", has_it);
    };
    wait_for(plain);
    mediate(&mut program, &policy("idle", ""), |program| {
        program.say("busy");
        wait_for(Scheduling { policy: IDLE, ..plain });
        program.say("rest");
        wait_for(plain);
    });
    kill(child);
}

fn kill(pid: i32) {
    let status = Command::new("kill").args(["-9", &pid.to_string()]).status();
    assert!(status.expect("kill runs").success());
}

/// The body of the process that is killed below; an ordinary run of the tests passes it by.
#[test]
fn agent() {
    let Ok(order) = std::env::var(AGENT) else { return };
    let (pid, means) = order.split_once(' ').expect("two words");
    let mut mediator = Mediator::new(pid.parse().expect("a pid"), &policy(means, "")).expect("one");
    loop {
        thread::sleep(mediator.step());
    }
}

/// The body of the process that lives in a user namespace below.
#[test]
fn probe() {
    if std::env::var_os(PROBE).is_some() {
        println!("capable: {}", Powers::probe(None).capable);
    }
}

#[test]
fn a_capability_of_a_user_namespace_is_none() {
    let this = std::env::current_exe().expect("this test");
    let output = Command::new("unshare")
        .args(["--user", "--map-root-user"])
        .arg(this)
        .args(["--exact", "probe", "--nocapture"])
        .env(PROBE, "1")
        .output();
    let output = match output {
        Ok(output) if output.status.success() => output,
        other => {
            println!("skip: no user namespace to be had: {other:?}");
            return;
        }
    };
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("capable: false"), "{text}");
}

fn start_agent(prefix: &[&str], pid: i32, means: &str) -> Child {
    let this = std::env::current_exe().expect("this test");
    let words = [prefix, &[this.to_str().expect("a plain path"), "--exact", "agent"]].concat();
    Command::new(words[0])
        .args(&words[1..])
        .env(AGENT, format!("{pid} {means}"))
        .stdout(Stdio::null())
        .spawn()
        .expect("the agent starts")
}

#[test]
fn a_killed_mediator_is_survived_by_its_watchdog() {
    if !may(SOME_IDLE) {
        return;
    }
    for (means, policy) in [("idle", IDLE), ("rr", OTHER)] {
        if means == "rr" && !may(SOME_RR) {
            return;
        }
        let Some(mut program) = Program::start(&["nice", "-n", "1"]) else { return };
        let before = program.threads();
        let mut agent = start_agent(&["env"], program.pid(), means);
        program.say("busy");
        program.wait_for("hog", policy);
        program.wait_for("critical", if means == "rr" { RR } else { OTHER });
        // Born after the last look, perhaps: the watchdog has to find it.
        let late = program.say("birth");
        agent.kill().expect("killed");
        agent.wait().expect("dead");
        wait(&format!("the watchdog after {means}"), || {
            let mut after = program.threads();
            let late =
                after.remove(&late).is_some_and(|(_, it)| it.nice == 1 && it.policy == OTHER);
            (late && after == before).then_some(())
        });
    }
}

#[test]
fn an_ordinary_user_gets_idle_threads_and_is_told_that_they_stay() {
    if std::fs::metadata("/proc/self").map(|it| std::os::unix::fs::MetadataExt::uid(&it)).ok()
        != Some(0)
    {
        eprintln!("skip: only root can become nobody");
        return;
    }
    let nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"];
    let this = std::env::current_exe().expect("this test");
    let reachable =
        Command::new(nobody[0]).args(&nobody[1..]).args(["test", "-x"]).arg(this).status();
    if !reachable.is_ok_and(|it| it.success()) {
        eprintln!("skip: nobody may not run this test");
        return;
    }
    let Some(mut program) = Program::start(&nobody) else { return };
    let mut agent = start_agent(&nobody, program.pid(), "auto");
    program.say("busy");
    // The main thread takes no time: it is not lowered, so that its children are not.
    program.wait_for("hog", IDLE);
    program.wait_for("critical", OTHER);
    assert_eq!(program.named("regions")[0].policy, OTHER);
    agent.kill().expect("killed");
    agent.wait().expect("dead");
}
