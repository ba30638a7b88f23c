//! Files with debug information, which distributions keep apart from their programs.
//!
//! Invariant: a file is taken only if its build-id is the module's, or, where there is none, if
//! the module itself names it.

use std::path::{Path, PathBuf};

use object::Object;

use super::image::Image;

/// Where distributions put them.
const ROOT: &str = "/usr/lib/debug";

/// The file with the lines of `module`: itself, if it has them.
pub fn file_of(module: &Image) -> Option<PathBuf> {
    if has_lines(module) {
        return Some(module.path.clone());
    }
    let by_id = module.head.build_id.as_deref().and_then(|id| path_by_id(Path::new(ROOT), id));
    let candidates = by_id.into_iter().chain(by_link(module));
    candidates.into_iter().find(|path| {
        Image::open(path)
            .is_ok_and(|file| file.head.build_id == module.head.build_id && has_lines(&file))
    })
}

/// The file with this build-id, wherever its module went.
pub fn by_id(build_id: &str) -> Option<Image> {
    let image = Image::open(&path_by_id(Path::new(ROOT), build_id)?).ok()?;
    (image.head.build_id.as_deref() == Some(build_id)).then_some(image)
}

fn path_by_id(root: &Path, build_id: &str) -> Option<PathBuf> {
    let (first, rest) = (build_id.get(..2)?, build_id.get(2..)?);
    let sound = build_id.bytes().all(|byte| byte.is_ascii_hexdigit());
    sound.then(|| root.join(".build-id").join(first).join(format!("{rest}.debug")))
}

/// The places where the file that `.gnu_debuglink` names may be.
fn by_link(module: &Image) -> Vec<PathBuf> {
    let link = || {
        let object = module.object().ok()?;
        let (name, _) = object.gnu_debuglink().ok()??;
        let name = Path::new(str::from_utf8(name).ok()?).file_name()?.to_owned();
        let folder = module.path.parent()?.to_owned();
        Some((name, folder))
    };
    let Some((name, folder)) = link() else { return Vec::new() };
    let below_root = Path::new(ROOT).join(folder.strip_prefix("/").unwrap_or(&folder));
    vec![folder.join(&name), folder.join(".debug").join(&name), below_root.join(&name)]
}

fn has_lines(image: &Image) -> bool {
    let Ok(object) = image.object() else { return false };
    object.section_by_name(".debug_line").is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_build_id_is_a_path_and_no_way_out() {
        let path = path_by_id(Path::new("/d"), "ab12").expect("an id");
        assert_eq!(path, Path::new("/d/.build-id/ab/12.debug"));
        assert_eq!(path_by_id(Path::new("/d"), "ab/../../etc"), None);
        assert_eq!(path_by_id(Path::new("/d"), "a"), None);
    }
}
