//! A member's Secret, read again because the member refused the credential in it. The watch tells of
//! a new one by itself, but perhaps a moment after the old one is worth nothing any more; what is read
//! here is handed to the watch, which makes the way to the member, as always.

use std::time::Duration;

use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kubectl_mc_api::{ClusterName, Origin};
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;
use tracing::{info, warn};

use super::Inventories;
use super::hub::credential_secret;
use crate::ttl_cache::TtlCache;

/// Reads members' Secrets, each at most once in [`INTERVAL`] however many ask.
pub struct Renewals {
    secrets: Api<Secret>,
    of_hub: Api<Secret>,
    read: TtlCache<ClusterName, ()>,
    watch: mpsc::Sender<Read>,
}

/// A Secret as the host has it now, for the watch.
pub struct Read {
    pub(super) origin: Origin,
    pub(super) secret: Secret,
    /// Told when the watch has taken it.
    pub(super) applied: oneshot::Sender<()>,
}

impl Renewals {
    /// The other half is the watch's.
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

    /// Returns when the watch knows what the host says now, or when that cannot be known.
    pub(super) async fn read(&self, origin: Origin, cluster: &ClusterName) {
        self.read.get_or_fetch(cluster, self.read_now(origin, cluster), |()| true).await;
    }

    async fn read_now(&self, origin: Origin, cluster: &ClusterName) {
        let secrets = if origin.is_hub() { &self.of_hub } else { &self.secrets };
        let name = credential_secret(origin, cluster);
        info!(%cluster, "the member refused the sidecar's credential: rereading its Secret");
        let read = async {
            // One that is not there any more is the watch's to tell.
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

/// A member that refuses every request costs the host no more than this.
const INTERVAL: Duration = Duration::from_secs(5);
/// A caller waits for it.
const READ_TIMEOUT: Duration = Duration::from_secs(5);
const QUEUED: usize = 16;
/// More members than there are.
const MAX_KEPT: usize = 10_000;

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::Ordering;

    use futures_util::future::join_all;
    use serde_json::json;

    use super::*;
    use crate::fake_host::host;

    fn name(name: &str) -> ClusterName {
        name.parse().unwrap()
    }

    /// Renewals from a host that has the Secret, and the watch's end of them, that takes everything.
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
    async fn each_member_has_a_question_of_its_own() {
        let (renewals, asked, _watch) = renewals(200);
        renewals.read(Origin::MemberCluster, &name("m1")).await;
        renewals.read(Origin::MemberCluster, &name("m2")).await;
        assert_eq!(asked.load(Ordering::SeqCst), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_host_that_cannot_answer_holds_nobody_up_for_long() {
        let (renewals, _, watch) = renewals(500);
        timeout(READ_TIMEOUT * 2, renewals.read(Origin::MemberCluster, &name("m1"))).await.unwrap();
        drop(renewals);
        assert!(watch.await.unwrap().is_empty());
    }
}
