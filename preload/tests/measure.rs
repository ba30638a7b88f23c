//! Stacks of a real program, measured from outside while its threads live, against what its own
//! library measures when they end.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use heddle_preload::library::Library;
use heddle_preload::measure::{Meter, Peak};
use heddle_record::{Reader, Snapshot, StackPlace};

/// Threads that each use so many KiB of their stacks, and wait there.
const DEPTHS_KIB: [u64; 3] = [20, 100, 700];

const PROGRAM: &str = r#"
#include <pthread.h>
#include <stdio.h>

static pthread_barrier_t deep, over;
static volatile char sink;

static __attribute__((noinline)) void use_stack(size_t bytes)
{
	volatile char room[bytes];

	for (size_t i = 0; i < bytes; i++)
		room[i] = 1;
	pthread_barrier_wait(&deep);
	pthread_barrier_wait(&over);
	sink = room[bytes / 2];
}

static void *thread(void *kib)
{
	use_stack((size_t)kib << 10);
	return NULL;
}

int main(void)
{
	const size_t kib[3] = { 20, 100, 700 };
	pthread_t threads[3];

	setvbuf(stdout, NULL, _IOLBF, 0);
	pthread_barrier_init(&deep, NULL, 4);
	pthread_barrier_init(&over, NULL, 4);
	for (int i = 0; i < 3; i++)
		if (pthread_create(&threads[i], NULL, thread, (void *)kib[i]))
			return 1;
	pthread_barrier_wait(&deep);
	puts("deep");
	if (getchar() == EOF)
		return 1;
	pthread_barrier_wait(&over);
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	puts("over");
	return getchar() == EOF;
}
"#;

/// Compiles the program and starts it under the library; `None` if there is no compiler.
fn start() -> Option<Child> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("measure");
    std::fs::create_dir_all(&folder).expect("writable");
    let (source, program) = (folder.join("deep.c"), folder.join("deep"));
    std::fs::write(&source, PROGRAM).expect("writable");
    let mut cc = Command::new("cc");
    cc.args(["-O1", "-pthread", "-Wall", "-Werror"]).arg(&source).arg("-o").arg(&program);
    let Ok(result) = cc.output() else {
        eprintln!("skip: no cc on this machine");
        return None;
    };
    assert!(result.status.success(), "{}", String::from_utf8_lossy(&result.stderr));
    let library = Library::in_folder(&folder.join("library")).expect("writable");
    let mut command = Command::new(program);
    command.env("LD_PRELOAD", library.preload()).env_remove("HEDDLE_PLAN");
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    Some(command.spawn().expect("it starts"))
}

/// The stack and the recorded peak of each thread but the first, deepest last.
fn look(pid: i32) -> (Snapshot, Vec<(StackPlace, Peak)>) {
    let snapshot = Reader::open(pid).expect("a table").snapshot().expect("a snapshot");
    assert_eq!((&snapshot.faults[..], &snapshot.use_faults[..]), (&[][..], &[][..]));
    assert!(snapshot.preload && snapshot.alive);
    let meter = Meter::new(pid).expect("our own child");
    let stacks = snapshot.threads.iter().filter_map(|thread| thread.stack);
    let stacks = stacks.filter(|stack| !stack.is_main());
    let mut peaks: Vec<_> =
        stacks.map(|stack| (stack, meter.peak(&stack).expect("bounds"))).collect();
    peaks.sort_by_key(|(_, peak)| peak.bytes);
    (snapshot, peaks)
}

#[test]
fn a_living_thread_is_measured_as_it_measures_itself() {
    let Some(mut child) = start() else { return };
    let (pid, mut input) = (child.id().cast_signed(), child.stdin.take().expect("a pipe"));
    let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    assert_eq!(lines.next().expect("a line").expect("text"), "deep");

    let (snapshot, peaks) = look(pid);
    assert_eq!(peaks.len(), 3, "{:?}", snapshot.threads);
    for ((stack, peak), kib) in peaks.iter().zip(DEPTHS_KIB) {
        let used = kib << 10;
        // The array, and the few frames around it.
        assert!((used..used + 4096).contains(&peak.bytes), "{peak:?} of {kib} KiB");
        assert!(peak.is_exact && peak.bytes <= stack.usable_bytes());
        assert!((used..used + (32 << 10)).contains(&peak.resident), "{peak:?} of {kib} KiB");
    }

    input.write_all(b"x").expect("it reads");
    assert_eq!(lines.next().expect("a line").expect("text"), "over");
    let (snapshot, _) = look(pid);
    let kind = snapshot.uses.iter().find(|kind| kind.ended == 3).expect("their account");
    assert_eq!((kind.created, kind.failed), (3, 0));
    // The deepest may have gone some frames deeper since: it had not slept when it was measured.
    let outside = peaks[2].1.bytes;
    assert!((outside..outside + 1024).contains(&u64::from(kind.peak)), "{kind:?}, {outside}");
    input.write_all(b"x").expect("it reads");
    assert!(child.wait().expect("it ends").success());
}
