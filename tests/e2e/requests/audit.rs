//! Audit events of real requests contain the caller, the member's object and the outcome, but no
//! credential. Upstream's own types can read them.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use anyhow::{Context, Error, Result, ensure};
use harness::audit::AuditLog;
use harness::bed::{SYSTEM, host, member};
use harness::caller::Caller;
use harness::fake_member::{FakeMember, Gate, Step, ok};
use harness::http1::{SIDECAR_NAME, member_path};
use harness::own_agent::{self, OwnAgent};
use harness::own_sidecar::{Difference, OwnSidecar};
use harness::scene::{self, EVERY_VERB, Scene};
use harness::tool::Tool;
use harness::wait::{SOON, eventually};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::plugin;

#[test]
fn audit_events_name_caller_object_and_outcome() -> Result<()> {
    let audited = Audited::start("")?;
    let scene = Scene::new("audit-events")?;
    scene.pod("talker", "sleep 1000")?;
    let caller = scene.caller()?;
    let kubectl = audited.kubectl(&scene, caller)?;

    let members = AuditLog::from_now(member(&scene.member)?)?;
    kubectl.ok(&["get", "pods"])?;
    let list = audited.event(|event| event["verb"] == "list" && event["stage"] == "ResponseComplete")?;
    ensure!(list["user"]["username"] == "e2e-audit-events-user", "{list}");
    ensure!(
        list["objectRef"]["resource"] == "pods" && list["objectRef"]["namespace"] == *scene.name,
        "{list}"
    );
    ensure!(list["responseStatus"]["code"] == 200, "{list}");
    let annotations = &list["annotations"];
    ensure!(annotations["authorization.k8s.io/decision"] == "allow", "{list}");
    let reason = annotations["authorization.k8s.io/reason"].as_str().unwrap_or_default();
    ensure!(reason.starts_with("RBAC: allowed by ClusterRoleBinding"), "{list}");
    ensure!(annotations["kubectl-mc.dev/cluster"] == *scene.member, "{list}");
    // The member's audit log has the same request under the same ID.
    let uri = format!("/api/v1/namespaces/{}/pods?limit=500", scene.name);
    let at_member = members.request(&uri)?;
    ensure!(at_member["auditID"] == list["auditID"], "{at_member}");

    kubectl.ok(&["exec", "talker", "--", "echo", "hello"])?;
    let exec = |event: &Value| event["objectRef"]["subresource"] == "exec";
    let begun = audited.event(|event| exec(event) && event["stage"] == "ResponseStarted")?;
    ensure!(begun["responseStatus"]["code"] == 101 && begun["objectRef"]["name"] == "talker", "{begun}");
    let ended = audited.event(|event| exec(event) && event["stage"] == "ResponseComplete")?;
    ensure!(ended["annotations"]["kubectl-mc.dev/end"] == "ended", "{ended}");
    let bytes = |name: &str| ended["annotations"][name].as_str().and_then(|count| count.parse::<u64>().ok());
    ensure!(bytes("kubectl-mc.dev/bytes-to-caller") > Some(0), "{ended}");
    ensure!(ended["requestURI"].as_str().is_some_and(|uri| uri.contains("command=hello")), "{ended}");
    let id = ended["auditID"].as_str().context("no id")?;
    let file = format!("--file={}", audited.folder.path().join("audit.log").display());
    let shown = plugin(&Caller::certificate("e2e-audit-events-reader", &[])?)?.ok(&["audit", id, &file])?;
    let what = format!("what       get pods/exec talker in namespace {}\n", scene.name);
    ensure!(shown.contains(&what) && shown.contains("\nend        ended\n"), "{shown}");
    audited.check()
}

#[test]
fn audit_events_name_login_and_impersonated_user() -> Result<()> {
    let audited = Audited::start("")?;
    let scene = Scene::new("audit-as")?;
    let caller = scene.caller()?;
    let rule = json!({"apiGroups": [""], "resources": ["users"], "verbs": ["impersonate"], "resourceNames": ["carol"]});
    let attributes = json!({"resource": "users", "name": "carol", "verb": "impersonate"});
    scene::grant(&host()?, "audit-as-carol", &caller, &rule, &attributes)?;
    let kubectl = audited.kubectl(&scene, caller)?;
    let denied = kubectl.run(&["get", "pods", "--as=carol"])?;
    ensure!(denied.code != 0, "{denied:?}");
    let event = audited.event(|event| event["responseStatus"]["code"] == 403)?;
    ensure!(event["user"]["username"] == "e2e-audit-as-user", "{event}");
    ensure!(event["impersonatedUser"]["username"] == "carol", "{event}");
    ensure!(event["annotations"]["authorization.k8s.io/decision"] == "forbid", "{event}");
    audited.check()
}

#[test]
fn audit_event_of_a_failed_login_holds_no_token() -> Result<()> {
    let audited = Audited::start("")?;
    let path = member_path("m1", "/api/v1/pods");
    let request = format!(
        "GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer made-up-token\r\nX-Forwarded-For: 192.0.2.1\r\n\r\n"
    );
    let answer = audited.own.endpoint(None)?.exchange(request.as_bytes())?;
    ensure!(answer.status() == 401, "{}", answer.text());
    let event = audited.event(|event| event["responseStatus"]["code"] == 401)?;
    let status = &event["responseStatus"];
    ensure!(status["message"] == "Authentication failed, attempted: bearer", "{event}");
    // Any client can send X-Forwarded-For.
    ensure!(!event["sourceIPs"].to_string().contains("192.0.2.1"), "{event}");
    audited.check()
}

#[test]
fn audit_policy_selects_the_recorded_events() -> Result<()> {
    let policy = "apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived]\nrules:\n\
                  - level: None\n  resources: [{resources: [configmaps]}]\n- level: Metadata\n  clusters: [m1]\n";
    let audited = Audited::start(policy)?;
    let scene = Scene::new("audit-policy")?;
    let kubectl = audited.kubectl(&scene, scene.caller()?)?;
    kubectl.ok(&["get", "configmaps"])?;
    kubectl.ok(&["get", "pods"])?;
    let pods = audited.event(|event| event["objectRef"]["resource"] == "pods")?;
    ensure!(pods["stage"] == "ResponseComplete", "{pods}");
    let others = audited.events()?;
    ensure!(others.iter().all(|event| event["objectRef"]["resource"] != "configmaps"), "{others:#?}");
    audited.check()
}

#[test]
fn events_are_written_before_the_sidecar_ends() -> Result<()> {
    let mut audited =
        Audited::start("apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata}]\n")?;
    let scene = Scene::new("audit-end")?;
    let kubectl = audited.kubectl(&scene, scene.caller()?)?;
    kubectl.ok(&["get", "pods"])?;
    audited.own.terminate()?;
    audited.own.ended()?;
    let complete = audited.events()?.iter().filter(|event| event["stage"] == "ResponseComplete").count();
    let received = audited.events()?.iter().filter(|event| event["stage"] == "RequestReceived").count();
    ensure!(complete >= 1 && complete == received, "{complete} of {received}");
    audited.check()
}

#[test]
fn request_open_at_shutdown_has_an_audit_event() -> Result<()> {
    let mut audited = Audited::with("", &["--shutdown-grace-period=1s"])?;
    let gate = Gate::closed();
    let held = gate.clone();
    let fake = FakeMember::start("e2e-audit-open", move |request| match request.target() {
        target if target.contains("/held") => vec![Step::Wait(held.clone())],
        _ => ok(),
    })?;
    let caller = Caller::certificate("e2e-audit-open-admin", &["system:masters"])?;
    let mut connection = audited.own.endpoint(caller.certificate.as_deref())?.connect()?;
    let path = member_path(&fake.name, "/held");
    connection.send(format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes())?;
    fake.wait_for("/held", |_| true)?;
    audited.own.terminate()?;
    audited.own.ended()?;
    let event = audited.event(|event| event["requestURI"] == path.as_str())?;
    ensure!(event["annotations"]["kubectl-mc.dev/end"] == "no answer", "{event}");
    gate.open();
    Ok(())
}

#[test]
fn audit_event_of_an_agent_tunnel_has_bytes_and_end() -> Result<()> {
    let audited = Audited::start("")?;
    let cluster = "e2e-audit-agent";
    let scene = Scene::new("audit-agent")?;
    let caller = scene.caller()?;
    scene.let_in(&caller, &[cluster], EVERY_VERB)?;
    own_agent::register(cluster, SYSTEM, &own_agent::own_data(member("m1")?)?)?;
    let sidecar = format!("https://{}", audited.own.endpoint(None)?.address());
    let mut agent = OwnAgent::start(cluster, member("m1")?, &own_agent::Difference::to_sidecar(&sidecar)?)?;
    // The agent is connected before it has written anything.
    let endpoint = audited.own.endpoint(caller.certificate.as_deref())?;
    let request = format!("GET {} HTTP/1.1\r\nHost: x\r\n\r\n", member_path(cluster, "/version"));
    eventually("an answer through the tunnel", SOON, || {
        Ok((endpoint.exchange(request.as_bytes())?.status() == 200).then_some(()))
    })?;
    agent.kill()?;
    let ended = audited.event(|event| {
        let is_attached = event["responseStatus"]["code"] == 101 && event["stage"] == "ResponseComplete";
        event["objectRef"]["subresource"] == "attach" && is_attached
    })?;
    let annotation = |name: &str| ended["annotations"][format!("kubectl-mc.dev/{name}")].as_str();
    ensure!(annotation("end") == Some("agent disconnected"), "{ended}");
    for way in ["bytes-from-caller", "bytes-to-caller"] {
        let bytes = annotation(way).and_then(|bytes| bytes.parse::<u64>().ok());
        ensure!(bytes > Some(0), "{way}: {ended}");
    }
    ensure!(
        ended["user"]["username"] == format!("system:serviceaccount:kubectl-mc-agents:{cluster}"),
        "{ended}"
    );
    audited.check()
}

/// The test's own sidecar, with an audit log.
pub(super) struct Audited {
    pub(super) own: OwnSidecar,
    folder: TempDir,
}

impl Audited {
    /// Starts it with this policy, unless the policy is empty.
    pub(super) fn start(policy: &str) -> Result<Self> {
        Self::with(policy, &[])
    }

    fn with(policy: &str, more: &[&str]) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let log = format!("--audit-log-path={}", folder.path().join("audit.log").display());
        let file = folder.path().join("policy.yaml");
        let mut flags = vec![log];
        if !policy.is_empty() {
            std::fs::write(&file, policy)?;
            flags.push(format!("--audit-policy-file={}", file.display()));
        }
        let flags: Vec<_> = flags.iter().map(String::as_str).chain(more.iter().copied()).collect();
        let own = OwnSidecar::with(&Difference { flags: &flags, ..Difference::default() })?;
        Ok(Self { own, folder })
    }

    /// Runs kubectl at this sidecar's own address.
    fn kubectl(&self, scene: &Scene, caller: Caller) -> Result<Tool> {
        let address = self.own.endpoint(None)?.address();
        let caller = caller.at(&scene.member)?.edit(|config| {
            let cluster = &mut config["clusters"][0]["cluster"];
            cluster["server"] = json!(format!("https://{address}{}", member_path(&scene.member, "")));
            cluster["tls-server-name"] = json!(SIDECAR_NAME);
            for ca in ["certificate-authority", "certificate-authority-data"] {
                cluster.as_object_mut().map(|cluster| cluster.remove(ca));
            }
            cluster["insecure-skip-tls-verify"] = json!(true);
        })?;
        Ok(Tool::kubectl(&caller)?.with(&["--namespace", &scene.name]))
    }

    fn events(&self) -> Result<Vec<Value>> {
        let text = std::fs::read_to_string(self.folder.path().join("audit.log")).unwrap_or_default();
        text.lines().map(|line| serde_json::from_str(line).context("a line is not JSON")).collect()
    }

    /// Waits for the first event that matches.
    pub(super) fn event(&self, fits: impl Fn(&Value) -> bool) -> Result<Value> {
        eventually("the audit log has the event", SOON, || Ok(self.events()?.into_iter().find(&fits)))
    }

    /// Checks that upstream's types can read all events, and that no event contains a credential.
    pub(super) fn check(&self) -> Result<()> {
        let text = std::fs::read(self.folder.path().join("audit.log"))?;
        let readable = String::from_utf8_lossy(&text);
        for secret in ["made-up-token", "Bearer", "BEGIN ", "eyJ"] {
            ensure!(!readable.contains(secret), "{secret} is in the audit log");
        }
        let mut reader = Command::new(reader()?)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        reader.stdin.take().context("no standard input")?.write_all(&text)?;
        let output = reader.wait_with_output()?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let lines = String::from_utf8_lossy(&output.stdout).lines().count();
        ensure!(lines == readable.lines().count() && lines > 0, "{lines} events were read");
        Ok(())
    }
}

/// The program that reads events with upstream's types. It is linked once, which takes seconds.
fn reader() -> Result<&'static Path> {
    static BUILT: OnceLock<Result<(), String>> = OnceLock::new();
    let program = Path::new(concat!(env!("CARGO_TARGET_TMPDIR"), "/audit-reader"));
    let built = BUILT.get_or_init(|| build_reader(program).map_err(|error| format!("{error:#}")));
    built.clone().map_err(Error::msg)?;
    Ok(program)
}

fn build_reader(program: &Path) -> Result<()> {
    let module =
        Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().find(|folder| folder.join("tests/audit").exists());
    let tests = module.context("no tests/audit")?.join("tests");
    let output = Command::new("go")
        .args(["build", "-mod=readonly", testbed::programs::COMPILED_AS_UPSTREAM, "-o"])
        .args([program, Path::new("../../audit/main.go")])
        .envs([("CGO_ENABLED", "0"), ("GOTOOLCHAIN", "local")])
        .current_dir(tests.join("kubernetes").join(testbed::programs::DEFAULT_VERSION))
        .stdin(Stdio::null())
        .output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}
