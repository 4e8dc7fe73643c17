//! Locks the user's kubeconfig as client-go does (`FILE.lock`) and replaces it as a whole, with its mode and
//! owner.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::cache::create_private;
use crate::error::{Context, Failure};

/// The locked file. Dropping this value releases the lock.
pub(super) struct LockedFile {
    /// The target of symbolic links, which stay.
    path: PathBuf,
    text: String,
    _lock: Lock,
}

impl LockedFile {
    pub(super) fn open(path: &Path) -> Result<Self, Failure> {
        let read = |error| Failure::new(format!("cannot read {}", path.display())).because(&error);
        let path = fs::canonicalize(path).map_err(read)?;
        let lock = Lock::take(&path)?;
        let text = fs::read_to_string(&path).map_err(read)?;
        Ok(Self { path, text, _lock: lock })
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// Writes a new file and renames it, so that readers never see a partial file.
    pub(super) fn replace(&self, text: &str) -> Result<(), Failure> {
        let temporary = with_ending(&self.path, &format!(".{}.tmp", std::process::id()));
        // A killed process with the same id may have left it.
        let _ = fs::remove_file(&temporary);
        let written = self.write(&temporary, text).and_then(|()| fs::rename(&temporary, &self.path));
        if written.is_err() {
            let _ = fs::remove_file(&temporary);
        }
        written.context(|| format!("cannot write {}", self.path.display()))
    }

    fn write(&self, temporary: &Path, text: &str) -> io::Result<()> {
        let mut file = create_private(temporary)?;
        file.write_all(text.as_bytes())?;
        let metadata = fs::metadata(&self.path)?;
        #[cfg(unix)]
        {
            use std::os::unix::fs::MetadataExt;
            let owner = |metadata: &fs::Metadata| (metadata.uid(), metadata.gid());
            let (uid, gid) = owner(&metadata);
            if owner(&file.metadata()?) != (uid, gid) {
                std::os::unix::fs::fchown(&file, Some(uid), Some(gid))?;
            }
        }
        file.set_permissions(metadata.permissions())?;
        file.sync_all()
    }
}

/// kubectl fails while the lock exists, and the plugin fails while kubectl holds it.
struct Lock(PathBuf);

impl Lock {
    fn take(path: &Path) -> Result<Self, Failure> {
        let lock = with_ending(path, ".lock");
        match create_private(&lock) {
            Ok(_) => Ok(Self(lock)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                let lock = lock.display();
                Err(Failure::new(format!("another program is writing the kubeconfig: {lock} exists"))
                    .with_hint("try again; remove the lock file if no program is running"))
            }
            Err(error) => Err(Failure::new(format!("cannot write {}", path.display())).because(&error)),
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

fn with_ending(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    name.into()
}
