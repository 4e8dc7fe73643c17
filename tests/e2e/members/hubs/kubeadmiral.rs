//! The sidecar serves members that KubeAdmiral registers as well as its own, on the path that
//! KubeAdmiral's clients expect, through the host's kube-apiserver and directly.

use std::path::Path;

use anyhow::{Result, ensure};
use harness::bed::bed;
use harness::caller::Caller;
use harness::fake_member::{FakeMember, ok};
use harness::http1::{Endpoint, member_path};
use harness::karmada::server;
use harness::kubeadmiral::{AGGREGATIONS, KubeAdmiral};
use harness::plain_requests::{Watch, get, request, serves};
use harness::scene::{EVERY_VERB, Scene, grant};
use harness::tool::Tool;
use harness::wait::{SOON, eventually};
use serde_json::json;

#[test]
fn kubectl_works_on_the_path_of_kubeadmiral() -> Result<()> {
    let admiral = start("kubeadmiral-path")?;
    let scene = Scene::new("kubeadmiral-path")?;
    let own = FakeMember::unregistered("e2e-kubeadmiral-own", |_| ok())?;
    admiral.fleet.register(&own.name, &own.secret(&json!({})))?;
    admiral.join(JOINED, &scene.member)?;
    let user = Caller::certificate("e2e-kubeadmiral-user", &["e2e-ops"])?;
    let robot = Caller::service_account(&scene.name, "robot")?;
    for caller in [&user, &robot] {
        scene.allow(caller)?;
        let_in(&admiral, caller, &[JOINED, &own.name])?;
    }
    admiral.fleet.until(JOINED, "Ready", "True", "Ready")?;
    scene.pod("shell", "sleep 1000000")?;

    // Tests requests, commands and identity of a user and of a service account, through the host.
    for (caller, group) in [(user.clone(), "e2e-ops"), (robot, "system:serviceaccounts")] {
        let kubectl = Tool::kubectl(&caller.edit(|config| {
            let server = &mut config["clusters"][0]["cluster"]["server"];
            *server =
                format!("{}{AGGREGATIONS}/{JOINED}/proxy", bed().map_or("", |bed| &bed.host.server)).into();
        })?)?;
        let pods = kubectl.ok(&["get", "pods", "-n", &scene.name, "-o", "name"])?;
        ensure!(pods.contains("pod/shell"), "{pods}");
        let echoed = kubectl.ok(&["exec", "-n", &scene.name, "shell", "--", "echo", "here"])?;
        ensure!(echoed == "here\n", "{echoed}");
        let seen = kubectl.ok(&["auth", "whoami", "-o", "jsonpath={.status.userInfo.groups}"])?;
        ensure!(seen.contains(&format!("\"{group}\"")), "{seen}");
    }

    // The host lists the group like any other.
    let resources = admiral.host.get("/apis/aggregated.kubeadmiral.io/v1alpha1")?;
    ensure!(resources["resources"][1]["name"] == "aggregations/proxy", "{resources}");
    eventually("the host has merged the group's OpenAPI", SOON, || {
        let index = admiral.host.get("/openapi/v3")?;
        Ok(index["paths"].get("apis/aggregated.kubeadmiral.io/v1alpha1").map(drop))
    })?;

    // Our own member is not on this path, not even for an administrator, whose rights are not
    // checked.
    let of_own = format!("{AGGREGATIONS}/{}/proxy/x", own.name);
    let admin = Caller::certificate("e2e-kubeadmiral-admin", &["system:masters"])?;
    for caller in [&user, &admin] {
        for endpoint in [through_host(caller)?, directly(&admiral, caller)?] {
            let answer = endpoint.exchange(request(caller, &of_own).as_bytes())?;
            let text = answer.text();
            ensure!(
                answer.status() == 404 && text.contains("aggregations.aggregated.kubeadmiral.io"),
                "{text}"
            );
        }
    }
    ensure!(own.requests("/x").is_empty());

    // Rights in our API group do not count on this path, but rights on this path also give access
    // to KubeAdmiral's members on our path.
    let other = Caller::certificate("e2e-kubeadmiral-other", &[])?;
    scene.let_in(&other, &[JOINED], EVERY_VERB)?;
    let version = format!("{AGGREGATIONS}/{JOINED}/proxy/version");
    for endpoint in [through_host(&other)?, directly(&admiral, &other)?] {
        let answer = endpoint.exchange(request(&other, &version).as_bytes())?;
        ensure!(answer.status() == 403 && answer.text().contains("aggregations"), "{}", answer.text());
    }
    let ours = get(&admiral.sidecar, &user, &member_path(JOINED, "/version"))?;
    ensure!(ours.status() == 200, "{}", ours.text());
    let hidden = get(&admiral.sidecar, &user, &member_path(&own.name, "/x"))?;
    ensure!(hidden.status() == 404, "{}", hidden.text());
    Ok(())
}

#[test]
fn attacks_by_federated_clusters_end_watches() -> Result<()> {
    let admiral = start("kubeadmiral-attacks")?;
    let scene = Scene::on("m2", "kubeadmiral-attacks")?;
    let user = Caller::certificate("e2e-kubeadmiral-watcher", &[])?;
    let attacker = FakeMember::unregistered("e2e-kubeadmiral-attacker", |_| ok())?;
    admiral.join(JOINED, "m2")?;
    // The Secret of another member, which a FederatedCluster might reference.
    admiral.join("e2e-kubeadmiral-next", "m1")?;
    scene.allow(&user)?;
    let_in(&admiral, &user, &[JOINED])?;
    admiral.fleet.until(JOINED, "Ready", "True", "Ready")?;
    let maps = format!("{AGGREGATIONS}/{JOINED}/proxy/api/v1/namespaces/{}/configmaps", scene.name);
    let attackers = attacker.address.to_string();
    for (change, endpoint, why) in [
        (json!({"secretRef": {"name": "e2e-kubeadmiral-next"}}), server("m2")?, "spec.secretRef.name is"),
        (json!({}), &*format!("http://{attackers}"), "does not begin with https://"),
        (json!({"insecure": true}), &*attackers, "spec.insecure is refused"),
    ] {
        let watching = Watch::begin(&admiral.sidecar, &user, &maps)?;
        admiral.cluster(JOINED, endpoint, &change)?;
        watching.ended()?;
        eventually("the proxy is off and the condition says why", SOON, || {
            let answer = get(&admiral.sidecar, &user, &maps)?;
            ensure!(answer.status() == 503 && answer.text().contains(why), "{}", answer.text());
            let condition = admiral.fleet.condition(JOINED, "CredentialValid")?;
            ensure!(condition.reason == "NoConnection" && condition.message.contains(why), "{condition}");
            Ok(Some(()))
        })?;
        admiral.cluster(JOINED, server("m2")?, &json!({}))?;
        serves(&admiral.sidecar, &user, &maps)?;
    }

    // An attacker's server fails the member's verification and gets no request.
    let watching = Watch::begin(&admiral.sidecar, &user, &maps)?;
    admiral.cluster(JOINED, &attackers, &json!({}))?;
    watching.ended()?;
    let refused = get(&admiral.sidecar, &user, &maps)?;
    ensure!(refused.status() == 503, "{}", refused.text());
    admiral.fleet.until(JOINED, "Reachable", "False", "TLSAuthority")?;
    ensure!(attacker.requests("").is_empty(), "the attacker was sent {:?}", attacker.requests(""));
    admiral.cluster(JOINED, server("m2")?, &json!({}))?;
    serves(&admiral.sidecar, &user, &maps)?;

    let watching = Watch::begin(&admiral.sidecar, &user, &maps)?;
    admiral.unjoin(JOINED)?;
    watching.ended()?;
    eventually("the member is not registered any more", SOON, || {
        let answer = get(&admiral.sidecar, &user, &maps)?;
        ensure!(answer.status() == 404, "{}", answer.text());
        Ok(Some(()))
    })
}

const JOINED: &str = "e2e-kubeadmiral";

fn start(name: &str) -> Result<KubeAdmiral> {
    KubeAdmiral::start(name, Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../sidecar/deploy")))
}

/// Grants a right only in KubeAdmiral's API group.
fn let_in(admiral: &KubeAdmiral, caller: &Caller, names: &[&str]) -> Result<()> {
    let (group, resource) = ("aggregated.kubeadmiral.io", "aggregations");
    let rule = json!({
        "apiGroups": [group], "resources": [format!("{resource}/proxy")], "resourceNames": names, "verbs": ["*"],
    });
    let attributes = json!({
        "group": group, "resource": resource, "subresource": "proxy", "name": names[0], "verb": "get",
    });
    let name = format!("e2e-{}-admiral", caller.user.replace(':', "-"));
    grant(&admiral.host, &name, caller, &rule, &attributes)
}

fn through_host(caller: &Caller) -> Result<Endpoint> {
    Endpoint::cluster(&bed()?.host, caller.certificate.as_deref())
}

fn directly(admiral: &KubeAdmiral, caller: &Caller) -> Result<Endpoint> {
    admiral.sidecar.endpoint(caller.certificate.as_deref())
}
