//! A watch by WebSocket (RFC 6455; apiserver: `endpoints/handlers/watch.go`): browsers can send no other stream. Each event
//! is a text message. It is a watch in everything else: the same rights, limits and revalidation.

use std::future::poll_fn;
use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderValue, Request, Response, StatusCode, header};
use http_body_util::BodyExt;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadHalf, split};
use tokio::sync::mpsc;
use tracing::{Instrument, debug};

use crate::base::io_hook::{Hooked, IoHook};
use crate::fleet::items;
use crate::fleet::renamed::Lines;
use crate::head::headers::tokens;
use crate::head::protocol::Protocol;
use crate::head::query::Query;
use crate::head::request_info::fleet;
use crate::limits::cutoff::{Cutoff, Toward};
use crate::limits::upload::Upload;
use crate::outbound::body::{self, Body};
use crate::outbound::tunnel::web_socket;
use crate::request::error::Error;
use crate::request::record::Record;
use crate::request::services::Services;

/// The answer to the handshake of a client.
#[derive(Clone, Debug)]
struct Handshake {
    accept: String,
    protocol: Option<HeaderValue>,
}

/// The connection of a client that asked for a WebSocket.
#[derive(Debug)]
pub(super) struct Asked {
    handshake: Handshake,
    downstream: OnUpgrade,
}

/// Makes a watch by WebSocket a plain one for what follows, and keeps its handshake with the request. Returns whether the
/// client asked for one.
pub(super) fn take(request: &mut Request<Upload>) -> Result<bool, Error> {
    let is_watch =
        fleet::below(request.uri().path()).is_some() && Query::new(request.uri().query()).is_set("watch");
    if !is_watch {
        return Ok(false);
    }
    let asked = Protocol::requested(request.version(), request.method(), request.headers());
    if asked.map_err(crate::head::request_info::Error::from)? != Some(Protocol::WebSocket) {
        return Ok(false);
    }
    let headers = request.headers_mut();
    let protocol = tokens(headers, &header::SEC_WEBSOCKET_PROTOCOL)
        .find(|protocol| !protocol.starts_with(BEARER))
        .and_then(|protocol| HeaderValue::try_from(protocol).ok());
    let key = headers.get(header::SEC_WEBSOCKET_KEY).map(|key| key.as_bytes().to_vec()).unwrap_or_default();
    for name in [
        header::CONNECTION,
        header::UPGRADE,
        header::SEC_WEBSOCKET_KEY,
        header::SEC_WEBSOCKET_VERSION,
        header::SEC_WEBSOCKET_PROTOCOL,
        header::SEC_WEBSOCKET_EXTENSIONS,
    ] {
        headers.remove(name);
    }
    let handshake = Handshake { accept: web_socket::accept(&key), protocol };
    request.extensions_mut().insert(handshake);
    Ok(true)
}

/// The client's connection, if it asked for a WebSocket.
pub(super) fn asked(request: &mut Request<Upload>) -> Option<Asked> {
    let handshake = request.extensions_mut().remove::<Handshake>()?;
    Some(Asked { handshake, downstream: hyper::upgrade::on(request) })
}

/// Sends the events of a watch by WebSocket. Any other answer stays as it is.
pub(super) fn switch(
    response: Response<Body>,
    asked: Option<Asked>,
    services: &Services,
    record: &Record,
) -> Response<Body> {
    let Some(Asked { handshake, downstream }) = asked.filter(|_| response.status() == StatusCode::OK) else {
        return response;
    };
    let mut head = body::response(StatusCode::SWITCHING_PROTOCOLS, Body::Empty);
    let headers = head.headers_mut();
    headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(header::UPGRADE, HeaderValue::from_static(Protocol::WebSocket.as_str()));
    if let Ok(accept) = HeaderValue::try_from(handshake.accept) {
        headers.insert(header::SEC_WEBSOCKET_ACCEPT, accept);
    }
    if let Some(protocol) = handshake.protocol {
        headers.insert(header::SEC_WEBSOCKET_PROTOCOL, protocol);
    }
    let (stop, record) = (services.tunnels.stop.child_token(), record.clone());
    let pump = async move {
        let (over, cutoff) = (record.hold().over(), record.hold().cutoff());
        let downstream = async { Ok(Hooked::new(TokioIo::new(downstream.await?), Reader(cutoff.clone()))) };
        // Cancel-safe: what is dropped closes the connection and the members' watches.
        tokio::select! {
            biased;
            () = over => {}
            () = stop.cancelled() => {}
            () = poll_fn(|cx| cutoff.poll_cut(cx)) => {}
            pumped = pump(downstream, response.into_body()) => if let Err(error) = pumped {
                debug!(error = %error, "a watch by WebSocket ended");
            },
        }
    };
    services.tunnels.tasks.spawn(pump.in_current_span());
    head
}

/// Records when the client stops reading. If too many requests are paused, those of the largest holder end first.
#[derive(Debug)]
struct Reader(Arc<Cutoff>);

impl IoHook for Reader {
    fn written(&mut self, _: usize) {
        self.0.unblocked(Toward::Caller);
    }

    fn write_blocked(&mut self) {
        self.0.blocked(Toward::Caller);
    }
}

async fn pump<S: AsyncRead + AsyncWrite>(
    downstream: impl Future<Output = Result<S, hyper::Error>>,
    mut body: Body,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let (read, mut write) = split(downstream.await?);
    let (pongs, mut pinged) = mpsc::channel(1);
    let mut client = std::pin::pin!(until_closed(read, pongs));
    let mut lines = Lines::default();
    loop {
        let frame = tokio::select! {
            closed = &mut client => {
                closed?;
                break;
            }
            Some(ping) = pinged.recv() => {
                send(&mut write, PONG, &ping).await?;
                continue;
            }
            frame = body.frame() => frame,
        };
        let Some(frame) = frame.transpose()? else { break };
        let Ok(data) = frame.into_data() else { continue };
        let mut events: Vec<Bytes> = Vec::new();
        lines.push(&data, |line| {
            events.push(Bytes::copy_from_slice(line.trim_ascii_end()));
            Ok::<_, items::Error>(())
        })?;
        for event in events {
            send(&mut write, TEXT, &event).await?;
        }
    }
    send(&mut write, CLOSE, &NORMAL).await?;
    write.shutdown().await?;
    Ok(())
}

/// Writes a frame. A server's frames have no mask.
async fn send(write: &mut (impl AsyncWrite + Unpin), opcode: u8, payload: &[u8]) -> std::io::Result<()> {
    let mut head = vec![0x80 | opcode];
    match payload.len() {
        length @ 0..126 => head.push(length as u8),
        length @ 126..65_536 => {
            head.push(126);
            head.extend((length as u16).to_be_bytes());
        }
        length => {
            head.push(127);
            head.extend((length as u64).to_be_bytes());
        }
    }
    write.write_all(&head).await?;
    write.write_all(payload).await?;
    write.flush().await
}

/// Reads what the client sends until it closes. A watch ignores messages of the client.
async fn until_closed(mut read: ReadHalf<impl AsyncRead>, pongs: mpsc::Sender<Bytes>) -> std::io::Result<()> {
    loop {
        let mut head = [0; 2];
        if read.read_exact(&mut head).await.is_err() {
            return Ok(());
        }
        let length = match head[1] & 0x7f {
            126 => u64::from(read.read_u16().await?),
            127 => read.read_u64().await?,
            length => u64::from(length),
        };
        let mut mask = [0; 4];
        if head[1] & 0x80 != 0 {
            read.read_exact(&mut mask).await?;
        }
        match head[0] & 0x0f {
            CLOSE => return Ok(()),
            PING if length < 126 => {
                let mut payload = vec![0; length as usize];
                read.read_exact(&mut payload).await?;
                payload.iter_mut().zip(mask.iter().cycle()).for_each(|(byte, mask)| *byte ^= mask);
                // One that waits is enough.
                let _ = pongs.try_send(payload.into());
            }
            _ => {
                let mut left = (&mut read).take(length);
                tokio::io::copy(&mut left, &mut tokio::io::sink()).await?;
            }
        }
    }
}

/// Tokens of browsers, which are no protocols (apiserver: `authentication/request/websocket`).
const BEARER: &str = "base64url.bearer.authorization.k8s.io.";
const TEXT: u8 = 1;
const CLOSE: u8 = 8;
const PING: u8 = 9;
const PONG: u8 = 10;
const NORMAL: [u8; 2] = 1000_u16.to_be_bytes();

#[cfg(test)]
mod tests {
    use futures_util::StreamExt;
    use tokio_tungstenite::WebSocketStream;
    use tokio_tungstenite::tungstenite::protocol::Role;

    use super::*;

    #[tokio::test]
    async fn event_of_any_length_is_one_text_message() {
        for length in [0, 125, 126, 65_535, 65_536, 1_000_000] {
            let (client, mut server) = tokio::io::duplex(4 * 1024 * 1024);
            let event = "x".repeat(length);
            send(&mut server, TEXT, event.as_bytes()).await.unwrap();
            send(&mut server, CLOSE, &NORMAL).await.unwrap();
            let mut client = WebSocketStream::from_raw_socket(client, Role::Client, None).await;
            let message = client.next().await.unwrap().unwrap();
            assert!(message.is_text() && message.len() == length, "{length}");
            assert!(client.next().await.unwrap().unwrap().is_close());
        }
    }
}
