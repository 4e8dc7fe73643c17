//! Defines the environment variables that the plugin reads, and holds the environment as a value. No other
//! module reads the environment of the process.

mod home_on_windows;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

/// The clusters if no flag chooses any.
pub(crate) const CLUSTER: &str = "KUBECTL_MC_CLUSTER";
/// The host's kubeconfig context without `--context`.
pub(crate) const CONTEXT: &str = "KUBECTL_MC_CONTEXT";
/// The project of the host's hub without `--hub`.
pub(crate) const HUB: &str = "KUBECTL_MC_HUB";
/// The route to members without `--route`.
pub(crate) const ROUTE: &str = "KUBECTL_MC_ROUTE";
/// Whether to refuse every command that may change something.
pub(crate) const READONLY: &str = "KUBECTL_MC_READONLY";
/// The log level of the plugin, as for `-v`.
pub(crate) const LOG: &str = "KUBECTL_MC_LOG";
/// The clusters of a `kubectl mc shell`, for programs in it.
pub(crate) const IN_SHELL: &str = "KUBECTL_MC_SHELL";
/// The time limit of a completion.
pub(crate) const COMPLETION_TIMEOUT: &str = "KUBECTL_MC_COMPLETION_TIMEOUT";
/// The kubectl to run.
pub(crate) const KUBECTL: &str = "KUBECTL_MC_KUBECTL";
/// The kubectl that runs the plugin (set by kubectl 1.37 and later).
pub(crate) const KUBECTL_PATH: &str = "KUBECTL_PATH";
/// Whether commands that the plugin fully supports use direct requests: 0 runs kubectl for all of
/// them; `only`, for tests, never runs kubectl for them.
pub(crate) const DIRECT: &str = "KUBECTL_MC_DIRECT";
/// Rust's own report of a panic.
pub(crate) const RUST_BACKTRACE: &str = "RUST_BACKTRACE";
/// kubectl's list of kubeconfig files.
pub(crate) const KUBECONFIG: &str = "KUBECONFIG";
/// Whether kubectl reads a preferences file.
pub(crate) const KUBECTL_KUBERC: &str = "KUBECTL_KUBERC";
/// kubectl's preferences file.
pub(crate) const KUBERC: &str = "KUBERC";
/// kubectl's cache folder.
pub(crate) const KUBECACHEDIR: &str = "KUBECACHEDIR";
/// The user's cache folder.
pub(crate) const XDG_CACHE_HOME: &str = "XDG_CACHE_HOME";
/// The folder of temporary files.
pub(crate) const TMPDIR: &str = "TMPDIR";
/// The folder of temporary files on Windows.
pub(crate) const TEMP: &str = "TEMP";
/// The user's state folder.
pub(crate) const XDG_STATE_HOME: &str = "XDG_STATE_HOME";
/// The user's configuration folder.
pub(crate) const XDG_CONFIG_HOME: &str = "XDG_CONFIG_HOME";
/// Disables colors, with any value (<https://no-color.org>).
pub(crate) const NO_COLOR: &str = "NO_COLOR";
/// The type of the terminal.
pub(crate) const TERM: &str = "TERM";
/// The user's shell.
pub(crate) const SHELL: &str = "SHELL";
/// The command interpreter of Windows.
pub(crate) const COMSPEC: &str = "ComSpec";
/// The folder of zsh's startup files instead of the home folder.
pub(crate) const ZDOTDIR: &str = "ZDOTDIR";
/// The user's home folder.
pub(crate) const HOME: &str = "HOME";
/// krew's folder.
pub(crate) const KREW_ROOT: &str = "KREW_ROOT";
/// The folders of programs.
pub(crate) const PATH: &str = "PATH";
/// The API server's address, in a pod.
pub(crate) const KUBERNETES_SERVICE_HOST: &str = "KUBERNETES_SERVICE_HOST";
/// The API server's port, in a pod.
pub(crate) const KUBERNETES_SERVICE_PORT: &str = "KUBERNETES_SERVICE_PORT";
/// The pod's namespace, if its manifest sets it; kubectl prefers it to the service account's file.
pub(crate) const POD_NAMESPACE: &str = "POD_NAMESPACE";
/// The request of kubectl to a credential plugin (`client.authentication.k8s.io`).
pub(crate) const KUBERNETES_EXEC_INFO: &str = "KUBERNETES_EXEC_INFO";
/// The proxy for servers with TLS, in Go's order of names.
pub(crate) const HTTPS_PROXY: [&str; 2] = ["HTTPS_PROXY", "https_proxy"];
/// The proxy for servers without TLS.
pub(crate) const HTTP_PROXY: [&str; 2] = ["HTTP_PROXY", "http_proxy"];
/// Servers that are reached without a proxy.
pub(crate) const NO_PROXY: [&str; 2] = ["NO_PROXY", "no_proxy"];

/// The environment. An empty variable counts as absent, as in kubectl.
#[derive(Clone, Debug, Default)]
pub(crate) struct Env(BTreeMap<OsString, OsString>);

impl Env {
    pub(crate) fn from_process() -> Self {
        std::env::vars_os().collect()
    }

    /// The environment with another value of one variable.
    pub(crate) fn with(&self, name: &str, value: &OsStr) -> Self {
        let mut variables = self.0.clone();
        variables.insert(key(OsStr::new(name)).into_owned(), value.to_owned());
        Self(variables)
    }

    pub(crate) fn var(&self, name: &str) -> Option<&OsStr> {
        self.0.get(&*key(OsStr::new(name))).map(OsString::as_os_str).filter(|value| !value.is_empty())
    }

    /// The user's home folder, as kubectl finds it.
    pub(crate) fn home(&self) -> Option<PathBuf> {
        if cfg!(windows) { home_on_windows::home(self) } else { self.var(HOME).map(PathBuf::from) }
    }
}

/// The name under which it is stored. Windows ignores the case of variable names, and calls `PATH`
/// `Path`.
fn key(name: &OsStr) -> Cow<'_, OsStr> {
    if cfg!(windows) { Cow::Owned(name.to_ascii_uppercase()) } else { Cow::Borrowed(name) }
}

impl<K: Into<OsString>, V: Into<OsString>> FromIterator<(K, V)> for Env {
    fn from_iter<T: IntoIterator<Item = (K, V)>>(variables: T) -> Self {
        let entry = |(name, value): (K, V)| (key(&name.into()).into_owned(), value.into());
        Self(variables.into_iter().map(entry).collect())
    }
}
