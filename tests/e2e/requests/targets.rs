//! Wrong, ambiguous or huge request targets are refused with the right status code, and do not
//! reach anything. They go straight to the sidecar, where no other program normalizes them first.

use anyhow::{Context, Result, ensure};
use harness::bed::sidecar;
use harness::caller::Caller;
use harness::fake_member::{FakeMember, ok};
use harness::http1::{Endpoint, Response, member_path};
use harness::scene::{EVERY_VERB, Scene, grant};
use serde_json::json;

#[test]
fn fault_21_dots_in_the_place_of_a_cluster_are_a_bad_request() -> Result<()> {
    let target = Target::prepare("dots")?;
    for (path, code) in [
        ("{clusters}/../x", 400),
        ("{clusters}/%2e%2e/x", 400),
        ("{clusters}/..%2fx", 400),
        ("{clusters}/../{fake}/proxy/reached", 400),
        ("{clusters}/%2E%2E/proxy/reached", 400),
        ("{clusters}/./{fake}/proxy/reached", 400),
    ] {
        target.is_refused(path, code)?;
    }
    Ok(())
}

#[test]
fn fault_22_empty_segments_are_refused() -> Result<()> {
    let target = Target::prepare("empty")?;
    for (path, code) in [
        ("{clusters}//{fake}/proxy/reached", 400),
        ("{clusters}//proxy/reached", 400),
        ("{clusters}/{fake}//proxy/reached", 404),
        ("/{clusters}/{fake}/proxy/reached", 404),
        ("/apis//proxy.kubectl-mc.dev/v1alpha1/clusters/{fake}/proxy/reached", 404),
        ("/apis/proxy.kubectl-mc.dev//v1alpha1/clusters/{fake}/proxy/reached", 404),
    ] {
        target.is_refused(path, code)?;
    }
    Ok(())
}

#[test]
fn fault_23_dots_behind_the_proxy_are_a_bad_request() -> Result<()> {
    let target = Target::prepare("behind")?;
    for path in [
        "{clusters}/{fake}/proxy/../../m2/proxy",
        "{clusters}/{fake}/proxy/reached/..",
        "{clusters}/{fake}/proxy/%2e%2e/%2e%2e/m2/proxy/reached",
        "{clusters}/{fake}/proxy/reached/..%2f..%2fm2",
        "{clusters}/{fake}/proxy/reached/.",
    ] {
        target.is_refused(path, 400)?;
    }
    Ok(())
}

#[test]
fn fault_24_escapes_in_the_sidecars_path_are_refused() -> Result<()> {
    let target = Target::prepare("escapes")?;
    for (path, code) in [
        ("{clusters}/{fake}%2Fproxy/reached", 400),
        ("{clusters}/{fake}%2Fproxy%2Freached", 400),
        ("{clusters}/{fake}/%70roxy/reached", 404),
        ("{clusters}/{fake}/proxy%2Freached", 404),
        ("{clusters}/%6d2/proxy/reached", 400),
        ("/apis/proxy.kubectl-mc.dev/v1alpha1/%63lusters/{fake}/proxy/reached", 404),
    ] {
        target.is_refused(path, code)?;
    }
    Ok(())
}

#[test]
fn fault_25_other_forms_of_the_path_are_not_found() -> Result<()> {
    let target = Target::prepare("forms")?;
    for path in [
        "/apis/proxy.kubectl-mc.dev/v1alpha1/watch/clusters/{fake}/proxy/reached",
        "/apis/proxy.kubectl-mc.dev/v1alpha1/proxy/clusters/{fake}/reached",
        "/apis/proxy.kubectl-mc.dev/v1alpha1/namespaces/default/clusters/{fake}/proxy/reached",
        "/apis/proxy.kubectl-mc.dev/v1/clusters/{fake}/proxy/reached",
        "/api/v1/clusters/{fake}/proxy/reached",
        "{clusters}/{fake}/PROXY/reached",
        "{clusters}/{fake}/status",
    ] {
        target.is_refused(path, 404)?;
    }
    Ok(())
}

#[test]
fn fault_26_invalid_bytes_in_a_path_are_a_bad_request() -> Result<()> {
    let target = Target::prepare("letters")?;
    for path in [
        "{clusters}/{fake}\0/proxy/reached",
        "{clusters}/{fake}%00/proxy/reached",
        "{clusters}/{fake}%0d%0a/proxy/reached",
        "{clusters}/{fake}\\x/proxy/reached",
        "{clusters}/{fake}%5cx/proxy/reached",
        "{clusters}/{fake};a=b/proxy/reached",
        "{clusters}/{fake}/proxy/reached\\..",
        "{clusters}/{fake}/proxy/reached%00",
    ] {
        target.is_refused(path, 400)?;
    }
    // A line break in the member's part has no valid use either, and is never forwarded as a line
    // break.
    target.is_refused("{clusters}/{fake}/proxy/reached%0d%0aX-Evil:%201", 400)?;
    // The URL parser removes a fragment first: no part of the request depends on it.
    let answer = target.get("{clusters}/{fake}/proxy/whole#/../../reached?x")?;
    assert_eq!(answer.status(), 200);
    assert_eq!(target.fake.wait_for("/whole", |_| true)?.target(), "/whole");
    // A line break in a query may be valid for the member, which gets it unchanged.
    let answer = target.get("{clusters}/{fake}/proxy/query?command=echo%0d%0aX-Evil:%201")?;
    assert_eq!(answer.status(), 200);
    let arrived = target.fake.wait_for("/query", |_| true)?;
    assert_eq!(arrived.target(), "/query?command=echo%0d%0aX-Evil:%201");
    assert_eq!(arrived.values("x-evil"), Vec::<&str>::new());
    Ok(())
}

#[test]
fn fault_27_huge_name_or_path_is_refused_cheaply() -> Result<()> {
    let target = Target::prepare("monsters")?;
    let name = format!("{{clusters}}/{}/proxy/reached", "a".repeat(8 * 1024));
    target.is_refused(&name, 400)?;
    // Above the limit of a head: the answer is an error, or the connection closes while the head is sent.
    let path = member_path(&target.fake.name, &format!("/reached/{}", "a".repeat(1024 * 1024)));
    let mut connection = target.direct.connect()?;
    let sent = connection.send(format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes());
    if let (Ok(()), Ok(head)) = (sent, connection.head()) {
        ensure!([404, 414, 431].contains(&head.status), "answered {}", head.status);
    }
    ensure!(target.fake.requests("reached").is_empty(), "the monster arrived");
    Ok(())
}

#[test]
fn fault_28_other_forms_of_a_target_are_refused() -> Result<()> {
    let target = Target::prepare("target-forms")?;
    let path = member_path(&target.fake.name, "/reached");
    let address = target.fake.address;
    for (line, code) in [
        (format!("GET https://{address}{path} HTTP/1.1"), 400),
        (format!("GET http://sidecar{path} HTTP/1.1"), 400),
        ("OPTIONS * HTTP/1.1".to_owned(), 404),
        (format!("CONNECT {path} HTTP/1.1"), 405),
        (format!("CONNECT {address} HTTP/1.1"), 405),
        (format!("TRACE {path} HTTP/1.1"), 405),
        (format!("get {path} HTTP/1.1"), 405),
    ] {
        let answer =
            target.direct.exchange(format!("{line}\r\nHost: x\r\nConnection: close\r\n\r\n").as_bytes());
        let answer = answer.with_context(|| line.clone())?;
        // hyper itself answers a request that it cannot parse with 400.
        ensure!([code, 400].contains(&answer.status()), "{line}: {}: {}", answer.status(), answer.text());
    }
    ensure!(target.fake.requests("reached").is_empty(), "something arrived");
    Ok(())
}

#[test]
fn fault_30_members_rbac_decides_about_node_proxies() -> Result<()> {
    let scene = Scene::on("m2", "nodes")?;
    let caller = Caller::certificate("e2e-nodes", &[])?;
    scene.let_in(&caller, &["m2"], EVERY_VERB)?;
    let direct = Endpoint::sidecar(sidecar()?, caller.certificate.as_deref())?;
    let ask = || get(&direct, &member_path("m2", "/api/v1/nodes/nowhere/proxy/metrics?x=1"));
    let answer = ask()?;
    assert_eq!(answer.status(), 403, "{}", answer.text());
    ensure!(answer.text().contains("e2e-nodes") && answer.text().contains("nodes"), "{}", answer.text());
    let rule = json!({"apiGroups": [""], "resources": ["nodes/proxy", "nodes/metrics"], "verbs": ["get"]});
    let attributes = json!({"resource": "nodes", "subresource": "proxy", "verb": "get", "name": "nowhere"});
    grant(&scene.api, "e2e-nodes", &caller, &rule, &attributes)?;
    let answer = ask()?;
    // The node does not exist, and the member reports that.
    ensure!(![401, 403].contains(&answer.status()), "{}: {}", answer.status(), answer.text());
    Ok(())
}

#[test]
fn fault_31_unusual_query_arrives_unchanged() -> Result<()> {
    let target = Target::prepare("queries")?;
    let many: Vec<String> = (0..10_000).map(|number| format!("k{number}=")).collect();
    for (number, query) in
        ["timeout=", "watch=1&watch=1", "watch=0&watch=true", &many.join("&")].into_iter().enumerate()
    {
        let path = format!("/api/v1/query-{number}?{query}");
        let answer = get(&target.direct, &member_path(&target.fake.name, &path))?;
        if query.len() > LARGEST_TARGET {
            ensure!([400, 414, 431].contains(&answer.status()), "answered {}", answer.status());
            continue;
        }
        ensure!(answer.status() == 200, "{query:.60}: {}", answer.text());
        let arrived = target.fake.wait_for(&format!("query-{number}"), |_| true)?;
        ensure!(arrived.target() == path, "{query:.60} arrived as {:.60}", arrived.target());
    }
    Ok(())
}

/// hyper's limit: the http crate's `Uri` is at most 65,534 bytes.
const LARGEST_TARGET: usize = 65_000;

/// A member that must not be reached, and the sidecar's own port as an administrator.
struct Target {
    fake: FakeMember,
    direct: Endpoint,
}

impl Target {
    fn prepare(name: &str) -> Result<Self> {
        let fake = FakeMember::start(&format!("e2e-target-{name}"), |_| ok())?;
        let admin = Caller::certificate(&format!("e2e-target-{name}"), &["system:masters"])?;
        Ok(Self { fake, direct: Endpoint::sidecar(sidecar()?, admin.certificate.as_deref())? })
    }

    fn get(&self, path: &str) -> Result<Response> {
        let path = path
            .replace("{clusters}", "/apis/proxy.kubectl-mc.dev/v1alpha1/clusters")
            .replace("{fake}", &self.fake.name);
        get(&self.direct, &path)
    }

    fn is_refused(&self, path: &str, code: u16) -> Result<()> {
        let answer = self.get(path).with_context(|| format!("{path:.80}"))?;
        ensure!(answer.status() == code, "{path:.80}: {}: {:.200}", answer.status(), answer.text());
        ensure!(self.fake.requests("reached").is_empty(), "{path:.80} reached the member");
        Ok(())
    }
}

fn get(endpoint: &Endpoint, path: &str) -> Result<Response> {
    endpoint.exchange(format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").as_bytes())
}
