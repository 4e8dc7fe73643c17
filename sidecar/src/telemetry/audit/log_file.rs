//! Stores events in a file, one per line (apiserver: `plugin/pkg/audit/log`). A file that would
//! exceed its maximum size is renamed with a timestamp, like lumberjack does
//! (`audit-2026-11-25T03-00-00.000.log`), and old ones are removed. A file that another program
//! moved or deleted is created again.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Context;
use jiff::{Timestamp, ToSpan};
use prometheus_client::metrics::counter::Counter;
use tracing::{error, info, warn};

use super::backend::{Backend, Mode};
use super::event::Format;
use super::queue::{Pace, Queue};

/// Stores events in a file.
#[derive(Clone, Debug)]
pub struct LogConfig {
    /// `None` means standard output.
    pub path: Option<PathBuf>,
    pub format: Format,
    pub mode: Mode,
    pub buffer_size: usize,
    pub rotation: Rotation,
}

/// When a file is rotated, and how long rotated ones are kept; 0 means no limit.
#[derive(Clone, Copy, Debug)]
pub struct Rotation {
    pub max_size_mib: u64,
    pub max_age_days: u32,
    pub max_backups: usize,
}

/// The destination of lines.
enum Output {
    Standard(io::Stdout),
    File(Rotated),
}

/// A file with its rotated ones in the same folder.
struct Rotated {
    path: PathBuf,
    rotation: Rotation,
    file: File,
    size: u64,
    /// The file's identity on disk.
    inode: u64,
    looked: Instant,
}

pub(super) fn start(config: LogConfig, errors: Counter) -> anyhow::Result<Backend> {
    let LogConfig { path, format, mode, buffer_size, rotation } = config;
    let output = match path {
        None => Output::Standard(io::stdout()),
        Some(path) => {
            let named = path.display().to_string();
            Output::File(Rotated::open(path, rotation).with_context(|| format!("cannot open {named}"))?)
        }
    };
    let (backend, queue) = Backend::new(mode, format, buffer_size, PACE, errors.clone());
    // Disks may be slow, so this has its own thread.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    let work = move || runtime.block_on(run(output, &queue, &errors));
    std::thread::Builder::new().name("audit-log".to_owned()).spawn(work)?;
    Ok(backend)
}

async fn run(mut output: Output, queue: &Queue, errors: &Counter) {
    let mut is_failing = false;
    loop {
        let batch = queue.take().await;
        if batch.events.is_empty() {
            batch.ended(true);
            continue;
        }
        let written = output.write(&batch.events);
        match &written {
            Ok(()) if is_failing => {
                info!("audit log is written again");
                is_failing = false;
            }
            Ok(()) => {}
            Err(error) => {
                errors.inc_by(batch.events.len() as u64);
                if !is_failing {
                    error!(%error, "audit log failed: events lost");
                }
                is_failing = true;
            }
        }
        batch.ended(written.is_ok());
    }
}

impl Output {
    fn write(&mut self, events: &[bytes::Bytes]) -> io::Result<()> {
        let mut lines = Vec::with_capacity(events.iter().map(|event| event.len() + 1).sum());
        for event in events {
            lines.extend_from_slice(event);
            lines.push(b'\n');
        }
        match self {
            Self::Standard(output) => output.write_all(&lines).and_then(|()| output.flush()),
            Self::File(file) => file.write(&lines),
        }
    }
}

impl Rotated {
    fn open(path: PathBuf, rotation: Rotation) -> io::Result<Self> {
        let file = open(&path)?;
        let found = file.metadata()?;
        let (size, inode) = (found.len(), found.ino());
        let mut rotated = Self { path, rotation, file, size, inode, looked: Instant::now() };
        if rotated.ends_within_a_line()? {
            rotated.write(b"\n")?;
        }
        Ok(rotated)
    }

    fn write(&mut self, lines: &[u8]) -> io::Result<()> {
        if self.looked.elapsed() >= LOOK_INTERVAL {
            self.looked = Instant::now();
            if fs::metadata(&self.path).map(|found| found.ino()).ok() != Some(self.inode) {
                self.reopen()?;
            }
        }
        let most = self.rotation.max_size_mib.saturating_mul(1024 * 1024);
        if most > 0 && self.size > 0 && self.size + lines.len() as u64 > most {
            self.rotate()?;
        }
        let written = self.file.write_all(lines);
        match written {
            Ok(()) => self.size += lines.len() as u64,
            // The next event must not continue a partial line. The file is shorter if another program
            // truncated it.
            Err(_) => {
                if self.file.metadata().is_ok_and(|found| found.len() > self.size) {
                    let _ = self.file.set_len(self.size);
                }
            }
        }
        written
    }

    fn reopen(&mut self) -> io::Result<()> {
        *self = Self::open(self.path.clone(), self.rotation)?;
        Ok(())
    }

    fn rotate(&mut self) -> io::Result<()> {
        fs::rename(&self.path, self.backup(Timestamp::now()))?;
        self.reopen()?;
        if let Err(error) = self.remove_old(Timestamp::now()) {
            warn!(%error, "old audit logs cannot be removed");
        }
        Ok(())
    }

    fn backup(&self, now: Timestamp) -> PathBuf {
        let (stem, extension) = self.name();
        let time = now.strftime("%Y-%m-%dT%H-%M-%S%.3f");
        self.path.with_file_name(format!("{stem}-{time}{extension}"))
    }

    /// The name of the file, and its extension with the dot.
    fn name(&self) -> (String, String) {
        let text = |part: Option<&std::ffi::OsStr>| part.unwrap_or_default().to_string_lossy().into_owned();
        let extension = text(self.path.extension());
        let extension = if extension.is_empty() { extension } else { format!(".{extension}") };
        (text(self.path.file_stem()), extension)
    }

    fn remove_old(&self, now: Timestamp) -> io::Result<()> {
        let folder = self.path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let (stem, extension) = self.name();
        let mut backups = Vec::new();
        for entry in fs::read_dir(folder.unwrap_or_else(|| Path::new(".")))? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let time = name.strip_prefix(&stem).and_then(|rest| rest.strip_prefix('-'));
            let time = time.and_then(|rest| rest.strip_suffix(&extension)).unwrap_or_default();
            if let Ok(time) = jiff::civil::DateTime::strptime("%Y-%m-%dT%H-%M-%S%.3f", time) {
                backups.push((time, entry.path()));
            }
        }
        backups.sort();
        backups.reverse();
        let Rotation { max_age_days, max_backups, .. } = self.rotation;
        let oldest = now.checked_sub((i64::from(max_age_days) * 24).hours()).unwrap_or(Timestamp::MIN);
        let oldest = oldest.to_zoned(jiff::tz::TimeZone::UTC).datetime();
        for (at, (time, path)) in backups.iter().enumerate() {
            let is_one_too_many = max_backups > 0 && at >= max_backups;
            if is_one_too_many || (max_age_days > 0 && *time < oldest) {
                fs::remove_file(path)?;
            }
        }
        Ok(())
    }

    /// Whether the sidecar was killed in the middle of a line.
    fn ends_within_a_line(&self) -> io::Result<bool> {
        use std::io::{Read, Seek, SeekFrom};
        if self.size == 0 || !self.file.metadata()?.is_file() {
            return Ok(false);
        }
        let mut last = [0];
        let mut file = File::open(&self.path)?;
        file.seek(SeekFrom::End(-1))?;
        file.read_exact(&mut last)?;
        Ok(last != *b"\n")
    }
}

fn open(path: &Path) -> io::Result<File> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    OpenOptions::new().append(true).create(true).mode(0o600).open(path)
}

/// How long an event may wait for other events if no request waits for it, so that a busy sidecar
/// writes them together.
const PACE: Pace = Pace { max_size: 400, max_wait: Duration::from_millis(20) };
/// How often the path is checked for another file.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    fn rotated(folder: &Path, max_backups: usize) -> Rotated {
        let rotation = Rotation { max_size_mib: 1, max_age_days: 0, max_backups };
        Rotated::open(folder.join("audit.log"), rotation).unwrap()
    }

    fn files(folder: &Path) -> Vec<String> {
        let mut names: Vec<_> = fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn full_file_is_rotated_and_the_oldest_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        for backup in
            ["audit-2020-01-01T00-00-00.000.log", "audit-2021-01-01T00-00-00.000.log", "audit-x.log"]
        {
            fs::write(folder.path().join(backup), "old\n").unwrap();
        }
        let mut file = rotated(folder.path(), 2);
        let line = [b"x".repeat(700 * 1024), b"\n".to_vec()].concat();
        file.write(&line).unwrap();
        file.write(&line).unwrap();
        let files = files(folder.path());
        assert_eq!(files.len(), 4, "{files:?}");
        assert!(files[0].starts_with("audit-2021"), "{files:?}");
        assert!(files[1].starts_with("audit-2") && files[1] > files[0], "{files:?}");
        assert_eq!(files[2..], ["audit-x.log", "audit.log"]);
        assert_eq!(fs::read(folder.path().join("audit.log")).unwrap(), line);
        assert_eq!(fs::read(folder.path().join(&files[1])).unwrap(), line);
    }

    #[test]
    fn old_files_are_removed_by_age() {
        let folder = tempfile::tempdir().unwrap();
        for backup in ["audit-2026-11-01T00-00-00.000.log", "audit-2026-11-20T00-00-00.000.log"] {
            fs::write(folder.path().join(backup), "old\n").unwrap();
        }
        let mut file = rotated(folder.path(), 0);
        file.rotation.max_age_days = 7;
        file.remove_old("2026-11-25T03:00:00Z".parse().unwrap()).unwrap();
        assert_eq!(files(folder.path()), ["audit-2026-11-20T00-00-00.000.log", "audit.log"]);
    }

    #[test]
    fn moved_file_is_created_again() {
        let folder = tempfile::tempdir().unwrap();
        let mut file = rotated(folder.path(), 0);
        file.write(b"one\n").unwrap();
        fs::rename(folder.path().join("audit.log"), folder.path().join("moved")).unwrap();
        file.looked = Instant::now().checked_sub(LOOK_INTERVAL).unwrap();
        file.write(b"two\n").unwrap();
        assert_eq!(fs::read_to_string(folder.path().join("audit.log")).unwrap(), "two\n");
        assert_eq!(fs::read_to_string(folder.path().join("moved")).unwrap(), "one\n");
    }

    #[test]
    fn truncated_line_is_not_continued() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("audit.log"), "whole\n{\"cut").unwrap();
        rotated(folder.path(), 0).write(b"next\n").unwrap();
        assert_eq!(fs::read_to_string(folder.path().join("audit.log")).unwrap(), "whole\n{\"cut\nnext\n");
    }

    #[test]
    fn log_is_readable_only_by_its_owner() {
        let folder = tempfile::tempdir().unwrap();
        rotated(folder.path(), 0);
        assert_eq!(fs::metadata(folder.path().join("audit.log")).unwrap().mode() & 0o777, 0o600);
    }

    /// `/dev/full` never has space (full(4)).
    #[tokio::test]
    async fn fault_80_full_disk_is_counted() {
        let errors = Counter::default();
        let config = LogConfig {
            path: Some("/dev/full".into()),
            format: super::super::Format::Json,
            mode: super::super::Mode::BlockingStrict,
            buffer_size: 10,
            rotation: Rotation { max_size_mib: 0, max_age_days: 0, max_backups: 0 },
        };
        let backend = start(config, errors.clone()).unwrap();
        let event = super::super::event::Rendered { json: "{}".into(), legacy: None };
        let until = tokio::time::Instant::now() + Duration::from_secs(60);
        assert!(!backend.begin(Some(&event), until).await.is_stored);
        assert_eq!(errors.get(), 1);
    }
}
