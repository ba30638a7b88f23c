//! Answers the run's processes whether a program that they are about to start may have user-level
//! threads (`preload/c/judge.c` asks).
//!
//! The process starts it then as it would have: only what LD_PRELOAD says depends on the answer.
//!
//! Invariants
//! - Only processes of this user are answered, and only about a file that is the same one here.
//! - A judgement is kept as long as no file has changed that it is about.
//! - Nothing is answered, and nothing said, once the program has ended.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io::{self, Read, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use heddle_preload::plan::Question;
use rustix::net::sockopt::socket_peercred;

use super::tell;
use crate::userlevel::{Inherited, Verdict, at_exec};

/// A process that asks has its question ready: it sends all of it at once.
const QUESTION_TIME_MAX: Duration = Duration::from_millis(250);
/// After a question that could not be taken in, for want of descriptors say.
const PAUSE: Duration = Duration::from_millis(10);
/// More kept judgements are of files that are gone, in the main.
const KEPT_MAX: usize = 512;

/// The thread that answers, until this goes.
pub struct Judge {
    has_ended: Arc<AtomicBool>,
}

impl Judge {
    /// Begins to answer whoever knows the run's plan.
    pub fn start(plan: &Path) -> io::Result<Judge> {
        let address = SocketAddr::from_abstract_name(plan.as_os_str().as_bytes())?;
        let listener = UnixListener::bind_addr(&address)?;
        let has_ended = Arc::new(AtomicBool::new(false));
        let court = Arc::new(Court { has_ended: has_ended.clone(), known: Mutex::default() });
        let answer = move || {
            for stream in listener.incoming() {
                if court.has_ended() {
                    return;
                }
                match stream {
                    // One that went away while it waited has got its answer by that.
                    Ok(stream) => _ = court.hear(stream),
                    Err(_refused) => thread::sleep(PAUSE),
                }
            }
        };
        thread::Builder::new().name("heddle-judge".to_owned()).spawn(answer)?;
        Ok(Judge { has_ended })
    }
}

impl Drop for Judge {
    fn drop(&mut self) {
        self.has_ended.store(true, Ordering::Relaxed);
    }
}

/// Reads until a moment.
struct Until<'a>(&'a UnixStream, Instant);

impl Read for Until<'_> {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        let left = self.1.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.0.set_read_timeout(Some(left))?;
        self.0.read(room)
    }
}

/// What tells that a file is the same, unchanged: device, inode, bytes, and when it was changed.
type Identity = (u64, u64, u64, (i64, i64));

fn identity(path: &Path) -> Option<Identity> {
    let meta = fs::metadata(path).ok()?;
    Some((meta.dev(), meta.ino(), meta.len(), (meta.ctime(), meta.ctime_nsec())))
}

/// A verdict, and the files that it is about.
#[derive(Clone)]
struct Kept {
    verdict: Verdict,
    files: Vec<(PathBuf, Option<Identity>)>,
}

impl Kept {
    fn holds(&self) -> bool {
        self.files.iter().all(|(path, then)| identity(path) == *then)
    }
}

/// What was judged, and said.
#[derive(Default)]
struct Known {
    kept: HashMap<Question, Kept>,
    said: HashSet<PathBuf>,
}

struct Court {
    has_ended: Arc<AtomicBool>,
    known: Mutex<Known>,
}

impl Court {
    /// A hint; a question that comes at the same moment may be answered.
    fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::Relaxed)
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Answers at once what is known; what is not is judged beside the other questions.
    fn hear(self: &Arc<Court>, stream: UnixStream) -> io::Result<()> {
        let peer = socket_peercred(&stream)?;
        if peer.uid != rustix::process::geteuid() {
            return Ok(());
        }
        let question = Question::read(&mut Until(&stream, Instant::now() + QUESTION_TIME_MAX))?;
        let here = fs::metadata(&question.path).map(|meta| (meta.dev(), meta.ino()));
        // A process with a root, or with mounts, of its own may mean another file.
        if here.ok() != Some(question.file) || !is_the_same_everywhere(&question) {
            return self.answer(stream, &question, Verdict::Left);
        }
        let kept = self.known().kept.get(&question).filter(|kept| kept.holds()).cloned();
        if let Some(kept) = kept {
            return self.answer(stream, &question, kept.verdict);
        }
        let court = self.clone();
        let judge = move || {
            let verdict = court.judge(&question);
            let _ = court.answer(stream, &question, verdict);
        };
        thread::Builder::new().name("heddle-judge".to_owned()).spawn(judge)?;
        Ok(())
    }

    fn answer(
        &self,
        mut stream: UnixStream,
        question: &Question,
        verdict: Verdict,
    ) -> io::Result<()> {
        if self.has_ended() {
            return Ok(());
        }
        stream.write_all(&[u8::from(verdict == Verdict::User)])?;
        if let Verdict::Kernel(why) = verdict
            && self.known().said.insert(question.path.clone())
        {
            // Without what a path has of "." and doubled slashes, and of what moves a terminal.
            let path: PathBuf = question.path.components().collect();
            let path = path.to_string_lossy().replace(char::is_control, "?");
            tell(&format!("{path}: threads are kernel threads: {why}"));
        }
        Ok(())
    }

    fn judge(&self, question: &Question) -> Verdict {
        let (verdict, paths) = at_exec(&question.path, &Inherited::from(question));
        // Where there was no room for a descriptor there may be later.
        let Some(paths) = paths else { return verdict };
        let with_identity = |path: PathBuf| {
            let now = identity(&path);
            (path, now)
        };
        let files = paths.into_iter().map(with_identity).collect();
        let mut known = self.known();
        if known.kept.len() >= KEPT_MAX {
            *known = Known::default();
        }
        known.kept.insert(question.clone(), Kept { verdict: verdict.clone(), files });
        verdict
    }
}

/// Whether the paths mean the same whatever folder a process is in.
fn is_the_same_everywhere(question: &Question) -> bool {
    let lists = question.library_path.as_bytes().split(|byte| matches!(byte, b':' | b';'));
    let mut folders = lists.filter(|folder| !folder.is_empty());
    question.path.is_absolute() && folders.all(|folder| folder[0] == b'/')
}
