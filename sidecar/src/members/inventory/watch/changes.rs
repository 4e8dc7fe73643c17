//! What happens on the host, as streams that end with the process.

use std::time::Duration;

use futures_util::{FutureExt, Stream, StreamExt, stream};
use k8s_openapi::api::core::v1::Secret;
use kube::api::ListParams;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, ResourceExt};
use kubectl_mc_api::{MemberCluster, Origin};
use tokio::time::sleep;
use tracing::warn;

use crate::members::inventory::Inventories;
use crate::members::inventory::karmada::{self, KarmadaCluster};
use crate::members::inventory::renewal::Read;
use crate::watch_backoff::WatchBackoff;

/// What happens in Karmada's inventory; nothing if it does not count.
pub(super) fn of_karmada(
    host: &kube::Client,
    inventories: &Inventories,
) -> impl Stream<Item = Change> + use<> {
    if !inventories.has(Origin::Karmada) {
        return stream::empty().left_stream();
    }
    let clusters = Api::<KarmadaCluster>::all(host.clone());
    let secrets = Api::<Secret>::namespaced(host.clone(), &inventories.karmada_namespace);
    let secrets = events(secrets, watcher::Config::default()).map(|event| event.modify(karmada::reduce));
    let changes = stream::select(
        events(clusters, watcher::Config::default()).map(Change::KarmadaCluster),
        secrets.map(Change::KarmadaSecret),
    );
    let waited = sleep(KARMADA_TIMEOUT).map(|()| Change::WaitedForKarmada).into_stream();
    stream::select(changes, waited).right_stream()
}

/// What happens on the host.
pub(super) enum Change {
    Member(watcher::Event<MemberCluster>),
    Secret(watcher::Event<Secret>),
    KarmadaCluster(watcher::Event<KarmadaCluster>),
    KarmadaSecret(watcher::Event<Secret>),
    WaitedForKarmada,
    Read(Read),
}

/// The resourceVersion that the host's MemberClusters have now; 0 if it cannot be told.
pub(super) async fn version(members: &Api<MemberCluster>) -> u64 {
    let list = members.list_metadata(&ListParams::default().limit(1)).await;
    list.ok().and_then(|list| list.metadata.resource_version?.parse().ok()).unwrap_or_default()
}

/// Events without the errors, which are logged and retried.
pub(super) fn events<K>(api: Api<K>, config: watcher::Config) -> impl Stream<Item = watcher::Event<K>>
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

/// How long a replica that starts waits for Karmada before it serves the other members.
const KARMADA_TIMEOUT: Duration = Duration::from_secs(10);
