//! What `install` and `uninstall` consist of.
//!
//! - [`plan`]: what is meant, from the flags
//! - [`host`]: what the host must have before anything is applied
//! - [`remote`]: the cluster that runs the sidecars where the host has no nodes
//! - [`wait`], [`pods`]: until it works, or why it does not
//! - [`remains`]: what there is to take away

pub(crate) mod host;
pub(crate) mod plan;
pub(crate) mod pods;
pub(crate) mod remains;
pub(crate) mod remote;
pub(crate) mod wait;

use std::time::Duration;

use kubectl_mc_api::manifests;
use serde_json::Value;
use tokio::time::sleep;

use crate::cli::Flags;
use crate::error::Explain;
use crate::exit::ExitStatus;

/// The host is named by its context, and nothing else.
pub(crate) fn check_flags(flags: &Flags) -> Result<(), InstallError> {
    let chooses = !flags.cluster.is_empty() || flags.cluster_selector.is_some() || flags.all_clusters;
    if chooses { Err(InstallError::ChoosesClusters) } else { Ok(()) }
}

/// GETs a path of a cluster's API; what is not there is null.
pub(crate) async fn get(client: &kube::Client, path: &str) -> Result<Value, InstallError> {
    let mut tries = 0;
    loop {
        tries += 1;
        let request = http::Request::get(path).body(Vec::new());
        let request = request
            .map_err(|error| InstallError::Request { path: path.to_owned(), error: error.to_string() })?;
        match client.request(request).await {
            Ok(value) => return Ok(value),
            Err(kube::Error::Api(status)) if status.code == 404 => return Ok(Value::Null),
            // A server that is busy, or that just begins to serve a new kind.
            Err(kube::Error::Api(status)) if status.code == 429 && tries < TRIES => sleep(PAUSE).await,
            Err(source) => return Err(InstallError::Get { path: path.to_owned(), source: Box::new(source) }),
        }
    }
}

/// The objects of a list.
pub(crate) fn items(list: &Value) -> impl Iterator<Item = &Value> {
    list["items"].as_array().into_iter().flatten()
}

const TRIES: usize = 10;
const PAUSE: Duration = Duration::from_secs(1);

#[derive(Debug, thiserror::Error)]
pub(crate) enum InstallError {
    #[error("a choice of clusters does not apply: it is the host that is meant")]
    ChoosesClusters,
    #[error("cannot make the manifests")]
    Manifest(#[source] manifests::Error),
    #[error("cannot ask for {path}: {error}")]
    Request { path: String, error: String },
    #[error("cannot get {path}")]
    Get { path: String, source: Box<kube::Error> },
    #[error(
        "nothing was applied: the host's kube-apiserver does not say how its front proxy is known: {missing} in ConfigMap \
         kube-system/extension-apiserver-authentication"
    )]
    NoFrontProxy { missing: String },
    #[error("nothing was applied: the sidecar was installed by {owner}")]
    Foreign { owner: String, hint: String },
    #[error("the sidecars are not available: {reason}")]
    NotAvailable { reason: String, hint: String },
    #[error("the host does not reach the sidecars: {reason}")]
    NotReached { reason: String, hint: String },
    #[error("the token of the sidecar's account is not there yet")]
    NoToken,
    #[error("the context's kubeconfig cannot be read for the sidecar: {0}")]
    Kubeconfig(String),
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
            Self::Foreign { hint, .. } | Self::NotAvailable { hint, .. } | Self::NotReached { hint, .. } => {
                Some(hint.clone())
            }
            Self::ChoosesClusters => Some("--context=NAME names another host".to_owned()),
            Self::Manifest(_) | Self::Request { .. } | Self::Get { .. } | Self::NoToken | Self::Kubeconfig(_) => None,
        }
    }

    fn status(&self) -> ExitStatus {
        match self {
            Self::ChoosesClusters => ExitStatus::Usage,
            _ => ExitStatus::Failed,
        }
    }
}
