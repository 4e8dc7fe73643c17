//! Runs a credential plugin once for many requests, as client-go does (`client.authentication.k8s.io`),
//! instead of once per kubectl process.

mod cluster_info;
mod command;
mod policy;

use std::cell::OnceCell;
use std::error::Error;
use std::ffi::OsStr;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::{SignedDuration, Timestamp};
use kube::config::{AuthInfo, Cluster, ExecConfig, ExecInteractiveMode};
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Value, json};

pub(crate) use self::cluster_info::cluster_info;
pub(crate) use self::command::CREDENTIAL;
pub(crate) use self::policy::{kuberc, permitted, preferences, without_preferences};
use crate::argv::Scanned;
use crate::child_output::{LIMIT, output_within};
use crate::cluster::client::error::ClientError;
use crate::cluster::client::identity;
use crate::cluster::context::{ClusterContext, User, read_yaml};
use crate::cluster::transport;
use crate::env::Env;
use crate::error::Failure;

/// The flags of kubectl that set a credential, so that kubectl ignores the user's credential plugin.
pub(crate) const CREDENTIAL_FLAGS: &[&str] = &["token", "username", "client-certificate"];

/// The host with the caller's credential, which is obtained on first use.
pub(crate) struct Login<'a> {
    host: &'a ClusterContext,
    scanned: &'a Scanned,
    env: &'a Env,
    obtained: OnceCell<ClusterContext>,
}

impl<'a> Login<'a> {
    pub(crate) fn new(host: &'a ClusterContext, scanned: &'a Scanned, env: &'a Env) -> Self {
        Self { host, scanned, env, obtained: OnceCell::new() }
    }

    pub(crate) fn host(&self) -> Result<&ClusterContext, ClientError> {
        if let Some(host) = self.obtained.get() {
            return Ok(host);
        }
        let host = obtain_once(self.host.clone(), self.scanned, self.env)?;
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
fn obtain_once(host: ClusterContext, scanned: &Scanned, env: &Env) -> Result<ClusterContext, ClientError> {
    match Plugin::of(&host, scanned, env) {
        Some(plugin) => Ok(plugin.obtain().map_err(ClientError::Setup)?.used_by(host, plugin.user)),
        None => Ok(host),
    }
}

/// Refuses the credential plugin of the context's user, if the user's policy does not permit it. For commands
/// whose kubectl would run the plugin: kubectl before 1.35 does not know the policy.
pub(crate) fn check_policy(host: &ClusterContext, scanned: &Scanned, env: &Env) -> Result<(), Failure> {
    match Plugin::of(host, scanned, env).map(|plugin| plugin.program) {
        Some(Err(PluginError::Policy(error))) => Err(error),
        Some(Ok(_) | Err(PluginError::NotFound { .. })) | None => Ok(()),
    }
}

/// The credential plugin of a user.
pub(crate) struct Plugin {
    user: String,
    exec: ExecConfig,
    cluster: Cluster,
    /// The file that runs, if it was found and the user's policy permits it.
    program: Result<PathBuf, PluginError>,
}

impl Plugin {
    /// The plugin that kubectl would run, if any.
    pub(crate) fn of(host: &ClusterContext, scanned: &Scanned, env: &Env) -> Option<Self> {
        let User::Named(named) = &host.user else { return None };
        // client-go sends a credential only over TLS.
        if !host.server.starts_with("https://") {
            return None;
        }
        // kubectl skips the plugin if a flag sets another credential.
        if CREDENTIAL_FLAGS.iter().any(|flag| scanned.value(flag).is_some()) {
            return None;
        }
        let by_flag = scanned.value("user").and_then(OsStr::to_str).map(str::to_owned);
        let user = by_flag.or_else(|| named.clone())?;
        let mut entries = host.kubeconfig.auth_infos.iter().filter(|entry| entry.name == user);
        let exec = entries.find_map(|entry| entry.auth_info.as_ref()).filter(|user| !has_credential(user))?;
        let exec = exec.exec.clone()?;
        let program = program(&user, &exec, scanned, env);
        // The plugin decides by the connection that is made, and not only by the kubeconfig.
        let mut cluster = host.cluster.clone();
        identity::trust(&mut cluster, scanned);
        Some(Self { user, exec, cluster, program })
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
        let limit = (!self.may_ask()).then_some(LIMIT);
        let output = output_within(&mut self.command()?, limit);
        self.read(&output.map_err(|error| not_started(&self.exec, &error))?)
    }

    /// Runs the plugin concurrently with others. Dropping the future ends the plugin.
    pub(crate) async fn obtain_beside(&self) -> Result<Obtained, Box<dyn Error + Send + Sync>> {
        let mut command = tokio::process::Command::from(self.command()?);
        let output = match command.kill_on_drop(true).spawn() {
            Ok(child) => child.wait_with_output().await,
            Err(error) => Err(error),
        };
        self.read(&output.map_err(|error| not_started(&self.exec, &error))?)
    }

    /// The command, unless the policy refuses it.
    fn command(&self) -> Result<Command, Box<dyn Error + Send + Sync>> {
        let program = self.program.as_ref().map_err(ToString::to_string)?;
        Ok(command::command(program, &self.exec, &self.cluster)?)
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
        let answer = read_yaml(&output.stdout).unwrap_or_default();
        let kind = answer.get("kind").and_then(Value::as_str);
        if !answer.is_object() || kind.is_some_and(|kind| kind != "ExecCredential") {
            return Err(format!("the credential plugin {program} returned no ExecCredential").into());
        }
        let version = answer.get("apiVersion").and_then(Value::as_str).unwrap_or_default();
        let expected = self.exec.api_version.as_deref().unwrap_or_default();
        if version != expected {
            let user = &self.user;
            return Err(format!(
                "the credential plugin {program} returned version {version:?}, and user {user:?} has {expected:?}"
            )
            .into());
        }
        let text = |key: &str| answer.pointer(key).and_then(Value::as_str).filter(|text| !text.is_empty());
        let obtained = Obtained {
            token: text("/status/token").map(str::to_owned),
            certificate: text("/status/clientCertificateData").map(|pem| STANDARD.encode(pem)),
            key: text("/status/clientKeyData").map(|pem| STANDARD.encode(pem)),
            expires: text("/status/expirationTimestamp").and_then(|time| time.parse().ok()),
        };
        if obtained.token.is_none() && obtained.certificate.is_none() && obtained.key.is_none() {
            return Err("the credential plugin returned neither a token nor a certificate".into());
        }
        if obtained.certificate.is_none() != obtained.key.is_none() {
            return Err("the credential plugin returned a certificate or a key, and not both".into());
        }
        if let Some(token) = &obtained.token {
            let field = format!("status.token of the credential plugin {program}");
            transport::bearer(&field, token).map_err(|reason| format!("user {:?}: {reason}", self.user))?;
        }
        Ok(obtained)
    }

    /// The command, for messages.
    fn describe(&self) -> String {
        format!("the credential plugin {}", self.exec.command.as_deref().unwrap_or_default())
    }

    /// The entry of the plugin.
    #[cfg(test)]
    pub(crate) fn exec(&self) -> &ExecConfig {
        &self.exec
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

    pub(crate) fn token(&self) -> Option<&str> {
        self.token.as_deref()
    }

    pub(crate) fn expires(&self) -> bool {
        self.expires.is_some()
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

/// Whether a request may begin with a credential that expires at this time.
pub(crate) fn is_valid(expires: Option<Timestamp>) -> bool {
    expires.is_none_or(|expires| Timestamp::now() < expires - MARGIN)
}

/// The file of the plugin, if the user's policy permits it.
fn program(user: &str, exec: &ExecConfig, scanned: &Scanned, env: &Env) -> Result<PathBuf, PluginError> {
    let found = policy::permitted(user, exec.command.as_deref().unwrap_or_default(), scanned, env);
    let found = found.map_err(PluginError::Policy)?;
    found.map_err(|error| PluginError::NotFound { reason: not_started(exec, &error) })
}

/// Whether the user's entry has another credential besides its plugin; kubectl then does not run
/// the plugin.
fn has_credential(user: &AuthInfo) -> bool {
    let is_set = |text: &Option<String>| text.as_deref().is_some_and(|text| !text.is_empty());
    let has_secret =
        |secret: &Option<SecretString>| secret.as_ref().is_some_and(|text| !text.expose_secret().is_empty());
    let has_certificate = is_set(&user.client_certificate) || is_set(&user.client_certificate_data);
    let has_key = is_set(&user.client_key) || has_secret(&user.client_key_data);
    has_secret(&user.token)
        || is_set(&user.token_file)
        || is_set(&user.username)
        || has_certificate && has_key
}

/// Why a plugin does not run.
#[derive(Debug, thiserror::Error)]
enum PluginError {
    #[error("{0}")]
    Policy(Failure),
    #[error("{reason}")]
    NotFound { reason: String },
}

fn not_started(exec: &ExecConfig, error: &std::io::Error) -> String {
    let program = exec.command.as_deref().unwrap_or_default();
    let hint = exec.install_hint.as_deref().map(|hint| format!("; {}", hint.trim())).unwrap_or_default();
    format!("cannot run the credential plugin {program}: {error}{hint}")
}

/// A credential is replaced this long before it expires, to allow for clock differences.
const MARGIN: SignedDuration = SignedDuration::from_secs(10);
