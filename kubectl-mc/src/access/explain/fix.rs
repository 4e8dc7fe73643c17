//! Finds the command that grants what an authorizer refuses, using the first default role that
//! includes the right, or else a new role.

use http::Method;
use kubectl_mc_api::ClusterName;
use serde_json::Value;

use super::member::Question;
use crate::access::through;
use crate::next_command::quoted;

/// The user and the right that the command is for.
pub(super) struct Fix {
    /// `kubectl mc` with the flags that address the host.
    kubectl_mc: String,
    cluster: ClusterName,
    /// The flags of `access grant` for the user.
    subject: String,
    /// The rights of the request, the one that names a new role last.
    attributes: Vec<Value>,
    /// The role that includes the rights.
    role: Option<String>,
}

impl Fix {
    /// Checks the member's default roles, or built-in copies of them if the caller may not read
    /// them.
    pub(super) async fn find(question: &Question<'_>) -> Self {
        let attributes: Vec<Value> = question.rights.iter().map(|right| right.attributes.clone()).collect();
        let mut role = None;
        for name in USUAL {
            let path = format!("/apis/rbac.authorization.k8s.io/v1/clusterroles/{name}");
            let Question { host, member, cluster, .. } = question;
            let answer = through::ask(member, &host.cluster, cluster, Method::GET, &path, None).await;
            match answer.ok().filter(|answer| answer.status.is_success()) {
                Some(answer) if attributes.iter().all(|right| includes(&answer.json(), right)) => {
                    role = Some(name.to_owned());
                    break;
                }
                Some(_) => {}
                None => {
                    role = usual_of_all(&attributes).map(str::to_owned);
                    break;
                }
            }
        }
        let (cluster, subject) = (question.cluster.clone(), subject_flags(&question.who.user));
        let kubectl_mc = question.host.cluster.kubectl_mc();
        Self { kubectl_mc, cluster, subject, attributes, role }
    }

    /// `kubectl mc access grant view --user=jane -n shop -C m1`
    pub(super) fn command(&self) -> String {
        let Self { kubectl_mc, cluster, subject, attributes, role } = self;
        let last = attributes.last().cloned().unwrap_or_default();
        let right = &last["resourceAttributes"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let place = match text(&right["namespace"]) {
            // A right on a cluster-scoped resource is granted without a namespace.
            namespace if namespace.is_empty() => String::new(),
            namespace => format!(" -n {}", quoted(namespace.as_ref())),
        };
        let grant = |role: &str| format!("{kubectl_mc} access grant {role} {subject}{place} -C {cluster}");
        if let Some(role) = role {
            return grant(role);
        }
        let (what, all, flag) = match right.is_null() {
            true => {
                let url = &last["nonResourceAttributes"];
                (text(&url["path"]), vec![(text(&url["verb"]), text(&url["path"]))], "non-resource-url")
            }
            false => {
                let of = |right: &Value| {
                    let right = &right["resourceAttributes"];
                    (text(&right["verb"]), resource(right))
                };
                (resource(right), attributes.iter().map(of).collect(), "resource")
            }
        };
        let is_read = all
            .iter()
            .all(|(verb, _)| flag == "resource" && ["get", "list", "watch"].contains(&verb.as_str()));
        let verb = all.last().map(|(verb, _)| verb.clone()).unwrap_or_default();
        let (reads, verbs) = match is_read {
            true => ("read".to_owned(), "get,list,watch".to_owned()),
            false => (verb, unique(all.iter().map(|(verb, _)| verb.as_str()))),
        };
        let plain = what.trim_matches('/').replace(['/', '.', '*'], "-");
        let name = quoted(format!("{reads}-{plain}").as_ref());
        let resources = unique(all.iter().map(|(_, resource)| resource.as_str()));
        let [verb, what] =
            [format!("--verb={verbs}"), format!("--{flag}={resources}")].map(|word| quoted(word.as_ref()));
        let create = format!("{kubectl_mc} -C {cluster} create clusterrole {name} {verb} {what}");
        format!("{create} && {}", grant(&name))
    }
}

/// The words in order and without duplicates, as a list for a flag.
fn unique<'a>(words: impl Iterator<Item = &'a str>) -> String {
    let mut all: Vec<&str> = Vec::new();
    for word in words {
        if !all.contains(&word) {
            all.push(word);
        }
    }
    all.join(",")
}

/// `deployments.apps/scale`
fn resource(right: &Value) -> String {
    let text = |field: &str| right[field].as_str().unwrap_or_default();
    let group = if text("group").is_empty() { String::new() } else { format!(".{}", text("group")) };
    let sub =
        if text("subresource").is_empty() { String::new() } else { format!("/{}", text("subresource")) };
    format!("{}{group}{sub}", text("resource"))
}

/// Whether a ClusterRole includes a right, by the rules of the RBAC authorizer.
fn includes(role: &Value, attributes: &Value) -> bool {
    let (right, url) = (&attributes["resourceAttributes"], &attributes["nonResourceAttributes"]);
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    role["rules"].as_array().into_iter().flatten().any(|rule| {
        let has = |list: &str, wanted: &str| {
            rule[list].as_array().into_iter().flatten().any(|word| word == wanted || word == "*")
        };
        if right.is_null() {
            let path = text(&url["path"]);
            let matches = |pattern: &str| match pattern.strip_suffix('*') {
                Some(begin) => path.starts_with(begin),
                None => path == pattern,
            };
            let urls = rule["nonResourceURLs"].as_array().into_iter().flatten().filter_map(Value::as_str);
            return has("verbs", &text(&url["verb"])) && urls.into_iter().any(matches);
        }
        let (name, sub) = (text(&right["resource"]), text(&right["subresource"]));
        let full = if sub.is_empty() { name } else { format!("{name}/{sub}") };
        let names = rule["resourceNames"].as_array().map_or(0, Vec::len);
        let named = names == 0 || (!right["name"].is_null() && has("resourceNames", &text(&right["name"])));
        let any_parent = !sub.is_empty() && has("resources", &format!("*/{sub}"));
        has("apiGroups", &text(&right["group"]))
            && (has("resources", &full) || any_parent)
            && has("verbs", &text(&right["verb"]))
            && named
    })
}

/// The first default role of Kubernetes that usually includes a right.
fn usual(attributes: &Value) -> Option<&'static str> {
    let right = &attributes["resourceAttributes"];
    let text = |field: &str| right[field].as_str().unwrap_or_default();
    let reads = matches!(text("verb"), "get" | "list" | "watch");
    match (text("group"), text("resource"), text("subresource")) {
        ("", "namespaces", "") if reads => Some("view"),
        ("", "nodes" | "persistentvolumes" | "namespaces" | "componentstatuses", _) | (_, "", _) => None,
        ("", "secrets", _) | ("", "pods" | "services", "exec" | "attach" | "portforward" | "proxy") => {
            Some("edit")
        }
        ("rbac.authorization.k8s.io", "roles" | "rolebindings", _) => Some("admin"),
        ("networking.k8s.io", "ingressclasses", _) => None,
        (
            "" | "apps" | "autoscaling" | "batch" | "networking.k8s.io" | "policy" | "discovery.k8s.io",
            _,
            _,
        ) => Some(if reads { "view" } else { "edit" }),
        _ => None,
    }
}

/// The first default role that usually includes all the rights.
fn usual_of_all(attributes: &[Value]) -> Option<&'static str> {
    let roles = attributes.iter().map(usual).collect::<Option<Vec<_>>>()?;
    // Each role includes those before it.
    USUAL.into_iter().rfind(|role| roles.contains(role))
}

/// The flags of `access grant` for a user.
fn subject_flags(user: &str) -> String {
    let flag = match user.strip_prefix("system:serviceaccount:") {
        Some(account) => format!("--serviceaccount={account}"),
        None => format!("--user={user}"),
    };
    quoted(flag.as_ref())
}

const USUAL: [&str; 3] = ["view", "edit", "admin"];

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn right(verb: &str, group: &str, resource: &str, subresource: &str) -> Value {
        json!({"resourceAttributes": {"verb": verb, "group": group, "resource": resource, "subresource": subresource}})
    }

    #[test]
    fn default_roles_include_the_rights_of_kubernetes() {
        for (verb, group, resource, subresource, role) in [
            ("list", "", "pods", "", Some("view")),
            ("get", "", "pods", "log", Some("view")),
            ("create", "", "pods", "exec", Some("edit")),
            ("list", "", "secrets", "", Some("edit")),
            ("patch", "apps", "deployments", "", Some("edit")),
            ("list", "", "nodes", "", None),
            ("list", "", "namespaces", "", Some("view")),
            ("create", "rbac.authorization.k8s.io", "roles", "", Some("admin")),
            ("list", "example.com", "widgets", "", None),
        ] {
            assert_eq!(
                usual(&right(verb, group, resource, subresource)),
                role,
                "{verb} {resource}/{subresource}"
            );
        }
    }

    #[test]
    fn role_rules_match_rights_as_in_rbac() {
        let role = json!({"rules": [
            {"apiGroups": ["apps"], "resources": ["deployments", "*/scale"], "verbs": ["get", "patch"]},
            {"apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["one"], "verbs": ["*"]},
            {"nonResourceURLs": ["/metrics*"], "verbs": ["get"]},
        ]});
        assert!(includes(&role, &right("get", "apps", "deployments", "")));
        assert!(includes(&role, &right("patch", "apps", "statefulsets", "scale")));
        assert!(!includes(&role, &right("list", "apps", "deployments", "")));
        assert!(!includes(&role, &right("get", "apps", "deployments", "status")));
        assert!(!includes(&role, &right("get", "", "configmaps", "")));
        let url = |path: &str| json!({"nonResourceAttributes": {"path": path, "verb": "get"}});
        assert!(includes(&role, &url("/metrics/x")) && !includes(&role, &url("/healthz")));
    }

    #[test]
    fn pasted_fix_runs_nothing_else() {
        let fix = |attributes: Value, role: Option<&str>| {
            let (cluster, subject) = ("m1".parse().unwrap(), subject_flags("a; b"));
            let kubectl_mc = "kubectl mc".to_owned();
            Fix { kubectl_mc, cluster, subject, attributes: vec![attributes], role: role.map(str::to_owned) }
                .command()
        };
        let mut pods = right("list", "", "pods", "");
        pods["resourceAttributes"]["namespace"] = "$(x)".into();
        assert_eq!(fix(pods, Some("view")), "kubectl mc access grant view '--user=a; b' -n '$(x)' -C m1");
        assert_eq!(
            fix(json!({"nonResourceAttributes": {"path": "/a b", "verb": "g;"}}), None),
            "kubectl mc -C m1 create clusterrole 'g;-a b' '--verb=g;' '--non-resource-url=/a b' \
             && kubectl mc access grant 'g;-a b' '--user=a; b' -C m1"
        );
    }

    #[test]
    fn fix_creates_a_role_when_no_default_role_fits() {
        let fix = |attributes: Value, role: Option<&str>| {
            let (cluster, subject) = ("m1".parse().unwrap(), subject_flags("jane"));
            let kubectl_mc = "kubectl mc".to_owned();
            Fix { kubectl_mc, cluster, subject, attributes: vec![attributes], role: role.map(str::to_owned) }
                .command()
        };
        let mut pods = right("list", "", "pods", "");
        pods["resourceAttributes"]["namespace"] = "shop".into();
        assert_eq!(fix(pods, Some("view")), "kubectl mc access grant view --user=jane -n shop -C m1");
        assert_eq!(
            fix(right("list", "", "nodes", ""), None),
            "kubectl mc -C m1 create clusterrole read-nodes --verb=get,list,watch --resource=nodes \
             && kubectl mc access grant read-nodes --user=jane -C m1"
        );
        assert_eq!(
            fix(json!({"nonResourceAttributes": {"path": "/metrics", "verb": "get"}}), None),
            "kubectl mc -C m1 create clusterrole get-metrics --verb=get --non-resource-url=/metrics \
             && kubectl mc access grant get-metrics --user=jane -C m1"
        );
    }
}
