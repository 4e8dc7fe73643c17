//! Builds admission policies for agents: they check the names of new objects, which no authorizer sees, and
//! their owners.
//!
//! The name of an object decides which cluster owns it; the owner annotation is checked in addition. Rules
//! read `object` and `oldObject` and never `request.name`, which is empty when a collection is deleted
//! (apiserver: `registry/rest/delete.go`).

use kubectl_mc_api::names::{KUBECTL_MC, MANAGED_BY};
use kubectl_mc_api::ownership::registration::Role;
use kubectl_mc_api::ownership::subject::{GENERATOR, GROUP, PREFIX};
use kubectl_mc_api::ownership::{Layout, OWNER, rbac};
use serde_json::{Value, json};

use super::cel::{HOLE, cel};
use crate::cluster::kubernetes_version::KubernetesVersion;

/// The policies with their bindings.
pub(super) fn objects(layout: &Layout, version: KubernetesVersion) -> Vec<Value> {
    let mut objects = judging(layout);
    if version >= MUTATING {
        objects.extend(stamp());
    }
    objects
}

/// All policies, including those that hosts of some versions lack, for their removal.
pub(super) fn all(layout: &Layout) -> Vec<Value> {
    objects(layout, MUTATING)
}

/// The two validating policies, with their bindings.
pub(super) fn judging(layout: &Layout) -> Vec<Value> {
    [validating(AGENTS, &agents(layout)), validating(REGISTRATION, &registration(layout))].concat()
}

/// Whether the host serves the policy that writes the owner.
pub(super) fn stamps(version: KubernetesVersion) -> bool {
    version >= MUTATING
}

/// The policy for the objects that agents write.
fn agents(layout: &Layout) -> Value {
    let Layout { cluster_namespace, agent_namespace, .. } = layout;
    json!({
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": [
            rule("", &["secrets"], &["CREATE", "UPDATE", "DELETE"]),
            rule("coordination.k8s.io", &["leases"], &["CREATE", "UPDATE", "DELETE"]),
            rule("work.karmada.io", &["works", "works/*"], &["CREATE", "UPDATE", "DELETE"]),
        ]},
        "matchConditions": [{"name": "agent", "expression": is_agent()}],
        "variables": [
            {"name": "cluster", "expression": cluster()},
            {"name": "target", "expression": "request.operation == 'DELETE' ? oldObject : object"},
            {"name": "name", "expression": NAME},
            {"name": "place", "expression": NAMESPACE},
            {"name": "owner", "expression": owner_of("object", "DELETE")},
            {"name": "oldOwner", "expression": owner_of("oldObject", "CREATE")},
            {"name": "oldAnnotations",
                "expression": "oldObject != null ? oldObject.metadata.?annotations.orValue({}) : {}"},
        ],
        "validations": [
            check(&format!(
                "request.resource.resource != 'secrets' || (variables.place == '{cluster_namespace}' && \
                 variables.name in [variables.cluster, variables.cluster + '-impersonator'])"
            ), "the Secret does not belong to the agent's cluster"),
            check(&format!(
                "request.resource.resource != 'leases' || \
                 (variables.place == '{cluster_namespace}' && variables.name == variables.cluster) || \
                 (variables.place == '{agent_namespace}' && variables.name == 'karmada-agent-' + variables.cluster)"
            ), "the Lease does not belong to the agent's cluster"),
            check(
                "request.resource.resource != 'works' || variables.place == 'karmada-es-' + variables.cluster",
                "the Work does not belong to the agent's cluster",
            ),
            // kube-controller-manager writes a token into a Secret of this type, and the agent could read it.
            check(&format!(
                "{NO_SECRET} || object.?type.orValue('{OWN_TYPE}') == '{OWN_TYPE}'"
            ), "an agent's Secret has type Opaque"),
            check(&format!(
                "{NO_SECRET} || object.metadata.?annotations.orValue({{}}).all(key, key == '{OWNER}' || \
                 (!key.startsWith('kubernetes.io/') && key in variables.oldAnnotations && \
                  variables.oldAnnotations[key] == object.metadata.annotations[key]))"
            ), "an agent may not annotate a Secret"),
            check(
                "request.operation != 'CREATE' || variables.owner in ['', variables.cluster]",
                "an agent may not create an object that another cluster owns",
            ),
            check(
                "request.operation != 'UPDATE' || variables.owner == variables.oldOwner",
                "an agent may not change the owner of an object",
            ),
            check(
                "request.operation == 'CREATE' || variables.oldOwner in ['', variables.cluster]",
                "another cluster owns the object",
            ),
        ],
    })
}

/// The policy for the objects that `karmadactl register` writes before an agent has its certificate.
fn registration(layout: &Layout) -> Value {
    let namespace = &layout.cluster_namespace;
    let all = ["CREATE", "UPDATE", "DELETE"];
    let names = format!(
        "request.resource.resource in ['clusterroles', 'clusterrolebindings'] ? \
         variables.name == 'system:karmada:' + variables.cluster + ':agent' : \
         (request.resource.resource == 'namespaces' || \
          (variables.place == '{namespace}' && variables.name == 'system:karmada:' + variables.cluster + ':agent-secret') || \
          (variables.place == 'karmada-es-' + variables.cluster && \
           variables.name == 'system:karmada:' + variables.cluster + ':agent-work'))"
    );
    let subjects = "request.operation == 'DELETE' || \
         !(request.resource.resource in ['clusterrolebindings', 'rolebindings']) || \
         (has(object.subjects) && object.subjects.size() == 1 && object.subjects[0].kind == 'User' && \
          object.subjects[0].name == 'system:karmada:agent:' + variables.cluster && \
          object.roleRef.name == variables.name && \
          object.roleRef.kind == (request.resource.resource == 'rolebindings' ? 'Role' : 'ClusterRole'))";
    let rules = "request.operation == 'DELETE' || !(request.resource.resource in ['clusterroles', 'roles']) || \
         (!has(object.aggregationRule) && \
          (!has(object.rules) || object.rules.all(rule, rule in variables.granted)))";
    let labels = format!(
        "request.operation == 'DELETE' || request.resource.resource == 'namespaces' || \
         object.metadata.?labels.orValue({{}}).all(key, key in ['{KARMADA_SYSTEM}', '{MANAGED_BY}'])"
    );
    json!({
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": [
            rule("", &["namespaces"], &all),
            rule(
                "rbac.authorization.k8s.io",
                &["clusterroles", "clusterrolebindings", "roles", "rolebindings"],
                &all,
            ),
        ]},
        "matchConditions": [{
            "name": "generator", "expression": format!("request.userInfo.username == '{GENERATOR}'"),
        }],
        "variables": [
            {"name": "target", "expression": "request.operation == 'DELETE' ? oldObject : object"},
            {"name": "name", "expression": NAME},
            {"name": "place", "expression": NAMESPACE},
            {"name": "part", "expression":
                "variables.name.startsWith('system:karmada:') ? variables.name.substring(15).split(':')[0] : \
                 (variables.name.startsWith('karmada-es-') ? variables.name.substring(11) : '')"},
            {"name": "cluster", "expression": known("variables.part")},
            {"name": "granted", "expression": granted(layout)},
        ],
        "validations": [
            check(&format!(
                "request.resource.resource != 'namespaces' || (request.operation == 'CREATE' && \
                 (variables.name == '{namespace}' || (variables.cluster != '' && \
                 variables.name == 'karmada-es-' + variables.cluster)))"
            ), "a registration may create only the namespaces of its cluster"),
            check(&names, "the object is not one of an agent"),
            check(subjects, "the binding is not of the agent of the cluster in its name"),
            check(rules, "the role has rights that no registration gives"),
            check(&labels, "a label can put the rights of an agent into other roles"),
        ],
    })
}

/// The rules that the role of a registration may have, in CEL: those of Karmada, and the narrower generated ones.
fn granted(layout: &Layout) -> String {
    let generated = rbac::objects(layout, HOLE);
    let rules = |role: Role| {
        let name = format!("system:karmada:{HOLE}:{}", role.suffix());
        let generated = generated.iter().filter(|object| object["metadata"]["name"] == *name);
        let generated = generated.filter_map(|object| object["rules"].as_array()).flatten().cloned();
        cel(&role.rules(HOLE).into_iter().chain(generated).collect())
    };
    format!(
        "request.resource.resource == 'clusterroles' ? {} : (variables.place == '{}' ? {} : {})",
        rules(Role::Agent),
        layout.cluster_namespace,
        rules(Role::Secret),
        rules(Role::Work)
    )
}

/// Sets the owner annotation on the objects that an agent creates, from the agent's user name alone.
pub(super) fn stamp() -> [Value; 2] {
    let annotations = format!("Object.metadata{{annotations: {{'{OWNER}': variables.cluster}}}}");
    let policy = json!({
        "apiVersion": ADMISSION, "kind": "MutatingAdmissionPolicy", "metadata": metadata(STAMP),
        "spec": {
            "failurePolicy": "Fail",
            "reinvocationPolicy": "IfNeeded",
            "matchConstraints": {"resourceRules": stamped()},
            "matchConditions": unowned(),
            "variables": [{"name": "cluster", "expression": cluster()}],
            "mutations": [{
                "patchType": "ApplyConfiguration",
                "applyConfiguration": {"expression": format!("Object{{metadata: {annotations}}}")},
            }],
        },
    });
    let binding = json!({
        "apiVersion": ADMISSION, "kind": "MutatingAdmissionPolicyBinding", "metadata": metadata(STAMP),
        "spec": {"policyName": STAMP},
    });
    [policy, binding]
}

/// The matched objects of that policy.
pub(super) fn stamped() -> [Value; 3] {
    [
        rule("", &["secrets"], &["CREATE"]),
        rule("coordination.k8s.io", &["leases"], &["CREATE"]),
        rule("work.karmada.io", &["works"], &["CREATE"]),
    ]
}

/// Matches an object without an owner that an agent creates.
pub(super) fn unowned() -> [Value; 2] {
    let unowned = format!("!has(object.metadata.annotations) || !('{OWNER}' in object.metadata.annotations)");
    [json!({"name": "agent", "expression": is_agent()}), json!({"name": "unowned", "expression": unowned})]
}

pub(super) fn validating(name: &str, spec: &Value) -> [Value; 2] {
    [
        json!({"apiVersion": ADMISSION, "kind": "ValidatingAdmissionPolicy", "metadata": metadata(name), "spec": spec}),
        json!({
            "apiVersion": ADMISSION, "kind": "ValidatingAdmissionPolicyBinding", "metadata": metadata(name),
            "spec": {"policyName": name, "validationActions": ["Deny"]},
        }),
    ]
}

pub(super) fn metadata(name: &str) -> Value {
    json!({"name": name, "labels": {MANAGED_BY: KUBECTL_MC}})
}

pub(super) fn rule(group: &str, resources: &[&str], operations: &[&str]) -> Value {
    json!({"apiGroups": [group], "apiVersions": ["*"], "resources": resources, "operations": operations})
}

pub(super) fn check(expression: &str, message: &str) -> Value {
    json!({"expression": expression, "message": message, "reason": "Forbidden"})
}

/// The same distinction between agents and other callers as in the authorizer.
pub(super) fn is_agent() -> String {
    format!(
        "request.userInfo.username.startsWith('{PREFIX}') || \
         (has(request.userInfo.groups) && '{GROUP}' in request.userInfo.groups)"
    )
}

/// The cluster of the agent, or an empty string.
fn cluster() -> String {
    let part = format!("request.userInfo.username.substring({})", PREFIX.len());
    format!("request.userInfo.username.startsWith('{PREFIX}') ? ({}) : ''", known(&part))
}

/// The name, if it belongs to a cluster with its own objects.
pub(super) fn known(part: &str) -> String {
    format!(
        "{part}.matches('^[a-z0-9]([-a-z0-9]{{0,46}}[a-z0-9])?$') && !{part}.endsWith('-impersonator') && \
         {part} != 'rbac-generator' ? {part} : ''"
    )
}

fn owner_of(object: &str, not_in: &str) -> String {
    format!(
        "request.operation != '{not_in}' && has({object}.metadata.annotations) && \
         '{OWNER}' in {object}.metadata.annotations ? {object}.metadata.annotations['{OWNER}'] : ''"
    )
}

/// Admission rules without the scope that the host adds by default.
pub(super) fn without_default_scope(rules: &Value) -> Value {
    let mut rules = rules.clone();
    for rule in rules.as_array_mut().into_iter().flatten().filter_map(Value::as_object_mut) {
        if rule.get("scope").is_some_and(|scope| scope == "*") {
            rule.remove("scope");
        }
    }
    rules
}

pub(super) const NAME: &str = "has(variables.target.metadata.name) ? variables.target.metadata.name : ''";
pub(super) const NAMESPACE: &str =
    "has(variables.target.metadata.namespace) ? variables.target.metadata.namespace : ''";
/// The label on what Karmada creates.
const KARMADA_SYSTEM: &str = "karmada.io/system";
/// The type of the Secrets that agents write.
pub(super) const OWN_TYPE: &str = "Opaque";
/// Matches requests that do not write a Secret.
const NO_SECRET: &str = "request.operation == 'DELETE' || request.resource.resource != 'secrets'";
pub(super) const ADMISSION: &str = "admissionregistration.k8s.io/v1";
const AGENTS: &str = "kubectl-mc-karmada-agents";
const REGISTRATION: &str = "kubectl-mc-karmada-registration";
const STAMP: &str = "kubectl-mc-karmada-owner";
/// The first version that serves MutatingAdmissionPolicies as v1 (KEP-3962).
const MUTATING: KubernetesVersion = KubernetesVersion::of(1, 36);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_never_read_the_name_of_the_request() {
        for version in ["v1.30.0", "v1.36.3"] {
            let objects = objects(&Layout::default(), KubernetesVersion::parse(version).unwrap());
            let text = serde_json::to_string(&objects).unwrap();
            assert!(!text.contains("request.name"), "{text}");
        }
    }

    #[test]
    fn mutating_policy_is_created_where_the_host_serves_it() {
        let kinds = |version: &str| {
            let objects = objects(&Layout::default(), KubernetesVersion::parse(version).unwrap());
            objects.iter().filter(|object| object["kind"] == "MutatingAdmissionPolicy").count()
        };
        assert_eq!([kinds("v1.30.0"), kinds("v1.35.4"), kinds("v1.36.3")], [0, 0, 1]);
    }
}
