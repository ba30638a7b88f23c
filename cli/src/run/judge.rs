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
use std::io::{self, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use heddle_preload::plan::Question;
use rustix::net::sockopt::socket_peercred;

use super::tell;
use crate::userlevel::{Inherited, Verdict, at_exec};

/// A process that asks has its question ready.
const QUESTION_TIME_MAX: Duration = Duration::from_secs(1);
/// More kept judgements are of files that are gone, in the main.
const KEPT_MAX: usize = 4096;

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
        let ended = has_ended.clone();
        let answer = move || {
            let mut court = Court::default();
            for stream in listener.incoming() {
                // ORDER: a hint; a question that comes at the same moment may be answered.
                if ended.load(Ordering::Relaxed) {
                    return;
                }
                // One that went away while it waited has got its answer by that.
                let _ = stream.and_then(|stream| court.hear(stream, &ended));
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

/// What tells that a file is the same, unchanged: device, inode, bytes, and when it was changed.
type Identity = (u64, u64, u64, (i64, i64));

fn identity(path: &Path) -> Option<Identity> {
    let meta = fs::metadata(path).ok()?;
    Some((meta.dev(), meta.ino(), meta.len(), (meta.ctime(), meta.ctime_nsec())))
}

/// A verdict, and the files that it is about.
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
struct Court {
    kept: HashMap<Question, Kept>,
    said: HashSet<PathBuf>,
}

impl Court {
    fn hear(&mut self, mut stream: UnixStream, ended: &AtomicBool) -> io::Result<()> {
        let peer = socket_peercred(&stream)?;
        if peer.uid != rustix::process::geteuid() {
            return Ok(());
        }
        stream.set_read_timeout(Some(QUESTION_TIME_MAX))?;
        let question = Question::read(&mut stream)?;
        let verdict = self.judge(&question);
        if ended.load(Ordering::Relaxed) {
            return Ok(());
        }
        stream.write_all(&[u8::from(verdict == Verdict::User)])?;
        if let Verdict::Kernel(why) = verdict
            && self.said.insert(question.path.clone())
        {
            // Without what a path has of "." and doubled slashes.
            let path: PathBuf = question.path.components().collect();
            tell(&format!("{}: threads are kernel threads: {why}", path.display()));
        }
        Ok(())
    }

    fn judge(&mut self, question: &Question) -> Verdict {
        let here = fs::metadata(&question.path).map(|meta| (meta.dev(), meta.ino()));
        // A process with a root, or with mounts, of its own may mean another file.
        if here.ok() != Some(question.file) || !is_the_same_everywhere(question) {
            return Verdict::Left;
        }
        if let Some(kept) = self.kept.get(question).filter(|kept| kept.holds()) {
            return kept.verdict.clone();
        }
        let (verdict, paths) = at_exec(&question.path, &Inherited::from(question));
        let with_identity = |path: PathBuf| {
            let now = identity(&path);
            (path, now)
        };
        let files = paths.into_iter().map(with_identity).collect();
        if self.kept.len() >= KEPT_MAX {
            self.kept.clear();
        }
        self.kept.insert(question.clone(), Kept { verdict: verdict.clone(), files });
        verdict
    }
}

/// Whether the paths mean the same whatever folder a process is in.
fn is_the_same_everywhere(question: &Question) -> bool {
    let lists = question.library_path.as_bytes().split(|byte| matches!(byte, b':' | b';'));
    let mut folders = lists.filter(|folder| !folder.is_empty());
    question.path.is_absolute() && folders.all(|folder| folder[0] == b'/')
}
