//! A second sidecar beside the bed's, with flags of its own: for what a flag changes, and for what
//! only a process that ends can show.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;
use testbed::Sidecar;

use crate::bed::sidecar;
use crate::http1::plain_get;
use crate::wait::{SOON, eventually};

/// A sidecar that is ready, until it is let go.
pub struct Beside {
    pub sidecar: Sidecar,
    process: Child,
    _folder: TempDir,
}

impl Beside {
    /// The bed's sidecar once more, on ports of its own, with these flags added.
    pub fn start(flags: &[&str]) -> Result<Self> {
        let original = sidecar()?;
        let of_process = |what: &str| format!("/proc/{}/{what}", original.pid);
        let line = std::fs::read(of_process("cmdline"))?;
        let line: Vec<_> = line.split(|byte| *byte == 0).map(String::from_utf8_lossy).collect();
        let kept =
            |word: &&str| !["--secure-port=", "--admin-bind-address="].iter().any(|p| word.starts_with(p));
        let address = original.admin.trim_start_matches("http://");
        let (address, _) = address.rsplit_once(':').context("no port")?;
        let folder = tempfile::tempdir()?;
        let log = folder.path().join("log");
        let process = Command::new(std::fs::read_link(of_process("exe"))?)
            .args(line.iter().skip(1).map(AsRef::as_ref).filter(|word| !word.is_empty()).filter(kept))
            .args(["--secure-port=0", &format!("--admin-bind-address={address}:0"), "--log-format=json"])
            .args(flags)
            .stdin(Stdio::null())
            .stderr(File::create(&log)?)
            .spawn()?;
        let pid = process.id();
        let mut beside = Self { sidecar: Sidecar { log, pid, ..original.clone() }, process, _folder: folder };
        let serving = eventually("the second sidecar serves", SOON, || beside.logged("serving"))?;
        let told = |key: &str| serving[key].as_str().map(str::to_owned).context("no address");
        beside.sidecar.url = format!("https://{}", told("address")?);
        beside.sidecar.admin = format!("http://{}", told("admin_address")?);
        eventually("the second sidecar is ready", SOON, || {
            Ok((plain_get(&beside.sidecar.admin, "/readyz")?.status() == 200).then_some(()))
        })?;
        Ok(beside)
    }

    /// The first line of its log with this message, if there is one.
    pub fn logged(&self, message: &str) -> Result<Option<Value>> {
        let lines = BufReader::new(File::open(&self.sidecar.log)?).lines();
        for line in lines {
            if let Ok(line) = serde_json::from_str::<Value>(&line?)
                && line["message"] == message
            {
                return Ok(Some(line));
            }
        }
        Ok(None)
    }

    /// Tells it to end.
    pub fn terminate(&self) -> Result<()> {
        let pid = Pid::from_raw(i32::try_from(self.process.id())?).context("no pid")?;
        Ok(kill_process(pid, Signal::TERM)?)
    }

    /// Waits until it has ended by itself.
    pub fn ended_within(&mut self, deadline: Duration) -> Result<ExitStatus> {
        eventually("the second sidecar ends", deadline, || Ok(self.process.try_wait()?))
    }

    /// It has ended, and well.
    pub fn ended_well_within(&mut self, deadline: Duration) -> Result<()> {
        let status = self.ended_within(deadline)?;
        ensure!(status.success(), "{status}: {}", std::fs::read_to_string(&self.sidecar.log)?);
        Ok(())
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
