//! The scene of one test: a namespace on a member with the test's name, and its own rights. Nothing
//! is removed afterwards: the bed is removed as a whole.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::api::Api;
use crate::bed::{host, member};
use crate::caller::Caller;
use crate::wait::{SOON, eventually};

/// A namespace `name` on `member`, and the rules that were created for it.
pub struct Scene {
    pub name: String,
    pub member: String,
    pub host: Api,
    pub api: Api,
}

impl Scene {
    /// On the member that has a node.
    pub fn new(name: &str) -> Result<Self> {
        Self::on("m1", name)
    }

    pub fn on(member_name: &str, name: &str) -> Result<Self> {
        let api = Api::admin(member(member_name)?)?;
        let scene = Self { name: format!("e2e-{name}"), member: member_name.to_owned(), host: host()?, api };
        scene.api.apply(
            &format!("/api/v1/namespaces/{}", scene.name),
            &json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": scene.name}}),
        )?;
        Ok(scene)
    }

    /// A caller with a certificate, named after the scene, who may do everything in it.
    pub fn caller(&self) -> Result<Caller> {
        let caller = Caller::certificate(&format!("{}-user", self.name), &[])?;
        self.welcome(&caller)?;
        Ok(caller)
    }

    /// Lets the caller reach the member, by RBAC of the host, and do everything in the namespace, by RBAC of
    /// the member.
    pub fn welcome(&self, caller: &Caller) -> Result<()> {
        self.let_in(caller, &[&self.member], EVERY_VERB)?;
        self.allow(caller)
    }

    /// On the host: grants these verbs on the proxies of these clusters, or of all if none is
    /// given.
    pub fn let_in(&self, caller: &Caller, clusters: &[&str], verbs: &[&str]) -> Result<()> {
        let mut rule = json!({"apiGroups": [PROXY_GROUP], "resources": ["clusters/proxy"], "verbs": verbs});
        if !clusters.is_empty() {
            rule["resourceNames"] = json!(clusters);
        }
        let attributes = json!({
            "group": PROXY_GROUP, "resource": "clusters", "subresource": "proxy",
            "name": clusters.first().unwrap_or(&"any"), "verb": verbs[0],
        });
        grant(&self.host, &format!("{}-{}", self.name, tag(caller)), caller, &rule, &attributes)
    }

    /// On the host: revokes what [`Self::let_in`] granted.
    pub fn shut_out(&self, caller: &Caller) -> Result<()> {
        let name = format!("{}-{}", self.name, tag(caller));
        self.host.delete(&format!("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/{name}"))?;
        Ok(())
    }

    /// On the host: grants get, list and watch of the clusters.
    pub fn let_list(&self, caller: &Caller) -> Result<()> {
        let rule = json!({
            "apiGroups": [PROXY_GROUP], "resources": ["clusters", "clusters/proxy"], "verbs": ["get", "list", "watch"],
        });
        let attributes =
            json!({"group": PROXY_GROUP, "resource": "clusters", "subresource": "proxy", "verb": "get"});
        grant(&self.host, &format!("{}-{}-list", self.name, tag(caller)), caller, &rule, &attributes)
    }

    /// On the member: grants everything in the namespace.
    pub fn allow(&self, caller: &Caller) -> Result<()> {
        let (role, binding) = ("roles", "rolebindings");
        let path = |kind: &str, name: &str| {
            format!("/apis/rbac.authorization.k8s.io/v1/namespaces/{}/{kind}/{name}", self.name)
        };
        let name = tag(caller);
        let rules = json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]);
        self.api.apply(&path(role, &name), &rbac_role("Role", &name, &rules))?;
        self.api.apply(&path(binding, &name), &rbac_binding("Role", &name, &caller.user))?;
        let attributes = json!({"namespace": self.name, "resource": "pods", "verb": "create"});
        granted(&self.api, caller, &attributes)
    }

    /// Starts a pod of the scene. `command` is run by sh.
    pub fn pod(&self, name: &str, command: &str) -> Result<()> {
        self.start_pod(name, &json!({"command": ["sh", "-c", command]}))
    }

    /// The same with other fields of the container.
    pub fn start_pod(&self, name: &str, container: &Value) -> Result<()> {
        let mut container = container.clone();
        container["name"] = json!("main");
        if container["image"].is_null() {
            container["image"] = json!("testbed.local/busybox:1");
        }
        container["imagePullPolicy"] = json!("Never");
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": name}},
            "spec": {
                "containers": [container], "restartPolicy": "Never", "automountServiceAccountToken": false,
                "terminationGracePeriodSeconds": 0,
            },
        });
        let path = format!("/api/v1/namespaces/{}/pods/{name}", self.name);
        // The controller that creates the namespace's default service account may need a moment.
        eventually("the pod is accepted", SOON, || self.api.apply(&path, &pod).map(Some))?;
        eventually("the pod runs", SOON, || {
            let pod = self.api.get(&path)?;
            let phase = pod["status"]["phase"].as_str().unwrap_or_default().to_owned();
            ensure!(phase != "Failed", "the pod failed: {}", pod["status"]);
            ensure!(phase == "Running" || phase == "Succeeded", "it is {phase}: {}", pod["status"]);
            Ok(Some(()))
        })
    }
}

/// Every verb of clusters/proxy, as in `kubectl-mc-edit`.
pub const EVERY_VERB: &[&str] = &["get", "create", "update", "patch", "delete"];

const PROXY_GROUP: &str = "proxy.kubectl-mc.dev";

/// Grants a rule to a caller, cluster-wide, and waits until the cluster's authorizer has it.
pub fn grant(api: &Api, name: &str, caller: &Caller, rule: &Value, attributes: &Value) -> Result<()> {
    let path = |kind: &str| format!("/apis/rbac.authorization.k8s.io/v1/{kind}/{name}");
    api.apply(&path("clusterroles"), &rbac_role("ClusterRole", name, &json!([rule])))?;
    api.apply(&path("clusterrolebindings"), &rbac_binding("ClusterRole", name, &caller.user))?;
    granted(api, caller, attributes)
}

fn granted(api: &Api, caller: &Caller, attributes: &Value) -> Result<()> {
    eventually("the rule is known", SOON, || {
        Ok(api.may(&caller.user, &caller.groups, attributes)?.then_some(()))
    })
}

fn rbac_role(kind: &str, name: &str, rules: &Value) -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": {"name": name}, "rules": rules,
    })
}

fn rbac_binding(role_kind: &str, name: &str, user: &str) -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": format!("{role_kind}Binding"),
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": role_kind, "name": name},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
    })
}

/// A caller's name for places where only a DNS label is allowed.
fn tag(caller: &Caller) -> String {
    let plain = |letter: char| if letter.is_ascii_alphanumeric() { letter.to_ascii_lowercase() } else { '-' };
    caller.user.chars().map(plain).collect()
}
