//! Profiles: what the stacks of a program's threads needed in earlier runs.
//!
//! Invariants
//! - A profile is replaced as a whole, by renaming, under a lock: a reader sees the old or the new
//!   one, and no run's merge is lost to another's.
//! - A profile that cannot be read in full is not believed in part: it is kept aside as
//!   `NAME.corrupt` and the history starts anew.
//! - Nothing here is needed for a program to run: every failure is a message.
//!
//! One file per executable, in `$XDG_STATE_HOME/heddle/stacks` or `~/.local/state/heddle/stacks`.
//! An executable is known by its build-id; one without is known by its path, size and time, so
//! that a program that was built anew starts without history (its functions have moved).
//!
//! This is the memory of TEK's Stack Tuner (section IV-B), kept across runs.

mod disk;
mod row;
pub mod text;

use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};
use std::{fmt, io};

use heddle_record::Use;
use serde::Serialize;

use crate::key::{BuildId, Key, path_hash};

pub use row::{RESERVE_BYTES, Row, Sort, TUNED_BYTES_MAX, TUNED_BYTES_MIN, size_of_history};
pub use text::{Content, ROWS_MAX};

/// How the files of profiles end.
const SUFFIX: &str = ".stacks";
/// Most profiles that are kept; the ones that were not changed for longest go.
pub const PROFILES_MAX: usize = 1024;

/// A program file.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize)]
pub struct Executable {
    /// Where it is.
    pub path: String,
    /// Its build-id in lowercase hexadecimal, if it has one.
    pub build_id: Option<String>,
}

impl Executable {
    /// The file at `path` with this build-id.
    pub fn new(path: &Path, build_id: Option<&str>) -> Executable {
        let id = build_id.and_then(BuildId::parse).map(|id| id.to_string());
        Executable { path: path.to_string_lossy().into_owned(), build_id: id }
    }

    /// The name of its profile's file.
    fn file_name(&self) -> String {
        let name = Path::new(&self.path).file_name().unwrap_or_default().to_string_lossy();
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | '+');
        let plain = |c: char| if is_plain(c) { c } else { '_' };
        let name: String = name.chars().map(plain).take(64).collect();
        let name = name.trim_start_matches('.');
        match &self.build_id {
            Some(id) => format!("{name}-{id}{SUFFIX}"),
            None => format!("{name}-path{:016x}{SUFFIX}", self.identity()),
        }
    }

    /// Path, size and time of change.
    fn identity(&self) -> u64 {
        use std::os::unix::fs::MetadataExt;
        let meta = std::fs::metadata(&self.path);
        let state = meta.map_or((0, 0, 0), |meta| (meta.len(), meta.mtime(), meta.mtime_nsec()));
        path_hash(&format!("{}\0{state:?}", self.path))
    }
}

/// Why a profile could not be read, written or removed.
#[derive(Debug)]
pub struct Error {
    doing: &'static str,
    path: PathBuf,
    source: io::Error,
}

impl Error {
    fn new<'a>(doing: &'static str, path: &'a Path) -> impl FnOnce(io::Error) -> Error + 'a {
        move |source| Error { doing, path: path.to_owned(), source }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot {} {}: {}", self.doing, self.path.display(), self.source)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.source)
    }
}

/// All profiles of a user.
#[derive(Clone, Debug)]
pub struct Store {
    dir: PathBuf,
}

impl Store {
    /// The store of this user. Nothing is made or read yet.
    ///
    /// # Errors
    /// If neither XDG_STATE_HOME nor HOME says where it is.
    pub fn open() -> Result<Store, Error> {
        let absolute = |name: &str| {
            std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute())
        };
        let state = absolute("XDG_STATE_HOME")
            .or_else(|| absolute("HOME").map(|home| home.join(".local/state")));
        match state {
            Some(state) => Ok(Store::at(&state.join("heddle/stacks"))),
            None => {
                let message = "neither XDG_STATE_HOME nor HOME names a folder";
                let error = io::Error::new(io::ErrorKind::NotFound, message);
                Err(Error::new("find the stack profiles in", Path::new("heddle/stacks"))(error))
            }
        }
    }

    /// The store in a folder.
    pub fn at(dir: &Path) -> Store {
        Store { dir: dir.to_owned() }
    }

    /// Where it is.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The profile of a program file, whether there is one already or not.
    pub fn for_executable(&self, executable: &Executable) -> Profile {
        Profile {
            dir: self.dir.clone(),
            file: self.dir.join(executable.file_name()),
            executable: executable.clone(),
        }
    }

    /// All profiles that there are, by name of their files.
    ///
    /// # Errors
    /// If the folder exists but cannot be listed.
    pub fn profiles(&self) -> Result<Vec<Profile>, Error> {
        let files = disk::list(&self.dir).map_err(Error::new("list the profiles in", &self.dir))?;
        let profile = |file: PathBuf| {
            let content = disk::read(&file).ok().flatten().and_then(Result::ok);
            let executable = content.map(|content| content.executable).unwrap_or_default();
            Profile { dir: self.dir.clone(), file, executable }
        };
        Ok(files.into_iter().map(profile).collect())
    }

    /// Removes all profiles, those kept aside too, and says how many there were.
    ///
    /// # Errors
    /// The first that cannot be removed.
    pub fn reset(&self) -> Result<usize, Error> {
        disk::remove_all(&self.dir).map_err(Error::new("remove the profiles in", &self.dir))
    }
}

/// What the threads of one kind did in one process of a run.
#[derive(Clone, Copy, Debug)]
pub struct Observation<'a> {
    /// The process's account.
    pub kind: &'a Use,
    /// The start function's name, if symbols told.
    pub name: Option<&'a str>,
}

/// The profile of one program file.
#[derive(Clone, Debug)]
pub struct Profile {
    dir: PathBuf,
    file: PathBuf,
    executable: Executable,
}

/// A profile as it was read.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Loaded {
    /// What is known; empty without history.
    pub rows: Vec<Row>,
    /// Why the history was not believed, for the user: what was wrong and where it is now.
    pub trouble: Option<String>,
}

/// A profile for other programs: `heddle stacks export`.
#[derive(Clone, Debug, Serialize)]
pub struct Export {
    /// Of this format.
    pub version: u32,
    /// Whose threads these are.
    pub executable: Executable,
    /// What is known of them, by name and key.
    pub rows: Vec<ExportRow>,
}

/// A row and the size that `auto` would choose.
#[derive(Clone, Debug, Serialize)]
pub struct ExportRow {
    /// What is known.
    #[serde(flatten)]
    pub row: Row,
    /// What follows, in bytes; none without history.
    pub size_bytes: Option<u32>,
}

impl Profile {
    /// Its file, which need not exist.
    pub fn path(&self) -> &Path {
        &self.file
    }

    /// Whose it is; without a path if it was found in the store but cannot be read.
    pub fn executable(&self) -> &Executable {
        &self.executable
    }

    /// Reads it. A profile that cannot be believed is moved aside and reported as trouble.
    ///
    /// # Errors
    /// If it is there but cannot be read at all.
    pub fn load(&self) -> Result<Loaded, Error> {
        match self.read()? {
            Ok(rows) => Ok(Loaded { rows, trouble: None }),
            // Look again under the lock: only what is really wrong is moved.
            Err(_) => match disk::lock(&self.dir) {
                Ok(_lock) => self.load_locked(),
                Err(_) => Ok(Loaded { rows: Vec::new(), trouble: Some(self.unbelieved()?) }),
            },
        }
    }

    /// What is known, by name and key; empty if nothing is, or nothing can be believed.
    pub fn rows(&self) -> Vec<Row> {
        let mut rows = self.load().map(|loaded| loaded.rows).unwrap_or_default();
        sort(&mut rows);
        rows
    }

    fn read(&self) -> Result<Result<Vec<Row>, String>, Error> {
        let content = disk::read(&self.file).map_err(Error::new("read", &self.file))?;
        Ok(content.unwrap_or_else(|| Ok(Content::default())).map(|content| content.rows))
    }

    fn load_locked(&self) -> Result<Loaded, Error> {
        let problem = match self.read()? {
            Ok(rows) => return Ok(Loaded { rows, trouble: None }),
            Err(problem) => problem,
        };
        let aside = self.file.with_extension("stacks.corrupt");
        let (file, kept) = (self.file.display(), aside.display());
        let trouble = match std::fs::rename(&self.file, &aside) {
            Ok(()) => format!("{file} is ignored and kept as {kept}: {problem}"),
            Err(error) => format!("{file} is ignored: {problem} (moving it aside: {error})"),
        };
        Ok(Loaded { rows: Vec::new(), trouble: Some(trouble) })
    }

    /// The message about a profile that nobody could lock to move it.
    fn unbelieved(&self) -> Result<String, Error> {
        let problem = self.read()?.err().unwrap_or_else(|| "it was being replaced".into());
        Ok(format!("{} is ignored: {problem}", self.file.display()))
    }

    /// Adds what was seen in one run, in all its processes of this executable, and gives the
    /// rows as they are then, with what was wrong with the old ones.
    ///
    /// Kinds that did not say what starts them, or had no thread, are left out.
    ///
    /// # Errors
    /// If the folder cannot be made, locked (for two seconds) or written to.
    pub fn merge(&self, seen: &[Observation]) -> Result<Loaded, Error> {
        disk::make_dir(&self.dir).map_err(Error::new("make", &self.dir))?;
        let _lock = disk::lock(&self.dir).map_err(Error::new("lock", &self.dir))?;
        let mut loaded = self.load_locked()?;
        merge_rows(&mut loaded.rows, seen, now_s());
        self.write_locked(&loaded.rows)?;
        Ok(loaded)
    }

    fn write_locked(&self, rows: &[Row]) -> Result<(), Error> {
        let content = Content { executable: self.executable.clone(), rows: rows.to_vec() };
        let is_new = !self.file.exists();
        disk::replace(&self.file, &text::render(&content))
            .map_err(Error::new("write", &self.file))?;
        if is_new {
            // That old profiles stay is no reason to fail.
            let _ = disk::remove_oldest(&self.dir, PROFILES_MAX);
        }
        Ok(())
    }

    /// Forgets one kind of thread, or all; says whether there was anything to forget.
    ///
    /// # Errors
    /// If the folder cannot be locked or written to.
    pub fn reset(&self, key: Option<&Key>) -> Result<bool, Error> {
        if !self.file.exists() {
            return Ok(false);
        }
        let _lock = disk::lock(&self.dir).map_err(Error::new("lock", &self.dir))?;
        let Some(key) = key else {
            std::fs::remove_file(&self.file).map_err(Error::new("remove", &self.file))?;
            return Ok(true);
        };
        let mut rows = self.load_locked()?.rows;
        let before = rows.len();
        rows.retain(|row| row.key != *key);
        if rows.len() != before {
            self.write_locked(&rows)?;
        }
        Ok(rows.len() != before)
    }

    /// Everything, for other programs.
    ///
    /// # Errors
    /// As [`Profile::load`].
    pub fn export(&self) -> Result<Export, Error> {
        let mut rows = self.load()?.rows;
        sort(&mut rows);
        let size = |row: Row| ExportRow { size_bytes: row.size_for(), row };
        let rows = rows.into_iter().map(size).collect();
        Ok(Export { version: text::VERSION, executable: self.executable.clone(), rows })
    }
}

fn sort(rows: &mut [Row]) {
    rows.sort_by(|one, two| (&one.name, one.key).cmp(&(&two.name, two.key)));
}

/// Adds one run's observations; the kinds that were not seen for longest go beyond [`ROWS_MAX`].
fn merge_rows(rows: &mut Vec<Row>, seen: &[Observation], now: u64) {
    let mut counted = std::collections::HashSet::new();
    let mut places: std::collections::HashMap<Key, usize> =
        rows.iter().enumerate().map(|(index, row)| (row.key, index)).collect();
    for Observation { kind, name } in seen {
        // Without a thread there is nothing to know. (Kinds whose threads were all renamed into
        // other kinds are left behind so.)
        let Some(key) = Key::of_use(kind).filter(|_| kind.created > 0) else { continue };
        let index = *places.entry(key).or_insert_with(|| {
            rows.push(Row::new(key, now));
            rows.len() - 1
        });
        let row = &mut rows[index];
        row.add(kind, *name, now);
        if counted.insert(key) {
            row.runs = row.runs.saturating_add(1);
        }
    }
    rows.sort_by_key(|row| std::cmp::Reverse(row.last_seen));
    rows.truncate(ROWS_MAX);
}

fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
