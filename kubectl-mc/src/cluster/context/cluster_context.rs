//! The cluster of a kubeconfig context, and its names.

use std::path::PathBuf;

use jiff::Timestamp;
use kube::config::{AuthInfo, Cluster, Context, Kubeconfig, NamedExtension};

use super::error::HostError;
use super::island::Island;
use crate::cluster::hub::{Hub, Origin};
use crate::error::{Failure, Hint};
use crate::log::without_credential;
use crate::next_command::GivenFlags;

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
    pub(super) fn from_context(
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
    pub(super) fn empty() -> Self {
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

/// The URL of a server without a trailing slash, a query and a fragment (client-go:
/// `DefaultServerURL`). A server may be written as `host:port`: client-go then uses http,
/// regardless of the entry's TLS settings.
pub(super) fn base_url(server: &str) -> Option<String> {
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

/// The default role of a context.
pub(super) const HOST: &str = "host";
/// The role of a context that is used as a separate cluster.
pub(super) const CLUSTER: &str = "cluster";
