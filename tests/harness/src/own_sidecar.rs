//! Runs one test's own sidecar: the bed's program with the bed's credentials on separate ports. It
//! is for tests that would disturb others, and for measurements.

use std::fs::File;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;
use testbed::Sidecar;

use crate::bed::sidecar;
use crate::http1::{Endpoint, plain_get};
use crate::wait::{PACE, SOON, checked_every, eventually};

/// How it differs from the bed's sidecar.
#[derive(Default)]
pub struct Difference<'a> {
    /// Flags after all others.
    pub flags: &'a [&'a str],
    /// Another address of the host; the host's certificate is still verified for its own name.
    pub host: Option<SocketAddr>,
    /// The maximum number of files that it may have open.
    pub open_files: Option<u32>,
    /// The log level (`RUST_LOG`).
    pub log: Option<&'a str>,
    /// A program other than the bed's.
    pub program: Option<&'a Path>,
    /// Another interval for checking whether it is ready, to measure its start.
    pub checked_every: Option<Duration>,
}

/// The process. It is killed when this is dropped.
pub struct OwnSidecar {
    pub sidecar: Sidecar,
    child: Child,
    _folder: TempDir,
}

impl OwnSidecar {
    /// Starts one like the bed's.
    pub fn start() -> Result<Self> {
        Self::with(&Difference::default())
    }

    /// Starts one and waits until it is ready, so that it knows every member that is registered by now.
    pub fn with(difference: &Difference<'_>) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let bed = sidecar()?;
        let mut arguments = arguments(bed.pid)?;
        let own = ["--secure-port=0", "--admin-bind-address=127.0.0.1:0", "--log-format=json"];
        // The bed's own leader is enough for the members of the bed.
        let own = own.iter().chain(&["--controllers="]).filter(|flag| !names(difference.flags, flag));
        let own: Vec<_> = own.chain(difference.flags).map(|&flag| flag.to_owned()).collect();
        let words: Vec<_> = own.iter().map(String::as_str).collect();
        arguments.retain(|word| !names(&words, word));
        let kubeconfig = folder.path().join("kubeconfig");
        if let Some(host) = difference.host {
            let flag = arguments.iter_mut().find(|word| word.starts_with("--kubeconfig="));
            let flag = flag.context("the bed's sidecar has no --kubeconfig")?;
            let original = flag.trim_start_matches("--kubeconfig=");
            std::fs::write(&kubeconfig, elsewhere(&std::fs::read(original)?, host)?)?;
            *flag = format!("--kubeconfig={}", kubeconfig.display());
        }
        arguments.extend(own);
        // A shell is needed to limit the open files of the program that it becomes.
        let limit = difference.open_files.map_or_else(String::new, |files| format!("ulimit -n {files} && "));
        let log = folder.path().join("log");
        let bed_program = PathBuf::from(format!("/proc/{}/exe", bed.pid));
        let child = Command::new("sh")
            .envs(difference.log.map(|log| ("RUST_LOG", log)))
            .args(["-c", &format!("{limit}exec \"$0\" \"$@\"")])
            .arg(difference.program.unwrap_or(&bed_program))
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(&log)?)
            .spawn()?;
        let mut own =
            Self { sidecar: Sidecar { log, pid: child.id(), ..bed.clone() }, child, _folder: folder };
        own.until_ready(difference.checked_every.unwrap_or(PACE))?;
        Ok(own)
    }

    /// Its port, for a client with this certificate.
    pub fn endpoint(&self, certificate: Option<&testbed::ClientCertificate>) -> Result<Endpoint> {
        Endpoint::sidecar(&self.sidecar, certificate)
    }

    pub fn pid(&self) -> u32 {
        self.sidecar.pid
    }

    /// The status of a path on the admin port, for example of a probe.
    pub fn probe(&self, path: &str) -> Result<u16> {
        Ok(plain_get(&self.sidecar.admin, path)?.status())
    }

    /// A metric's value: the sum of all lines that begin with this.
    pub fn metric(&self, line: &str) -> Result<f64> {
        let text = plain_get(&self.sidecar.admin, "/metrics")?.text();
        let values =
            text.lines().filter(|other| other.starts_with(line)).filter_map(|line| line.rsplit(' ').next());
        Ok(values.filter_map(|value| value.parse::<f64>().ok()).sum())
    }

    /// The log so far.
    pub fn log(&self) -> Result<String> {
        Ok(std::fs::read_to_string(&self.sidecar.log)?)
    }

    /// Sends it SIGTERM, as a kubelet does.
    pub fn terminate(&self) -> Result<()> {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw).context("no pid")?;
        Ok(kill_process(pid, Signal::TERM)?)
    }

    /// Kills it.
    pub fn kill(&mut self) -> Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    /// Waits for its end and returns its exit status.
    pub fn ended(&mut self) -> Result<ExitStatus> {
        eventually("the sidecar ends", SOON, || Ok(self.child.try_wait()?))
    }

    fn until_ready(&mut self, pace: Duration) -> Result<()> {
        checked_every(pace, "a sidecar of its own is ready", SOON, || {
            let log = self.log()?;
            if let Some(status) = self.child.try_wait()? {
                // The log contains the reason. Another attempt would not change it.
                return Ok(Some(Err(anyhow::anyhow!("it ended with {status}: {log}"))));
            }
            let serving = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
            let serving = serving.into_iter().find(|line| line["message"] == "serving");
            let serving = serving.with_context(|| format!("it does not serve yet: {log}"))?;
            let address = |name: &str| serving[name].as_str().map(str::to_owned).context("no address");
            self.sidecar.url = format!("https://{}", address("address")?);
            self.sidecar.admin = format!("http://{}", address("admin_address")?);
            ensure!(self.probe("/readyz")? == 200, "it is not ready: {log}");
            Ok(Some(Ok(())))
        })?
    }
}

impl Drop for OwnSidecar {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Whether one of these flags has the same name, with any value.
pub(crate) fn names(flags: &[&str], other: &str) -> bool {
    let name = |flag: &str| flag.split('=').next().map(str::to_owned);
    flags.iter().any(|flag| name(flag) == name(other))
}

/// The arguments that a process was started with.
fn arguments(pid: u32) -> Result<Vec<String>> {
    let line = std::fs::read(PathBuf::from(format!("/proc/{pid}/cmdline")))?;
    let words = line.split(|byte| *byte == 0).filter(|word| !word.is_empty()).skip(1);
    words.map(|word| Ok(String::from_utf8(word.to_vec())?)).collect()
}

/// A kubeconfig whose cluster has another address, but is still verified by its own name.
fn elsewhere(kubeconfig: &[u8], address: SocketAddr) -> Result<String> {
    let mut config: Value = serde_json::from_slice(kubeconfig)?;
    let cluster = &mut config["clusters"][0]["cluster"];
    let server = cluster["server"].as_str().context("no server")?.to_owned();
    let name = server.trim_start_matches("https://").rsplit_once(':').context("no port")?.0.to_owned();
    cluster["tls-server-name"] = name.into();
    cluster["server"] = format!("https://{address}").into();
    Ok(config.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cluster_at_another_address_keeps_its_tls_server_name() {
        let config = br#"{"clusters": [{"cluster": {"server": "https://10.88.0.10:6443"}}]}"#;
        let moved: Value =
            serde_json::from_str(&elsewhere(config, ([127, 0, 0, 1], 7).into()).unwrap()).unwrap();
        let cluster = &moved["clusters"][0]["cluster"];
        assert_eq!(
            (cluster["server"].as_str(), cluster["tls-server-name"].as_str()),
            (Some("https://127.0.0.1:7"), Some("10.88.0.10"))
        );
    }

    #[test]
    fn arguments_of_a_process_are_read() {
        let ours: Vec<String> = std::env::args().skip(1).collect();
        assert_eq!(arguments(std::process::id()).unwrap(), ours);
    }
}
