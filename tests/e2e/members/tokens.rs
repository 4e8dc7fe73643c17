//! The sidecar renews members' tokens before they expire, and reports a credential that it cannot renew.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use harness::api::Api;
use harness::bed::member;
use harness::caller::Caller;
use harness::fake_member::{FakeMember, Request, Step, ok, reply};
use harness::http1::{Endpoint, member_path};
use harness::own_fleet::{OwnFleet, unsigned_token};
use harness::own_sidecar::OwnSidecar;
use harness::wait::{SOON, eventually};
use serde_json::{Value, json};

/// The fraction after which a token of ten minutes is renewed: some seconds.
const SOON_RENEWED: &str = "--token-renewal-fraction=0.005";

#[test]
fn short_token_is_renewed_and_the_old_one_still_works() -> Result<()> {
    let fleet = OwnFleet::new("tokens-renewed")?;
    let accounts = Accounts::new("e2e-tokens-renewed")?;
    let (name, cluster) = ("e2e-tokens-renewed", member("m2")?);
    let data = |token: &str| -> Result<Value> {
        let ca = std::fs::read_to_string(&cluster.ca_certificate)?;
        Ok(json!({"server": cluster.server, "ca.crt": ca, "token": token}))
    };
    let (impersonator, manager) = (accounts.token("impersonator")?, accounts.token("manager")?);
    fleet.register(name, &data(&impersonator)?)?;
    fleet.secret(&format!("{name}.manager"), &data(&manager)?)?;
    let own = fleet.sidecar(&[SOON_RENEWED])?;
    for (secret, before) in [("member", &impersonator), ("manager", &manager)] {
        eventually("the token is another one", SOON, || {
            Ok((fleet.token(&format!("{name}.{secret}"))? != *before).then_some(()))
        })?;
        ensure!(accounts.accepts(before)?, "the one before is worth nothing");
    }
    // A renewed manager's token requests the next tokens.
    let now = fleet.token(&format!("{name}.member"))?;
    eventually("it is renewed again", SOON, || {
        Ok((fleet.token(&format!("{name}.member"))? != now).then_some(()))
    })?;
    fleet.until(name, "CredentialValid", "True", "Accepted")?;
    ensure!(own.metric("mc_sidecar_token_renewals_total{result=\"failed\"}")? == 0.0, "{}", own.log()?);
    let now = fleet.token(&format!("{name}.member"))?;
    ensure!(!own.log()?.contains(&now) && !own.log()?.contains(&impersonator), "a token is in the log");

    // Without the account, all its tokens are invalid, and no new one is issued.
    accounts.api.delete(&accounts.path("serviceaccounts/impersonator"))?;
    fleet.until(name, "CredentialValid", "False", "Refused")?;
    fleet.until(name, "Ready", "False", "Refused")?;
    Ok(())
}

#[test]
fn renewed_token_is_used_by_every_replica_within_five_seconds() -> Result<()> {
    let fleet = OwnFleet::new("tokens-replicas")?;
    let fake = Issuer::start("e2e-tokens-replicas", "200 OK")?;
    fleet.register(&fake.0.name, &fake.0.secret(&json!({"token": short_lived(0)})))?;
    fleet.secret("e2e-tokens-replicas.manager", &fake.0.secret(&json!({"token": short_lived(0)})))?;
    let replicas = [fleet.sidecar(&[SOON_RENEWED])?, fleet.sidecar(&[SOON_RENEWED])?];
    let admin = Caller::certificate("e2e-tokens-admin", &["system:masters"])?;
    let first = fake.0.secret(&json!({"token": short_lived(0)}))["token"].clone();
    eventually("the token is renewed", SOON, || {
        Ok((fleet.token("e2e-tokens-replicas.member")? != *first.as_str().unwrap_or_default()).then_some(()))
    })?;
    let renewed = Instant::now();
    for (number, replica) in replicas.iter().enumerate() {
        let path = format!("/used-by-{number}");
        eventually("the replica uses it", SOON, || {
            let answer = ask(replica, &admin, &fake.0.name, &path)?;
            ensure!(answer == 200, "{answer}");
            let last = fake.0.requests(&path).pop().context("nothing came")?;
            let old = format!("Bearer {}", short_lived(0));
            Ok((last.values("authorization") != [old]).then_some(()))
        })?;
    }
    ensure!(renewed.elapsed() < Duration::from_secs(5), "{:?}", renewed.elapsed());
    Ok(())
}

#[test]
fn failed_renewal_is_reported_before_the_token_expires() -> Result<()> {
    let fleet = OwnFleet::new("tokens-manager")?;
    let (refused, forbidden) = ("401 Unauthorized", "403 Forbidden");
    let members = [
        (Issuer::start("e2e-tokens-refused", refused)?, short_lived(0), "ManagerRefused"),
        (Issuer::start("e2e-tokens-forbidden", forbidden)?, short_lived(0), "ManagerForbidden"),
        (Issuer::start("e2e-tokens-over", refused)?, claims(json!({"iat": 1, "exp": 601})), "ManagerExpired"),
    ];
    for (fake, manager, _) in &members {
        fleet.register(&fake.0.name, &fake.0.secret(&json!({"token": short_lived(0)})))?;
        fleet.secret(&format!("{}.manager", fake.0.name), &fake.0.secret(&json!({"token": manager})))?;
    }
    // The controller of rights is off, because it would also report a refused manager in condition
    // Ready.
    let _own = fleet.sidecar(&[SOON_RENEWED, "--controllers=health,credentials"])?;
    for (fake, _, reason) in &members {
        fleet.until(&fake.0.name, "CredentialValid", "True", reason)?;
        // Until the token expires, the member is ready.
        fleet.until(&fake.0.name, "Ready", "True", "Ready")?;
        eventually("the warning is logged", SOON, || {
            let events = fleet.events(&fake.0.name)?;
            ensure!(events.iter().any(|(kind, why, _)| kind == "Warning" && why == reason), "{events:?}");
            Ok(Some(()))
        })?;
    }
    Ok(())
}

#[test]
fn credential_without_renewal_is_reported() -> Result<()> {
    let fleet = OwnFleet::new("tokens-not")?;
    let fakes = [
        ("e2e-tokens-no-manager", short_lived(0), "True", "NoManager"),
        ("e2e-tokens-legacy", claims(json!({"iss": "kubernetes/serviceaccount"})), "True", "NoExpiry"),
        ("e2e-tokens-expired", claims(json!({"iat": 1, "exp": 601})), "False", "Expired"),
    ];
    let mut running = Vec::new();
    for (name, token, _, _) in &fakes {
        let fake = FakeMember::probed(name, |_| ok())?;
        fleet.register(name, &fake.secret(&json!({"token": token})))?;
        running.push(fake);
    }
    let _own = fleet.sidecar(&[SOON_RENEWED])?;
    for (name, _, status, reason) in &fakes {
        fleet.until(name, "CredentialValid", status, reason)?;
    }
    Ok(())
}

#[test]
fn new_token_that_the_member_refuses_is_not_written() -> Result<()> {
    let fleet = OwnFleet::new("tokens-bad")?;
    let fake = FakeMember::probed("e2e-tokens-bad", |request| {
        let fresh = request.values("authorization") == [format!("Bearer {}", short_lived(1))];
        match request.target() {
            target if target.ends_with("/token") => issued(1),
            _ if fresh => reply("401 Unauthorized", "", ""),
            _ => ok(),
        }
    })?;
    fleet.register(&fake.name, &fake.secret(&json!({"token": short_lived(0)})))?;
    fleet.secret("e2e-tokens-bad.manager", &fake.secret(&json!({"token": short_lived(0)})))?;
    let _own = fleet.sidecar(&[SOON_RENEWED])?;
    fleet.until(&fake.name, "CredentialValid", "True", "NewTokenRefused")?;
    ensure!(fleet.token("e2e-tokens-bad.member")? == short_lived(0), "it was written");
    Ok(())
}

/// The status of a sidecar's answer to a caller's GET of a member.
fn ask(own: &OwnSidecar, caller: &Caller, name: &str, path: &str) -> Result<u16> {
    let endpoint: Endpoint = own.endpoint(caller.certificate.as_deref())?;
    let request = format!("GET {} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", member_path(name, path));
    Ok(endpoint.exchange(request.as_bytes())?.status())
}

/// A fake member that issues tokens or answers token requests with this status.
struct Issuer(FakeMember);

impl Issuer {
    fn start(name: &str, status: &'static str) -> Result<Self> {
        let issued_so_far = Arc::new(AtomicUsize::new(0));
        FakeMember::probed(name, move |request: &Request| match request.target() {
            target if target.ends_with("/token") && status == "200 OK" => {
                issued(issued_so_far.fetch_add(1, Ordering::SeqCst) + 1)
            }
            target if target.ends_with("/token") => {
                let code: u16 =
                    status.split(' ').next().and_then(|code| code.parse().ok()).unwrap_or_default();
                let answer = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code,
                                    "message": "no"});
                reply(status, "Content-Type: application/json\r\n", &answer.to_string())
            }
            _ => ok(),
        })
        .map(Self)
    }
}

fn issued(number: usize) -> Vec<Step> {
    let answer = json!({
        "kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1", "metadata": {}, "spec": {"audiences": []},
        "status": {"token": short_lived(number), "expirationTimestamp": "2100-01-01T00:00:00Z"},
    });
    reply("201 Created", "Content-Type: application/json\r\n", &answer.to_string())
}

/// The fake members' tokens, which are valid for ten minutes. Each expires a second after the
/// previous one.
fn short_lived(number: usize) -> String {
    static BEGAN: std::sync::LazyLock<u64> = std::sync::LazyLock::new(|| {
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |now| now.as_secs())
    });
    let begins = *BEGAN + u64::try_from(number).unwrap_or_default();
    claims(json!({"iat": begins, "exp": begins + 600}))
}

fn claims(mut claims: Value) -> String {
    claims["sub"] = "system:serviceaccount:kubectl-mc-system:kubectl-mc-impersonator".into();
    unsigned_token(&claims)
}

/// The accounts of a member, in the test's own namespace.
struct Accounts {
    api: Api,
    namespace: String,
}

impl Accounts {
    fn new(namespace: &str) -> Result<Self> {
        let accounts = Self { api: Api::admin(member("m2")?)?, namespace: namespace.to_owned() };
        let api = &accounts.api;
        api.apply(
            &format!("/api/v1/namespaces/{namespace}"),
            &json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}),
        )?;
        for name in ["impersonator", "manager"] {
            api.apply(
                &accounts.path(&format!("serviceaccounts/{name}")),
                &json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}}),
            )?;
        }
        let rbac = format!("/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}");
        api.apply(
            &format!("{rbac}/roles/manager"),
            &json!({
                "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "manager"},
                "rules": [{
                    "apiGroups": [""], "resources": ["serviceaccounts/token"], "verbs": ["create"],
                    "resourceNames": ["impersonator", "manager"],
                }],
            }),
        )?;
        api.apply(
            &format!("{rbac}/rolebindings/manager"),
            &json!({
                "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
                "metadata": {"name": "manager"},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "manager"},
                "subjects": [{"kind": "ServiceAccount", "name": "manager", "namespace": namespace}],
            }),
        )?;
        Ok(accounts)
    }

    fn path(&self, object: &str) -> String {
        format!("/api/v1/namespaces/{}/{object}", self.namespace)
    }

    /// A token of ten minutes, the minimum.
    fn token(&self, account: &str) -> Result<String> {
        let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
                             "spec": {"expirationSeconds": 600}});
        let answer = self.api.create(&self.path(&format!("serviceaccounts/{account}/token")), &request)?;
        Ok(answer["status"]["token"].as_str().context("no token")?.to_owned())
    }

    /// Whether the member authenticates this token.
    fn accepts(&self, token: &str) -> Result<bool> {
        let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview",
                            "spec": {"token": token}});
        let answer = self.api.create("/apis/authentication.k8s.io/v1/tokenreviews", &review)?;
        Ok(answer["status"]["authenticated"] == true)
    }
}
