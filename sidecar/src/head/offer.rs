//! Checks a member's answer to an upgrade against the client's offer: the requested protocol, and at most one
//! of the offered subprotocols (RFC 6455, 4.1; Kubernetes' SPDY has its own header for them). A client with
//! any other protocol would misread the member's bytes.

use http::{HeaderMap, HeaderName, StatusCode, header};
use kubectl_mc_api::ClusterName;

use crate::head::headers::tokens;
use crate::head::protocol::Protocol;

/// The client's offer.
#[derive(Debug)]
pub struct Offer {
    protocol: Protocol,
    header: HeaderName,
    subprotocols: Vec<String>,
}

impl Offer {
    pub fn of(protocol: Protocol, request: &HeaderMap) -> Self {
        let header = match protocol {
            Protocol::WebSocket => header::SEC_WEBSOCKET_PROTOCOL,
            Protocol::Spdy => STREAM_PROTOCOL,
        };
        let subprotocols = tokens(request, &header).map(str::to_owned).collect();
        Self { protocol, header, subprotocols }
    }

    /// Whether a member's 101 matches this request.
    pub fn accepts(&self, member: &ClusterName, response: &HeaderMap) -> Result<(), NotAccepted> {
        let agreed = match response.get_all(header::UPGRADE).iter().collect::<Vec<_>>().as_slice() {
            [one] => Protocol::named(one),
            _ => None,
        };
        if agreed != Some(self.protocol) {
            return Err(NotAccepted::OtherProtocol(member.clone(), self.protocol.as_str()));
        }
        self.admits(response).then_some(()).ok_or_else(|| NotAccepted::NotOffered(member.clone()))
    }

    /// Whether the member chose no subprotocol, or an offered one.
    fn admits(&self, response: &HeaderMap) -> bool {
        let mut chosen = response.get_all(&self.header).iter();
        match (chosen.next(), chosen.next()) {
            (None, _) => true,
            (Some(chosen), None) => self.subprotocols.iter().any(|offered| offered == chosen),
            (Some(_), Some(_)) => false,
        }
    }
}

/// apimachinery: `util/httpstream.HeaderProtocolVersion`
const STREAM_PROTOCOL: HeaderName = HeaderName::from_static("x-stream-protocol-version");

/// Why a member's answer to an upgrade is not forwarded.
#[derive(Debug, thiserror::Error)]
pub enum NotAccepted {
    #[error("member {0} switched to another protocol than {1}")]
    OtherProtocol(ClusterName, &'static str),
    #[error("member {0} chose a subprotocol that was not offered to it")]
    NotOffered(ClusterName),
    #[error("member {0} answered an upgrade with {1}")]
    NoSwitch(ClusterName, StatusCode),
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn headers(name: &HeaderName, lines: &[&'static str]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append(name, HeaderValue::from_static(line));
        }
        headers
    }

    #[test]
    fn fault_62_member_must_choose_an_offered_protocol() {
        for (protocol, name) in
            [(Protocol::WebSocket, header::SEC_WEBSOCKET_PROTOCOL), (Protocol::Spdy, STREAM_PROTOCOL)]
        {
            let offer = Offer::of(protocol, &headers(&name, &["v5.channel.k8s.io, v4.channel.k8s.io", "v3"]));
            for (chosen, admitted) in [
                (&[][..], true),
                (&["v5.channel.k8s.io"], true),
                (&["v4.channel.k8s.io"], true),
                (&["v3"], true),
                (&["v2.channel.k8s.io"], false),
                (&["v5.channel.k8s.io, v3"], false),
                (&["v5.channel.k8s.io", "v3"], false),
                (&[""], false),
            ] {
                assert_eq!(offer.admits(&headers(&name, chosen)), admitted, "{protocol:?} {chosen:?}");
            }
        }
    }

    #[test]
    fn fault_62_member_must_choose_nothing_without_an_offer() {
        let offer = Offer::of(Protocol::WebSocket, &HeaderMap::new());
        assert!(offer.admits(&HeaderMap::new()));
        assert!(!offer.admits(&headers(&header::SEC_WEBSOCKET_PROTOCOL, &["v5.channel.k8s.io"])));
    }
}
