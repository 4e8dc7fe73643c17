//! Upgrades connections for exec, attach, port-forward and cp: forwards the handshake and, after the member's
//! 101, joins the two byte streams. The sidecar does not parse SPDY or WebSocket.
//!
//! Each upgrade has its own connection to the member, as in kube-apiserver's proxies (apimachinery:
//! `util/proxy/upgradeaware.go`). Any answer other than a 101 for the requested protocol ends both
//! connections, so that no byte of the client can reach the member as an unauthorized request
//! (CVE-2018-1002105).

use http::{Request, Response, StatusCode};
use hyper::upgrade::OnUpgrade;
use tracing::{Instrument, debug};

use crate::head::headers;
use crate::head::offer::{NotAccepted, Offer};
use crate::head::protocol::Protocol;
use crate::limits::upload::Upload;
use crate::members::cluster::Cluster;
use crate::members::inventory::Inventory;
use crate::observe::metrics::Counted;
use crate::outbound::body::{self, Body};
use crate::outbound::upstream::{self, Exchange};
use crate::request::proxy::Draft;
use crate::request::record::Record;
use crate::request::revalidation::End;
use crate::request::tunnels::Tunnels;
use crate::telemetry::audit::{BYTES_TO_CALLER, BYTES_TO_MEMBER, TunnelEnd};

mod splice;

use splice::By;

/// Takes the handle by which the caller's connection can be upgraded later.
pub fn downstream(request: &mut Request<Upload>) -> OnUpgrade {
    hyper::upgrade::on(request)
}

/// Sends an upgrade to the member and, if it agrees, joins the two connections.
pub async fn forward(
    inventory: &Inventory,
    cluster: &Cluster,
    mut draft: Draft<'_>,
    protocol: Protocol,
    downstream: OnUpgrade,
    tunnels: &Tunnels,
    record: Record,
) -> Result<Response<Body>, crate::request::error::Error> {
    let offer = Offer::of(protocol, draft.headers());
    let exchanged = exchange(inventory, cluster, &mut draft).await;
    draft.answered(exchanged.as_ref().ok().map(Exchange::status));
    let (mut response, mut connection) = match exchanged? {
        Exchange::Switched { response, connection } => (response, connection),
        Exchange::Refused { response } if response.status().as_u16() < 400 => {
            return Err(NotAccepted::NoSwitch(cluster.name.clone(), response.status()).into());
        }
        // The member's own refusal is forwarded. When it ends, both connections end.
        Exchange::Refused { response } => return Ok(response.map(Body::Upstream)),
    };
    offer.accepts(&cluster.name, response.headers())?;
    connection.switched(draft.caller());
    let upstream = hyper::upgrade::on(&mut response);
    let mut head = body::response(StatusCode::SWITCHING_PROTOCOLS, Body::Empty);
    *head.headers_mut() = headers::switching_protocols(response.headers(), protocol.as_str());
    let (stop, over) = (tunnels.stop.child_token(), record.hold().over());
    let (open, bytes) = (Counted::new(tunnels.open.clone()), tunnels.bytes.clone());
    tunnels.tasks.spawn(
        async move {
            // Held until the end, as is the record with the permits: the owner of the member's connection, and
            // the count.
            let _held = (connection, open);
            let mut over = over;
            // Cancel-safe: a connection that was not handed over is closed.
            let handed_over = tokio::select! {
                biased;
                () = &mut over => return,
                handed_over = async { tokio::try_join!(downstream, upstream) } => handed_over,
            };
            match handed_over {
                Ok((downstream, upstream)) => {
                    let ended =
                        splice::join(downstream, upstream, bytes, stop, over, record.hold().cutoff()).await;
                    let end = tunnel_end(ended, record.hold().end());
                    record.trace(|span| span.tunnel_ended(ended.to_member, ended.to_caller, end.reason));
                    record.audit(|trail| trail.tunnel_ended(end));
                }
                Err(error) => debug!(error = %error, "the upgrade was not completed"),
            }
        }
        .in_current_span(),
    );
    Ok(head)
}

/// The end of a tunnel for the audit.
fn tunnel_end(ended: splice::Ended, end: Option<End>) -> TunnelEnd {
    let splice::Ended { to_member, to_caller, by } = ended;
    let reason = match (by, end) {
        (By::Sides, _) => "ended",
        (By::Break, _) => "connection broken",
        (By::Stop, _) | (By::Over, None) => End::Stopped.as_str(),
        (By::Over, Some(end)) => end.as_str(),
        (By::Paused, _) => "paused, and too many are",
    };
    TunnelEnd { bytes: [(BYTES_TO_MEMBER, to_member), (BYTES_TO_CALLER, to_caller)], reason }
}

/// Asks the member for the upgrade. It asks once more if the member refused the sidecar's
/// credential and there is another one, or after the member has just granted impersonation. Nothing
/// of the client's stream was sent yet.
async fn exchange(
    inventory: &Inventory,
    cluster: &Cluster,
    draft: &mut Draft<'_>,
) -> Result<Exchange, crate::request::error::Error> {
    let answered = cluster.upstream.upgrade(draft.prepare(cluster)?).await;
    let is_refused = matches!(answered, Err(upstream::Error::Credential { .. }));
    if is_refused {
        draft.answered(Some(StatusCode::UNAUTHORIZED));
    }
    if is_refused && let Some(renewed) = Box::pin(inventory.renewed(cluster)).await {
        let answered = renewed.upstream.upgrade(draft.prepare(&renewed)?).await;
        let again = |prepared| renewed.upstream.upgrade(prepared);
        return draft.settled(inventory, &renewed, answered, Some(again)).await;
    }
    let again = |prepared| cluster.upstream.upgrade(prepared);
    draft.settled(inventory, cluster, answered, Some(again)).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn end_of_a_tunnel_names_its_reason() {
        for (by, end, reason) in [
            (By::Sides, None, "ended"),
            (By::Break, None, "connection broken"),
            (By::Stop, None, "sidecar shut down"),
            (By::Over, Some(End::Stopped), "sidecar shut down"),
            (By::Over, Some(End::Denied), "right revoked"),
            (By::Over, Some(End::Unconfirmed), "right not confirmed"),
            (By::Over, Some(End::MemberGone), "member deleted or changed"),
        ] {
            let ended = splice::Ended { to_member: 1, to_caller: 2, by };
            let bytes = [(BYTES_TO_MEMBER, 1), (BYTES_TO_CALLER, 2)];
            assert_eq!(tunnel_end(ended, end), TunnelEnd { bytes, reason });
        }
    }
}
