//! Header lines that have confused other proxies. None gives its sender the right to impersonate another
//! user.

use super::callers::{Way, Who};

/// Returns the header lines that do not change the identity of a caller with this kind of login.
pub(super) fn of(way: Way, who: &Who) -> Vec<&'static str> {
    let mut lines = ANYWHERE.to_vec();
    if way != Way::FrontProxyHttp2 {
        lines.extend(ONE_CONNECTION);
    }
    if matches!(way, Way::Token | Way::Certificate) {
        lines.extend(FRONT_PROXYS);
    }
    if !who.impersonates {
        lines.extend(IMPERSONATION);
    }
    lines
}

const ANYWHERE: &[&str] = &[
    "impersonate_user: admin",
    "impersonate-user_: admin",
    "impersonate-foo: x",
    "x_remote_user: admin",
    "x-remote_group: system:masters",
    "x-remote-user_: admin",
    "cookie: session=admin",
    "proxy-authorization: Basic YWRtaW46YWRtaW4=",
    "x-forwarded-for: 10.0.0.1",
    "x-forwarded-user: admin",
    "x-forwarded-client-cert: Subject=\"CN=admin\"",
    "forwarded: for=admin;by=admin",
    "x-real-ip: 10.0.0.1",
    "via: 1.1 kubectl-mc, 1.1 kubectl-mc",
    "via: 1.1 kubectl-mc",
    "accept: \u{fffd}\u{1f600}",
    "user-agent: \timpersonate-user: admin",
    "audit-id: \"><script>",
    "origin: https://evil.example",
    "content-type: application/json;\"",
    "x-kubernetes-impersonate-user: admin",
    "sec-websocket-protocol: base64url.bearer.authorization.k8s.io.dWxyaWtlLXRva2Vu",
    "te: trailers",
    "x-http-method-override: DELETE",
];
/// Headers that HTTP/2 does not have.
const ONE_CONNECTION: &[&str] = &[
    "connection: impersonate-user",
    "connection: close, impersonate-user, impersonate-group, impersonate-uid, authorization",
    "connection: keep-alive\r\nconnection: x-remote-user, x-remote-group",
    "connection:\timpersonate-user",
    "connection: host, via, impersonate-user\u{fffd}",
    "proxy-connection: impersonate-user",
    "keep-alive: timeout=1, max=1",
    "trailer: impersonate-user",
    "host: admin",
    "upgrade: h2c\r\nconnection: upgrade, http2-settings\r\nhttp2-settings: AAMAAABkAAQAAP__",
    "connection: x-upgrade-y",
    "transfer-encoding: gzip, chunked",
    "x-folded: a\r\n impersonate-user: admin",
    "x-spaced : a",
];
/// Headers that only the front proxy may send.
const FRONT_PROXYS: &[&str] = &[
    "x-remote-user: admin",
    "x-remote-user: admin\r\nx-remote-group: system:masters",
    "x-remote-uid: 0\r\nx-remote-extra-scopes: everything",
    "authorization: Bearer made-up",
];
/// Headers that need the right to impersonate.
const IMPERSONATION: &[&str] = &[
    "impersonate-user: admin",
    "impersonate-user: admin\r\nimpersonate-group: system:masters",
    "impersonate-user: ",
    "impersonate-group: system:masters",
    "impersonate-uid: 0",
    "impersonate-extra-scopes: everything",
];
