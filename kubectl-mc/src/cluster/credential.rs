//! Runs a credential plugin once for many requests, as client-go does (`client.authentication.k8s.io`),
//! instead of once per kubectl process.

use std::cell::OnceCell;
use std::error::Error;
use std::ffi::OsStr;
use std::io::IsTerminal;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::{SignedDuration, Timestamp};
use kube::client::AuthError;
use kube::config::{AuthInfo, Cluster, ExecConfig, ExecInteractiveMode};
use serde_json::{Value, json};

use crate::argv::Scanned;
use crate::child_output::{LIMIT, output_within};
use crate::cluster::client::ClientError;
use crate::cluster::context::{ClusterContext, User};

/// The flags of kubectl that set a credential, so that kubectl ignores the user's credential plugin.
pub(crate) const CREDENTIAL_FLAGS: &[&str] = &["token", "username", "client-certificate"];

/// The host with the caller's credential, which is obtained on first use.
pub(crate) struct Login<'a> {
    host: &'a ClusterContext,
    scanned: &'a Scanned,
    obtained: OnceCell<ClusterContext>,
}

impl<'a> Login<'a> {
    pub(crate) fn new(host: &'a ClusterContext, scanned: &'a Scanned) -> Self {
        Self { host, scanned, obtained: OnceCell::new() }
    }

    pub(crate) fn host(&self) -> Result<&ClusterContext, ClientError> {
        if let Some(host) = self.obtained.get() {
            return Ok(host);
        }
        let host = obtain_once(self.host.clone(), self.scanned)?;
        Ok(self.obtained.get_or_init(|| host))
    }

    /// The host before the login.
    pub(crate) fn found(&self) -> &ClusterContext {
        self.host
    }

    /// The host, with the credential if it was obtained.
    pub(crate) fn into_host(self) -> ClusterContext {
        self.obtained.into_inner().unwrap_or_else(|| self.host.clone())
    }
}

/// Runs the credential plugin and returns the host with its credential. Without a plugin the host is
/// unchanged.
pub(crate) fn obtain_once(host: ClusterContext, scanned: &Scanned) -> Result<ClusterContext, ClientError> {
    match Plugin::of(&host, scanned) {
        Some(plugin) => Ok(plugin.obtain().map_err(ClientError::Setup)?.used_by(host, plugin.user)),
        None => Ok(host),
    }
}

/// The credential plugin of a user.
pub(crate) struct Plugin {
    user: String,
    exec: ExecConfig,
    cluster: Cluster,
}

impl Plugin {
    /// The plugin that kubectl would run, if any.
    pub(crate) fn of(host: &ClusterContext, scanned: &Scanned) -> Option<Self> {
        let User::Named(named) = &host.user else { return None };
        // kubectl skips the plugin if a flag sets another credential.
        if CREDENTIAL_FLAGS.iter().any(|flag| scanned.value(flag).is_some()) {
            return None;
        }
        let by_flag = scanned.value("user").and_then(OsStr::to_str).map(str::to_owned);
        let user = by_flag.or_else(|| named.clone())?;
        let mut entries = host.kubeconfig.auth_infos.iter().filter(|entry| entry.name == user);
        let exec = entries.find_map(|entry| entry.auth_info.as_ref())?.exec.clone()?;
        Some(Self { user, exec, cluster: host.cluster.clone() })
    }

    /// Identifies a plugin and its input: contexts with equal keys have the same credential.
    pub(crate) fn key(&self) -> String {
        let cluster = self.exec.provide_cluster_info.then(|| cluster_info(&self.cluster));
        json!([self.exec, cluster]).to_string()
    }

    /// Whether the plugin may prompt at the terminal.
    pub(crate) fn may_ask(&self) -> bool {
        self.exec.interactive_mode != Some(ExecInteractiveMode::Never) && std::io::stdin().is_terminal()
    }

    /// Runs the plugin.
    fn obtain(&self) -> Result<Obtained, Box<dyn Error + Send + Sync>> {
        let mut command = command(&self.exec, &self.cluster)?;
        let limit = (!self.may_ask()).then_some(LIMIT);
        let output = output_within(&mut command, limit).map_err(|error| not_started(&self.exec, &error))?;
        self.read(&output)
    }

    /// Runs the plugin beside others. Dropping the future ends the plugin.
    pub(crate) async fn obtain_beside(&self) -> Result<Obtained, Box<dyn Error + Send + Sync>> {
        let command = command(&self.exec, &self.cluster)?;
        let output = tokio::process::Command::from(command).kill_on_drop(true).output().await;
        self.read(&output.map_err(|error| not_started(&self.exec, &error))?)
    }

    /// The result of the work with this plugin. `limit` is the timeout of a plugin that cannot prompt.
    pub(crate) async fn within<T>(
        &self,
        limit: Option<Duration>,
        work: impl Future<Output = T>,
    ) -> Result<T, ClientError> {
        let Some(limit) = limit.filter(|_| !self.may_ask()) else { return Ok(work.await) };
        tokio::time::timeout(limit, work).await.map_err(|_| {
            let seconds = limit.as_secs_f64();
            ClientError::Setup(format!("{} returned nothing within {seconds} s", self.describe()).into())
        })
    }

    /// Parses the `ExecCredential`.
    fn read(&self, output: &Output) -> Result<Obtained, Box<dyn Error + Send + Sync>> {
        let program = self.exec.command.as_deref().unwrap_or_default();
        if !output.status.success() {
            return Err(format!("the credential plugin {program} failed: {}", output.status).into());
        }
        // Error messages omit the output, which may be a credential.
        let answer: Value = serde_json::from_slice(&output.stdout)
            .map_err(|_| format!("the credential plugin {program} returned no ExecCredential"))?;
        let text = |key: &str| answer.pointer(key).and_then(Value::as_str).filter(|text| !text.is_empty());
        let obtained = Obtained {
            token: text("/status/token").map(str::to_owned),
            certificate: text("/status/clientCertificateData").map(|pem| STANDARD.encode(pem)),
            key: text("/status/clientKeyData").map(|pem| STANDARD.encode(pem)),
            expires: text("/status/expirationTimestamp").and_then(|time| time.parse().ok()),
        };
        if obtained.token.is_none() && obtained.certificate.is_none() {
            return Err("the credential plugin returned neither a token nor a certificate".into());
        }
        Ok(obtained)
    }

    /// The command, for messages.
    fn describe(&self) -> String {
        format!("the credential plugin {}", self.exec.command.as_deref().unwrap_or_default())
    }

    /// The name of the user.
    pub(crate) fn user(&self) -> &str {
        &self.user
    }
}

/// A credential from a plugin.
#[derive(Clone)]
pub(crate) struct Obtained {
    token: Option<String>,
    /// The encoding is that of a kubeconfig.
    certificate: Option<String>,
    key: Option<String>,
    expires: Option<Timestamp>,
}

impl Obtained {
    pub(crate) fn is_valid(&self) -> bool {
        is_valid(self.expires)
    }

    /// The host with this credential instead of the user's plugin.
    pub(crate) fn used_by(self, mut host: ClusterContext, user: String) -> ClusterContext {
        let entries = host.kubeconfig.auth_infos.iter_mut().filter(|entry| entry.name == user);
        for entry in entries.filter_map(|entry| entry.auth_info.as_mut()).take(1) {
            entry.exec = None;
            entry.token = self.token.clone().map(Into::into);
            entry.client_certificate_data.clone_from(&self.certificate);
            entry.client_key_data = self.key.clone().map(Into::into);
            let inline = AuthInfo { auth_provider: None, ..entry.clone() };
            host.user = User::Inline(user.clone(), Box::new(inline), self.expires);
        }
        host
    }
}

/// Whether a request may begin with a credential that expires then.
pub(crate) fn is_valid(expires: Option<Timestamp>) -> bool {
    expires.is_none_or(|expires| Timestamp::now() < expires - MARGIN)
}

/// The command that runs a plugin.
fn command(exec: &ExecConfig, cluster: &Cluster) -> Result<Command, Box<dyn Error + Send + Sync>> {
    let program = exec.command.as_deref().unwrap_or_default();
    let terminal = std::io::stdin().is_terminal();
    let mode = exec.interactive_mode.as_ref();
    if mode == Some(&ExecInteractiveMode::Always) && !terminal {
        return Err(format!("the credential plugin {program} needs a terminal").into());
    }
    // Otherwise standard input is the data of the command, which the plugin must not consume.
    let interactive = terminal && mode != Some(&ExecInteractiveMode::Never);
    let version = exec.api_version.as_deref().unwrap_or("client.authentication.k8s.io/v1");
    let mut spec = json!({"interactive": interactive});
    if exec.provide_cluster_info {
        spec["cluster"] = cluster_info(cluster);
    }
    let info = json!({"apiVersion": version, "kind": "ExecCredential", "spec": spec});
    let mut command = Command::new(program);
    command.args(exec.args.iter().flatten()).env("KUBERNETES_EXEC_INFO", info.to_string());
    for variable in exec.env.iter().flatten() {
        if let (Some(name), Some(value)) = (variable.get("name"), variable.get("value")) {
            command.env(name, value);
        }
    }
    command.stdin(if interactive { Stdio::inherit() } else { Stdio::null() }).stderr(Stdio::inherit());
    command.stdout(Stdio::piped());
    Ok(command)
}

/// Explains the failure of a plugin that kube has run. kube's own messages do not name the plugin, or show
/// all of its output.
pub(crate) fn explained(error: &kube::Error, exec: Option<&ExecConfig>) -> Option<String> {
    let (kube::Error::Auth(error), Some(exec)) = (error, exec) else { return None };
    let program = exec.command.as_deref().unwrap_or_default();
    match error {
        AuthError::AuthExecStart(error) => Some(not_started(exec, error)),
        AuthError::AuthExecRun { out, .. } => {
            // Standard error is meant for the user; standard output may be a credential.
            let said = String::from_utf8_lossy(&out.stderr);
            let colon = if said.trim().is_empty() { "" } else { ": " };
            Some(format!("the credential plugin {program} failed: {}{colon}{}", out.status, said.trim()))
        }
        AuthError::AuthExecParse(_) | AuthError::ExecPluginFailed => {
            Some(format!("the credential plugin {program} returned no ExecCredential"))
        }
        _ => None,
    }
}

fn not_started(exec: &ExecConfig, error: &std::io::Error) -> String {
    let program = exec.command.as_deref().unwrap_or_default();
    let hint = exec.install_hint.as_deref().map(|hint| format!("; {}", hint.trim())).unwrap_or_default();
    format!("cannot run the credential plugin {program}: {error}{hint}")
}

/// The content that `provideClusterInfo` requests.
pub(crate) fn cluster_info(cluster: &Cluster) -> Value {
    let mut info = json!({"server": cluster.server});
    let optional = [
        ("tls-server-name", cluster.tls_server_name.clone().map(Value::from)),
        ("insecure-skip-tls-verify", cluster.insecure_skip_tls_verify.map(Value::from)),
        ("certificate-authority-data", authority(cluster).map(Value::from)),
        ("proxy-url", cluster.proxy_url.clone().map(Value::from)),
        ("config", config(cluster)),
    ];
    for (key, value) in optional {
        if let Some(value) = value {
            info[key] = value;
        }
    }
    info
}

fn authority(cluster: &Cluster) -> Option<String> {
    let file = cluster.certificate_authority.as_deref().filter(|file| !file.is_empty());
    let of_file = || Some(STANDARD.encode(std::fs::read(file?).ok()?));
    cluster.certificate_authority_data.clone().or_else(of_file)
}

fn config(cluster: &Cluster) -> Option<Value> {
    let extensions = cluster.extensions.iter().flatten();
    let mut ours = extensions.filter(|extension| extension.name == "client.authentication.k8s.io/exec");
    ours.next().map(|extension| extension.extension.clone())
}

/// A credential is replaced this long before it expires, for clocks that differ.
const MARGIN: SignedDuration = SignedDuration::from_secs(10);
