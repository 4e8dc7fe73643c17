use prometheus_client::metrics::counter::Counter;

use super::super::backend::{Backend, Mode};
use super::super::event::Format;
use super::super::metrics::Metrics;
use super::super::policy::Policy;
use super::super::queue::{Pace, Queue};
use super::*;

/// An auditor that records every stage, and the queue of its events.
fn auditor() -> (Arc<Auditor>, Arc<Queue>) {
    let pace = Pace { max_size: 10, max_wait: Duration::ZERO };
    let (backend, queue) = Backend::new(Mode::Batch, Format::Json, 100, pace, Counter::default());
    let policy = Policy::everything(true);
    let (replica, metrics) = (String::new(), Metrics::default());
    (
        Arc::new(Auditor {
            policy,
            replica,
            redacts_exec_arguments: false,
            backends: vec![backend],
            metrics,
        }),
        queue,
    )
}

#[tokio::test]
async fn panic_is_the_last_event_of_its_request() {
    let (auditor, queue) = auditor();
    let mut trail = Trail::begin(auditor, &Request::new(()), "10.0.0.1".parse().unwrap(), false);
    trail.logged_in(&Arc::new(Identity { user: "jane".to_owned(), ..Identity::default() }));
    trail.panicked(&"id");
    trail.panicked(&"id");
    trail.answered(StatusCode::INTERNAL_SERVER_ERROR, &"id");
    trail.ended(&"id", Some(Hop::Sidecar), Duration::ZERO, None);
    let events = queue.take().await.events;
    assert_eq!(events.len(), 1);
    let mut event: serde_json::Value = serde_json::from_slice(&events[0]).unwrap();
    for time in ["requestReceivedTimestamp", "stageTimestamp"] {
        assert_ne!(event[time].take(), serde_json::Value::Null);
    }
    let golden = serde_json::json!({
        "kind": "Event", "apiVersion": "audit.k8s.io/v1", "level": "Metadata", "auditID": "id", "stage": "Panic",
        "requestURI": "/", "verb": "get", "user": {"username": "jane"}, "sourceIPs": ["10.0.0.1"],
        "responseStatus": {
            "metadata": {}, "status": "Failure", "reason": "InternalError", "code": 500,
            "message": "the sidecar panicked",
        },
        "requestReceivedTimestamp": null, "stageTimestamp": null,
        "annotations": {"kubectl-mc.dev/replica": ""},
    });
    assert_eq!(event, golden);
}

#[test]
fn unrecorded_request_waits_for_no_backend() {
    let (mut auditor, _) = auditor();
    let begin = |auditor: &Arc<Auditor>| {
        let mut trail = Trail::begin(auditor.clone(), &Request::new(()), [10, 0, 0, 1].into(), false);
        trail.logged_in(&Arc::default());
        trail.beginning(&"id").is_some()
    };
    assert!(begin(&auditor));
    Arc::get_mut(&mut auditor).unwrap().policy = Policy::default();
    assert!(!begin(&auditor));
}

#[tokio::test]
async fn panic_before_the_login_is_recorded() {
    let (auditor, queue) = auditor();
    let mut trail = Trail::begin(auditor, &Request::new(()), "10.0.0.1".parse().unwrap(), false);
    trail.panicked(&"id");
    assert_eq!(queue.take().await.events.len(), 1);
}

#[test]
fn address_appended_by_the_host_is_kept() {
    let mut headers = HeaderMap::new();
    let claimed = vec!["192.0.2.1"; 40].join(", ");
    headers.insert("x-forwarded-for", format!("{claimed}, 198.51.100.7").parse().unwrap());
    let (auditor, _) = auditor();
    let mut request = Request::new(());
    *request.headers_mut() = headers;
    let peer = "10.0.0.1".parse().unwrap();
    let trail = |is_forwarded| Trail::begin(auditor.clone(), &request, peer, is_forwarded).source_ips;
    assert_eq!(trail(true)[trail(true).len() - 2..], ["198.51.100.7", "10.0.0.1"]);
    assert_eq!(trail(false), ["10.0.0.1"]);
}
