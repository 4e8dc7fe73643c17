//! Filters the headers of a member's response. A browser attributes response headers to the host's
//! origin, so an allow list selects them, and unknown ones are removed.

use http::{HeaderMap, HeaderName, HeaderValue, header};
use kubectl_mc_api::{api_headers, hop};

use super::Nominated;

/// Cleans the head of a member's response, unless it is a 101, and marks it as the member's.
///
/// `inner_proxy` means that a program of the member's users answers. Its headers cannot be listed,
/// so `x-*` is also forwarded, except for headers that browsers and proxies act on.
pub fn clean_response(headers: &mut HeaderMap, inner_proxy: bool) {
    let is_passive = has_passive_content(headers);
    keep_allowed(headers, inner_proxy);
    // hyper accepts a hundred lines from a member, so the map has room for three more.
    headers.insert(HOP, HeaderValue::from_static(hop::Hop::Member.as_str()));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    if !is_passive {
        headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static("sandbox"));
    }
}

/// Cleans the trailers of a member's response.
pub fn clean_trailers(trailers: &mut HeaderMap) {
    keep_allowed(trailers, true);
}

/// Creates the head of a 101. The sidecar writes it itself, and forwards only the member's headers
/// about the protocol.
pub fn switching_protocols(member: &HeaderMap, protocol: &'static str) -> HeaderMap {
    let mut headers = HeaderMap::with_capacity(HANDSHAKE);
    for (name, value) in member {
        if api_headers::is_of_a_switch(name.as_str()) {
            headers.append(name.clone(), value.clone());
        }
    }
    headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(header::UPGRADE, HeaderValue::from_static(protocol));
    headers
}

fn keep_allowed(headers: &mut HeaderMap, inner_proxy: bool) {
    let nominated = Nominated::by(headers);
    let passes = |name: &HeaderName| {
        (api_headers::is_of_responses(name.as_str()) || inner_proxy && is_of_a_program(name))
            && !nominated.contains(name)
    };
    let removed: Vec<HeaderName> = headers.keys().filter(|name| !passes(name)).cloned().collect();
    for name in removed {
        headers.remove(name);
    }
}

/// Whether the header is one that a program behind an inner proxy may send: its own, a registry's or gRPC's.
/// Browsers have had no new `x-*` header since RFC 6648.
fn is_of_a_program(name: &HeaderName) -> bool {
    let name = name.as_str();
    ["docker-", "grpc-", "oci-", "x-"].iter().any(|prefix| name.starts_with(prefix))
        && !ACTED_ON.iter().any(|prefix| name.starts_with(prefix))
}

/// Whether a browser displays the content without running anything in it. Browsers disagree about a response
/// with several types or none.
fn has_passive_content(headers: &HeaderMap) -> bool {
    let mut types = headers.get_all(header::CONTENT_TYPE).iter();
    let (Some(one), None) = (types.next(), types.next()) else { return false };
    let Some(text) = one.to_str().ok().filter(|text| !text.contains(',')) else { return false };
    let essence = text.split(';').next().unwrap_or_default().trim();
    PASSIVE.iter().any(|passive| essence.eq_ignore_ascii_case(passive))
}

/// The header that names the hop that answered.
pub const HOP: HeaderName = HeaderName::from_static(hop::HEADER);
/// The lines of a handshake, and the audit id.
const HANDSHAKE: usize = 8;
/// The media types of the Kubernetes API, of logs and of downloads.
const PASSIVE: &[&str] = &[
    "application/cbor",
    "application/cbor-seq",
    "application/json",
    "application/octet-stream",
    "application/vnd.kubernetes.protobuf",
    "application/yaml",
    "text/plain",
];
/// Prefixes of `x-*` headers that carry identity, that browsers obey, or that a proxy in front of the host
/// obeys. nginx, Apache, lighttpd, LiteSpeed and Perlbal send files or other locations, and Envoy takes a
/// server out of service.
const ACTED_ON: &[&str] = &[
    "x-accel",
    "x-content-security-policy",
    "x-envoy",
    "x-forwarded",
    "x-kubectl",
    "x-lighttpd",
    "x-litespeed",
    "x-permitted-cross-domain-policies",
    "x-remote",
    "x-reproxy",
    "x-sendfile",
    "x-webkit-csp",
];

#[cfg(test)]
mod tests;
