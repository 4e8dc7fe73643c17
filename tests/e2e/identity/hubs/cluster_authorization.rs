//! Cluster Authorization: the agent of a Karmada cluster may use the objects of its cluster and nothing else.
//! The sidecar's webhook decides this on kube-apiservers of the newest and of the oldest version, and of 1.34,
//! which reads the stable form of the configuration and serves no MutatingAdmissionPolicy.

use std::path::Path;
use std::time::Duration;

use anyhow::{Result, ensure};
use harness::karmada_host::{Agent, KarmadaHost};
use harness::tool::Output;
use harness::wait::{SOON, eventually};
use serde_json::{Value, json};

pub(crate) fn program() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_kubectl-mc"))
}

const CLUSTERS: &str = "/apis/cluster.karmada.io/v1alpha1/clusters";
const SECRETS: &str = "/api/v1/namespaces/karmada-cluster/secrets";
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/karmada-cluster/leases";

#[test]
fn agents_have_exactly_the_needed_rights_on_the_newest_host() -> Result<()> {
    let host = KarmadaHost::take("k1", program())?.with_webhook()?;
    matrix_is_exact(&host)?;
    own_work_passes_and_other_clusters_are_closed(&host)?;
    only_agents_notice_the_end_of_the_webhook(host)
}

#[test]
fn agents_have_exactly_the_needed_rights_on_the_oldest_host() -> Result<()> {
    matrix_is_exact(&KarmadaHost::take("k2", program())?.with_webhook()?)
}

#[test]
fn agents_have_exactly_the_needed_rights_on_1_34() -> Result<()> {
    let host = KarmadaHost::take("k3", program())?.with_webhook()?;
    matrix_is_exact(&host)?;
    own_work_passes_and_other_clusters_are_closed(&host)
}

#[test]
fn verify_without_the_webhook_names_each_lost_limit() -> Result<()> {
    let host = KarmadaHost::take("k1", program())?;
    host.apply_generated(&["a", "b", "--without-webhook"])?;
    settled(&host, &["--without-webhook", "--without-admission-webhook"], |output| {
        let text = output.text();
        let lost: Vec<_> =
            text.lines().filter(|line| line.contains("agent:a:")).map(without_reason).collect();
        let expected = [
            "too wide: system:karmada:agent:a: get certificatesigningrequests.certificates.k8s.io absent (absent)",
            "too wide: system:karmada:agent:a: get certificatesigningrequests.certificates.k8s.io b-x2x2x (other's)",
            "too wide: system:karmada:agent:a: get namespaces karmada-es-b/karmada-es-b (other's)",
        ];
        ensure!(output.code == 1 && lost == expected, "{text}");
        Ok(())
    })
}

/// Checks the reviews of `authz verify` with Karmada's RBAC of a registration, with the generated RBAC, and
/// where RBAC grants agents everything.
fn matrix_is_exact(host: &KarmadaHost) -> Result<()> {
    let verify = |grants: &str| {
        settled(host, &[], |output| {
            ensure!(output.code == 0, "with {grants}: {output:?}");
            ensure!(
                output.text().contains("the agents of 2 clusters have exactly what they need"),
                "{output:?}"
            );
            Ok(())
        })
    };
    host.grant_as_registered("a")?;
    host.grant_as_registered("b")?;
    // Without a cluster, only the policies are checked.
    host.apply_generated(&[])?;
    verify("Karmada's RBAC")?;
    let everything = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": {"name": EVERYTHING, "labels": {"app.kubernetes.io/managed-by": "kubectl-mc"}},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "system:karmada:agents"}],
    });
    let path = format!("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/{EVERYTHING}");
    host.api.apply(&path, &everything)?;
    verify("everything")?;
    host.api.delete(&path)?;
    host.apply_generated(&["a", "b"])?;
    verify("the generated RBAC")?;
    let doctor = host.plugin.run(&["doctor", "--no-streams"])?.text();
    ensure!(doctor.contains("an agent may not use objects of another cluster"), "{doctor}");
    Ok(())
}

fn own_work_passes_and_other_clusters_are_closed(host: &KarmadaHost) -> Result<()> {
    let (a, b) = (host.agent("a")?, host.agent("b")?);
    for (agent, own) in [(&a, "a"), (&b, "b")] {
        work_of_an_agent(agent, own)?;
    }
    for (method, path) in [
        ("GET", format!("{CLUSTERS}/b")),
        ("GET", CLUSTERS.to_owned()),
        ("GET", format!("{CLUSTERS}?fieldSelector=metadata.name%3Db")),
        ("GET", format!("{CLUSTERS}?watch=1&timeoutSeconds=1")),
        ("DELETE", format!("{CLUSTERS}/b")),
        ("DELETE", CLUSTERS.to_owned()),
        ("GET", format!("{CLUSTERS}/a/proxy/version")),
        ("GET", format!("{SECRETS}/b")),
        ("GET", SECRETS.to_owned()),
        ("DELETE", format!("{SECRETS}?fieldSelector=metadata.name%3Da")),
        ("GET", format!("{LEASES}/b")),
        ("GET", "/apis/work.karmada.io/v1alpha1/namespaces/karmada-es-b/works".to_owned()),
        ("GET", "/apis/work.karmada.io/v1alpha1/works".to_owned()),
        ("GET", "/apis/fleet.kubectl-mc.dev/v1alpha1/memberclusters".to_owned()),
        ("GET", "/metrics".to_owned()),
    ] {
        let text = a.expect(403, method, &path, None)?;
        ensure!(text.contains("kubectl-mc: "), "not the webhook's: {method} {path}: {text}");
    }
    let patched = json!({"status": {"kubernetesVersion": "v9"}});
    a.expect(403, "PATCH", &format!("{CLUSTERS}/b/status"), Some(&patched))?;
    // Impersonation of another user.
    let impersonating =
        host.cluster.client_certificate("system:karmada:agent:a", &["system:karmada:agents"])?;
    let endpoint = harness::http1::Endpoint::cluster(host.cluster, Some(&impersonating))?;
    let request = format!(
        "GET {SECRETS}/b HTTP/1.1\r\nHost: x\r\nConnection: close\r\nImpersonate-User: kubernetes-admin\r\n\r\n"
    );
    ensure!(endpoint.exchange(request.as_bytes())?.status() == 403, "an agent impersonates");
    // A certificate without the group gets its RBAC by user name, and the webhook decides by that
    // name.
    let lonely = host.cluster.client_certificate("system:karmada:agent:a", &[])?;
    let endpoint = harness::http1::Endpoint::cluster(host.cluster, Some(&lonely))?;
    let request = format!("GET {SECRETS}/a HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    ensure!(endpoint.exchange(request.as_bytes())?.status() == 403, "an agent without its group is let in");
    Ok(())
}

/// The requests of karmada-agent, in its order: registration, heartbeat, works, events, its certificate.
fn work_of_an_agent(agent: &Agent, own: &str) -> Result<()> {
    agent.expect(200, "GET", "/version", None)?;
    agent.expect(200, "GET", "/apis/cluster.karmada.io/v1alpha1", None)?;
    agent.expect(200, "GET", "/api/v1/namespaces/karmada-cluster", None)?;
    let secret = |name: &str| json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": {"token": "t"}});
    for name in [own.to_owned(), format!("{own}-impersonator")] {
        agent.expect(201, "POST", SECRETS, Some(&secret(&name)))?;
        agent.expect(200, "GET", &format!("{SECRETS}/{name}"), None)?;
        agent.expect(
            200,
            "PATCH",
            &format!("{SECRETS}/{name}"),
            Some(&json!({"stringData": {"token": "u"}})),
        )?;
    }
    let cluster = json!({
        "apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster", "metadata": {"name": own},
        "spec": {"syncMode": "Pull"},
    });
    agent.expect(201, "POST", CLUSTERS, Some(&cluster))?;
    let selected = format!("{CLUSTERS}?fieldSelector=metadata.name%3D{own}");
    agent.expect(200, "GET", &selected, None)?;
    agent.expect(200, "GET", &format!("{selected}&watch=1&timeoutSeconds=1"), None)?;
    let mut now: Value =
        serde_json::from_str(&agent.expect(200, "GET", &format!("{CLUSTERS}/{own}"), None)?)?;
    now["status"] = json!({"kubernetesVersion": "v1.36.3"});
    agent.expect(200, "PUT", &format!("{CLUSTERS}/{own}/status"), Some(&now))?;
    for (namespace, name) in
        [("karmada-cluster", own.to_owned()), ("karmada-system", format!("karmada-agent-{own}"))]
    {
        let path = format!("/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases");
        let lease = json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": name},
            "spec": {"holderIdentity": "one"},
        });
        agent.expect(201, "POST", &path, Some(&lease))?;
        let path = format!("{path}/{name}");
        let mut lease: Value = serde_json::from_str(&agent.expect(200, "GET", &path, None)?)?;
        lease["spec"]["holderIdentity"] = "two".into();
        agent.expect(200, "PUT", &path, Some(&lease))?;
    }
    let works = format!("/apis/work.karmada.io/v1alpha1/namespaces/karmada-es-{own}/works");
    let work = json!({
        "apiVersion": "work.karmada.io/v1alpha1", "kind": "Work", "metadata": {"name": "w"}, "spec": {"workload": {}},
    });
    agent.expect(201, "POST", &works, Some(&work))?;
    agent.expect(200, "GET", &works, None)?;
    agent.expect(200, "PATCH", &format!("{works}/w/status"), Some(&json!({"status": {"conditions": []}})))?;
    agent.expect(200, "DELETE", &format!("{works}/w"), None)?;
    agent.expect(200, "GET", "/api/v1/services", None)?;
    let event = json!({
        "apiVersion": "v1", "kind": "Event", "metadata": {"name": format!("e-{own}")}, "reason": "Test",
        "involvedObject": {"kind": "Work", "namespace": format!("karmada-es-{own}"), "name": "w"},
    });
    agent.expect(201, "POST", &format!("/api/v1/namespaces/karmada-es-{own}/events"), Some(&event))?;
    let review = json!({
        "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}},
    });
    agent.expect(201, "POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", Some(&review))?;
    Ok(())
}

fn only_agents_notice_the_end_of_the_webhook(mut host: KarmadaHost) -> Result<()> {
    let agent = host.agent("a")?;
    let own = format!("{SECRETS}/a");
    agent.expect(200, "GET", &own, None)?;
    let jane = host.cluster.client_certificate("jane", &["dev"])?;
    let jane = harness::http1::Endpoint::cluster(host.cluster, Some(&jane))?;
    let version = "GET /version HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    if let Some(mut webhook) = host.webhook.take() {
        ensure!(
            webhook.metric("mc_sidecar_authorization_webhook_decisions_total{result=\"denied\"}")? > 100.0
        );
        ensure!(
            webhook.metric("mc_sidecar_authorization_webhook_decisions_total{result=\"no_opinion\"}")?
                > 100.0
        );
        webhook.kill()?;
    }
    for _ in 0..3 {
        // A kube-apiserver reports a webhook that does not respond as its own error.
        let (code, text) = agent.ask("GET", &own, None)?;
        ensure!([403, 500].contains(&code), "{code}: {text}");
        host.api.get(&own)?;
        ensure!(jane.exchange(version.as_bytes())?.status() == 200, "a user notices");
    }
    host.start_webhook(&[])?;
    eventually("the agent is back", SOON + Duration::from_secs(30), || {
        Ok((agent.ask("GET", &own, None)?.0 == 200).then_some(()))
    })?;
    Ok(())
}

/// Runs `authz verify` until the host has read all rules.
fn settled(host: &KarmadaHost, more: &[&str], check: impl Fn(&Output) -> Result<()>) -> Result<()> {
    let command = ["authz", "verify", "--for=karmada", "a", "b"];
    eventually("the host has read the rules", SOON, || {
        check(&host.plugin.run(&[&command[..], more].concat())?)?;
        Ok(Some(()))
    })
}

fn without_reason(line: &str) -> &str {
    line.split(" (RBAC").next().unwrap_or_default()
}

const EVERYTHING: &str = "e2e-agents-may-do-everything";
