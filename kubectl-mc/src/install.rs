//! Implements the steps of `install` and `uninstall`.
//!
//! - [`plan`]: the installation that the flags describe
//! - [`host`]: the checks of the host before the first apply
//! - [`place`]: the checks of the namespace and the cluster of installed sidecars
//! - [`certificate_rotation`]: changes the issuer of the serving certificate
//! - [`direct`]: the address of the load balancer that exposes the sidecars
//! - [`remote`]: the cluster that runs the sidecars if the host has no nodes
//! - [`wait`]: waits until the sidecars work, or reports why they do not
//! - [`cleanup`]: finds the objects to delete
//! - [`protection`]: lets the host delete what its policy protects

pub(crate) mod certificate_rotation;
pub(crate) mod cleanup;
pub(crate) mod command;
pub(crate) mod direct;
pub(crate) mod host;
pub(crate) mod place;
pub(crate) mod plan;
pub(crate) mod protection;
pub(crate) mod remote;
pub(crate) mod uninstall;
pub(crate) mod wait;

use std::path::PathBuf;

use kubectl_mc_api::direct::SERVICE as DIRECT_SERVICE;
use kubectl_mc_api::manifests;
use kubectl_mc_api::names::SIDECAR;
use serde_json::Value;

use crate::apply::{self, object::with_retries};
use crate::cluster::connection::NamedCluster;
use crate::cluster::kubernetes_version::HOST_MINIMUM;
use crate::error::Explain;
use crate::exit::ExitStatus;

/// GETs a path of a cluster's API; a missing object is null.
pub(crate) async fn get(client: &kube::Client, path: &str) -> Result<Value, InstallError> {
    let request = || http::Request::get(path).body(Vec::new());
    request().map_err(|error| InstallError::Request { path: path.to_owned(), error: error.to_string() })?;
    let asked = with_retries(async || match request() {
        Ok(request) => client.request(request).await,
        Err(error) => Err(kube::Error::HttpError(error)),
    });
    match asked.await {
        Ok(value) => Ok(value),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(Value::Null),
        Err(error) => Err(InstallError::Get { path: path.to_owned(), reason: apply::reason(error) }),
    }
}

/// The roles of the clusters in messages.
pub(crate) const HOST: &str = "host";
pub(crate) const RUNS_ON: &str = "cluster of the sidecars";

#[derive(Debug, thiserror::Error)]
pub(crate) enum InstallError {
    #[error("no image of mc-sidecar: this build of kubectl-mc does not name one")]
    NoImage,
    #[error("cannot read the values of {}: {reason}", file.display())]
    Values { file: PathBuf, reason: String },
    #[error("cannot make the manifests")]
    Manifest(#[source] manifests::Error),
    #[error("cannot build a request for {path}: {error}")]
    Request { path: String, error: String },
    #[error("cannot get {path}: {reason}")]
    Get { path: String, reason: String },
    #[error("cannot get {path} from the {cluster}: {reason}")]
    GetFrom { path: String, cluster: String, reason: String },
    #[error(
        "nothing was applied: the host is Kubernetes {version}; a host must have Kubernetes {HOST_MINIMUM} or later"
    )]
    OldHost { version: String },
    #[error(
        "nothing was applied: the host's kube-apiserver has no front proxy configured: {missing} in ConfigMap \
         kube-system/extension-apiserver-authentication"
    )]
    NoFrontProxy { missing: String },
    #[error("nothing was applied: the sidecar was installed with flags that this command lacks: {flags}")]
    LackingFlags { flags: String, command: String },
    #[error("nothing was changed: the sidecar was installed by {owner}")]
    Foreign { owner: String, hint: String },
    #[error("nothing was changed: the sidecars are installed in namespace {installed}, not in {given}")]
    OtherNamespace { installed: String, given: String, hint: String },
    #[error(
        "nothing was applied: Service {namespace}/{SIDECAR} of the host leads to sidecars in another cluster, which \
         --run-on does not name"
    )]
    RunElsewhere { namespace: String, hint: String },
    #[error("nothing was changed: the sidecars in namespace {namespace} of the {RUNS_ON} serve {other}")]
    OtherHost { namespace: String, other: String, hint: String },
    #[error("the sidecars are not available: {reason}")]
    NotAvailable { reason: String, hint: String },
    #[error("the host cannot reach the sidecars: {reason}")]
    NotReached { reason: String, hint: String },
    #[error(
        "cert-manager has not issued the serving certificate, and the running sidecars are unchanged: {state}"
    )]
    NotIssued { state: String, kubectl: String, namespace: String },
    #[error("--certificates=cert-manager and --run-on cannot be combined")]
    IssuedElsewhere,
    #[error("metrics.podMonitor and --run-on cannot be combined")]
    ScrapedElsewhere,
    #[error("certificates is Secret, and tls.secretName is empty")]
    NoServingSecret,
    #[error("the sidecar would get a flag twice: {first} and {second}")]
    SidecarFlagTwice { first: String, second: String },
    #[error(transparent)]
    TwoHubs(#[from] kubectl_mc_api::origin::TwoHubs),
    #[error("--expose=NodePort needs --direct-server: the address of the nodes for clients is not known")]
    NoDirectServer,
    #[error("the direct endpoint {server} is not exposed")]
    NotExposed { server: String },
    #[error("the load balancer of Service {DIRECT_SERVICE} has no address")]
    NoAddress { kubectl: String, namespace: String },
    #[error("the load balancer of Service {DIRECT_SERVICE} has an invalid address: {address:?}")]
    BadAddress { address: String },
    #[error(
        "nothing was applied: the host's server {server} is {what}: the sidecars in the other cluster cannot reach it"
    )]
    LocalHost { server: String, what: &'static str, likely: Option<String> },
    #[error("the host has not created the token of the sidecar's account")]
    NoToken,
    #[error("cannot read the certificate authority of the context for the sidecar: {0}")]
    Kubeconfig(String),
}

impl InstallError {
    /// Adds the name of the cluster. Used for the first request to it.
    pub(crate) fn from(self, cluster: NamedCluster<'_>) -> Self {
        match self {
            Self::Get { path, reason } => Self::GetFrom { path, cluster: cluster.describe(), reason },
            other => other,
        }
    }
}

impl Explain for InstallError {
    fn hint(&self) -> Option<String> {
        match self {
            Self::NoFrontProxy { .. } => Some(
                "start the host's kube-apiserver with --requestheader-client-ca-file, --requestheader-username-headers, \
                 --requestheader-group-headers, --proxy-client-cert-file and --proxy-client-key-file (Kubernetes: \
                 \"Configure the aggregation layer\")"
                    .to_owned(),
            ),
            Self::OldHost { .. } => {
                Some("upgrade the host, or name another: --context=NAME; clusters that are older can be members".to_owned())
            }
            Self::Foreign { hint, .. }
            | Self::OtherNamespace { hint, .. }
            | Self::RunElsewhere { hint, .. }
            | Self::OtherHost { hint, .. }
            | Self::NotAvailable { hint, .. }
            | Self::NotReached { hint, .. } => Some(hint.clone()),
            Self::NotIssued { kubectl, namespace, .. } => Some(format!(
                "`{kubectl} -n {namespace} describe certificates` shows the details; then run install again"
            )),
            Self::IssuedElsewhere => Some(
                "cert-manager in that cluster cannot update the APIService of this host; omit --certificates".to_owned(),
            ),
            Self::ScrapedElsewhere => Some(
                "create a PodMonitor in that cluster, with a token of this host: \
                 https://github.com/kubectl-mc/kubectl-mc/blob/main/docs/how-to/monitoring.md"
                    .to_owned(),
            ),
            Self::LackingFlags { command, .. } => {
                Some(format!("keep them: {command}; --reset-flags installs without them"))
            }
            Self::LocalHost { likely: Some(server), .. } => {
                Some(format!("the host is likely reached by --host-server={server}"))
            }
            Self::LocalHost { likely: None, .. } => Some(
                "set the host's address in the network of the sidecars: --host-server=https://…".to_owned(),
            ),
            Self::NoDirectServer => {
                Some("for example --direct-server=https://nodes.example.com:30443, with direct.nodePort=30443".to_owned())
            }
            Self::NotExposed { .. } => {
                Some("--expose=LoadBalancer or --expose=NodePort exposes it; omit the URL for none".to_owned())
            }
            Self::NoAddress { kubectl, namespace } => Some(format!(
                "`{kubectl} -n {namespace} describe service {DIRECT_SERVICE}` shows why; --direct-server=URL names an \
                 address that is known, and --expose=none does without"
            )),
            Self::BadAddress { .. } => Some("--direct-server=URL names the address".to_owned()),
            Self::TwoHubs(_) => {
                Some("--inventory=membercluster,karmada or --inventory=membercluster,kubeadmiral".to_owned())
            }
            Self::SidecarFlagTwice { .. } => Some(
                "give it once: by --sidecar-flag, in extraArgs of --values, or by the flag of install for it; lists take commas"
                    .to_owned(),
            ),
            Self::NoServingSecret => Some("set tls.secretName to the name of the Secret".to_owned()),
            Self::NoImage => Some(
                "--image=IMAGE names the image, and `make image` builds it; a release build needs no flag".to_owned(),
            ),
            Self::GetFrom { reason, .. } if reason == "Unauthorized" => Some(
                "log in again: the credential of the kubeconfig is expired or wrong".to_owned(),
            ),
            Self::GetFrom { .. } => Some("--context=NAME names another host".to_owned()),
            Self::Values { .. } | Self::Manifest(_) | Self::Request { .. } | Self::Get { .. } | Self::NoToken | Self::Kubeconfig(_) => None,
        }
    }

    fn status(&self) -> ExitStatus {
        match self {
            Self::IssuedElsewhere
            | Self::ScrapedElsewhere
            | Self::NoServingSecret
            | Self::TwoHubs(_)
            | Self::NoDirectServer
            | Self::NotExposed { .. }
            | Self::NoImage
            | Self::LackingFlags { .. }
            | Self::OtherNamespace { .. }
            | Self::RunElsewhere { .. }
            | Self::OtherHost { .. }
            | Self::SidecarFlagTwice { .. }
            | Self::LocalHost { .. }
            | Self::Values { .. } => ExitStatus::Usage,
            _ => ExitStatus::Failed,
        }
    }
}
