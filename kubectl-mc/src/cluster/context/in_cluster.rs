//! Loads the cluster of a pod, with its service account (client-go: `InClusterConfig`).

use std::path::Path;

use kube::config::{AuthInfo, Cluster, Context, Kubeconfig, NamedAuthInfo, NamedCluster, NamedContext};

use super::cluster_context::{ClusterContext, User};
use crate::env::{self, Env};

pub(super) const SERVICE_ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// The pod's own cluster; `None` outside a pod.
pub(super) fn host(env: &Env, service_account: &Path) -> Option<ClusterContext> {
    let address = env.var(env::KUBERNETES_SERVICE_HOST)?.to_str()?;
    let port = env.var(env::KUBERNETES_SERVICE_PORT)?.to_str()?;
    let token = service_account.join("token");
    if !token.is_file() {
        return None;
    }
    let authority =
        if address.contains(':') { format!("[{address}]:{port}") } else { format!("{address}:{port}") };
    let server = format!("https://{authority}");
    let namespace = match env.var(env::POD_NAMESPACE) {
        Some(namespace) => namespace.to_str().map(str::to_owned),
        None => {
            std::fs::read_to_string(service_account.join("namespace")).ok().map(|text| text.trim().to_owned())
        }
    };
    let certificate_authority = service_account.join("ca.crt");
    let cluster = Cluster {
        server: Some(server.clone()),
        certificate_authority: certificate_authority
            .is_file()
            .then(|| certificate_authority.to_string_lossy().into_owned()),
        ..Cluster::default()
    };
    let user = AuthInfo { token_file: Some(token.to_string_lossy().into_owned()), ..AuthInfo::default() };
    Some(ClusterContext {
        server,
        kubeconfig: kubeconfig(&cluster, &user),
        cluster,
        user: User::ServiceAccount(Box::new(user)),
        namespace: namespace.filter(|namespace| !namespace.is_empty()),
        ..ClusterContext::empty()
    })
}

/// The same as a kubeconfig, for requests of the plugin.
fn kubeconfig(cluster: &Cluster, user: &AuthInfo) -> Kubeconfig {
    let name = || "in-cluster".to_owned();
    Kubeconfig {
        clusters: vec![NamedCluster { name: name(), cluster: Some(cluster.clone()), ..Default::default() }],
        auth_infos: vec![NamedAuthInfo { name: name(), auth_info: Some(user.clone()), ..Default::default() }],
        contexts: vec![NamedContext {
            name: name(),
            context: Some(Context { cluster: name(), user: Some(name()), ..Context::default() }),
            ..Default::default()
        }],
        current_context: Some(name()),
        ..Kubeconfig::default()
    }
}
