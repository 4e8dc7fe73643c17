//! Converts the registrations of another project's hub, and the Secrets that belong to them, into connections
//! to members.
//!
//! A registration determines the server that receives a credential, and its writers may have no right to
//! write Secrets. The name of the registration is therefore the only binding to Secrets, unless
//! `--inventory-allow-refs` lifts it for Karmada. A server with a known CA is always verified.

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
    /// The namespace of the registrations' Secrets.
    pub namespace: String,
    /// Whether a registration may refer to Secrets of that namespace other than its own. Karmada only.
    pub allow_refs: bool,
}

/// The used fields of an object that registers a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registration {
    pub name: String,
    pub uid: Option<String>,
    pub labels: BTreeMap<String, String>,
    pub spec: Spec,
}

/// The part that differs between hubs.
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

    /// The equivalent data of a member's Secret, or why the registration cannot be used.
    ///
    /// # Errors
    ///
    /// A field of the registration, or a Secret, is missing or refused.
    pub fn connection(
        &self,
        hub: &Hub,
        name: &ClusterName,
        known: &impl Known,
    ) -> Result<BTreeMap<String, ByteString>, String> {
        match &self.spec {
            Spec::Karmada(spec) => karmada::connection(hub, name, spec, known),
            Spec::KubeAdmiral(spec) => kubeadmiral::connection(&hub.namespace, name, spec, known),
        }
    }

    /// A description of the references to Secrets that do not match the name; `None` if there are none.
    pub fn unbound(&self, name: &ClusterName) -> Option<String> {
        match &self.spec {
            Spec::Karmada(spec) => karmada::unbound(name, spec),
            Spec::KubeAdmiral(_) => None,
        }
    }
}

/// The current content of the inventory.
pub trait Known {
    /// Whether a member of this name is registered.
    fn has_cluster(&self, name: &str) -> bool;
    /// The Secret of this name in the hub's namespace.
    fn secret(&self, name: &str) -> Option<&Secret>;
}

/// Removes unused data from a Secret.
pub fn reduce(hub: &Hub, secret: &mut Secret) {
    match hub.origin {
        Origin::MemberCluster => {}
        Origin::Karmada => karmada::reduce(secret, hub.allow_refs),
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

/// The object that defines a member's connection, for messages.
pub fn source(origin: Origin, name: &ClusterName) -> String {
    if origin.is_hub() {
        return format!("{} {name} of {}", origin.kind(), origin.title());
    }
    format!("Secret {}", name.member_secret())
}

/// The impersonation settings of a new MemberCluster: the parts of an identity that the hub's credential may
/// impersonate. Karmada's credential may impersonate users, groups and service accounts, but neither uid nor
/// extra. KubeAdmiral's may do everything.
pub fn impersonation(origin: Origin) -> Option<Impersonation> {
    let omitted =
        Impersonation { uid: Forwarding::Omit, extra: Forwarding::Omit, ..Impersonation::default() };
    (origin == Origin::Karmada).then_some(omitted)
}

/// The parts of a caller's identity that are passed to a member. Without settings in its MemberCluster, the
/// parts that the hub's credential may impersonate.
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

/// The annotation of a connection whose registration refers to Secrets that do not match its name.
pub const UNBOUND: &str = "fleet.kubectl-mc.dev/unbound-references";
/// The key of a member's Secret that turns verification off.
const INSECURE: &str = "insecure-skip-tls-verify";
