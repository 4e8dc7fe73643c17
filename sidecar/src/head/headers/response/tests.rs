use super::*;

type Lines<'a> = &'a [(&'static str, &'static str)];

fn map(lines: Lines<'_>) -> HeaderMap {
    let line = |(name, value): &(&'static str, &'static str)| {
        (HeaderName::from_static(name), HeaderValue::from_static(value))
    };
    let mut headers = HeaderMap::new();
    for (name, value) in lines.iter().map(line) {
        headers.append(name, value);
    }
    headers
}

fn cleaned(lines: Lines<'_>, inner_proxy: bool) -> HeaderMap {
    let mut headers = map(lines);
    clean_response(&mut headers, inner_proxy);
    headers
}

fn values<'a>(headers: &'a HeaderMap, name: &str) -> Vec<&'a str> {
    headers.get_all(name).iter().map(|value| value.to_str().unwrap()).collect()
}

/// Headers that a malicious member could send to the host's origin, its proxies or a client.
const FORGED: Lines<'static> = &[
    ("accept-ch", "Sec-CH-UA"),
    ("access-control-allow-origin", "*"),
    ("alt-svc", "h3=\":443\""),
    ("clear-site-data", "\"*\""),
    ("connection", "close, etag"),
    ("content-security-policy", "default-src *"),
    ("content-security-policy-report-only", "default-src *"),
    ("etag", "\"nominated\""),
    ("impersonate-user", "admin"),
    ("keep-alive", "timeout=5"),
    ("link", "</x>; rel=preload"),
    ("location", "/api/v1/namespaces"),
    ("nel", "{}"),
    ("proxy-authenticate", "Basic"),
    ("refresh", "0; url=https://evil.example"),
    ("report-to", "{}"),
    ("reporting-endpoints", "a=\"https://evil.example\""),
    ("sec-session-registration", "(ES256);path=\"/x\""),
    ("service-worker-allowed", "/"),
    ("set-cookie", "session=1"),
    ("set-login", "logged-out"),
    ("strict-transport-security", "max-age=1"),
    ("trailer", "x"),
    ("transfer-encoding", "chunked"),
    ("upgrade", "h2c"),
    ("www-authenticate", "Basic realm=\"host\""),
    ("x-accel-redirect", "/etc/passwd"),
    ("x-content-security-policy", "default-src *"),
    ("x-envoy-immediate-health-check-fail", "1"),
    ("x-forwarded-for", "127.0.0.1"),
    ("x-kubectl-mc-hop", "host authentication"),
    ("x-kubectl_mc_hop", "host authentication"),
    ("x-permitted-cross-domain-policies", "all"),
    ("x-remote-user", "admin"),
    ("x-remote_user", "admin"),
    ("x-sendfile", "/etc/passwd"),
];

#[test]
fn forged_response_headers_are_removed() {
    for inner_proxy in [false, true] {
        let headers = cleaned(&[FORGED, &[("content-type", "application/json")]].concat(), inner_proxy);
        let mut left: Vec<_> = headers.keys().map(HeaderName::as_str).collect();
        left.sort_unstable();
        assert_eq!(left, ["content-type", "x-content-type-options", "x-kubectl-mc-hop"]);
        assert_eq!(values(&headers, hop::HEADER), ["member"]);
    }
}

#[test]
fn kubernetes_api_headers_pass() {
    let lines = [
        ("audit-id", "a"),
        ("cache-control", "no-cache, private"),
        ("content-encoding", "gzip"),
        ("content-length", "2"),
        ("content-type", "application/json"),
        ("date", "Sun, 06 Nov 1994 08:49:37 GMT"),
        ("etag", "\"a\""),
        ("last-modified", "Sun, 06 Nov 1994 08:49:37 GMT"),
        ("retry-after", "1"),
        ("vary", "Accept"),
        ("warning", "299 - \"a\""),
        ("warning", "299 - \"b\""),
        ("x-accepted-stream-protocol-versions", "v4.channel.k8s.io"),
        ("x-content-type-options", "nosniff"),
        ("x-kubernetes-pf-flowschema-uid", "f"),
        ("x-kubernetes-pf-prioritylevel-uid", "p"),
    ];
    let headers = cleaned(&lines, false);
    assert_eq!(headers.len(), lines.len() + 1, "{headers:?}");
    assert_eq!(values(&headers, "warning"), ["299 - \"a\"", "299 - \"b\""]);
}

#[test]
fn program_headers_pass_only_from_an_inner_proxy() {
    let lines = [
        ("docker-content-digest", "sha256:0"),
        ("grpc-status", "0"),
        ("oci-subject", "sha256:0"),
        ("x-elastic-product", "Elasticsearch"),
    ];
    for (name, _) in lines {
        assert!(cleaned(&lines, true).contains_key(name), "{name}");
        assert!(!cleaned(&lines, false).contains_key(name), "{name}");
    }
}

#[test]
fn active_content_is_sandboxed() {
    for active in [
        &[][..],
        &["text/html"],
        &["text/html; charset=utf-8"],
        &["Application/XHTML+xml"],
        &["image/svg+xml"],
        &["text/xml"],
        &["application/json, text/html"],
        &["application/json;a=\",text/html"],
        &["application/json", "text/html"],
        &["text/html", "application/json"],
        &["multipart/x-mixed-replace"],
        &["application/jsonx"],
        &["nonsense"],
        &[""],
    ] {
        let lines: Vec<_> = active.iter().map(|value| ("content-type", *value)).collect();
        for inner_proxy in [false, true] {
            let headers = cleaned(&lines, inner_proxy);
            assert_eq!(values(&headers, "content-security-policy"), ["sandbox"], "{active:?}");
            assert_eq!(values(&headers, "x-content-type-options"), ["nosniff"], "{active:?}");
        }
    }
}

#[test]
fn passive_content_has_no_policy() {
    for passive in [
        "application/json",
        "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
        "Application/JSON ; charset=utf-8",
        "application/vnd.kubernetes.protobuf;stream=watch",
        "text/plain; charset=utf-8",
        "application/octet-stream",
    ] {
        let headers = cleaned(&[("content-type", passive)], true);
        assert!(!headers.contains_key(header::CONTENT_SECURITY_POLICY), "{passive}");
        assert_eq!(values(&headers, "x-content-type-options"), ["nosniff"], "{passive}");
    }
}

#[test]
fn members_content_type_options_header_is_replaced() {
    let headers = cleaned(&[("x-content-type-options", "sniff"), ("x-content-type-options", "please")], true);
    assert_eq!(values(&headers, "x-content-type-options"), ["nosniff"]);
}

#[test]
fn unreadable_connection_header_nominates_all_headers() {
    for connection in [&b"etag, \xff"[..], "a,".repeat(super::super::MAX_NOMINATED + 1).as_bytes()] {
        let mut headers = map(&[("etag", "\"a\""), ("content-type", "application/json")]);
        headers.append(header::CONNECTION, HeaderValue::from_bytes(connection).unwrap());
        clean_response(&mut headers, true);
        assert_eq!(headers.len(), 2, "{headers:?}");
    }
}

#[test]
fn switching_protocols_passes_only_handshake_headers() {
    let handshake = [
        ("sec-websocket-accept", "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="),
        ("sec-websocket-protocol", "v5.channel.k8s.io"),
        ("x-stream-protocol-version", "v4.channel.k8s.io"),
    ];
    let member = map(&[FORGED, &handshake].concat());
    let headers = switching_protocols(&member, "websocket");
    assert_eq!(headers.len(), handshake.len() + 2, "{headers:?}");
    for (name, value) in [("connection", "Upgrade"), ("upgrade", "websocket")].iter().chain(&handshake) {
        assert_eq!(values(&headers, name), [*value]);
    }
}

#[test]
fn trailers_are_filtered_like_headers() {
    let mut trailers = map(&[FORGED, &[("grpc-status", "0"), ("x-checksum", "1")]].concat());
    clean_trailers(&mut trailers);
    let mut left: Vec<_> = trailers.keys().map(HeaderName::as_str).collect();
    left.sort_unstable();
    assert_eq!(left, ["grpc-status", "x-checksum"]);
}
