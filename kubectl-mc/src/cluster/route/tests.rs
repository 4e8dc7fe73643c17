use std::time::{Duration, UNIX_EPOCH};

use super::*;
use crate::env::Env;

fn host(cluster: &str, user: &str) -> ClusterContext {
    let yaml = format!(
        "current-context: c\n\
         contexts: [{{name: c, context: {{cluster: k, user: u}}}}]\n\
         clusters: [{{name: k, cluster: {{server: 'https://host', certificate-authority-data: b3du, {cluster}}}}}]\n\
         users: [{{name: u, user: {{{user}}}}}, {{name: other, user: {{username: name, password: p}}}}]\n"
    );
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("config");
    std::fs::write(&file, yaml).unwrap();
    let options = crate::cluster::context::HostOptions { kubeconfig: Some(file), ..Default::default() };
    ClusterContext::load(&options, &Env::default()).unwrap()
}

fn scanned(words: &[&str]) -> Scanned {
    crate::argv::scan(words.iter().map(std::ffi::OsString::from).collect())
}

#[test]
fn commands_that_need_the_host_go_through_the_host() {
    let get = scanned(&["get", "pods"]);
    let needs = |cluster: &str, user: &str| needs_host(&host(cluster, user), &get);
    for user in
        ["token: t", "client-certificate-data: YQ==, client-key-data: YQ==", "tokenFile: /t", "as: someone"]
    {
        assert_eq!(needs("", user), None, "{user}");
    }
    let exec = "exec: {apiVersion: client.authentication.k8s.io/v1, command: login, interactiveMode: ";
    assert_eq!(needs("", &format!("{exec}IfAvailable}}")), None);
    for user in [
        &format!("{exec}Always}}"),
        &format!("{exec}Never, provideClusterInfo: true}}"),
        "username: name, password: p",
        "auth-provider: {name: oidc, config: {}}",
    ] {
        assert!(needs("", user).is_some(), "{user}");
    }
    for cluster in ["insecure-skip-tls-verify: true", "proxy-url: 'http://proxy'"] {
        assert!(needs(cluster, "token: t").is_some(), "{cluster}");
    }
    for flag in [
        "--token=t",
        "--client-certificate=f",
        "--certificate-authority=f",
        "--insecure-skip-tls-verify",
        "--user=other",
    ] {
        assert!(needs_host(&host("", "token: t"), &scanned(&["get", "pods", flag])).is_some(), "{flag}");
    }
    assert_eq!(needs_host(&host("", "token: t"), &scanned(&["get", "pods", "--as=someone"])), None);
}

#[test]
fn direct_context_keeps_the_user_and_drops_the_host_ca() {
    let endpoint = r#"{"server": "https://mc:8443", "authority": "PEM"}"#;
    let endpoint: Endpoint = serde_json::from_str(endpoint).unwrap();
    let host = host("tls-server-name: name, insecure-skip-tls-verify: false", "token: t");
    let through = endpoint.context(&host);
    assert_eq!(through.server, "https://mc:8443");
    assert_eq!(through.cluster.certificate_authority_data.as_deref(), Some("UEVN"));
    assert_eq!((&through.cluster.tls_server_name, through.cluster.insecure_skip_tls_verify), (&None, None));
    let of_own_requests = through.kubeconfig.clusters[0].cluster.as_ref().unwrap();
    assert_eq!(of_own_requests.server.as_deref(), Some("https://mc:8443"));
    assert!(through.kubeconfig.auth_infos[0].auth_info.as_ref().unwrap().token.is_some());
    assert_eq!(through.describe(), "the direct endpoint of host \"c\" (https://mc:8443)");
    assert_eq!(host.describe(), "host \"c\" (https://host)");
}

fn at(seconds: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(seconds)
}

fn endpoint() -> Endpoint {
    serde_json::from_str(r#"{"server": "https://mc", "authority": null}"#).unwrap()
}

fn found() -> Findings {
    let mut findings = Findings::default();
    findings.read(&Ok(endpoint()), at(1_000));
    findings.reached(&Ok(()), at(1_000));
    findings.accepted(&Ok(()), at(1_000));
    findings
}

#[test]
fn endpoint_is_cached_for_a_minute() {
    let findings = found();
    assert_eq!(findings.usable(at(1_059), false), Some(Ok(endpoint())));
    assert_eq!(findings.usable(at(1_060), false), None);
    // The clock was set back.
    assert_eq!(findings.usable(at(999), false), None);
    assert_eq!(Findings::default().usable(at(1_000), false), None);
}

#[test]
fn failure_is_cached_unless_direct_is_requested() {
    let not_reached = Fault::NotReached { server: "https://mc".to_owned(), reason: "refused".into() };
    let mut findings = found();
    findings.reached(&Err(not_reached), at(1_100));
    assert!(matches!(findings.usable(at(1_399), false), Some(Err(Fault::Remembered(_)))));
    assert_eq!(findings.usable(at(1_399), true), None);
    assert_eq!(findings.usable(at(1_400), false), None);
    findings.reached(&Ok(()), at(1_400));
    assert_eq!(findings.usable(at(1_400), false), Some(Ok(endpoint())));
}

#[test]
fn endpoint_that_is_no_longer_published_is_forgotten() {
    let mut findings = found();
    findings.read(&Err(Fault::NotPublished), at(1_010));
    assert!(matches!(findings.usable(at(1_010), false), Some(Err(_))));
    assert_eq!(findings.endpoint(), Err(Fault::NotPublished));
    assert_eq!(findings.usable(at(1_010), true), None);
}

#[test]
fn new_endpoint_invalidates_the_credential_check() {
    let mut findings = found();
    findings.read(&Ok(endpoint()), at(1_010));
    assert!(!findings.accepts_credential());
}
