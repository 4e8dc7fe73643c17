//! Keeps the upstream of a member, with its connection pool, as long as the content of its Secret stays the
//! same.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use kubectl_mc_api::names::ENROLLMENT_UNTIL;
use kubectl_mc_api::{ClusterName, MemberCluster};
use prometheus_client::metrics::gauge::Gauge;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::outbound::tunnel::registry::AgentTunnels;
use crate::outbound::upstream::Upstream;
use crate::outbound::upstream::connection::Connection;
use crate::outbound::upstream::sidecar_client::NO_AGENT;

pub(super) struct Way {
    /// The uid of the object that registers the member.
    pub(super) member_uid: Option<String>,
    pub(super) secret: Arc<Secret>,
    pub(super) upstream: Result<Arc<Upstream>, Arc<str>>,
    pub(super) gone: CancellationToken,
    /// When the leader first found the member unreachable, if it is.
    pub(super) unreachable_since: Option<Timestamp>,
}

impl Way {
    /// The successor of `before`: the same one if nothing has changed, a new one that keeps open
    /// requests if only the credential was renewed, or one that cancels them otherwise. A removed or invalid
    /// credential turns the proxy off, which also cancels open requests.
    pub(super) fn next(
        before: Option<Self>,
        name: &ClusterName,
        member_uid: Option<String>,
        source: &str,
        secret: &Arc<Secret>,
        unreachable: &Gauge,
        tunnels: &Arc<AgentTunnels>,
    ) -> Self {
        let gone = match before {
            Some(way) if way.member_uid == member_uid && is_same(&way.secret, secret) => return way,
            Some(way)
                if way.upstream.is_ok()
                    && way.member_uid == member_uid
                    && leads_to_the_same(&way.secret, secret) =>
            {
                way.gone
            }
            Some(way) => {
                way.gone.cancel();
                CancellationToken::new()
            }
            None => CancellationToken::new(),
        };
        let data = secret.data.clone().unwrap_or_default();
        let upstream = Connection::parse(&data)
            .and_then(|connection| Upstream::new(name.clone(), connection, unreachable.clone(), tunnels));
        let upstream = match upstream {
            Ok(upstream) => {
                info!(cluster = %name, source, "loaded the member's connection");
                Ok(Arc::new(upstream))
            }
            Err(error) => {
                gone.cancel();
                Err(match enrollment(secret) {
                    Some(until) => Arc::from(format!(
                        "{source} gets its credential when the member's agent enrolls, which is open until {until}; `kubectl \
                         describe membercluster {name}` shows where it stands, and `kubectl mc join {name} --agent --enroll` \
                         opens it again"
                    )),
                    None => {
                        warn!(cluster = %name, source, error = %error, "the member's connection is invalid");
                        Arc::from(format!("{source} cannot be used: {error}"))
                    }
                })
            }
        };
        Self { member_uid, secret: secret.clone(), upstream, gone, unreachable_since: None }
    }

    /// Applies the leader's finding about the member when it changes. Later results of this replica override
    /// it.
    pub(super) fn reported(&mut self, member: &MemberCluster) {
        let Ok(upstream) = &self.upstream else { return };
        let server = self.secret.data.as_ref().and_then(|data| data.get("server"));
        let server = server.and_then(|server| std::str::from_utf8(&server.0).ok()).unwrap_or_default();
        // The agent's tunnel may be connected to this replica but not to the leader.
        let reported = member.unreachable(server.trim()).filter(|condition| condition.reason != NO_AGENT);
        let since = reported.map(|condition| condition.last_transition_time.0);
        if std::mem::replace(&mut self.unreachable_since, since) != since {
            upstream.reported(since.zip(reported.map(|condition| condition.message.as_str())));
        }
    }
}

/// The end of the enrollment of a member without a credential.
fn enrollment(secret: &Secret) -> Option<&str> {
    secret.metadata.annotations.as_ref()?.get(ENROLLMENT_UNTIL).map(String::as_str)
}

/// Whether two versions of a Secret are equal for requests.
fn is_same(before: &Secret, after: &Secret) -> bool {
    before.data == after.data && enrollment(before) == enrollment(after)
}

/// Whether two versions of a Secret have the same server and the same proxy; the credentials for both may
/// differ.
fn leads_to_the_same(before: &Secret, after: &Secret) -> bool {
    fn connection(secret: &Secret) -> Vec<(&String, &ByteString)> {
        let credential =
            |key: &str| matches!(key, "token" | "tls.crt" | "tls.key" | "proxy-tls.crt" | "proxy-tls.key");
        secret.data.iter().flatten().filter(|(key, _)| !credential(key)).collect()
    }
    before.uid() == after.uid() && connection(before) == connection(after)
}
