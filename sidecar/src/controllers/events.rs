//! Writes Events on MemberClusters when the status or reason of a condition changes. A new condition without
//! a warning creates no Event.

use std::time::Duration;

use kube::runtime::events::{Event, EventType, Recorder};
use kube::{Resource, ResourceExt};
use kubectl_mc_api::{MemberCluster, MemberClusterStatus};
use tokio::time::timeout;
use tracing::{debug, info};

use super::conditions::status::{Aspect, Known};

/// Writes Events to the host.
pub(super) struct Events(Recorder);

impl Events {
    pub(super) fn new(host: kube::Client) -> Self {
        Self(Recorder::new(host, super::conditions::FIELD_MANAGER.into()))
    }

    /// Writes an Event for each condition in which `status` differs from the member's previous status.
    pub(super) async fn changed(&self, member: &MemberCluster, status: &MemberClusterStatus, known: &Known) {
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
            match timeout(TIMEOUT, self.0.publish(&event, &object)).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => debug!(error = %error, "cannot write an Event"),
                Err(_) => debug!("writing an Event timed out"),
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

/// The timeout of writing an Event, which is not retried.
const TIMEOUT: Duration = Duration::from_secs(5);
