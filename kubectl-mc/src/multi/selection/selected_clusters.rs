//! Represents the resolved clusters of a command.

use std::collections::BTreeMap;
use std::sync::Arc;

use kubectl_mc_api::ClusterName;
use serde_json::Value;

use crate::cluster::cluster_id::{ClusterId, KubeconfigContext};
use crate::server_text::ServerText;

/// At least one cluster, in order and without duplicates.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SelectedClusters(Vec<SelectedCluster>);

/// One cluster.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SelectedCluster {
    pub(crate) name: ClusterId,
    /// The entry in the host's list, if it was requested.
    pub(crate) listed: Option<Listed>,
}

/// The data of a cluster in the host's list.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Listed {
    pub(crate) labels: BTreeMap<ServerText, ServerText>,
    pub(crate) version: Option<ServerText>,
    pub(crate) server: Option<ServerText>,
    /// The status of each condition, by its type.
    pub(crate) conditions: BTreeMap<String, ServerText>,
    pub(crate) ready: Readiness,
}

/// The condition Ready.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) enum Readiness {
    Ready,
    /// The host reports that the cluster does not respond, with the reason of the condition.
    NotReady(ServerText),
    #[default]
    Unknown,
}

impl SelectedClusters {
    /// Of several targets with the same name, the first one is used.
    pub(super) fn new(targets: Vec<SelectedCluster>) -> Self {
        let mut seen = std::collections::HashSet::new();
        Self(targets.into_iter().filter(|target| seen.insert(target.name.clone())).collect())
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = &SelectedCluster> {
        self.0.iter()
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &ClusterId> {
        self.0.iter().map(|target| &target.name)
    }

    /// A name that both a member and a context have, which would be ambiguous in output.
    pub(super) fn same_name(&self) -> Option<&str> {
        let mut seen = std::collections::HashSet::new();
        self.names().map(ClusterId::as_str).find(|name| !seen.insert(*name))
    }

    /// The only cluster, if there is exactly one.
    pub(crate) fn only(&self) -> Option<&SelectedCluster> {
        match self.0.as_slice() {
            [only] => Some(only),
            _ => None,
        }
    }
}

impl SelectedCluster {
    pub(crate) fn unlisted(name: ClusterId) -> Self {
        Self { name, listed: None }
    }

    /// The name of the member, if it is one.
    pub(crate) fn member(&self) -> Option<&ClusterName> {
        self.name.member()
    }

    /// The clusters of the host's list.
    pub(crate) fn of_list(list: &Value) -> Vec<Self> {
        let items = list.get("items").and_then(Value::as_array);
        items.into_iter().flatten().filter_map(Self::of_item).collect()
    }

    /// The contexts of the kubeconfig.
    pub(crate) fn of_contexts(contexts: Vec<KubeconfigContext>) -> Vec<Self> {
        contexts.into_iter().map(|context| Self::unlisted(ClusterId::Context(Arc::new(context)))).collect()
    }

    /// The reason if the host reports the cluster as not ready.
    pub(crate) fn not_ready(&self) -> Option<&ServerText> {
        match &self.listed.as_ref()?.ready {
            Readiness::NotReady(reason) => Some(reason),
            Readiness::Ready | Readiness::Unknown => None,
        }
    }

    /// The status of its condition Ready.
    pub(crate) fn ready(&self) -> &'static str {
        match self.listed.as_ref().map(|listed| &listed.ready) {
            Some(Readiness::Ready) => "True",
            Some(Readiness::NotReady(_)) => "False",
            None if self.name.context().is_some_and(|context| context.cluster.check_usable().is_err()) => {
                "False"
            }
            Some(Readiness::Unknown) | None => "Unknown",
        }
    }

    /// One cluster of the host's list.
    pub(crate) fn of_item(item: &Value) -> Option<Self> {
        let text = |value: Option<&Value>| value.and_then(Value::as_str).map(str::to_owned);
        let name: ClusterName = text(item.pointer("/metadata/name"))?.parse().ok()?;
        let labels = item.pointer("/metadata/labels").and_then(Value::as_object);
        let labels = labels
            .into_iter()
            .flatten()
            .filter_map(|(key, value)| Some((key.clone().into(), value.as_str()?.into())));
        let listed = item.pointer("/status/conditions").and_then(Value::as_array);
        let listed = || listed.into_iter().flatten();
        let conditions = listed().filter_map(|condition| {
            Some((text(condition.get("type"))?, text(condition.get("status"))?.into()))
        });
        let ready = listed().find(|condition| condition.get("type").is_some_and(|kind| kind == "Ready"));
        let ready = ready.map_or(Readiness::Unknown, |condition| {
            match condition.get("status").and_then(Value::as_str) {
                Some("True") => Readiness::Ready,
                Some("False") => {
                    let said = ["message", "reason"]
                        .iter()
                        .filter_map(|key| text(condition.get(*key)))
                        .find(|text| !text.is_empty());
                    Readiness::NotReady(said.map_or_else(|| "not ready".into(), Into::into))
                }
                _ => Readiness::Unknown,
            }
        });
        let listed = Listed {
            labels: labels.collect(),
            version: text(item.pointer("/status/version")).map(Into::into),
            server: text(item.pointer("/status/server")).map(Into::into),
            conditions: conditions.collect(),
            ready,
        };
        Some(Self { name: name.into(), listed: Some(listed) })
    }
}
