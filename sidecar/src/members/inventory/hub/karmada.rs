//! Converts a Cluster of Karmada and its Secrets into the data of a member's Secret. No IO happens here.
//!
//! The names are those of `karmadactl join`: Secret `<cluster>` has the CA of the server and
//! `<cluster>-impersonator` has the token, both in one namespace. A Cluster that refers to other Secrets is
//! not used, unless `--inventory-allow-refs` lifts the binding by name. A Cluster that turns verification off
//! although the CA is known is never used.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::{CustomResource, ResourceExt};
use kubectl_mc_api::ClusterName;
use kubectl_mc_api::access::Impersonator;
use serde::{Deserialize, Serialize};

use super::{Hub, INSECURE, KarmadaFlags, Known, entry, value};
use crate::host::token::{Account, Credential, Token};

/// The used fields of a Cluster of Karmada.
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
    /// The name of the Secret that a field of a Cluster refers to; `own` is the one that matches the
    /// Cluster's name.
    fn secret(&self, field: &str, hub: &Hub, own: &str) -> Result<&str, String> {
        let Hub { namespace, karmada: KarmadaFlags { allow_refs, .. }, .. } = hub;
        let is_here = self.namespace == *namespace && !self.name.is_empty();
        let found = format!("spec.{field} is {}/{}", self.namespace, self.name);
        match is_here {
            true if *allow_refs || self.name == own => Ok(&self.name),
            false if *allow_refs => Err(format!("{found}, and must be a Secret of namespace {namespace}")),
            _ => Err(format!("{found}, and must be {namespace}/{own}")),
        }
    }
}

/// A description of the Cluster's references to Secrets that do not match its name; `None` if there are none.
pub(super) fn unbound(name: &ClusterName, spec: &ClusterSpec) -> Option<String> {
    let refs = [
        ("secretRef", &spec.secret_ref, name.to_string()),
        ("impersonatorSecretRef", &spec.impersonator_secret_ref, impersonator_secret(name)),
    ];
    let unbound = refs.iter().filter_map(|(field, reference, own)| {
        let Reference { namespace, name } = reference.as_ref()?;
        (name != own).then(|| format!("spec.{field} is {namespace}/{name}"))
    });
    let unbound: Vec<_> = unbound.collect();
    (!unbound.is_empty()).then(|| unbound.join(", "))
}

/// The data of a member's Secret that is equivalent to a Cluster, or why the Cluster cannot be used.
pub(super) fn connection(
    hub: &Hub,
    name: &ClusterName,
    spec: &ClusterSpec,
    known: &impl Known,
) -> Result<BTreeMap<String, ByteString>, String> {
    let (namespace, impersonator) = (&hub.namespace, impersonator_secret(name));
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
    let impersonator = reference.secret("impersonatorSecretRef", hub, &impersonator)?;
    let authority = match &spec.secret_ref {
        Some(reference) => reference.secret("secretRef", hub, name.as_str())?,
        None => name.as_str(),
    };
    if !spec.proxy_header.is_empty() {
        return Err("spec.proxyHeader is not supported".to_owned());
    }
    let server = match spec.api_endpoint.trim() {
        "" => return Err("spec.apiEndpoint is missing".to_owned()),
        server if server.starts_with("https://") => server,
        _ => return Err("spec.apiEndpoint must begin with https://".to_owned()),
    };
    let mut data = BTreeMap::from([entry("server", server.as_bytes())]);
    match known.secret(authority) {
        Some(secret) => match value(secret, "caBundle") {
            // The Secret applies even if the Cluster does not refer to it, so the right to write
            // Clusters is not enough to turn verification off.
            Some(_) if spec.insecure_skip_tls_verification => {
                return Err(format!(
                    "spec.insecureSkipTLSVerification is refused, because Secret {namespace}/{authority} has a caBundle"
                ));
            }
            Some(bundle) => data.extend([entry("ca.crt", bundle)]),
            None if spec.insecure_skip_tls_verification => data.extend([entry(INSECURE, b"true")]),
            None => return Err(format!("Secret {namespace}/{authority} has no caBundle")),
        },
        None if spec.secret_ref.is_some() => {
            return Err(format!("Secret {namespace}/{authority} does not exist"));
        }
        // Karmada does the same for a member in pull mode.
        None if spec.insecure_skip_tls_verification => data.extend([entry(INSECURE, b"true")]),
        None => {}
    }
    let secret = known.secret(impersonator);
    let secret = secret.ok_or_else(|| format!("Secret {namespace}/{impersonator} does not exist"))?;
    let token = value(secret, "token");
    let token = token.ok_or_else(|| format!("Secret {namespace}/{impersonator} has no token"))?;
    data.extend([entry("token", token)]);
    if !spec.proxy_url.is_empty() {
        data.extend([entry("proxy-url", spec.proxy_url.as_bytes())]);
    }
    Ok(data)
}

/// The data of a Secret that is equivalent to the member's, with the account that Karmada itself uses there.
/// The account may do everything on the member, so it is used only if the names bind it to the Cluster and
/// the server is verified.
pub(super) fn account(
    hub: &Hub,
    name: &ClusterName,
    spec: &ClusterSpec,
    connection: &BTreeMap<String, ByteString>,
    known: &impl Known,
) -> Result<BTreeMap<String, ByteString>, String> {
    if let Some(unbound) = unbound(name, spec) {
        return Err(unbound);
    }
    if connection.contains_key(INSECURE) {
        return Err("spec.insecureSkipTLSVerification is true".to_owned());
    }
    let namespace = &hub.namespace;
    // The rights are bound to this account.
    let impersonator = Impersonator::of_karmada(namespace);
    if let Credential::Token(Token { account: Some(account), .. }) = Credential::of(connection)
        && (account.namespace != *namespace || account.name != impersonator.account)
    {
        let Account { namespace: other, name: account } = account;
        let secret = impersonator_secret(name);
        return Err(format!("the token of Secret {namespace}/{secret} is of account {other}/{account}"));
    }
    let bound = spec.secret_ref.is_some();
    let secret = known.secret(name.as_str()).filter(|_| bound).ok_or("spec.secretRef is missing")?;
    let token = value(secret, "token").ok_or_else(|| format!("Secret {namespace}/{name} has no token"))?;
    let mut data = connection.clone();
    data.extend([entry("token", token)]);
    Ok(data)
}

/// Removes unused data from a Secret of Karmada. The token of Secret `<cluster>` has all rights on the member
/// and is dropped, unless the sidecar writes rights with it or Clusters may refer to any Secret.
pub(super) fn reduce(secret: &mut Secret, karmada: KarmadaFlags) {
    let used: &[&str] = match secret.name_any().ends_with(IMPERSONATOR) {
        _ if karmada.allow_refs => &["token", "caBundle"],
        true => &["token"],
        false if karmada.member_rbac => &["token", "caBundle"],
        false => &["caBundle"],
    };
    if let Some(data) = &mut secret.data {
        data.retain(|key, _| used.contains(&key.as_str()));
    }
    secret.metadata.annotations = None;
}

/// The Secret with the token that may impersonate callers on a member of Karmada.
pub(super) fn impersonator_secret(name: &ClusterName) -> String {
    format!("{name}{IMPERSONATOR}")
}

const IMPERSONATOR: &str = "-impersonator";

#[cfg(test)]
mod tests;
