//! The plan for a run: everything that takes symbols, profiles or parsing, resolved beforehand.
//!
//! Invariants
//! - Nothing here stops the run: what cannot be had is a note, and the run does without.
//! - The plan's file is this run's alone and goes with it; what a killed run left behind is
//!   removed by the next one.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use heddle_preload::key::{Key, Where};
use heddle_preload::library;
use heddle_preload::plan::{self, Plan, Rules, name_rules};
use heddle_preload::policy::{Pattern, Policy, ThreadRule};
use heddle_preload::profile::{Executable, Row, Store};
use heddle_preload::sys::filtered::may_look_at_memory;
use heddle_record::{TABLE_AGE_MAX, TABLES_MAX, process};

use super::judge::Judge;
use super::program::Program;
use super::{Args, Stacks, collect};
use crate::symbols::image::Image;
use crate::symbols::{Finder, Trampoline, Wanted, needed, shared_libraries};

/// Folders that every process can read and that nobody keeps.
const FOLDERS: [&str; 2] = ["/dev/shm", "/tmp"];
const PREFIX: &str = "heddle-plan.";
/// Other programs' profiles that are read for the program's children.
const PROFILES_MAX: usize = 64;

/// Whether a name is meant.
type Fits<'a> = Box<dyn Fn(&str) -> bool + 'a>;

/// What a run needs before its program starts.
pub struct Prepared {
    /// None: the library is not used.
    pub run: Option<u64>,
    /// What the program's environment gets.
    pub environment: Vec<(&'static str, OsString)>,
    pub notes: Vec<String>,
    /// Kinds whose stacks have their size from the policy.
    pub said: Vec<Key>,
    /// Answers for programs that the run's processes start.
    pub judge: Option<Judge>,
    file: Option<PathBuf>,
}

impl Drop for Prepared {
    fn drop(&mut self) {
        if let Some(file) = &self.file {
            let _ = fs::remove_file(file);
        }
    }
}

/// Removes what killed runs left; a failure is the next one's concern. Called once the program
/// runs, which need not wait for that.
pub fn clear() {
    let _ = heddle_record::sweep_left();
    let _ = heddle_record::sweep_but(TABLES_MAX, TABLE_AGE_MAX);
    collect::remove_left();
}

/// Whether what killed runs left may take the room that this one's plan and tables need.
fn is_nearly_full() -> bool {
    rustix::fs::statvfs(FOLDERS[0]).is_ok_and(|it| it.f_bavail < it.f_blocks / 4)
}

/// `user` is the library that makes user-level threads, where programs may get it.
pub fn prepare(args: &Args, policy: &Policy, program: &Program, user: Option<PathBuf>) -> Prepared {
    if is_nearly_full() {
        clear();
    }
    let mut prepared = Prepared {
        run: None,
        environment: Vec::new(),
        notes: Vec::new(),
        said: Vec::new(),
        judge: None,
        file: None,
    };
    let library = match library::directory() {
        Ok(library) => library,
        Err(error) => {
            let note = "the library cannot be put anywhere, so that threads are not followed";
            prepared.notes.push(format!("{note}: {error}"));
            return prepared;
        }
    };
    let preload_of = |image: &Image| {
        let class = if image.head.is_64 { 2 } else { 1 };
        library.preload_for(class, image.head.machine, image.head.is_musl())
    };
    if let Some(obstacle) = program.obstacle(|image| preload_of(image).is_some()) {
        prepared.notes.push(obstacle);
        return prepared;
    }
    let Some(image) = &program.image else { return prepared };
    let Some(preload) = preload_of(image) else { return prepared };
    let path = fs::canonicalize(&image.path).unwrap_or(image.path.clone());
    let finder = finder(&path);
    let mut plan = make_plan(args, policy, &path, &finder, &mut prepared.notes);
    plan.mediated = true;
    plan.user = user.map(|library| plan::User { library, workers: args.workers });
    let is_said = |rule: &&plan::Rule| rule.stack.is_some_and(|it| it.forced);
    prepared.said = plan.rules.iter().filter(is_said).map(|rule| rule.key).collect();
    match write(&plan) {
        Ok(file) => {
            if plan.user.is_some() {
                match Judge::start(&file) {
                    Ok(judge) => prepared.judge = Some(judge),
                    Err(error) => prepared
                        .notes
                        .push(format!("what the program starts runs on kernel threads: {error}")),
                }
            }
            prepared.run = Some(plan.run);
            let preload = joined(finder.first_library(), &preload, plan.preload.as_deref());
            prepared.environment =
                vec![("LD_PRELOAD", preload), ("HEDDLE_PLAN", file.clone().into())];
            prepared.file = Some(file);
        }
        Err(error) => {
            let note = "the plan cannot be written, so that threads are not followed";
            prepared.notes.push(format!("{note}: {error}"));
        }
    }
    prepared
}

/// Ours before the program's own ones of that sort; but a library that insists on being the very
/// first is.
fn joined(first: Option<&Path>, ours: &OsStr, before: Option<&OsStr>) -> OsString {
    let parts = [first.map(Path::as_os_str), Some(ours), before];
    let parts = parts.into_iter().flatten().filter(|it| !it.is_empty());
    parts.collect::<Vec<_>>().join(":".as_ref())
}

fn make_plan(
    args: &Args,
    policy: &Policy,
    path: &Path,
    finder: &Finder,
    notes: &mut Vec<String>,
) -> Plan {
    let own_pid = rustix::process::getpid().as_raw_nonzero().get();
    let mut plan = Plan::new(process::own_run(), own_pid);
    plan.stacks = match args.stacks {
        Stacks::Observe => plan::Stacks::Observe,
        Stacks::Auto => plan::Stacks::Auto,
        Stacks::Force => plan::Stacks::Force,
    };
    plan.zones = policy.zones;
    plan.tripwire = args.tripwire;
    // A filter that is ours, too, does not mind, or we would not be here: but for calls of the
    // library alone.
    plan.filters = process::own_filters();
    if plan.filters > 0 && !may_look_at_memory() {
        plan.filters = 0;
        notes.push(
            "a filter on system calls kills who looks at stacks: threads are not followed".into(),
        );
    }
    plan.preload = std::env::var_os("LD_PRELOAD");
    plan.names = name_rules(policy);
    let mut rules = Rules::new();
    for (start, trampoline) in finder.trampolines() {
        rules.trampoline(Where::from(start), how(*trampoline));
    }
    rules.policy(&expanded(policy, finder, notes), |_| Vec::new());
    let rows = history(path, finder.program_id(), args.stacks, notes);
    if args.stacks == Stacks::Observe {
        rules.kinds(&rows);
    } else {
        rules.history(&rows);
    }
    plan.rules = rules.finish();
    plan
}

fn how(trampoline: Trampoline) -> plan::Trampoline {
    match trampoline {
        Trampoline::FirstWord => plan::Trampoline::Word0,
        Trampoline::SecondWord => plan::Trampoline::Word1,
        Trampoline::Name => plan::Trampoline::Name,
    }
}

/// The files to search: the program's, and those that its children are likely to use.
fn finder(path: &Path) -> Finder {
    let library_path = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let images = Image::open(path).map(|program| needed(program, &library_path));
    let mut images = images.unwrap_or_default();
    // The launcher of a Java program opens the machine itself, which is beside it.
    if path.file_name() == Some("java".as_ref())
        && let Some(home) = path.parent().and_then(Path::parent)
    {
        images.extend(Image::open(&home.join("lib/server/libjvm.so")));
    }
    for library in shared_libraries() {
        if images.iter().all(|it| it.head.build_id != library.head.build_id) {
            images.push(library);
        }
    }
    Finder::new(images)
}

/// The policy with functions' names replaced by keys, in the policy's order.
fn expanded(policy: &Policy, finder: &Finder, notes: &mut Vec<String>) -> Policy {
    let named: Vec<(usize, &Pattern)> = policy
        .threads
        .iter()
        .enumerate()
        .filter_map(|(index, rule)| Some((index, rule.start.as_ref()?)))
        .collect();
    let fits: Vec<Fits<'_>> = named
        .iter()
        .map(|(_, pattern)| Box::new(|name: &str| pattern.matches_function(name)) as Fits<'_>)
        .collect();
    let wanted: Vec<Wanted<'_>> =
        named.iter().zip(&fits).map(|((_, it), fits)| Wanted::new(it.as_str(), fits)).collect();
    let found = if wanted.is_empty() { Vec::new() } else { finder.find(&wanted) };
    let mut threads = Vec::new();
    for (index, rule) in policy.threads.iter().enumerate() {
        let position = named.iter().position(|(it, _)| *it == index);
        let keys: Vec<Key> = found
            .iter()
            .filter(|it| Some(it.wanted) == position)
            .map(|it| Key {
                start: Where::from(&it.start),
                refine: it.refine.as_ref().map(Where::from),
            })
            .collect();
        if let Some(pattern) = &rule.start
            && keys.is_empty()
        {
            notes.push(format!(
                "policy, line {}: no function in the program or its libraries is called {}",
                rule.line,
                pattern.as_str()
            ));
        }
        let with_key = |key| ThreadRule { start: None, name: None, key: Some(key), ..rule.clone() };
        threads.extend(keys.into_iter().map(with_key));
        threads.push(ThreadRule { start: None, ..rule.clone() });
    }
    Policy { threads, ..policy.clone() }
}

/// What earlier runs learned of the program, and, where stacks are sized, of programs that it may
/// start.
fn history(
    path: &Path,
    build_id: Option<&str>,
    stacks: Stacks,
    notes: &mut Vec<String>,
) -> Vec<Row> {
    let store = match Store::open() {
        Ok(store) => store,
        Err(error) => {
            notes.push(format!("no history: {error}"));
            return Vec::new();
        }
    };
    let own = store.for_executable(&Executable::new(path, build_id));
    let mut rows = match own.load() {
        Ok(loaded) => {
            notes.extend(loaded.trouble);
            loaded.rows
        }
        Err(error) => {
            notes.push(format!("no history: {error}"));
            Vec::new()
        }
    };
    if stacks != Stacks::Observe {
        let others = store.profiles().unwrap_or_default();
        let others = others.iter().filter(|it| it.path() != own.path()).take(PROFILES_MAX);
        rows.extend(others.flat_map(|it| it.rows()));
    }
    rows
}

/// Writes the plan where all processes of the run find it.
fn write(plan: &Plan) -> io::Result<PathBuf> {
    let mut last = io::Error::from(io::ErrorKind::NotFound);
    for folder in FOLDERS {
        remove_left(Path::new(folder));
        // The number means another process in another pid namespace.
        let name = format!("{PREFIX}{}.{}", process::own_namespace(), plan.parent);
        let path = Path::new(folder).join(name);
        match plan.write(&path) {
            Ok(()) => return Ok(path),
            Err(error) => {
                // A full file system may have taken the name and nothing else.
                if error.kind() != io::ErrorKind::AlreadyExists {
                    let _ = fs::remove_file(&path);
                }
                last = io::Error::new(error.kind(), format!("{}: {error}", path.display()));
            }
        }
    }
    Err(last)
}

/// Removes the plans of runs that were killed: ours only, by processes that are no more. One that
/// has our own id is from a process that had it before. Of those of other pid namespaces nothing
/// can be said.
fn remove_left(folder: &Path) {
    let own = rustix::process::getuid().as_raw();
    let own_pid = rustix::process::getpid().as_raw_nonzero().get();
    if !process::are_known() {
        return;
    }
    let prefix = format!("{PREFIX}{}.", process::own_namespace());
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let pid = name.to_str().and_then(|name| name.strip_prefix(&prefix)?.parse::<i32>().ok());
        let is_ours = || entry.metadata().is_ok_and(|it| it.uid() == own && it.is_file());
        if let Some(pid) = pid
            && (pid == own_pid || !process::is_alive(pid, 0))
            && is_ours()
        {
            let _ = fs::remove_file(entry.path());
        }
    }
}
