//! A thief of a member's manager token can make neither its account nor the impersonator an administrator.
//! RBAC limits which objects it writes, and the member's ValidatingAdmissionPolicy their content.

use anyhow::{Result, ensure};
use harness::api::Api;
use harness::managed::managed;
use harness::tool::Tool;
use harness::wait::{SOON, eventually};
use serde_json::{Value, json};

mod tokens;

#[test]
fn manager_reads_only_its_own_roles() -> Result<()> {
    let thief = managed()?.thief_of_manager()?;
    for path in [
        "/api/v1/secrets",
        "/api/v1/namespaces/kubectl-mc-system/secrets",
        "/api/v1/namespaces/kubectl-mc-system/pods",
        "/api/v1/namespaces",
        "/api/v1/namespaces/kubectl-mc-system/configmaps",
        "/apis/rbac.authorization.k8s.io/v1/clusterroles",
        "/apis/rbac.authorization.k8s.io/v1/clusterroles/cluster-admin",
        "/apis/rbac.authorization.k8s.io/v1/roles",
    ] {
        forbidden(&thief, "GET", path, &Value::Null)?;
    }
    // A list with this field selector counts as a read of the object with that name.
    thief.get(&format!("{RBAC}/roles?fieldSelector=metadata.name%3Dkubectl-mc-impersonator"))?;
    thief.get(&cluster_role())?;
    Ok(())
}

#[test]
fn manager_writes_only_the_impersonators_role_and_binding() -> Result<()> {
    let thief = managed()?.thief_of_manager()?;
    let everything = json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]);
    for name in ["kubectl-mc-manager", "cluster-admin", "mine"] {
        forbidden(
            &thief,
            "PATCH",
            &format!("{RBAC}/clusterroles/{name}"),
            &role("ClusterRole", name, &everything),
        )?;
        let binding = binding("ClusterRoleBinding", name, ("ClusterRole", "cluster-admin"), &manager());
        forbidden(&thief, "PATCH", &format!("{RBAC}/clusterrolebindings/{name}"), &binding)?;
        let path = format!("{RBAC}/namespaces/kubectl-mc-system/roles/{name}");
        forbidden(&thief, "PATCH", &path, &role("Role", name, &everything))?;
    }
    forbidden(
        &thief,
        "POST",
        &format!("{RBAC}/clusterrolebindings"),
        &binding("ClusterRoleBinding", OURS, ("ClusterRole", OURS), &manager()),
    )?;
    forbidden(&thief, "DELETE", &format!("{RBAC}/clusterroles/cluster-admin"), &Value::Null)
}

#[test]
fn manager_token_allows_the_sidecars_own_writes() -> Result<()> {
    let manager = managed()?.thief_of_manager()?;
    let rule = |resource: &str, names: Vec<String>| json!({"apiGroups": [""], "resources": [resource], "verbs": ["impersonate"], "resourceNames": names});
    // The rules have as many names as a large company needs, within the cost limit of a policy.
    let names = |what: &str| (0..4_000).map(|number| format!("e2e-{what}-{number:06}")).collect();
    let anybody =
        json!({"apiGroups": ["authentication.k8s.io"], "resources": ["*"], "verbs": ["impersonate"]});
    let mut users: Vec<String> = names("user");
    let account = "kubectl-mc:host:serviceaccount:ci:deployer";
    users.extend(["system:anonymous", "system:admin", account].map(str::to_owned));
    let mut groups: Vec<String> = names("group");
    groups.extend(
        [
            "kubectl-mc:host-admins",
            "kubectl-mc:host:serviceaccounts",
            "kubectl-mc:host:serviceaccounts:ci",
            "system:monitoring",
            "system:serviceaccounts",
            "system:serviceaccounts:ci",
            "system:authenticated:oauth",
            "system:cattle:authenticated",
        ]
        .map(str::to_owned),
    );
    let rules = json!([rule("users", users), rule("groups", groups), anybody]);
    let dry = |path: &str| format!("{path}?dryRun=All");
    let apply = |path: &str, object: &Value| {
        let path = format!("{path}?fieldManager=mc-sidecar&force=true&dryRun=All");
        let answer = manager.request("PATCH", &path, "application/apply-patch+yaml", &object.to_string())?;
        ensure!(answer.status() < 300, "{path}: {}", answer.text());
        Ok(())
    };
    apply(&cluster_role(), &role("ClusterRole", OURS, &rules))?;
    let account = json!({"kind": "ServiceAccount", "name": OURS, "namespace": "kubectl-mc-system"});
    apply(
        &format!("{RBAC}/clusterrolebindings/{OURS}"),
        &binding("ClusterRoleBinding", OURS, ("ClusterRole", OURS), &account),
    )?;
    for names in [vec!["robot".to_owned()], Vec::new()] {
        let rules = json!([rule("serviceaccounts", names)]);
        apply(&format!("{RBAC}/namespaces/default/roles/{OURS}"), &role("Role", OURS, &rules))?;
    }
    apply(
        &format!("{RBAC}/namespaces/default/rolebindings/{OURS}"),
        &binding("RoleBinding", OURS, ("Role", OURS), &account),
    )?;
    let gone = manager.request("DELETE", &dry(&format!("{RBAC}/namespaces/default/roles/{OURS}")), "", "")?;
    ensure!([200, 404].contains(&gone.status()), "{}", gone.text());
    Ok(())
}

#[test]
fn manager_grants_only_the_right_to_impersonate() -> Result<()> {
    for rules in [
        json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]),
        json!([{"apiGroups": [""], "resources": ["users"], "verbs": ["*"], "resourceNames": ["jane"]}]),
        json!([{"apiGroups": [""], "resources": ["users"], "verbs": ["impersonate", "get"], "resourceNames": ["jane"]}]),
        json!([{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}]),
        json!([{"nonResourceURLs": ["*"], "verbs": ["impersonate"]}]),
        json!([{"apiGroups": ["*"], "resources": ["users"], "verbs": ["impersonate"], "resourceNames": ["jane"]}]),
        json!([{"apiGroups": ["", "apps"], "resources": ["users"], "verbs": ["impersonate"], "resourceNames": ["jane"]}]),
        json!([{"apiGroups": [""], "resources": ["*"], "verbs": ["impersonate"], "resourceNames": ["jane"]}]),
        json!([{"apiGroups": [""], "resources": ["users", "groups"], "verbs": ["impersonate"], "resourceNames": ["jane"]}]),
        json!([{"apiGroups": [""], "resources": ["serviceaccounts"], "verbs": ["impersonate"]}]),
        json!([{"apiGroups": ["authentication.k8s.io"], "resources": ["users"], "verbs": ["impersonate:user-info"]}]),
        json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["impersonate-on:user-info:list"]}]),
    ] {
        refused_as_cluster_role(&rules, "nothing else")?;
    }
    Ok(())
}

#[test]
fn manager_grants_neither_refused_names_nor_all_names() -> Result<()> {
    let group = |names: Value| json!([{"apiGroups": [""], "resources": ["groups"], "verbs": ["impersonate"], "resourceNames": names}]);
    for name in [
        "system:masters",
        "kubeadm:cluster-admins",
        "system:nodes",
        "system:authenticated",
        "system:unauthenticated",
        "system:cluster-admins",
        "system:kube-anything",
        "system:bootstrappers",
        "system:bootstrappers:kubeadm:default-node-token",
        "system:serviceaccounts:",
        "system:serviceaccounts:a:b",
        "system:serviceaccounts:kube-public",
        "system:serviceaccounts:kubectl-mc-agent",
        "system:serviceaccounts:openshift-infra",
        "eks:kube-proxy-windows",
        "gke:nodepool:name:pool-1",
        "system:serviceaccounts:kube-system",
        "system:serviceaccounts:kubectl-mc-system",
        "kubectl-mc:other",
        "kubectl-mc:host:other",
        "kubectl-mc:host:serviceaccountsx",
    ] {
        refused_as_cluster_role(&group(json!(["dev", name])), "groups must be named")?;
    }
    let any_group = json!([{"apiGroups": [""], "resources": ["groups"], "verbs": ["impersonate"]}]);
    refused_as_cluster_role(&any_group, "groups must be named")?;
    refused_as_cluster_role(&group(json!([])), "groups must be named")?;
    let user = |names: Value| json!([{"apiGroups": [""], "resources": ["users"], "verbs": ["impersonate"], "resourceNames": names}]);
    for name in [
        "system:kube-controller-manager",
        "system:node:n1",
        "system:apiserver",
        "system:bootstrap:abcdef",
        "system:konnectivity-server",
        "eks:node-manager",
        "kubelet",
        "kube-apiserver",
        "kubectl-mc:x",
        "kubectl-mc:host:x",
        "kubectl-mc:host:serviceaccount",
    ] {
        refused_as_cluster_role(&user(json!(["jane", name])), "a user of the control plane")?;
    }
    refused_as_cluster_role(&user(json!([])), "users must be named")
}

#[test]
fn manager_cannot_aggregate_roles() -> Result<()> {
    let thief = managed()?.thief_of_manager()?;
    let mut aggregating = role("ClusterRole", OURS, &json!([]));
    aggregating["aggregationRule"] = json!({"clusterRoleSelectors": [{"matchLabels": {}}]});
    let words = "aggregate nothing";
    refused(&thief, "PATCH", &cluster_role(), &aggregating, words)?;
    let mut aggregated = role("ClusterRole", OURS, &json!([]));
    aggregated["metadata"]["labels"] = json!({"rbac.authorization.k8s.io/aggregate-to-view": "true"});
    refused(&thief, "PATCH", &cluster_role(), &aggregated, words)
}

#[test]
fn manager_sets_no_finalizer_and_no_owner() -> Result<()> {
    let thief = managed()?.thief_of_manager()?;
    let owner = json!({"apiVersion": "v1", "kind": "Namespace", "name": "default", "uid": "1"});
    for (field, value) in [("finalizers", json!(["example.com/stay"])), ("ownerReferences", json!([owner]))] {
        let mut cluster_role = role("ClusterRole", OURS, &json!([]));
        cluster_role["metadata"][field] = value.clone();
        refused(&thief, "PATCH", &self::cluster_role(), &cluster_role, "no finalizers and no owners")?;
        let mut role = role("Role", OURS, &json!([]));
        role["metadata"][field] = value;
        let path = format!("{RBAC}/namespaces/default/roles/{OURS}");
        refused(&thief, "PATCH", &path, &role, "no finalizers and no owners")?;
    }
    Ok(())
}

#[test]
fn manager_cannot_grant_control_plane_accounts() -> Result<()> {
    let thief = managed()?.thief_of_manager()?;
    let accounts = json!([{"apiGroups": [""], "resources": ["serviceaccounts"], "verbs": ["impersonate"]}]);
    for namespace in ["kube-system", "kube-public", "kube-node-lease", "kubectl-mc-system"] {
        let path = format!("{RBAC}/namespaces/{namespace}/roles/{OURS}");
        refused(
            &thief,
            "PATCH",
            &path,
            &role("Role", OURS, &accounts),
            "service accounts of the control plane",
        )?;
    }
    let path = format!("{RBAC}/namespaces/default/roles/{OURS}");
    let everything = json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]);
    refused(&thief, "PATCH", &path, &role("Role", OURS, &everything), "nothing else")
}

#[test]
fn manager_binds_only_the_impersonator() -> Result<()> {
    let thief = managed()?.thief_of_manager()?;
    let impersonator = json!({"kind": "ServiceAccount", "name": OURS, "namespace": "kubectl-mc-system"});
    for (namespace, binding) in [
        (None, binding("ClusterRoleBinding", OURS, ("ClusterRole", OURS), &manager())),
        (Some("kubectl-mc-system"), binding("RoleBinding", OURS, ("Role", OURS), &manager())),
        (
            Some("default"),
            binding(
                "RoleBinding",
                OURS,
                ("Role", OURS),
                &json!({"kind": "Group", "name": "system:authenticated"}),
            ),
        ),
        (Some("default"), binding("RoleBinding", OURS, ("ClusterRole", OURS), &impersonator)),
    ] {
        let path = match namespace {
            None => format!("{RBAC}/clusterrolebindings/{OURS}"),
            Some(namespace) => format!("{RBAC}/namespaces/{namespace}/rolebindings/{OURS}"),
        };
        refused(&thief, "PATCH", &path, &binding, "only the role kubectl-mc-impersonator is bound")?;
    }
    // RBAC refuses a binding to another role, because `bind` is granted only on one name.
    let admin = binding("RoleBinding", OURS, ("ClusterRole", "cluster-admin"), &impersonator);
    let path = format!("{RBAC}/namespaces/default/rolebindings/{OURS}");
    refused(&thief, "PATCH", &path, &admin, "grant RBAC permissions not currently held")
}

#[test]
fn manager_cannot_loosen_its_own_limits() -> Result<()> {
    let thief = managed()?.thief_of_manager()?;
    let admission = "/apis/admissionregistration.k8s.io/v1";
    for path in [
        format!("{admission}/validatingadmissionpolicies/kubectl-mc-manager"),
        format!("{admission}/validatingadmissionpolicybindings/kubectl-mc-manager"),
        format!("{admission}/validatingadmissionpolicies/kubectl-mc-manager-tokens"),
        format!("{admission}/validatingadmissionpolicybindings/kubectl-mc-manager-tokens"),
        "/api/v1/namespaces/kubectl-mc-system/configmaps/kubectl-mc-manager".to_owned(),
        "/api/v1/namespaces/kubectl-mc-system".to_owned(),
    ] {
        for method in ["PATCH", "DELETE"] {
            forbidden(&thief, method, &path, &json!({}))?;
        }
    }
    Ok(())
}

#[test]
fn manager_cannot_name_users_the_member_excludes() -> Result<()> {
    let managed = managed()?;
    let refused = json!({"spec": {"variables": [
        {"name": "refusedUsers", "expression": "['e2e-owner', 'e2e other']"},
        {"name": "refusedGroups", "expression": "['e2e-wheel']"},
        {"name": "refusedNamespaces", "expression": "['e2e-argocd']"},
    ]}});
    let words = ["patch", "validatingadmissionpolicy", "kubectl-mc-manager", "--patch", &refused.to_string()];
    Tool::admin(managed.cluster)?.ok(&words)?;
    let seen = refused_by_name();
    managed.prepare_anew()?;
    seen
}

fn refused_by_name() -> Result<()> {
    let rule = |resource: &str, name: &str| json!([{"apiGroups": [""], "resources": [resource], "verbs": ["impersonate"], "resourceNames": [name]}]);
    for (rules, words) in [
        (rule("users", "e2e-owner"), "a user of the control plane"),
        (rule("users", "e2e other"), "a user of the control plane"),
        (rule("groups", "e2e-wheel"), "groups must be named"),
    ] {
        // A kube-apiserver takes a moment to enforce a changed policy.
        eventually("the refusal is known", SOON, || refused_as_cluster_role(&rules, words).map(Some))?;
    }
    Ok(())
}

/// The member's policy refuses the impersonator's ClusterRole with these rules.
fn refused_as_cluster_role(rules: &Value, words: &str) -> Result<()> {
    refused(
        &managed()?.thief_of_manager()?,
        "PATCH",
        &cluster_role(),
        &role("ClusterRole", OURS, rules),
        words,
    )
}

/// Checks that RBAC refuses the request.
fn forbidden(thief: &Api, method: &str, path: &str, object: &Value) -> Result<()> {
    refused(thief, method, path, object, "cannot ")
}

/// Checks that the request is refused with this text. The thief uses dry runs, so nothing changes.
fn refused(thief: &Api, method: &str, path: &str, object: &Value, words: &str) -> Result<()> {
    let (parameters, content, body) = match method {
        "GET" => ("", "", String::new()),
        "PATCH" => {
            ("?fieldManager=thief&force=true&dryRun=All", "application/apply-patch+yaml", object.to_string())
        }
        "POST" if path.ends_with("/token") => ("", "application/json", object.to_string()),
        _ => ("?dryRun=All", "application/json", object.to_string()),
    };
    let answer = thief.request(method, &format!("{path}{parameters}"), content, &body)?;
    ensure!(
        answer.status() == 403 && answer.text().contains(words),
        "{method} {path} {object}: {} {}",
        answer.status(),
        answer.text()
    );
    Ok(())
}

fn cluster_role() -> String {
    format!("{RBAC}/clusterroles/{OURS}")
}

fn role(kind: &str, name: &str, rules: &Value) -> Value {
    json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": {"name": name}, "rules": rules})
}

/// A binding to a role; `kind` is the kind of the binding.
fn binding(kind: &str, name: &str, role_ref: (&str, &str), subject: &Value) -> Value {
    let api_group = "rbac.authorization.k8s.io";
    json!({
        "apiVersion": format!("{api_group}/v1"), "kind": kind, "metadata": {"name": name},
        "roleRef": {"apiGroup": api_group, "kind": role_ref.0, "name": role_ref.1}, "subjects": [subject],
    })
}

fn manager() -> Value {
    json!({"kind": "ServiceAccount", "name": "kubectl-mc-manager", "namespace": "kubectl-mc-system"})
}

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
const OURS: &str = "kubectl-mc-impersonator";
