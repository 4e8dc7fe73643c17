//! Karmada's Clusters and their Secrets, as the watch tells them, and the connections that follow.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use kube::runtime::watcher::Event;
use kubectl_mc_api::{ClusterName, Origin};
use tracing::info;

use super::listed::Listed;
use crate::members::inventory::fleet::KarmadaClusters;
use crate::members::inventory::karmada::{self, KarmadaCluster, Known};

pub(super) struct FromKarmada {
    namespace: String,
    clusters: Listed<KarmadaCluster>,
    /// By their own names, which are DNS labels too.
    secrets: Listed<Secret>,
    /// As long as nothing changes that matters, a connection is the same object.
    connections: HashMap<ClusterName, Connection>,
    labels: KarmadaClusters,
}

type Connection = Result<Arc<Secret>, Arc<str>>;

impl FromKarmada {
    pub(super) fn new(namespace: &str) -> Self {
        Self {
            namespace: namespace.to_owned(),
            clusters: Listed::default(),
            secrets: Listed::default(),
            connections: HashMap::new(),
            labels: None,
        }
    }

    /// Whether both lists were read once.
    pub(super) fn is_synced(&self) -> bool {
        self.clusters.synced && self.secrets.synced
    }

    /// The connection of a Cluster, or why there is none; nothing without a Cluster of this name.
    pub(super) fn connection(&self, name: &ClusterName) -> Option<&Connection> {
        self.connections.get(name)
    }

    /// The labels of each Cluster; nothing before they are known.
    pub(super) fn labels(&self) -> &KarmadaClusters {
        &self.labels
    }

    /// Takes what the watch says, and says whether that matters: Karmada writes a Cluster's status every few seconds.
    pub(super) fn cluster(&mut self, event: Event<KarmadaCluster>) -> bool {
        if let Event::Apply(cluster) = &event
            && let Some(name) = name(cluster)
            && self.clusters.objects.get(&name).is_some_and(|known| is_same(known, cluster))
        {
            return false;
        }
        self.clusters.take(&event, name);
        self.read_after(&event)
    }

    pub(super) fn secret(&mut self, event: Event<Secret>) -> bool {
        self.secrets.take(&event, name);
        self.read_after(&event)
    }

    fn read_after<T>(&mut self, event: &Event<T>) -> bool {
        let is_part_of_list = matches!(event, Event::Init | Event::InitApply(_));
        if is_part_of_list || !self.is_synced() {
            return false;
        }
        let mut before = std::mem::take(&mut self.connections);
        let read = |(name, cluster): (&ClusterName, &Arc<KarmadaCluster>)| {
            let now = self.read(name, cluster);
            match (before.remove(name), now) {
                (Some(Ok(known)), Ok(now)) if known.uid() == now.uid() && known.data == now.data => {
                    (name.clone(), Ok(known))
                }
                (_, Ok(now)) => (name.clone(), Ok(Arc::new(now))),
                (before, Err(why)) => {
                    let why = format!("{} cannot be used: {why}", karmada::source(Origin::Karmada, name));
                    if before.is_none_or(|before| before.err().as_deref() != Some(&why)) {
                        info!(cluster = %name, why, "the proxy to the member is off");
                    }
                    (name.clone(), Err(Arc::from(why)))
                }
            }
        };
        let connections = self.clusters.objects.iter().map(read).collect();
        self.connections = connections;
        let labels = |cluster: &KarmadaCluster| cluster.metadata.labels.clone().unwrap_or_default();
        let clusters = self.clusters.objects.iter();
        let labels: BTreeMap<_, _> =
            clusters.map(|(name, cluster)| (name.clone(), labels(cluster))).collect();
        if self.labels.as_deref() != Some(&labels) {
            self.labels = Some(Arc::new(labels));
        }
        true
    }

    /// What a member's Secret would say. Its uid is the Cluster's: one that is made anew is another member.
    fn read(&self, name: &ClusterName, cluster: &KarmadaCluster) -> Result<Secret, String> {
        let data = karmada::connection(&self.namespace, name, &cluster.spec, self)?;
        let mut secret = Secret { data: Some(data), ..Secret::default() };
        secret.metadata.name = Some(karmada::impersonator_secret(name));
        secret.metadata.namespace = Some(self.namespace.clone());
        secret.metadata.uid = cluster.uid();
        Ok(secret)
    }
}

impl Known for FromKarmada {
    fn has_cluster(&self, name: &str) -> bool {
        name.parse().is_ok_and(|name: ClusterName| self.clusters.objects.contains_key(&name))
    }

    fn secret(&self, name: &str) -> Option<&Secret> {
        self.secrets.objects.get(&name.parse().ok()?).map(AsRef::as_ref)
    }
}

fn name<T: ResourceExt>(object: &T) -> Option<ClusterName> {
    object.name_any().parse().ok()
}

fn is_same(before: &KarmadaCluster, after: &KarmadaCluster) -> bool {
    before.spec == after.spec
        && before.metadata.labels == after.metadata.labels
        && before.metadata.uid == after.metadata.uid
}
