//! Defines the inventories on the host in which members are registered: kubectl-mc's own, and those of other
//! projects' hubs. A hub has its own API group for the proxy to its members.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::names::INVENTORY;
use crate::path::{CLUSTERS, CLUSTERS_PATH, PROXY_GROUP};
use crate::{ClusterName, MemberCluster};

/// The inventory that a member's connection is from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Origin {
    /// A MemberCluster and the Secret `<name>.member`.
    #[default]
    MemberCluster,
    /// A Cluster of Karmada and its Secrets. The leader keeps a MemberCluster for it, which has label [`INVENTORY`].
    Karmada,
    /// A FederatedCluster of KubeAdmiral and its Secret. The leader keeps a MemberCluster for it, as for Karmada.
    KubeAdmiral,
}

impl Origin {
    pub const ALL: [Self; 3] = [Self::MemberCluster, Self::Karmada, Self::KubeAdmiral];

    /// The name of the inventory, in flags and as the value of label [`INVENTORY`].
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::MemberCluster => "membercluster",
            Self::Karmada => "karmada",
            Self::KubeAdmiral => "kubeadmiral",
        }
    }

    /// The inventory of a MemberCluster's member.
    pub fn of(member: &MemberCluster) -> Self {
        member.metadata.labels.as_ref().map_or(Self::MemberCluster, Self::of_labels)
    }

    /// The inventory that labels of a MemberCluster name.
    pub fn of_labels(labels: &BTreeMap<String, String>) -> Self {
        Self::of_label(labels.get(INVENTORY).map(String::as_str))
    }

    /// The inventory that the value of label [`INVENTORY`] names.
    pub fn of_label(value: Option<&str>) -> Self {
        let hub = Self::ALL.into_iter().find(|origin| origin.is_hub() && value == Some(origin.as_str()));
        hub.unwrap_or_default()
    }

    /// Whether the inventory belongs to another project's hub.
    pub const fn is_hub(self) -> bool {
        !matches!(self, Self::MemberCluster)
    }

    /// Whether the sidecar serves the API group of this hub. Karmada serves its group itself.
    pub const fn has_served_group(self) -> bool {
        matches!(self, Self::KubeAdmiral)
    }

    /// The name of the inventory's project, for messages.
    pub const fn title(self) -> &'static str {
        match self {
            Self::MemberCluster => "kubectl-mc",
            Self::Karmada => "Karmada",
            Self::KubeAdmiral => "KubeAdmiral",
        }
    }

    /// The kind of the objects that register members.
    pub const fn kind(self) -> &'static str {
        match self {
            Self::MemberCluster => "MemberCluster",
            Self::Karmada => "Cluster",
            Self::KubeAdmiral => "FederatedCluster",
        }
    }

    /// The command that removes a member, without the member's name, for messages.
    pub const fn removal(self) -> &'static str {
        match self {
            Self::MemberCluster => "kubectl mc unjoin",
            Self::Karmada => "karmadactl unjoin",
            Self::KubeAdmiral => "kubectl delete federatedcluster",
        }
    }

    /// The API group of the proxy to members of this inventory only. Grants in [`PROXY_GROUP`] apply to
    /// members of every inventory.
    pub const fn grant_group(self) -> &'static str {
        match self {
            Self::MemberCluster => PROXY_GROUP,
            Self::Karmada => KARMADA_GROUP,
            Self::KubeAdmiral => KUBEADMIRAL_GROUP,
        }
    }

    /// The version of that group. All have the same.
    pub const fn grant_version(self) -> &'static str {
        GRANT_VERSION
    }

    /// The resource of that group whose subresource `proxy` grants access.
    pub const fn grant_resource(self) -> &'static str {
        match self {
            Self::MemberCluster | Self::Karmada => CLUSTERS,
            Self::KubeAdmiral => "aggregations",
        }
    }

    /// The collection of that resource, below the host's root.
    pub const fn collection(self) -> &'static str {
        match self {
            Self::MemberCluster => CLUSTERS_PATH,
            Self::Karmada => "/apis/cluster.karmada.io/v1alpha1/clusters",
            Self::KubeAdmiral => "/apis/aggregated.kubeadmiral.io/v1alpha1/aggregations",
        }
    }

    /// The path of a member's API root in that group, without a trailing slash.
    pub fn member_root(self, cluster: &ClusterName) -> String {
        format!("{}/{cluster}/proxy", self.collection())
    }

    /// The name of the APIService that registers the sidecar for the group.
    pub fn api_service(self) -> String {
        format!("{}.{}", self.grant_version(), self.grant_group())
    }

    /// The hub among the inventories of a host.
    ///
    /// # Errors
    ///
    /// The inventories include two hubs.
    pub fn hub_of(inventories: &[Self]) -> Result<Option<Self>, TwoHubs> {
        let mut hubs = Self::ALL.into_iter().filter(|origin| origin.is_hub() && inventories.contains(origin));
        match (hubs.next(), hubs.next()) {
            (_, Some(_)) => Err(TwoHubs),
            (hub, None) => Ok(hub),
        }
    }

    /// The inventory whose group this is.
    pub fn of_group(group: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|origin| origin.grant_group() == group)
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Origin {
    type Err = UnknownInventory;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|origin| origin.as_str() == text).ok_or(UnknownInventory)
    }
}

/// An unknown inventory name.
#[derive(Debug, thiserror::Error)]
#[error("expected membercluster, karmada or kubeadmiral")]
pub struct UnknownInventory;

/// Two hubs for one host: a host is the API server of one hub only.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("karmada and kubeadmiral are inventories of different hosts: name one of them")]
pub struct TwoHubs;

/// The API group of Karmada's Clusters, and of the proxy to them.
pub const KARMADA_GROUP: &str = "cluster.karmada.io";
/// The namespace on Karmada's API server where `karmadactl join` stores the Secrets of members.
pub const KARMADA_NAMESPACE: &str = "karmada-cluster";
/// The API group that KubeAdmiral's clients expect for the proxy to members. KubeAdmiral itself does not
/// serve it.
pub const KUBEADMIRAL_GROUP: &str = "aggregated.kubeadmiral.io";
/// The namespace of the Secrets of KubeAdmiral's FederatedClusters.
pub const KUBEADMIRAL_NAMESPACE: &str = "kube-admiral-system";
const GRANT_VERSION: &str = "v1alpha1";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialect::Dialect;
    use crate::path::PROXY_VERSION;

    #[test]
    fn origins_have_the_paths_of_their_dialects() {
        let name: ClusterName = "m1".parse().unwrap();
        let dialects = [Dialect::Own, Dialect::Karmada, Dialect::KubeAdmiral];
        for (origin, dialect) in Origin::ALL.into_iter().zip(dialects) {
            assert_eq!(origin.member_root(&name), dialect.root(&"m1".parse().unwrap()), "{origin}");
            assert_eq!(dialect.proxied(), Some((origin.grant_resource(), origin.grant_group())));
            let of_group = format!("/apis/{}/{}", origin.grant_group(), origin.grant_version());
            assert_eq!(origin.collection(), format!("{of_group}/{}", origin.grant_resource()));
            assert_eq!(Origin::of_group(origin.grant_group()), Some(origin));
            assert_eq!(origin.as_str().parse::<Origin>().unwrap(), origin);
        }
        assert_eq!(GRANT_VERSION, PROXY_VERSION);
    }

    #[test]
    fn two_hubs_on_one_host_are_refused() {
        let [own, karmada, kubeadmiral] = Origin::ALL;
        for (inventories, hub) in [
            (&[][..], Ok(None)),
            (&[own], Ok(None)),
            (&[own, karmada], Ok(Some(karmada))),
            (&[kubeadmiral, own], Ok(Some(kubeadmiral))),
            (&[karmada, karmada], Ok(Some(karmada))),
            (&[karmada, own, kubeadmiral], Err(TwoHubs)),
        ] {
            assert_eq!(Origin::hub_of(inventories), hub, "{inventories:?}");
        }
    }

    #[test]
    fn only_hub_names_are_valid_inventory_labels() {
        for (value, origin) in [
            (None, Origin::MemberCluster),
            (Some("membercluster"), Origin::MemberCluster),
            (Some("other"), Origin::MemberCluster),
            (Some("karmada"), Origin::Karmada),
            (Some("kubeadmiral"), Origin::KubeAdmiral),
        ] {
            assert_eq!(Origin::of_label(value), origin, "{value:?}");
        }
    }
}
