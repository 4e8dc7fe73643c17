//! Converts the registrations of another project's hub, and the Secrets that belong to them, into connections
//! to members.
//!
//! A registration determines the server that receives a credential, and its writers may have no right to
//! write Secrets. The registration is therefore linked to Secrets only by its name, unless
//! `--inventory-allow-refs` lifts it for Karmada. A server with a known CA is always verified.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::{Resource, ResourceExt};
use kubectl_mc_api::{ClusterName, Origin};

pub mod karmada;
pub mod kubeadmiral;

/// The hub whose members are served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hub {
    pub origin: Origin,
    /// The namespace of the registrations' Secrets.
    pub namespace: String,
    pub karmada: KarmadaFlags,
}

/// What the flags permit for members of Karmada.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KarmadaFlags {
    /// A Cluster may refer to Secrets of the namespace other than its own.
    pub allow_refs: bool,
    /// The access controller writes rights on the members, with Karmada's own account.
    pub member_rbac: bool,
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

    /// The data of a Secret with the hub's own account on the member, or why there is none; `None` if the
    /// flags do not permit its use. `connection` is the member's.
    pub fn account(
        &self,
        hub: &Hub,
        name: &ClusterName,
        connection: &BTreeMap<String, ByteString>,
        known: &impl Known,
    ) -> Option<Result<BTreeMap<String, ByteString>, String>> {
        match &self.spec {
            Spec::Karmada(spec) if hub.karmada.member_rbac => {
                Some(karmada::account(hub, name, spec, connection, known))
            }
            Spec::Karmada(_) | Spec::KubeAdmiral(_) => None,
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
        Origin::Karmada => karmada::reduce(secret, hub.karmada),
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
