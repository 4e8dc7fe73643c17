//! Watches objects on the host as streams of changes, which end with the process.

use std::time::Duration;

use futures_util::{FutureExt, Stream, StreamExt, stream};
use k8s_openapi::api::core::v1::Secret;
use kube::api::ListParams;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, ResourceExt};
use kubectl_mc_api::{MemberCluster, Origin};
use tokio::time::{sleep, timeout};
use tracing::warn;

use crate::host::watch_backoff::WatchBackoff;
use crate::members::inventory::hub::karmada::KarmadaCluster;
use crate::members::inventory::hub::kubeadmiral::FederatedCluster;
use crate::members::inventory::hub::{self, Hub, Registration};
use crate::members::inventory::renewal::Read;

/// The changes of a hub's inventory; empty without a hub.
pub(super) fn of_hub(host: &kube::Client, hub: Option<&Hub>) -> impl Stream<Item = Change> + use<> {
    let Some(hub) = hub.cloned() else { return stream::empty().boxed() };
    let clusters = match hub.origin {
        Origin::MemberCluster => stream::empty().boxed(),
        Origin::Karmada => registrations::<KarmadaCluster>(host).boxed(),
        Origin::KubeAdmiral => registrations::<FederatedCluster>(host).boxed(),
    };
    let secrets = Api::<Secret>::namespaced(host.clone(), &hub.namespace);
    let secrets = events(secrets, watcher::Config::default());
    let secrets = secrets.map(move |event| event.modify(|secret| hub::reduce(&hub, secret)));
    let changes = stream::select(clusters.map(Change::HubCluster), secrets.map(Change::HubSecret));
    let waited = sleep(HUB_TIMEOUT).map(|()| Change::WaitedForHub).into_stream();
    stream::select(changes, waited).boxed()
}

/// The changes of the objects of one kind that register members.
fn registrations<K>(host: &kube::Client) -> impl Stream<Item = watcher::Event<Registration>> + use<K>
where
    K: kube::Resource<DynamicType = ()>
        + Clone
        + std::fmt::Debug
        + serde::de::DeserializeOwned
        + Into<Registration>
        + Send
        + 'static,
{
    events(Api::<K>::all(host.clone()), watcher::Config::default()).map(|event| match event {
        watcher::Event::Init => watcher::Event::Init,
        watcher::Event::InitApply(object) => watcher::Event::InitApply(object.into()),
        watcher::Event::InitDone => watcher::Event::InitDone,
        watcher::Event::Apply(object) => watcher::Event::Apply(object.into()),
        watcher::Event::Delete(object) => watcher::Event::Delete(object.into()),
    })
}

/// A change on the host.
pub(super) enum Change {
    Member(watcher::Event<MemberCluster>),
    Secret(watcher::Event<Secret>),
    HubCluster(watcher::Event<Registration>),
    HubSecret(watcher::Event<Secret>),
    WaitedForHub,
    Read(Read),
}

/// The current resourceVersion of the host's MemberClusters; 0 if it cannot be read.
pub(super) async fn version(members: &Api<MemberCluster>) -> u64 {
    let limit = ListParams::default().limit(1);
    let list = timeout(VERSION_TIMEOUT, members.list_metadata(&limit)).await;
    list.ok()
        .and_then(Result::ok)
        .and_then(|list| list.metadata.resource_version?.parse().ok())
        .unwrap_or_default()
}

/// The events of a watch. Errors are logged and retried.
pub(super) fn events<K>(api: Api<K>, config: watcher::Config) -> impl Stream<Item = watcher::Event<K>>
where
    K: kube::Resource<DynamicType = ()>
        + Clone
        + std::fmt::Debug
        + serde::de::DeserializeOwned
        + Send
        + 'static,
{
    // Managed fields are not needed here, and take as much memory as the rest of a small object.
    let events = watcher(api, config).modify(|object| object.managed_fields_mut().clear());
    events.backoff(WatchBackoff::default()).filter_map(async |event| {
        event
            .inspect_err(
                |error| warn!(kind = %K::kind(&()), error = %error, "cannot list or watch on the host"),
            )
            .ok()
    })
}

/// How long a starting replica waits for the hub's inventory before it serves the other members.
const HUB_TIMEOUT: Duration = Duration::from_secs(10);
/// Meanwhile no other change of the inventory is processed.
const VERSION_TIMEOUT: Duration = Duration::from_secs(5);
