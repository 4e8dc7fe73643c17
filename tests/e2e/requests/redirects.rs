//! A program in a pod can redirect its callers to its own paths, and nowhere else.

use anyhow::{Result, ensure};
use harness::bed::{bed, sidecar};
use harness::http1::{Endpoint, Response, member_path};
use harness::scene::Scene;
use harness::wait::{SOON, eventually};
use serde_json::json;

/// agnhost netexec redirects to any location in the request; the member's kube-apiserver rewrites it to a
/// path below the proxy.
#[test]
fn fault_48_redirect_of_a_program_stays_below_its_proxy_path() -> Result<()> {
    let scene = Scene::new("redirects")?;
    let container = json!({
        "image": "testbed.local/agnhost:1", "args": ["netexec", "--http-port=8080"],
        "readinessProbe": {"httpGet": {"path": "/healthz", "port": 8080}, "periodSeconds": 1},
    });
    scene.start_pod("ui", &container)?;
    let program = format!("/api/v1/namespaces/{}/pods/ui:8080/proxy", scene.name);
    let path = |rest: &str| member_path(&scene.member, &format!("{program}{rest}"));
    let caller = scene.caller()?;
    let direct = Endpoint::sidecar(sidecar()?, caller.certificate.as_deref())?;
    eventually("the program answers", SOON, || {
        Ok((get(&direct, &path("/healthz"))?.status() == 200).then_some(()))
    })?;

    let redirected = get(&direct, &path("/redirect?location=/echo%3Fmsg=found&code=307"))?;
    ensure!(redirected.status() == 307, "{}", redirected.text());
    let location = redirected.head.value("location").unwrap_or_default();
    ensure!(location == path("/echo?msg=found"), "{location}");
    let found = get(&direct, location)?;
    ensure!(found.text() == "found", "{}", found.text());

    let elsewhere = get(&direct, &path("/redirect?location=https://elsewhere.example/&code=302"))?;
    ensure!(elsewhere.status() == 502 && elsewhere.head.value("location").is_none(), "{}", elsewhere.text());

    let host = Endpoint::cluster(&bed()?.host, caller.certificate.as_deref())?;
    let through_the_host = get(&host, &path("/redirect?location=/echo%3Fmsg=found&code=307"))?;
    ensure!(through_the_host.status() == 502, "{}", through_the_host.text());
    let said = through_the_host.text();
    ensure!(said.contains(&path("/echo?msg=found")) && said.contains("passes no redirects on"), "{said}");
    Ok(())
}

fn get(endpoint: &Endpoint, path: &str) -> Result<Response> {
    endpoint.exchange(format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").as_bytes())
}
