//! Keeps the registrations of a hub and their Secrets from the watch, and derives the members' connections.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use kube::runtime::watcher::Event;
use kubectl_mc_api::{ClusterName, Origin};
use tracing::{info, warn};

use super::listed::Listed;
use crate::members::inventory::fleet::{HubAccount, HubClusters, HubMembers};
use crate::members::inventory::hub::{self, Hub, Known, Registration};

pub(super) struct FromHub {
    hub: Hub,
    clusters: Listed<Registration>,
    /// Secrets by their own names; only names that are DNS labels are stored.
    secrets: Listed<Secret>,
    /// A connection stays the same object as long as its content does.
    connections: HashMap<ClusterName, Connection>,
    /// Empty if the flags do not permit the use of the hub's accounts.
    accounts: HashMap<ClusterName, Result<Arc<Secret>, Arc<str>>>,
    known: HubClusters,
}

type Connection = Result<Arc<Secret>, Arc<str>>;

impl FromHub {
    pub(super) fn new(hub: Hub) -> Self {
        Self {
            hub,
            clusters: Listed::default(),
            secrets: Listed::default(),
            connections: HashMap::new(),
            accounts: HashMap::new(),
            known: None,
        }
    }

    pub(super) fn origin(&self) -> Origin {
        self.hub.origin
    }

    /// Whether both lists have been read.
    pub(super) fn is_synced(&self) -> bool {
        self.clusters.synced && self.secrets.synced
    }

    /// The connection of a member, or why there is none; `None` without a registration of this name.
    pub(super) fn connection(&self, name: &ClusterName) -> Option<&Connection> {
        self.connections.get(name)
    }

    /// The hub's own account on a member.
    pub(super) fn account(&self, name: &ClusterName) -> HubAccount {
        self.accounts.get(name).cloned()
    }

    /// The labels of each member; `None` until they are read.
    pub(super) fn clusters(&self) -> Option<&Arc<HubMembers>> {
        self.known.as_ref()
    }

    /// Applies an event and returns whether it is relevant. Hubs often write the status of
    /// registrations, which is not relevant.
    pub(super) fn cluster(&mut self, event: Event<Registration>) -> bool {
        if let Event::Apply(cluster) = &event
            && let Ok(name) = cluster.name.parse()
            && self.clusters.objects.get(&name).is_some_and(|known| **known == *cluster)
        {
            return false;
        }
        self.clusters.take(&event, |cluster| cluster.name.parse().ok());
        self.read_after(&event)
    }

    /// Removes unused data from a Secret.
    pub(super) fn reduce(&self, secret: &mut Secret) {
        hub::reduce(&self.hub, secret);
    }

    pub(super) fn secret(&mut self, event: Event<Secret>) -> bool {
        self.secrets.take(&event, |secret| secret.name_any().parse().ok());
        self.read_after(&event)
    }

    fn read_after<T>(&mut self, event: &Event<T>) -> bool {
        let is_part_of_list = matches!(event, Event::Init | Event::InitApply(_));
        if is_part_of_list || !self.is_synced() {
            return false;
        }
        let (mut before, mut accounts) =
            (std::mem::take(&mut self.connections), std::mem::take(&mut self.accounts));
        let mut read_accounts = HashMap::new();
        let read = |(name, cluster): (&ClusterName, &Arc<Registration>)| {
            let now = self.read(name, cluster);
            let account =
                now.as_ref().ok().and_then(|connection| self.read_account(name, cluster, connection));
            if let Some(account) = account {
                let known = accounts.remove(name).filter(|known| same_account(known, &account));
                read_accounts.insert(name.clone(), known.unwrap_or(account));
            }
            match (before.remove(name), now) {
                (Some(Ok(known)), Ok(now))
                    if known.uid() == now.uid()
                        && known.data == now.data
                        && known.metadata.annotations == now.metadata.annotations =>
                {
                    (name.clone(), Ok(known))
                }
                (_, Ok(now)) => {
                    if let Some(unbound) = now.annotations().get(hub::UNBOUND) {
                        warn!(cluster = %name, unbound, "the Cluster chooses Secrets by reference, as --inventory-allow-refs permits");
                    }
                    (name.clone(), Ok(Arc::new(now)))
                }
                (before, Err(why)) => {
                    let why = format!("{} cannot be used: {why}", hub::source(self.hub.origin, name));
                    if before.is_none_or(|before| before.err().as_deref() != Some(&why)) {
                        info!(cluster = %name, why, "the proxy to the member is off");
                    }
                    (name.clone(), Err(Arc::from(why)))
                }
            }
        };
        let connections = self.clusters.objects.iter().map(read).collect();
        self.connections = connections;
        self.accounts = read_accounts;
        let clusters = self.clusters.objects.iter();
        let labels: BTreeMap<_, _> =
            clusters.map(|(name, cluster)| (name.clone(), cluster.labels.clone())).collect();
        if self.known.as_ref().is_none_or(|known| known.labels != labels) {
            self.known = Some(Arc::new(HubMembers { origin: self.hub.origin, labels }));
        }
        true
    }

    /// The equivalent Secret of a member. Its uid is the registration's, so a recreated registration is
    /// another member.
    fn read(&self, name: &ClusterName, cluster: &Registration) -> Result<Secret, String> {
        let data = cluster.connection(&self.hub, name, self)?;
        let mut secret = Secret { data: Some(data), ..Secret::default() };
        secret.metadata.name = Some(hub::credential_secret(self.hub.origin, name));
        secret.metadata.namespace = Some(self.hub.namespace.clone());
        secret.metadata.uid.clone_from(&cluster.uid);
        let unbound = cluster.unbound(name);
        secret.metadata.annotations = unbound.map(|unbound| [(hub::UNBOUND.to_owned(), unbound)].into());
        Ok(secret)
    }

    /// The hub's own account on the member.
    fn read_account(&self, name: &ClusterName, cluster: &Registration, connection: &Secret) -> HubAccount {
        let data = connection.data.as_ref()?;
        let account = cluster.account(&self.hub, name, data, self)?.map(|data| {
            let mut secret = Secret { data: Some(data), ..Secret::default() };
            secret.metadata.name = Some(name.to_string());
            secret.metadata.namespace = Some(self.hub.namespace.clone());
            Arc::new(secret)
        });
        Some(account.map_err(Arc::from))
    }
}

/// Whether two readings of an account have the same content.
fn same_account(before: &Result<Arc<Secret>, Arc<str>>, now: &Result<Arc<Secret>, Arc<str>>) -> bool {
    match (before, now) {
        (Ok(before), Ok(now)) => before.data == now.data,
        (before, now) => before == now,
    }
}

impl Known for FromHub {
    fn has_cluster(&self, name: &str) -> bool {
        name.parse().is_ok_and(|name: ClusterName| self.clusters.objects.contains_key(&name))
    }

    fn secret(&self, name: &str) -> Option<&Secret> {
        self.secrets.objects.get(&name.parse().ok()?).map(AsRef::as_ref)
    }
}
