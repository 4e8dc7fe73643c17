//! Asks the agents of a cluster for its CA and tokens, through any replica with a tunnel.

use bytes::Bytes;
use kubectl_mc_api::ClusterName;

use super::AgentTunnels;
use crate::outbound::tunnel::enrollment::{ANSWERS_WITHIN, MAX_ANSWER, Reply, Request};
use crate::outbound::tunnel::protocol::paths;

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
    pub(in crate::outbound::tunnel) async fn enroll_here(
        &self,
        cluster: &ClusterName,
        request: Request,
    ) -> Option<Reply> {
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
