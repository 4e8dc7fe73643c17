//! Finds kubectl, determines its version, and runs it in place of the plugin.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::argv::Scanned;
use crate::cache;
use crate::child_output::output_within;
use crate::env::{self, Env};
use crate::error::{Explain, Hint};
use crate::executable::is_executable;
use crate::exit::ExitStatus;
use crate::foreground;

/// A kubectl on this machine.
#[derive(Clone, Debug)]
pub(crate) struct Kubectl {
    path: PathBuf,
    /// The cache folder, if it is not kubectl's own default.
    cache: Option<PathBuf>,
}

/// The complete input of a kubectl run.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Invocation {
    pub(crate) arguments: Vec<OsString>,
    /// The value of `KUBECONFIG`.
    pub(crate) kubeconfig: OsString,
}

impl Kubectl {
    /// Finds kubectl: `KUBECTL_MC_KUBECTL`, else the kubectl that runs the plugin, else the first in `PATH`.
    pub(crate) fn find(env: &Env) -> Result<Self, KubectlError> {
        // Without a home folder, kubectl would write its cache into the working directory.
        let has_folder = env.home().is_some() || env.var(env::KUBECACHEDIR).is_some();
        let cache = (!has_folder).then(|| cache::temporary(env).join("kube"));
        for name in [env::KUBECTL, env::KUBECTL_PATH] {
            let Some(given) = env.var(name) else { continue };
            return match resolve(given, env) {
                Some(path) => Ok(Self { path, cache }),
                None => Err(KubectlError::NotThere { variable: name, given: given.into() }),
            };
        }
        resolve(OsStr::new(PROGRAM), env).map(|path| Self { path, cache }).ok_or(KubectlError::NotInPath)
    }

    /// Lets kubectl cache in a folder of this run: its cache is keyed by address, and a proxy's
    /// address is new.
    pub(crate) fn cache_in(&mut self, folder: &Path) {
        self.cache = Some(folder.join("kube"));
    }

    /// The program.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The minor version of kubectl 1.x, from [`Self::version`].
    pub(crate) fn minor_version(&self, kubeconfig: &OsStr) -> Result<u32, KubectlError> {
        let version = self.version(kubeconfig)?;
        minor(&version).ok_or_else(|| KubectlError::Version { path: self.path.clone() })
    }

    /// kubectl's `gitVersion`. The kubeconfig is that of the later run, because dispatching kubectls
    /// (gcloud's) choose the real program by the server.
    pub(crate) fn version(&self, kubeconfig: &OsStr) -> Result<String, KubectlError> {
        let mut command = self.command();
        command.args(["version", "--client", "-o", "json"]).env(env::KUBECONFIG, kubeconfig);
        command.stdin(Stdio::null()).stderr(Stdio::null());
        let output = output_within(&mut command, Some(VERSION_LIMIT))
            .map_err(|source| KubectlError::Start { path: self.path.clone(), source })?;
        git_version(&output.stdout).ok_or_else(|| KubectlError::Version { path: self.path.clone() })
    }

    /// Replaces this process with kubectl, so that kubectl owns the terminal, signals, standard
    /// input and exit code. `input` replaces a standard input that the plugin has read.
    #[cfg(unix)]
    pub(crate) fn run(
        &self,
        invocation: Invocation,
        input: Option<File>,
    ) -> Result<ExitStatus, KubectlError> {
        use std::os::unix::process::CommandExt;
        if std::env::split_paths(&invocation.kubeconfig).any(|file| cache::is_copy(&file)) {
            // The copy is deleted after kubectl has ended.
            return self.run_child(invocation, input);
        }
        let source = self.child(invocation).stdin(input.map_or_else(Stdio::inherit, Stdio::from)).exec();
        Err(KubectlError::Start { path: self.path.clone(), source })
    }

    /// Runs kubectl as a child and returns its exit code, because a process cannot replace itself on Windows.
    #[cfg(not(unix))]
    pub(crate) fn run(
        &self,
        invocation: Invocation,
        input: Option<File>,
    ) -> Result<ExitStatus, KubectlError> {
        self.run_child(invocation, input)
    }

    /// Runs kubectl as a child in the foreground.
    pub(crate) fn run_child(
        &self,
        invocation: Invocation,
        input: Option<File>,
    ) -> Result<ExitStatus, KubectlError> {
        let mut child = self.child(invocation);
        child.stdin(input.map_or_else(Stdio::inherit, Stdio::from));
        let status = foreground::run(child)
            .map_err(|source| KubectlError::Start { path: self.path.clone(), source })?;
        Ok(ExitStatus::of_child(foreground::code(status)))
    }

    /// The command for kubectl, as a child or in place of this process.
    pub(crate) fn child(&self, invocation: Invocation) -> Command {
        let Invocation { arguments, kubeconfig } = invocation;
        let mut command = self.command();
        command.args(arguments).env(env::KUBECONFIG, kubeconfig);
        command
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.path);
        if let Some(cache) = &self.cache {
            command.env(env::KUBECACHEDIR, cache);
        }
        #[cfg(unix)]
        // Programs that act as kubectl only under that name (k3s, minikube) check it.
        std::os::unix::process::CommandExt::arg0(&mut command, "kubectl");
        command
    }
}

/// Whether `PATH` has a kubectl plugin for these words: for `a b-c`, kubectl-a-b_c or kubectl-a.
pub(crate) fn has_plugin(scanned: &Scanned, env: &Env) -> bool {
    let mut name = "kubectl".to_owned();
    scanned.plugin_words().any(|word| {
        name = format!("{name}-{}", word.to_string_lossy().replace('-', "_"));
        let mut files = ENDINGS.iter().map(|ending| format!("{name}{ending}"));
        files.any(|file| resolve(OsStr::new(&file), env).is_some())
    })
}

#[cfg(windows)]
const ENDINGS: &[&str] = &[".exe", ".bat", ".cmd", ".com"];
#[cfg(not(windows))]
const ENDINGS: &[&str] = &[""];
#[cfg(windows)]
const PROGRAM: &str = "kubectl.exe";
#[cfg(not(windows))]
const PROGRAM: &str = "kubectl";

/// Enough for a kubectl that starts another one.
const VERSION_LIMIT: Duration = Duration::from_secs(30);

#[derive(Debug, thiserror::Error)]
pub(crate) enum KubectlError {
    #[error("no kubectl in PATH")]
    NotInPath,
    #[error("{variable} names no executable: {}", given.display())]
    NotThere { variable: &'static str, given: PathBuf },
    #[error("cannot start {}", path.display())]
    Start { path: PathBuf, source: io::Error },
    #[error("cannot determine the version of {}, on which the target of --raw depends", path.display())]
    Version { path: PathBuf },
}

impl Explain for KubectlError {
    fn hint(&self) -> Option<Hint> {
        match self {
            Self::NotInPath | Self::NotThere { .. } => {
                Some(format!("install kubectl, or set its path: {}=/path/to/kubectl", env::KUBECTL).into())
            }
            Self::Start { .. } => None,
            Self::Version { .. } => {
                Some(format!("{}=/path/to/kubectl chooses another kubectl", env::KUBECTL).into())
            }
        }
    }

    fn status(&self) -> ExitStatus {
        match self {
            Self::NotInPath | Self::NotThere { .. } => ExitStatus::NoKubectl,
            Self::Start { .. } => ExitStatus::CannotStart,
            Self::Version { .. } => ExitStatus::Failed,
        }
    }
}

/// Returns a path as it is, and looks up a bare name in `PATH`.
fn resolve(program: &OsStr, env: &Env) -> Option<PathBuf> {
    let path = Path::new(program);
    if path.components().count() > 1 {
        return is_executable(path).then(|| path.to_owned());
    }
    in_path(path, env).next()
}

/// All programs of this name in `PATH`, in order. On Windows several file extensions apply.
pub(crate) fn executables(name: &str, env: &Env) -> Vec<PathBuf> {
    let mut all = Vec::new();
    for ending in ENDINGS {
        let name = if name.ends_with(ending) { name.to_owned() } else { format!("{name}{ending}") };
        all.extend(in_path(Path::new(&name), env));
    }
    all
}

fn in_path(name: &Path, env: &Env) -> impl Iterator<Item = PathBuf> {
    let folders = std::env::split_paths(env.var(env::PATH).unwrap_or_default()).collect::<Vec<_>>();
    folders.into_iter().map(move |folder| folder.join(name)).filter(|path| is_executable(path))
}

/// Reads the version from `kubectl version --client -o json`. Uses `gitVersion`, because `minor` may be empty
/// or end in `+`.
fn git_version(version: &[u8]) -> Option<String> {
    let version: serde_json::Value = serde_json::from_slice(version).ok()?;
    Some(version.pointer("/clientVersion/gitVersion")?.as_str()?.to_owned())
}

/// `33` for `v1.33.1` with any suffix.
pub(crate) fn minor(git_version: &str) -> Option<u32> {
    let (major, rest) = git_version.strip_prefix('v')?.split_once('.')?;
    let minor = rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()?;
    (major == "1").then_some(minor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn minor_version_is_read_from_any_build() {
        for (git, expected) in [
            ("v1.33.1", Some(33)),
            ("v1.34.0-rc.1+k3s1", Some(34)),
            ("v1.32.4-dispatcher", Some(32)),
            ("v1.40", Some(40)),
            ("v2.0.0", None),
            ("unknown", None),
        ] {
            let json = format!(r#"{{"clientVersion": {{"gitVersion": "{git}", "minor": "99+"}}}}"#);
            assert_eq!(git_version(json.as_bytes()).as_deref().and_then(minor), expected, "{git}");
        }
        assert_eq!(git_version(b"Client Version: v1.33.1"), None);
    }

    #[test]
    fn missing_kubectl_has_its_own_exit_code() {
        let nowhere = tempfile::tempdir().unwrap();
        let env: Env = [(env::PATH, nowhere.path())].into_iter().collect();
        let error = Kubectl::find(&env).unwrap_err();
        assert_eq!(error.status(), ExitStatus::NoKubectl);
        let env: Env = [(env::KUBECTL, "/nowhere/kubectl")].into_iter().collect();
        let error = Kubectl::find(&env).unwrap_err();
        assert_eq!(error.to_string(), "KUBECTL_MC_KUBECTL names no executable: /nowhere/kubectl");
    }

    /// Tests the Windows code with a Unix program as kubectl.
    #[cfg(unix)]
    #[test]
    fn child_gets_input_and_environment_and_returns_its_code() {
        use std::io::Seek;
        use std::io::Write;
        let kubectl = Kubectl { path: "/bin/sh".into(), cache: None };
        let mut input = tempfile::tempfile().unwrap();
        input.write_all(b"exit 7\n").unwrap();
        input.rewind().unwrap();
        let run = |script: &str, input| {
            let arguments = ["-c", script].map(OsString::from).into();
            kubectl.run_child(Invocation { arguments, kubeconfig: "a:b".into() }, input).unwrap()
        };
        assert_eq!(run("read word code; $word $code", Some(input)), ExitStatus::Child(7));
        assert_eq!(run("test \"$KUBECONFIG\" = a:b", None), ExitStatus::Child(0));
        assert_eq!(run("kill -KILL $$", None), ExitStatus::Child(137));
        let missing = Kubectl { path: "/nowhere/kubectl".into(), cache: None };
        let invocation = Invocation { arguments: Vec::new(), kubeconfig: "a".into() };
        let error = missing.run_child(invocation, None).unwrap_err();
        assert_eq!(error.status(), ExitStatus::CannotStart);
    }

    #[cfg(unix)]
    #[test]
    fn configured_kubectl_precedes_the_caller_and_the_path() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let make = |name: &str, mode| {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, "").unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            path
        };
        make("not-executable/kubectl", 0o644);
        let (asked, caller, in_path) =
            (make("asked", 0o755), make("caller", 0o755), make("bin/kubectl", 0o755));
        let path =
            std::env::join_paths([folder.path().join("not-executable"), folder.path().join("bin")]).unwrap();
        let mut variables = vec![(env::PATH, path)];
        let find = |variables: &[(&str, OsString)]| {
            Kubectl::find(&variables.iter().cloned().collect()).unwrap().path
        };
        assert_eq!(find(&variables), in_path);
        variables.push((env::KUBECTL_PATH, caller.clone().into()));
        assert_eq!(find(&variables), caller);
        variables.push((env::KUBECTL, asked.clone().into()));
        assert_eq!(find(&variables), asked);
    }
}
