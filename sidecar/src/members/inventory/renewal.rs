//! Rereads a member's Secret after the member has refused its credential. The watch delivers a new credential
//! too, but possibly only after the old one has become invalid. The Secret that is read here is passed to the
//! watch task, which updates the connection as usual.

use std::time::Duration;

use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kubectl_mc_api::{ClusterName, Origin};
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;
use tracing::{info, warn};

use super::Inventories;
use super::hub::credential_secret;
use crate::base::ttl_cache::TtlCache;

/// Reads members' Secrets, each at most once in [`INTERVAL`]; concurrent reads are coalesced.
pub struct Renewals {
    secrets: Api<Secret>,
    of_hub: Api<Secret>,
    read: TtlCache<ClusterName, ()>,
    watch: mpsc::Sender<Read>,
}

/// The current version of a Secret, for the watch.
pub struct Read {
    pub(super) origin: Origin,
    pub(super) secret: Secret,
    /// Notified when the watch has applied the Secret.
    pub(super) applied: oneshot::Sender<()>,
}

impl Renewals {
    /// The receiver is for the watch.
    pub fn new(
        host: kube::Client,
        namespace: &str,
        inventories: &Inventories,
    ) -> (Self, mpsc::Receiver<Read>) {
        let (watch, read) = mpsc::channel(QUEUED);
        let secrets = Api::namespaced(host.clone(), namespace);
        let hub = inventories.hub.as_ref().map_or(namespace, |hub| &hub.namespace);
        let of_hub = Api::namespaced(host, hub);
        (Self { secrets, of_hub, read: TtlCache::new(MAX_KEPT, INTERVAL), watch }, read)
    }

    /// Returns when the watch has applied the current Secret, or when it cannot be read.
    pub(super) async fn read(&self, origin: Origin, cluster: &ClusterName) {
        self.read.get_or_fetch(cluster, self.read_now(origin, cluster), |()| true).await;
    }

    async fn read_now(&self, origin: Origin, cluster: &ClusterName) {
        let secrets = if origin.is_hub() { &self.of_hub } else { &self.secrets };
        let name = credential_secret(origin, cluster);
        info!(%cluster, "the member refused the sidecar's credential: rereading its Secret");
        let read = async {
            // The watch handles a deleted Secret.
            let Some(secret) = secrets.get_opt(&name).await? else { return Ok(()) };
            let (applied, taken) = oneshot::channel();
            if self.watch.send(Read { origin, secret, applied }).await.is_ok() {
                let _ = taken.await;
            }
            Ok::<(), kube::Error>(())
        };
        match timeout(READ_TIMEOUT, read).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => warn!(%cluster, error = %error, "cannot read the member's Secret"),
            Err(_) => warn!(%cluster, "reading the member's Secret timed out"),
        }
    }
}

/// The shortest interval between reads of one Secret, so a member that refuses every request costs the host
/// little.
const INTERVAL: Duration = Duration::from_secs(5);
/// The timeout of a read, for which a caller waits.
const READ_TIMEOUT: Duration = Duration::from_secs(5);
const QUEUED: usize = 16;
/// The size of the cache, which exceeds the number of members.
const MAX_KEPT: usize = 10_000;

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::Ordering;

    use futures_util::future::join_all;
    use serde_json::json;

    use super::*;
    use crate::host::fake::host;

    fn name(name: &str) -> ClusterName {
        name.parse().unwrap()
    }

    /// Renewals with a host that responds with this code and a Secret, and a watch that applies every Secret.
    fn renewals(
        code: u16,
    ) -> (Arc<Renewals>, Arc<std::sync::atomic::AtomicUsize>, tokio::task::JoinHandle<Vec<String>>) {
        let (client, asked) = host(move |_| {
            (code, json!({"kind": "Secret", "apiVersion": "v1", "metadata": {"name": "m1.member"}}))
        });
        let (renewals, mut read) = Renewals::new(client, "ns", &Inventories::default());
        let watch = tokio::spawn(async move {
            let mut taken = Vec::new();
            while let Some(Read { secret, applied, .. }) = read.recv().await {
                taken.push(secret.metadata.name.unwrap());
                applied.send(()).unwrap();
            }
            taken
        });
        (Arc::new(renewals), asked, watch)
    }

    #[tokio::test]
    async fn concurrent_rereads_ask_the_host_once() {
        let (renewals, asked, watch) = renewals(200);
        let m1 = name("m1");
        join_all((0..100).map(|_| renewals.read(Origin::MemberCluster, &m1))).await;
        renewals.read(Origin::MemberCluster, &m1).await;
        assert_eq!(asked.load(Ordering::SeqCst), 1);
        drop(renewals);
        assert_eq!(watch.await.unwrap(), ["m1.member"]);
    }

    #[tokio::test]
    async fn each_member_has_its_own_reread() {
        let (renewals, asked, _watch) = renewals(200);
        renewals.read(Origin::MemberCluster, &name("m1")).await;
        renewals.read(Origin::MemberCluster, &name("m2")).await;
        assert_eq!(asked.load(Ordering::SeqCst), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn failing_host_delays_the_request_only_briefly() {
        let (renewals, _, watch) = renewals(500);
        timeout(READ_TIMEOUT * 2, renewals.read(Origin::MemberCluster, &name("m1"))).await.unwrap();
        drop(renewals);
        assert!(watch.await.unwrap().is_empty());
    }
}
