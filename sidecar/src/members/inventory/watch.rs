//! Watches the host's MemberClusters, the Secrets of the sidecar's namespace, and a hub's inventory if it is
//! enabled. It is the only writer of the inventory and of the registry behind `clusters`.

use std::sync::Arc;

use futures_util::{StreamExt, stream};
use k8s_openapi::api::core::v1::Secret;
use kube::runtime::watcher;
use kube::{Api, ResourceExt};
use kubectl_mc_api::names::SECRET_TYPE;
use kubectl_mc_api::{ClusterName, MemberCluster, Origin};
use tokio::sync::{mpsc, watch};
use tracing::{info, warn};

use super::fleet::{Fleet, HubClusters, Registered};
use super::hub::{self, Known};
use super::renewal::Read;
use super::{Inventories, Inventory, Metrics};
use crate::endpoints::clusters;
use crate::limits::in_flight::MemberLimits;
use crate::observe::readiness::Pending;
use crate::outbound::tunnel::registry::AgentTunnels;
use crate::telemetry::requests::ByMember;

mod changes;
mod from_hub;
mod listed;
mod rights_written;
mod served;
mod way;

use changes::{Change, events, of_hub, version};
use from_hub::FromHub;
use listed::Listed;
use served::Served;

/// The inputs and outputs of the watch.
pub struct Watch {
    pub namespace: String,
    /// The inventories, by precedence.
    pub inventories: Inventories,
    pub inventory: Arc<Inventory>,
    pub registry: clusters::Writer,
    pub fleet: watch::Sender<Arc<Fleet>>,
    pub hub_clusters: watch::Sender<HubClusters>,
    pub metrics: Metrics,
    pub requests: Arc<ByMember>,
    pub tunnels: Arc<AgentTunnels>,
    /// Limits of concurrent requests to one member.
    pub limits: Arc<MemberLimits>,
    /// Done when the lists are read for the first time.
    pub pending: Option<Pending>,
}

/// Watches the host until the process ends. `read` are Secrets that were reread after their credential was
/// refused.
pub async fn run(host: kube::Client, watch: Watch, mut read: mpsc::Receiver<Read>) {
    let members = Api::<MemberCluster>::all(host.clone());
    let secrets = Api::<Secret>::namespaced(host.clone(), &watch.namespace);
    let of_members = watcher::Config::default().fields(&format!("type={SECRET_TYPE}"));
    let events = stream::select(
        events(members.clone(), watcher::Config::default()).map(Change::Member),
        events(secrets, of_members).map(Change::Secret),
    );
    let read = stream::poll_fn(move |cx| read.poll_recv(cx)).map(Change::Read);
    let events = stream::select(stream::select(events, read), of_hub(&host, watch.inventories.hub.as_ref()));
    let mut events = std::pin::pin!(events);
    let mut state = State::new(watch);
    while let Some(change) = events.next().await {
        match change {
            // The watcher does not provide the resource version of its list, so a slightly older one is read
            // here. Deletions before that version are known to precede the list.
            Change::Member(event @ watcher::Event::Init) => {
                state.members_version = version(&members).await;
                state.member(event);
            }
            Change::Member(event) => state.member(event),
            Change::Secret(event) => state.secret(event),
            Change::HubCluster(event) => state.hub(|hub| hub.cluster(event)),
            Change::HubSecret(event) => state.hub(|hub| hub.secret(event)),
            Change::WaitedForHub => state.waited_for_hub(),
            Change::Read(Read { origin, secret, applied }) => {
                state.read(origin, secret);
                let _ = applied.send(());
            }
        }
    }
}

struct State {
    watch: Watch,
    hub: Option<FromHub>,
    /// Whether a starting replica is unready until the hub's inventory is read.
    waits_for_hub: bool,
    members: Listed<MemberCluster>,
    /// The members' resourceVersion just before they were listed.
    members_version: u64,
    secrets: Listed<Secret>,
    /// Secrets of members' managers, which only the controllers need.
    managers: Listed<Secret>,
    served: Served,
}

impl State {
    fn new(watch: Watch) -> Self {
        Self {
            hub: watch.inventories.hub.clone().map(FromHub::new),
            watch,
            waits_for_hub: true,
            members: Listed::default(),
            members_version: 0,
            secrets: Listed::default(),
            managers: Listed::default(),
            served: Served::default(),
        }
    }

    fn member(&mut self, event: watcher::Event<MemberCluster>) {
        self.members.take(&event, name);
        match event {
            // A list counts only when it is complete.
            watcher::Event::Init | watcher::Event::InitApply(_) => return,
            watcher::Event::InitDone => {
                let all = self.members.objects.values().map(|member| MemberCluster::clone(member)).collect();
                self.watch.registry.replace(all, self.members_version);
            }
            watcher::Event::Apply(member) => {
                if name(&member).is_some() {
                    self.watch.registry.apply(member);
                }
            }
            watcher::Event::Delete(member) => {
                if let Some(name) = name(&member) {
                    info!(cluster = %name, "the member was deleted");
                    self.watch.tunnels.end(&name);
                    self.watch.registry.delete(member);
                }
            }
        }
        self.publish();
    }

    fn secret(&mut self, event: watcher::Event<Secret>) {
        self.secrets.take(&event, |secret| ClusterName::of_member_secret(&secret.name_any()));
        self.managers.take(&event, |secret| ClusterName::of_manager_secret(&secret.name_any()));
        if !matches!(event, watcher::Event::Init | watcher::Event::InitApply(_)) {
            self.publish();
        }
    }

    fn hub(&mut self, take: impl FnOnce(&mut FromHub) -> bool) {
        let Some(hub) = &mut self.hub else { return };
        if take(hub) {
            self.publish();
        }
    }

    /// Serves members of other inventories without the hub's, which may be unavailable for long.
    fn waited_for_hub(&mut self) {
        if let Some(hub) = self.hub.as_ref().filter(|hub| !hub.is_synced()) {
            warn!(inventory = %hub.origin(), "the hub's inventory cannot be read yet: its members are off");
        }
        self.waits_for_hub = false;
        self.publish();
    }

    /// Applies a Secret that was read by its name, unless the watch has newer information: it may have
    /// delivered a later version or a deletion during the read.
    fn read(&mut self, origin: Origin, mut secret: Secret) {
        let version = |secret: &Secret| secret.resource_version().and_then(|version| version.parse().ok());
        let name = secret.name_any();
        let known = match origin {
            Origin::MemberCluster => {
                let cluster = ClusterName::of_member_secret(&name);
                cluster.and_then(|cluster| self.secrets.objects.get(&cluster)).map(AsRef::as_ref)
            }
            Origin::Karmada | Origin::KubeAdmiral => {
                self.hub.as_ref().and_then(|hub| Known::secret(hub, &name))
            }
        };
        let known = known.and_then(version);
        if known.is_none_or(|known: u64| version(&secret).is_none_or(|read| read <= known)) {
            return;
        }
        match origin {
            Origin::MemberCluster if secret.type_.as_deref() == Some(SECRET_TYPE) => {
                self.secret(watcher::Event::Apply(secret));
            }
            Origin::MemberCluster => {}
            Origin::Karmada | Origin::KubeAdmiral => {
                self.hub(|hub| {
                    hub.reduce(&mut secret);
                    hub.secret(watcher::Event::Apply(secret))
                });
            }
        }
    }

    /// The inventory that a member is served from, the first that has it, and the Secret with its connection.
    fn connection(
        &self,
        name: &ClusterName,
        member: &MemberCluster,
    ) -> (Origin, Result<Arc<Secret>, Arc<str>>) {
        let registered_in = Origin::of(member);
        for &origin in &*self.watch.inventories.order {
            if origin == Origin::MemberCluster {
                if registered_in != origin {
                    continue;
                }
                let secret = self.secrets.objects.get(name).cloned();
                let missing = || Arc::from(format!("{} does not exist", hub::source(origin, name)));
                return (origin, secret.ok_or_else(missing));
            }
            match &self.hub {
                Some(hub) if !hub.is_synced() => {
                    let why = format!("{}'s inventory and its Secrets are not read yet", origin.title());
                    return (registered_in, Err(Arc::from(why)));
                }
                Some(hub) => {
                    if let Some(connection) = hub.connection(name) {
                        return (origin, connection.clone());
                    }
                }
                None => {}
            }
        }
        let why = match self.watch.inventories.has(registered_in) {
            true => format!("{} does not exist", hub::source(registered_in, name)),
            false => format!("the sidecar's flag --inventory does not have {registered_in}"),
        };
        (registered_in, Err(Arc::from(why)))
    }

    /// Publishes a new snapshot. Nothing is published until both lists are read, because members missing from
    /// a partial list would be reported as unknown.
    fn publish(&mut self) {
        if !(self.members.synced && self.secrets.synced) {
            return;
        }
        let fleet = Arc::new(self.fleet());
        #[expect(clippy::cast_precision_loss, reason = "the number of members is small")]
        self.watch.metrics.members.set(fleet.len() as f64);
        self.watch.fleet.send_replace(fleet.clone());
        // The fleet is published first.
        self.publish_hub_clusters();
        self.watch.inventory.members.store(Some(fleet));
        // After the snapshot: an agent that attaches in the meantime is removed here, or does not find the
        // member there.
        self.watch.tunnels.retain(|name| self.members.objects.contains_key(name));
        if !self.waits_for_hub || self.hub.as_ref().is_none_or(FromHub::is_synced) {
            self.watch.pending.take();
        }
    }

    /// The members with their connections. A member that has not changed keeps its own.
    fn fleet(&mut self) -> Fleet {
        let before = self.watch.fleet.borrow();
        let mut fleet = Fleet::with_capacity(self.members.objects.len());
        for (name, member) in &self.members.objects {
            let mut registered = self.registered(name, member);
            if registered.connection.is_some() {
                registered.way = match before.get(name) {
                    Some(before) if before.is_same(&registered) => before.way.clone(),
                    _ => self.served.way(&self.watch, name, &registered),
                };
            }
            fleet.insert(name.clone(), registered);
        }
        self.served.retain(&fleet);
        fleet
    }

    /// A member without its way, or with the reason why it has no connection.
    fn registered(&self, name: &ClusterName, member: &Arc<MemberCluster>) -> Registered {
        let (origin, connection) = self.connection(name, member);
        let (connection, way) = match connection {
            Ok(secret) => (Some(secret), Err(Arc::default())),
            Err(why) => (None, Err(why)),
        };
        let hub = self.hub.as_ref();
        Registered {
            member: member.clone(),
            origin,
            is_read: self.watch.inventories.has(origin),
            in_two: hub
                .is_some_and(|hub| hub.origin() != Origin::of(member) && hub.connection(name).is_some()),
            connection,
            manager: self.managers.objects.get(name).filter(|_| origin == Origin::MemberCluster).cloned(),
            hub_account: hub.filter(|_| origin.is_hub()).and_then(|hub| hub.account(name)),
            way,
        }
    }

    fn publish_hub_clusters(&self) {
        let Some(clusters) = self.hub.as_ref().and_then(FromHub::clusters) else { return };
        self.watch.hub_clusters.send_if_modified(|known| {
            let is_other = known.as_ref().is_none_or(|known| !Arc::ptr_eq(known, clusters));
            *known = Some(clusters.clone());
            is_other
        });
    }
}

fn name(member: &MemberCluster) -> Option<ClusterName> {
    member.name_any().parse().ok()
}

#[cfg(test)]
mod tests;
