//! The inventory of a hub of another project: its registrations of members and the Secrets that belong to them, which
//! say how a member is reached.
//!
//! A registration says where a credential goes, and those who write it may not be those who write Secrets. So the name
//! of the registration is the only binding to Secrets, and a server whose authority is known is always verified.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::{Resource, ResourceExt};
use kubectl_mc_api::member_cluster::{Forwarded, Forwarding, Impersonation};
use kubectl_mc_api::{ClusterName, MemberCluster, Origin};

pub mod karmada;
pub mod kubeadmiral;

/// The hub whose members are served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hub {
    pub origin: Origin,
    /// Where the Secrets of its registrations are.
    pub namespace: String,
}

/// What counts of an object that registers a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registration {
    pub name: String,
    pub uid: Option<String>,
    pub labels: BTreeMap<String, String>,
    pub spec: Spec,
}

/// The part that each hub has in its own words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Spec {
    Karmada(karmada::ClusterSpec),
    KubeAdmiral(kubeadmiral::FederatedClusterSpec),
}

impl From<karmada::KarmadaCluster> for Registration {
    fn from(cluster: karmada::KarmadaCluster) -> Self {
        Self::new(&cluster, Spec::Karmada(cluster.spec.clone()))
    }
}

impl From<kubeadmiral::FederatedCluster> for Registration {
    fn from(cluster: kubeadmiral::FederatedCluster) -> Self {
        Self::new(&cluster, Spec::KubeAdmiral(cluster.spec.clone()))
    }
}

impl Registration {
    fn new(object: &impl Resource<DynamicType = ()>, spec: Spec) -> Self {
        Self { name: object.name_any(), uid: object.uid(), labels: object.labels().clone(), spec }
    }

    /// The data of a member's Secret that says the same, or why the registration cannot be used.
    ///
    /// # Errors
    ///
    /// A field of the registration, or a Secret, is missing or refused.
    pub fn connection(
        &self,
        namespace: &str,
        name: &ClusterName,
        known: &impl Known,
    ) -> Result<BTreeMap<String, ByteString>, String> {
        match &self.spec {
            Spec::Karmada(spec) => karmada::connection(namespace, name, spec, known),
            Spec::KubeAdmiral(spec) => kubeadmiral::connection(namespace, name, spec, known),
        }
    }
}

/// What is known of the inventory at one moment.
pub trait Known {
    /// Whether a member of this name is registered.
    fn has_cluster(&self, name: &str) -> bool;
    /// The Secret of this name in the hub's namespace.
    fn secret(&self, name: &str) -> Option<&Secret>;
}

/// Takes out of a Secret what is not used.
pub fn reduce(origin: Origin, secret: &mut Secret) {
    match origin {
        Origin::MemberCluster => {}
        Origin::Karmada => karmada::reduce(secret),
        Origin::KubeAdmiral => kubeadmiral::reduce(secret),
    }
}

/// The Secret with the sidecar's credential for a member.
pub fn credential_secret(origin: Origin, name: &ClusterName) -> String {
    match origin {
        Origin::MemberCluster => name.member_secret(),
        Origin::Karmada => karmada::impersonator_secret(name),
        Origin::KubeAdmiral => name.to_string(),
    }
}

/// What says how a member is reached, for messages.
pub fn source(origin: Origin, name: &ClusterName) -> String {
    if origin.is_hub() {
        return format!("{} {name} of {}", origin.kind(), origin.title());
    }
    format!("Secret {}", name.member_secret())
}

/// What of a caller's identity a new MemberCluster lets pass: what the hub's credential may impersonate. Karmada's may
/// impersonate users, groups and service accounts, and neither uid nor extra; KubeAdmiral's may do everything.
pub fn impersonation(origin: Origin) -> Option<Impersonation> {
    let omitted =
        Impersonation { uid: Forwarding::Omit, extra: Forwarding::Omit, ..Impersonation::default() };
    (origin == Origin::Karmada).then_some(omitted)
}

/// What of a caller's identity is passed to a member. Without a wish of its MemberCluster, what the hub's credential may
/// impersonate.
pub fn forwarded(member: &MemberCluster, origin: Origin) -> Forwarded {
    match (&member.spec.impersonation, impersonation(origin)) {
        (None, Some(Impersonation { uid, extra, .. })) => Forwarded { uid, extra },
        _ => member.forwarded(),
    }
}

fn entry(key: &str, value: &[u8]) -> (String, ByteString) {
    (key.to_owned(), ByteString(value.to_vec()))
}

fn value<'a>(secret: &'a Secret, key: &str) -> Option<&'a [u8]> {
    let value = &secret.data.as_ref()?.get(key)?.0;
    (!value.trim_ascii().is_empty()).then_some(value)
}

/// The key of a member's Secret that turns verification off.
const INSECURE: &str = "insecure-skip-tls-verify";
