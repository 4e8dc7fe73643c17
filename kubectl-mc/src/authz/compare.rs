//! Compares the admission policies on the host with those that `apply` writes, and their bindings.
//! Every difference is a fault, unless it is a default that the host fills in, because a policy can
//! become ineffective through any of its fields.

use serde_json::{Map, Value};

use super::policies;
use super::requests::registered;
use crate::cluster::connection::Connection;
use crate::error::Failure;

/// An object of the host that is not as `apply` writes it.
#[derive(Debug)]
pub(super) struct Fault {
    /// As `kind/name`.
    pub(super) object: String,
    pub(super) is_absent: bool,
    pub(super) is_of_binding: bool,
    pub(super) reason: &'static str,
}

/// The faults of these policies and bindings.
pub(super) async fn faults(host: &Connection, wanted: &[Value]) -> Result<Vec<Fault>, Failure> {
    let mut faults = Vec::new();
    for object in wanted {
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        let kind = plural(object);
        let found = registered(host, &kind, name).await?;
        if let Some(reason) = fault(found.as_ref(), object) {
            faults.push(Fault {
                object: format!("{kind}/{name}"),
                is_absent: found.is_none(),
                is_of_binding: object["spec"]["policyName"].is_string(),
                reason,
            });
        }
    }
    Ok(faults)
}

/// How the object on the host differs.
pub(super) fn fault(found: Option<&Value>, wanted: &Value) -> Option<&'static str> {
    let Some(found) = found else {
        return Some("it is not there");
    };
    let actions = "validationActions";
    if found["spec"][actions] != wanted["spec"][actions] {
        Some("its binding does not deny: apply it again")
    } else if without_defaults(&found["spec"]) != wanted["spec"] {
        Some("it is another one: apply it again")
    } else {
        None
    }
}

/// `ValidatingAdmissionPolicy` becomes `validatingadmissionpolicies`.
fn plural(object: &Value) -> String {
    let kind = object["kind"].as_str().unwrap_or_default().to_lowercase();
    match kind.strip_suffix('y') {
        Some(stem) => format!("{stem}ies"),
        None => kind + "s",
    }
}

/// The spec without the fields that the host adds (apiserver:
/// `apis/admissionregistration/v1/defaults.go`).
fn without_defaults(spec: &Value) -> Value {
    let mut spec = spec.clone();
    for key in ["matchConstraints", "matchResources"] {
        let Some(Value::Object(matched)) = spec.get_mut(key) else { continue };
        if let Some(rules) = matched.get_mut("resourceRules") {
            *rules = policies::without_default_scope(rules);
        }
        matched.retain(|field, value| !is_default(field, value));
        if matched.is_empty()
            && let Value::Object(spec) = &mut spec
        {
            spec.remove(key);
        }
    }
    spec
}

fn is_default(field: &str, value: &Value) -> bool {
    match field {
        "matchPolicy" => value == "Equivalent",
        "namespaceSelector" | "objectSelector" => value.as_object().is_some_and(Map::is_empty),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use kubectl_mc_api::ownership::Layout;
    use serde_json::json;

    use super::*;
    use crate::authz::keeper;
    use crate::cluster::kubernetes_version::KubernetesVersion;

    fn all() -> Vec<Value> {
        let version = KubernetesVersion::parse("v1.36.3").unwrap();
        let layout = Layout::default();
        [policies::objects(&layout, version), keeper::policy(&layout).to_vec()].concat()
    }

    /// The form in which a host stores it.
    fn stored(object: &Value) -> Value {
        let mut stored = object.clone();
        if stored["spec"]["matchConstraints"].is_object() {
            for rule in stored["spec"]["matchConstraints"]["resourceRules"].as_array_mut().unwrap() {
                rule["scope"] = "*".into();
            }
            stored["spec"]["matchConstraints"]["matchPolicy"] = "Equivalent".into();
            stored["spec"]["matchConstraints"]["namespaceSelector"] = json!({});
            stored["spec"]["matchConstraints"]["objectSelector"] = json!({});
        }
        stored["metadata"]["uid"] = "u".into();
        stored["status"] = json!({"observedGeneration": 1});
        stored
    }

    #[test]
    fn defaults_of_the_host_are_no_fault() {
        let all = all();
        assert_eq!(all.len(), 8);
        for object in &all {
            assert_eq!(fault(Some(&stored(object)), object), None, "{object}");
            assert_eq!(fault(None, object), Some("it is not there"));
        }
        assert_eq!(plural(&all[0]), "validatingadmissionpolicies");
        assert_eq!(plural(&all[1]), "validatingadmissionpolicybindings");
    }

    #[test]
    fn weaker_policy_is_found() {
        let labels = json!({"matchLabels": {"a": "b"}});
        for object in all().iter().filter(|object| object["kind"].as_str().unwrap().ends_with("Policy")) {
            for (path, key, value) in [
                ("/spec", "failurePolicy", json!("Ignore")),
                ("/spec", "validations", json!([])),
                ("/spec", "mutations", json!([])),
                ("/spec", "paramKind", json!({"apiVersion": "v1", "kind": "ConfigMap"})),
                ("/spec", "another", json!(1)),
                ("/spec", "variables", json!([])),
                ("/spec/matchConditions/0", "expression", json!("false")),
                ("/spec/matchConstraints", "resourceRules", json!([])),
                ("/spec/matchConstraints", "excludeResourceRules", json!([{}])),
                ("/spec/matchConstraints", "matchPolicy", json!("Exact")),
                ("/spec/matchConstraints", "namespaceSelector", labels.clone()),
                ("/spec/matchConstraints", "objectSelector", labels.clone()),
                ("/spec/matchConstraints/resourceRules/0", "scope", json!("Cluster")),
            ] {
                let mut weaker = stored(object);
                weaker.pointer_mut(path).unwrap()[key] = value;
                assert!(fault(Some(&weaker), object).is_some(), "{path} {key}");
            }
        }
    }

    #[test]
    fn weaker_binding_is_found() {
        let labels = json!({"matchLabels": {"a": "b"}});
        for object in all().iter().filter(|object| object["kind"].as_str().unwrap().ends_with("Binding")) {
            for (field, value) in [
                ("validationActions", json!(["Audit"])),
                ("validationActions", json!([])),
                ("policyName", json!("other")),
                ("paramRef", json!({"name": "a"})),
                ("matchResources", json!({"objectSelector": labels})),
                ("matchResources", json!({"excludeResourceRules": [{}]})),
            ] {
                let mut weaker = stored(object);
                let was = weaker["spec"][field].take();
                weaker["spec"][field] = value;
                // The binding of the policy that writes owners has no actions.
                if !(was.is_null() && weaker["spec"][field] == json!([])) {
                    assert!(fault(Some(&weaker), object).is_some(), "{field}");
                }
            }
        }
    }

    #[test]
    fn policy_of_other_flags_is_found() {
        let wider = Layout { agents_list_clusters: true, ..Layout::default() };
        let [policy, _] = keeper::policy(&Layout::default());
        assert!(fault(Some(&policy), &keeper::policy(&wider)[0]).is_some());
    }
}
