//! Builds the path from the host's kube-apiserver to the sidecar's webhooks: a Service, a NetworkPolicy, and
//! for authorization two files (KEP-3221: structured authorization).

use std::num::NonZeroU16;

use kubectl_mc_api::names::{self, KUBECTL_MC, MANAGED_BY, SIDECAR, WEBHOOK_SERVICE};
use kubectl_mc_api::ownership::subject::{GROUP, PREFIX};
use serde_json::{Value, json};

use crate::cluster::kubernetes_version::KubernetesVersion;

/// The ports at which the sidecars serve webhooks.
#[derive(Clone, Copy)]
pub(super) struct Ports {
    pub(super) authorization: Option<NonZeroU16>,
    pub(super) admission: Option<NonZeroU16>,
}

/// The Service and the NetworkPolicy of the webhooks, if there is one.
pub(super) fn objects(namespace: &str, ports: Ports) -> Vec<Value> {
    let ports = [("authorize", AUTHORIZATION, ports.authorization), ("admit", ADMISSION, ports.admission)];
    let ports = ports.into_iter().filter_map(|(name, port, target)| Some((name, port, target?)));
    let of_service = ports.clone().map(
        |(name, port, target)| json!({"name": name, "protocol": "TCP", "port": port, "targetPort": target}),
    );
    let of_policy = ports.map(|(_, _, target)| json!({"protocol": "TCP", "port": target}));
    let (of_service, of_policy): (Vec<_>, Vec<_>) = (of_service.collect(), of_policy.collect());
    if of_service.is_empty() {
        return Vec::new();
    }
    let selector = json!({"app.kubernetes.io/name": SIDECAR});
    let [mut service, mut policy] = names(namespace);
    service["spec"] = json!({"selector": selector, "ports": of_service});
    policy["spec"] = json!({
        "podSelector": {"matchLabels": selector},
        "policyTypes": ["Ingress"],
        "ingress": [{"ports": of_policy}],
    });
    vec![service, policy]
}

/// Both objects without a spec.
pub(super) fn names(namespace: &str) -> [Value; 2] {
    let metadata =
        json!({"name": WEBHOOK_SERVICE, "namespace": namespace, "labels": {MANAGED_BY: KUBECTL_MC}});
    [
        json!({"apiVersion": "v1", "kind": "Service", "metadata": metadata}),
        json!({"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": metadata}),
    ]
}

/// The host's AuthorizationConfiguration. Only requests of agents reach the webhook, which never allows one.
/// If the webhook is down, the host refuses agents and no other caller.
pub(super) fn config(version: KubernetesVersion) -> Value {
    let api = if version >= GENERAL { "v1" } else { "v1beta1" };
    let mut webhook = json!({
        "subjectAccessReviewVersion": "v1",
        "matchConditionSubjectAccessReviewVersion": "v1",
        "timeout": "3s",
        "failurePolicy": "Deny",
        "authorizedTTL": "5s",
        "unauthorizedTTL": "5s",
        "connectionInfo": {"type": "KubeConfigFile", "kubeConfigFile": KUBECONFIG},
        "matchConditions": [{
            "expression": format!("'{GROUP}' in request.groups || request.user.startsWith('{PREFIX}')"),
        }],
    });
    if version >= WITHOUT_CACHE {
        webhook["cacheAuthorizedRequests"] = false.into();
        webhook["cacheUnauthorizedRequests"] = false.into();
    }
    json!({
        "apiVersion": format!("apiserver.config.k8s.io/{api}"),
        "kind": "AuthorizationConfiguration",
        "authorizers": [
            {"type": "Node", "name": "node"},
            {"type": "Webhook", "name": "cluster-authorization", "webhook": webhook},
            {"type": "RBAC", "name": "rbac"},
        ],
    })
}

/// The kubeconfig with which a kube-apiserver reaches the webhook; it authenticates as the front
/// proxy.
pub(super) fn kubeconfig(server: &str, namespace: &str, ca_bundle: Option<&str>) -> Value {
    let mut cluster = json!({"server": format!("{}/authorize", server.trim_end_matches('/')),
        "tls-server-name": names::service(namespace)});
    match ca_bundle {
        Some(bundle) => cluster["certificate-authority-data"] = bundle.into(),
        None => cluster["certificate-authority"] = "/etc/kubernetes/pki/mc-sidecar-ca.crt".into(),
    }
    json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "webhook",
        "clusters": [{"name": "webhook", "cluster": cluster}],
        "contexts": [{"name": "webhook", "context": {"cluster": "webhook", "user": "kube-apiserver"}}],
        "users": [{"name": "kube-apiserver", "user": {
            "client-certificate": "/etc/kubernetes/pki/front-proxy-client.crt",
            "client-key": "/etc/kubernetes/pki/front-proxy-client.key",
        }}],
    })
}

/// The paths of the files.
pub(super) const CONFIG: &str = "/etc/kubernetes/mc-authz.yaml";
pub(super) const KUBECONFIG: &str = "/etc/kubernetes/mc-authz.kubeconfig";
/// Ports of the Service.
const AUTHORIZATION: u16 = 443;
pub(super) const ADMISSION: u16 = 8443;
const GENERAL: KubernetesVersion = KubernetesVersion::of(1, 32);
/// The first version in which the tests saw the fields that turn the cache off.
const WITHOUT_CACHE: KubernetesVersion = KubernetesVersion::of(1, 35);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn config_has_only_fields_that_the_host_knows() {
        let of = |text: &str| config(KubernetesVersion::parse(text).unwrap());
        let (old, new) = (of("v1.30.0"), of("v1.36.3"));
        assert_eq!(old["apiVersion"], "apiserver.config.k8s.io/v1beta1");
        assert_eq!(new["apiVersion"], "apiserver.config.k8s.io/v1");
        assert!(old["authorizers"][1]["webhook"]["cacheAuthorizedRequests"].is_null());
        assert_eq!(new["authorizers"][1]["webhook"]["cacheAuthorizedRequests"], false);
        for config in [old, new] {
            let kinds: Vec<_> =
                config["authorizers"].as_array().unwrap().iter().map(|a| a["type"].clone()).collect();
            assert_eq!(kinds, ["Node", "Webhook", "RBAC"]);
        }
    }

    #[test]
    fn kubeconfig_verifies_the_sidecar_by_its_own_name() {
        let config = kubeconfig("https://10.96.0.7/", "ns", Some("QUJD"));
        let cluster = &config["clusters"][0]["cluster"];
        assert_eq!(cluster["server"], "https://10.96.0.7/authorize");
        assert_eq!(cluster["tls-server-name"], "mc-sidecar.ns.svc");
        assert_eq!(cluster["certificate-authority-data"], "QUJD");
        assert!(kubeconfig("x", "ns", None)["clusters"][0]["cluster"]["certificate-authority"].is_string());
    }
}
