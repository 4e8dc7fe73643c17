//! Carries one CONNECT stream: a connection to the agent's target.

use std::future::poll_fn;
use std::io::ErrorKind;

use bytes::Bytes;
use h2::server::SendResponse;
use h2::{Reason, RecvStream};
use http::uri::Authority;
use http::{HeaderValue, Response, StatusCode};
use tokio::net::{TcpStream, lookup_host};
use tokio::time::{sleep, timeout};
use tracing::debug;

use crate::base::last_words::{Broken, LAST_WORDS};
use crate::base::tcp;
use crate::outbound::tunnel::protocol::{DIAL_HEADER, DIAL_TIMEOUT};
use crate::outbound::tunnel::purpose::Purpose;
use crate::outbound::tunnel::registry::Reason as Failed;
use crate::outbound::tunnel::stream::TunnelStream;
use crate::outbound::tunnel::stream::copy::copy;
use crate::outbound::tunnel::unread::Unread;

/// Connects to the target, if it is the requested one, and copies bytes until both sides have ended.
pub(super) async fn carry(
    target: &Authority,
    asked: Option<&Authority>,
    purpose: Purpose,
    body: RecvStream,
    mut respond: SendResponse<Bytes>,
    unread: &Unread,
) {
    if asked != Some(target) {
        debug!(
            asked = asked.map(Authority::as_str),
            "refused a connection to another address than the target"
        );
        refuse(respond, StatusCode::FORBIDDEN, None);
        return;
    }
    let connected = tokio::select! {
        biased;
        _ = poll_fn(|cx| respond.poll_reset(cx)) => return,
        connected = timeout(DIAL_TIMEOUT, connect(target, purpose)) => connected,
    };
    let member = match connected.unwrap_or(Err(Failed::Timeout)) {
        Ok(member) => member,
        Err(why) => return refuse(respond, StatusCode::BAD_GATEWAY, Some(why)),
    };
    let send = match respond.send_response(Response::new(()), false) {
        Ok(send) => send,
        Err(error) => return debug!(error = %error, "the connection was given up"),
    };
    // If the sidecar resets the stream, it no longer reads. If the member's connection breaks,
    // there may still be unread bytes from it.
    let (mut stream, broken) = (TunnelStream::new(send, body), Broken::default());
    unread.watch(stream.directions());
    let given_up = stream.given_up();
    let mut member = broken.side(member);
    tokio::select! {
        biased;
        () = broken.long_ago() => debug!("the member broke a connection"),
        // A member that does not read must not keep the connection of a caller who has
        // disconnected.
        () = async { given_up.await; sleep(LAST_WORDS).await } => debug!("the sidecar gave up a connection"),
        copied = copy(&mut stream, &mut member) => {
            if let Err(error) = copied {
                debug!(error = %error, "the sidecar broke a connection");
            }
        }
    }
}

async fn connect(target: &Authority, purpose: Purpose) -> Result<TcpStream, Failed> {
    let prepare = match purpose {
        Purpose::Requests => tcp::prepare_timed,
        Purpose::Any => tcp::prepare,
    };
    let host = target.host().trim_matches(['[', ']']);
    let addresses = lookup_host((host, target.port_u16().unwrap_or(443))).await.map_err(|_| Failed::Dns)?;
    let mut failed = Failed::Dns;
    for address in addresses {
        match TcpStream::connect(address).await {
            Ok(stream) => return prepare(&stream).map(|()| stream).map_err(|_| Failed::Network),
            Err(error) => {
                failed = match error.kind() {
                    ErrorKind::ConnectionRefused => Failed::Refused,
                    ErrorKind::TimedOut => Failed::Timeout,
                    _ => Failed::Network,
                }
            }
        }
    }
    Err(failed)
}

fn refuse(mut respond: SendResponse<Bytes>, status: StatusCode, why: Option<Failed>) {
    let mut response = Response::new(());
    *response.status_mut() = status;
    if let Some(why) = why {
        response.headers_mut().insert(DIAL_HEADER, HeaderValue::from_static(why.as_str()));
    }
    if respond.send_response(response, true).is_err() {
        respond.send_reset(Reason::INTERNAL_ERROR);
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn target_connection_detects_a_dead_member() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let target = listener.local_addr().unwrap().to_string().parse().unwrap();
        tcp::assert_timed(&connect(&target, Purpose::Requests).await.unwrap());
        tcp::assert_untimed(&connect(&target, Purpose::Any).await.unwrap());
    }
}
