//! What is committed is what the definitions of the flags give today.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

type Files = BTreeMap<String, String>;

fn files(dir: &Path) -> Files {
    let entries = std::fs::read_dir(dir).expect("a folder").map(|entry| entry.expect("an entry"));
    let text = |path: &Path| std::fs::read_to_string(path).expect("a text");
    entries
        .map(|entry| (entry.file_name().to_string_lossy().into_owned(), text(&entry.path())))
        .collect()
}

fn generate(kind: &str) -> Files {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(kind);
    let _ = std::fs::remove_dir_all(&dir);
    let heddle = env!("CARGO_BIN_EXE_heddle");
    let status = Command::new(heddle).args(["generate", kind]).arg(&dir).status();
    assert!(status.expect("heddle runs").success());
    files(&dir)
}

#[test]
fn man_pages_and_completions_are_current() {
    for kind in ["man", "completions"] {
        let kept = files(&Path::new(env!("CARGO_MANIFEST_DIR")).join(kind));
        let fresh = generate(kind);
        assert!(!fresh.is_empty());
        let hint = "run `cargo xtask gen`";
        assert!(kept.keys().eq(fresh.keys()), "{kind}: {:?}: {hint}", fresh.keys());
        for (name, text) in fresh {
            assert!(kept[&name] == text, "{name} is out of date: {hint}");
        }
    }
}
