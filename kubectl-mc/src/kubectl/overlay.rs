//! The overlay kubeconfig: put before the user's own files in `KUBECONFIG`, it makes the member
//! the current context. It holds a cluster and a context and names the user's own `user` entry,
//! so credentials stay where they are, and relative commands of exec plugins still resolve.
//!
//! `--server` would not do: it clears the kubeconfig's `tls-server-name`, and there is no flag for
//! `proxy-url`.

use kube::config::{
    AuthInfo, Cluster, Context, Kubeconfig, NamedAuthInfo, NamedCluster, NamedContext, NamedExtension,
};
use kubectl_mc_api::{ClusterName, path};

use crate::cluster::cluster_id::ClusterId;
use crate::cluster::context::{self, ClusterContext, User};
use crate::error::Explain;

/// The cluster's API root by way of the context that reaches it: what kubectl takes as its server.
pub(crate) fn server(through: &ClusterContext, cluster: &ClusterId) -> String {
    format!("{}{}", through.server, cluster.root(through))
}

/// The overlay as it is stored.
pub(crate) fn overlay_json(host: &ClusterContext, cluster: &ClusterId) -> Result<Vec<u8>, OverlayError> {
    serde_json::to_vec(&overlay(host, std::slice::from_ref(cluster))).map_err(OverlayError)
}

/// The overlay of a command that only sends a review of the caller.
pub(crate) fn self_review_overlay_json(
    host: &ClusterContext,
    cluster: &ClusterName,
) -> Result<Vec<u8>, OverlayError> {
    let mut overlay = overlay(host, &[cluster.clone().into()]);
    for member in overlay.clusters.iter_mut().filter_map(|entry| entry.cluster.as_mut()) {
        member.server = Some(format!("{}{}", host.server, path::self_review_root(cluster)));
    }
    serde_json::to_vec(&overlay).map_err(OverlayError)
}

/// The overlay for `clusters`, of which the first is the current context. It is the same for the same host, user and
/// clusters, byte for byte.
pub(crate) fn overlay(host: &ClusterContext, clusters: &[ClusterId]) -> Kubeconfig {
    let entries = clusters.iter().map(|cluster| self::entries(host, cluster, format!("mc/{cluster}")));
    kubeconfig(entries, users(host))
}

/// The overlay of clusters that are reached by several contexts.
pub(crate) fn overlay_of_reach(clusters: &[(&ClusterContext, &ClusterId)]) -> Kubeconfig {
    let entries = clusters.iter().map(|(through, id)| entries(through, id, format!("mc/{id}")));
    let mut auth_infos: Vec<NamedAuthInfo> = Vec::new();
    for user in clusters.iter().flat_map(|(through, _)| users(through)) {
        if auth_infos.iter().all(|known| known.name != user.name) {
            auth_infos.push(user);
        }
    }
    kubeconfig(entries, auth_infos)
}

/// The users that the overlay itself holds.
pub(crate) fn users(through: &ClusterContext) -> Vec<NamedAuthInfo> {
    let entry = |name: &str, auth_info: &AuthInfo| NamedAuthInfo {
        name: name.to_owned(),
        auth_info: Some(auth_info.clone()),
        ..Default::default()
    };
    match &through.user {
        User::Named(_) => Vec::new(),
        // Of entries of one name the first counts, and the overlay is the first file.
        User::Inline(name, auth_info) => vec![entry(name, auth_info)],
        User::ServiceAccount(auth_info) => vec![entry(SERVICE_ACCOUNT, auth_info)],
    }
}

fn kubeconfig(
    entries: impl Iterator<Item = (NamedCluster, NamedContext)>,
    auth_infos: Vec<NamedAuthInfo>,
) -> Kubeconfig {
    let (clusters, contexts): (Vec<_>, Vec<_>) = entries.unzip();
    Kubeconfig {
        kind: Some("Config".to_owned()),
        api_version: Some("v1".to_owned()),
        current_context: contexts.first().map(|context| context.name.clone()),
        clusters,
        contexts,
        auth_infos,
        ..Kubeconfig::default()
    }
}

/// The cluster and the context of a member or a context, both of this name.
pub(crate) fn entries(
    host: &ClusterContext,
    cluster: &ClusterId,
    name: String,
) -> (NamedCluster, NamedContext) {
    let user = match &host.user {
        User::Named(user) => user.clone().unwrap_or_default(),
        User::Inline(name, _) => name.clone(),
        User::ServiceAccount(_) => SERVICE_ACCOUNT.to_owned(),
    };
    let mut extensions = host.extensions.clone().unwrap_or_default();
    extensions.push(NamedExtension {
        name: context::EXTENSION.to_owned(),
        extension: serde_json::json!({ "context": host.context }),
    });
    let entry = NamedCluster {
        name: name.clone(),
        cluster: Some(Cluster { server: Some(server(host, cluster)), ..host.cluster.clone() }),
        ..Default::default()
    };
    let context = Context {
        cluster: name.clone(),
        user: Some(user),
        namespace: host.namespace.clone(),
        extensions: Some(extensions),
        ..Default::default()
    };
    (entry, NamedContext { name, context: Some(context), ..Default::default() })
}

/// The name of the user that a pod's service account becomes.
const SERVICE_ACCOUNT: &str = "mc/service-account";

#[derive(Debug, thiserror::Error)]
#[error("cannot write the overlay kubeconfig")]
pub(crate) struct OverlayError(#[source] pub(crate) serde_json::Error);

impl Explain for OverlayError {}
