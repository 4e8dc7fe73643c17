//! Loads the cluster of a kubeconfig context by the rules of kubectl (client-go: `ClientConfigLoadingRules`),
//! or the cluster of the pod's service account.

mod all;
mod collisions;
mod config;
mod document;
mod error;
mod fields;
mod in_cluster;
mod islands;
mod load;
mod parse;
mod piped;

use std::path::{Path, PathBuf};

pub(crate) use all::{Contexts, contexts};
pub(crate) use collisions::{Collision, collisions, kept_apart};
pub(crate) use config::INTERACTIVE_MODE;
pub(crate) use document::json as read_yaml;
pub(crate) use error::HostError;
pub(crate) use islands::Island;
use jiff::Timestamp;
use kube::config::{AuthInfo, Cluster, Context, Kubeconfig, NamedExtension};
pub(crate) use parse::parsed as read_kubeconfig;
pub(crate) use piped::Piped;

use crate::argv::Scanned;
use crate::cli::HubChoice;
use crate::cluster::hub::{Hub, Origin};
use crate::env::Env;
use crate::error::{Failure, Hint};
use crate::log::{Log, without_credential};
use crate::next_command::GivenFlags;

/// The host's kubeconfig, and which of its contexts is the host.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct HostOptions {
    /// `--kubeconfig`: the only file to read.
    pub(crate) kubeconfig: Option<PathBuf>,
    /// `--context`, its variable or the configuration's value; `None` means the current context.
    pub(crate) context: Option<String>,
    /// `--hub`, its variable or the configuration's value.
    pub(crate) hub: HubChoice,
    /// `--kubeconfig-dir` or the configuration's value: where contexts that are chosen as clusters come from. Empty means
    /// the files of the host.
    pub(crate) kubeconfig_dirs: Vec<PathBuf>,
}

impl HostOptions {
    /// Options for a cluster that is not a hub of another project, such as a member's own context.
    pub(crate) fn plain(kubeconfig: Option<PathBuf>, context: Option<String>) -> Self {
        Self { kubeconfig, context, hub: HubChoice::OWN, kubeconfig_dirs: Vec::new() }
    }
}

/// A cluster of a kubeconfig, with the caller's credential.
#[derive(Clone, Debug)]
pub(crate) struct ClusterContext {
    /// The kubeconfig context; `None` in a pod.
    pub(crate) context: Option<String>,
    /// The host's server with its scheme, without a trailing slash; a path prefix is kept.
    pub(crate) server: String,
    pub(crate) cluster: Cluster,
    pub(crate) user: User,
    pub(crate) namespace: Option<String>,
    /// The context's own extensions.
    pub(crate) extensions: Option<Vec<NamedExtension>>,
    /// The kubeconfig files that define the user, in the order in which kubectl reads them.
    pub(crate) files: Vec<PathBuf>,
    /// The kind of the host's hub.
    pub(crate) hub: Hub,
    /// Whether the server is the host's direct endpoint, which serves members only.
    pub(crate) is_direct: bool,
    /// The value of `--kubeconfig`.
    pub(crate) kubeconfig_flag: Option<PathBuf>,
    /// All files merged, with absolute paths.
    pub(crate) kubeconfig: Kubeconfig,
    /// For a context of `--kubeconfig-dir`.
    pub(crate) island: Option<Island>,
}

/// The user of the cluster.
#[derive(Clone, Debug)]
pub(crate) enum User {
    /// An entry of the user's kubeconfig, which is referenced and never copied.
    Named(Option<String>),
    /// An entry whose credential was already obtained: its name, the replacement, and when that expires.
    Inline(String, Box<AuthInfo>, Option<Timestamp>),
    /// The pod's service account. The token stays in its file.
    ServiceAccount(Box<AuthInfo>),
}

/// The name of the plugin's extension in the context of an overlay. It records the host of the overlay, so
/// that a `kubectl mc` below a `kubectl mc` (in a plugin or a script) does not use the member as its host.
pub(crate) const EXTENSION: &str = "kubectl-mc.dev/host";

impl ClusterContext {
    /// Finds the host in the files of `options` and `env`, or else in the pod.
    pub(crate) fn load(options: &HostOptions, env: &Env) -> Result<Self, HostError> {
        Self::load_for(&Scanned::default(), options, env)
    }

    /// Finds the host for a command of kubectl, whose flags may name another user or credential.
    pub(crate) fn load_for(scanned: &Scanned, options: &HostOptions, env: &Env) -> Result<Self, HostError> {
        let mut host = Self::load_with(options, env, Path::new(in_cluster::SERVICE_ACCOUNT))?;
        host.kubeconfig_flag.clone_from(&options.kubeconfig);
        let (hub, base) = Hub::of(&options.hub, &host.server, env)?;
        (host.hub, host.server) = (hub, base);
        let files = host.files.iter().map(|file| file.display().to_string()).collect::<Vec<_>>().join(",");
        Log::new(env).decision(
            "Chose cluster of kubeconfig",
            &[
                ("context", &host.context.as_deref().unwrap_or_default()),
                ("server", &without_credential(&host.server)),
                ("files", &files),
            ],
        );
        if !CREDENTIAL_FLAGS.iter().any(|flag| scanned.value(flag).is_some()) {
            host.check_user()?;
        }
        Ok(host)
    }

    /// Without a user entry, kubectl would send anonymous requests.
    fn check_user(&self) -> Result<(), HostError> {
        let User::Named(Some(user)) = &self.user else { return Ok(()) };
        if self.kubeconfig.auth_infos.iter().any(|entry| entry.name == *user) {
            return Ok(());
        }
        let context = self.context.clone().unwrap_or_default();
        Err(HostError::NoUser { role: HOST, context, user: user.clone(), files: self.files.clone() })
    }

    fn load_with(options: &HostOptions, env: &Env, service_account: &Path) -> Result<Self, HostError> {
        let files = load::files(options, env);
        let kubeconfig = load::merged(&files, options.kubeconfig.is_some())?;
        let Some(mut name) = options.context.clone().or_else(|| kubeconfig.current_context.clone()) else {
            return in_cluster::host(env, service_account).ok_or(HostError::NoContext { files });
        };
        let context = |name: &str| {
            let entry = kubeconfig.contexts.iter().find(|entry| entry.name == name);
            entry.and_then(|entry| entry.context.clone())
        };
        let mut found = context(&name);
        match found.as_ref().and_then(overlay_host) {
            Some(OverlayHost::Pod) => {
                return in_cluster::host(env, service_account).ok_or(HostError::NoContext { files });
            }
            Some(OverlayHost::Context(host)) => {
                found = context(&host);
                name = host;
            }
            None => {}
        }
        match found {
            Some(context) => Self::from_context(name, context, kubeconfig, files),
            None => Err(HostError::UnknownContext { role: HOST, name, files }),
        }
    }

    fn from_context(
        name: String,
        context: Context,
        kubeconfig: Kubeconfig,
        files: Vec<PathBuf>,
    ) -> Result<Self, HostError> {
        let entry = kubeconfig.clusters.iter().find(|entry| entry.name == context.cluster);
        let Some(cluster) = entry.and_then(|entry| entry.cluster.clone()) else {
            return Err(HostError::NoServer { role: HOST, context: name, cluster: context.cluster });
        };
        let user = context.user.filter(|user| !user.is_empty());
        let Some(server) = cluster.server.as_deref().filter(|server| !server.is_empty()) else {
            return Err(HostError::NoServer { role: HOST, context: name, cluster: context.cluster });
        };
        let Some(server) = base_url(server) else {
            let server = without_credential(server);
            return Err(HostError::InvalidServer { role: HOST, context: name, server });
        };
        Ok(Self {
            context: Some(name),
            server,
            cluster,
            user: User::Named(user),
            namespace: context.namespace.filter(|namespace| !namespace.is_empty()),
            extensions: context.extensions,
            files,
            kubeconfig,
            ..Self::empty()
        })
    }

    /// A cluster without an address.
    fn empty() -> Self {
        Self {
            context: None,
            server: String::new(),
            cluster: Cluster::default(),
            user: User::Named(None),
            namespace: None,
            extensions: None,
            files: Vec::new(),
            hub: Hub::default(),
            is_direct: false,
            kubeconfig_flag: None,
            kubeconfig: Kubeconfig::default(),
            island: None,
        }
    }

    /// Refuses a context of `--kubeconfig-dir` whose file or entry cannot be used.
    pub(crate) fn check_usable(&self) -> Result<(), Failure> {
        self.island.as_ref().map_or(Ok(()), Island::check)
    }

    /// The same context with the server of the host's direct endpoint.
    pub(crate) fn through(mut self, server: String, cluster: Cluster) -> Self {
        let name = self.context.as_ref().or(self.kubeconfig.current_context.as_ref());
        let context = self.kubeconfig.contexts.iter().find(|entry| Some(&entry.name) == name);
        let of_context = context.and_then(|entry| Some(entry.context.as_ref()?.cluster.clone()));
        for entry in
            self.kubeconfig.clusters.iter_mut().filter(|entry| Some(&entry.name) == of_context.as_ref())
        {
            entry.cluster = Some(cluster.clone());
        }
        Self { server, cluster, is_direct: true, ..self }
    }

    /// The name of the user's entry in the kubeconfig; `None` in a pod or without a user.
    pub(crate) fn user_name(&self) -> Option<&str> {
        match &self.user {
            User::Named(name) => name.as_deref(),
            User::Inline(name, ..) => Some(name),
            User::ServiceAccount(_) => None,
        }
    }

    /// The path prefix of the host's server: empty, or `/prefix` of a reverse proxy.
    pub(crate) fn prefix(&self) -> &str {
        let authority = self.server.split_once("://").map_or(self.server.as_str(), |(_, rest)| rest);
        authority.find('/').map_or("", |at| &authority[at..])
    }

    /// For messages: `host "context" (server)`.
    pub(crate) fn describe(&self) -> String {
        let by = if self.is_direct {
            "the direct endpoint of ".to_owned()
        } else if self.hub.is_foreign() {
            format!("{} of ", self.hub.dialect.title())
        } else {
            String::new()
        };
        let server = without_credential(&self.server);
        match &self.context {
            Some(context) => format!("{by}host {context:?} ({server})"),
            None => format!("{by}host of this pod ({server})"),
        }
    }

    /// For messages about any cluster: `context "name" (server)`.
    pub(crate) fn context_name(&self) -> String {
        let server = without_credential(&self.server);
        match &self.context {
            Some(context) => format!("context {context:?} ({server})"),
            None => format!("the cluster of this pod ({server})"),
        }
    }

    /// `kubectl mc` with the flags that address the host, for hints.
    pub(crate) fn kubectl_mc(&self) -> String {
        self.flags().kubectl_mc()
    }

    /// `kubectl mc` with the flag that names the kubeconfig or the folders of them, for hints.
    pub(crate) fn kubectl_mc_file(&self) -> String {
        match &self.island {
            Some(island) => GivenFlags::new(None, None).with_dirs(&island.dirs).kubectl_mc(),
            None => GivenFlags::new(None, self.kubeconfig_flag.as_deref()).kubectl_mc(),
        }
    }

    /// `kubectl` with the flags that address the cluster, for hints.
    pub(crate) fn kubectl(&self) -> String {
        self.flags().kubectl()
    }

    /// Adds the flags that address the host to the commands of a hint.
    pub(crate) fn complete(&self, hint: Hint) -> Hint {
        hint.with_flags(&self.flags())
    }

    fn flags(&self) -> GivenFlags {
        let hub =
            (self.hub.origin == Origin::Given && self.hub.is_foreign()).then(|| self.hub.dialect.to_string());
        GivenFlags::new(self.context.as_deref(), self.kubeconfig_flag.as_deref()).with_hub(hub.as_deref())
    }
}

/// The host of an overlay's context.
enum OverlayHost {
    Pod,
    Context(String),
}

fn overlay_host(context: &Context) -> Option<OverlayHost> {
    let extensions = context.extensions.as_deref()?;
    let extension = extensions.iter().find(|extension| extension.name == EXTENSION)?;
    let host = extension.extension.get("context").and_then(|context| context.as_str());
    Some(host.map_or(OverlayHost::Pod, |host| OverlayHost::Context(host.to_owned())))
}

/// The URL of a server without a trailing slash, a query and a fragment (client-go: `DefaultServerURL`). A server
/// may be written `host:port`: client-go then uses http, whatever the entry says of TLS.
fn base_url(server: &str) -> Option<String> {
    let (address, path) = match server.split_once("://") {
        Some((scheme, rest))
            if is_scheme(scheme) && !rest.starts_with(['/', '?', '#']) && !rest.is_empty() =>
        {
            let rest = rest.split(['?', '#']).next().unwrap_or_default();
            return Some(format!("{}://{}", scheme.to_ascii_lowercase(), rest.trim_end_matches('/')));
        }
        _ => server.split_once('/').unwrap_or((server, "")),
    };
    let is_address = !address.is_empty()
        && path.is_empty()
        && !address.starts_with("https:")
        && !address.starts_with("http:");
    is_address.then(|| format!("http://{address}"))
}

fn is_scheme(scheme: &str) -> bool {
    scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'))
}

/// The flags of kubectl that replace the context's user.
const CREDENTIAL_FLAGS: &[&str] = &["user", "token", "username", "client-certificate"];

/// The default role of a context.
const HOST: &str = "host";
/// The role of a context that is a cluster of its own.
const CLUSTER: &str = "cluster";

#[cfg(test)]
mod tests;
