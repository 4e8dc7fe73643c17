//! A request reaches the member that its path names, and no other server.

use anyhow::{Context, Result, ensure};
use harness::bed::{bed, sidecar};
use harness::caller::Caller;
use harness::connect_proxy::ConnectProxy;
use harness::fake_member::{FakeMember, Step, ok, reply};
use harness::http1::{Endpoint, Response, member_path};
use harness::registration::register;
use harness::scene::{EVERY_VERB, Scene};
use harness::wait::{SOON, eventually};
use serde_json::json;

#[test]
fn fault_48_cve_2018_1002102_cve_2022_3172_redirect_is_an_error() -> Result<()> {
    let elsewhere = FakeMember::unregistered("e2e-elsewhere", |_| ok())?;
    let location = format!("https://{}/stolen", elsewhere.address);
    let fake = FakeMember::start("e2e-redirect", {
        let location = location.clone();
        move |_| reply("302 Found", &format!("Location: {location}\r\n"), "")
    })?;
    for endpoint in both_entrances("redirect")? {
        let answer = get(&endpoint, &member_path(&fake.name, "/api"))?;
        assert_eq!(answer.status(), 502, "{}", answer.text());
        assert!(answer.head.value("location").is_none(), "{:?}", answer.head);
        assert!(!answer.text().contains(&location), "{}", answer.text());
    }
    assert_eq!(elsewhere.requests("/").len(), 0);
    Ok(())
}

#[test]
fn proxy_loop_to_the_host_is_detected() -> Result<()> {
    // The host is also registered as a member of itself, at the path of that member.
    let host = &bed()?.host;
    let us = host.client_certificate("e2e-circle-us", &["system:masters"])?;
    register(
        "e2e-circle",
        &json!({
            "server": format!("{}{}", host.server, member_path("e2e-circle", "")),
            "ca.crt": std::fs::read_to_string(&host.ca_certificate)?,
            "tls.crt": us.certificate,
            "tls.key": us.key,
        }),
    )?;
    let caller = Caller::certificate("e2e-circle-user", &[])?;
    Scene::on("m2", "circle")?.let_in(&caller, &["e2e-circle"], EVERY_VERB)?;
    let direct = Endpoint::sidecar(sidecar()?, caller.certificate.as_deref())?;
    let path = member_path("e2e-circle", "/api/v1/pods");
    let answer = eventually("the member is known", SOON, || {
        Ok(Some(get(&direct, &path)?).filter(|answer| answer.status() != 404))
    })?;
    ensure!(answer.status() == 400, "{} {}", answer.status(), answer.text());
    ensure!(answer.text().contains("a member's address leads back here"), "{}", answer.text());
    Ok(())
}

#[test]
fn member_sees_only_the_sidecars_via_header() -> Result<()> {
    let fake = FakeMember::start("e2e-via", |_| ok())?;
    for endpoint in both_entrances("via")? {
        let path = member_path(&fake.name, "/via");
        endpoint.exchange(format!("GET {path} HTTP/1.1\r\nHost: x\r\nVia: 1.1 secret\r\n\r\n").as_bytes())?;
    }
    // The host's proxy uses HTTP/2 to the sidecar.
    let via: Vec<_> = fake.requests("/via").iter().map(|request| request.values("via").join("|")).collect();
    ensure!(via == ["1.1 kubectl-mc", "2.0 kubectl-mc"], "{via:?}");
    Ok(())
}

#[test]
fn kubernetes_112526_not_modified_is_not_a_redirect() -> Result<()> {
    let fake = FakeMember::start("e2e-not-modified", |_| {
        vec![Step::Send(b"HTTP/1.1 304 Not Modified\r\nETag: \"x\"\r\n\r\n".to_vec())]
    })?;
    for endpoint in both_entrances("not-modified")? {
        let answer = get(&endpoint, &member_path(&fake.name, "/openapi/v3"))?;
        assert_eq!((answer.status(), answer.head.value("etag")), (304, Some("\"x\"")));
    }
    Ok(())
}

#[test]
fn clusternet_url_in_the_path_is_only_a_path() -> Result<()> {
    let (fake, other, direct) = two_members("url-in-path")?;
    let address = other.address;
    for target in [
        format!("/http/{address}/inside"),
        format!("//{address}/inside"),
        format!("/@{address}/inside"),
        format!("/https:/{address}/inside"),
        "/inside?url=http://169.254.169.254/latest".to_owned(),
    ] {
        let answer = get(&direct, &member_path(&fake.name, &target))?;
        assert_eq!(answer.status(), 200, "{target}");
        let arrived = fake.requests("inside").pop().context("nothing arrived")?;
        assert_eq!(arrived.target(), target);
        assert_eq!(arrived.values("host"), [fake.address.to_string()]);
    }
    assert_eq!(other.requests("inside").len(), 0);
    Ok(())
}

#[test]
fn rancher_ghsa_mjcp_rj3c_36fr_proxy_sees_no_identity() -> Result<()> {
    let proxy = ConnectProxy::start()?;
    let fake = FakeMember::unregistered("e2e-egress", |_| ok())?;
    fake.register(&serde_json::json!({"proxy-url": format!("http://user:word@{}", proxy.address)}))?;
    fake.wait_until_reachable()?;
    let direct = both_entrances("egress")?.remove(0);
    assert_eq!(get(&direct, &member_path(&fake.name, "/through"))?.status(), 200);
    let heads = proxy.heads();
    ensure!(!heads.is_empty(), "the proxy was not used");
    assert!(proxy.asked().iter().all(|asked| *asked == fake.address.to_string()), "{:?}", proxy.asked());
    for head in heads {
        let head = head.to_lowercase();
        ensure!(head.contains("proxy-authorization: basic dxnlcjp3b3jk"), "{head}");
        for word in ["impersonate", "e2e-egress-admin", "\nauthorization", &fake.token] {
            ensure!(!head.contains(word), "{word}: {head}");
        }
    }
    Ok(())
}

#[test]
fn host_header_does_not_choose_the_member() -> Result<()> {
    let (fake, other, direct) = two_members("host-header")?;
    for authority in [other.address.to_string(), other.name.clone(), "kubernetes.default".to_owned()] {
        let path = member_path(&fake.name, "/here");
        let request = format!("GET {path} HTTP/1.1\r\nHost: {authority}\r\n\r\n");
        assert_eq!(direct.exchange(request.as_bytes())?.status(), 200);
    }
    assert_eq!(fake.requests("/here").len(), 3);
    assert_eq!(other.requests("/here").len(), 0);
    for request in fake.requests("/here") {
        assert_eq!(request.values("host"), [fake.address.to_string()], "{}", request.head);
    }
    Ok(())
}

#[test]
fn fault_28_absolute_target_does_not_choose_the_member() -> Result<()> {
    let (fake, other, direct) = two_members("absolute")?;
    let path = member_path(&fake.name, "/absolute");
    let request = format!("GET https://{}{path} HTTP/1.1\r\nHost: x\r\n\r\n", other.address);
    assert_eq!(direct.exchange(request.as_bytes())?.status(), 400);
    assert_eq!(other.requests("/absolute").len(), 0);
    assert_eq!(fake.requests("/absolute").len(), 0);
    Ok(())
}

#[test]
fn fault_21_23_dots_and_encoded_slashes_reach_no_other_cluster() -> Result<()> {
    let (fake, other, direct) = two_members("dots")?;
    let host = both_entrances("dots-host")?.pop().context("no entrance")?;
    let clusters = "/apis/proxy.kubectl-mc.dev/v1alpha1/clusters";
    let (one, two) = (&fake.name, &other.name);
    for path in [
        format!("{clusters}/{one}/../{two}/proxy/reached"),
        format!("{clusters}/{one}/%2e%2e/{two}/proxy/reached"),
        format!("{clusters}/{one}/.%2E/{two}/proxy/reached"),
        format!("{clusters}/{one}/proxy/../../{two}/proxy/reached"),
        format!("{clusters}/{one}/proxy/%2e%2e/%2e%2e/{two}/proxy/reached"),
        format!("{clusters}/{one}/proxy/api/..%2f..%2f..%2f{two}/proxy/reached"),
        format!("{clusters}/{one}%2fproxy%2freached/../../{two}/proxy/reached"),
        format!("{clusters}/{one}%2f..%2f{two}/proxy/reached"),
        format!("{clusters}/{one}%00/proxy/reached"),
        format!("{clusters}/{one}\\..\\{two}/proxy/reached"),
        format!("{clusters}//{one}/proxy/reached"),
        format!("{clusters}/{one}//proxy/reached"),
        format!("{clusters}/./{one}/proxy/reached"),
        format!("{clusters}/%2e/{one}/proxy/reached"),
        format!("//apis/proxy.kubectl-mc.dev/v1alpha1/clusters/{one}/proxy/reached"),
    ] {
        let answer = get(&direct, &path)?;
        ensure!((400..500).contains(&answer.status()), "{path}: {}: {}", answer.status(), answer.text());
        // The host may normalize a path by itself; in any case no dots arrive.
        let _ = get(&host, &path);
    }
    for request in fake.requests("reached").iter().chain(&other.requests("reached")) {
        let target = request.target().to_lowercase();
        ensure!(!target.contains("..") && !target.contains("%2e"), "{target}");
    }
    Ok(())
}

#[test]
fn fault_28_32_ambiguous_requests_are_refused() -> Result<()> {
    let (fake, _, direct) = two_members("ambiguous")?;
    let path = member_path(&fake.name, "/ambiguous");
    all_refused(
        &direct,
        &[
            format!("GET {path} HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n"),
            format!("get {path} HTTP/1.1\r\nHost: x\r\n\r\n"),
            format!("GET {path}\\x HTTP/1.1\r\nHost: x\r\n\r\n"),
            format!("CONNECT {path} HTTP/1.1\r\nHost: x\r\n\r\n"),
            format!("CONNECT {} HTTP/1.1\r\nHost: x\r\n\r\n", fake.address),
            format!("TRACE {path} HTTP/1.1\r\nHost: x\r\n\r\n"),
            format!("GET {path} HTTP/1.1\r\nHost: x\r\nX-Folded: a\r\n b\r\n\r\n"),
            format!("GET {path} HTTP/1.1\r\nHost: x\r\nX-Space : a\r\n\r\n"),
            "OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n".to_owned(),
        ],
    )?;
    assert_eq!(fake.requests("/ambiguous").len(), 0);
    Ok(())
}

#[test]
fn fault_32_requests_that_http_forbids_are_refused() -> Result<()> {
    let (fake, _, direct) = two_members("forbidden")?;
    let path = member_path(&fake.name, "/forbidden");
    all_refused(
        &direct,
        &[format!("GET {path} HTTP/1.1\r\n\r\n"), format!("GET {path}/é HTTP/1.1\r\nHost: x\r\n\r\n")],
    )?;
    assert_eq!(fake.requests("/forbidden").len(), 0);
    Ok(())
}

#[test]
fn fault_26_31_path_and_query_reach_the_member_unchanged() -> Result<()> {
    let (fake, _, direct) = two_members("verbatim")?;
    for target in [
        "/verbatim?command=sh&command=-c&command=echo%20a%2Fb&stdin=true",
        "/verbatim/a%2Fb/c%20d?x=%2f&y=;z&y",
        "/verbatim//double/",
        "/verbatim/?",
        "/verbatim/%C3%A9?q=%zz",
    ] {
        let answer = get(&direct, &member_path(&fake.name, target))?;
        assert_eq!(answer.status(), 200, "{target}: {}", answer.text());
        let requests = fake.requests("/verbatim");
        assert_eq!(requests.last().context("nothing arrived")?.target(), target);
    }
    Ok(())
}

#[test]
fn base_path_of_the_secret_is_prefixed() -> Result<()> {
    let fake = FakeMember::unregistered("e2e-base-path", |_| ok())?;
    let server = format!("https://{}/k8s/clusters/c-1", fake.address);
    fake.register(&serde_json::json!({"server": server}))?;
    let direct = both_entrances("base-path")?.remove(0);
    harness::wait::eventually("it is reachable", harness::wait::SOON, || {
        Ok((get(&direct, &member_path(&fake.name, "/api/v1"))?.status() == 200).then_some(()))
    })?;
    assert_eq!(fake.requests("/api/v1")[0].target(), "/k8s/clusters/c-1/api/v1");
    Ok(())
}

#[test]
fn member_with_a_wrong_certificate_gets_no_request() -> Result<()> {
    let other = FakeMember::unregistered("e2e-other-ca", |_| ok())?;
    let fake = FakeMember::unregistered("e2e-wrong-ca", |_| ok())?;
    fake.register(&serde_json::json!({"ca.crt": other.ca()}))?;
    let direct = both_entrances("wrong-ca")?.remove(0);
    let path = member_path(&fake.name, "/secret");
    let answer = harness::wait::eventually("the sidecar knows the member", harness::wait::SOON, || {
        let answer = get(&direct, &path)?;
        Ok((answer.status() != 404).then_some(answer))
    })?;
    assert_eq!(answer.status(), 503, "{}", answer.text());
    assert!(answer.text().contains("member unreachable"), "{}", answer.text());
    assert_eq!(fake.requests("/").len(), 0);
    Ok(())
}

fn all_refused(endpoint: &Endpoint, requests: &[String]) -> Result<()> {
    let mut accepted = Vec::new();
    for request in requests {
        let mut connection = endpoint.connect()?;
        connection.send(request.as_bytes())?;
        let status = connection.head().with_context(|| request.clone())?.status;
        if !(400..500).contains(&status) {
            accepted.push((status, request));
        }
    }
    ensure!(accepted.is_empty(), "{accepted:?}");
    Ok(())
}

/// Two members, and the sidecar's own port as an administrator.
fn two_members(name: &str) -> Result<(FakeMember, FakeMember, Endpoint)> {
    let script = |_: &harness::fake_member::Request| -> Vec<Step> { ok() };
    let fake = FakeMember::start(&format!("e2e-{name}-one"), script)?;
    let other = FakeMember::start(&format!("e2e-{name}-two"), script)?;
    Ok((fake, other, both_entrances(name)?.remove(0)))
}

/// The sidecar's own port and the host's, as an administrator.
fn both_entrances(name: &str) -> Result<Vec<Endpoint>> {
    let admin = Caller::certificate(&format!("e2e-{name}-admin"), &["system:masters"])?;
    let certificate = admin.certificate.as_deref();
    Ok(vec![Endpoint::sidecar(sidecar()?, certificate)?, Endpoint::cluster(&bed()?.host, certificate)?])
}

fn get(endpoint: &Endpoint, path: &str) -> Result<Response> {
    endpoint.exchange(format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").as_bytes())
}
