//! What a path leads to: a file with its headers ready to send, a redirect, a page or a refusal.
//!
//! Invariant: an entry's block is a complete answer (head, blank line and, for a small file, the
//! body) that differs from the answer of the next second only in the 29 bytes of its date. The
//! body and the validators in its head come from one open file whose identity was the same
//! before and after it was read.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use rustix::io::Errno;

use crate::coding::Coding;
use crate::date;
use crate::listing;
use crate::path::{self, Location};
use crate::root::{Identity, Root, identify};
use crate::rt;
use crate::status::Status;

/// Files up to this length are kept in memory behind their head, and go out in one send.
pub const SMALL_BYTES: u64 = 64 * 1024;
/// A file that changes while it is read is read again so often.
const READ_ATTEMPTS: usize = 3;

const OPENING: &str = "HTTP/1.1 200 OK\r\nServer: Ice\r\nDate: ";

/// What a path leads to, as seen at one second.
#[derive(Debug, Clone)]
pub struct Entry {
    /// The second (since 1970) whose date the blocks carry and at which the file was looked at.
    pub second: u64,
    /// What is there.
    pub found: Found,
}

/// What is there.
#[derive(Debug, Clone)]
pub enum Found {
    /// A regular file.
    File(Box<FileEntry>),
    /// A directory named without its slash: where it is, encoded, with the slash.
    Redirect(Vec<u8>),
    /// A generated page (HTML).
    Page(Arc<Vec<u8>>),
    /// Nothing that may be sent.
    Refused(Status),
}

/// A file and its precompressed siblings.
#[derive(Debug, Clone)]
pub struct FileEntry {
    /// As it is.
    pub plain: Variant,
    /// Its siblings in the order of `Coding::ALL`.
    pub coded: [Option<Variant>; Coding::ALL.len()],
}

/// One representation of a file.
#[derive(Debug, Clone)]
pub struct Variant {
    path: Vec<u8>,
    identity: Identity,
    /// Its strong entity tag, with quotes.
    pub etag: String,
    /// Complete answer to a plain GET; of a large file, only the head.
    block: Vec<u8>,
    /// Where the `Content-Type` line starts in the block.
    type_at: usize,
    /// Where the lines start that every answer about this representation has.
    shared_at: usize,
    /// Where the body starts.
    body_at: usize,
    /// The open file, if the body is not in the block.
    file: Option<Arc<File>>,
}

impl FileEntry {
    /// The representation in a coding, if there is one.
    pub fn coded(&self, coding: Coding) -> Option<&Variant> {
        let at = Coding::ALL.iter().position(|&c| c == coding)?;
        self.coded[at].as_ref()
    }

    /// There is more than one representation.
    pub fn negotiable(&self) -> bool {
        self.coded.iter().any(Option::is_some)
    }

    fn variants(&self) -> impl Iterator<Item = &Variant> {
        std::iter::once(&self.plain).chain(self.coded.iter().flatten())
    }
}

impl Variant {
    /// Length of the representation in bytes.
    pub fn size(&self) -> u64 {
        self.identity.size
    }

    /// When it was modified, in seconds since 1970.
    pub fn modified(&self) -> u64 {
        self.identity.modified.0
    }

    /// The complete answer, or the head of a large one.
    pub fn block(&self) -> &[u8] {
        &self.block
    }

    /// The file to send after the block, if the body is not in it.
    pub fn file(&self) -> Option<&Arc<File>> {
        self.file.as_ref()
    }

    /// The open file is still what the head says. A file in memory cannot change, but sending one
    /// that has become shorter would break off the connection.
    fn intact(&self) -> bool {
        self.file.as_ref().is_none_or(|file| identify(file) == Ok(self.identity))
    }

    /// Head of the block, with its blank line.
    pub fn head(&self) -> &[u8] {
        &self.block[..self.body_at]
    }

    /// The body, if it is in the block.
    pub fn body(&self) -> Option<&[u8]> {
        self.file.is_none().then(|| &self.block[self.body_at..])
    }

    /// The `Content-Type` line, with its line end.
    pub fn type_line(&self) -> &[u8] {
        &self.block[self.type_at..self.shared_at]
    }

    /// Validators, coding and `Vary`, with the blank line.
    pub fn shared_lines(&self) -> &[u8] {
        &self.block[self.shared_at..self.body_at]
    }

    fn set_date(&mut self, date: &[u8; date::LEN]) {
        self.block[OPENING.len()..OPENING.len() + date::LEN].copy_from_slice(date);
    }
}

impl Entry {
    /// Bytes that the entry keeps in memory, for the bound of the cache.
    pub fn weight(&self) -> usize {
        let held = match &self.found {
            Found::File(file) => {
                let held = file.variants().map(|v| v.block.len() + v.path.len() + v.etag.len());
                held.sum::<usize>() + size_of::<FileEntry>()
            }
            Found::Redirect(to) => to.len(),
            Found::Page(page) => page.len(),
            Found::Refused(_) => 0,
        };
        held + size_of::<Entry>()
    }

    /// Open files that the entry keeps.
    pub fn open_files(&self) -> usize {
        match &self.found {
            Found::File(file) => file.variants().filter(|v| v.file.is_some()).count(),
            _ => 0,
        }
    }

    /// May be kept for later requests. What exhaustion caused must not outlive it.
    pub fn cacheable(&self) -> bool {
        match self.found {
            Found::Refused(status) => status == Status::NOT_FOUND || status == Status::FORBIDDEN,
            _ => true,
        }
    }

    /// Is what was found still what is there? Only files can be checked without building anew.
    pub fn still_valid(&self, root: &Root) -> bool {
        let Found::File(file) = &self.found else { return false };
        let same = |v: &Variant| root.identity(&v.path) == Ok(v.identity);
        let unchanged = |(coding, variant): (Coding, &Option<Variant>)| match variant {
            Some(variant) => same(variant),
            None => {
                let sibling = sibling(&file.plain.path, coding);
                !has_siblings(&file.plain.path) || root.identity(&sibling).is_err()
            }
        };
        same(&file.plain) && Coding::ALL.into_iter().zip(&file.coded).all(unchanged)
    }

    /// Are the files that would be sent still what the heads say?
    pub fn intact(&self) -> bool {
        match &self.found {
            Found::File(file) => file.variants().all(Variant::intact),
            _ => true,
        }
    }

    /// Makes the entry one of another second.
    pub fn restamp(&mut self, second: u64) {
        self.second = second;
        if let Found::File(file) = &mut self.found {
            let date = date::format(second);
            file.plain.set_date(&date);
            file.coded.iter_mut().flatten().for_each(|v| v.set_date(&date));
        }
    }

    /// Looks up a location in the root.
    pub fn build(root: &Root, at: &Location, listing: bool, second: u64) -> Entry {
        let found = find(root, at, listing, second);
        Entry { second, found: found.unwrap_or_else(|error| Found::Refused(refusal(error))) }
    }
}

/// The status for a file that cannot be opened.
fn refusal(error: Errno) -> Status {
    match error {
        Errno::NOENT | Errno::NOTDIR | Errno::NAMETOOLONG => Status::NOT_FOUND,
        Errno::ACCESS | Errno::PERM | Errno::XDEV | Errno::LOOP | Errno::NXIO => Status::FORBIDDEN,
        Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::BUSY => Status::UNAVAILABLE,
        _ => Status::INTERNAL_ERROR,
    }
}

fn find(root: &Root, at: &Location, listing: bool, second: u64) -> Result<Found, Errno> {
    let (file, identity) = root.file(&at.path)?;
    if identity.is_dir() {
        return directory(root, at, &file, listing, second);
    }
    if !identity.is_file() {
        return Ok(Found::Refused(Status::FORBIDDEN));
    }
    if at.directory {
        return Ok(Found::Refused(Status::NOT_FOUND));
    }
    file_entry(root, &at.path, file, identity, second)
}

fn directory(
    root: &Root,
    at: &Location,
    dir: &File,
    listing: bool,
    second: u64,
) -> Result<Found, Errno> {
    if !at.directory {
        let mut to = vec![b'/'];
        path::encode(&at.path, &mut to);
        to.push(b'/');
        return Ok(Found::Redirect(to));
    }
    let index = match at.path.is_empty() {
        true => b"index.html".to_vec(),
        false => [&at.path[..], b"/index.html"].concat(),
    };
    match root.file(&index) {
        Ok((file, identity)) if identity.is_file() => {
            file_entry(root, &index, file, identity, second)
        }
        Ok(_) | Err(Errno::NOENT) if listing => {
            Ok(Found::Page(Arc::new(listing::page(dir, &at.path)?)))
        }
        Ok(_) | Err(Errno::NOENT) => Ok(Found::Refused(Status::FORBIDDEN)),
        Err(error) => Err(error),
    }
}

fn sibling(path: &[u8], coding: Coding) -> Vec<u8> {
    [path, coding.suffix().as_bytes()].concat()
}

/// A file that is compressed already has no siblings.
fn has_siblings(path: &[u8]) -> bool {
    !Coding::ALL.iter().any(|c| path.ends_with(c.suffix().as_bytes()))
}

fn file_entry(
    root: &Root,
    path: &[u8],
    file: File,
    identity: Identity,
    second: u64,
) -> Result<Found, Errno> {
    let mut siblings = [None, None, None];
    if has_siblings(path) {
        for (slot, coding) in siblings.iter_mut().zip(Coding::ALL) {
            let name = sibling(path, coding);
            *slot = root.file(&name).ok().filter(|(_, id)| id.is_file()).map(|found| (name, found));
        }
    }
    let vary = siblings.iter().any(Option::is_some);
    let kind = content_type(path);
    let describe = |coding| Description { kind: &kind, coding, vary, second };
    let mut coded = [None, None, None];
    for ((slot, sibling), coding) in coded.iter_mut().zip(siblings).zip(Coding::ALL) {
        if let Some((name, (file, identity))) = sibling {
            // A sibling that cannot be read is no reason to refuse the file itself.
            *slot = variant(name, file, identity, &describe(Some(coding))).ok();
        }
    }
    let plain = variant(path.to_vec(), file, identity, &describe(None))?;
    Ok(Found::File(Box::new(FileEntry { plain, coded })))
}

/// What the head of a variant says beside the file's own facts.
struct Description<'a> {
    kind: &'a str,
    coding: Option<Coding>,
    vary: bool,
    second: u64,
}

fn variant(
    path: Vec<u8>,
    file: File,
    identity: Identity,
    about: &Description<'_>,
) -> Result<Variant, Errno> {
    let (identity, body) = match identity.size <= SMALL_BYTES {
        true => read_small(&file, identity)?,
        false => (identity, None),
    };
    let mut variant = compose(path, identity, about);
    match body {
        Some(body) => variant.block.extend_from_slice(&body),
        None => variant.file = Some(Arc::new(file)),
    }
    variant.block.shrink_to_fit();
    Ok(variant)
}

/// Reads a whole small file such that body and identity belong together. A file that is written
/// all the time, or grows too long meanwhile, is left to be sent from the file itself.
fn read_small(file: &File, mut identity: Identity) -> Result<(Identity, Option<Vec<u8>>), Errno> {
    for _ in 0..READ_ATTEMPTS {
        if identity.size > SMALL_BYTES {
            break;
        }
        let body = read_whole(file, identity.size).map_err(errno)?;
        let after = identify(file)?;
        if after == identity && body.len() as u64 == identity.size {
            return Ok((identity, Some(body)));
        }
        identity = after;
    }
    Ok((identity, None))
}

fn errno(error: io::Error) -> Errno {
    Errno::from_io_error(&error).unwrap_or(Errno::IO)
}

/// Reads from the page cache if everything is there, else off the workers: a disk may take
/// longer than other threads should wait.
fn read_whole(file: &File, size: u64) -> io::Result<Vec<u8>> {
    let mut body = vec![0; size as usize];
    let cached = rustix::io::preadv2(
        file,
        &mut [io::IoSliceMut::new(&mut body)],
        0,
        rustix::io::ReadWriteFlags::NOWAIT,
    );
    if cached == Ok(body.len()) {
        return Ok(body);
    }
    let file = file.try_clone()?;
    rt::blocking(move || {
        let mut filled = 0;
        while filled < body.len() {
            match file.read_at(&mut body[filled..], filled as u64) {
                Ok(0) => break,
                Ok(n) => filled += n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        body.truncate(filled);
        Ok(body)
    })
}

/// Writes the head of a 200 answer.
fn compose(path: Vec<u8>, identity: Identity, about: &Description<'_>) -> Variant {
    let etag = identity.etag();
    let mut block = Vec::with_capacity(512);
    let mut line = |parts: &[&[u8]]| {
        parts.iter().for_each(|part| block.extend_from_slice(part));
        block.len()
    };
    line(&[OPENING.as_bytes(), &date::format(about.second), b"\r\n"]);
    let size = identity.size.to_string();
    let type_at = line(&[b"Content-Length: ", size.as_bytes(), b"\r\n"]);
    let shared_at = line(&[b"Content-Type: ", about.kind.as_bytes(), b"\r\n"]);
    let modified = date::format(identity.modified.0);
    line(&[b"Last-Modified: ", &modified, b"\r\nETag: ", etag.as_bytes(), b"\r\n"]);
    line(&[b"Accept-Ranges: bytes\r\n"]);
    if let Some(coding) = about.coding {
        line(&[b"Content-Encoding: ", coding.name().as_bytes(), b"\r\n"]);
    }
    if about.vary {
        line(&[b"Vary: Accept-Encoding\r\n"]);
    }
    let body_at = line(&[b"\r\n"]);
    Variant { path, identity, etag, block, type_at, shared_at, body_at, file: None }
}

/// The content type by the file's name; text is declared to be UTF-8.
fn content_type(path: &[u8]) -> String {
    let name = path.rsplit(|&b| b == b'/').next().unwrap_or_default();
    let guess = mime_guess::from_path(String::from_utf8_lossy(name).as_ref()).first_raw();
    match guess {
        None => "application/octet-stream".to_owned(),
        Some(kind) if kind.starts_with("text/") => format!("{kind}; charset=utf-8"),
        Some(kind) => kind.to_owned(),
    }
}
