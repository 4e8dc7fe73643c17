//! Writes Events on MemberClusters when the status or reason of a condition changes. A new condition without
//! a warning creates no Event. They are written one after the other, and nothing waits for them:
//! large hosts keep Events in a separate etcd, which can fail alone.

use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;
use kube::runtime::events::{Event, EventType, Recorder};
use kube::{Resource, ResourceExt};
use kubectl_mc_api::names::SIDECAR;
use kubectl_mc_api::{MemberCluster, MemberClusterStatus};
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_util::task::AbortOnDropHandle;
use tracing::{debug, info};

use super::conditions::status::{Aspect, Known};

/// Writes Events to the host, until it is dropped.
pub(super) struct Events {
    waiting: mpsc::Sender<(Event, ObjectReference)>,
    _task: AbortOnDropHandle<()>,
}

impl Events {
    pub(super) fn start(host: kube::Client) -> Self {
        let recorder = Recorder::new(host, SIDECAR.into());
        let (waiting, mut events) = mpsc::channel(MAX_WAITING);
        let task = tokio::spawn(async move {
            while let Some((event, object)) = events.recv().await {
                match timeout(TIMEOUT, recorder.publish(&event, &object)).await {
                    Ok(Ok(())) => {}
                    Ok(Err(error)) => debug!(error = %error, "cannot write an Event"),
                    Err(_) => debug!("writing an Event timed out"),
                }
            }
        });
        Self { waiting, _task: AbortOnDropHandle::new(task) }
    }

    /// Writes an Event for each condition in which `status` differs from the member's previous status.
    pub(super) fn changed(&self, member: &MemberCluster, status: &MemberClusterStatus, known: &Known) {
        let before = member.status.as_ref().map_or(&[][..], |status| &status.conditions);
        for aspect in Aspect::ALL {
            let of = |conditions: &[_]| find(conditions, aspect);
            let (before, after) = (of(before), of(&status.conditions));
            let Some(finding) = known.finding(aspect) else { continue };
            if before == after || (before.is_none() && !finding.is_warning()) {
                continue;
            }
            let (type_, reason, message) = (aspect.as_str(), finding.reason(), finding.message());
            // A field `message` would be printed as the line's own message, without quotes.
            info!(cluster = %member.name_any(), condition = type_, reason, detail = message, "the member's condition changed");
            let event = Event {
                type_: if finding.is_warning() { EventType::Warning } else { EventType::Normal },
                reason: finding.reason().to_owned(),
                note: Some(format!("{}: {}", aspect.as_str(), finding.message())),
                action: aspect.as_str().to_owned(),
                secondary: None,
            };
            let mut object = member.object_ref(&());
            // Without a resource version, equal changes of one member are combined in one Event with a count.
            object.resource_version = None;
            if self.waiting.try_send((event, object)).is_err() {
                debug!("an Event is left out: too many wait");
            }
        }
    }
}

/// A condition's status and reason.
fn find(
    conditions: &[k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition],
    aspect: Aspect,
) -> Option<(String, String)> {
    let condition = conditions.iter().find(|condition| condition.type_ == aspect.as_str())?;
    Some((condition.status.clone(), condition.reason.clone()))
}

/// The maximum number of Events that wait: a few for each of hundreds of members.
const MAX_WAITING: usize = 1000;
/// The timeout of writing an Event, which is not retried.
const TIMEOUT: Duration = Duration::from_secs(5);
