//! The owner of a bed: the process that starts it holds a lock on its folder. The kernel releases
//! the lock no matter how its holder ends. A detached process waits for that lock and then takes
//! the bed down.

use std::fs::{self, File, TryLockError};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::process;
use crate::programs;
use crate::progress::{say, step};
use crate::teardown;

/// A new bed's folder, which this process owns.
pub struct Owner {
    pub id: String,
    pub dir: PathBuf,
    lock: File,
    reaper: Child,
}

impl Owner {
    /// Creates a folder and starts the process that will take its bed down.
    pub fn new() -> Result<Self> {
        let id = format!("mc-{:06x}", RandomState::new().build_hasher().finish() & 0xff_ffff);
        let dir = beds().join(&id);
        fs::create_dir_all(&dir)?;
        let lock = File::create(dir.join(LOCK))?;
        lock.lock()?;
        let mut reaper = Command::new(std::env::current_exe()?);
        reaper.arg("reap").arg(&dir).stdin(Stdio::null()).env_remove(process::MARK);
        std::os::unix::process::CommandExt::process_group(&mut reaper, 0);
        let reaper = reaper.spawn().context("cannot start the process that takes the bed down")?;
        Ok(Self { id, dir, lock, reaper })
    }

    /// Has the bed taken down. The logs are kept if something failed.
    pub fn finish(self, keep_logs: bool) -> Result<()> {
        if !keep_logs {
            File::create(self.dir.join(SUCCESS))?;
        }
        self.release()
    }

    /// Leaves the bed running, for `testbed down`.
    pub fn detach(self) -> Result<()> {
        File::create(self.dir.join(DETACHED))?;
        self.release()
    }

    fn release(mut self) -> Result<()> {
        drop(self.lock);
        let status = self.reaper.wait()?;
        if !status.success() {
            bail!(
                "the bed is not down: {}: {status}: `testbed down {}` tries again",
                self.dir.display(),
                self.id
            );
        }
        Ok(())
    }
}

/// Waits until a bed's owner is gone, and takes the bed down.
pub fn reap(dir: &Path) -> Result<()> {
    let lock = File::open(dir.join(LOCK))?;
    lock.lock()?;
    if dir.join(DETACHED).exists() {
        return Ok(());
    }
    let keep_logs = !dir.join(SUCCESS).exists();
    step("taken down", || teardown::teardown(dir, keep_logs))?;
    if keep_logs {
        say(format_args!("logs are kept until `testbed down`: {}", dir.display()));
    }
    Ok(())
}

/// Takes down one bed, or all beds without an owner.
pub fn down(id: Option<&str>) -> Result<()> {
    let Ok(entries) = fs::read_dir(beds()) else { return Ok(()) };
    let mut found = false;
    for entry in entries {
        let dir = entry?.path();
        let wanted = id.is_none_or(|id| dir.file_name().is_some_and(|name| name == id));
        if wanted && (id.is_some() || is_abandoned(&dir)) {
            found = true;
            teardown::teardown(&dir, false)?;
            say(format_args!("down: {}", dir.display()));
        }
    }
    if let Some(id) = id.filter(|_| !found) {
        bail!("no such bed: {id}");
    }
    Ok(())
}

fn is_abandoned(dir: &Path) -> bool {
    match File::open(dir.join(LOCK)) {
        Ok(lock) => !matches!(lock.try_lock(), Err(TryLockError::WouldBlock)),
        Err(_) => true,
    }
}

/// The folder of all beds. Containerd and kubelet put sockets below it, whose paths must not be long.
fn beds() -> PathBuf {
    let beds = programs::target().join("testbed");
    if beds.as_os_str().len() > LONGEST { std::env::temp_dir().join("kubectl-mc-testbed") } else { beds }
}

const LOCK: &str = "lock";
const SUCCESS: &str = "success";
const DETACHED: &str = "detached";
/// A socket's path has 107 bytes; `/mc-123456/<20 bytes>/node/kubelet/pod-resources/123456.sock` needs 57.
const LONGEST: usize = 50;
