//! Discovery of the aggregated API never waits for a member: while discovery fails, namespaces of
//! the host cannot be deleted.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use harness::bed::{host, sidecar};
use harness::caller::Caller;
use harness::fake_member::{FakeMember, Step};
use harness::http1::{Endpoint, member_path};
use harness::tool::Tool;
use serde_json::Value;

#[test]
fn api_service_is_available() -> Result<()> {
    let service = host()?.get("/apis/apiregistration.k8s.io/v1/apiservices/v1alpha1.proxy.kubectl-mc.dev")?;
    let conditions = service["status"]["conditions"].as_array().context("no conditions")?;
    let available = conditions.iter().find(|condition| condition["type"] == "Available");
    assert_eq!(available.context("no condition Available")?["status"], "True", "{service}");
    Ok(())
}

#[test]
fn resources_of_the_host_are_listed_without_a_warning() -> Result<()> {
    let output = Tool::kubectl(&admin("resources")?)?.run(&["api-resources", "-o", "wide"])?;
    assert_eq!((output.code, output.stderr.as_str()), (0, ""), "{output:?}");
    let text = output.text();
    let line =
        text.lines().find(|line| line.contains("proxy.kubectl-mc.dev/v1alpha1")).context("not listed")?;
    let words: Vec<_> = line.split_whitespace().collect();
    assert_eq!(words[0], "clusters");
    assert!(words.contains(&"false"), "clusters have no namespace: {line}");
    assert!(line.contains("get,list,watch"), "{line}");
    Ok(())
}

#[test]
fn explain_describes_a_cluster() -> Result<()> {
    let text = Tool::kubectl(&admin("explain")?)?.ok(&["explain", "clusters.proxy.kubectl-mc.dev"])?;
    assert!(text.contains("GROUP:      proxy.kubectl-mc.dev"), "{text}");
    assert!(text.contains("KIND:       Cluster"), "{text}");
    Ok(())
}

#[test]
fn proxy_is_listed_as_a_subresource() -> Result<()> {
    let list = host()?.get(GROUP_VERSION)?;
    let resources = list["resources"].as_array().context("no resources")?;
    for name in ["clusters", "clusters/proxy"] {
        let resource = resources.iter().find(|resource| resource["name"] == name);
        let resource = resource.with_context(|| format!("{name} is not listed: {list}"))?;
        assert_eq!(resource["namespaced"], false);
        assert!(resource["singularName"].is_string(), "{resource}");
        assert!(resource["kind"].is_string(), "{resource}");
    }
    Ok(())
}

#[test]
fn discovery_waits_for_no_hanging_member() -> Result<()> {
    let fake = FakeMember::start("e2e-discovery-hangs", |_| vec![Step::Hang])?;
    let caller = admin("hangs")?;
    let through_host = host()?;
    let direct = Endpoint::sidecar(sidecar()?, caller.certificate.as_deref())?;
    // Some requests are in flight to the member, so that it is known to hang.
    let mut waiting = Vec::new();
    for _ in 0..20 {
        let mut connection = direct.connect()?;
        let path = member_path(&fake.name, "/hang");
        connection.send(format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes())?;
        waiting.push(connection);
    }
    fake.wait_for("/hang", |_| true)?;
    for path in ["/apis", GROUP, GROUP_VERSION, "/openapi/v2", "/openapi/v3", OPENAPI_V3] {
        let asked = Instant::now();
        let answer = direct.exchange(format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes())?;
        ensure!([200, 404].contains(&answer.status()), "{path}: {}: {}", answer.status(), answer.text());
        ensure!(asked.elapsed() < AT_ONCE, "{path} took {:?}", asked.elapsed());
    }
    for path in [GROUP, GROUP_VERSION] {
        let asked = Instant::now();
        let _: Value = through_host.get(path)?;
        ensure!(asked.elapsed() < AT_ONCE, "{path} took {:?} through the host", asked.elapsed());
    }
    Ok(())
}

fn admin(name: &str) -> Result<Caller> {
    Caller::certificate(&format!("e2e-discovery-{name}"), &["system:masters"])
}

const GROUP: &str = "/apis/proxy.kubectl-mc.dev";
const GROUP_VERSION: &str = "/apis/proxy.kubectl-mc.dev/v1alpha1";
const OPENAPI_V3: &str = "/openapi/v3/apis/proxy.kubectl-mc.dev/v1alpha1";

/// The limit for one answer on a busy machine. The member never answers, so a request that waits for it takes
/// longer.
const AT_ONCE: Duration = Duration::from_secs(10);
