//! Sends enrollment requests to agents, through any replica with a tunnel.

use std::time::Duration;

use bytes::Bytes;
use http::{Method, StatusCode};
use kubectl_mc_api::ClusterName;
use serde::{Deserialize, Serialize};

use super::protocol::paths;
use super::registry::AgentTunnels;

/// The data that an agent sends. It does not implement `Debug`, because its tokens must not reach a log.
#[derive(Deserialize, Serialize)]
pub struct Handover {
    #[serde(rename = "ca.crt")]
    pub ca: String,
    /// The uid of the member's kube-system.
    pub uid: String,
    pub tokens: Tokens,
}

/// The tokens of the sidecar's accounts on the member.
#[derive(Deserialize, Serialize)]
pub struct Tokens {
    pub impersonator: String,
    pub manager: String,
}

/// A request to an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// Send the member's CA and tokens.
    Enroll,
    /// The host has stored them: delete the right to send them.
    Confirm,
}

/// An agent's answer, not validated yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    pub status: StatusCode,
    pub body: String,
}

impl Request {
    fn method(self) -> Method {
        match self {
            Self::Enroll => Method::GET,
            Self::Confirm => Method::DELETE,
        }
    }
}

impl AgentTunnels {
    /// Asks the agents of a cluster until one agrees, and otherwise returns the last answer; `None` if no
    /// agent answers.
    pub async fn enroll(&self, cluster: &ClusterName, request: Request) -> Option<Reply> {
        let here = self.enroll_here(cluster, request).await;
        if here.as_ref().is_some_and(|reply| reply.status.is_success()) {
            return here;
        }
        self.peers().enroll(cluster, request).await.or(here)
    }

    /// The same through this replica's own tunnels.
    pub(super) async fn enroll_here(&self, cluster: &ClusterName, request: Request) -> Option<Reply> {
        let mut last = None;
        for tunnel in self.by_preference(cluster).ok()? {
            let asked =
                tunnel.ask_within(ANSWERS_WITHIN, MAX_ANSWER, request.method(), paths::ENROLL, Bytes::new());
            let Some((status, body)) = asked.await else { continue };
            let body = String::from_utf8_lossy(&body).into_owned();
            let is_success = status.is_success();
            last = Some(Reply { status, body });
            if is_success {
                break;
            }
        }
        last
    }
}

/// The capability in an agent's description of itself.
pub const CAPABILITY: &str = "enroll";
/// A CA may be a bundle of many certificates.
pub(super) const MAX_ANSWER: usize = 64 * 1024;
/// The agent sends a few requests to its own API server.
pub(super) const ANSWERS_WITHIN: Duration = Duration::from_secs(10);
