//! Follows the host's MemberClusters and the Secrets of the sidecar's namespace: the only writer of
//! the inventory and of the registry behind `clusters`.

use std::collections::HashMap;
use std::sync::Arc;

use futures_util::{Stream, StreamExt, stream};
use k8s_openapi::api::core::v1::Secret;
use kube::api::ListParams;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, ResourceExt};
use kubectl_mc_api::names::SECRET_TYPE;
use kubectl_mc_api::{ClusterName, MemberCluster};
use tokio::sync::{mpsc, watch};
use tracing::{info, warn};

use super::fleet::{Fleet, Registered};
use super::renewal::Read;
use super::{Inventory, Members, Metrics};
use crate::endpoints::clusters;
use crate::members::cluster::Cluster;
use crate::members::waiter_limit::WaiterLimit;
use crate::readiness::Pending;
use crate::request::limits::{MemberBounds, MemberLimits};
use crate::request::metrics::{ByMember, OfMember};
use crate::tunnel::registry::AgentTunnels;
use crate::watch_backoff::WatchBackoff;

mod way;

use way::Way;

/// What the watch writes to, and by which rules.
pub struct Watch {
    pub namespace: String,
    pub inventory: Arc<Inventory>,
    /// Secrets that were read again, because their credential was refused.
    pub read: mpsc::Receiver<Read>,
    pub registry: clusters::Writer,
    pub fleet: watch::Sender<Arc<Fleet>>,
    pub metrics: Metrics,
    pub requests: Arc<ByMember>,
    pub tunnels: Arc<AgentTunnels>,
    /// Of requests under way to one member.
    pub limits: Arc<MemberLimits>,
    /// Done when both lists were read once.
    pub pending: Pending,
}

/// Follows the host until the process ends.
pub async fn run(host: kube::Client, watch: Watch) {
    let Watch {
        namespace,
        inventory,
        mut read,
        registry,
        fleet,
        metrics,
        requests,
        tunnels,
        limits,
        pending,
    } = watch;
    let members = Api::<MemberCluster>::all(host.clone());
    let secrets = Api::<Secret>::namespaced(host, &namespace);
    let of_members = watcher::Config::default().fields(&format!("type={SECRET_TYPE}"));
    let events = stream::select(
        events(members.clone(), watcher::Config::default()).map(Change::Member),
        events(secrets, of_members).map(Change::Secret),
    );
    let read = stream::poll_fn(move |cx| read.poll_recv(cx)).map(Change::Read);
    let mut events = std::pin::pin!(stream::select(events, read));
    let mut state = State {
        inventory,
        registry,
        fleet,
        metrics,
        requests,
        tunnels,
        limits,
        pending: Some(pending),
        members: Listed::default(),
        members_version: 0,
        secrets: Listed::default(),
        managers: Listed::default(),
        ways: HashMap::new(),
        shares: HashMap::new(),
    };
    while let Some(change) = events.next().await {
        match change {
            // The watcher does not tell its list's own version. One that is a moment older is nearly
            // as good: deletions before it are known to have been before the list.
            Change::Member(event @ watcher::Event::Init) => {
                state.members_version = version(&members).await;
                state.member(event);
            }
            Change::Member(event) => state.member(event),
            Change::Secret(event) => state.secret(event),
            Change::Read(Read { secret, applied }) => {
                state.read(secret);
                let _ = applied.send(());
            }
        }
    }
}

enum Change {
    Member(watcher::Event<MemberCluster>),
    Secret(watcher::Event<Secret>),
    Read(Read),
}

/// The resourceVersion that the host's MemberClusters have now; 0 if it cannot be told.
async fn version(members: &Api<MemberCluster>) -> u64 {
    let list = members.list_metadata(&ListParams::default().limit(1)).await;
    list.ok().and_then(|list| list.metadata.resource_version?.parse().ok()).unwrap_or_default()
}

/// Events without the errors, which are told and tried again.
fn events<K>(api: Api<K>, config: watcher::Config) -> impl Stream<Item = watcher::Event<K>>
where
    K: kube::Resource<DynamicType = ()>
        + Clone
        + std::fmt::Debug
        + serde::de::DeserializeOwned
        + Send
        + 'static,
{
    // Who wrote which field is no use here, and takes as much memory as the rest of a small object.
    let events = watcher(api, config).modify(|object| object.managed_fields_mut().clear());
    events.backoff(WatchBackoff::default()).filter_map(async |event| {
        event
            .inspect_err(
                |error| warn!(kind = %K::kind(&()), error = %error, "cannot list or watch on the host"),
            )
            .ok()
    })
}

/// One kind of object by cluster, and the list being read anew.
struct Listed<T> {
    objects: HashMap<ClusterName, Arc<T>>,
    anew: Option<HashMap<ClusterName, Arc<T>>>,
    synced: bool,
}

impl<T> Default for Listed<T> {
    fn default() -> Self {
        Self { objects: HashMap::new(), anew: None, synced: false }
    }
}

impl<T: Clone> Listed<T> {
    /// Takes what the watch says of the objects that have a `cluster`.
    fn take(&mut self, event: &watcher::Event<T>, cluster: impl Fn(&T) -> Option<ClusterName>) {
        match event {
            watcher::Event::Init => self.anew = Some(HashMap::new()),
            watcher::Event::InitApply(object) => {
                if let (Some(name), Some(anew)) = (cluster(object), &mut self.anew) {
                    anew.insert(name, Arc::new(object.clone()));
                }
            }
            watcher::Event::InitDone => {
                self.objects = self.anew.take().unwrap_or_default();
                self.synced = true;
            }
            watcher::Event::Apply(object) => {
                if let Some(name) = cluster(object) {
                    self.objects.insert(name, Arc::new(object.clone()));
                }
            }
            watcher::Event::Delete(object) => {
                if let Some(name) = cluster(object) {
                    self.objects.remove(&name);
                }
            }
        }
    }
}

struct State {
    inventory: Arc<Inventory>,
    registry: clusters::Writer,
    fleet: watch::Sender<Arc<Fleet>>,
    metrics: Metrics,
    requests: Arc<ByMember>,
    tunnels: Arc<AgentTunnels>,
    limits: Arc<MemberLimits>,
    pending: Option<Pending>,
    members: Listed<MemberCluster>,
    /// What the members' resourceVersion was just before they were listed.
    members_version: u64,
    secrets: Listed<Secret>,
    /// Secrets of members' managers, which no request needs.
    managers: Listed<Secret>,
    /// The way to a member stays, with its pool, as long as its Secret's content does.
    ways: HashMap<ClusterName, Way>,
    /// Kept over changes of the Secret, or each change would grant the member's share anew.
    shares: HashMap<ClusterName, Share>,
}

/// How much one member may hold, and what is counted of it.
#[derive(Clone)]
struct Share {
    bounds: MemberBounds,
    waiters: WaiterLimit,
    requests: Arc<OfMember>,
}

impl State {
    fn member(&mut self, event: watcher::Event<MemberCluster>) {
        self.members.take(&event, name);
        match event {
            // Nothing is known of a list before its end.
            watcher::Event::Init | watcher::Event::InitApply(_) => return,
            watcher::Event::InitDone => {
                let all = self.members.objects.values().map(|member| MemberCluster::clone(member)).collect();
                self.registry.replace(all, self.members_version);
            }
            watcher::Event::Apply(member) => {
                if name(&member).is_some() {
                    self.registry.apply(member);
                }
            }
            watcher::Event::Delete(member) => {
                if let Some(name) = name(&member) {
                    info!(cluster = %name, "the member was deleted");
                    self.tunnels.end(&name);
                    self.registry.delete(member);
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

    /// Takes a Secret that was asked for by its name, unless the watch knows better: it may have told
    /// of a later one, or that it is deleted, while the answer was on its way.
    fn read(&mut self, secret: Secret) {
        let version = |secret: &Secret| secret.resource_version().and_then(|version| version.parse().ok());
        let known = ClusterName::of_member_secret(&secret.name_any())
            .and_then(|name| self.secrets.objects.get(&name))
            .and_then(|secret| version(secret));
        let later = known.is_some_and(|known: u64| version(&secret).is_some_and(|read| read > known));
        if later && secret.type_.as_deref() == Some(SECRET_TYPE) {
            self.secret(watcher::Event::Apply(secret));
        }
    }

    /// Makes a new snapshot. Nothing is published until both lists were read: half a list would
    /// call members unknown that are not.
    fn publish(&mut self) {
        if !(self.members.synced && self.secrets.synced) {
            return;
        }
        let mut members = Members::with_capacity(self.members.objects.len());
        let mut ways = std::mem::take(&mut self.ways);
        self.shares.retain(|name, _| self.members.objects.contains_key(name));
        for (name, member) in &self.members.objects {
            let Some(secret) = self.secrets.objects.get(name) else {
                members.insert(name.clone(), Err(Arc::from("does not exist")));
                continue;
            };
            let (unreachable, tunnels) = (&self.metrics.unreachable, &self.tunnels);
            let mut way = Way::next(ways.remove(name), name, member, secret, unreachable, tunnels);
            way.reported(member);
            let share = self.shares.entry(name.clone()).or_insert_with(|| Share {
                bounds: self.limits.bounds(),
                waiters: WaiterLimit::default(),
                requests: self.requests.of(name),
            });
            let cluster = way.upstream.clone().map(|upstream| {
                let (name, forwarded, gone) = (name.clone(), member.forwarded(), way.gone.clone());
                let managed = self.managers.objects.contains_key(&name);
                let Share { bounds, waiters, requests } = share.clone();
                Arc::new(Cluster { name, forwarded, upstream, gone, bounds, managed, waiters, requests })
            });
            members.insert(name.clone(), cluster);
            self.ways.insert(name.clone(), way);
        }
        ways.into_values().for_each(|way| way.gone.cancel());
        #[expect(clippy::cast_precision_loss, reason = "the number of members is small")]
        self.metrics.members.set(members.len() as f64);
        self.fleet.send_replace(Arc::new(self.snapshot_for_controllers(&members)));
        self.inventory.members.store(Arc::new(Some(members)));
        // After the snapshot: who attaches meanwhile is found here, or does not find the member there.
        self.tunnels.retain(|name| self.members.objects.contains_key(name));
        self.pending.take();
    }

    fn snapshot_for_controllers(&self, members: &Members) -> Fleet {
        let registered = |(name, way): (&ClusterName, &Result<Arc<Cluster>, Arc<str>>)| {
            let registered = Registered {
                member: self.members.objects.get(name)?.clone(),
                connection: self.secrets.objects.get(name).cloned(),
                manager: self.managers.objects.get(name).cloned(),
                way: way.clone(),
            };
            Some((name.clone(), registered))
        };
        members.iter().filter_map(registered).collect()
    }
}

fn name(member: &MemberCluster) -> Option<ClusterName> {
    member.name_any().parse().ok()
}

#[cfg(test)]
mod tests;
