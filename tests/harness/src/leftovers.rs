//! Removes what a test has left on a cluster that other tests use next: installations, and whatever
//! makes a cluster a member. It runs before and after each test, since a failed test removes
//! nothing.

use anyhow::Result;
use serde_json::Value;
use testbed::Cluster;

use crate::api::Api;
use crate::bed::{SYSTEM, host};
use crate::wait::{SOON, eventually};

/// A spare cluster, for the test whose turn it is. Now, and again after this is dropped, it has
/// only what Kubernetes itself created.
pub struct Clean {
    pub cluster: &'static Cluster,
}

impl Clean {
    pub fn take(cluster: &'static Cluster) -> Result<Self> {
        let clean = Self { cluster };
        clean.restore()?;
        Ok(clean)
    }

    fn restore(&self) -> Result<()> {
        let api = Api::admin(self.cluster)?;
        unregister(&api)?;
        // A sidecar that still runs may create objects before it ends.
        eventually("nothing of ours is left on a spare cluster", 4 * SOON, || {
            let left = left(&api)?;
            for path in &left {
                api.request("DELETE", path, "", "")?;
            }
            Ok(left.is_empty().then_some(()))
        })
    }
}

impl Drop for Clean {
    fn drop(&mut self) {
        // The next test that takes it tries again, and reports the error.
        let _ = self.restore();
    }
}

/// Removes the cluster's registration from the bed's host.
fn unregister(member: &Api) -> Result<()> {
    let uid = member.get("/api/v1/namespaces/kube-system")?["metadata"]["uid"].clone();
    let host = host()?;
    let registered = host.get(MEMBER_CLUSTERS)?;
    let is_it =
        |cluster: &&Value| cluster["metadata"]["annotations"][UID] == uid || cluster["status"]["uid"] == uid;
    for cluster in items(&registered).filter(is_it) {
        let name = name(cluster);
        let namespaced = |kind: &str, end: &str| format!("/api/v1/namespaces/{SYSTEM}/{kind}/{name}.{end}");
        let grants = ["clusterroles", "clusterrolebindings"]
            .map(|plural| format!("{RBAC}/{plural}?labelSelector={GRANT_FOR}%3D{name}"));
        let named = [
            format!("{MEMBER_CLUSTERS}/{name}"),
            namespaced("secrets", "member"),
            namespaced("secrets", "manager"),
            namespaced("configmaps", "learnt"),
            format!("/api/v1/namespaces/kubectl-mc-agents/serviceaccounts/{name}"),
            format!("/api/v1/namespaces/kubectl-mc-agents/secrets/{name}"),
        ];
        for path in named.iter().chain(&grants) {
            host.request("DELETE", path, "", "")?;
        }
    }
    Ok(())
}

/// The paths of all namespaces that are not Kubernetes' own, and of all other objects with our label.
fn left(api: &Api) -> Result<Vec<String>> {
    let namespaces = api.get("/api/v1/namespaces")?;
    let theirs = items(&namespaces).map(name).filter(|name| *name != "default" && !name.starts_with("kube-"));
    let mut left: Vec<_> = theirs.map(|name| format!("/api/v1/namespaces/{name}")).collect();
    for (group, plural) in KINDS {
        let list = api.request("GET", &format!("{group}/{plural}?labelSelector={OURS}"), "", "")?;
        // Not every cluster serves every kind.
        let list: Value = serde_json::from_slice(&list.body).unwrap_or_default();
        left.extend(items(&list).map(|object| match object["metadata"]["namespace"].as_str() {
            Some(namespace) => format!("{group}/namespaces/{namespace}/{plural}/{}", name(object)),
            None => format!("{group}/{plural}/{}", name(object)),
        }));
    }
    // karmadactl register writes these, without a label.
    for plural in ["clusterroles", "clusterrolebindings"] {
        let list = api.get(&format!("{RBAC}/{plural}"))?;
        let theirs = items(&list).map(name).filter(|name| name.starts_with("system:karmada:"));
        left.extend(theirs.map(|name| format!("{RBAC}/{plural}/{name}")));
    }
    Ok(left)
}

fn items(list: &Value) -> impl Iterator<Item = &Value> {
    list["items"].as_array().into_iter().flatten()
}

fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

/// Kinds whose objects are not deleted with a namespace.
const KINDS: [(&str, &str); 13] = [
    // These come first, because a leftover webhook or policy would refuse other writes.
    ("/apis/admissionregistration.k8s.io/v1", "validatingadmissionpolicies"),
    ("/apis/admissionregistration.k8s.io/v1", "validatingadmissionpolicybindings"),
    ("/apis/admissionregistration.k8s.io/v1", "mutatingadmissionpolicies"),
    ("/apis/admissionregistration.k8s.io/v1", "mutatingadmissionpolicybindings"),
    ("/apis/admissionregistration.k8s.io/v1", "validatingwebhookconfigurations"),
    ("/apis/admissionregistration.k8s.io/v1", "mutatingwebhookconfigurations"),
    ("/api/v1", "configmaps"),
    ("/apis/apiregistration.k8s.io/v1", "apiservices"),
    ("/apis/apiextensions.k8s.io/v1", "customresourcedefinitions"),
    (RBAC, "clusterroles"),
    (RBAC, "clusterrolebindings"),
    (RBAC, "roles"),
    (RBAC, "rolebindings"),
];
const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
/// Installed by the plugin or by Helm.
const OURS: &str = "app.kubernetes.io/managed-by%20in%20(kubectl-mc,Helm)";
const MEMBER_CLUSTERS: &str = "/apis/fleet.kubectl-mc.dev/v1alpha1/memberclusters";
/// Annotation of a MemberCluster: the uid of the member's kube-system.
const UID: &str = "fleet.kubectl-mc.dev/uid";
const GRANT_FOR: &str = "fleet.kubectl-mc.dev/grant-for";
