//! With `--karmada-member-rbac`, the sidecar maintains impersonation rights on Karmada's members,
//! so that whole identities reach them. Karmada's unified auth is not set up here.

use anyhow::{Result, ensure};
use harness::api::Api;
use harness::audit::{AuditLog, KARMADA, impersonated};
use harness::bed::member;
use harness::caller::Caller;
use harness::fake_member::{FakeMember, ok};
use harness::http1::member_path;
use harness::karmada::{Karmada, server};
use harness::plain_requests::serves;
use harness::scene::{Scene, grant};
use harness::wait::{SOON, eventually};
use serde_json::{Value, json};

#[test]
fn identities_reach_karmada_members_whole_by_written_rights() -> Result<()> {
    let karmada = Karmada::start("karmada-rights", RIGHTS, &["--karmada-member-rbac"])?;
    let scene = Scene::on("m2", "karmada-rights")?;
    let member_api = Api::admin(member("m2")?)?;
    let [certificate, token] =
        [Caller::certificate("e2e-karmada-rights", &["e2e-karmada-painters"]), Caller::token("ulrike")];
    let (certificate, token) = (certificate?, token?);
    for caller in [&certificate, &token] {
        scene.allow(caller)?;
        grant_of_karmada(&karmada, caller)?;
    }
    karmada.join(JOINED, "m2")?;
    karmada.fleet.until(JOINED, "AuthSynced", "True", "Synced")?;

    // No binding contains the groups: they are added on demand, because of the grant in Karmada's
    // API group.
    let maps = member_path(JOINED, &format!("/api/v1/namespaces/{}/configmaps", scene.name));
    let seen = |caller: &Caller| -> Result<Value> {
        // The member refuses the first request, and the waiting caller gets the rights on demand.
        serves(&karmada.sidecar, caller, &maps)?;
        let log = AuditLog::from_now(member("m2")?)?;
        serves(&karmada.sidecar, caller, &maps)?;
        Ok(impersonated(&log.request_of_karmada(&format!("/{}/", scene.name))?))
    };
    let user = seen(&certificate)?;
    ensure!(
        user == json!({
            "username": certificate.user, "groups": ["e2e-karmada-painters", "system:authenticated"],
            "extra": {"authentication.kubernetes.io/credential-id": [certificate.certificate_id()?]},
        }),
        "{user}"
    );
    let user = seen(&token)?;
    ensure!(
        user["uid"] == "uid-ulrike" && user["groups"] == json!(["dev", "ops", "system:authenticated"]),
        "{user}"
    );

    // Administrators of the host come as the group that the member's own RBAC decides about.
    let admin = Caller::certificate("e2e-karmada-rights-admin", &["system:masters"])?;
    ensure!(seen(&admin)?["groups"] == json!(["kubectl-mc:host-admins", "system:authenticated"]));

    // The right to write Clusters does not direct the account with all rights to another server.
    let attacker = FakeMember::unregistered("e2e-karmada-rights-attacker", |_| ok())?;
    karmada.cluster(JOINED, &format!("https://{}", attacker.address), &json!({}))?;
    karmada.fleet.until(JOINED, "AuthSynced", "False", "Unreachable")?;
    ensure!(attacker.requests("").is_empty(), "the attacker was sent {:?}", attacker.requests(""));
    karmada.cluster(JOINED, server("m2")?, &json!({}))?;
    karmada.fleet.until(JOINED, "AuthSynced", "True", "Synced")?;

    // A right ends with the grant.
    let right = json!({"verb": "impersonate", "resource": "users", "name": certificate.user});
    let may_be = || member_api.may(KARMADA, &[], &right);
    ensure!(may_be()?);
    karmada.host.delete(&format!("{RBAC}/clusterrolebindings/{}", name(&certificate)))?;
    eventually("the member refuses the user", SOON, || Ok((!may_be()?).then_some(())))?;
    karmada.unjoin(JOINED)?;
    for kind in ["clusterrolebindings", "clusterroles"] {
        member_api.delete(&format!("{RBAC}/{kind}/kubectl-mc-karmada-impersonator"))?;
    }
    Ok(())
}

const JOINED: &str = "e2e-karmada-rights";
const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
const RIGHTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../sidecar/deploy/karmada.yaml");

/// Grants a right only in Karmada's API group.
fn grant_of_karmada(karmada: &Karmada, caller: &Caller) -> Result<()> {
    let group = "cluster.karmada.io";
    let rule = json!({
        "apiGroups": [group], "resources": ["clusters/proxy"], "resourceNames": [JOINED], "verbs": ["*"],
    });
    let attributes = json!({"group": group, "resource": "clusters", "subresource": "proxy", "name": JOINED, "verb": "get"});
    grant(&karmada.host, &name(caller), caller, &rule, &attributes)
}

fn name(caller: &Caller) -> String {
    format!("e2e-karmada-rights-{}", caller.user)
}
