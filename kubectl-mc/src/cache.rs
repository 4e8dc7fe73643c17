//! Manages the private cache folder: `$XDG_CACHE_HOME/kubectl-mc`, else `~/.cache/kubectl-mc`, else
//! a folder for temporary files if the home folder is missing or not writable. Only its owner can
//! read it. The name of an overlay is the hash of its content, so two commands never write
//! different content to one file.

mod run_folder;

use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use aws_lc_rs::digest;

use crate::env::{self, Env};
use crate::error::Failure;
pub(crate) use run_folder::RunFolder;

/// The private folder.
#[derive(Debug)]
pub(crate) struct Cache {
    folder: PathBuf,
}

impl Cache {
    /// Opens the folder, and creates it if necessary.
    pub(crate) fn open(env: &Env) -> Result<Self, Failure> {
        Ok(Self { folder: private_folder(CACHE, env)? })
    }

    /// Opens the folder if it exists.
    pub(crate) fn existing(env: &Env) -> Option<Self> {
        let folder =
            of_user(CACHE, env).into_iter().chain([temporary(env)]).find(|folder| folder.exists())?;
        check_private(&folder, CACHE).ok().map(|()| Self { folder })
    }

    /// The path of the folder, which only its owner can read.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Whether this content is stored and unchanged.
    pub(crate) fn holds(&self, content: &[u8]) -> bool {
        let path = self.path(content);
        is_private_file(&path) && fs::read(&path).is_ok_and(|stored| stored == content)
    }

    /// Stores the content unless it is already stored; returns its path.
    pub(crate) fn store(&self, content: &[u8], now: SystemTime) -> Result<PathBuf, Failure> {
        let path = self.path(content);
        let stored =
            if self.holds(content) { self.touch(&path, now) } else { self.write(&path, content, now) };
        stored.map_err(|error| not_written(&path, CACHE, &error))?;
        Ok(path)
    }

    /// Loads the content stored under a name, unless it is older than the TTL of kubectl's own cache.
    pub(crate) fn load_named(&self, kind: &str, name: &str, now: SystemTime) -> Option<Vec<u8>> {
        let path = self.named_path(kind, name);
        let written = path.metadata().and_then(|metadata| metadata.modified()).ok()?;
        let fresh = now.duration_since(written).is_ok_and(|age| age < NAMED_LIFETIME);
        (fresh && is_private_file(&path)).then(|| fs::read(&path).ok())?
    }

    /// Loads the content with its age, regardless of how old it is.
    pub(crate) fn load_aged(&self, kind: &str, name: &str, now: SystemTime) -> Option<(Vec<u8>, Duration)> {
        let path = self.named_path(kind, name);
        let written = path.metadata().and_then(|metadata| metadata.modified()).ok()?;
        let age = now.duration_since(written).ok()?;
        is_private_file(&path).then(|| fs::read(&path).ok())?.map(|content| (content, age))
    }

    /// Stores content under a name, replacing earlier content; returns its path.
    pub(crate) fn store_named(
        &self,
        kind: &str,
        name: &str,
        content: &[u8],
        now: SystemTime,
    ) -> Result<PathBuf, Failure> {
        let path = self.named_path(kind, name);
        let written = self.write(&path, content, now);
        written.map_err(|error| not_written(&path, CACHE, &error))?;
        Ok(path)
    }

    /// Sets the time of last use, which pruning relies on.
    fn touch(&self, path: &Path, now: SystemTime) -> io::Result<()> {
        OpenOptions::new().write(true).open(path)?.set_modified(now)
    }

    fn write(&self, path: &Path, content: &[u8], now: SystemTime) -> io::Result<()> {
        self.prune(now);
        replace(path, content)
    }

    /// Removes files that were not used for a while. Best effort, because another process may prune in
    /// parallel.
    fn prune(&self, now: SystemTime) {
        let Ok(entries) = fs::read_dir(&self.folder) else { return };
        for entry in entries.flatten() {
            let ours = entry.file_name().to_str().is_some_and(|name| name.ends_with(".json"));
            let used = entry.metadata().and_then(|metadata| metadata.modified());
            let unused = used.is_ok_and(|used| now.duration_since(used).is_ok_and(|age| age > UNUSED));
            if ours && unused {
                let _ = fs::remove_file(entry.path());
            }
        }
    }

    fn path(&self, content: &[u8]) -> PathBuf {
        self.folder.join(format!("{PREFIX}{}.json", hash(content)))
    }

    fn named_path(&self, kind: &str, name: &str) -> PathBuf {
        self.folder.join(format!("{kind}-{}.json", hash(name.as_bytes())))
    }
}

/// Stores an overlay that is never removed: the environment of a shell references it, and without the file
/// kubectl would use the user's current context. Its name is the hash of its content.
pub(crate) fn store_lasting(content: &[u8], env: &Env) -> Result<PathBuf, Failure> {
    let path = state_folder(env)?.join(format!("{LASTING_PREFIX}{}.yaml", hash(content)));
    let is_stored = is_private_file(&path) && fs::read(&path).is_ok_and(|stored| stored == content);
    if !is_stored {
        replace(&path, content).map_err(|error| not_written(&path, STATE, &error))?;
    }
    Ok(path)
}

/// Whether the plugin created the file, in one of its private folders.
pub(crate) fn is_own_file(path: &Path, env: &Env) -> bool {
    if is_copy(path) {
        return false;
    }
    let folders = [CACHE, STATE].into_iter().filter_map(|folder| of_user(folder, env));
    folders.chain([temporary(env)]).any(|folder| path.starts_with(folder))
}

/// Whether the file is the copy of a kubeconfig that came through a pipe. It is deleted when the command ends.
pub(crate) fn is_copy(path: &Path) -> bool {
    path.file_name().and_then(OsStr::to_str).is_some_and(|name| name.starts_with(COPY))
}

/// Prefix of the name of a copy of a kubeconfig that came through a pipe.
pub(crate) const COPY: &str = "kubeconfig-of-a-pipe-";

/// Writes a temporary file, then renames it, so that readers never see a partial file.
pub(crate) fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    let temporary = path.with_extension(format!("{}.tmp", std::process::id()));
    // A killed process with the same id may have left it.
    let _ = fs::remove_file(&temporary);
    let mut file = create_private(&temporary)?;
    let written = file.write_all(content).and_then(|()| fs::rename(&temporary, path));
    if written.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    written
}

/// 128 bits of SHA-256, in hexadecimal.
pub(crate) fn hash(content: &[u8]) -> String {
    let hash = digest::digest(&digest::SHA256, content);
    hash.as_ref().iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}

/// The location of a folder of the plugin: below the folder in the variable, else below one in the
/// home folder (XDG Base Directory Specification).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Base {
    name: &'static str,
    variable: &'static str,
    below_home: &'static str,
}

const CACHE: Base = Base { name: "cache", variable: env::XDG_CACHE_HOME, below_home: ".cache" };
const STATE: Base = Base { name: "state", variable: env::XDG_STATE_HOME, below_home: ".local/state" };
const PREFIX: &str = "overlay-";
const LASTING_PREFIX: &str = "contexts-";
/// The TTL of kubectl's discovery cache.
const NAMED_LIFETIME: Duration = Duration::from_secs(6 * 60 * 60);
/// Long enough for a shell or a watch that still uses an overlay.
const UNUSED: Duration = Duration::from_secs(7 * 24 * 60 * 60);

impl Base {
    fn elsewhere(self) -> String {
        format!("set {} to a private folder", self.variable)
    }
}

fn not_made(folder: &Path, of: Base, error: &io::Error) -> Failure {
    let text = format!("cannot create the {} folder {}", of.name, folder.display());
    Failure::new(text).because(error).with_hint(of.elsewhere())
}

fn not_written(path: &Path, of: Base, error: &io::Error) -> Failure {
    Failure::new(format!("cannot write {}", path.display())).because(error).with_hint(of.elsewhere())
}

/// The folder for the plugin's state, created if necessary.
pub(crate) fn state_folder(env: &Env) -> Result<PathBuf, Failure> {
    private_folder(STATE, env)
}

/// The same folder, if it exists.
pub(crate) fn existing_state_folder(env: &Env) -> Result<Option<PathBuf>, Failure> {
    let found = of_user(STATE, env).into_iter().chain([temporary(env)]).find(|folder| folder.exists());
    found.map(|folder| check_private(&folder, STATE).map(|()| folder)).transpose()
}

/// The plugin's folder below the one in the variable, else below a folder in the home folder.
fn of_user(Base { variable, below_home, .. }: Base, env: &Env) -> Option<PathBuf> {
    let base = match env.var(variable).map(Path::new).filter(|base| base.is_absolute()) {
        Some(base) => base.to_owned(),
        None => env.home()?.join(below_home),
    };
    Some(base.join("kubectl-mc"))
}

/// The folder, or one for temporary files if it is not usable.
fn private_folder(of: Base, env: &Env) -> Result<PathBuf, Failure> {
    let usable = of_user(of, env).filter(|folder| make_private(folder).is_ok() && is_writable(folder));
    let folder = match usable {
        Some(folder) => folder,
        None => {
            let folder = temporary(env);
            make_private(&folder).map_err(|error| not_made(&folder, of, &error))?;
            folder
        }
    };
    check_private(&folder, of).map(|()| folder)
}

/// The user's folder for temporary files.
pub(crate) fn temporary(env: &Env) -> PathBuf {
    let base =
        env.var(env::TMPDIR).or_else(|| env.var(env::TEMP)).map_or_else(|| "/tmp".into(), PathBuf::from);
    #[cfg(unix)]
    return base.join(format!("kubectl-mc-{}", rustix::process::geteuid().as_raw()));
    #[cfg(not(unix))]
    base.join("kubectl-mc")
}

/// The cache folder of kubectl itself: `--cache-dir`, else `KUBECACHEDIR`, else `~/.kube/cache`.
pub(crate) fn of_kubectl(flag: Option<&OsStr>, env: &Env) -> Option<PathBuf> {
    match flag.filter(|flag| !flag.is_empty()).or_else(|| env.var(env::KUBECACHEDIR)) {
        Some(folder) => Some(folder.into()),
        None => Some(env.home()?.join(".kube").join("cache")),
    }
}

/// Whether the file system of an existing folder is writable.
#[cfg(unix)]
fn is_writable(folder: &Path) -> bool {
    rustix::fs::access(folder, rustix::fs::Access::WRITE_OK).is_ok()
}

#[cfg(not(unix))]
fn is_writable(_folder: &Path) -> bool {
    true
}

#[cfg(unix)]
fn make_private(folder: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    match DirBuilder::new().mode(0o700).create(folder) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            DirBuilder::new().recursive(true).mode(0o700).create(folder)
        }
        made => made,
    }
}

#[cfg(not(unix))]
fn make_private(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).create(folder)
}

/// Refuses a folder of another owner, which could contain an overlay that sends the user's credential
/// elsewhere.
#[cfg(unix)]
fn check_private(folder: &Path, of: Base) -> Result<(), Failure> {
    use std::os::unix::fs::MetadataExt;
    let refuse = |reason, remedy: Option<String>| {
        let text = format!("refusing the {} folder {}: {reason}", of.name, folder.display());
        Err(Failure::new(text).with_hint(remedy.unwrap_or_else(|| of.elsewhere())))
    };
    let metadata = fs::symlink_metadata(folder).map_err(|error| not_made(folder, of, &error))?;
    if !metadata.is_dir() {
        return refuse("it is not a folder (symbolic links are not followed)", None);
    }
    if metadata.uid() != rustix::process::geteuid().as_raw() {
        return refuse("it belongs to someone else", None);
    }
    if metadata.mode() & 0o077 != 0 {
        let remedy = format!("chmod 700 {}", folder.display());
        return refuse("other users have access to it", Some(remedy));
    }
    Ok(())
}

/// On other systems the user's profile is private by default.
#[cfg(not(unix))]
fn check_private(_folder: &Path, _of: Base) -> Result<(), Failure> {
    Ok(())
}

/// Whether only the owner can read the file.
#[cfg(unix)]
pub(crate) fn is_private_file(path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_file() && metadata.mode() & 0o777 == 0o600)
}

#[cfg(not(unix))]
pub(crate) fn is_private_file(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_file())
}

/// Opens a file for its owner only, and creates it if necessary.
pub(crate) fn open_private(path: &Path) -> io::Result<File> {
    match create_private(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            OpenOptions::new().write(true).open(path)
        }
        made => made,
    }
}

/// Creates a file for its owner only, which must not exist yet.
#[cfg(unix)]
pub(crate) fn create_private(path: &Path) -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt;
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

/// Creates a file for its owner only, which must not exist yet.
#[cfg(not(unix))]
pub(crate) fn create_private(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).open(path)
}

#[cfg(test)]
#[cfg(unix)]
mod tests;
