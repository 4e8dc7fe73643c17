//! Audit events that need a real member or a real host equal their snapshots, field by field. The
//! snapshots for allowed, denied and unauthenticated requests are in the sidecar's own tests.
//! Upstream's types can read all of them.

use anyhow::{Context, Result, ensure};
use harness::bed::host;
use harness::caller::Caller;
use harness::fake_member::{FakeMember, Request, Step, ok, reply};
use harness::http1::member_path;
use harness::scene;
use insta::assert_snapshot;
use serde_json::{Value, json};

use super::audit::Audited;

#[test]
fn impersonated_request_has_a_golden_event() -> Result<()> {
    let site = Site::new("e2e-golden-as", |_| ok())?;
    let headers = "Impersonate-User: e2e-golden-as-carol\r\nImpersonate-Group: e2e-golden-as-group\r\nImpersonate-Uid: 42\r\n\
                   Impersonate-Extra-Scopes: some\r\n";
    let carol = Caller::certificate("e2e-golden-as-carol", &[])?;
    scene::grant(&host()?, "e2e-golden-as", &carol, &site.rule(), &site.attributes())?;
    let event = site.event("/api/v1/namespaces/x/pods/a", headers, 200)?;
    assert_snapshot!("impersonated", event);
    site.audited.check()
}

#[test]
fn failed_upgrade_has_a_golden_event() -> Result<()> {
    let site = Site::new("e2e-golden-upgrade", |_| {
        reply("404 Not Found", "Content-Type: application/json\r\n", r#"{"kind":"Status","code":404}"#)
    })?;
    let path = "/api/v1/namespaces/x/pods/a/exec?command=sh&stdin=true";
    let event = site.event(path, WEB_SOCKET, 404)?;
    assert_snapshot!("failed_upgrade", event);
    site.audited.check()
}

#[test]
fn request_that_is_cut_off_has_golden_events() -> Result<()> {
    let head =
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n";
    let site = Site::new("e2e-golden-cut", move |_| vec![Step::Send(head.into()), Step::Hang])?;
    let mut connection = site.audited.own.endpoint(site.admin()?.certificate.as_deref())?.connect()?;
    let path = member_path(&site.fake.name, "/api/v1/pods?watch=true");
    connection.send(format!("GET {path} HTTP/1.1\r\nHost: x\r\nUser-Agent: golden\r\n\r\n").as_bytes())?;
    let begun = site.audited.event(|event| event["stage"] == "ResponseStarted")?;
    assert_snapshot!("cut_off_started", golden(begun)?);
    host()?.delete(&format!("/apis/fleet.kubectl-mc.dev/v1alpha1/memberclusters/{}", site.fake.name))?;
    let is_ended = |event: &Value| event["stage"] == "ResponseComplete" && event["verb"] == "watch";
    assert_snapshot!("cut_off", golden(site.audited.event(is_ended)?)?);
    site.audited.check()
}

/// A sidecar with an audit log, and a member with scripted answers.
struct Site {
    audited: Audited,
    fake: FakeMember,
}

impl Site {
    fn new(name: &str, script: impl Fn(&Request) -> Vec<Step> + Send + Sync + 'static) -> Result<Self> {
        Ok(Self { fake: FakeMember::start(name, script)?, audited: Audited::start("")? })
    }

    /// A caller whom the host authorizes for everything.
    fn admin(&self) -> Result<Caller> {
        Caller::certificate(&format!("{}-admin", self.fake.name), &["system:masters"])
    }

    fn rule(&self) -> Value {
        json!({
            "apiGroups": ["proxy.kubectl-mc.dev"], "resources": ["clusters/proxy"], "verbs": ["get"],
            "resourceNames": [self.fake.name],
        })
    }

    fn attributes(&self) -> Value {
        json!({
            "group": "proxy.kubectl-mc.dev", "resource": "clusters", "subresource": "proxy", "verb": "get",
            "name": self.fake.name,
        })
    }

    /// The last event of a request. Its answer must have this code.
    fn event(&self, path: &str, headers: &str, code: u16) -> Result<String> {
        let endpoint = self.audited.own.endpoint(self.admin()?.certificate.as_deref())?;
        let path = member_path(&self.fake.name, path);
        let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nUser-Agent: golden\r\n{headers}\r\n");
        let answer = endpoint.exchange(request.as_bytes())?;
        ensure!(answer.status() == code, "{}", answer.text());
        golden(
            self.audited.event(|event| {
                event["stage"] == "ResponseComplete" && event["requestURI"] == path.as_str()
            })?,
        )
    }
}

/// An event without the fields that differ from run to run.
fn golden(mut event: Value) -> Result<String> {
    for (field, name) in
        [("/auditID", "ID"), ("/requestReceivedTimestamp", "TIME"), ("/stageTimestamp", "TIME")]
    {
        let value = event.pointer_mut(field).with_context(|| format!("no {field}"))?;
        ensure!(value.as_str().is_some_and(|text| !text.is_empty()), "{field} is empty");
        *value = name.into();
    }
    let addresses = event["sourceIPs"].as_array_mut().context("no sourceIPs")?;
    addresses.iter_mut().for_each(|address| *address = "IP".into());
    for who in ["user", "impersonatedUser"] {
        let extra = event.pointer_mut(&format!("/{who}/extra"));
        if let Some(extra) = extra.and_then(Value::as_object_mut) {
            extra.entry("authentication.kubernetes.io/credential-id").and_modify(|id| *id = json!(["ID"]));
        }
    }
    let annotations = event["annotations"].as_object_mut().context("no annotations")?;
    for measured in ["duration-seconds", "replica"] {
        annotations
            .entry(format!("kubectl-mc.dev/{measured}"))
            .and_modify(|value| *value = "MEASURED".into());
    }
    Ok(serde_json::to_string_pretty(&event)?)
}

const WEB_SOCKET: &str = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
                          Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: v5.channel.k8s.io\r\n";
