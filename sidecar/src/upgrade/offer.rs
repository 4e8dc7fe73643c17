//! The subprotocols that a client offers with an upgrade, of which a member may choose one and no
//! other (RFC 6455, 4.1; Kubernetes' SPDY has a header of its own for them). A client that was given
//! another would read the member's bytes by the wrong rules.

use http::{HeaderMap, HeaderName, header};

use super::Protocol;
use crate::headers::tokens;

/// What a client offered.
pub(super) struct Offer {
    header: HeaderName,
    subprotocols: Vec<String>,
}

impl Offer {
    pub(super) fn of(protocol: Protocol, request: &HeaderMap) -> Self {
        let header = match protocol {
            Protocol::WebSocket => header::SEC_WEBSOCKET_PROTOCOL,
            Protocol::Spdy => STREAM_PROTOCOL,
        };
        let subprotocols = tokens(request, &header).map(str::to_owned).collect();
        Self { header, subprotocols }
    }

    /// Whether the member chose nothing, or one that was offered.
    pub(super) fn admits(&self, response: &HeaderMap) -> bool {
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
    fn fault_62_a_member_chooses_among_what_was_offered() {
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
    fn fault_62_where_nothing_was_offered_nothing_may_be_chosen() {
        let offer = Offer::of(Protocol::WebSocket, &HeaderMap::new());
        assert!(offer.admits(&HeaderMap::new()));
        assert!(!offer.admits(&headers(&header::SEC_WEBSOCKET_PROTOCOL, &["v5.channel.k8s.io"])));
    }
}
