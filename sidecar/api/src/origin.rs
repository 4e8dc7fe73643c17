//! The inventories on the host that members are registered in: kubectl-mc's own and Karmada's.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::MemberCluster;
use crate::names::INVENTORY;
use crate::path::PROXY_GROUP;

/// The inventory that a member's connection is from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Origin {
    /// A MemberCluster and the Secret `<name>.member`.
    #[default]
    MemberCluster,
    /// A Cluster of Karmada and its Secrets. The leader keeps a MemberCluster for it, which has label [`INVENTORY`].
    Karmada,
}

impl Origin {
    /// The name of the inventory, in flags and as the value of label [`INVENTORY`].
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::MemberCluster => "membercluster",
            Self::Karmada => "karmada",
        }
    }

    /// The inventory that a MemberCluster is kept for.
    pub fn of(member: &MemberCluster) -> Self {
        member.metadata.labels.as_ref().map_or(Self::MemberCluster, Self::of_labels)
    }

    /// The inventory that labels of a MemberCluster name.
    pub fn of_labels(labels: &BTreeMap<String, String>) -> Self {
        let value = labels.get(INVENTORY).map(String::as_str);
        if value == Some(Self::Karmada.as_str()) { Self::Karmada } else { Self::MemberCluster }
    }

    /// The API group whose `clusters/proxy` grants access to members of this inventory only. Grants in
    /// [`PROXY_GROUP`] count for members of every inventory.
    pub const fn grant_group(self) -> &'static str {
        match self {
            Self::MemberCluster => PROXY_GROUP,
            Self::Karmada => KARMADA_GROUP,
        }
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
        [Self::MemberCluster, Self::Karmada]
            .into_iter()
            .find(|origin| origin.as_str() == text)
            .ok_or(UnknownInventory)
    }
}

/// A name of no inventory.
#[derive(Debug, thiserror::Error)]
#[error("it is neither membercluster nor karmada")]
pub struct UnknownInventory;

/// The API group of Karmada's Clusters, and the version that is read.
pub const KARMADA_GROUP: &str = "cluster.karmada.io";
pub const KARMADA_VERSION: &str = "v1alpha1";
/// The namespace on Karmada's API server where `karmadactl join` stores the Secrets of members.
pub const KARMADA_NAMESPACE: &str = "karmada-cluster";
