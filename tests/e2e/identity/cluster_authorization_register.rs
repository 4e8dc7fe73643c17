//! `karmadactl register` and `unregister` under Cluster Authorization, by the command that `authz token`
//! prints: with Karmada's own client, server, agent and rights of its chart. The test approves requests for
//! certificates in the place of karmada-controller-manager, and takes its finalizer off.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use harness::api::Api;
use harness::bed::{bed, member};
use harness::karmada_host::KarmadaHost;
use harness::tool::{Output, Tool};
use harness::turn::Turn;
use harness::wait::{SOON, eventually};
use serde_json::{Value, json};
use testbed::programs;

use super::cluster_authorization::program;

const CLUSTERS: &str = "/apis/cluster.karmada.io/v1alpha1/clusters";
const SECRETS: &str = "/api/v1/namespaces/karmada-cluster/secrets";
const REQUESTS: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
/// karmada-agent lists all Clusters.
const LISTS: &str = "--agents-list-clusters=Allow";

#[test]
fn karmadactl_registers_by_the_printed_command() -> Result<()> {
    // Tests of Karmada's inventory use the same namespaces of the member.
    let _turn = Turn::take("karmada")?;
    let host =
        KarmadaHost::with_karmada("k1", program())?.with_bootstrap_tokens()?.with_webhook_of(&[LISTS])?;
    host.open_registration()?;
    host.apply_generated(&["b", LISTS])?;
    host.api.create(CLUSTERS, &pull("b"))?;
    let scene = Scene { on_member: Api::admin(member("m2")?)?, host };
    let image = format!("--karmada-agent-image={}", bed()?.load_karmada_agent(member("m2")?)?);
    let printed = scene.host.plugin.ok(&["authz", "token", "a", "--ttl=1h"])?;
    let command: Vec<_> = printed.split_whitespace().collect();
    ensure!(command.first() == Some(&"karmadactl") && command.contains(&"--cluster-name=a"), "{printed}");
    let command = [&command[1..], &[image.as_str(), "--discovery-timeout=2m"]].concat();

    // The token is of cluster a alone.
    let stolen: Vec<_> = command
        .iter()
        .map(|&word| if word == "--cluster-name=a" { "--cluster-name=c" } else { word })
        .collect();
    scene.register(&stolen, 1)?.failure(&["kubectl-mc: ", "a certificate for system:karmada:agent:a"])?;
    for path in [format!("{CLUSTERS}/c"), format!("{ROLES}/system:karmada:c:agent")] {
        ensure!(scene.host.api.request("GET", &path, "", "")?.status() == 404, "{path} is left");
    }

    let registered = scene.register(&command, 2)?.success()?;
    ensure!(registered.contains("cluster(a) is joined successfully"), "{registered}");
    scene.becomes_ready()?;
    scene.agent_reaches_its_own_cluster_alone()?;
    scene.unregisters()
}

struct Scene {
    on_member: Api,
    host: KarmadaHost,
}

impl Scene {
    /// Runs `karmadactl register`, and approves that many requests for certificates.
    fn register(&self, command: &[&str], requests: usize) -> Result<Output> {
        let mut running = Tool::plugin_at(&programs::karmadactl(), &[member("m2")?])?.start(command)?;
        let kubectl = Tool::admin(self.host.cluster)?;
        let mut approved = 0;
        eventually("requests for certificates are made", 4 * SOON, || {
            let list = self.host.api.get(REQUESTS)?;
            for request in list["items"].as_array().into_iter().flatten() {
                if request["status"]["conditions"].is_null() {
                    let name = request["metadata"]["name"].as_str().context("no name")?;
                    kubectl.ok(&["certificate", "approve", name])?;
                    approved += 1;
                }
            }
            Ok((approved == requests || running.stays(Duration::from_millis(100)).is_err()).then_some(()))
        })?;
        running.finish(4 * SOON)
    }

    fn becomes_ready(&self) -> Result<()> {
        eventually("the agent has registered its cluster", 4 * SOON, || {
            self.host.api.get(&format!("{CLUSTERS}/a")).map(Some)
        })?;
        let finalizers = json!({"metadata": {"finalizers": ["karmada.io/cluster-controller"]}});
        self.host.api.merge(&format!("{CLUSTERS}/a"), &finalizers)?;
        eventually("the cluster is ready", 4 * SOON, || {
            let found = self.host.api.get(&format!("{CLUSTERS}/a"))?;
            let conditions = found["status"]["conditions"].as_array().into_iter().flatten();
            let is_ready = conditions.clone().any(|one| one["type"] == "Ready" && one["status"] == "True");
            ensure!(is_ready, "{found}");
            Ok(Some(()))
        })
    }

    /// With the credential that the registration left on the member, and the rights that it granted.
    fn agent_reaches_its_own_cluster_alone(&self) -> Result<()> {
        let secret = self.on_member.get("/api/v1/namespaces/karmada-system/secrets/karmada-kubeconfig")?;
        let kubeconfig = secret["data"]["karmada-kubeconfig"].as_str().context("no kubeconfig")?;
        let thief = Tool::admin(self.host.cluster)?;
        let file = thief.home().join("stolen");
        std::fs::write(&file, STANDARD.decode(kubeconfig)?)?;
        let thief = thief.env("KUBECONFIG", &file);
        let user = thief.ok(&["auth", "whoami", "-o", "jsonpath={.status.userInfo.username}"])?;
        ensure!(user == "system:karmada:agent:a", "{user}");
        thief.ok(&["get", "--raw", &format!("{SECRETS}/a")])?;
        for path in [
            format!("{CLUSTERS}/b"),
            format!("{SECRETS}/b"),
            SECRETS.to_owned(),
            "/apis/work.karmada.io/v1alpha1/namespaces/karmada-es-b/works".to_owned(),
        ] {
            thief.run(&["get", "--raw", &path])?.failure(&["Forbidden", "kubectl-mc: "])?;
        }
        Ok(())
    }

    /// karmadactl unregister works by the credential of the agent.
    fn unregisters(&self) -> Result<()> {
        let kubeconfig = format!("--cluster-kubeconfig={}", member("m2")?.kubeconfig.display());
        let karmadactl = Tool::plugin_at(&programs::karmadactl(), &[member("m2")?])?;
        let mut running = karmadactl.start(&["unregister", "a", &kubeconfig])?;
        eventually("the cluster is deleted", 2 * SOON, || {
            // This reads its output, too.
            let ended = running.stays(Duration::from_millis(100)).is_err();
            let answer = self.host.api.request("GET", &format!("{CLUSTERS}/a"), "", "")?;
            let found: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
            if found["metadata"]["deletionTimestamp"].is_string() {
                self.host.api.merge(&format!("{CLUSTERS}/a"), &json!({"metadata": {"finalizers": null}}))?;
            }
            Ok((ended || answer.status() == 404).then_some(()))
        })?;
        let text = running.finish(2 * SOON)?.success()?;
        let left = self.on_member.request(
            "GET",
            "/apis/apps/v1/namespaces/karmada-system/deployments/karmada-agent",
            "",
            "",
        )?;
        ensure!(left.status() == 404, "the agent is left: {text}");
        // unregister leaves the rights and lists them.
        self.host.api.get(&format!("{ROLES}/system:karmada:a:agent"))?;
        self.host.plugin.ok(&["authz", "remove", "--for=karmada", "a", "--yes"])?;
        let role = self.host.api.request("GET", &format!("{ROLES}/system:karmada:a:agent"), "", "")?;
        ensure!(role.status() == 404, "the rights are left");
        Ok(())
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        // What unregister deletes, for a test that failed before it.
        for path in [
            "/api/v1/namespaces/karmada-system",
            "/apis/rbac.authorization.k8s.io/v1/clusterroles/karmada-agent",
            "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/karmada-agent",
        ] {
            let _ = self.on_member.request("DELETE", path, "", "");
        }
    }
}

fn pull(name: &str) -> Value {
    json!({
        "apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster", "metadata": {"name": name},
        "spec": {"syncMode": "Pull", "apiEndpoint": "https://192.0.2.1:6443"},
    })
}
