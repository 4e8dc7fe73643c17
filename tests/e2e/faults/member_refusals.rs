//! A member's refusal of the sidecar is reported as such, and not as a refusal of the caller.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use harness::bed::{member, sidecar};
use harness::caller::Caller;
use harness::fake_member::{FakeMember, Gate, Request, Step, ok, reply};
use harness::http1::{Connection, Endpoint, Response, member_path};
use harness::registration::register;
use harness::scene::{EVERY_VERB, Scene};
use harness::wait::{SOON, eventually};
use serde_json::{Value, json};

use crate::plugin;

#[test]
fn fault_52_missing_impersonation_is_not_the_callers_refusal() -> Result<()> {
    // A valid credential of a real member, without the right to impersonate any user.
    let granted = Granted::on("m2", "e2e-no-impersonation", &json!([]))?;
    let answer = granted.refused(&granted.caller(&[])?)?;
    let powerless = "does not let the sidecar impersonate";
    for words in ["member impersonation", powerless, "cannot impersonate", "the member's grant lacks: "] {
        ensure!(answer.text().contains(words), "{words}: {}", answer.text());
    }
    plugin(&granted.caller(&[])?)?
        .run(&["--cluster=e2e-no-impersonation", "get", "configmaps"])?
        .failure(&["member impersonation", "e2e-no-impersonation"])?;
    Ok(())
}

#[test]
fn fault_52_only_missing_rights_are_named() -> Result<()> {
    let authentication = json!({
        "apiGroups": ["authentication.k8s.io"], "resources": ["*"], "verbs": ["impersonate"],
    });
    let core =
        |resources: &[&str]| json!({"apiGroups": [""], "resources": resources, "verbs": ["impersonate"]});
    // The newest Kubernetes, and an older one whose refusal has a different text.
    for member in ["m1", "m2"] {
        let users = Granted::on(
            member,
            &format!("e2e-lacks-groups-{member}"),
            &json!([core(&["users"]), authentication]),
        )?;
        users.lacks(&["dev", "ops"], "impersonate groups \"dev\", groups \"ops\"")?;

        let mut named = core(&["groups"]);
        named["resourceNames"] = json!(["dev"]);
        let rules = json!([core(&["users"]), named, authentication]);
        let one = Granted::on(member, &format!("e2e-lacks-group-{member}"), &rules)?;
        one.lacks(&["dev", "ops"], "impersonate groups \"ops\"")?;

        let extra =
            Granted::on(member, &format!("e2e-lacks-extra-{member}"), &json!([core(&["users", "groups"])]))?;
        extra.lacks(&["dev"], "impersonate userextras/authentication.kubernetes.io/credential-id")?;
    }
    Ok(())
}

#[test]
fn fault_52_many_refusals_check_the_grant_once() -> Result<()> {
    let refusal = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Forbidden", "code": 403,
        "message": "users \"x\" is forbidden: User \"y\" cannot impersonate resource \"users\"",
    });
    let fake = FakeMember::start("e2e-grant-storm", move |request| {
        if request.target().ends_with("/selfsubjectaccessreviews") {
            return reply("201 Created", "Content-Type: application/json\r\n", ALLOWED_NOTHING);
        }
        reply("403 Forbidden", "Content-Type: application/json\r\n", &refusal.to_string())
    })?;
    let mut client = admin("e2e-grant-storm-admin")?;
    for n in 0..30 {
        let path = member_path(&fake.name, &format!("/refused/{n}"));
        client.send(format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes())?;
        let answer = client.response()?;
        let named =
            "lacks: impersonate users \\\"e2e-grant-storm-admin\\\", groups \\\"kubectl-mc:host-admins\\\"";
        ensure!(answer.status() == 403 && answer.text().contains(named), "{}", answer.text());
    }
    let reviews = fake.requests("/selfsubjectaccessreviews");
    let asked = |resource: &str| {
        let quoted = format!("\"resource\":\"{resource}\"");
        reviews.iter().filter(|review| harness::tool::contains(&review.received, &quoted)).count()
    };
    assert_eq!((asked("users"), asked("groups")), (1, 1));
    for review in &reviews {
        ensure!(
            review.values("impersonate-user").is_empty(),
            "it is asked with another identity: {}",
            review.head
        );
        assert_eq!(review.target(), "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews");
    }
    Ok(())
}

const ALLOWED_NOTHING: &str = r#"{"kind":"SelfSubjectAccessReview","apiVersion":"authorization.k8s.io/v1","metadata":{},"spec":{},"status":{"allowed":false}}"#;

/// A member whose registered credential has these rights.
struct Granted {
    name: String,
    scene: Scene,
}

impl Granted {
    fn on(member_name: &str, name: &str, rules: &Value) -> Result<Self> {
        let scene = Scene::on(member_name, &name["e2e-".len()..])?;
        let account = format!("/api/v1/namespaces/{}/serviceaccounts/granted", scene.name);
        scene.api.apply(
            &account,
            &json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "granted"}}),
        )?;
        let rbac = |kind: &str| format!("/apis/rbac.authorization.k8s.io/v1/{kind}/{name}");
        let api_version = "rbac.authorization.k8s.io/v1";
        scene.api.apply(
            &rbac("clusterroles"),
            &json!({"apiVersion": api_version, "kind": "ClusterRole", "metadata": {"name": name}, "rules": rules}),
        )?;
        scene.api.apply(
            &rbac("clusterrolebindings"),
            &json!({
                "apiVersion": api_version, "kind": "ClusterRoleBinding", "metadata": {"name": name},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
                "subjects": [{"kind": "ServiceAccount", "name": "granted", "namespace": scene.name}],
            }),
        )?;
        let user = format!("system:serviceaccount:{}:granted", scene.name);
        for rule in rules.as_array().into_iter().flatten() {
            let resource = rule["resources"][0].as_str().unwrap_or_default().replace('*', "uids");
            let attributes = json!({
                "verb": "impersonate", "group": rule["apiGroups"][0], "resource": resource,
                "name": rule["resourceNames"][0].as_str().unwrap_or("any"),
            });
            eventually("the grant is known", SOON, || {
                Ok(scene.api.may(&user, &[], &attributes)?.then_some(()))
            })?;
        }
        let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
        let answer = scene.api.create(&format!("{account}/token"), &request)?;
        let cluster = member(member_name)?;
        let ca = std::fs::read_to_string(&cluster.ca_certificate)?;
        register(name, &json!({"server": cluster.server, "ca.crt": ca, "token": answer["status"]["token"]}))?;
        Ok(Self { name: name.to_owned(), scene })
    }

    /// A user of these groups with every right except for the impersonation.
    fn caller(&self, groups: &[&str]) -> Result<Caller> {
        let caller = Caller::certificate(&format!("{}-user", self.name), groups)?;
        self.scene.let_in(&caller, &[&self.name], EVERY_VERB)?;
        self.scene.allow(&caller)?;
        Ok(caller)
    }

    /// The answer to a caller that is refused for the missing impersonation.
    fn refused(&self, caller: &Caller) -> Result<Response> {
        let endpoint = Endpoint::sidecar(sidecar()?, caller.certificate.as_deref())?;
        let path = member_path(&self.name, &format!("/api/v1/namespaces/{}/configmaps", self.scene.name));
        let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n");
        let answer = eventually("the member is known", SOON, || {
            let answer = endpoint.exchange(request.as_bytes())?;
            let known = answer.status() != 404 && !answer.text().contains("proxy off");
            Ok(known.then_some(answer))
        })?;
        ensure!(answer.status() == 403, "{}: {}", answer.status(), answer.text());
        Ok(answer)
    }

    fn lacks(&self, groups: &[&str], rights: &str) -> Result<()> {
        let answer = self.refused(&self.caller(groups)?)?;
        let status: Value = serde_json::from_slice(&answer.body)?;
        let message = status["message"].as_str().unwrap_or_default();
        let told = format!("; the member's grant lacks: {rights}");
        ensure!(message.ends_with(&told), "{told}: {message}");
        Ok(())
    }
}

#[test]
fn fault_51_refused_credential_is_reread_and_retried_once() -> Result<()> {
    let Renewal { fake, mut client, gate } = Renewal::begin("e2e-renewed")?;
    let path = member_path(&fake.name, "/plain");
    client.send(format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes())?;
    renew(&fake, "/plain", &gate)?;
    let answer = client.response()?;
    ensure!(answer.status() == 200, "{}", answer.text());
    let came: Vec<_> = fake.requests("/plain").iter().map(credential).collect();
    assert_eq!(came, [format!("Bearer {}", fake.token), "Bearer renewed".to_owned()]);
    as_the_caller(&fake, "/plain")
}

#[test]
fn fault_51_refused_upgrade_is_retried_with_new_credential() -> Result<()> {
    let Renewal { fake, mut client, gate } = Renewal::begin("e2e-renewed-upgrade")?;
    let path = member_path(&fake.name, "/upgrade");
    let head = format!("POST {path} HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n");
    client.send(format!("{head}early").as_bytes())?;
    renew(&fake, "/upgrade", &gate)?;
    let head = client.head()?;
    ensure!(head.status == 101, "{head:?}");
    fake.wait_for("/upgrade", |request| {
        credential(request) == "Bearer renewed" && request.received == b"early"
    })?;
    assert_eq!(fake.requests("/upgrade").len(), 2);
    as_the_caller(&fake, "/upgrade")
}

#[test]
fn fault_51_body_is_not_retried_but_next_uses_new_credential() -> Result<()> {
    let Renewal { fake, mut client, gate } = Renewal::begin("e2e-renewed-body")?;
    let path = member_path(&fake.name, "/body");
    client.send(format!("POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nbody").as_bytes())?;
    renew(&fake, "/body", &gate)?;
    let answer = client.response()?;
    ensure!(answer.status() == 503 && answer.text().contains("member authentication"), "{}", answer.text());
    ensure!(answer.text().contains("refused the sidecar's own credential"), "{}", answer.text());
    assert_eq!(fake.requests("/body").len(), 1);
    let path = member_path(&fake.name, "/next");
    client.send(format!("POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nbody").as_bytes())?;
    ensure!(client.response()?.status() == 200);
    assert_eq!(credential(&fake.requests("/next")[0]), "Bearer renewed");
    Ok(())
}

#[test]
fn fault_51_refused_credential_without_successor_is_503() -> Result<()> {
    let fake = FakeMember::start("e2e-not-renewed", |_| reply("401 Unauthorized", "", ""))?;
    let mut client = admin("e2e-not-renewed-admin")?;
    let path = member_path(&fake.name, "/plain");
    client.send(format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes())?;
    let answer = client.response()?;
    ensure!(answer.status() == 503 && answer.text().contains("member authentication"), "{}", answer.text());
    assert_eq!(fake.requests("/plain").len(), 1);
    Ok(())
}

/// A member that refuses its registered credential once the gate is open.
struct Renewal {
    fake: FakeMember,
    client: Connection,
    gate: Gate,
}

impl Renewal {
    fn begin(name: &str) -> Result<Self> {
        let gate = Gate::closed();
        let refused = vec![Step::Wait(gate.clone()), refusal()];
        let switched = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n";
        let fake = FakeMember::start(name, move |request| match credential(request).as_str() {
            "Bearer renewed" if request.target() == "/upgrade" => {
                vec![Step::Send(switched.into()), Step::ReceiveAll]
            }
            "Bearer renewed" => ok(),
            _ => refused.clone(),
        })?;
        Ok(Self { fake, client: admin(&format!("{name}-admin"))?, gate })
    }
}

/// Registers a new credential while the member holds a request, and then lets the member refuse the old one.
fn renew(fake: &FakeMember, target: &str, gate: &Gate) -> Result<()> {
    fake.wait_for(target, |_| true)?;
    fake.register(&json!({"token": "renewed"}))?;
    gate.open();
    Ok(())
}

/// Checks that each request arrived as the caller, including the repeated one.
fn as_the_caller(fake: &FakeMember, target: &str) -> Result<()> {
    let caller = format!("{}-admin", fake.name);
    for request in fake.requests(target) {
        ensure!(request.values("impersonate-user") == [caller.as_str()], "{}", request.head);
    }
    Ok(())
}

fn refusal() -> Step {
    Step::Send(b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n".to_vec())
}

fn credential(request: &Request) -> String {
    request.values("authorization").concat()
}

fn admin(name: &str) -> Result<Connection> {
    let admin = Caller::certificate(name, &["system:masters"])?;
    Endpoint::sidecar(sidecar()?, admin.certificate.as_deref())?.connect()
}

#[test]
fn fault_46_silent_member_times_out_after_a_minute() -> Result<()> {
    let fake = FakeMember::start("e2e-late", |request| match request.target() {
        target if target.ends_with("/hang") => vec![Step::Hang],
        _ => ok(),
    })?;
    let admin = Caller::certificate("e2e-late-admin", &["system:masters"])?;
    let mut connection = Endpoint::sidecar(sidecar()?, admin.certificate.as_deref())?.connect()?;
    connection.set_patience(Duration::from_secs(75))?;
    let path = member_path(&fake.name, "/api/v1/namespaces/default/hang");
    connection.send(format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes())?;
    let answer = connection.response().context("no answer within 75 s")?;
    ensure!(answer.status() == 504, "{}", answer.text());
    ensure!(answer.text().contains("member unreachable"), "{}", answer.text());
    Ok(())
}
