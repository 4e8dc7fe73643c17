//! `karmadactl register` and `unregister` under Cluster Authorization, with the command that
//! `authz token` prints and with Karmada's own client, server, agent and the rights from its chart.
//! In between the agent's credential is stolen, and the procedure of the handbook
//! (`stolen-agent.md`) is carried out. The test stands in for karmada-controller-manager: it
//! approves requests for certificates and removes the finalizer.

use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
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
const REVIEWS: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
const REVIEW: &str = r#"{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}"#;
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
    let command = scene.command("a", &image)?;

    // The token belongs to cluster a alone.
    let stolen: Vec<_> =
        command.iter().map(|word| word.replace("--cluster-name=a", "--cluster-name=c")).collect();
    scene.register(&stolen, 1)?.failure(&["kubectl-mc: ", "a certificate for system:karmada:agent:a"])?;
    for path in [format!("{CLUSTERS}/c"), format!("{ROLES}/system:karmada:c:agent")] {
        ensure!(scene.host.api.request("GET", &path, "", "")?.status() == 404, "{path} is left");
    }

    let registered = scene.register(&command, 2)?.success()?;
    ensure!(registered.contains("cluster(a) is joined successfully"), "{registered}");
    scene.becomes_ready("a")?;
    let thief = scene.agent_reaches_its_own_cluster_alone()?;

    scene.stolen_agent_is_shut_out(&thief)?;
    scene.remove_old_agent()?;
    scene.register(&scene.command("d", &image)?, 2)?.success()?;
    scene.becomes_ready("d")?;
    scene.host.apply_generated(&["d", LISTS])?;
    let verified = scene.host.plugin.ok(&["authz", "verify", "--for=karmada", LISTS])?;
    ensure!(verified == "the agents of 2 clusters have exactly what they need\n", "{verified}");
    for path in [format!("{SECRETS}/a"), format!("{SECRETS}/d"), format!("{CLUSTERS}/d")] {
        thief.run(&["get", "--raw", &path])?.failure(&["Forbidden"])?;
    }
    scene.unregisters("d")
}

struct Scene {
    on_member: Api,
    host: KarmadaHost,
}

impl Scene {
    /// The arguments of the printed command that registers a cluster.
    fn command(&self, cluster: &str, image: &str) -> Result<Vec<String>> {
        let printed = self.host.plugin.ok(&["authz", "token", cluster, "--ttl=1h"])?;
        let command = printed.strip_prefix("karmadactl ").with_context(|| printed.clone())?;
        ensure!(command.contains(&format!(" --cluster-name={cluster} ")), "{printed}");
        let more = [image, "--discovery-timeout=2m"];
        Ok(command.split_whitespace().chain(more).map(str::to_owned).collect())
    }

    /// Runs `karmadactl register`, and approves this many requests for certificates.
    fn register(&self, command: &[String], requests: usize) -> Result<Output> {
        let command: Vec<_> = command.iter().map(String::as_str).collect();
        let mut running = Tool::plugin_at(&programs::karmadactl(), &[member("m2")?])?.start(&command)?;
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

    fn becomes_ready(&self, name: &str) -> Result<()> {
        let path = format!("{CLUSTERS}/{name}");
        eventually("the agent has registered its cluster", 4 * SOON, || self.host.api.get(&path).map(Some))?;
        let finalizers = json!({"metadata": {"finalizers": ["karmada.io/cluster-controller"]}});
        self.host.api.merge(&path, &finalizers)?;
        eventually("the cluster is ready", 4 * SOON, || {
            let found = self.host.api.get(&path)?;
            let conditions = found["status"]["conditions"].as_array().into_iter().flatten();
            let is_ready = conditions.clone().any(|one| one["type"] == "Ready" && one["status"] == "True");
            ensure!(is_ready, "{found}");
            Ok(Some(()))
        })
    }

    /// With the credential that the registration left on the member, and the rights that it granted. Returns
    /// kubectl with this credential.
    fn agent_reaches_its_own_cluster_alone(&self) -> Result<Tool> {
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
        Ok(thief)
    }

    /// The first two parts of the page: the agent loses its rights on the host, and the accounts on the
    /// member whose tokens it could read are replaced.
    fn stolen_agent_is_shut_out(&self, thief: &Tool) -> Result<()> {
        let stolen = ["a", "a-impersonator"].map(|name| {
            let secret = self.host.api.get(&format!("{SECRETS}/{name}"))?;
            let token = secret["data"]["token"].as_str().context("no token")?.to_owned();
            Api::bearer(member("m2")?, &String::from_utf8(STANDARD.decode(token)?)?)
        });
        let accepted = |api: &Result<Api>| -> Result<bool> {
            let api = api.as_ref().map_err(|error| anyhow!("{error:#}"))?;
            Ok(api.request("POST", REVIEWS, "application/json", REVIEW)?.status() == 201)
        };
        ensure!(accepted(&stolen[0])? && accepted(&stolen[1])?, "the credentials are none");

        let kubectl = Tool::admin(self.host.cluster)?;
        self.host.plugin.ok(&["authz", "remove", "--for=karmada", "a", "--yes"])?;
        let (user, group) = ("--as=system:karmada:agent:a", "--as-group=system:karmada:agents");
        eventually("the agent has no rights", SOON, || {
            let may =
                kubectl.run(&["auth", "can-i", "get", "secrets/a", "-n", "karmada-cluster", user, group])?;
            Ok((may.text() == "no\n").then_some(()))
        })?;
        thief.run(&["get", "--raw", &format!("{SECRETS}/a")])?.failure(&["Forbidden"])?;

        let at_member = Tool::admin(member("m2")?)?;
        at_member.ok(&[
            "-n",
            "karmada-cluster",
            "delete",
            "serviceaccount",
            "karmada-a",
            "karmada-impersonator",
        ])?;
        eventually("the member refuses the credentials", SOON, || {
            Ok((!accepted(&stolen[0])? && !accepted(&stolen[1])?).then_some(()))
        })
    }

    /// The Cluster on the host, and the agent with its objects on the member.
    fn remove_old_agent(&self) -> Result<()> {
        let at_member = Tool::admin(member("m2")?)?;
        at_member.ok(&["delete", "namespace", "karmada-system"])?;
        at_member.ok(&["delete", "clusterrole,clusterrolebinding", "karmada-agent"])?;
        self.host.api.merge(&format!("{CLUSTERS}/a"), &json!({"metadata": {"finalizers": null}}))?;
        let kubectl = Tool::admin(self.host.cluster)?;
        kubectl.ok(&["delete", "clusters.cluster.karmada.io", "a"])?;
        eventually("the Secrets of the cluster are deleted with it", SOON, || {
            let gone = ["a", "a-impersonator"].map(|name| {
                let answer = self.host.api.request("GET", &format!("{SECRETS}/{name}"), "", "");
                answer.is_ok_and(|answer| answer.status() == 404)
            });
            Ok((gone == [true, true]).then_some(()))
        })
    }

    /// karmadactl unregister uses the agent's credential.
    fn unregisters(&self, name: &str) -> Result<()> {
        let kubeconfig = format!("--cluster-kubeconfig={}", member("m2")?.kubeconfig.display());
        let karmadactl = Tool::plugin_at(&programs::karmadactl(), &[member("m2")?])?;
        let mut running = karmadactl.start(&["unregister", name, &kubeconfig])?;
        eventually("the cluster is deleted", 2 * SOON, || {
            // This reads its output as well.
            let ended = running.stays(Duration::from_millis(100)).is_err();
            let answer = self.host.api.request("GET", &format!("{CLUSTERS}/{name}"), "", "")?;
            let found: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
            if found["metadata"]["deletionTimestamp"].is_string() {
                self.host
                    .api
                    .merge(&format!("{CLUSTERS}/{name}"), &json!({"metadata": {"finalizers": null}}))?;
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
        // unregister does not delete the rights, but lists them.
        self.host.api.get(&format!("{ROLES}/system:karmada:{name}:agent"))?;
        self.host.plugin.ok(&["authz", "remove", "--for=karmada", name, "--yes"])?;
        let role = self.host.api.request("GET", &format!("{ROLES}/system:karmada:{name}:agent"), "", "")?;
        ensure!(role.status() == 404, "the rights are left");
        Ok(())
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        // Deletes what unregister would delete, in case a test failed before it.
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
