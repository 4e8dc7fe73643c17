//! Pages of other origins.

use super::*;

const PAGE: Option<(&str, &str)> = Some(("origin", "https://ui.example"));

#[tokio::test]
async fn cors_answers_allowed_origins_only() {
    let (services, asked) = app(Flags { cors: true, ..Flags::default() }, &front_proxy());
    let (status, headers, _) =
        send_as(&services, &stranger(), Version::HTTP_11, Method::OPTIONS, PODS, PAGE).await;
    assert_eq!((status, asked()), (StatusCode::NO_CONTENT, 0));
    assert_eq!(headers["access-control-allow-origin"], "https://ui.example");
    assert_eq!(headers["access-control-allow-methods"], "POST, GET, OPTIONS, PUT, DELETE, PATCH");
    assert!(headers["access-control-allow-headers"].to_str().unwrap().contains("Authorization"));
    assert_eq!(headers["access-control-expose-headers"], "Date");
    assert_eq!(headers["access-control-allow-credentials"], "true");
    // The page must be able to read errors as well.
    let (status, headers, _) = send(&services, &stranger(), Version::HTTP_11, PODS, PAGE).await;
    assert_eq!(
        (status.as_u16(), &headers["access-control-allow-origin"]),
        (401, &"https://ui.example".parse().unwrap())
    );
    let other = Some(("origin", "https://ui.example.evil.org"));
    let (status, headers, _) =
        send_as(&services, &stranger(), Version::HTTP_11, Method::OPTIONS, PODS, other).await;
    assert_eq!((status.as_u16(), headers.get("access-control-allow-origin")), (401, None));
}

#[tokio::test]
async fn cors_headers_need_the_flag_and_direct_access() {
    let front_proxy = front_proxy();
    let (with, _) = app(Flags { cors: true, ..Flags::default() }, &front_proxy);
    let (without, _) = app(Flags::default(), &front_proxy);
    for (services, peer) in [(with, Arc::new(front_proxy.peer())), (without, stranger())] {
        let (status, headers, _) =
            send_as(&services, &peer, Version::HTTP_2, Method::OPTIONS, PODS, PAGE).await;
        assert_eq!((status.as_u16(), headers.get("access-control-allow-origin")), (401, None));
    }
}

const EXEC: &str = "/apis/proxy.kubectl-mc.dev/v1alpha1/clusters/m1/proxy/api/v1/namespaces/ns/pods/p/exec";
const ATTACH: &str = "/apis/proxy.kubectl-mc.dev/v1alpha1/clusters/m1/attach";
const WEBSOCKET: [(&str, &str); 5] = [
    ("connection", "Upgrade"),
    ("upgrade", "websocket"),
    ("sec-websocket-version", "13"),
    ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
    ("sec-websocket-protocol", "v5.channel.k8s.io"),
];

/// A browser holds jane's certificate; the token stands for it here.
#[tokio::test]
async fn fault_82_page_of_another_origin_reaches_no_member() {
    let (services, asked) = app(Flags { cors: true, ..Flags::default() }, &front_proxy());
    for (origin, refused) in
        [("https://evil.example", true), ("null", true), ("https://ui.example", false), ("https://x", false)]
    {
        let page = [JANE.unwrap(), ("origin", origin)];
        for (method, path, headers) in [
            (Method::GET, EXEC, &WEBSOCKET[..]),
            (Method::GET, ATTACH, &WEBSOCKET),
            (Method::POST, EXEC, &[]),
            (Method::POST, PODS, &[]),
            (Method::DELETE, PODS, &[]),
            (Method::PUT, "/debug/flags/v", &[]),
        ] {
            let before = asked();
            let headers = [&page[..], headers].concat();
            let (status, answer, body) =
                exchange(&services, &stranger(), Version::HTTP_11, method.clone(), path, &headers).await;
            let is_foreign = body.contains("pages of origin");
            assert_eq!(is_foreign, refused, "{method} {path} {origin}: {body}");
            if refused {
                assert_eq!((status.as_u16(), answer["x-kubectl-mc-hop"].as_bytes()), (403, &b"request"[..]));
                assert!(body.contains("--cors-allowed-origins"), "{body}");
                assert!(asked() - before <= 1, "no right was asked for");
                assert!(!answer.contains_key("access-control-allow-origin"));
            }
        }
        let (.., body) = send_with(&services, &stranger(), Version::HTTP_11, PODS, &page).await;
        assert!(!body.contains("pages of origin"), "the browser hides what it reads: {body}");
    }
}

#[tokio::test]
async fn fault_82_origin_through_the_host_is_not_judged() {
    let front_proxy = front_proxy();
    let (services, _) = app(Flags::default(), &front_proxy);
    let peer = Arc::new(front_proxy.peer());
    let page = [("x-remote-user", "jane"), ("origin", "https://evil.example")];
    let upgrade = [&page[..], &WEBSOCKET].concat();
    let (_, _, body) = send_with(&services, &peer, Version::HTTP_11, EXEC, &upgrade).await;
    assert!(!body.contains("pages of origin"), "{body}");
    let (_, _, body) = exchange(&services, &peer, Version::HTTP_2, Method::POST, PODS, &page).await;
    assert!(!body.contains("pages of origin"), "{body}");
    let token = [JANE.unwrap(), ("origin", "https://evil.example")];
    let (status, _, body) = exchange(&services, &peer, Version::HTTP_2, Method::POST, PODS, &token).await;
    assert_eq!(status, 403, "no identity of the host: {body}");
}
