//! Extracts the token that a browser sends as a WebSocket subprotocol, because browsers cannot set the
//! `Authorization` header there (apiserver: `authentication/request/websocket/protocol.go`). The token is
//! removed and never forwarded.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::{HeaderMap, HeaderValue, header};

use super::error::Error;

/// Removes the token from the offered subprotocols and returns it.
pub fn take_token(headers: &mut HeaderMap) -> Result<Option<String>, Error> {
    if !has_token(headers) {
        return Ok(None);
    }
    let mut token = None;
    let mut others = Vec::new();
    for value in headers.get_all(header::SEC_WEBSOCKET_PROTOCOL) {
        let list = value.to_str().map_err(|_| Error::WebSocketToken("it is not ASCII"))?;
        for protocol in list.split(',').map(str::trim) {
            match protocol.strip_prefix(PREFIX) {
                Some(_) if token.is_some() => return Err(Error::WebSocketToken("there are two")),
                Some(encoded) => token = Some(decode(encoded)?),
                None => others.push(protocol.to_owned()),
            }
        }
    }
    if others.is_empty() {
        return Err(Error::WebSocketToken("no other protocol is offered"));
    }
    headers.remove(header::SEC_WEBSOCKET_PROTOCOL);
    let others =
        HeaderValue::try_from(others.join(", ")).map_err(|_| Error::WebSocketToken("it is not ASCII"))?;
    headers.insert(header::SEC_WEBSOCKET_PROTOCOL, others);
    Ok(token)
}

/// Whether a token is among the offered subprotocols.
pub(super) fn has_token(headers: &HeaderMap) -> bool {
    let carries =
        |value: &HeaderValue| value.as_bytes().windows(PREFIX.len()).any(|w| w == PREFIX.as_bytes());
    headers.get_all(header::SEC_WEBSOCKET_PROTOCOL).iter().any(carries)
}

fn decode(encoded: &str) -> Result<String, Error> {
    let bytes = URL_SAFE_NO_PAD.decode(encoded).map_err(|_| Error::WebSocketToken("it is not base64url"))?;
    match String::from_utf8(bytes) {
        Ok(token) if token.is_empty() => Err(Error::WebSocketToken("it is empty")),
        token => token.map_err(|_| Error::WebSocketToken("it is not UTF-8")),
    }
}

const PREFIX: &str = "base64url.bearer.authorization.k8s.io.";

#[cfg(test)]
mod tests {
    use super::*;

    fn offered(lines: &[&'static str]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append(header::SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(line));
        }
        headers
    }

    #[test]
    fn token_is_removed_and_other_protocols_stay() {
        let mut headers =
            offered(&["v5.channel.k8s.io, base64url.bearer.authorization.k8s.io.YWJj", "v4.channel.k8s.io"]);
        assert_eq!(take_token(&mut headers).unwrap().as_deref(), Some("abc"));
        assert_eq!(headers[header::SEC_WEBSOCKET_PROTOCOL], "v5.channel.k8s.io, v4.channel.k8s.io");
    }

    #[test]
    fn protocols_without_a_token_stay_unchanged() {
        let mut headers = offered(&["SPDY/3.1+portforward.k8s.io"]);
        assert_eq!(take_token(&mut headers).unwrap(), None);
        assert_eq!(headers[header::SEC_WEBSOCKET_PROTOCOL], "SPDY/3.1+portforward.k8s.io");
    }

    #[test]
    fn token_is_recognized_anywhere_among_the_protocols() {
        for (lines, expected) in [
            (&["v5.channel.k8s.io", "a, base64url.bearer.authorization.k8s.io.YWJj"][..], true),
            (
                &["a", "SPDY/3.1+portforward.k8s.io, and.another.protocol.that.is.longer.than.the.prefix"],
                false,
            ),
            (&["base64url.bearer.authorization.k8s.io"], false),
            (&[], false),
        ] {
            assert_eq!(has_token(&offered(lines)), expected, "{lines:?}");
        }
    }

    #[test]
    fn fault_71_malformed_websocket_token_is_refused() {
        for lines in [
            &["base64url.bearer.authorization.k8s.io.YWJj"][..],
            &["a, base64url.bearer.authorization.k8s.io.YWJj, base64url.bearer.authorization.k8s.io.YWJj"],
            &["a, base64url.bearer.authorization.k8s.io.Y W"],
            &["a, base64url.bearer.authorization.k8s.io._w"],
            &["a, base64url.bearer.authorization.k8s.io."],
        ] {
            assert!(take_token(&mut offered(lines)).is_err(), "{lines:?}");
        }
    }
}
