//! Starts the programs of a bed with their output in a log file. They are identified by a mark in
//! their environment, so that no other process is ever touched.

mod find;

use std::ffi::OsStr;
use std::fmt::Display;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Error, Result, anyhow, bail};
use serde::{Deserialize, Serialize};

use find::end;
pub(crate) use find::end_all;

use crate::wait;

/// The mark: every process of a bed has the bed's id under this name in its environment.
pub(crate) const MARK: &str = "TESTBED_PROCESS_OF";

/// How a program is started. It is saved next to the log, so that the program can be restarted.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Launch {
    pub(crate) bed: String,
    /// The name of the log and the record: `<dir>/<name>.log`, `<dir>/<name>.json`.
    pub(crate) name: String,
    pub(crate) dir: PathBuf,
    pub(crate) program: PathBuf,
    pub(crate) args: Vec<String>,
    /// A command that enters other namespaces and then execs the program, so its pid is the
    /// program's. It is often empty.
    pub(crate) within: Vec<String>,
    /// Whether it is mostly idle, even if other programs of the same name are not.
    pub(crate) waits: bool,
}

/// The record of a started program.
#[derive(Serialize, Deserialize)]
struct Record {
    pid: u32,
    launch: Launch,
}

/// A program that this process has started.
pub(crate) struct Daemon {
    launch: Launch,
    child: Child,
}

impl Launch {
    pub(crate) fn start(self) -> Result<Daemon> {
        self.start_with(&[])
    }

    /// Lets it resolve these names (hosts(5)) instead of the machine's `/etc/hosts`.
    pub(crate) fn find_hosts(&mut self, hosts: &str) -> Result<()> {
        fs::write(self.dir.join(HOSTS), hosts)?;
        self.within.extend(OWN_HOSTS.iter().map(|&word| word.to_owned()));
        Ok(())
    }

    /// A program that is mostly idle needs no second thread, and beds have dozens of such programs on two
    /// cores.
    fn threads(&self) -> Option<(&'static str, &'static str)> {
        const WAITING: [&str; 5] =
            ["etcd", "kube-controller-manager", "kube-proxy", "kube-scheduler", "kubelet"];
        let waits = self.waits || WAITING.contains(&self.name.as_str());
        waits.then_some(("GOMAXPROCS", "1"))
    }

    /// Where tests run, memory is plentiful, but the CPU is not. A bed for measurements uses the
    /// default.
    fn garbage_collection() -> Option<(&'static str, &'static str)> {
        let is_measured = std::env::var_os(crate::programs::OPTIMIZED).is_some();
        (!is_measured).then_some(("GOGC", "400"))
    }

    /// Starts it with additional arguments, this time only; `!--flag` removes the flag.
    pub(crate) fn start_with(self, more: &[&str]) -> Result<Daemon> {
        let log = File::options().create(true).append(true).open(self.log())?;
        let left_out: Vec<_> = more.iter().filter_map(|flag| flag.strip_prefix('!')).collect();
        let name = |arg: &String| arg.split('=').next().unwrap_or_default().to_owned();
        let args = self.args.iter().filter(|arg| !left_out.contains(&name(arg).as_str()));
        let more = more.iter().filter(|flag| !flag.starts_with('!'));
        let mut words = self.within.iter().map(OsStr::new).chain([self.program.as_os_str()]);
        let mut command = Command::new(words.next().unwrap_or_default());
        let child = environment(&mut command, &self.bed)
            .envs(self.threads())
            .envs(Self::garbage_collection())
            .args(words)
            .args(args)
            .args(more)
            .current_dir(&self.dir)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .with_context(|| format!("cannot start: {}", self.program.display()))?;
        let record = Record { pid: child.id(), launch: self.clone() };
        fs::write(record_path(&self.dir, &self.name), serde_json::to_vec_pretty(&record)?)?;
        Ok(Daemon { launch: self, child })
    }

    pub(crate) fn log(&self) -> PathBuf {
        self.dir.join(format!("{}.log", self.name))
    }
}

impl Daemon {
    /// Waits until the program is ready; an error shows the end of its log.
    pub(crate) fn until_ready(&mut self, mut ask: impl FnMut() -> Result<Result<(), String>>) -> Result<()> {
        let what = format!("{} is ready", self.launch.name);
        let ready = wait::until(&what, wait::DEADLINE, || {
            Ok(match self.child.try_wait()? {
                None => ask()?,
                Some(status) => bail!("{} ended: {status}", self.launch.name),
            })
        });
        ready.map_err(|error| self.explain(error))
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// An error with the end of this program's log.
    fn explain(&self, error: impl Display) -> Error {
        let log = self.launch.log();
        anyhow!(
            "{error:#}\n{} says last:\n{}\nthe whole log: {}",
            self.launch.name,
            tail(&log),
            log.display()
        )
    }
}

/// Ends a program, no matter which process started it, and returns the launch that restarts it as
/// it was.
pub(crate) fn stop(dir: &Path, name: &str) -> Result<Launch> {
    let Record { pid, launch } = record(dir, name)?;
    end(pid, &launch.bed)?;
    Ok(launch)
}

/// The recorded process ID of a program of the bed.
pub(crate) fn recorded_pid(dir: &Path, name: &str) -> Result<u32> {
    Ok(record(dir, name)?.pid)
}

fn record(dir: &Path, name: &str) -> Result<Record> {
    let path = record_path(dir, name);
    let bytes = fs::read(&path).with_context(|| format!("never started: {}", path.display()))?;
    Ok(serde_json::from_slice(&bytes)?)
}

/// Sets the environment of a command of the bed `id`. From this process's environment, it gets only
/// what a program needs to run.
pub(crate) fn environment<'a>(command: &'a mut Command, id: &str) -> &'a mut Command {
    command.env_clear();
    with_system_programs(command);
    for name in ["TMPDIR", "RUST_LOG", "RUST_BACKTRACE"] {
        if let Some(value) = std::env::var_os(name) {
            command.env(name, value);
        }
    }
    // It has its own process group: Ctrl-C is for the command, and the bed is then taken down in
    // order.
    std::os::unix::process::CommandExt::process_group(command, 0);
    command.env("NO_COLOR", "1").env(MARK, id)
}

/// Adds the folders where Debian puts ip, nft and runc. A user's PATH does not contain them.
pub(crate) fn with_system_programs(command: &mut Command) -> &mut Command {
    let mut path = std::env::var_os("PATH").unwrap_or_default();
    path.push(":/usr/sbin:/sbin");
    command.env("PATH", path)
}

/// The last lines of a log.
fn tail(log: &Path) -> String {
    let text = fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines = text.lines().collect::<Vec<_>>();
    let last = &lines[lines.len().saturating_sub(15)..];
    last.iter().map(|line| format!("  {line}")).collect::<Vec<_>>().join("\n")
}

const HOSTS: &str = "hosts";
/// Runs the program in a mount namespace in which the `hosts` file in its own folder replaces the
/// machine's.
const OWN_HOSTS: &[&str] =
    &["unshare", "--mount", "sh", "-ec", "mount --bind hosts /etc/hosts; exec \"$@\"", "program"];

fn record_path(dir: &Path, name: &str) -> PathBuf {
    dir.join(format!("{name}.json"))
}
