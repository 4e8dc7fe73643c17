//! Builds the overlay kubeconfig. It comes before the user's own files in `KUBECONFIG` and makes the member
//! the current context. It contains a cluster and a context and references the user's own `user` entry, so
//! credentials stay where they are, and relative commands of exec plugins still resolve.
//!
//! `--server` would not be enough: it clears the kubeconfig's `tls-server-name`, and there is no
//! flag for `proxy-url`.

use kube::config::{
    AuthInfo, Cluster, Context, Kubeconfig, NamedAuthInfo, NamedCluster, NamedContext, NamedExtension,
};
use kubectl_mc_api::{ClusterName, path};

use crate::cluster::cluster_id::ClusterId;
use crate::cluster::context::{self, ClusterContext, User};
use crate::error::{Context as _, Failure};

/// The server for kubectl: the cluster's API root through the context that reaches it.
pub(crate) fn server(through: &ClusterContext, cluster: &ClusterId) -> String {
    format!("{}{}", through.server, cluster.root(through))
}

/// The context of a cluster in an overlay. Its `cluster` has the same name.
pub(crate) fn context_name(cluster: &ClusterId) -> String {
    format!("mc/{cluster}")
}

/// The failure of an overlay.
pub(crate) const UNWRITTEN: &str = "cannot write the overlay kubeconfig";

/// The overlay in its stored form.
pub(crate) fn overlay_json(host: &ClusterContext, cluster: &ClusterId) -> Result<Vec<u8>, Failure> {
    serde_json::to_vec(&overlay(host, std::slice::from_ref(cluster))).context(|| UNWRITTEN)
}

/// The overlay of a command that only sends a review of its caller.
pub(crate) fn self_review_overlay_json(
    host: &ClusterContext,
    cluster: &ClusterName,
) -> Result<Vec<u8>, Failure> {
    let mut overlay = overlay(host, &[cluster.clone().into()]);
    for member in overlay.clusters.iter_mut().filter_map(|entry| entry.cluster.as_mut()) {
        member.server = Some(format!("{}{}", host.server, path::self_review_root(cluster)));
    }
    serde_json::to_vec(&overlay).context(|| UNWRITTEN)
}

/// The overlay for `clusters`, the first of which is the current context. The same host, user and clusters
/// give the same bytes.
pub(crate) fn overlay(host: &ClusterContext, clusters: &[ClusterId]) -> Kubeconfig {
    let entries = clusters.iter().map(|cluster| self::entries(host, cluster, context_name(cluster)));
    kubeconfig(entries, users(host))
}

/// The overlay for clusters that different contexts reach.
pub(crate) fn overlay_of_reach(clusters: &[(&ClusterContext, &ClusterId)]) -> Kubeconfig {
    let entries = clusters.iter().map(|(through, id)| entries(through, id, context_name(id)));
    let mut auth_infos: Vec<NamedAuthInfo> = Vec::new();
    for user in clusters.iter().flat_map(|(through, _)| users(through)) {
        if auth_infos.iter().all(|known| known.name != user.name) {
            auth_infos.push(user);
        }
    }
    kubeconfig(entries, auth_infos)
}

/// The users that the overlay itself contains.
pub(crate) fn users(through: &ClusterContext) -> Vec<NamedAuthInfo> {
    let entry = |name: &str, auth_info: &AuthInfo| NamedAuthInfo {
        name: name.to_owned(),
        auth_info: Some(auth_info.clone()),
        ..Default::default()
    };
    match &through.user {
        User::Named(_) => Vec::new(),
        // The first of several entries with one name wins, and the overlay is the first file.
        User::Inline(name, auth_info, _) => vec![entry(name, auth_info)],
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

/// The cluster and the context of a member or a context, both with this name.
pub(crate) fn entries(
    host: &ClusterContext,
    cluster: &ClusterId,
    name: String,
) -> (NamedCluster, NamedContext) {
    entries_of_server(host, server(host, cluster), name)
}

/// The cluster and the context of a server behind the host, both with this name.
pub(crate) fn entries_of_server(
    host: &ClusterContext,
    server: String,
    name: String,
) -> (NamedCluster, NamedContext) {
    let user = match &host.user {
        User::Named(user) => user.clone().unwrap_or_default(),
        User::Inline(name, ..) => name.clone(),
        User::ServiceAccount(_) => SERVICE_ACCOUNT.to_owned(),
    };
    let mut extensions = host.extensions.clone().unwrap_or_default();
    extensions.push(NamedExtension {
        name: context::EXTENSION.to_owned(),
        extension: serde_json::json!({ "context": host.context }),
    });
    let entry = NamedCluster {
        name: name.clone(),
        cluster: Some(Cluster { server: Some(server), ..host.cluster.clone() }),
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

/// The name of the user for a pod's service account.
const SERVICE_ACCOUNT: &str = "mc/service-account";
