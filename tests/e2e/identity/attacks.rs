//! Nothing a client sends adds to, hides or replaces the identity that the member sees. Each attack goes
//! straight to the sidecar and through the host, as a plain request and as an upgrade. It targets
//! the member's API and a program behind an inner proxy of the member, which lets headers through
//! that the Kubernetes API does not know. The attack may be refused; it must not arrive with
//! another identity.

use anyhow::{Context, Result, ensure};
use harness::bed::{bed, sidecar};
use harness::caller::Caller;
use harness::fake_member::{FakeMember, Request, Step, ok};
use harness::http1::{Endpoint, member_path};
use harness::scene::{EVERY_VERB, Scene, grant};
use harness::tool::contains;
use serde_json::json;

#[test]
fn without_an_attack_the_request_arrives_as_the_caller() -> Result<()> {
    let attack = Attack::prepare("control")?;
    for way in attack.ways()? {
        ensure!(attack.send("", &way)?.is_some(), "an honest request did not arrive: {way:?}");
    }
    Ok(())
}

#[test]
fn fault_14_15_cve_2021_31999_connection_keeps_identity() -> Result<()> {
    Attack::prepare("nominate")?.try_all(&[
        "Connection: Impersonate-User",
        "Connection: impersonate-user, impersonate-group, impersonate-uid",
        "Connection: close, Impersonate-User",
        "Connection: ,  Impersonate-User",
        "Connection: keep-alive\r\nConnection: Impersonate-User",
        "connection:\tImpersonate-User",
        "Connection: Impersonate-User\r\nKeep-Alive: timeout=5",
        "Proxy-Connection: Impersonate-User",
    ])
}

#[test]
fn fault_14_15_cve_2022_23652_connection_keeps_credential() -> Result<()> {
    Attack::prepare("nominate-credential")?.try_all(&[
        "Connection: Authorization",
        "Connection: close, Authorization, Impersonate-User",
        "Connection: X-Remote-User, X-Remote-Group",
        "Connection: Host, Content-Length",
    ])
}

#[test]
fn fault_12_13_impersonation_without_the_right_is_refused() -> Result<()> {
    Attack::prepare("impersonate")?.try_all(&[
        "Impersonate-User: admin",
        "impersonate-user: admin",
        "Impersonate-User: admin\r\nImpersonate-User: ulrike",
        "Impersonate-User: ",
        "Impersonate-Group: system:masters",
        "Impersonate-User: ulrike\r\nImpersonate-Group: system:masters",
        "Impersonate-Uid: 0",
        "Impersonate-Extra-Scopes: everything",
        "Impersonate-Anything: else",
    ])
}

#[test]
fn fault_12_13_malformed_impersonation_is_a_bad_request() -> Result<()> {
    let attack = Attack::prepare("no-impersonation")?;
    let endpoint = Endpoint::sidecar(sidecar()?, None)?;
    let path = member_path(&attack.fake.name, "/target");
    for (headers, expected) in [
        ("Impersonate-User: ", 400),
        ("Impersonate-User: \r\nImpersonate-Group: dev", 400),
        ("Impersonate-Foo: x", 400),
        ("Impersonate-User: theo\r\nImpersonate-Foo: x", 400),
        ("Impersonate-Group: dev", 400),
        ("Impersonate-Uid: 1", 400),
        ("Impersonate-Extra-Scopes: x", 400),
        ("Impersonate-User: theo", 403),
        ("Impersonate-User: ulrike\r\nImpersonate-Group: dev", 403),
    ] {
        let authorization = attack.caller.authorization();
        let mut connection = endpoint.connect()?;
        connection
            .send(format!("GET {path} HTTP/1.1\r\nHost: x\r\n{authorization}{headers}\r\n\r\n").as_bytes())?;
        let answer = connection.response()?;
        ensure!(answer.status() == expected, "{headers:?}: {}: {}", answer.status(), answer.text());
        if expected == 400 {
            connection.rest().with_context(|| format!("{headers:?}: the connection stays open"))?;
        }
    }
    assert_eq!(attack.fake.requests("/target").len(), 0);
    Ok(())
}

#[test]
fn fault_12_impersonation_past_the_host_works_when_allowed() -> Result<()> {
    let fake = FakeMember::start("e2e-attack-allowed", |_| ok())?;
    let scene = Scene::on("m2", "attack-allowed")?;
    let caller = Caller::certificate("e2e-impersonator", &[])?;
    let other = Caller::certificate("e2e-impersonated", &[])?;
    scene.let_in(&other, &[&fake.name], EVERY_VERB)?;
    let rule = json!({
        "apiGroups": [""], "resources": ["users"], "verbs": ["impersonate"], "resourceNames": [other.user],
    });
    let attributes = json!({"resource": "users", "verb": "impersonate", "name": other.user});
    grant(&scene.host, "e2e-impersonator", &caller, &rule, &attributes)?;
    let endpoint = Endpoint::sidecar(sidecar()?, caller.certificate.as_deref())?;
    let path = member_path(&fake.name, "/target");
    let ask = |more: &str| {
        let asked = format!("Impersonate-User: {}\r\n{more}", other.user);
        let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{asked}\r\n");
        endpoint.exchange(request.as_bytes())
    };
    assert_eq!(ask("Impersonate-Group: dev\r\n")?.status(), 403, "the group is no part of the right");
    assert_eq!(ask("Impersonate-Uid: 1\r\n")?.status(), 403);
    assert_eq!(fake.requests("/target").len(), 0);
    let answer = ask("")?;
    assert_eq!(answer.status(), 200, "{}", answer.text());
    let arrived = &fake.requests("/target")[0];
    assert_eq!(arrived.values("impersonate-user"), [other.user.as_str()]);
    assert_eq!(arrived.values("impersonate-group"), Vec::<&str>::new());
    ensure!(!arrived.head.contains(&caller.user), "{}", arrived.head);
    Ok(())
}

#[test]
fn cluster_gateway_no_query_changes_the_identity() -> Result<()> {
    let attack = Attack::prepare("query")?;
    let endpoint = Endpoint::sidecar(sidecar()?, None)?;
    for query in
        ["__dryRun=true&user=admin", "impersonate-user=admin&as=admin", "Impersonate-Group=system:masters"]
    {
        let path = member_path(&attack.fake.name, &format!("/query?{query}"));
        let authorization = attack.caller.authorization();
        let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\n{authorization}\r\n");
        assert_eq!(endpoint.exchange(request.as_bytes())?.status(), 200);
        let arrived = attack.fake.requests("/query").pop().context("nothing arrived")?;
        ensure!(arrived.values("impersonate-user") == ["ulrike"], "{}", arrived.head);
        let mut groups = arrived.values("impersonate-group");
        groups.sort_unstable();
        assert_eq!(groups, ["dev", "ops"]);
    }
    Ok(())
}

#[test]
fn fault_01_front_proxy_headers_of_clients_are_ignored() -> Result<()> {
    Attack::prepare("front-proxy")?.try_all(&[
        "X-Remote-User: admin",
        "X-Remote-User: admin\r\nX-Remote-Group: system:masters",
        "x-remote-group: system:masters",
        "X-Remote-Uid: 0",
        "X-Remote-Extra-Scopes: everything",
    ])
}

#[test]
fn fault_02_front_proxy_name_of_another_ca_is_ignored() -> Result<()> {
    // Signed by the host's client CA, not by the front proxy's.
    let impostor = Caller::certificate("front-proxy-client", &[])?;
    let fake = FakeMember::start("e2e-impostor", |_| ok())?;
    Scene::on("m2", "impostor")?.let_in(&impostor, &[&fake.name], EVERY_VERB)?;
    let endpoint = Endpoint::sidecar(sidecar()?, impostor.certificate.as_deref())?;
    let path = member_path(&fake.name, "/target");
    let request = format!(
        "GET {path} HTTP/1.1\r\nHost: x\r\nX-Remote-User: admin\r\nX-Remote-Group: system:masters\r\n\r\n"
    );
    assert_eq!(endpoint.exchange(request.as_bytes())?.status(), 200);
    let arrived = fake.wait_for("/target", |_| true)?;
    assert_eq!(arrived.values("impersonate-user"), ["front-proxy-client"]);
    assert_eq!(arrived.values("impersonate-group"), Vec::<&str>::new());
    Ok(())
}

#[test]
fn fault_07_underscores_are_no_hyphens() -> Result<()> {
    Attack::prepare("underscores")?.try_all(&[
        "Impersonate_User: admin",
        "IMPERSONATE_GROUP: system:masters",
        "x_remote_user: admin",
        "X_Remote_Group: system:masters",
        "Impersonate-User_: admin",
    ])
}

#[test]
fn fault_16_second_authorization_does_not_arrive() -> Result<()> {
    Attack::prepare("authorization")?.try_all(&[
        "Authorization: Bearer made-up",
        "Authorization: Basic YWRtaW46YWRtaW4=",
        "Proxy-Authorization: Bearer ulrike-token",
    ])
}

#[test]
fn fault_32_ambiguous_bodies_do_not_smuggle_a_second_request() -> Result<()> {
    let attack = Attack::prepare("smuggle")?;
    let smuggled = "GET /smuggled HTTP/1.1\r\nHost: x\r\nImpersonate-User: admin\r\n\r\n";
    let both = format!("Content-Length: {}\r\nTransfer-Encoding: chunked", 5 + smuggled.len());
    for headers in [
        both.as_str(),
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity",
        "Transfer-Encoding: gzip, chunked",
        "Transfer-Encoding: xchunked",
        "Content-Length: 5\r\nContent-Length: 0",
        "Content-Length: +5",
    ] {
        for way in attack.ways()? {
            let path = member_path(&attack.fake.name, &way.to("/body"));
            let head = format!("POST {path} HTTP/1.1\r\nHost: x\r\n{}{headers}\r\n\r\n", way.authorization);
            let mut connection = way.endpoint.connect()?;
            connection.send(format!("{head}0\r\n\r\n{smuggled}").as_bytes())?;
            let answer = connection.head().with_context(|| format!("{headers:?} {way:?}"))?;
            // The host has already settled on one reading. The sidecar may go by the transfer
            // coding, and then it drops the length (RFC 9112, 6.3).
            let may_be_read = way.entrance == "host" || (headers == both && answer.status == 200);
            ensure!(may_be_read || answer.status == 400, "{headers:?} {way:?}: {answer:?}");
        }
    }
    assert_eq!(attack.fake.requests("/smuggled").len(), 0);
    for request in attack.fake.requests("/body") {
        attack.is_honest(&request)?;
        let framings = [request.values("content-length"), request.values("transfer-encoding")].concat();
        ensure!(framings.len() <= 1, "{}", request.head);
        ensure!(!contains(&request.received, "smuggled"), "{request:?}");
    }
    Ok(())
}

#[test]
fn fault_19_trailers_bring_no_identity() -> Result<()> {
    let attack = Attack::prepare("trailers")?;
    for way in attack.ways()? {
        let path = member_path(&attack.fake.name, &way.to("/trailers"));
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: x\r\n{}Transfer-Encoding: chunked\r\nTrailer: Impersonate-User\r\n\r\n",
            way.authorization
        );
        let trailers = "0\r\nImpersonate-User: admin\r\nX-Remote-User: admin\r\n\r\n";
        let mut connection = way.endpoint.connect()?;
        connection.send(format!("{head}{trailers}").as_bytes())?;
        connection.head().with_context(|| format!("{way:?}"))?;
    }
    for request in attack.fake.requests("/trailers") {
        attack.is_honest(&request)?;
        assert!(!String::from_utf8_lossy(&request.received).contains("admin"), "{request:?}");
    }
    Ok(())
}

/// A member under attack, and ulrike, who may use it.
struct Attack {
    fake: FakeMember,
    caller: Caller,
}

/// The route of an attack, and its form.
struct Way {
    endpoint: Endpoint,
    entrance: &'static str,
    upgrade: bool,
    /// The prefix of the target at the member.
    prefix: &'static str,
    authorization: String,
}

impl Attack {
    fn prepare(name: &str) -> Result<Self> {
        let fake = FakeMember::start(&format!("e2e-attack-{name}"), |request| {
            if request.values("upgrade").is_empty() {
                return ok();
            }
            let head = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n";
            vec![Step::Send(head.into()), Step::Close]
        })?;
        let caller = Caller::token("ulrike")?;
        Scene::on("m2", &format!("attack-{name}"))?.let_in(&caller, &[&fake.name], EVERY_VERB)?;
        Ok(Self { fake, caller })
    }

    /// Every entrance, plain and upgraded, to the member's API and to a pod behind it.
    fn ways(&self) -> Result<Vec<Way>> {
        let direct = Endpoint::sidecar(sidecar()?, None)?;
        let host = Endpoint::cluster(&bed()?.host, None)?;
        let mut ways = Vec::new();
        for upgrade in [false, true] {
            for (entrance, endpoint) in [("direct", &direct), ("host", &host)] {
                for prefix in ["", INNER_PROXY] {
                    let (endpoint, authorization) = (endpoint.clone(), self.caller.authorization());
                    ways.push(Way { endpoint, entrance, upgrade, prefix, authorization });
                }
            }
        }
        Ok(ways)
    }

    fn try_all(&self, attacks: &[&str]) -> Result<()> {
        for headers in attacks {
            for way in self.ways()? {
                self.send(headers, &way).with_context(|| format!("{headers:?} {way:?}"))?;
            }
        }
        Ok(())
    }

    /// Sends one attack. If it arrives at the member, it has the caller's identity.
    fn send(&self, headers: &str, way: &Way) -> Result<Option<Request>> {
        let before = self.fake.requests("/target").len();
        let path = member_path(&self.fake.name, &way.to("/target"));
        let headers = if headers.is_empty() { String::new() } else { format!("{headers}\r\n") };
        let upgrade = if way.upgrade {
            "Connection: Upgrade\r\nUpgrade: SPDY/3.1\r\nX-Stream-Protocol-Version: v4.channel.k8s.io\r\n"
        } else {
            ""
        };
        let method = if way.upgrade { "POST" } else { "GET" };
        let length = if way.upgrade { "Content-Length: 0\r\n" } else { "" };
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: x\r\n{}{upgrade}{length}{headers}\r\n",
            way.authorization
        );
        let mut connection = way.endpoint.connect()?;
        connection.send(request.as_bytes())?;
        // Once there is an answer or the connection is closed, the member has received everything
        // that it will get.
        let answer = connection.head();
        let arrived = self.fake.requests("/target");
        let arrived = arrived.get(before..).unwrap_or_default();
        ensure!(arrived.len() <= 1, "one request arrived {} times", arrived.len());
        for request in arrived {
            self.is_honest(request)?;
        }
        if arrived.is_empty() {
            let status = answer.map_or(0, |head| head.status);
            ensure!(status == 0 || (400..600).contains(&status), "not forwarded, yet answered by {status}");
        }
        Ok(arrived.first().cloned())
    }

    /// Checks that the member saw ulrike's whole identity and nothing else, with the sidecar's credential
    /// alone.
    fn is_honest(&self, request: &Request) -> Result<()> {
        let mut groups = request.values("impersonate-group");
        groups.sort_unstable();
        ensure!(request.values("impersonate-user") == ["ulrike"], "{}", request.head);
        ensure!(groups == ["dev", "ops"], "{}", request.head);
        ensure!(request.values("impersonate-uid") == ["uid-ulrike"], "{}", request.head);
        let credential = format!("Bearer {}", self.fake.token);
        ensure!(request.values("authorization") == [credential.as_str()], "{}", request.head);
        let head = request.head.to_lowercase();
        for word in ["x-remote", "x_remote", "impersonate_", "user_:", "proxy-authorization", "ulrike-token"]
        {
            ensure!(!head.contains(word), "{word} arrived: {}", request.head);
        }
        for connection in request.values("connection") {
            let named = connection.split(',').map(|name| name.trim().to_lowercase());
            for name in named {
                ensure!(["upgrade", "keep-alive", "close", ""].contains(&name.as_str()), "{}", request.head);
            }
        }
        ensure!(!head.contains("impersonate-extra-scopes"), "{}", request.head);
        ensure!(!head.contains("impersonate-anything"), "{}", request.head);
        Ok(())
    }
}

impl Way {
    fn to(&self, target: &str) -> String {
        format!("{}{target}", self.prefix)
    }
}

impl std::fmt::Debug for Way {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {} {}", self.entrance, if self.upgrade { "upgrade" } else { "plain" }, self.prefix)
    }
}

const INNER_PROXY: &str = "/api/v1/namespaces/x/pods/p/proxy";
