//! Runs the command line programs: the plugin and kubectl. Each has its own home, cache and
//! environment, so that no test depends on those of another or of the machine.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use tempfile::TempDir;
use testbed::Cluster;

use crate::bed::{bed, kubectl};
use crate::caller::Caller;

/// A program, its caller and its environment.
#[derive(Clone)]
pub struct Tool {
    program: PathBuf,
    leading: Vec<OsString>,
    environment: BTreeMap<OsString, OsString>,
    home: Arc<TempDir>,
    /// This is kept, because the caller's kubeconfig is removed with it.
    caller: Option<Caller>,
}

impl Tool {
    /// The plugin, run by a caller of the host.
    pub fn plugin(program: &Path, caller: &Caller) -> Result<Self> {
        Self::client(program.to_owned(), caller)
    }

    /// The plugin as in a pod of the host: without a kubeconfig, and with a service account's
    /// credential where Kubernetes mounts it. A mount namespace is enough for that.
    pub fn plugin_in_pod(program: &Path, caller: &Caller) -> Result<Self> {
        let host = &bed()?.host;
        let token = caller.token.as_deref().context("the caller has no token")?;
        let tool = Self::new(PathBuf::from("unshare"))?;
        std::fs::write(tool.home().join("token"), token)?;
        std::fs::write(tool.home().join("namespace"), "default")?;
        std::fs::copy(&host.ca_certificate, tool.home().join("ca.crt"))?;
        let (address, port) = host
            .server
            .trim_start_matches("https://")
            .rsplit_once(':')
            .with_context(|| format!("no port in {}", host.server))?;
        let script = "mount -t tmpfs none /run && mkdir -p /run/secrets/kubernetes.io/serviceaccount && \
                      cp token namespace ca.crt /run/secrets/kubernetes.io/serviceaccount/ && exec \"$@\"";
        let program = program.to_str().context("the plugin's path is no text")?;
        Ok(tool
            .with(&["--mount", "--propagation=private", "sh", "-c", script, "sh", program])
            .env("KUBERNETES_SERVICE_HOST", address)
            .env("KUBERNETES_SERVICE_PORT", port))
    }

    /// The plugin, run by the administrator of these clusters; the first is the current context.
    pub fn plugin_at(program: &Path, clusters: &[&Cluster]) -> Result<Self> {
        Ok(Self::new(program.to_owned())?.env("KUBECONFIG", crate::spare_host::kubeconfigs(clusters)?))
    }

    /// Another program that reads `KUBECONFIG`, run by a caller of the host.
    pub fn client(program: PathBuf, caller: &Caller) -> Result<Self> {
        Ok(Self::new(program)?.of(caller))
    }

    /// kubectl at the host, run by a caller of the host.
    pub fn kubectl(caller: &Caller) -> Result<Self> {
        Self::client(kubectl()?, caller)
    }

    /// kubectl at a cluster, run by its administrator.
    pub fn admin(cluster: &Cluster) -> Result<Self> {
        Ok(Self::new(kubectl()?)?.env("KUBECONFIG", &cluster.kubeconfig))
    }

    fn new(program: PathBuf) -> Result<Self> {
        let home = tempfile::tempdir()?;
        // The bed's kubectl is the one that the plugin finds.
        let mut path = bed()?.bin.clone().into_os_string();
        path.push(":");
        path.push(std::env::var_os("PATH").unwrap_or_default());
        let tool = Self {
            program,
            leading: Vec::new(),
            environment: BTreeMap::new(),
            home: Arc::new(home),
            caller: None,
        };
        let home = tool.home().to_owned();
        Ok(tool.env("PATH", path).env("HOME", home))
    }

    fn of(mut self, caller: &Caller) -> Self {
        self.caller = Some(caller.clone());
        self.env("KUBECONFIG", caller.kubeconfig())
    }

    /// With arguments before all others, for example `--cluster=m1`.
    #[must_use]
    pub fn with(mut self, leading: &[&str]) -> Self {
        self.leading.extend(leading.iter().map(OsString::from));
        self
    }

    /// Sets an additional variable, or another value for one.
    #[must_use]
    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.environment.insert(name.into(), value.as_ref().to_owned());
        self
    }

    /// Removes a variable.
    #[must_use]
    pub fn without(mut self, name: &str) -> Self {
        self.environment.remove(OsStr::new(name));
        self
    }

    /// Its home, for files that a test reads or writes there.
    pub fn home(&self) -> &Path {
        self.home.path()
    }

    /// Runs it until it ends.
    pub fn run<S: AsRef<OsStr>>(&self, arguments: &[S]) -> Result<Output> {
        self.run_with_input(arguments, b"")
    }

    /// Runs it until it ends, with something on its standard input.
    pub fn run_with_input<S: AsRef<OsStr>>(&self, arguments: &[S], input: &[u8]) -> Result<Output> {
        let mut running = self.start(arguments)?;
        let mut stdin = running.stdin.take().context("no standard input")?;
        let input = input.to_owned();
        // For a program that does not read all input, its exit code counts, not our broken pipe.
        let writer = std::thread::spawn(move || stdin.write_all(&input));
        let output = running.finish(PATIENCE)?;
        let _ = writer.join();
        Ok(output)
    }

    /// Runs it until it ends, which must be with success, and returns its standard output.
    pub fn ok<S: AsRef<OsStr>>(&self, arguments: &[S]) -> Result<String> {
        self.run(arguments)?.success()
    }

    /// Starts it in the background.
    pub fn start<S: AsRef<OsStr>>(&self, arguments: &[S]) -> Result<Running> {
        let mut command = self.command(arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let described = format!("{command:?}");
        let mut child = command.spawn().with_context(|| format!("cannot start {described}"))?;
        let (sender, events) = channel();
        let sources: [(bool, Option<Box<dyn Read + Send>>); 2] = [
            (true, child.stdout.take().map(|pipe| Box::new(pipe) as _)),
            (false, child.stderr.take().map(|pipe| Box::new(pipe) as _)),
        ];
        for (is_stdout, source) in sources {
            let mut source = source.context("no pipe")?;
            let sender = sender.clone();
            std::thread::spawn(move || {
                let mut buffer = vec![0; 64 * 1024];
                while let Ok(length @ 1..) = source.read(&mut buffer) {
                    if sender.send((is_stdout, buffer[..length].to_vec())).is_err() {
                        break;
                    }
                }
            });
        }
        let stdin = child.stdin.take();
        let tool = self.clone();
        Ok(Running { child, stdin, events, stdout: Vec::new(), stderr: Vec::new(), described, _tool: tool })
    }

    /// The command itself, for a terminal to run.
    pub(crate) fn command<S: AsRef<OsStr>>(&self, arguments: &[S]) -> Command {
        let mut command = Command::new(&self.program);
        command.args(&self.leading).args(arguments).env_clear().envs(&self.environment);
        command.current_dir(self.home());
        command
    }
}

/// A program in the background. It is killed when this is dropped.
pub struct Running {
    child: Child,
    pub stdin: Option<ChildStdin>,
    events: Receiver<(bool, Vec<u8>)>,
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    described: String,
    /// Its home and its caller's kubeconfig must outlive it.
    _tool: Tool,
}

impl Running {
    /// Waits until its standard output contains this.
    pub fn wait_for(&mut self, text: &str, deadline: Duration) -> Result<()> {
        self.wait_until(text, deadline, |stdout, _| contains(stdout, text))
    }

    /// Waits until its output so far is enough.
    pub fn wait_until(
        &mut self,
        what: &str,
        deadline: Duration,
        enough: impl Fn(&[u8], &[u8]) -> bool,
    ) -> Result<()> {
        let begin = Instant::now();
        while !enough(&self.stdout, &self.stderr) {
            let ended = self.receive(deadline.saturating_sub(begin.elapsed()))?;
            ensure!(
                !ended || enough(&self.stdout, &self.stderr),
                "it ended before {what:?}: {}",
                self.told()
            );
        }
        Ok(())
    }

    /// Waits this long, and fails if the program ends.
    pub fn stays(&mut self, duration: Duration) -> Result<()> {
        let begin = Instant::now();
        while begin.elapsed() < duration {
            match self.events.recv_timeout(duration.saturating_sub(begin.elapsed())) {
                Ok((true, bytes)) => self.stdout.extend(bytes),
                Ok((false, bytes)) => self.stderr.extend(bytes),
                Err(RecvTimeoutError::Disconnected) => bail!("it ended by itself: {}", self.told()),
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
        Ok(())
    }

    /// What it has written so far.
    pub fn stdout(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    /// What it has written to its standard error so far.
    pub fn stderr(&self) -> String {
        String::from_utf8_lossy(&self.stderr).into_owned()
    }

    /// Closes its standard input and waits for its end.
    pub fn finish(mut self, deadline: Duration) -> Result<Output> {
        drop(self.stdin.take());
        let begin = Instant::now();
        while !self.receive(deadline.saturating_sub(begin.elapsed()))? {}
        let code = self.child.wait()?.code().unwrap_or(KILLED);
        Ok(Output {
            stdout: std::mem::take(&mut self.stdout),
            stderr: String::from_utf8_lossy(&self.stderr).into_owned(),
            code,
            described: self.described.clone(),
        })
    }

    /// Receives its next output. Returns true if it has closed both its outputs.
    fn receive(&mut self, patience: Duration) -> Result<bool> {
        match self.events.recv_timeout(patience) {
            Ok((true, bytes)) => self.stdout.extend(bytes),
            Ok((false, bytes)) => self.stderr.extend(bytes),
            Err(RecvTimeoutError::Disconnected) => return Ok(true),
            Err(RecvTimeoutError::Timeout) => bail!("it takes too long: {}", self.told()),
        }
        Ok(false)
    }

    fn told(&self) -> String {
        let tail = &self.stdout[self.stdout.len().saturating_sub(2000)..];
        format!(
            "{}\nstdout: {}\nstderr: {}",
            self.described,
            String::from_utf8_lossy(tail),
            String::from_utf8_lossy(&self.stderr)
        )
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The output and the exit code of a program.
pub struct Output {
    pub stdout: Vec<u8>,
    pub stderr: String,
    pub code: i32,
    described: String,
}

impl Output {
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    /// The standard output of a success; anything else is an error with all details.
    pub fn success(self) -> Result<String> {
        ensure!(self.code == 0, "{self:?}");
        Ok(self.text())
    }

    /// The standard error of a failure, which must contain all of these words.
    pub fn failure(self, words: &[&str]) -> Result<String> {
        ensure!(self.code != 0, "it should have failed: {self:?}");
        for word in words {
            ensure!(self.stderr.contains(word), "{word:?} is not said: {self:?}");
        }
        Ok(self.stderr)
    }
}

impl std::fmt::Debug for Output {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let stdout = String::from_utf8_lossy(&self.stdout[..self.stdout.len().min(2000)]);
        write!(f, "exit {}: {}\nstdout: {stdout}\nstderr: {}", self.code, self.described, self.stderr)
    }
}

/// Whether the text is among the bytes.
pub fn contains(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len().max(1)).any(|window| window == text.as_bytes())
}

/// The exit code that is shown for a program that a signal killed.
const KILLED: i32 = -1;

/// How long a program may take on a busy machine. This only ends programs that hang: tests of
/// durations measure them.
const PATIENCE: Duration = Duration::from_secs(600);
