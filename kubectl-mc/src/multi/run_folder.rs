//! The private folder of one run, for files that must not outlive it. It is deleted when the run ends.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::error::Explain;

/// The folder, until this is dropped.
#[derive(Debug)]
pub(crate) struct RunFolder {
    folder: PathBuf,
}

impl RunFolder {
    /// Makes it in the private folder; those that killed runs have left go first.
    pub(crate) fn make(private: &Path) -> Result<Self, RunFolderError> {
        remove_abandoned(private);
        let folder = private.join(format!("{PREFIX}{}", std::process::id()));
        let made = remove(&folder).and_then(|()| make_private(&folder));
        made.map_err(|source| RunFolderError { path: folder.clone(), source })?;
        Ok(Self { folder })
    }

    /// The folder itself.
    pub(crate) fn path(&self) -> &Path {
        &self.folder
    }

    /// Writes a file that only its owner can read.
    pub(crate) fn write(&self, name: &str, content: &[u8]) -> Result<PathBuf, RunFolderError> {
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

/// Removes the folders of processes that are no more.
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

/// Elsewhere every process counts as alive, so that no running command loses its files.
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
    fn it_is_its_owners_alone_and_gone_with_the_run() {
        let private = tempfile::tempdir().unwrap();
        let run = RunFolder::make(private.path()).unwrap();
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
        let _run = RunFolder::make(private.path()).unwrap();
        assert!(!dead.exists());
        assert!(alive.exists());
    }
}
