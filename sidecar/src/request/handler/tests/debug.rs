//! Requests of operators below `/debug/`.

use http_body_util::Full;

use super::chain::{BOB, Flags, JANE, app, send_as, send_request, stranger};
use super::*;
use crate::identity::trust::tests::front_proxy;

const STATE: &str = "/debug/state";
const LEVEL: &str = "/debug/flags/v";

fn services() -> Arc<Services> {
    app(Flags::default(), &front_proxy()).0
}

async fn asked(
    services: &Arc<Services>,
    method: Method,
    path: &str,
    header: Option<(&'static str, &str)>,
) -> (StatusCode, String) {
    let (code, _, body) = send_as(services, &stranger(), Version::HTTP_11, method, path, header).await;
    (code, body)
}

/// Sets the log level as jane.
async fn set(services: &Arc<Services>, level: &'static [u8]) -> (StatusCode, String) {
    let mut request = request(LEVEL).map(|_| Full::new(Bytes::from_static(level)));
    *request.method_mut() = Method::PUT;
    request.headers_mut().insert("authorization", HeaderValue::from_static("Bearer jane"));
    let (code, _, body) = send_request(services, &stranger(), Version::HTTP_11, request).await;
    (code, body)
}

#[tokio::test]
async fn only_authorized_callers_reach_debug() {
    let services = services();
    for path in [STATE, LEVEL] {
        assert_eq!(asked(&services, Method::GET, path, None).await.0, 401, "{path}");
        let (code, body) = asked(&services, Method::GET, path, BOB).await;
        assert_eq!(code, 403);
        assert!(body.contains(&format!("cannot get path \\\"{path}\\\"")), "{body}");
        assert_eq!(asked(&services, Method::GET, path, JANE).await.0, 200, "{path}");
    }
    let (code, body) = asked(&services, Method::PUT, LEVEL, BOB).await;
    assert!(code == 403 && body.contains("cannot put path"), "{body}");
    for (method, path) in [(Method::PUT, STATE), (Method::POST, LEVEL), (Method::DELETE, LEVEL)] {
        assert_eq!(asked(&services, method, path, JANE).await.0, 405, "{path}");
    }
    assert_eq!(asked(&services, Method::GET, "/debug/", JANE).await.0, 404);
}

#[tokio::test]
async fn debug_state_contains_usage_and_no_token() {
    let services = services();
    let (_, body) = asked(&services, Method::GET, STATE, JANE).await;
    let state: serde_json::Value = serde_json::from_str(&body).unwrap();
    assert_eq!(state["isReady"], true, "{state}");
    assert_eq!(state["limits"]["reads"], serde_json::json!({"inUse": 1, "waiting": 0, "limit": 10}));
    assert_eq!((&state["caches"]["tokens"], &state["caches"]["access"]), (&1.into(), &1.into()));
    assert!(!body.contains("Bearer") && !body.contains("jane"), "{body}");
}

#[tokio::test]
async fn put_changes_the_log_level() {
    let services = services();
    assert!(asked(&services, Method::GET, LEVEL, JANE).await.1.contains("info"));
    let (code, body) = set(&services, b"4\n").await;
    assert!(code == 200 && body.starts_with("successfully set the log level to "), "{body}");
    assert!(asked(&services, Method::GET, LEVEL, JANE).await.1.contains("debug"));
    for invalid in [&b"loud"[..], b"", b"\xff", &[b'a'; 2000]] {
        let (code, body) = set(&services, invalid).await;
        assert_eq!(code, 400, "{body}");
    }
    assert!(asked(&services, Method::GET, LEVEL, JANE).await.1.contains("debug"));
}
