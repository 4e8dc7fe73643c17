//! With the sidecar in front of Karmada's own server, requests for Clusters reach that server as the caller,
//! and requests for members reach the members.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use harness::bed::bed;
use harness::caller::Caller;
use harness::http1::Endpoint;
use harness::karmada::{InPlace, server};
use harness::plain_requests::request;
use harness::scene::{Scene, grant};
use harness::tool::Tool;
use harness::wait::{SOON, eventually};
use serde_json::{Value, json};

#[test]
fn clusters_and_members_share_one_path() -> Result<()> {
    let karmada = start("in-place")?;
    let scene = Scene::new("in-place")?;
    let user = Caller::certificate("e2e-in-place-user", &["e2e-in-place-ops"])?;
    let admin = admin_plugin()?;
    karmada.join(JOINED, &scene.member)?;
    harness::karmada::Karmada::unified_auth(&scene.member, &[&user.user], &[], &["e2e-in-place-ops"])?;
    scene.allow(&user)?;
    allow(&karmada, &user)?;
    karmada.fleet.until(JOINED, "Ready", "True", "Ready")?;
    scene.pod("shell", "sleep 1000000")?;

    let before = api_service(&karmada)?;
    let service = karmada.service()?;
    let authority = karmada.sidecar.sidecar.ca_certificate.display().to_string();
    let apply =
        ["hub-api", "apply", "--for=karmada", "--service", &service, "--certificate-authority", &authority];
    let shown = admin.ok(&[&apply[..], &["--dry-run"]].concat())?;
    ensure!(shown.contains("(server dry run)") && api_service(&karmada)? == before, "{shown}");
    let applied = admin.ok(&apply)?;
    ensure!(applied.contains("instead of Service karmada-system/karmada-aggregated-apiserver"), "{applied}");
    let again = admin.ok(&apply)?;
    ensure!(again.contains("leads to the sidecar already"), "{again}");

    // Through the host, the caller reads, writes and watches Karmada's objects.
    let kubectl = Tool::kubectl(&user)?;
    // The host refreshes the group's discovery at its own interval.
    let listed = eventually("the host lists the resource", SOON, || {
        kubectl
            .ok(&["get", "clusters.cluster.karmada.io", JOINED])
            .map(Some)
            .with_context(|| aggregated(&karmada))
    })?;
    ensure!(listed.contains("VERSION") && listed.contains("MODE"), "the server's own columns: {listed}");
    kubectl.ok(&["label", "clusters.cluster.karmada.io", JOINED, "seen=here"])?;
    let explained =
        kubectl.ok(&["explain", "clusters.spec.apiEndpoint", "--api-version=cluster.karmada.io/v1alpha1"])?;
    ensure!(explained.contains("apiEndpoint"), "{explained}");
    let mut watching = kubectl.start(&[
        "get",
        "clusters.cluster.karmada.io",
        "-w",
        "-o",
        "jsonpath={.metadata.labels.seen} ",
    ])?;
    watching.wait_for("here", SOON)?;
    kubectl.ok(&["label", "--overwrite", "clusters.cluster.karmada.io", JOINED, "seen=again"])?;
    watching.wait_for("again", SOON)?;
    drop(watching);
    let may_not = kubectl.run(&["delete", "clusters.cluster.karmada.io", JOINED])?;
    may_not.failure(&["Forbidden", &user.user])?;

    // The member is on the same path.
    let member = Tool::kubectl(&Caller::certificate(&user.user, &["e2e-in-place-ops"])?.edit(|config| {
        let host = bed().map_or("", |bed| &bed.host.server);
        let server = &mut config["clusters"][0]["cluster"]["server"];
        *server = format!("{host}{CLUSTERS}/{JOINED}/proxy").into();
    })?)?;
    let echoed = member.ok(&["exec", "-n", &scene.name, "shell", "--", "echo", "here"])?;
    ensure!(echoed == "here\n", "{echoed}");
    let seen = member.ok(&["auth", "whoami", "-o", "jsonpath={.status.userInfo.groups}"])?;
    ensure!(seen.contains("\"e2e-in-place-ops\""), "{seen}");

    let removed = admin.ok(&["hub-api", "remove", "--for=karmada"])?;
    ensure!(
        removed.contains("leads to Service karmada-system/karmada-aggregated-apiserver again"),
        "{removed}"
    );
    ensure!(api_service(&karmada)? == before, "it is not as it was");
    eventually("the host lists the resource", SOON, || {
        kubectl
            .ok(&["get", "clusters.cluster.karmada.io", JOINED])
            .map(Some)
            .with_context(|| aggregated(&karmada))
    })?;
    Ok(())
}

#[test]
fn failed_takeover_of_the_group_restores_the_apiservice() -> Result<()> {
    let karmada = start("in-place-not")?;
    let before = api_service(&karmada)?;
    let admin = admin_plugin()?;
    // The bed's sidecar runs without the necessary flags.
    let failed = admin.run(&["hub-api", "apply", "--for=karmada", "--timeout=3s"])?;
    failed.failure(&["did not serve the group", "the APIService is as it was", "--karmada-server"])?;
    ensure!(api_service(&karmada)? == before, "it is not as it was");
    let roles = karmada.host.get("/apis/rbac.authorization.k8s.io/v1/clusterroles")?.to_string();
    ensure!(!roles.contains("mc-sidecar-hub-api"), "the right to the APIService is left");
    eventually("Karmada's server answers", SOON, || karmada.host.get(CLUSTERS).map(Some))?;
    Ok(())
}

#[test]
fn forged_identity_is_not_forwarded() -> Result<()> {
    let karmada = start("in-place-forged")?;
    let stranger = Caller::certificate("e2e-in-place-stranger", &[])?;
    let endpoint = directly(&karmada, &stranger)?;
    for lines in [
        "",
        "X-Remote-User: admin\r\nX-Remote-Group: system:masters\r\n",
        "X_Remote_User: admin\r\nX-Remote-Extra-A: b\r\n",
        "Connection: X-Remote-User\r\nX-Remote-User: admin\r\n",
    ] {
        let get = format!("GET {CLUSTERS} HTTP/1.1\r\nHost: x\r\n{lines}Connection: close\r\n\r\n");
        let answer = endpoint.exchange(get.as_bytes())?;
        ensure!(
            answer.status() == 403 && answer.text().contains(&stranger.user),
            "{lines:?}: {}",
            answer.text()
        );
    }
    // Only the group has the right to read it.
    let reader = Caller::certificate("e2e-in-place-reader", &["e2e-in-place-readers"])?;
    let group =
        json!({"kind": "Group", "name": "e2e-in-place-readers", "apiGroup": "rbac.authorization.k8s.io"});
    role(&karmada, "e2e-in-place-readers", &["get", "list", "watch"], &group)?;
    let answer = eventually("the group may read", SOON, || {
        let answer = directly(&karmada, &reader)?.exchange(request(&reader, CLUSTERS).as_bytes())?;
        ensure!(answer.status() == 200, "{}", answer.text());
        Ok(Some(answer))
    })?;
    ensure!(
        answer.head.value("x-kubectl-mc-hop") == Some("karmada-aggregated-apiserver"),
        "{:?}",
        answer.head
    );
    // Another parser could find a member's proxy in these paths, and send a request to it as the
    // caller.
    for rest in ["/m1%2Fproxy/api", "/m1//proxy/api", "/%6d1"] {
        let answer = directly(&karmada, &reader)?
            .exchange(request(&reader, &format!("{CLUSTERS}{rest}")).as_bytes())?;
        ensure!(answer.status() == 404, "{rest}: {}", answer.text());
    }
    Ok(())
}

#[test]
fn agent_reads_and_changes_only_its_own_cluster() -> Result<()> {
    let karmada = start("in-place-agent")?;
    for name in [JOINED, "e2e-in-place-next"] {
        karmada.join(name, "m2")?;
    }
    let agent = Caller::certificate(&format!("system:karmada:agent:{JOINED}"), &["system:karmada:agents"])?;
    let subject =
        json!({"kind": "Group", "name": "system:karmada:agents", "apiGroup": "rbac.authorization.k8s.io"});
    role(&karmada, "e2e-in-place-agents", &["*"], &subject)?;
    let endpoint = directly(&karmada, &agent)?;
    let list = |query: &str| -> Result<Vec<String>> {
        let answer = endpoint.exchange(request(&agent, &format!("{CLUSTERS}{query}")).as_bytes())?;
        ensure!(answer.status() == 200, "{}", answer.text());
        let list: Value = serde_json::from_str(&answer.text())?;
        let names = list["items"].as_array().context("no list")?.iter();
        Ok(names.filter_map(|item| item["metadata"]["name"].as_str().map(str::to_owned)).collect())
    };
    eventually("the agent may list", SOON, || list("").map(Some))?;
    ensure!(list("")? == [JOINED], "{:?}", list("")?);
    ensure!(list("?fieldSelector=metadata.name%3De2e-in-place-next")?.is_empty());

    let path = format!("{CLUSTERS}/{JOINED}");
    let send = |method: &str, kind: &str, body: &str| -> Result<(u16, String)> {
        let length = body.len();
        let sent = format!(
            "{method} {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/{kind}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
        );
        let answer = endpoint.exchange(sent.as_bytes())?;
        Ok((answer.status(), answer.text()))
    };
    let patch = |kind: &str, body: &str| send("PATCH", kind, body);
    let (status, text) = patch("merge-patch+json", r#"{"spec": {"region": "here"}}"#)?;
    ensure!(status == 200 && text.contains("here"), "{text}");
    for (kind, body, why) in [
        ("merge-patch+json", r#"{"spec": {"apiEndpoint": "https://evil.example"}}"#, "spec.apiEndpoint"),
        ("merge-patch+json", r#"{"spec": {"proxyURL": "http://evil.example"}}"#, "spec.proxyURL"),
        (
            "merge-patch+json",
            r#"{"spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}}"#,
            "spec.taints",
        ),
        ("merge-patch+json", r#"{"metadata": {"labels": {"env": "other"}}}"#, "metadata.labels"),
        (
            "merge-patch+json",
            r#"{"spec": {"secretRef": {"namespace": "karmada-cluster", "name": "e2e-in-place-next"}}}"#,
            "spec.secretRef",
        ),
    ] {
        let (status, text) = patch(kind, body)?;
        ensure!(status == 403 && text.contains(why), "{kind}: {status} {text}");
    }
    let other = format!("{CLUSTERS}/e2e-in-place-next");
    let answer = endpoint.exchange(request(&agent, &other).as_bytes())?;
    ensure!(answer.status() == 403 && answer.text().contains("may use Cluster"), "{}", answer.text());
    let huge = format!(r#"{{"metadata": {{"annotations": {{"a": "{}"}}}}}}"#, "x".repeat(2 << 20));
    let (status, text) = patch("merge-patch+json", &huge)?;
    ensure!(status == 413, "{status} {text}");
    // A request whose body never arrives ends at its timeout.
    let withheld = format!(
        "PATCH {path}?timeout=1s HTTP/1.1\r\nHost: x\r\nContent-Type: application/merge-patch+json\r\nContent-Length: 9\r\nConnection: close\r\n\r\n"
    );
    let answer = endpoint.exchange(withheld.as_bytes())?;
    ensure!(answer.status() == 504, "{}", answer.text());
    // Go merges the values of a repeated key, and a check would see only the last one.
    let own = karmada.host.get(&path)?.to_string();
    let secret = r#"{"namespace": "karmada-cluster", "name": "e2e-in-place-next"}"#;
    let evil = format!(r#"{{"secretRef": {secret}, "proxyURL": "http://evil.example"}}"#);
    let twice = format!(r#"{{"spec": {evil}, {}"#, own.trim_start_matches('{'));
    let (status, text) = send("PUT", "json", &twice)?;
    ensure!(status == 200, "{status} {text}");
    let spec = karmada.host.get(&path)?["spec"].clone();
    ensure!(spec["apiEndpoint"] == server("m2")? && spec["proxyURL"].is_null(), "{spec}");
    ensure!(spec["secretRef"]["name"] != "e2e-in-place-next", "{spec}");
    Ok(())
}

#[test]
fn unreachable_server_is_named_and_its_documents_stay() -> Result<()> {
    let karmada = start("in-place-away")?;
    let user = Caller::certificate("e2e-in-place-away", &["system:masters"])?;
    let get = |path: &str| directly(&karmada, &user)?.exchange(request(&user, path).as_bytes());
    let group = "/apis/cluster.karmada.io/v1alpha1";
    let known = get(group)?;
    ensure!(known.status() == 200 && known.text().contains("clusters/status"), "{}", known.text());
    karmada.relay()?.cut();
    let refused = get(CLUSTERS)?;
    let documents = get(group)?;
    karmada.relay()?.mend();
    let text = refused.text();
    ensure!(
        refused.status() == 503 && text.contains("karmada-aggregated-apiserver is unreachable"),
        "{text}"
    );
    ensure!(
        refused.head.value("x-kubectl-mc-hop") == Some("karmada-aggregated-apiserver"),
        "{:?}",
        refused.head
    );
    ensure!(documents.status() == 200 && documents.text() == known.text(), "{}", documents.text());
    eventually("it is used again", SOON, || {
        let answer = get(CLUSTERS)?;
        ensure!(answer.status() == 200, "{}", answer.text());
        Ok(Some(()))
    })
}

pub(super) fn start(name: &str) -> Result<InPlace> {
    InPlace::start(name, Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../sidecar/deploy")))
}

/// Grants a Karmada user the rights to read and label one Cluster, and to use it.
pub(super) fn allow(karmada: &InPlace, user: &Caller) -> Result<()> {
    let rule = |resource: &str, verbs: &[&str]| {
        let mut rule = json!({"apiGroups": ["cluster.karmada.io"], "resources": [resource], "verbs": verbs});
        if resource == "clusters/proxy" {
            // A right to all clusters would appear in the output of other tests' `access`.
            rule["resourceNames"] = json!([JOINED]);
        }
        rule
    };
    for (name, resource, verbs, verb, subresource) in [
        ("e2e-in-place-see", "clusters", &["get", "list", "watch", "patch"][..], "list", ""),
        ("e2e-in-place-use", "clusters/proxy", &["*"], "get", "proxy"),
    ] {
        let asked = json!({"group": "cluster.karmada.io", "resource": "clusters", "subresource": subresource, "verb": verb, "name": JOINED});
        grant(&karmada.host, name, user, &rule(resource, verbs), &asked)?;
    }
    Ok(())
}

pub(super) fn role(karmada: &InPlace, name: &str, verbs: &[&str], subject: &Value) -> Result<()> {
    let resources = ["clusters", "clusters/status", "clusters/scale", "clusters/finalize"];
    let rbac = "/apis/rbac.authorization.k8s.io/v1";
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": name},
        "rules": [{"apiGroups": ["cluster.karmada.io"], "resources": resources, "verbs": verbs}],
    });
    karmada.host.apply(&format!("{rbac}/clusterroles/{name}"), &role)?;
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
        "subjects": [subject],
    });
    karmada.host.apply(&format!("{rbac}/clusterrolebindings/{name}"), &binding)?;
    Ok(())
}

/// The group in the host's aggregated discovery.
fn aggregated(karmada: &InPlace) -> String {
    let accept = "Accept: application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
    let groups = karmada.host.with(&[accept]).get("/apis");
    groups.map_or_else(
        |error| format!("{error:#}"),
        |groups| {
            let all = groups["items"].as_array().into_iter().flatten();
            let of_hub = all.filter(|item| item["metadata"]["name"] == "cluster.karmada.io");
            of_hub.map(Value::to_string).collect()
        },
    )
}

/// The server of the group.
fn api_service(karmada: &InPlace) -> Result<Value> {
    let found =
        karmada.host.get("/apis/apiregistration.k8s.io/v1/apiservices/v1alpha1.cluster.karmada.io")?;
    Ok(json!([found["spec"], found["metadata"]["annotations"]["fleet.kubectl-mc.dev/replaced"]]))
}

pub(super) fn admin_plugin() -> Result<Tool> {
    Tool::plugin_at(Path::new(env!("CARGO_BIN_EXE_kubectl-mc")), &[&bed()?.host])
}

pub(super) fn directly(karmada: &InPlace, caller: &Caller) -> Result<Endpoint> {
    karmada.sidecar.endpoint(caller.certificate.as_deref())
}

pub(super) const JOINED: &str = "e2e-in-place";
const CLUSTERS: &str = "/apis/cluster.karmada.io/v1alpha1/clusters";
