//! Fuzzes the head of a request that may ask for an upgrade (`GET`, and header lines) against the strictest
//! reading of it. A request that counts as plain must not be an upgrade to any other reader, and one that
//! counts as an upgrade must be one to all readers.

use http::{HeaderMap, Method, Version};
use sidecar::head::protocol::Protocol;

use crate::lines;

pub fn run(input: &[u8]) {
    let (method, rest) = lines::first(input);
    let Ok(method) = Method::from_bytes(method) else { return };
    let headers = lines::headers(rest);
    let read = match Protocol::requested(Version::HTTP_11, &method, &headers) {
        Ok(None) => Reading::Plain,
        Ok(Some(Protocol::WebSocket)) => Reading::WebSocket,
        Ok(Some(Protocol::Spdy)) => Reading::Spdy,
        Err(_) => Reading::Refused,
    };
    assert_eq!(read, strictly(&method, &headers));
}

#[derive(Debug, PartialEq, Eq)]
enum Reading {
    Plain,
    WebSocket,
    Spdy,
    Refused,
}

fn strictly(method: &Method, headers: &HeaderMap) -> Reading {
    let values = |name| headers.get_all(name).iter().map(|value| value.as_bytes()).collect::<Vec<_>>();
    // apimachinery: `util/httpstream.IsUpgradeRequest`
    let hinted = values("connection").iter().any(|value| {
        let lower = value.to_ascii_lowercase();
        lower.windows(7).any(|window| window == b"upgrade")
    });
    if !hinted && values("upgrade").is_empty() {
        return Reading::Plain;
    }
    // RFC 9110, 7.8, and a request without a body.
    let plain = headers.get_all("connection").iter().all(|value| value.to_str().is_ok());
    let asked = lines::tokens(headers, "connection").iter().any(|token| token == b"upgrade");
    let empty = values("transfer-encoding").is_empty()
        && values("content-length").iter().all(|length| length == b"0");
    if !asked || !empty {
        return Reading::Refused;
    }
    let reading = match values("upgrade").as_slice() {
        [one] if one.eq_ignore_ascii_case(b"websocket") => {
            // RFC 6455, 4.2.1.
            let handshake = values("sec-websocket-version") == [b"13"]
                && matches!(values("sec-websocket-key").as_slice(), [key] if !key.is_empty());
            if method == Method::GET && handshake { Reading::WebSocket } else { Reading::Refused }
        }
        [one] if one.eq_ignore_ascii_case(b"spdy/3.1") && [Method::GET, Method::POST].contains(method) => {
            Reading::Spdy
        }
        _ => Reading::Refused,
    };
    // No reader parses a line that is not text, so the token must be in another line.
    if plain || reading == Reading::Refused || token_in_plain_line(headers) {
        reading
    } else {
        Reading::Refused
    }
}

fn token_in_plain_line(headers: &HeaderMap) -> bool {
    let lines = headers.get_all("connection").iter().filter_map(|line| line.to_str().ok());
    lines.flat_map(|line| line.split(',')).any(|token| token.trim().eq_ignore_ascii_case("upgrade"))
}
