//! Operators can inspect a running sidecar and change its log level if the host authorizes them for
//! the path.

use anyhow::{Result, ensure};
use harness::bed::{bed, host};
use harness::caller::Caller;
use harness::http1::{Endpoint, Response, member_path};
use harness::own_sidecar::{Difference, OwnSidecar};
use harness::wait::{SOON, eventually};
use serde_json::{Value, json};

#[test]
fn operators_see_state_and_change_log_level() -> Result<()> {
    let own = OwnSidecar::with(&Difference { log: Some("info"), ..Difference::default() })?;
    let operator = Caller::certificate("e2e-debug-operator", &[])?;
    let endpoint = own.endpoint(operator.certificate.as_deref())?;
    let at_host = Endpoint::cluster(&bed()?.host, operator.certificate.as_deref())?;
    let host = host()?;
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": {"name": "e2e-debug"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "kubectl-mc-debug"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": operator.user}],
    });
    host.apply("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/e2e-debug", &binding)?;
    eventually("the host knows the right", SOON, || {
        Ok((at_host.exchange(GET_STATE)?.status() == 404).then_some(()))
    })?;

    let state: Value = serde_json::from_str(&ok(&endpoint, GET_STATE)?)?;
    let member = state["members"].as_array().into_iter().flatten().find(|member| member["name"] == "m2");
    let member = member.cloned().unwrap_or_default();
    ensure!(member["isBreakerOpen"] == false && member["server"].is_string(), "{state}");

    let request = || -> Result<()> {
        let path = member_path("m2", "/version");
        endpoint.exchange(format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes())?;
        Ok(())
    };
    let lines = || -> Result<usize> {
        let log = own.log()?;
        Ok(log.lines().filter(|line| line.contains(r#""message":"request""#)).count())
    };
    request()?;
    ensure!(lines()? == 0, "a request is logged at info: {}", own.log()?);
    let set = |level: &str| {
        let length = level.len();
        ok(
            &endpoint,
            format!("PUT /debug/flags/v HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n\r\n{level}")
                .as_bytes(),
        )
    };
    set("4")?;
    request()?;
    eventually("the request is logged", SOON, || Ok((lines()? > 0).then_some(())))?;
    set("0")?;
    let before = lines()?;
    request()?;
    ensure!(lines()? == before, "a request is logged at info again: {}", own.log()?);
    let changed = own.log()?.lines().filter(|line| line.contains("the level of the log changes")).count();
    ensure!(changed == 2, "{}", own.log()?);
    Ok(())
}

const GET_STATE: &[u8] = b"GET /debug/state HTTP/1.1\r\nHost: x\r\n\r\n";

fn ok(endpoint: &Endpoint, request: &[u8]) -> Result<String> {
    let response: Response = endpoint.exchange(request)?;
    ensure!(response.status() == 200, "{} {}", response.status(), response.text());
    Ok(response.text())
}
