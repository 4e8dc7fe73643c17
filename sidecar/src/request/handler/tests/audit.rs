//! Tests of the audit events of requests: they name the caller and the decision, and contain no
//! credential.

use std::time::Duration;

use regex::Regex;

use super::chain::{BOB, Flags, JANE, MALLORY, PODS, app, send_as, stranger};
use super::*;
use crate::identity::trust::tests::front_proxy;
use crate::telemetry::audit::{Auditor, Config, Format, LogConfig, Mode, Policy, Rotation};

/// The answer to one request and its events, without times.
async fn recorded(path: &str, header: Option<(&'static str, &str)>, mode: Mode) -> (StatusCode, String) {
    recorded_with(path, header, mode, false).await
}

async fn recorded_with(
    path: &str,
    header: Option<(&'static str, &str)>,
    mode: Mode,
    redacts_exec_arguments: bool,
) -> (StatusCode, String) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("audit.log");
    let log = LogConfig {
        path: Some(if mode == Mode::BlockingStrict { "/dev/full".into() } else { file.clone() }),
        format: Format::Json,
        mode,
        buffer_size: 100,
        rotation: Rotation { max_size_mib: 0, max_age_days: 0, max_backups: 0 },
    };
    let config =
        Config { policy: Policy::everything(true), log: Some(log), webhook: None, redacts_exec_arguments };
    let auditor =
        Auditor::open(config, "replica", &mut crate::observe::metrics::registry()).await.unwrap().unwrap();
    let mut services = Arc::into_inner(app(Flags::default(), &front_proxy()).0).unwrap();
    services.auditor = Some(auditor.clone());
    let services = Arc::new(services);
    let (code, ..) = send_as(&services, &stranger(), Version::HTTP_11, Method::GET, path, header).await;
    auditor.flush(Duration::from_secs(10)).await;
    let text = std::fs::read_to_string(&file).unwrap_or_default();
    let changing = Regex::new(r#"\d{4}-\d\d-\d\dT[\d:.]+Z|[0-9a-f]{8}-[0-9a-f-]{27}|"\d+\.\d{6}""#).unwrap();
    (code, changing.replace_all(&text, "~").into_owned())
}

#[tokio::test]
async fn allowed_request_has_two_audit_events_with_the_reason() {
    let (_, events) = recorded(&format!("{PODS}?limit=5"), JANE, Mode::Blocking).await;
    insta::assert_snapshot!(events, @r#"
{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Metadata","auditID":"~","stage":"RequestReceived","requestURI":"/apis/proxy.kubectl-mc.dev/v1alpha1/clusters/m1/proxy/api/v1/pods?limit=5","verb":"list","user":{"username":"jane","groups":["system:authenticated"]},"sourceIPs":["127.0.0.1"],"objectRef":{"resource":"pods","apiVersion":"v1"},"requestReceivedTimestamp":"~","stageTimestamp":"~","annotations":{"kubectl-mc.dev/cluster":"m1","kubectl-mc.dev/replica":"replica"}}
{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Metadata","auditID":"~","stage":"ResponseComplete","requestURI":"/apis/proxy.kubectl-mc.dev/v1alpha1/clusters/m1/proxy/api/v1/pods?limit=5","verb":"list","user":{"username":"jane","groups":["system:authenticated"]},"sourceIPs":["127.0.0.1"],"objectRef":{"resource":"pods","apiVersion":"v1"},"responseStatus":{"metadata":{},"status":"Failure","message":"the sidecar has not read the list of members yet","reason":"ServiceUnavailable","code":503},"requestReceivedTimestamp":"~","stageTimestamp":"~","annotations":{"authorization.k8s.io/decision":"allow","authorization.k8s.io/reason":"jane","kubectl-mc.dev/cluster":"m1","kubectl-mc.dev/duration-seconds":~,"kubectl-mc.dev/hop":"sidecar","kubectl-mc.dev/replica":"replica"}}
    "#);
}

#[tokio::test]
async fn denied_request_has_an_audit_event_with_the_decision() {
    let (code, events) = recorded(PODS, BOB, Mode::Batch).await;
    assert_eq!(code, 403);
    insta::assert_snapshot!(events, @r#"
{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Metadata","auditID":"~","stage":"RequestReceived","requestURI":"/apis/proxy.kubectl-mc.dev/v1alpha1/clusters/m1/proxy/api/v1/pods","verb":"list","user":{"username":"bob","groups":["system:authenticated"]},"sourceIPs":["127.0.0.1"],"objectRef":{"resource":"pods","apiVersion":"v1"},"requestReceivedTimestamp":"~","stageTimestamp":"~","annotations":{"kubectl-mc.dev/cluster":"m1","kubectl-mc.dev/replica":"replica"}}
{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Metadata","auditID":"~","stage":"ResponseComplete","requestURI":"/apis/proxy.kubectl-mc.dev/v1alpha1/clusters/m1/proxy/api/v1/pods","verb":"list","user":{"username":"bob","groups":["system:authenticated"]},"sourceIPs":["127.0.0.1"],"objectRef":{"resource":"pods","apiVersion":"v1"},"responseStatus":{"metadata":{},"status":"Failure","message":"clusters.proxy.kubectl-mc.dev \"m1\" is forbidden: User \"bob\" cannot get resource \"clusters/proxy\" in API group \"proxy.kubectl-mc.dev\" at the cluster scope: bob","reason":"Forbidden","code":403},"requestReceivedTimestamp":"~","stageTimestamp":"~","annotations":{"authorization.k8s.io/decision":"forbid","authorization.k8s.io/reason":"bob","kubectl-mc.dev/cluster":"m1","kubectl-mc.dev/duration-seconds":~,"kubectl-mc.dev/hop":"host authorization","kubectl-mc.dev/replica":"replica"}}
    "#);
}

#[tokio::test]
async fn failed_login_event_names_the_attempted_credentials() {
    let (code, events) = recorded(PODS, MALLORY, Mode::Blocking).await;
    assert_eq!(code, 401);
    insta::assert_snapshot!(events, @r#"{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Metadata","auditID":"~","stage":"ResponseStarted","requestURI":"/apis/proxy.kubectl-mc.dev/v1alpha1/clusters/m1/proxy/api/v1/pods","verb":"list","user":{},"sourceIPs":["127.0.0.1"],"objectRef":{"resource":"pods","apiVersion":"v1"},"responseStatus":{"metadata":{},"status":"Failure","message":"Authentication failed, attempted: bearer","reason":"Unauthorized","code":401},"requestReceivedTimestamp":"~","stageTimestamp":"~","annotations":{"kubectl-mc.dev/cluster":"m1","kubectl-mc.dev/replica":"replica"}}"#);
}

#[tokio::test]
async fn unparsable_request_is_recorded() {
    let (code, events) =
        recorded(&format!("{PODS}/%2e%2e/x?access_token=secret&a=b"), JANE, Mode::Blocking).await;
    assert_eq!(code, 400);
    assert!(!events.contains("secret"), "{events}");
    insta::assert_snapshot!(events, @r#"{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Metadata","auditID":"~","stage":"ResponseComplete","requestURI":"/apis/proxy.kubectl-mc.dev/v1alpha1/clusters/m1/proxy/api/v1/pods/%2e%2e/x?access_token=REDACTED&a=b","verb":"get","user":{},"sourceIPs":["127.0.0.1"],"responseStatus":{"metadata":{},"status":"Failure","message":"the path below the member has a dot segment","reason":"BadRequest","code":400},"requestReceivedTimestamp":"~","stageTimestamp":"~","annotations":{"kubectl-mc.dev/duration-seconds":~,"kubectl-mc.dev/hop":"request","kubectl-mc.dev/replica":"replica"}}"#);
}

#[tokio::test]
async fn fault_83_exec_command_is_in_no_event_with_the_flag() {
    const SECRET: &str = "?container=web&command=sh&command=hunter2";
    let exec = format!("{}/namespaces/ns/pods/p/exec{SECRET}", PODS.trim_end_matches("/pods"));
    let unparsable = format!("{PODS}/%2e%2e/exec{SECRET}");
    let program = format!("{}/namespaces/ns/services/s/proxy/exec{SECRET}", PODS.trim_end_matches("/pods"));
    for (path, header, shown) in [
        (&exec, JANE, Some("/exec?container=web&command=REDACTED\"")),
        (&exec, BOB, Some("/exec?container=web&command=REDACTED\"")),
        (&exec, MALLORY, Some("/exec?container=web&command=REDACTED\"")),
        (&unparsable, JANE, Some("/exec?REDACTED\"")),
        (&program, JANE, None),
    ] {
        let (_, events) = recorded_with(path, header, Mode::Blocking, true).await;
        assert_eq!(events.contains("hunter2"), shown.is_none(), "{path} {header:?} {events}");
        assert!(shown.is_none_or(|shown| events.contains(shown)), "{path} {header:?} {events}");
        let (_, events) = recorded(path, header, Mode::Blocking).await;
        assert!(events.contains("hunter2"), "off by default: {events}");
    }
}

#[tokio::test]
async fn health_checks_and_discovery_are_not_recorded() {
    for path in ["/readyz", "/apis"] {
        assert_eq!(recorded(path, None, Mode::Blocking).await.1, "", "{path}");
    }
}

#[tokio::test]
async fn fault_80_strict_audit_refuses_unstorable_requests() {
    let (code, _) = recorded(PODS, JANE, Mode::BlockingStrict).await;
    assert_eq!(code, 500);
}
