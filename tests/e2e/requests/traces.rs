//! One trace shows the host's kube-apiserver, the sidecar and the member's kube-apiserver, as each of them
//! exports it to the OpenTelemetry Collector's receiver.

use std::net::TcpListener;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use harness::api::Api;
use harness::bed::{bed, member, sidecar};
use harness::caller::Caller;
use harness::collector::{Collector, Span};
use harness::fake_member::{FakeMember, reply};
use harness::http1::{Endpoint, member_path};
use harness::own_sidecar::{Difference, OwnSidecar};
use harness::registration;
use harness::scene::Scene;
use harness::wait::{SOON, eventually};
use serde_json::json;

#[test]
fn trace_shows_host_sidecar_and_member() -> Result<()> {
    let collector = Collector::start()?;
    let scene = Scene::new("traces")?;
    scene.pod("talker", "sleep 1000")?;
    trusting_member()?;
    // The user is in a group that may decide about sampling at a kube-apiserver.
    let admin = Caller::certificate("e2e-traces-admin", &["system:masters"])?;
    let ordinary = scene.caller()?;

    let pods = format!("/api/v1/namespaces/{}/pods", scene.name);
    let host = Endpoint::cluster(&bed()?.host, admin.certificate.as_deref())?;
    let get = |headers: &str| {
        let path = member_path(MEMBER, &pods);
        let answer = host.exchange(format!("GET {path} HTTP/1.1\r\nHost: x\r\n{headers}\r\n").as_bytes())?;
        ensure!(answer.status() == 200, "no list: {}", answer.status());
        Ok(Some(()))
    };
    eventually("the sidecar knows the member", SOON, || get(""))?;
    get(&format!("traceparent: {}\r\n", parent(GET)))?;

    let exec = member_path(MEMBER, &format!("{pods}/talker/exec?command=echo&command=hello&stdout=true"));
    let mut connection = host.connect()?;
    connection.send(upgrade(&exec, &parent(EXEC)).as_bytes())?;
    ensure!(connection.head()?.status == 101, "no upgrade");
    connection.exactly(b"hello".len())?;
    drop(connection);

    // An ordinary caller does not decide about sampling: the request starts a new trace, which the
    // rate of 0 does not sample.
    let direct = Endpoint::sidecar(sidecar()?, ordinary.certificate.as_deref())?;
    let list = member_path(&scene.member, &format!("{pods}?limit=500"));
    let request = format!("GET {list} HTTP/1.1\r\nHost: x\r\ntraceparent: {}\r\n\r\n", parent(ORDINARY));
    ensure!(direct.exchange(request.as_bytes())?.status() == 200, "no list");

    let path = eventually("a trace of the get", SOON, || {
        let spans = collector.spans(GET);
        // Below the host's span are the spans of its filters, and below these its request to the sidecar.
        let host = child(&spans, PARENT, "apiserver")?;
        let is_server = |span: &&Span| span.service == "mc-sidecar" && span.value["kind"] == SERVER;
        let at_sidecar = spans.iter().find(is_server).context("no span of the sidecar")?;
        is_below(&spans, at_sidecar, host.id())?;
        Ok(Some(below(&spans, at_sidecar.parent())?))
    })?;
    let [at_sidecar, to_member, at_member] = &path;
    let id = at_sidecar.attribute("audit-id");
    ensure!(id.is_some() && at_member.attribute("audit-id") == id, "{at_sidecar:?} {at_member:?}");
    for (key, value) in [
        ("http.request.method", "GET"),
        ("http.response.status_code", "200"),
        ("kubectl-mc.dev/cluster", MEMBER),
    ] {
        ensure!(at_sidecar.attribute(key).as_deref() == Some(value), "{at_sidecar:?}");
        ensure!(to_member.attribute(key).as_deref() == Some(value), "{to_member:?}");
    }

    let path = eventually("a trace of the exec", SOON, || {
        let spans = collector.spans(EXEC);
        // The host forwards the headers of an upgrade unchanged.
        child(&spans, PARENT, "apiserver")?;
        Ok(Some(below(&spans, PARENT)?))
    })?;
    let [at_sidecar, ..] = &path;
    ensure!(at_sidecar.attribute("kubectl-mc.dev/upgrade").as_deref() == Some("websocket"), "{at_sidecar:?}");
    let bytes = at_sidecar.attribute("kubectl-mc.dev/bytes-to-caller");
    ensure!(bytes.and_then(|count| count.parse().ok()) > Some(0_u64), "{at_sidecar:?}");

    ensure!(collector.spans(ORDINARY).is_empty(), "{:?}", collector.spans(ORDINARY));
    for span in [collector.spans(GET), collector.spans(EXEC)].concat() {
        let is_ours = span.service != "apiserver";
        ensure!(!is_ours || !span.value.to_string().contains("hello"), "a query: {span:?}");
    }
    Ok(())
}

#[test]
fn silent_collector_delays_neither_requests_nor_the_end() -> Result<()> {
    let silent = TcpListener::bind("127.0.0.1:0")?;
    let mut own = traced(&silent.local_addr()?.to_string())?;
    let scene = Scene::new("traces-silent")?;
    let direct = own.endpoint(scene.caller()?.certificate.as_deref())?;
    let path = member_path(&scene.member, &format!("/api/v1/namespaces/{}/pods", scene.name));
    let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n");
    // The first export begins after 5 s, with 512 spans at once.
    let mut connection = direct.connect()?;
    for _ in 0..300 {
        let begun = Instant::now();
        connection.send(request.as_bytes())?;
        ensure!(connection.response()?.status() == 200, "no list");
        ensure!(begun.elapsed() < EXPORT_TIMEOUT / 2, "a request waited {:?}", begun.elapsed());
    }
    ensure!(own.metric("mc_sidecar_spans_exported_total")? == 0.0, "the collector did not answer");
    let begun = Instant::now();
    own.terminate()?;
    own.ended()?;
    ensure!(begun.elapsed() < Duration::from_secs(6), "the end waited {:?}", begun.elapsed());
    ensure!(own.log()?.contains("spans were not exported before the shutdown"), "{}", own.log()?);
    Ok(())
}

#[test]
fn span_to_a_member_that_refuses_the_token_has_its_status() -> Result<()> {
    let collector = Collector::start()?;
    let mut own = traced(collector.address())?;
    let fake = FakeMember::start("e2e-traces-401", |_| reply("401 Unauthorized", "", "{}"))?;
    let admin = Caller::certificate("e2e-traces-refused", &["system:masters"])?;
    let path = member_path(&fake.name, "/api/v1/pods");
    let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\ntraceparent: {}\r\n\r\n", parent(REFUSED));
    let endpoint = own.endpoint(admin.certificate.as_deref())?;
    eventually("the sidecar knows the member", SOON, || {
        Ok((endpoint.exchange(request.as_bytes())?.status() == 503).then_some(()))
    })?;
    // When the sidecar ends, it exports the queue.
    own.terminate()?;
    own.ended()?;
    eventually("the span of the exchange", SOON, || {
        let spans = collector.spans(REFUSED);
        let to_member = spans.iter().find(|span| span.value["name"] == "HTTP GET").context("no span")?;
        ensure!(to_member.attribute("http.response.status_code").as_deref() == Some("401"), "{to_member:?}");
        Ok(Some(()))
    })
}

/// A sidecar that samples every request.
fn traced(endpoint: &str) -> Result<OwnSidecar> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("tracing.yaml");
    let (api, kind) = ("apiserver.config.k8s.io/v1", "TracingConfiguration");
    let text =
        json!({"apiVersion": api, "kind": kind, "endpoint": endpoint, "samplingRatePerMillion": 1_000_000});
    std::fs::write(&file, text.to_string())?;
    let flag = format!("--tracing-config-file={}", file.display());
    OwnSidecar::with(&Difference { flags: &[&flag], ..Difference::default() })
}

/// The spans of the sidecar and the member below a span.
fn below(spans: &[Span], parent: &str) -> Result<[Span; 3]> {
    let at_sidecar = child(spans, parent, "mc-sidecar")?;
    let to_member = child(spans, at_sidecar.id(), "mc-sidecar")?;
    let at_member = child(spans, to_member.id(), "apiserver")?;
    Ok([at_sidecar, to_member, at_member])
}

fn is_below(spans: &[Span], span: &Span, ancestor: &str) -> Result<()> {
    let mut parent = span.parent();
    while parent != ancestor {
        let span = spans.iter().find(|span| span.id() == parent && span.service == "apiserver");
        parent = span.with_context(|| format!("no span of the host {parent}: {spans:#?}"))?.parent();
    }
    Ok(())
}

fn child(spans: &[Span], parent: &str, service: &str) -> Result<Span> {
    let found = spans.iter().find(|span| span.parent() == parent && span.service == service);
    found.cloned().with_context(|| format!("no span of {service} below {parent}: {spans:#?}"))
}

/// A member whose kube-apiserver lets the sidecar decide about sampling: the group needs a client certificate.
fn trusting_member() -> Result<()> {
    let (cluster, user) = (member("m1")?, "e2e-traces-sidecar");
    let certificate = cluster.client_certificate(user, &["system:monitoring"])?;
    let rbac = "rbac.authorization.k8s.io";
    Api::admin(cluster)?.apply(
        &format!("/apis/{rbac}/v1/clusterrolebindings/{user}"),
        &json!({
            "apiVersion": format!("{rbac}/v1"), "kind": "ClusterRoleBinding", "metadata": {"name": user},
            "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": "kubectl-mc-impersonator"},
            "subjects": [{"apiGroup": rbac, "kind": "User", "name": user}],
        }),
    )?;
    let ca = std::fs::read_to_string(&cluster.ca_certificate)?;
    registration::register(
        MEMBER,
        &json!({
            "server": cluster.server, "ca.crt": ca,
            "tls.crt": certificate.certificate, "tls.key": certificate.key,
        }),
    )
}

fn upgrade(path: &str, traceparent: &str) -> String {
    format!(
        "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
         Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: v5.channel.k8s.io\r\n\
         traceparent: {traceparent}\r\n\r\n"
    )
}

/// A span that is not exported, in a trace that is sampled.
fn parent(trace: &str) -> String {
    format!("00-{trace}-{PARENT}-01")
}

/// The timeout of an export: a request that waits for one takes as long.
const EXPORT_TIMEOUT: Duration = Duration::from_secs(10);
/// `SPAN_KIND_SERVER`.
const SERVER: u8 = 2;
const MEMBER: &str = "e2e-traces-member";
const GET: &str = "e2e00000000000000000000000000001";
const EXEC: &str = "e2e00000000000000000000000000002";
const REFUSED: &str = "e2e000000000000000000000000000fe";
const ORDINARY: &str = "e2e00000000000000000000000000003";
const PARENT: &str = "00000000000000e2";
