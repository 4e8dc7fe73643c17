//! The sidecar serves members that Karmada registers as well as its own. The bed's host has
//! Karmada's Clusters and Secrets, and the members have the accounts and rights that Karmada
//! creates there.

use anyhow::{Context, Result, ensure};
use harness::caller::Caller;
use harness::fake_member::{FakeMember, ok};
use harness::http1::{Endpoint, SIDECAR_NAME, member_path};
use harness::karmada::{Karmada, NAMESPACE, server};
use harness::plain_requests::{Watch, get, request, serves};
use harness::scene::{EVERY_VERB, Scene, grant};
use harness::tool::Tool;
use harness::wait::{SOON, eventually};
use serde_json::{Value, json};

#[test]
fn karmada_grant_opens_only_members_of_karmada() -> Result<()> {
    let karmada = start("karmada-grants")?;
    let scene = Scene::new("karmada-grants")?;
    let [user, other] =
        ["user", "other"].map(|name| Caller::certificate(&format!("e2e-karmada-{name}"), &["e2e-ops"]));
    let (user, other, robot) = (user?, other?, Caller::service_account(&scene.name, "robot")?);
    let own = FakeMember::unregistered("e2e-karmada-own", |_| ok())?;
    karmada.fleet.register(&own.name, &own.secret(&json!({})))?;
    karmada.join(JOINED, &scene.member)?;
    Karmada::unified_auth(&scene.member, &[&user.user], &["robot"], &["e2e-ops"])?;
    for caller in [&user, &robot] {
        scene.allow(caller)?;
        grant_of_karmada(&karmada, caller, &[])?;
    }
    karmada.fleet.until(JOINED, "Ready", "True", "Ready")?;
    scene.pod("shell", "sleep 1000000")?;

    // Requests, watches and commands of a user, a group and a service account.
    let pods = member_path(JOINED, &format!("/api/v1/namespaces/{}/pods", scene.name));
    for caller in [&user, &robot] {
        let answer = get(&karmada.sidecar, caller, &pods)?;
        ensure!(answer.status() == 200 && answer.text().contains("shell"), "{}", answer.text());
        let kubectl = Tool::kubectl(&at_sidecar(&karmada, caller.clone())?)?;
        let echoed = kubectl.ok(&["exec", "-n", &scene.name, "shell", "--", "echo", "here"])?;
        ensure!(echoed == "here\n", "{echoed}");
    }
    // The member sees the groups of both, and derives those of the service account.
    for (caller, group) in [(&user, "e2e-ops"), (&robot, "system:serviceaccounts")] {
        let kubectl = Tool::kubectl(&at_sidecar(&karmada, caller.clone())?)?;
        let seen = kubectl.ok(&["auth", "whoami", "-o", "jsonpath={.status.userInfo.groups}"])?;
        ensure!(seen.contains(&format!("\"{group}\"")), "{seen}");
    }

    // Our own members stay hidden, and so does the host, whose own RBAC comes first.
    let hidden = get(&karmada.sidecar, &user, &member_path(&own.name, "/x"))?;
    let unknown = get(&karmada.sidecar, &user, &member_path("e2e-karmada-none", "/x"))?;
    ensure!((hidden.status(), unknown.status()) == (404, 404), "{} {}", hidden.text(), unknown.text());
    ensure!(own.requests("/x").is_empty());
    let shown = get(&karmada.sidecar, &user, "/apis/proxy.kubectl-mc.dev/v1alpha1/clusters")?.text();
    let shown: Value = serde_json::from_str(&shown)?;
    let names: Vec<_> = shown["items"].as_array().context("no list")?.iter().collect();
    ensure!(names.len() == 1 && names[0]["metadata"]["name"] == JOINED, "{names:?}");
    let labels = &names[0]["metadata"]["labels"];
    ensure!(labels["env"] == "karmada" && labels["fleet.kubectl-mc.dev/inventory"] == "karmada", "{labels}");
    let at_host = Endpoint::cluster(&harness::bed::bed()?.host, user.certificate.as_deref())?;
    ensure!(at_host.exchange(request(&user, &pods).as_bytes())?.status() == 403);

    // Our own API group authorizes this caller. The member still refuses, because Karmada grants
    // impersonation only of users in its own rules.
    scene.let_in(&other, &[JOINED], EVERY_VERB)?;
    let refused = get(&karmada.sidecar, &other, &pods)?;
    ensure!(refused.status() == 403, "{}", refused.text());
    ensure!(refused.text().contains("e2e-karmada-other"), "{}", refused.text());
    ensure!(refused.head.value("x-kubectl-mc-hop") == Some("member impersonation"), "{:?}", refused.head);
    // The member also refuses a host's administrator, who is sent as our group.
    let admin = Caller::certificate("e2e-karmada-admin", &["system:masters"])?;
    let refused = get(&karmada.sidecar, &admin, &pods)?;
    ensure!(
        refused.status() == 403 && refused.text().contains("kubectl-mc:host-admins"),
        "{}",
        refused.text()
    );
    Ok(())
}

#[test]
fn changes_and_attacks_by_clusters_end_watches() -> Result<()> {
    let karmada = start("karmada-changes")?;
    let scene = Scene::on("m2", "karmada-changes")?;
    let user = Caller::certificate("e2e-karmada-watcher", &[])?;
    let attacker = FakeMember::unregistered("e2e-karmada-attacker", |_| ok())?;
    let attackers = format!("https://{}", attacker.address);
    karmada.join(JOINED, "m2")?;
    // The Secrets of another member, which a Cluster might reference.
    karmada.join("e2e-karmada-other", "m1")?;
    Karmada::unified_auth("m2", &[&user.user], &[], &[])?;
    scene.allow(&user)?;
    grant_of_karmada(&karmada, &user, &[JOINED])?;
    karmada.fleet.until(JOINED, "Ready", "True", "Ready")?;
    let maps = member_path(JOINED, &format!("/api/v1/namespaces/{}/configmaps", scene.name));

    let of_other = |name: &str| json!({"namespace": NAMESPACE, "name": name});
    for (change, server, why) in [
        (json!({"secretRef": of_other("e2e-karmada-other")}), server("m2")?, "spec.secretRef is"),
        (
            json!({"impersonatorSecretRef": of_other("e2e-karmada-other-impersonator")}),
            server("m2")?,
            "spec.impersonatorSecretRef is",
        ),
        (json!({}), &*attackers.replace("https", "http"), "spec.apiEndpoint must begin with https://"),
        (json!({"insecureSkipTLSVerification": true}), &*attackers, "insecureSkipTLSVerification is refused"),
        (json!({"proxyHeader": {"x": "y"}}), server("m2")?, "spec.proxyHeader is not supported"),
    ] {
        let watch = Watch::begin(&karmada.sidecar, &user, &maps)?;
        karmada.cluster(JOINED, server, &change)?;
        watch.ended()?;
        let off = eventually("the proxy is off", SOON, || {
            let answer = get(&karmada.sidecar, &user, &maps)?;
            ensure!(answer.status() == 503 && answer.text().contains(why), "{}", answer.text());
            Ok(Some(answer))
        })?;
        ensure!(off.head.value("x-kubectl-mc-hop") == Some("proxy off"), "{:?}", off.head);
        eventually("the condition says why", SOON, || {
            let condition = karmada.fleet.condition(JOINED, "CredentialValid")?;
            ensure!(condition.reason == "NoConnection" && condition.message.contains(why), "{condition}");
            Ok(Some(()))
        })?;
        karmada.cluster(JOINED, self::server("m2")?, &json!({}))?;
        serves(&karmada.sidecar, &user, &maps)?;
    }

    // An attacker's server fails the member's verification and gets no request.
    let watching = Watch::begin(&karmada.sidecar, &user, &maps)?;
    karmada.cluster(JOINED, &attackers, &json!({}))?;
    watching.ended()?;
    let refused = get(&karmada.sidecar, &user, &maps)?;
    ensure!(refused.status() == 503, "{}", refused.text());
    karmada.fleet.until(JOINED, "Reachable", "False", "TLSAuthority")?;
    ensure!(attacker.requests("").is_empty(), "the attacker was sent {:?}", attacker.requests(""));
    karmada.cluster(JOINED, server("m2")?, &json!({}))?;
    serves(&karmada.sidecar, &user, &maps)?;

    // The Cluster is deleted.
    let watching = Watch::begin(&karmada.sidecar, &user, &maps)?;
    karmada.unjoin(JOINED)?;
    watching.ended()?;
    eventually("the member is not registered any more", SOON, || {
        let answer = get(&karmada.sidecar, &user, &maps)?;
        ensure!(answer.status() == 404, "{}", answer.text());
        Ok(Some(()))
    })
}

#[test]
fn name_in_both_inventories_is_a_reported_conflict() -> Result<()> {
    let karmada = start("karmada-conflict")?;
    let user = Caller::certificate("e2e-karmada-conflict-user", &[])?;
    let own = FakeMember::unregistered("e2e-karmada-conflict", |_| ok())?;
    karmada.fleet.register(&own.name, &own.secret(&json!({})))?;
    grant(
        &karmada.host,
        "e2e-karmada-conflict",
        &user,
        &rule("proxy.kubectl-mc.dev", &[]),
        &attributes("proxy.kubectl-mc.dev"),
    )?;
    let path = member_path(&own.name, "/which");
    serves(&karmada.sidecar, &user, &path)?;
    karmada.join(&own.name, "m2")?;
    let conflict = karmada.fleet.until(&own.name, "UniqueName", "False", "Conflict")?;
    ensure!(conflict.message.ends_with(&format!("requests go by Secret {}.member", own.name)), "{conflict}");
    karmada.fleet.until(&own.name, "Ready", "True", "Conflict")?;
    let before = own.requests("/which").len();
    serves(&karmada.sidecar, &user, &path)?;
    ensure!(own.requests("/which").len() > before, "it is served by another");
    karmada.unjoin(&own.name)?;
    karmada.fleet.until(&own.name, "Ready", "True", "Ready")?;
    serves(&karmada.sidecar, &user, &path)
}

/// A Cluster may reference other Secrets only if the flag permits it, and then the condition shows it.
#[test]
fn cluster_with_secret_references_has_a_condition() -> Result<()> {
    let karmada = Karmada::start("karmada-refs", RIGHTS, &["--inventory-allow-refs"])?;
    let scene = Scene::on("m2", "karmada-refs")?;
    let user = Caller::certificate("e2e-karmada-refs", &[])?;
    karmada.join(JOINED, "m2")?;
    Karmada::unified_auth("m2", &[&user.user], &[], &[])?;
    scene.allow(&user)?;
    grant_of_karmada(&karmada, &user, &[JOINED])?;
    let maps = member_path(JOINED, &format!("/api/v1/namespaces/{}/configmaps", scene.name));
    karmada.fleet.until(JOINED, "Ready", "True", "Ready")?;
    serves(&karmada.sidecar, &user, &maps)?;
    let has_condition = || -> Result<bool> {
        let member =
            karmada.host.get(&format!("/apis/fleet.kubectl-mc.dev/v1alpha1/memberclusters/{JOINED}"))?;
        let conditions = member["status"]["conditions"].as_array().context("no conditions")?.clone();
        Ok(conditions.iter().any(|condition| condition["type"] == "SecretsBound"))
    };
    ensure!(!has_condition()?);

    let token = karmada.host.get(&format!("/api/v1/namespaces/{NAMESPACE}/secrets/{JOINED}-impersonator"))?;
    karmada.secret("e2e-karmada-chosen", &json!({"token": token["data"]["token"]}))?;
    let chosen = json!({"impersonatorSecretRef": {"namespace": NAMESPACE, "name": "e2e-karmada-chosen"}});
    karmada.cluster(JOINED, server("m2")?, &chosen)?;
    let condition = karmada.fleet.until(JOINED, "SecretsBound", "False", "ChosenByReference")?;
    let reference = format!("spec.impersonatorSecretRef is {NAMESPACE}/e2e-karmada-chosen");
    ensure!(condition.message.contains(&reference), "{condition}");
    serves(&karmada.sidecar, &user, &maps)?;
    ensure!(karmada.sidecar.log()?.contains("the Cluster chooses Secrets by reference"));
    // The sidecar does not read Secrets of other namespaces.
    let elsewhere = json!({"impersonatorSecretRef": {"namespace": "kube-system", "name": "x"}});
    karmada.cluster(JOINED, server("m2")?, &elsewhere)?;
    eventually("the proxy is off", SOON, || {
        let answer = get(&karmada.sidecar, &user, &maps)?;
        ensure!(
            answer.status() == 503 && answer.text().contains("must be a Secret of namespace"),
            "{}",
            answer.text()
        );
        Ok(Some(()))
    })?;
    karmada.cluster(JOINED, server("m2")?, &json!({}))?;
    eventually("the condition is gone", SOON, || Ok((!has_condition()?).then_some(())))
}

const JOINED: &str = "e2e-karmada";
const RIGHTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../sidecar/deploy/karmada.yaml");

fn start(name: &str) -> Result<Karmada> {
    Karmada::start(name, RIGHTS, &[])
}

fn rule(group: &str, names: &[&str]) -> Value {
    json!({"apiGroups": [group], "resources": ["clusters/proxy"], "resourceNames": names, "verbs": ["*"]})
}

fn attributes(group: &str) -> Value {
    json!({"group": group, "resource": "clusters", "subresource": "proxy", "name": JOINED, "verb": "get"})
}

/// Grants a right only in Karmada's API group.
fn grant_of_karmada(karmada: &Karmada, caller: &Caller, names: &[&str]) -> Result<()> {
    let name = format!("e2e-{}", caller.user.replace(':', "-"));
    let group = "cluster.karmada.io";
    grant(&karmada.host, &name, caller, &rule(group, names), &attributes(group))
}

/// Uses the member's path at the test's own sidecar as the server, as with a direct endpoint.
fn at_sidecar(karmada: &Karmada, caller: Caller) -> Result<Caller> {
    let sidecar = &karmada.sidecar.sidecar;
    caller.edit(|config| {
        config["clusters"][0]["cluster"] = json!({
            "server": format!("{}{}", sidecar.url, member_path(JOINED, "")),
            "certificate-authority": sidecar.ca_certificate, "tls-server-name": SIDECAR_NAME,
        });
    })
}
