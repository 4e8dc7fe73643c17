//! How a member is reached that Karmada registers: its Cluster and the Secrets that belong to it, as the data of a
//! member's Secret. No IO happens here.
//!
//! The names bind, as `karmadactl join` makes them: Secret `<cluster>` verifies the server and `<cluster>-impersonator` has the token,
//! both in one namespace. A Cluster that names others, or would have a server that is known left unverified, is not
//! used.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::{CustomResource, ResourceExt};
use kubectl_mc_api::ClusterName;
use serde::{Deserialize, Serialize};

use super::{INSECURE, Known, entry, value};

/// What counts of a Cluster of Karmada.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[kube(group = "cluster.karmada.io", version = "v1alpha1", kind = "Cluster", schema = "disabled")]
#[kube(root = "KarmadaCluster", derive = "Default")]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterSpec {
    pub api_endpoint: String,
    pub secret_ref: Option<Reference>,
    pub impersonator_secret_ref: Option<Reference>,
    #[serde(rename = "insecureSkipTLSVerification")]
    pub insecure_skip_tls_verification: bool,
    #[serde(rename = "proxyURL")]
    pub proxy_url: String,
    pub proxy_header: BTreeMap<String, String>,
}

/// A Secret by its namespace and name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Reference {
    pub namespace: String,
    pub name: String,
}

impl Reference {
    fn check(&self, field: &str, namespace: &str, name: &str) -> Result<(), String> {
        if self.namespace == namespace && self.name == name {
            return Ok(());
        }
        Err(format!("spec.{field} is {}/{}, and must be {namespace}/{name}", self.namespace, self.name))
    }
}

/// The data of a member's Secret that says the same as a Cluster, or why the Cluster cannot be used.
pub(super) fn connection(
    namespace: &str,
    name: &ClusterName,
    spec: &ClusterSpec,
    known: &impl Known,
) -> Result<BTreeMap<String, ByteString>, String> {
    let impersonator = impersonator_secret(name);
    if name.as_str().ends_with(IMPERSONATOR) {
        return Err(format!(
            "its name ends in {IMPERSONATOR}, so its Secret could be that of another Cluster"
        ));
    }
    if known.has_cluster(&impersonator) {
        return Err(format!("Secret {namespace}/{impersonator} is that of Cluster {impersonator} as well"));
    }
    let reference = spec.impersonator_secret_ref.as_ref();
    let reference = reference.ok_or("spec.impersonatorSecretRef is missing")?;
    reference.check("impersonatorSecretRef", namespace, &impersonator)?;
    if let Some(reference) = &spec.secret_ref {
        reference.check("secretRef", namespace, name.as_str())?;
    }
    if !spec.proxy_header.is_empty() {
        return Err("spec.proxyHeader is not supported".to_owned());
    }
    let server = match spec.api_endpoint.trim() {
        "" => return Err("spec.apiEndpoint is missing".to_owned()),
        server if server.starts_with("https://") => server,
        _ => return Err("spec.apiEndpoint must begin with https://".to_owned()),
    };
    let mut data = BTreeMap::from([entry("server", server.as_bytes())]);
    match known.secret(name.as_str()) {
        Some(secret) => match value(secret, "caBundle") {
            // It is there whether or not the Cluster names it: who may only write Clusters cannot take it away.
            Some(_) if spec.insecure_skip_tls_verification => {
                return Err(format!(
                    "spec.insecureSkipTLSVerification is refused, because Secret {namespace}/{name} has a caBundle"
                ));
            }
            Some(bundle) => data.extend([entry("ca.crt", bundle)]),
            None if spec.insecure_skip_tls_verification => data.extend([entry(INSECURE, b"true")]),
            None => return Err(format!("Secret {namespace}/{name} has no caBundle")),
        },
        None if spec.secret_ref.is_some() => {
            return Err(format!("Secret {namespace}/{name} does not exist"));
        }
        // As Karmada does for a member in pull mode.
        None if spec.insecure_skip_tls_verification => data.extend([entry(INSECURE, b"true")]),
        None => {}
    }
    let secret = known.secret(&impersonator);
    let secret = secret.ok_or_else(|| format!("Secret {namespace}/{impersonator} does not exist"))?;
    let token = value(secret, "token");
    let token = token.ok_or_else(|| format!("Secret {namespace}/{impersonator} has no token"))?;
    data.extend([entry("token", token)]);
    if !spec.proxy_url.is_empty() {
        data.extend([entry("proxy-url", spec.proxy_url.as_bytes())]);
    }
    Ok(data)
}

/// What of a Secret of Karmada's is used, if anything. The token of Secret `<cluster>` may do everything on the member
/// and is not kept.
pub(super) fn reduce(secret: &mut Secret) {
    let used = if secret.name_any().ends_with(IMPERSONATOR) { "token" } else { "caBundle" };
    if let Some(data) = &mut secret.data {
        data.retain(|key, _| key == used);
    }
    secret.metadata.annotations = None;
}

/// The Secret with the token by which a member of Karmada's lets callers be impersonated.
pub(super) fn impersonator_secret(name: &ClusterName) -> String {
    format!("{name}{IMPERSONATOR}")
}

const IMPERSONATOR: &str = "-impersonator";

#[cfg(test)]
mod tests;
