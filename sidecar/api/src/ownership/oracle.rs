//! Lists every request that is not denied, as a line of text: a slow second implementation that does not use
//! the table.

use std::collections::BTreeSet;

/// A request as a line: verb, group, kind with subresource, namespace, name, selector.
pub(super) fn line(
    verb: &str,
    group: &str,
    kind: &str,
    namespace: &str,
    name: &str,
    selector: Option<&str>,
) -> String {
    format!("{verb}|{group}|{kind}|{namespace}|{name}|{}", selector.unwrap_or("-"))
}

/// Every request that is not denied to the agent of `c`, with these namespaces and names.
#[expect(clippy::too_many_lines, reason = "one list, as the table that it checks")]
pub(super) fn rights(c: &str, lists_all: bool, namespaces: &[&str], names: &[&str]) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    let mut add =
        |verb: &str, group: &str, kind: &str, namespace: &str, name: &str, selector: Option<&str>| {
            all.insert(line(verb, group, kind, namespace, name, selector));
        };
    // A selector has no meaning in requests for an object, so each request is listed with all selectors.
    let selectors: Vec<Option<&str>> =
        [None, Some("*")].into_iter().chain(names.iter().map(|&name| Some(name))).collect();
    let execution = format!("karmada-es-{c}");
    let impersonator = format!("{c}-impersonator");
    let election = format!("karmada-agent-{c}");
    for &selector in &selectors {
        for verb in ["get", "delete", "create"] {
            add(verb, "cluster.karmada.io", "clusters", "", c, selector);
        }
        add("create", "cluster.karmada.io", "clusters", "", "", selector);
        add("update", "cluster.karmada.io", "clusters/status", "", c, selector);
        for verb in ["get", "patch", "create"] {
            add(verb, "", "secrets", "karmada-cluster", c, selector);
            add(verb, "", "secrets", "karmada-cluster", &impersonator, selector);
        }
        add("create", "", "secrets", "karmada-cluster", "", selector);
        for verb in ["get", "create", "update"] {
            add(verb, "coordination.k8s.io", "leases", "karmada-cluster", c, selector);
            add(verb, "coordination.k8s.io", "leases", "karmada-system", &election, selector);
        }
        add("create", "coordination.k8s.io", "leases", "karmada-cluster", "", selector);
        add("create", "coordination.k8s.io", "leases", "karmada-system", "", selector);
        for name in names.iter().copied().chain([""]) {
            for verb in ["list", "watch", "create"] {
                add(verb, "work.karmada.io", "works", &execution, name, selector);
            }
            if !name.is_empty() {
                for verb in ["get", "update", "delete"] {
                    add(verb, "work.karmada.io", "works", &execution, name, selector);
                }
                for verb in ["update", "patch"] {
                    add(verb, "work.karmada.io", "works/status", &execution, name, selector);
                }
            }
            // The decision ignores the names of the following requests.
            add(
                "create",
                "certificates.k8s.io",
                "certificatesigningrequests/selfclusteragent",
                "",
                name,
                selector,
            );
            for kind in ["resourceinterpreterwebhookconfigurations", "resourceinterpretercustomizations"] {
                for verb in ["list", "watch"] {
                    add(verb, "config.karmada.io", kind, "", name, selector);
                }
                if !name.is_empty() {
                    add("get", "config.karmada.io", kind, "", name, selector);
                }
            }
            for namespace in namespaces.iter().copied().chain([""]) {
                add("list", "", "services", namespace, name, selector);
                add("watch", "", "services", namespace, name, selector);
                let is_others = name.starts_with("karmada-es-") && name != execution;
                if !name.is_empty() && !is_others {
                    add("get", "", "namespaces", namespace, name, selector);
                }
            }
            for namespace in [execution.as_str(), "default"] {
                for verb in ["create", "update", "patch"] {
                    if verb == "create" || !name.is_empty() {
                        add(verb, "", "events", namespace, name, selector);
                    }
                }
            }
            for namespace in namespaces.iter().copied().chain([""]) {
                for (group, kind) in [
                    ("authorization.k8s.io", "selfsubjectaccessreviews"),
                    ("authorization.k8s.io", "selfsubjectrulesreviews"),
                    ("authentication.k8s.io", "selfsubjectreviews"),
                ] {
                    add("create", group, kind, namespace, name, selector);
                }
            }
            if lists_all {
                add("list", "cluster.karmada.io", "clusters", "", name, selector);
                add("watch", "cluster.karmada.io", "clusters", "", name, selector);
            }
        }
        let own_request = format!("{c}-bcdfg");
        for verb in ["get", "create"] {
            add(verb, "certificates.k8s.io", "certificatesigningrequests", "", &own_request, selector);
        }
        add("create", "certificates.k8s.io", "certificatesigningrequests", "", "", selector);
    }
    for verb in ["list", "watch"] {
        add(verb, "cluster.karmada.io", "clusters", "", c, None);
        add(verb, "cluster.karmada.io", "clusters", "", c, Some(c));
        add(verb, "cluster.karmada.io", "clusters", "", "", Some(c));
    }
    all
}
