//! Defines a member as the request path uses it.

use std::sync::Arc;
use std::time::Instant;

use kubectl_mc_api::member_cluster::Forwarded;
use kubectl_mc_api::{ClusterName, Origin};
use tokio_util::sync::CancellationToken;

use crate::limits::in_flight::{self, Caller, MemberBounds, Permit};
use crate::members::waiter_limit::WaiterLimit;
use crate::outbound::upstream::Upstream;
use crate::telemetry::requests::OfMember;

/// A member to which requests can be sent.
#[derive(Debug)]
pub struct Cluster {
    pub name: ClusterName,
    /// The inventory from which the member is served.
    pub origin: Origin,
    pub forwarded: Forwarded,
    pub upstream: Arc<Upstream>,
    /// Cancels open requests when the member is deleted or its connection has another server.
    pub gone: CancellationToken,
    pub bounds: MemberBounds,
    /// Whether the leader manages the sidecar's rights on the member.
    pub managed: bool,
    /// Limits the users who wait for on-demand access to the member.
    pub waiters: WaiterLimit,
    pub requests: Arc<OfMember>,
}

impl Cluster {
    /// Admits a request to this member, so that a slow member takes no more than its own share.
    pub async fn admit(&self, caller: Caller, due: Option<Instant>) -> Result<Permit, in_flight::Error> {
        self.bounds.admit(&self.name, caller, due).await
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use k8s_openapi::ByteString;

    use super::*;
    use crate::limits::in_flight::{MemberSize, Size};
    use crate::outbound::tunnel::registry::AgentTunnels;
    use crate::outbound::upstream::connection::Connection;

    /// Member m1, managed and with a limit of one request.
    pub(crate) fn cluster(upstream: Arc<Upstream>) -> Cluster {
        Cluster {
            name: "m1".parse().unwrap(),
            origin: Origin::default(),
            forwarded: Forwarded::default(),
            upstream,
            gone: CancellationToken::new(),
            bounds: MemberBounds::new(MemberSize { in_flight: Size::new(1, 0), watches: Size::new(1, 0) }),
            managed: true,
            waiters: WaiterLimit::default(),
            requests: Arc::default(),
        }
    }

    /// The upstream of a member that receives no requests.
    pub(crate) fn upstream() -> Arc<Upstream> {
        crate::connection::tls::install_provider();
        let data = [("server", "https://127.0.0.1:1"), ("insecure-skip-tls-verify", "true"), ("token", "t")];
        let data = data.map(|(key, text)| (key.to_owned(), ByteString(text.as_bytes().to_vec())));
        let connection = Connection::parse(&data.into()).unwrap();
        let tunnels = AgentTunnels::none();
        Arc::new(Upstream::new("m1".parse().unwrap(), connection, Default::default(), &tunnels).unwrap())
    }
}
