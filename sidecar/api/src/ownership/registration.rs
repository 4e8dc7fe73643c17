//! Lists the rules that `karmadactl register` writes into the roles of an agent. They are wider than what the
//! agent needs, and are narrowed to [`rbac`](super::rbac) afterwards. A registration cannot be refused for them.
//!
//! They are the same from Karmada 1.12 to 1.17 (karmada: `pkg/karmadactl/register/register.go`,
//! `GenerateClusterRole`, `GenerateSecretAccessRole`, `GenerateWorkAccessRole`).

use serde_json::{Value, json};

/// The roles of a registration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The ClusterRole.
    Agent,
    /// In the namespace of the clusters' Secrets.
    Secret,
    /// In the namespace of the cluster's Works.
    Work,
}

impl Role {
    pub const ALL: [Self; 3] = [Self::Agent, Self::Secret, Self::Work];

    /// The end of the role's name, `system:karmada:CLUSTER:agent`.
    pub fn suffix(self) -> &'static str {
        match self {
            Self::Agent => "agent",
            Self::Secret => "agent-secret",
            Self::Work => "agent-work",
        }
    }

    /// The rules for the agent of this cluster.
    pub fn rules(self, cluster: &str) -> Vec<Value> {
        let any = |group: &str, resources: &[&str], verbs: &[&str]| json!({"apiGroups": [group], "resources": resources, "verbs": verbs});
        let named = |group: &str, resource: &str, names: &[String], verbs: &[&str]| json!({"apiGroups": [group], "resources": [resource], "resourceNames": names, "verbs": verbs});
        let own = [cluster.to_owned()];
        match self {
            Self::Agent => vec![
                named("cluster.karmada.io", "clusters", &own, &["get", "delete"]),
                any("cluster.karmada.io", &["clusters"], &["create", "list", "watch"]),
                named("cluster.karmada.io", "clusters/status", &own, &["update"]),
                any(
                    "config.karmada.io",
                    &["resourceinterpreterwebhookconfigurations", "resourceinterpretercustomizations"],
                    &["get", "list", "watch"],
                ),
                any("", &["namespaces"], &["get"]),
                any("coordination.k8s.io", &["leases"], &["get", "create", "update"]),
                any("certificates.k8s.io", &["certificatesigningrequests"], &["get", "create"]),
                any("", &["services"], &["list", "watch"]),
                any("", &["events"], &["patch", "create", "update"]),
            ],
            Self::Secret => {
                let secrets = [cluster.to_owned(), format!("{cluster}-impersonator")];
                vec![named("", "secrets", &secrets, &["get", "patch"]), any("", &["secrets"], &["create"])]
            }
            Self::Work => vec![
                any("work.karmada.io", &["works"], &["get", "create", "list", "watch", "update", "delete"]),
                any("work.karmada.io", &["works/status"], &["patch", "update"]),
            ],
        }
    }
}
