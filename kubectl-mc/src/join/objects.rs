//! Builds the objects that a join writes: the registration on the host and the member's side.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use kubectl_mc_api::ClusterName;
use kubectl_mc_api::names::{
    CLUSTER, FLEET_GROUP_VERSION, HOST_ADMINS, HOST_UID, KUBECTL_MC, MANAGED_BY, MEMBER_UID, SECRET_TYPE,
};
use kubectl_mc_api::token_life::of_manager;
use serde_json::{Map, Value, json};

use super::endpoint::{self, Endpoint};
use super::proxy_tls;
use super::refusals::{self, Variables};
use super::{bindable_roles, token_policy};
use crate::cli::JoinArgs;

/// The registration: a name with labels, and the uid that identifies the cluster.
pub(crate) fn member_cluster(name: &ClusterName, labels: &[(String, String)], uid: Option<&str>) -> Value {
    let labels: BTreeMap<_, _> = labels.iter().cloned().collect();
    let mut object = json!({
        "apiVersion": FLEET_GROUP_VERSION,
        "kind": "MemberCluster",
        "metadata": {"name": name.as_str()},
        "spec": {},
    });
    if !labels.is_empty() {
        object["metadata"]["labels"] = json!(labels);
    }
    if let Some(uid) = uid {
        object["metadata"]["annotations"] = json!({MEMBER_UID: uid});
    }
    object
}

/// The uid of a registered cluster's kube-system. A join writes it as an annotation; the leader writes it
/// into the status when the agent has reported it.
pub(crate) fn uid_of(cluster: &Value) -> Option<&str> {
    let of_join = cluster["metadata"]["annotations"][MEMBER_UID].as_str();
    of_join.or_else(|| cluster["status"]["uid"].as_str())
}

/// A Secret of the member with its connection. The credential is written separately, so applying this object
/// again does not remove it.
pub(crate) fn secret(namespace: &str, name: &str, endpoint: &Endpoint) -> Value {
    let data: BTreeMap<_, _> =
        endpoint.data().into_iter().map(|(key, value)| (key, STANDARD.encode(value))).collect();
    json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "type": SECRET_TYPE,
        "metadata": {"name": name, "namespace": namespace, "labels": {MANAGED_BY: KUBECTL_MC}},
        "data": data,
    })
}

/// The keys to remove from an existing Secret before it gets this connection, as a patch (RFC 7386): keys
/// that the connection does not have, and the credential of another connection.
pub(crate) fn obsolete(existing: &Value, endpoint: &Endpoint) -> Map<String, Value> {
    let (wanted, present) = (endpoint.data(), &existing["data"]);
    let of_connection = endpoint::KEYS.iter().filter(|key| !wanted.contains_key(**key));
    let of_credential = CREDENTIAL.iter().filter(|_| leads_elsewhere(existing, endpoint));
    let keys = of_connection.chain(of_credential).filter(|key| !present[**key].is_null());
    keys.map(|key| ((*key).to_owned(), Value::Null)).collect()
}

/// Whether an existing Secret holds another connection. In that case its credential must not stay,
/// or the sidecar would send it to the wrong server.
pub(crate) fn leads_elsewhere(existing: &Value, endpoint: &Endpoint) -> bool {
    let mut connection = existing["data"].as_object().cloned().unwrap_or_default();
    let credential = CREDENTIAL.map(|key| connection.remove(key).is_some());
    let mut wanted = secret("", "", endpoint)["data"].as_object().cloned().unwrap_or_default();
    // The credential for the proxy does not depend on the member's address.
    for key in proxy_tls::CREDENTIAL {
        connection.remove(key);
        wanted.remove(key);
    }
    credential.contains(&true) && connection != wanted
}

/// The options for the objects of `member.yaml` on a member.
#[derive(Clone, Debug)]
pub(crate) struct MemberSide<'a> {
    pub(crate) cluster: &'a ClusterName,
    /// The uid of the host's kube-system.
    pub(crate) host_uid: Option<&'a str>,
    pub(crate) host_admins: bool,
    /// Whether the member serves ValidatingAdmissionPolicies.
    pub(crate) validates: bool,
    /// The member's namespace, if it exists and the plugin did not create it.
    pub(crate) foreign_namespace: bool,
    /// Whether the member's administrators already have a policy ConfigMap, which is then kept.
    pub(crate) keeps_policy: bool,
    /// The lifetime of the impersonator's token.
    pub(crate) token_life: Duration,
    /// The roles that a ClusterAccess may bind.
    pub(crate) bindable_roles: &'a BTreeSet<String>,
    /// The names that the member's administrators refuse.
    pub(crate) refusals: &'a Variables,
}

static NO_REFUSALS: Variables = Variables::new();

impl<'a> MemberSide<'a> {
    /// The options for a member that could not be read, as if it had none of the objects.
    pub(crate) fn unread(
        cluster: &'a ClusterName,
        host_uid: Option<&'a str>,
        arguments: &JoinArgs,
        bindable_roles: &'a BTreeSet<String>,
    ) -> Self {
        Self {
            cluster,
            host_uid,
            host_admins: !arguments.no_host_admins,
            validates: true,
            foreign_namespace: false,
            keeps_policy: false,
            token_life: arguments.token_life(),
            bindable_roles,
            refusals: &NO_REFUSALS,
        }
    }

    /// The objects in the order of application.
    pub(crate) fn objects(&self, manifest: Vec<Value>) -> Vec<Value> {
        let Self {
            cluster,
            host_uid,
            host_admins,
            validates,
            foreign_namespace,
            keeps_policy,
            token_life,
            bindable_roles,
            refusals,
        } = self;
        let wanted = |object: &Value| {
            let (kind, name) = (text(object, "/kind"), text(object, "/metadata/name"));
            (kind != "ConfigMap" || !*keeps_policy)
                && (*host_admins || name != HOST_ADMINS)
                && (*validates || !kind.starts_with("ValidatingAdmissionPolicy"))
        };
        let mut objects: Vec<Value> = manifest.into_iter().filter(wanted).collect();
        for object in &mut objects {
            bindable_roles::set(object, bindable_roles);
            refusals::set(object, refusals);
            if token_policy::is_policy(object) {
                token_policy::set_longest(object, of_manager(*token_life));
            }
            if text(object, "/kind") != "Namespace" {
                continue;
            }
            let mut annotations = BTreeMap::from([(CLUSTER, cluster.as_str())]);
            annotations.extend(host_uid.map(|uid| (HOST_UID, uid)));
            object["metadata"]["annotations"] = json!(annotations);
            // A foreign namespace stays at an unjoin, so it gets no labels of the plugin.
            if *foreign_namespace && let Some(metadata) = object["metadata"].as_object_mut() {
                metadata.remove("labels");
            }
        }
        objects
    }

    /// The objects of an earlier join that this join no longer needs: the binding of the host's
    /// administrators, if it exists and belongs to the plugin.
    pub(crate) fn surplus(&self, host_admins: Option<&Value>) -> Vec<Value> {
        let is_ours = |binding: &&Value| binding["metadata"]["labels"][MANAGED_BY] == KUBECTL_MC;
        let surplus = host_admins.filter(is_ours).filter(|_| !self.host_admins).map(|_| {
            json!({
                "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
                "metadata": {"name": HOST_ADMINS},
            })
        });
        surplus.into_iter().collect()
    }
}

/// Whether the member's namespace was not created by the plugin.
pub(crate) fn is_foreign(namespace: Option<&Value>) -> bool {
    namespace.is_some_and(|namespace| namespace["metadata"]["labels"][MANAGED_BY] != KUBECTL_MC)
}

fn text<'a>(object: &'a Value, path: &str) -> &'a str {
    object.pointer(path).and_then(Value::as_str).unwrap_or_default()
}

/// The keys of a credential in a Secret.
pub(crate) const CREDENTIAL: [&str; 3] = ["token", "tls.crt", "tls.key"];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::join::proxy_tls::ProxyTls;
    use kubectl_mc_api::names::NAMESPACE;

    fn name() -> ClusterName {
        "m1".parse().unwrap()
    }

    fn endpoint(server: &str) -> Endpoint {
        Endpoint {
            server: server.to_owned(),
            ca: Some("PEM".to_owned()),
            tls_server_name: None,
            insecure: false,
            proxy_url: None,
            proxy_tls: ProxyTls::default(),
            via_agent: false,
            is_given: false,
        }
    }

    fn manifest() -> Vec<Value> {
        let object = |kind, name| json!({"kind": kind, "metadata": {"name": name, "labels": {MANAGED_BY: KUBECTL_MC}}, "rules": []});
        vec![
            object("Namespace", NAMESPACE),
            object("ClusterRole", "kubectl-mc-impersonator"),
            object("ClusterRoleBinding", HOST_ADMINS),
            object("ConfigMap", "kubectl-mc-manager"),
            object("ValidatingAdmissionPolicy", "kubectl-mc-manager"),
            object("ValidatingAdmissionPolicyBinding", "kubectl-mc-manager"),
        ]
    }

    static NONE: BTreeSet<String> = BTreeSet::new();

    fn side(name: &ClusterName) -> MemberSide<'_> {
        MemberSide {
            cluster: name,
            host_uid: Some("host"),
            host_admins: true,
            validates: true,
            foreign_namespace: false,
            keeps_policy: false,
            token_life: Duration::from_secs(3600),
            bindable_roles: &NONE,
            refusals: &NO_REFUSALS,
        }
    }

    #[test]
    fn member_gets_whole_manifest_and_annotations() {
        let name = name();
        let objects = side(&name).objects(manifest());
        assert_eq!(objects.len(), manifest().len());
        assert_eq!(objects[0]["metadata"]["annotations"], json!({HOST_UID: "host", CLUSTER: "m1"}));
        assert_eq!(objects[1], manifest()[1]);
    }

    #[test]
    fn uid_comes_from_the_annotation_or_the_status() {
        let of_agent = json!({"status": {"uid": "a"}});
        assert_eq!(uid_of(&of_agent), Some("a"));
        let both = json!({"metadata": {"annotations": {MEMBER_UID: "j"}}, "status": {"uid": "a"}});
        assert_eq!((uid_of(&both), uid_of(&json!({}))), (Some("j"), None));
    }

    #[test]
    fn unwanted_objects_are_omitted() {
        let name = name();
        let kinds = |side: MemberSide<'_>| -> Vec<String> {
            side.objects(manifest()).iter().map(|object| text(object, "/kind").to_owned()).collect()
        };
        let without = kinds(MemberSide { host_admins: false, validates: false, ..side(&name) });
        assert_eq!(without, ["Namespace", "ClusterRole", "ConfigMap"]);
    }

    #[test]
    fn rejoin_without_host_admins_removes_their_binding() {
        let name = name();
        let (with, without) = (side(&name), MemberSide { host_admins: false, ..side(&name) });
        let ours = json!({"metadata": {"name": HOST_ADMINS, "labels": {MANAGED_BY: KUBECTL_MC}}});
        assert_eq!(without.surplus(Some(&ours))[0]["metadata"]["name"], HOST_ADMINS);
        assert!(with.surplus(Some(&ours)).is_empty() && without.surplus(None).is_empty());
        let theirs = json!({"metadata": {"name": HOST_ADMINS}});
        assert!(without.surplus(Some(&theirs)).is_empty(), "another manager made it");
    }

    #[test]
    fn foreign_namespace_is_annotated_and_not_owned() {
        let name = name();
        let objects = MemberSide { foreign_namespace: true, ..side(&name) }.objects(manifest());
        assert_eq!(objects[0]["metadata"]["labels"], Value::Null);
        assert!(is_foreign(Some(&json!({"metadata": {}}))));
        assert!(!is_foreign(Some(&manifest()[0])));
        assert!(!is_foreign(None));
    }

    #[test]
    fn existing_policy_config_map_is_not_reset() {
        let name = name();
        let kinds = |keeps_policy| -> bool {
            let objects = MemberSide { keeps_policy, ..side(&name) }.objects(manifest());
            objects.iter().any(|object| object["kind"] == "ConfigMap")
        };
        assert!(kinds(false));
        assert!(!kinds(true));
    }

    #[test]
    fn bindable_roles_reach_the_policy_when_the_list_is_kept() {
        let (name, roles) = (name(), BTreeSet::from(["view".to_owned()]));
        let side = MemberSide { keeps_policy: true, bindable_roles: &roles, ..side(&name) };
        let objects = side.objects(crate::join::manifest::member().unwrap());
        let text = |kind: &str| {
            let objects = objects.iter().filter(|object| object["kind"] == kind);
            objects.map(Value::to_string).collect::<String>()
        };
        assert!(text("ValidatingAdmissionPolicy").contains(r#""expression":"[\"view\"]""#));
        assert!(text("ClusterRole").contains("kubectl-mc-bound:view"));
        assert_eq!(text("ConfigMap"), "");
    }

    #[test]
    fn credential_is_removed_when_the_address_changes() {
        let mut existing = secret("ns", "m1.member", &endpoint("https://a"));
        assert!(!leads_elsewhere(&existing, &endpoint("https://b")), "there is nothing to lose");
        existing["data"]["token"] = "dA==".into();
        assert!(!leads_elsewhere(&existing, &endpoint("https://a")));
        assert!(leads_elsewhere(&existing, &endpoint("https://b")));
        assert!(leads_elsewhere(
            &existing,
            &Endpoint::via_agent("kubernetes.default.svc:443", Some("PEM".to_owned()))
        ));
    }

    #[test]
    fn keys_of_another_connection_leave_the_secret() {
        let via_agent = Endpoint::via_agent("10.0.0.1:443", Some("PEM".to_owned()));
        let mut existing = secret("ns", "m1.member", &via_agent);
        let keys = |existing: &Value| -> Vec<String> {
            let removed = obsolete(existing, &endpoint("https://a"));
            removed
                .into_iter()
                .map(|(key, value)| if value.is_null() { key } else { "set".to_owned() })
                .collect()
        };
        assert_eq!(keys(&existing), ["tls-server-name", "via"]);
        existing["data"]["token"] = "dA==".into();
        assert_eq!(keys(&existing), ["tls-server-name", "token", "via"]);
        assert!(obsolete(&existing, &via_agent).is_empty());
        assert!(via_agent.data().keys().all(|key| endpoint::KEYS.contains(key)));
    }

    #[test]
    fn renewed_proxy_certificate_leaves_the_token() {
        let mut existing = secret("ns", "m1.member", &endpoint("https://a"));
        existing["data"]["token"] = "dA==".into();
        existing["data"]["proxy-tls.crt"] = "b2xk".into();
        existing["data"]["proxy-tls.key"] = "b2xk".into();
        assert!(!leads_elsewhere(&existing, &endpoint("https://a")));
        existing["data"]["proxy-ca.crt"] = "b2xk".into();
        assert!(leads_elsewhere(&existing, &endpoint("https://a")));
    }
}
