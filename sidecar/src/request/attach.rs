//! Accepts the tunnel of a member's agent. The tunnel ends when the account or the MemberCluster is deleted.

use std::sync::Arc;
use std::time::Duration;

use http::{HeaderValue, Request, Response, StatusCode, header};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use kubectl_mc_api::ClusterName;
use tokio::time::timeout;
use tracing::{Instrument, debug};

use crate::base::counted_io::{Tallies, Tally};
use crate::base::io_hook::Hooked;
use crate::base::random;
use crate::head::protocol::Protocol;
use crate::limits::upload::Upload;
use crate::outbound::body::{self, Body};
use crate::outbound::tunnel::accounts::Accounts;
use crate::outbound::tunnel::protocol::{HANDSHAKE_TIMEOUT, PROTOCOL, REPLICA_HEADER};
use crate::outbound::tunnel::registry::Reservation;
use crate::outbound::tunnel::{link, web_socket};
use crate::request::agent_handshake::{self, handshake, permitted};
use crate::request::authorized::{Authorized, Revalidated};
use crate::request::error::Error;
use crate::request::record::Record;
use crate::request::revalidation::End;
use crate::request::services::Services;
use crate::request::upgrade;
use crate::telemetry::audit::{BYTES_FROM_CALLER, BYTES_TO_CALLER, TunnelEnd};

/// Switches to the tunnel protocol and runs the tunnel.
pub fn respond(
    services: &Services,
    cluster: &ClusterName,
    mut request: Request<Upload>,
    upgrade: Option<Protocol>,
    authorized: Authorized,
    record: &Record,
) -> Result<Response<Body>, Error> {
    if services.readiness.is_draining() {
        return Err(Error::Closing);
    }
    let deleted = permitted(cluster, authorized.identity(), &services.agent_accounts)?;
    services.inventory.registered(cluster)?;
    let (agent, key) = handshake(request.headers(), upgrade)?;
    let reservation = services.agent_tunnels.reserve(cluster, agent).map_err(agent_handshake::Error::from)?;
    // Checked again: the member may have been deleted before anything could end this request.
    services.inventory.registered(cluster)?;
    let interval = INTERVAL.mul_f64(0.5 + random::fraction() / 2.0);
    let revalidated = authorized.revalidated_every(interval, services, Some(&deleted), record);

    let mut head = body::response(StatusCode::SWITCHING_PROTOCOLS, Body::Empty);
    let headers = head.headers_mut();
    headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(header::UPGRADE, HeaderValue::from_static(Protocol::WebSocket.as_str()));
    if let Ok(accept) = HeaderValue::try_from(web_socket::accept(key.as_bytes())) {
        headers.insert(header::SEC_WEBSOCKET_ACCEPT, accept);
    }
    headers.insert(header::SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(PROTOCOL));
    let tunnels = &services.agent_tunnels;
    if let Ok(replica) = HeaderValue::try_from(tunnels.peers().introduce(tunnels.replica())) {
        headers.insert(REPLICA_HEADER, replica);
    }

    let downstream = upgrade::downstream(&mut request);
    let (record, accounts) = (record.clone(), services.agent_accounts.clone());
    let carried = carry(revalidated, downstream, reservation, record, accounts);
    services.tunnels.tasks.spawn(carried.in_current_span());
    Ok(head)
}

/// Runs the tunnel until it ends or loses its right.
async fn carry(
    _: Revalidated,
    downstream: OnUpgrade,
    reservation: Reservation,
    record: Record,
    accounts: Arc<Accounts>,
) {
    let mut over = record.hold().over();
    // Cancel-safe: a connection that was not handed over is closed.
    let handed_over = tokio::select! {
        biased;
        () = &mut over => return,
        handed_over = timeout(HANDSHAKE_TIMEOUT, downstream) => handed_over,
    };
    match handed_over {
        Ok(Ok(stream)) => {
            let (read, written) = (Arc::<Tally>::default(), Arc::<Tally>::default());
            let tallies = Tallies { read: read.clone(), written: written.clone() };
            let stream = Hooked::new(TokioIo::new(stream), tallies);
            let ended = link::carry(stream, reservation, over, &accounts).await;
            let bytes = [(BYTES_FROM_CALLER, read.count()), (BYTES_TO_CALLER, written.count())];
            let reason = reason(ended, record.hold().end());
            record.audit(|trail| trail.tunnel_ended(TunnelEnd { bytes, reason }));
        }
        Ok(Err(error)) => debug!(error = %error, "the agent's tunnel was not handed over"),
        Err(_) => debug!("the agent's tunnel was not handed over in time"),
    }
}

/// The reason for the end of a tunnel, for the audit.
fn reason(ended: link::End, end: Option<End>) -> &'static str {
    match (ended, end) {
        (link::End::NotSetUp, _) => "tunnel not set up",
        (link::End::Closed, _) => "agent disconnected",
        (link::End::Silent, _) => "agent silent",
        (link::End::Stopped, Some(End::Stopped)) => "sidecar shut down",
        (link::End::Stopped, Some(End::MemberGone)) => "agent's account deleted",
        (link::End::Stopped, Some(End::Denied)) => "right revoked",
        (link::End::Stopped, Some(End::Unconfirmed)) => "right not confirmed",
        (link::End::Stopped, None) => "member deleted",
    }
}

/// Longest interval between two reviews of whether the account may still attach. It is random,
/// because the agents of a lost replica reconnect together. A deletion of the account or of the
/// member ends the tunnel at once, so thousands of tunnels need less frequent reviews than other
/// long-running requests.
const INTERVAL: Duration = Duration::from_secs(300);
