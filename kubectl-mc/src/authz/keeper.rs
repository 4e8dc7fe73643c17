//! Defines the rights with which the sidecar maintains the RBAC of agents (`--karmada-agent-rbac`),
//! the verbs `escalate` and `bind`, and the admission policy that restricts its account to the
//! objects of agents.
//!
//! With these verbs, RBAC no longer compares the written rights with those of the account. The policy replaces this
//! check for every RBAC object that the account writes. Roles and bindings of an agent must equal those of
//! [`rbac::objects`], from which the policy is generated. Those of a ClusterAccess may grant only the rights that the
//! account has without the verbs. The policy fails closed and is applied before the rights.

use kubectl_mc_api::cluster_access::HOST_PREFIX;
use kubectl_mc_api::names::{KARMADA_AGENT, KEPT_BY, KUBECTL_MC, MANAGED_BY, SIDECAR};
use kubectl_mc_api::ownership::{Layout, rbac};
use serde_json::{Value, json};

use super::cel::{HOLE, cel};
use super::policies::{self, check, metadata};

/// The policy with its binding.
pub(super) fn policy(layout: &Layout) -> [Value; 2] {
    policies::validating(NAME, &spec(layout))
}

/// The rights of the sidecar of this namespace.
pub(super) fn rights(namespace: &str) -> [Value; 2] {
    let rule = |resources: &[&str], verbs: &[&str]| json!({"apiGroups": [RBAC], "resources": resources, "verbs": verbs});
    let kinds = ["clusterroles", "clusterrolebindings", "roles", "rolebindings"];
    [
        json!({
            "apiVersion": format!("{RBAC}/v1"), "kind": "ClusterRole", "metadata": metadata(NAME),
            "rules": [
                {"apiGroups": ["cluster.karmada.io"], "resources": ["clusters"], "verbs": ["list", "watch"]},
                rule(&kinds, &["list", "watch", "create", "patch", "delete"]),
                rule(&["clusterroles", "roles"], &["escalate", "bind"]),
            ],
        }),
        json!({
            "apiVersion": format!("{RBAC}/v1"), "kind": "ClusterRoleBinding", "metadata": metadata(NAME),
            "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": NAME},
            "subjects": [{"kind": "ServiceAccount", "name": SIDECAR, "namespace": namespace}],
        }),
    ]
}

/// Whether an object is one of [`rights`].
pub(super) fn is_right(object: &Value) -> bool {
    let is_rbac = object["apiVersion"].as_str().is_some_and(|version| version.starts_with(RBAC));
    is_rbac && object["metadata"]["name"] == NAME
}

/// A ClusterRole that no caller can create while the policy is in force.
pub(super) fn probe() -> Value {
    json!({
        "apiVersion": format!("{RBAC}/v1"), "kind": "ClusterRole", "metadata": metadata(PROBE), "rules": [],
    })
}

fn spec(layout: &Layout) -> Value {
    let is_probe = format!(
        "request.resource.resource == 'clusterroles' && request.operation == 'CREATE' && \
         object.metadata.name == '{PROBE}'"
    );
    json!({
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": [policies::rule(
            RBAC,
            &["clusterroles", "clusterrolebindings", "roles", "rolebindings"],
            &["CREATE", "UPDATE", "DELETE"],
        )]},
        "matchConditions": [{
            "name": "sidecar",
            "expression": format!("request.userInfo.username.matches('{ACCOUNT}') || ({is_probe})"),
        }],
        "variables": [
            {"name": "target", "expression": "request.operation == 'DELETE' ? oldObject : object"},
            {"name": "name", "expression": policies::NAME},
            {"name": "place", "expression": policies::NAMESPACE},
            {"name": "part", "expression":
                "variables.name.startsWith('system:karmada:') ? variables.name.substring(15).split(':')[0] : ''"},
            {"name": "cluster", "expression": policies::known("variables.part")},
            {"name": "isWrite", "expression": "request.operation != 'DELETE'"},
            {"name": "isClusterWide",
                "expression": "request.resource.resource in ['clusterroles', 'clusterrolebindings']"},
            {"name": "isBinding",
                "expression": "request.resource.resource in ['clusterrolebindings', 'rolebindings']"},
            {"name": "wanted", "expression": wanted(layout)},
            {"name": "isAgents", "expression": "size(variables.wanted) == 3"},
            {"name": "isAccess",
                "expression": format!("variables.isClusterWide && variables.name.startsWith('{HOST_PREFIX}')")},
            {"name": "labels", "expression": "variables.isWrite ? object.metadata.?labels.orValue({}) : {}"},
            {"name": "oldLabels",
                "expression": "oldObject != null ? oldObject.metadata.?labels.orValue({}) : {}"},
        ],
        "validations": [
            check(
                "variables.isAgents || variables.isAccess",
                "the sidecar writes and deletes only roles and bindings of Karmada's agents and of ClusterAccesses",
            ),
            check(
                "!variables.isWrite || !variables.isAgents || (variables.isBinding ? \
                 (object.roleRef == variables.wanted.roleRef && has(object.subjects) && \
                  object.subjects == variables.wanted.subjects) : \
                 (!has(object.aggregationRule) && has(object.rules) && object.rules == variables.wanted.rules))",
                "not the rights of this agent: apply the policy with the flags and the version of the sidecar",
            ),
            check(
                &format!(
                    "!variables.isWrite || !variables.isAgents || variables.labels.all(key, \
                     (key == '{MANAGED_BY}' && variables.labels[key] == '{KUBECTL_MC}') || \
                     (key == '{KARMADA_AGENT}' && variables.labels[key] == variables.cluster) || \
                     key == '{KEPT_BY}' || \
                     (key in variables.oldLabels && variables.oldLabels[key] == variables.labels[key]))"
                ),
                "a label can put the rights of an agent into other roles",
            ),
            check(
                "!variables.isWrite || !variables.isAgents || \
                 (object.metadata.?finalizers.orValue([]).all(name, oldObject != null && \
                 name in oldObject.metadata.?finalizers.orValue([])) && \
                 object.metadata.?ownerReferences.orValue([]).all(owner, oldObject != null && \
                 oldObject.metadata.?ownerReferences.orValue([]).exists(old, old.uid == owner.uid)))",
                "the sidecar sets no finalizers and no owners on the roles of agents",
            ),
            check(
                "!variables.isWrite || !variables.isAccess || (variables.isBinding ? \
                 (object.roleRef.kind == 'ClusterRole' && object.roleRef.name == object.metadata.name) : \
                 (!has(object.aggregationRule) && has(object.rules) && object.rules.all(rule, \
                  !has(rule.nonResourceURLs) && rule.?apiGroups.orValue([]) == ['proxy.kubectl-mc.dev'] && \
                  (rule.?resources.orValue([]) == ['clusters/proxy'] || \
                   (rule.?resources.orValue([]) == ['clusters'] && rule.verbs == ['get'])))))",
                "a ClusterAccess gives what the sidecar has: clusters and their proxy",
            ),
        ],
    })
}

/// The rules, the roleRef and the subjects that the object of this name may have: in CEL, from the generated RBAC of a
/// cluster with a name that no cluster has.
fn wanted(layout: &Layout) -> String {
    let objects = rbac::objects(layout, HOLE);
    let mut choices = String::new();
    for pair in objects.chunks(2) {
        let [role, binding] = pair else { continue };
        let namespace = &role["metadata"]["namespace"];
        let place = if namespace.is_null() { Value::from("") } else { namespace.clone() };
        let scope = if namespace.is_null() { "variables.isClusterWide" } else { "!variables.isClusterWide" };
        choices += &format!(
            "{scope} && variables.place == {} && variables.name == {} ? {} : ",
            cel(&place),
            cel(&role["metadata"]["name"]),
            given(role, binding)
        );
    }
    format!("variables.cluster == '' ? {{}} : ({choices}{{}})")
}

/// The rules, the roleRef and the subjects of a role and its binding. The host takes values of one type in a map, unless they are `dyn`.
fn given(role: &Value, binding: &Value) -> String {
    format!(
        "{{'rules': dyn({}), 'roleRef': dyn({}), 'subjects': dyn({})}}",
        cel(&role["rules"]),
        cel(&binding["roleRef"]),
        cel(&binding["subjects"])
    )
}

/// The policy, the ClusterRole and their bindings.
pub(super) const NAME: &str = "kubectl-mc-karmada-keeper";
const PROBE: &str = "kubectl-mc-karmada-keeper-probe";
/// The sidecar's account, in any namespace.
const ACCOUNT: &str = "^system:serviceaccount:[^:]+:mc-sidecar$";
const RBAC: &str = "rbac.authorization.k8s.io";

#[cfg(test)]
mod tests;
