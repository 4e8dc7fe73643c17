//! Records each MemberCluster on its Secret `<name>.member` ([`Registration`]), so that
//! `kubectl mc join --restore` can recreate the MemberClusters after the host has lost them, for
//! example because their definition was deleted. A record stays when its MemberCluster is deleted;
//! an unjoin deletes it with the Secret.

use std::collections::HashMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, Patch, PatchParams};
use kubectl_mc_api::names::{REGISTRATION, SIDECAR};
use kubectl_mc_api::{ClusterName, Registration};
use serde_json::json;
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tracing::{debug, warn};

use super::context::Context;
use super::kube_error;
use super::work_queue::WorkQueue;
use crate::base::retry;
use crate::members::inventory::fleet::{Fleet, Registered};

/// Writes the records until this replica loses leadership.
pub(super) async fn run(mut context: Context) {
    let queue = context.metrics.queue("registration");
    let mut records = Records::new(Api::namespaced(context.host.clone(), &context.namespace), queue);
    loop {
        let fleet = context.fleet.borrow_and_update().clone();
        let next = records.sync(&fleet).await;
        // Changes within a short time are combined.
        sleep(SETTLE).await;
        if let Ok(Err(_)) = timeout_at(next, context.fleet.changed()).await {
            return;
        }
    }
}

struct Records {
    secrets: Api<Secret>,
    queue: WorkQueue,
    /// The members that were tried, and when each may be tried again.
    not_before: HashMap<ClusterName, Instant>,
}

impl Records {
    fn new(secrets: Api<Secret>, queue: WorkQueue) -> Self {
        Self { secrets, queue, not_before: HashMap::new() }
    }

    /// Writes the records that differ from their MemberClusters, one after the other. Returns when another
    /// sync is due without a change of the fleet.
    async fn sync(&mut self, fleet: &Fleet) -> Instant {
        self.not_before.retain(|cluster, _| fleet.contains_key(cluster));
        let mut next = Instant::now() + LONGEST;
        for (cluster, registered) in fleet {
            let Some((secret, record)) = difference(cluster, registered) else { continue };
            let now = Instant::now();
            match self.not_before.get(cluster) {
                Some(due) if *due > now => {
                    next = next.min(*due);
                    continue;
                }
                _ => {}
            }
            let work = self.queue.begin();
            let written = self.write(secret, record).await;
            work.done(written.is_err());
            let pause = match written {
                Ok(()) => {
                    debug!(%cluster, "recorded the registration");
                    APART
                }
                Err(error) => {
                    warn!(%cluster, error, "cannot record the registration on the member's Secret");
                    AFTER_FAILURE
                }
            };
            let due = Instant::now() + retry::jittered(pause);
            next = next.min(due);
            self.not_before.insert(cluster.clone(), due);
        }
        next
    }

    async fn write(&self, secret: &Secret, record: Result<String, String>) -> Result<(), String> {
        let record = record?;
        let metadata = &secret.metadata;
        let name = metadata.name.as_deref().unwrap_or_default();
        let patch = json!({"metadata": {"uid": metadata.uid, "annotations": {REGISTRATION: record}}});
        let (by_us, patch) = (PatchParams::apply(SIDECAR), Patch::Merge(patch));
        let patched = timeout(TIMEOUT, self.secrets.patch(name, &by_us, &patch));
        match patched.await {
            Ok(Ok(_)) => Ok(()),
            // The Secret was deleted or replaced; the watch delivers its new state.
            Ok(Err(kube::Error::Api(status))) if matches!(status.code, 404 | 409) => Ok(()),
            Ok(Err(error)) => Err(kube_error::message(&error)),
            Err(_) => Err(format!("no answer of the host in {} s", TIMEOUT.as_secs())),
        }
    }
}

/// The Secret of a member and the record that it lacks. A member of a hub has no record, and a
/// member whose Secret is in another namespace belongs to the sidecars there.
fn difference<'a>(
    cluster: &ClusterName,
    registered: &'a Registered,
) -> Option<(&'a Secret, Result<String, String>)> {
    let secret = registered.connection.as_deref()?;
    let metadata = &secret.metadata;
    let record = Registration::record(&registered.member)?.map_err(|error| error.to_string());
    let recorded = metadata.annotations.as_ref().and_then(|annotations| annotations.get(REGISTRATION));
    let is_its_own = metadata.name.as_deref() == Some(cluster.member_secret().as_str());
    (is_its_own && record.as_ref().ok() != recorded).then_some((secret, record))
}

const SETTLE: Duration = Duration::from_secs(1);
/// The shortest interval between writes of one record, because another program may repeatedly
/// remove it.
const APART: Duration = Duration::from_secs(30);
const AFTER_FAILURE: Duration = Duration::from_secs(60);
const LONGEST: Duration = Duration::from_secs(600);
const TIMEOUT: Duration = Duration::from_secs(10);

#[cfg(test)]
#[expect(clippy::disallowed_types, reason = "a fake host's state, never held over an await")]
mod tests {
    use std::sync::{Arc, Mutex};

    use kubectl_mc_api::names::INVENTORY;
    use kubectl_mc_api::{MemberCluster, Origin};
    use serde_json::Value;

    use super::*;
    use crate::host::fake::host_by_path;

    fn registered(labels: Value, secret: Value) -> Registered {
        let mut member = MemberCluster::new("m1", Default::default());
        member.metadata.labels = serde_json::from_value(labels).unwrap();
        Registered {
            origin: Origin::of(&member),
            member: Arc::new(member),
            is_read: true,
            in_two: false,
            connection: serde_json::from_value::<Option<Secret>>(secret).unwrap().map(Arc::new),
            manager: None,
            hub_account: None,
            way: Err("not of this test".into()),
        }
    }

    fn secret(annotations: Value) -> Value {
        json!({"metadata": {"name": "m1.member", "uid": "u", "annotations": annotations}})
    }

    fn fleet(registered: Registered) -> Fleet {
        Fleet::from([("m1".parse().unwrap(), registered)])
    }

    /// The path and body of each patch.
    type Patches = Arc<Mutex<Vec<(String, Value)>>>;

    /// The records of a host that answers each patch like this, and the patches.
    fn records(code: u16) -> (Records, Patches) {
        let patches = Arc::new(Mutex::new(Vec::new()));
        let seen = patches.clone();
        let (host, _) = host_by_path(move |path, body| {
            seen.lock().unwrap().push((path.to_owned(), body.clone()));
            (code, json!({"kind": "Status", "status": "Failure", "code": code, "message": "no"}))
        });
        let queue = super::super::Metrics::default().queue("registration");
        (Records::new(Api::namespaced(host, "ns"), queue), patches)
    }

    #[tokio::test(start_paused = true)]
    async fn labels_and_spec_are_recorded_on_the_secret() {
        let (mut records, patches) = records(404);
        records.sync(&fleet(registered(json!({"env": "prod"}), secret(json!({}))))).await;
        let (path, patch) = patches.lock().unwrap()[0].clone();
        assert_eq!(path, "/api/v1/namespaces/ns/secrets/m1.member");
        assert_eq!(patch["metadata"]["uid"], "u");
        let record = patch["metadata"]["annotations"][REGISTRATION].as_str().unwrap();
        assert_eq!(record, r#"{"labels":{"env":"prod"},"spec":{}}"#);
        let recorded = secret(json!({REGISTRATION: record}));
        records.sync(&fleet(registered(json!({"env": "prod"}), recorded))).await;
        assert_eq!(patches.lock().unwrap().len(), 1, "it is recorded already");
    }

    #[tokio::test(start_paused = true)]
    async fn hub_member_and_member_of_another_namespace_get_no_record() {
        let (mut records, patches) = records(404);
        records.sync(&fleet(registered(json!({INVENTORY: "karmada"}), secret(json!({}))))).await;
        records.sync(&fleet(registered(json!({}), Value::Null))).await;
        assert!(patches.lock().unwrap().is_empty());
    }

    /// Another program repeatedly removes the annotation, or the host refuses it.
    #[tokio::test(start_paused = true)]
    async fn writes_of_one_record_are_apart() {
        for (code, pause) in [(404, APART), (422, AFTER_FAILURE)] {
            let (mut records, patches) = records(code);
            let fleet = fleet(registered(json!({}), secret(json!({}))));
            let begin = Instant::now();
            let next = records.sync(&fleet).await;
            assert!(next >= begin + pause && next <= begin + pause.mul_f64(1.3), "{code}");
            assert_eq!(records.sync(&fleet).await, next);
            assert_eq!(patches.lock().unwrap().len(), 1, "{code}");
            tokio::time::advance(pause.mul_f64(1.3)).await;
            records.sync(&fleet).await;
            assert_eq!(patches.lock().unwrap().len(), 2, "{code}");
        }
    }
}
