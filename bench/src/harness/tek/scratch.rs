//! A folder of one run's own: state of profiles, sockets, data, policies. Gone when dropped.
//!
//! Invariant: every user may enter it and none but its owner may write, so that programs which run
//! as an ordinary user find what is laid out for them.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Removed with everything in it when dropped.
pub struct Scratch(PathBuf);

impl Scratch {
    pub fn new(name: &str) -> Result<Self, String> {
        let folder = std::env::temp_dir().join(format!("heddle-{name}-{}", std::process::id()));
        // What a killed run with this process id left behind would blur this one's figures.
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
        open_up(&folder, 0o755)?;
        Ok(Scratch(folder))
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// A new folder in it; what was there under the name is gone.
    pub fn folder(&self, name: &str) -> Result<PathBuf, String> {
        let folder = self.path(name);
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
        open_up(&folder, 0o755)?;
        Ok(folder)
    }

    pub fn write(&self, name: &str, text: &str) -> Result<PathBuf, String> {
        let file = self.path(name);
        fs::write(&file, text).map_err(|e| format!("{}: {e}", file.display()))?;
        open_up(&file, 0o644)?;
        Ok(file)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // A file that cannot be removed must not end a measurement.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Sets the mode whatever the umask is.
pub fn open_up(path: &Path, mode: u32) -> Result<(), String> {
    fs::set_permissions(path, Permissions::from_mode(mode))
        .map_err(|e| format!("{}: {e}", path.display()))
}
