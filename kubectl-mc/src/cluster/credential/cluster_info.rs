//! Describes a cluster for a credential plugin (`spec.cluster` of an `ExecCredential`).

use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use kube::config::Cluster;
use serde_json::{Value, json};

use crate::cluster::named_file;

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
    let of_file = || Some(STANDARD.encode(named_file::read(Path::new(file?)).ok()?));
    cluster.certificate_authority_data.clone().or_else(of_file)
}

fn config(cluster: &Cluster) -> Option<Value> {
    let extensions = cluster.extensions.iter().flatten();
    let mut ours = extensions.filter(|extension| extension.name == "client.authentication.k8s.io/exec");
    ours.next().map(|extension| extension.extension.clone())
}
