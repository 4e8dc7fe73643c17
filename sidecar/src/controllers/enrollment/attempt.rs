//! Attempts once to enroll a member: requests the tokens from its agent, tests them, writes them,
//! and confirms.

use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Patch, PatchParams};
use kube::{Api, ResourceExt};
use kubectl_mc_api::ClusterName;
use kubectl_mc_api::enrollment::Enrollment;
use kubectl_mc_api::names::{ENROLLMENT_UNTIL, HOST_UID, MEMBER_UID, SIDECAR};
use serde_json::{Value, json};
use tokio::time::sleep;
use tracing::warn;

use super::answer::{self, Checked, Refused};
use crate::controllers::kube_error::printable;
use crate::host::token::Credential;
use crate::members::inventory::fleet::{Fleet, Registered};
use crate::outbound::tunnel::enrollment::{Reply, Request};
use crate::outbound::tunnel::registry::AgentTunnels;
use crate::outbound::upstream::sidecar_client::{self, TryError};

/// A member whose enrollment is open.
pub(super) struct Attempt {
    pub(super) cluster: ClusterName,
    pub(super) registered: Registered,
    pub(super) fleet: Arc<Fleet>,
    pub(super) host: kube::Client,
    pub(super) namespace: Arc<str>,
    pub(super) tunnels: Arc<AgentTunnels>,
}

/// Why a member is not enrolled.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    #[error("the agent did not answer, or its answer was too long")]
    Silent,
    #[error("the agent is of an earlier release, which cannot enroll: use the image of the sidecar")]
    Unsupported,
    #[error("the agent may not enroll the member any more: apply a new manifest there")]
    Over,
    #[error("the agent cannot enroll the member: {0}")]
    Failed(String),
    #[error(transparent)]
    Refused(#[from] Refused),
    #[error("the member refuses the token that its agent handed over")]
    TokenRefused,
    #[error("the agent's answer could not be tried: {0}")]
    Untried(TryError),
    #[error("Secret {0} does not exist, or has a credential already")]
    Taken(String),
    #[error("the host did not take Secret {secret}: {error}")]
    Unwritten { secret: String, error: kube::Error },
}

impl Attempt {
    pub(super) async fn run(&self) -> Result<(), Error> {
        let Self { cluster, registered, fleet, tunnels, .. } = self;
        let (member, manager) = self.secrets()?;
        let answer = accepted(tunnels.enroll(cluster, Request::Enroll).await)?;
        let Checked { member: of_member, manager: of_manager, uid } =
            answer::check(&answer, cluster, registered, fleet, Timestamp::now())?;
        for data in [&of_manager, &of_member] {
            if !sidecar_client::accepts(cluster, data, tunnels).await.map_err(Error::Untried)? {
                return Err(Error::TokenRefused);
            }
        }
        // The write of the member's Secret turns the proxy on and closes the enrollment.
        let data = |data: &std::collections::BTreeMap<_, _>| json!({"ca.crt": data["ca.crt"], "token": data["token"]});
        self.write(manager, json!({}), data(&of_manager)).await?;
        let closed = json!({ENROLLMENT_UNTIL: null, HOST_UID: null, MEMBER_UID: uid});
        self.write(member, closed, data(&of_member)).await?;
        self.forget(manager).await;
        self.confirm().await;
        Ok(())
    }

    /// Both Secrets, without credentials. The manager's Secret may have one from an interrupted
    /// attempt if it still has the annotation of this enrollment.
    fn secrets(&self) -> Result<(&Secret, &Secret), Error> {
        let Registered { connection, manager, .. } = &self.registered;
        let has_credential = |secret: &Secret| {
            secret.data.as_ref().is_some_and(|data| Credential::of(data) != Credential::None)
        };
        let until =
            |secret: &Secret| Enrollment::parse(secret.metadata.annotations.as_ref(), Timestamp::now());
        let taken = |name| Error::Taken(name);
        let member = connection.as_deref().filter(|secret| !has_credential(secret));
        let member = member.ok_or_else(|| taken(self.cluster.member_secret()))?;
        let is_free = |secret: &&Secret| !has_credential(secret) || until(secret) == until(member);
        let manager = manager.as_deref().filter(is_free);
        Ok((member, manager.ok_or_else(|| taken(self.cluster.manager_secret()))?))
    }

    /// Writes to a Secret, unless it has changed since it was read.
    async fn write(&self, secret: &Secret, annotations: Value, data: Value) -> Result<(), Error> {
        let patch = json!({
            "metadata": {
                "uid": secret.uid(), "resourceVersion": secret.resource_version(), "annotations": annotations,
            },
            "data": data,
        });
        self.patch(secret, patch).await.map_err(|error| Error::Unwritten { secret: secret.name_any(), error })
    }

    /// Removes the annotation from the manager's Secret.
    async fn forget(&self, manager: &Secret) {
        let patch = json!({"metadata": {"uid": manager.uid(), "annotations": {ENROLLMENT_UNTIL: null}}});
        if let Err(error) = self.patch(manager, patch).await {
            warn!(cluster = %self.cluster, %error, "cannot take the annotation off the manager's Secret");
        }
    }

    async fn patch(&self, secret: &Secret, patch: Value) -> Result<(), kube::Error> {
        let secrets = Api::<Secret>::namespaced(self.host.clone(), &self.namespace);
        let params = PatchParams::apply(SIDECAR);
        secrets.patch(&secret.name_any(), &params, &Patch::Merge(patch)).await.map(drop)
    }

    /// Asks the agent to delete its rights for the enrollment. Without this request, the agent deletes them
    /// at the end of the enrollment.
    async fn confirm(&self) {
        for pause in CONFIRMED_AFTER {
            sleep(pause).await;
            let reply = self.tunnels.enroll(&self.cluster, Request::Confirm).await;
            if reply.is_some_and(|reply| reply.status.is_success()) {
                return;
            }
        }
        warn!(cluster = %self.cluster, "the agent did not confirm that it has deleted its right to enroll");
    }
}

/// The body of a successful response.
fn accepted(reply: Option<Reply>) -> Result<String, Error> {
    let Reply { status, body } = reply.ok_or(Error::Silent)?;
    match status {
        StatusCode::OK => Ok(body),
        StatusCode::NOT_IMPLEMENTED => Err(Error::Unsupported),
        StatusCode::GONE | StatusCode::NOT_FOUND => Err(Error::Over),
        _ => Err(Error::Failed(printable(&body, MAX_REASON))),
    }
}

const CONFIRMED_AFTER: [Duration; 3] = [Duration::ZERO, Duration::from_secs(2), Duration::from_secs(5)];
const MAX_REASON: usize = 300;
