use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::Method;
use kubectl_mc_api::names::{IMPERSONATOR, NAMESPACE};

use super::*;
use crate::cluster::connection::fake::connection;
use crate::error::Failure;
use crate::join::proxy_tls::ProxyTls;

fn host(_: &Method, path: &str) -> (u16, Value) {
    let (kind, version) = match path.contains("/secrets/") {
        true => ("Secret", "v1"),
        false => ("MemberCluster", "fleet.kubectl-mc.dev/v1alpha1"),
    };
    let ready = json!([{"type": "Ready", "status": "True"}]);
    let object = json!({
        "apiVersion": version, "kind": kind, "metadata": {"name": "m1", "resourceVersion": "1"},
        "status": {"conditions": ready}, "data": {"server": STANDARD.encode("https://old"), "token": "b2xk"},
    });
    (200, object)
}

#[tokio::test]
async fn failed_change_of_a_connection_is_undone() {
    let (host, requests) = connection("host", host);
    let (member, _) = connection("member", |_, path| match path.contains(IMPERSONATOR) {
        true => (403, json!({"kind": "Status", "code": 403, "reason": "Forbidden", "message": "no"})),
        false => (201, json!({"status": {"token": "new"}})),
    });
    let endpoint = Endpoint {
        server: "https://new".to_owned(),
        ca: None,
        tls_server_name: None,
        insecure: false,
        proxy_url: None,
        proxy_tls: ProxyTls::default(),
        via_agent: false,
        is_given: true,
    };
    let name: ClusterName = "m1".parse().unwrap();
    let steps = Steps {
        name: &name,
        host: &host,
        member: &member,
        endpoint: &endpoint,
        agent: None,
        removes_agent: false,
        namespace: NAMESPACE,
        registration: objects::member_cluster(&name, &[], None),
        member_objects: Vec::new(),
        bindable_roles: None,
        service_accounts: None,
        surplus: Vec::new(),
        token_life: Duration::from_secs(3600),
        timeout: Duration::from_secs(1),
        printer: &Printer::default(),
    };
    let error = steps.run().await.err().unwrap();
    assert!(matches!(error, StepError::Undone(_)), "{error}");
    let is_patch = |method: &Method, path: &str| *method == Method::PATCH && path.contains("/secrets/");
    let patches: Vec<_> = requests.try_iter().filter(|(method, path, _)| is_patch(method, path)).collect();
    let servers = patches.iter().map(|(_, path, patch)| {
        let server = STANDARD.decode(patch["data"]["server"].as_str().unwrap()).unwrap();
        (path.rsplit('/').next().unwrap(), String::from_utf8(server).unwrap())
    });
    let expected =
        [("m1.manager", "https://new"), ("m1.manager", "https://old"), ("m1.member", "https://old")];
    assert!(servers.eq(expected.map(|(secret, server)| (secret, server.to_owned()))));
}

#[test]
fn second_signal_claims_no_restored_connection() {
    let interrupted = || StepError::Interrupted;
    assert!(matches!(interrupted().after_undo(None), StepError::Interrupted));
    assert!(matches!(interrupted().after_undo(Some(Ok(()))), StepError::Undone(_)));
    let failed = interrupted().after_undo(Some(Err(Failure::usage("e").with_hint("h"))));
    assert!(matches!(failed, StepError::Failed(_)));
}
