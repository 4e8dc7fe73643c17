//! Defines the state of the members on the host, for the path of requests and for the controllers.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kubectl_mc_api::enrollment::Enrollment;
use kubectl_mc_api::names::MEMBER_UID;
use kubectl_mc_api::{ClusterName, MemberCluster, Origin};

use super::Found;
use super::hub::UNBOUND;
use crate::host::token::Credential;

/// Every registered member.
pub type Fleet = HashMap<ClusterName, Registered>;

/// The members that a hub registers; `None` until they are read, or without a hub's inventory.
pub type HubClusters = Option<Arc<HubMembers>>;

/// The hub's own account on a member, with which the leader writes the sidecar's rights there: a
/// Secret with the same format as the connection, or the reason why there is none. `None` if the
/// sidecar's flags do not permit it.
pub type HubAccount = Option<Result<Arc<Secret>, Arc<str>>>;

/// The labels of each member that a hub registers.
#[derive(Debug)]
pub struct HubMembers {
    pub origin: Origin,
    pub labels: BTreeMap<ClusterName, BTreeMap<String, String>>,
}

/// A member with its Secrets and its connection.
#[derive(Clone, Debug)]
pub struct Registered {
    pub member: Arc<MemberCluster>,
    /// The inventory from which it is served.
    pub origin: Origin,
    /// Whether that inventory is enabled on this sidecar.
    pub is_read: bool,
    /// Whether another inventory also registers a member of this name.
    pub in_two: bool,
    /// Secret `<name>.member`, or a Secret of the same form that is built from a hub's objects.
    pub connection: Option<Arc<Secret>>,
    /// `<name>.manager`
    pub manager: Option<Arc<Secret>>,
    pub hub_account: HubAccount,
    /// The member for requests, or why requests cannot be sent to it.
    pub way: Found,
}

impl Registered {
    /// Whether the sidecars of this namespace manage the member, and not those of another namespace with its
    /// Secrets.
    pub fn is_of(&self, namespace: &str) -> bool {
        let status = self.member.status.as_ref();
        let said = status.and_then(|status| status.namespace.as_deref());
        self.connection.is_some() || self.manager.is_some() || said.is_none_or(|said| said == namespace)
    }

    /// Whether the sidecars of this namespace can serve the member or report why they do not: they have its
    /// Secret or the hub's inventory.
    pub fn is_claimed(&self) -> bool {
        self.connection.is_some() || (self.origin.is_hub() && self.is_read)
    }

    /// Whether the member's agent opens the connections to it.
    pub fn is_via_agent(&self) -> bool {
        let data = self.connection.as_ref().and_then(|secret| secret.data.as_ref());
        data.and_then(|data| data.get("via")).is_some_and(|via| via.0.trim_ascii() == b"agent")
    }

    /// The state of the enrollment, for a member without a credential.
    pub fn enrollment(&self, now: Timestamp) -> Option<Enrollment> {
        let Secret { data, metadata, .. } = self.connection.as_deref()?;
        let credential = data.as_ref().map_or(Credential::None, Credential::of);
        Enrollment::parse(metadata.annotations.as_ref().filter(|_| credential == Credential::None), now)
    }

    /// The uid of the member's kube-system, as reported by a join or by its agent.
    pub fn uid(&self) -> Option<&str> {
        let of_join = self.member.metadata.annotations.as_ref();
        let of_agent = self.connection.as_ref().and_then(|secret| secret.metadata.annotations.as_ref());
        let uid =
            [of_join, of_agent].into_iter().flatten().find_map(|annotations| annotations.get(MEMBER_UID));
        let told = self.member.status.as_ref().and_then(|status| status.uid.as_ref());
        uid.or(told).map(String::as_str)
    }

    /// A description of the hub registration's references to Secrets that do not match its name.
    pub fn unbound(&self) -> Option<&str> {
        let annotations = self.connection.as_ref()?.metadata.annotations.as_ref()?;
        annotations.get(UNBOUND).map(String::as_str).filter(|_| self.origin.is_hub())
    }

    /// Whether both are the same version of the member.
    pub fn is_same(&self, other: &Self) -> bool {
        fn same<T>(one: Option<&Arc<T>>, other: Option<&Arc<T>>) -> bool {
            match (one, other) {
                (Some(one), Some(other)) => Arc::ptr_eq(one, other),
                (None, None) => true,
                _ => false,
            }
        }
        Arc::ptr_eq(&self.member, &other.member)
            && (self.origin, self.in_two) == (other.origin, other.in_two)
            && same(self.connection.as_ref(), other.connection.as_ref())
            && same(self.manager.as_ref(), other.manager.as_ref())
            && self.hub_account == other.hub_account
    }
}
