//! Manages the private folder of one run, for files that must not outlive it. It is deleted when the run
//! ends.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use crate::cache::create_private;
use crate::error::{Context, Failure};

/// The folder of this run.
#[derive(Debug)]
pub(crate) struct RunFolder {
    private: PathBuf,
    /// Set once the folder exists.
    made: OnceLock<Folder>,
}

impl RunFolder {
    /// A folder inside the private folder, which is created on the first use.
    pub(crate) fn new(private: &Path) -> Self {
        Self { private: private.to_owned(), made: OnceLock::new() }
    }

    /// The folder itself, which is created after those of killed runs are removed.
    pub(crate) fn path(&self) -> Result<&Path, Failure> {
        if let Some(made) = self.made.get() {
            return Ok(&made.path);
        }
        remove_abandoned(&self.private);
        let made = Folder::create(&self.private);
        let made = made.context(|| format!("cannot write {}", self.private.display()))?;
        Ok(&self.made.get_or_init(|| made).path)
    }

    /// Writes a file that only its owner can read.
    pub(crate) fn write(&self, name: &str, content: &[u8]) -> Result<PathBuf, Failure> {
        let path = self.path()?.join(name);
        let written = create_private(&path).and_then(|mut file| file.write_all(content));
        written.context(|| format!("cannot write {}", path.display()))?;
        Ok(path)
    }
}

/// A locked folder, which is deleted on drop. The lock also holds on other machines and in other containers
/// that share the folder, where this run's process id means nothing.
#[derive(Debug)]
struct Folder {
    path: PathBuf,
    _lock: File,
}

impl Folder {
    fn create(private: &Path) -> io::Result<Self> {
        for _ in 0..ATTEMPTS {
            let mut id = [0; 8];
            aws_lc_rs::rand::fill(&mut id).map_err(io::Error::other)?;
            let path = private.join(format!("{PREFIX}{:016x}", u64::from_ne_bytes(id)));
            make_private(&path)?;
            let file = path.join(LOCK);
            let Ok(lock) = create_private(&file) else { continue };
            // If the file system has no locks, no run removes the folder of another one.
            let is_taken = matches!(lock.try_lock(), Err(TryLockError::WouldBlock));
            // Another run may have removed the folder before the lock was held.
            if !is_taken && file.exists() {
                return Ok(Self { path, _lock: lock });
            }
        }
        Err(io::ErrorKind::ResourceBusy.into())
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// Removes the folders whose run has ended without removing them, so that their lock is free.
fn remove_abandoned(private: &Path) {
    let Ok(entries) = fs::read_dir(private) else { return };
    for entry in entries.flatten() {
        if entry.file_name().to_str().is_some_and(|name| name.starts_with(PREFIX))
            && let Ok(lock) = OpenOptions::new().write(true).open(entry.path().join(LOCK))
            && lock.try_lock().is_ok()
        {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(unix)]
fn make_private(folder: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    fs::DirBuilder::new().mode(0o700).create(folder)
}

#[cfg(not(unix))]
fn make_private(folder: &Path) -> io::Result<()> {
    fs::DirBuilder::new().create(folder)
}

const PREFIX: &str = "run-";
const LOCK: &str = "lock";
/// Another run can only interfere in the instant between two system calls.
const ATTEMPTS: usize = 3;

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn folder_is_private_and_removed_after_the_run() {
        let private = tempfile::tempdir().unwrap();
        let run = RunFolder::new(private.path());
        let file = run.write("m1.json", b"secret").unwrap();
        let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&file), mode(file.parent().unwrap())), (0o600, 0o700));
        drop(run);
        assert_eq!(fs::read_dir(private.path()).unwrap().count(), 0);
    }

    #[test]
    fn next_run_removes_leftovers_of_a_killed_one() {
        let private = tempfile::tempdir().unwrap();
        let killed = private.path().join("run-1");
        fs::create_dir(&killed).unwrap();
        fs::write(killed.join(LOCK), "").unwrap();
        // This simulates another machine, where process ids have no meaning.
        let other = RunFolder::new(private.path());
        let file = other.write("m1.json", b"").unwrap();
        assert!(!killed.exists());
        fs::create_dir(&killed).unwrap();
        fs::write(killed.join(LOCK), "").unwrap();
        let run = RunFolder::new(private.path());
        assert!(killed.exists(), "nothing is made or removed before it is needed");
        run.write("m1.json", b"").unwrap();
        assert!(!killed.exists());
        assert!(file.exists(), "the folder of a running command stays");
    }
}
