//! Strict overcommit (vm.overcommit_memory = 2) for the time of one measurement.
//!
//! Invariant: the old settings come back when the value is dropped, and also when this process
//! dies: a shell waits for the end of its standard input, which only this process holds open, and
//! writes them back. Where they cannot be written, nothing is changed.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Files, in the order in which they are written back: writing the ratio clears the bytes.
const MODE: &str = "overcommit_memory";
const RATIO: &str = "overcommit_ratio";
const KBYTES: &str = "overcommit_kbytes";

/// Holds the setting.
pub struct StrictOvercommit {
    keeper: Child,
}

impl StrictOvercommit {
    /// Leaves `spare` bytes to be promised to all processes together.
    pub fn begin(folder: &Path, spare: u64) -> Result<Self, String> {
        let read = |name: &str| -> Result<String, String> {
            let file = folder.join(name);
            let text = std::fs::read_to_string(&file);
            text.map(|t| t.trim().to_string()).map_err(|e| format!("{}: {e}", file.display()))
        };
        let (mode, ratio, kbytes) = (read(MODE)?, read(RATIO)?, read(KBYTES)?);
        let kib = committed_kib()? + spare / 1024;
        // Writing what is there shows whether writing is permitted at all.
        write(folder, MODE, &mode)?;
        let size = if kbytes == "0" { (RATIO, ratio) } else { (KBYTES, kbytes) };
        let keeper = keeper(folder, &[(MODE, &mode), (size.0, &size.1)])?;
        let strict = StrictOvercommit { keeper };
        write(folder, KBYTES, &kib.to_string())?;
        write(folder, MODE, "2")?;
        Ok(strict)
    }

    /// Writes the old settings back and says whether that worked.
    pub fn end(mut self) -> Result<(), String> {
        self.restore()
    }

    fn restore(&mut self) -> Result<(), String> {
        let Some(stdin) = self.keeper.stdin.take() else { return Ok(()) };
        drop(stdin);
        match self.keeper.wait() {
            Ok(status) if status.success() => Ok(()),
            _ => Err("vm.overcommit_memory could not be set back: look at it".into()),
        }
    }
}

impl Drop for StrictOvercommit {
    fn drop(&mut self) {
        if let Err(reason) = self.restore() {
            // Nobody else will see it, and it concerns the whole machine.
            let _ = writeln!(std::io::stderr(), "{reason}");
        }
    }
}

/// The shell that writes the settings back.
fn keeper(folder: &Path, settings: &[(&str, &str)]) -> Result<Child, String> {
    let script = "cat >/dev/null; for pair; do printf %s \"${pair#*=}\" >\"${pair%%=*}\" || bad=1; \
                  done; exit ${bad:-0}";
    let file = |name: &str| -> PathBuf { folder.join(name) };
    let pairs = settings.iter().map(|(name, value)| format!("{}={value}", file(name).display()));
    Command::new("/bin/sh")
        .args(["-c", script, "sh"])
        .args(pairs)
        .stdin(Stdio::piped())
        .spawn()
        .map_err(|e| format!("/bin/sh: {e}"))
}

fn write(folder: &Path, name: &str, value: &str) -> Result<(), String> {
    let file = folder.join(name);
    std::fs::write(&file, value).map_err(|e| format!("{} cannot be written: {e}", file.display()))
}

fn committed_kib() -> Result<u64, String> {
    let text = std::fs::read_to_string("/proc/meminfo").map_err(|e| format!("meminfo: {e}"))?;
    let line = text.lines().find_map(|line| line.strip_prefix("Committed_AS:"));
    let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok());
    kib.ok_or_else(|| "meminfo has no Committed_AS".to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder that looks like /proc/sys/vm.
    fn settings(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("heddle-vm-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        for (file, value) in [(MODE, "0\n"), (RATIO, "50\n"), (KBYTES, "0\n")] {
            std::fs::write(folder.join(file), value).unwrap();
        }
        folder
    }

    fn mode(folder: &Path) -> String {
        std::fs::read_to_string(folder.join(MODE)).unwrap().trim().to_string()
    }

    #[test]
    fn is_set_and_set_back() {
        let folder = settings("back");
        let strict = StrictOvercommit::begin(&folder, 1 << 30).unwrap();
        assert_eq!(mode(&folder), "2");
        strict.end().unwrap();
        assert_eq!(mode(&folder), "0");
        let ratio = std::fs::read_to_string(folder.join(RATIO)).unwrap();
        assert_eq!(ratio, "50");
        drop(StrictOvercommit::begin(&folder, 1 << 30).unwrap());
        assert_eq!(mode(&folder), "0");
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn nothing_changes_where_a_setting_is_missing() {
        let folder = settings("missing");
        std::fs::remove_file(folder.join(RATIO)).unwrap();
        assert!(StrictOvercommit::begin(&folder, 1 << 30).is_err());
        assert_eq!(mode(&folder), "0");
        std::fs::remove_dir_all(folder).unwrap();
    }
}
