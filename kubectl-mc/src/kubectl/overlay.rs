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

use crate::cluster::context::{self, ClusterContext, User};
use crate::error::Explain;

/// The member's API root by way of the host: what kubectl takes as its server.
pub(crate) fn member_server(host: &ClusterContext, cluster: &ClusterName) -> String {
    format!("{}{}", host.server, path::member_root(cluster))
}

/// The overlay as it is stored.
pub(crate) fn overlay_json(host: &ClusterContext, cluster: &ClusterName) -> Result<Vec<u8>, OverlayError> {
    serde_json::to_vec(&overlay(host, cluster)).map_err(OverlayError)
}

/// The overlay for `cluster`. It is the same for the same host, user and cluster, byte for byte.
pub(crate) fn overlay(host: &ClusterContext, cluster: &ClusterName) -> Kubeconfig {
    let name = format!("mc/{cluster}");
    let entry = |name: &str, auth_info: &AuthInfo| NamedAuthInfo {
        name: name.to_owned(),
        auth_info: Some(auth_info.clone()),
        ..Default::default()
    };
    let (user, auth_infos) = match &host.user {
        User::Named(user) => (user.clone(), Vec::new()),
        // Of entries of one name the first counts, and the overlay is the first file.
        User::Inline(name, auth_info) => (Some(name.clone()), vec![entry(name, auth_info)]),
        User::ServiceAccount(auth_info) => {
            let name = "mc/service-account";
            (Some(name.to_owned()), vec![entry(name, auth_info)])
        }
    };
    let mut extensions = host.extensions.clone().unwrap_or_default();
    extensions.push(NamedExtension {
        name: context::EXTENSION.to_owned(),
        extension: serde_json::json!({ "context": host.context }),
    });
    Kubeconfig {
        kind: Some("Config".to_owned()),
        api_version: Some("v1".to_owned()),
        current_context: Some(name.clone()),
        clusters: vec![NamedCluster {
            name: name.clone(),
            cluster: Some(Cluster { server: Some(member_server(host, cluster)), ..host.cluster.clone() }),
            ..Default::default()
        }],
        contexts: vec![NamedContext {
            name: name.clone(),
            context: Some(Context {
                cluster: name,
                user: Some(user.unwrap_or_default()),
                namespace: host.namespace.clone(),
                extensions: Some(extensions),
                ..Default::default()
            }),
            ..Default::default()
        }],
        auth_infos,
        ..Kubeconfig::default()
    }
}

#[derive(Debug, thiserror::Error)]
#[error("cannot write the overlay kubeconfig")]
pub(crate) struct OverlayError(#[source] serde_json::Error);

impl Explain for OverlayError {}
