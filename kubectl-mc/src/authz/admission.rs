//! Builds the registration of the sidecar's admission webhooks with the host. Only requests of agents, and of
//! bootstrap tokens for client certificates, reach the webhooks: no other caller is affected when they do not
//! respond.

use kubectl_mc_api::names::WEBHOOK_SERVICE;
use kubectl_mc_api::ownership::admission_path;
use serde_json::{Value, json};

use super::policies::{self, ADMISSION, metadata, rule};
use super::webhook;

/// How the kube-apiserver reaches the sidecars, and the CA that verifies them.
pub(super) struct Route {
    pub(super) to: To,
    /// In base64. `None` means the CAs of the system.
    pub(super) ca_bundle: Option<String>,
}

pub(super) enum To {
    /// The Service of the webhooks in this namespace.
    Service(String),
    Url(String),
}

/// The webhook for certificate requests, and the one that writes owners if the host has no policy
/// for this.
pub(super) fn objects(route: &Route, has_stamp: bool) -> Vec<Value> {
    let mut objects = vec![json!({
        "apiVersion": ADMISSION, "kind": "ValidatingWebhookConfiguration", "metadata": metadata(ENROLLMENT),
        "webhooks": [{
            "name": "enrollment.kubectl-mc.dev",
            "rules": [rule("certificates.k8s.io", &["certificatesigningrequests"], &["CREATE"])],
            "matchConditions": [{"name": "karmada", "expression": enrolls()}],
            "clientConfig": client(route, admission_path::ENROLLMENT),
            "admissionReviewVersions": ["v1"], "sideEffects": "None", "failurePolicy": "Fail",
            "matchPolicy": "Equivalent", "timeoutSeconds": TIMEOUT,
        }],
    })];
    if !has_stamp {
        objects.push(json!({
            "apiVersion": ADMISSION, "kind": "MutatingWebhookConfiguration", "metadata": metadata(OWNER),
            "webhooks": [{
                "name": "owner.kubectl-mc.dev",
                "rules": policies::stamped(), "matchConditions": policies::unowned(),
                "clientConfig": client(route, admission_path::OWNER),
                "admissionReviewVersions": ["v1"], "sideEffects": "None", "failurePolicy": "Fail",
                "matchPolicy": "Equivalent", "reinvocationPolicy": "IfNeeded", "timeoutSeconds": TIMEOUT,
            }],
        }));
    }
    objects
}

fn client(route: &Route, path: &str) -> Value {
    let mut client = match &route.to {
        To::Url(server) => json!({"url": format!("{}{path}", server.trim_end_matches('/'))}),
        To::Service(namespace) => json!({"service": {
            "name": WEBHOOK_SERVICE, "namespace": namespace, "port": webhook::ADMISSION, "path": path,
        }}),
    };
    if let Some(bundle) = &route.ca_bundle {
        client["caBundle"] = bundle.as_str().into();
    }
    client
}

/// The two configurations, for their removal.
pub(super) fn all(namespace: &str) -> Vec<Value> {
    objects(&Route { to: To::Service(namespace.to_owned()), ca_bundle: None }, false)
}

/// Describes how a registration on the host is weaker than the one that `apply` writes. `bundle` is the CA of
/// the sidecars, if the host knows it.
pub(super) fn fault(found: &Value, bundle: Option<&str>) -> Option<&'static str> {
    let [webhook] = found["webhooks"].as_array().map(Vec::as_slice).unwrap_or_default() else {
        return Some("it has not the one webhook that apply writes");
    };
    let wanted = all("").into_iter().find(|wanted| wanted["metadata"]["name"] == found["metadata"]["name"]);
    let wanted = wanted.unwrap_or_default()["webhooks"][0].take();
    let is_empty = |selector: &Value| selector.as_object().is_none_or(serde_json::Map::is_empty);
    let client = &webhook["clientConfig"];
    let is_stale = client["service"].is_object() && bundle.is_some_and(|bundle| client["caBundle"] != bundle);
    let rules = policies::without_default_scope(&webhook["rules"]);
    let is_narrow = !(is_empty(&webhook["namespaceSelector"]) && is_empty(&webhook["objectSelector"]));
    let path = wanted["clientConfig"]["service"]["path"].as_str().unwrap_or_default();
    let leads = match client["service"].is_object() {
        true => client["service"]["name"] == WEBHOOK_SERVICE && client["service"]["path"] == path,
        false => client["url"].as_str().is_some_and(|url| url.ends_with(path)),
    };
    if !leads || webhook["matchPolicy"] != wanted["matchPolicy"] {
        Some("it does not lead to the sidecar's webhook: apply it again")
    } else if webhook["failurePolicy"] != wanted["failurePolicy"] {
        Some("its failurePolicy is not Fail")
    } else if rules != wanted["rules"] || webhook["matchConditions"] != wanted["matchConditions"] || is_narrow
    {
        Some("it is about other requests: apply it again")
    } else if is_stale {
        Some("its caBundle is not the CA of the sidecars: apply it again")
    } else {
        None
    }
}

/// Matches agents and Karmada's tokens for any signer, and other bootstrap tokens only for client
/// certificates: kubelets use a separate signer.
fn enrolls() -> String {
    format!(
        "{} || (has(request.userInfo.groups) && request.userInfo.groups.exists(group, \
         group.startsWith('system:bootstrappers:karmada:') || (group.startsWith('system:bootstrappers') && \
         object.spec.signerName == 'kubernetes.io/kube-apiserver-client')))",
        policies::is_agent()
    )
}

/// The names of the two configurations.
pub(super) const ENROLLMENT: &str = "kubectl-mc-karmada-enrollment";
pub(super) const OWNER: &str = "kubectl-mc-karmada-owner";
/// In seconds, as for the authorization webhook.
const TIMEOUT: u8 = 3;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owner_webhook_is_only_where_the_host_has_no_policy() {
        let route = Route { to: To::Service("ns".to_owned()), ca_bundle: Some("QUJD".to_owned()) };
        assert_eq!(objects(&route, true).len(), 1);
        let both = objects(&route, false);
        assert_eq!(both.len(), 2);
        for object in &both {
            let webhook = &object["webhooks"][0];
            assert_eq!(webhook["failurePolicy"], "Fail");
            assert_eq!(webhook["clientConfig"]["caBundle"], "QUJD");
            assert_eq!(webhook["clientConfig"]["service"]["name"], "mc-sidecar-authorization");
            assert!(!webhook["matchConditions"].as_array().unwrap().is_empty());
        }
        let route = Route { to: To::Url("https://10.0.0.1:8443/".to_owned()), ca_bundle: None };
        let client = &objects(&route, true)[0]["webhooks"][0]["clientConfig"];
        assert_eq!(*client, json!({"url": "https://10.0.0.1:8443/enrollment"}));
    }

    #[test]
    fn weaker_registration_is_found() {
        let route = Route { to: To::Service("ns".to_owned()), ca_bundle: Some("QUJD".to_owned()) };
        for mut whole in objects(&route, false) {
            // The defaults that a host adds.
            whole["webhooks"][0]["rules"][0]["scope"] = "*".into();
            whole["webhooks"][0]["namespaceSelector"] = json!({});
            assert_eq!(fault(&whole, Some("QUJD")), None);
            assert_eq!(fault(&whole, None), None);
            assert_eq!(
                fault(&whole, Some("REVG")),
                Some("its caBundle is not the CA of the sidecars: apply it again")
            );
            for (path, value) in [
                ("/webhooks", json!([])),
                ("/webhooks/0/failurePolicy", "Ignore".into()),
                ("/webhooks/0/rules", json!([])),
                ("/webhooks/0/rules/0/scope", "Namespaced".into()),
                ("/webhooks/0/matchConditions/0/expression", "false".into()),
                ("/webhooks/0/namespaceSelector", json!({"matchLabels": {"a": "b"}})),
            ] {
                let mut weaker = whole.clone();
                *weaker.pointer_mut(path).unwrap() = value;
                assert!(fault(&weaker, Some("QUJD")).is_some(), "{path}");
            }
        }
    }
}
