//! What was found in a library once, kept for the next run: the library is known by its build-id,
//! or, without one, by its file and when that was written.
//!
//! Invariant: a cache that cannot be read, or does not read as it should, is as good as none.
//!
//! One small file per library in `$XDG_CACHE_HOME/heddle/trampolines` or
//! `~/.cache/heddle/trampolines`: a line with the format's version, and a line per trampoline.

use std::fs;
use std::io::Write;
use std::path::PathBuf;

use super::trampoline::Trampoline;

/// Changes with what is searched for, so that older findings are not believed.
const VERSION: &str = "heddle trampolines 3";
const WORDS: [(Trampoline, &str); 3] = [
    (Trampoline::FirstWord, "first"),
    (Trampoline::SecondWord, "second"),
    (Trampoline::Name, "name"),
];

/// The trampolines of the library with this build-id, if it was searched before.
pub fn load(build_id: &str) -> Option<Vec<(u64, Trampoline)>> {
    parse(&fs::read_to_string(file(build_id)?).ok()?)
}

/// Keeps what was found. That it cannot be kept is no loss but of time.
pub fn store(build_id: &str, found: &[(u64, Trampoline)]) {
    let write = || -> Option<()> {
        let path = file(build_id)?;
        let folder = path.parent()?;
        fs::create_dir_all(folder).ok()?;
        let new = folder.join(format!(".{build_id}.{}", std::process::id()));
        let mut file = fs::File::create_new(&new).ok()?;
        let written = file.write_all(render(found).as_bytes());
        match written.and_then(|()| fs::rename(&new, &path)) {
            Ok(()) => Some(()),
            Err(_) => fs::remove_file(&new).ok(),
        }
    };
    let _ = write();
}

fn file(build_id: &str) -> Option<PathBuf> {
    let absolute = |name| std::env::var_os(name).map(PathBuf::from).filter(|it| it.is_absolute());
    let cache = absolute("XDG_CACHE_HOME").or(absolute("HOME").map(|it| it.join(".cache")))?;
    let is_plain = build_id.bytes().all(|byte| byte.is_ascii_hexdigit()) && !build_id.is_empty();
    is_plain.then(|| cache.join("heddle/trampolines").join(build_id))
}

fn render(found: &[(u64, Trampoline)]) -> String {
    let word = |it: &Trampoline| WORDS.iter().find(|(known, _)| known == it).map_or("", |it| it.1);
    let lines = found.iter().map(|(offset, it)| format!("{offset:x} {}\n", word(it)));
    std::iter::once(format!("{VERSION}\n")).chain(lines).collect()
}

fn parse(text: &str) -> Option<Vec<(u64, Trampoline)>> {
    let mut lines = text.lines();
    if lines.next() != Some(VERSION) {
        return None;
    }
    lines
        .map(|line| {
            let (offset, word) = line.split_once(' ')?;
            let (trampoline, _) = WORDS.iter().find(|(_, known)| *known == word)?;
            Some((u64::from_str_radix(offset, 16).ok()?, *trampoline))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_comes_back_and_nothing_else_is_believed() {
        let found = [(0x1a2b, Trampoline::Name), (7, Trampoline::FirstWord)];
        assert_eq!(parse(&render(&found)), Some(found.to_vec()));
        assert_eq!(parse(&render(&[])), Some(Vec::new()));
        for text in ["", "x\n", "heddle trampolines 3\n1 none\n", "heddle trampolines 3\nzz name\n"]
        {
            assert_eq!(parse(text), None, "{text:?}");
        }
        assert_eq!(file("../x"), None);
    }
}
