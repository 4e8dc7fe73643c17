//! Manages the private folder of one run, for files that must not outlive it. It is deleted when the run
//! ends.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use crate::error::Explain;

/// The folder, which is deleted on drop.
#[derive(Debug)]
pub(crate) struct RunFolder {
    folder: PathBuf,
    private: PathBuf,
    /// Set once the folder exists.
    made: OnceLock<()>,
}

impl RunFolder {
    /// A folder inside the private folder, which is created on the first write.
    pub(crate) fn new(private: &Path) -> Self {
        let folder = private.join(format!("{PREFIX}{}", std::process::id()));
        Self { folder, private: private.to_owned(), made: OnceLock::new() }
    }

    /// Creates the folder after it removed those of killed runs.
    fn make(&self) -> Result<(), RunFolderError> {
        if self.made.get().is_some() {
            return Ok(());
        }
        remove_abandoned(&self.private);
        let made = remove(&self.folder).and_then(|()| make_private(&self.folder));
        made.map_err(|source| RunFolderError { path: self.folder.clone(), source })?;
        self.made.get_or_init(|| ());
        Ok(())
    }

    /// The folder itself.
    pub(crate) fn path(&self) -> &Path {
        &self.folder
    }

    /// Writes a file that only its owner can read.
    pub(crate) fn write(&self, name: &str, content: &[u8]) -> Result<PathBuf, RunFolderError> {
        self.make()?;
        let path = self.folder.join(name);
        let written = create_private(&path).and_then(|mut file| file.write_all(content));
        written.map_err(|source| RunFolderError { path: path.clone(), source })?;
        Ok(path)
    }
}

impl Drop for RunFolder {
    fn drop(&mut self) {
        let _ = remove(&self.folder);
    }
}

#[derive(Debug, thiserror::Error)]
#[error("cannot write {}", path.display())]
pub(crate) struct RunFolderError {
    path: PathBuf,
    source: io::Error,
}

impl Explain for RunFolderError {}

/// Removes the folders of processes that no longer exist.
fn remove_abandoned(private: &Path) {
    let Ok(entries) = fs::read_dir(private) else { return };
    for entry in entries.flatten() {
        let id = entry.file_name().to_str().and_then(|name| name.strip_prefix(PREFIX)?.parse::<i32>().ok());
        if id.is_some_and(|id| !is_alive(id)) {
            let _ = remove(&entry.path());
        }
    }
}

#[cfg(unix)]
fn is_alive(id: i32) -> bool {
    rustix::process::Pid::from_raw(id).is_some_and(|id| rustix::process::test_kill_process(id).is_ok())
}

/// On other systems every process counts as alive, so that no running command loses its files.
#[cfg(not(unix))]
fn is_alive(_id: i32) -> bool {
    true
}

fn remove(folder: &Path) -> io::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
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

#[cfg(unix)]
fn create_private(path: &Path) -> io::Result<fs::File> {
    use std::os::unix::fs::OpenOptionsExt;
    fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

#[cfg(not(unix))]
fn create_private(path: &Path) -> io::Result<fs::File> {
    fs::OpenOptions::new().write(true).create_new(true).open(path)
}

const PREFIX: &str = "run-";

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
        // No process can have this id.
        let dead = private.path().join(format!("{PREFIX}{}", i32::MAX));
        fs::create_dir(&dead).unwrap();
        let alive = private.path().join(format!("{PREFIX}1"));
        fs::create_dir(&alive).unwrap();
        let run = RunFolder::new(private.path());
        assert!(dead.exists(), "nothing is made or removed before it is needed");
        run.write("m1.json", b"").unwrap();
        assert!(!dead.exists());
        assert!(alive.exists());
    }
}
