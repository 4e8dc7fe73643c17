//! Computes the desired state of all ClusterAccesses, on the host and on each member. No IO happens here.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::rbac::v1::{self, ClusterRole, ClusterRoleBinding, PolicyRule};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::core::SelectorExt;
use kube::{Resource, ResourceExt};
use kubectl_mc_api::access::builtin::{is_privileged_group, is_privileged_namespace, is_privileged_user};
use kubectl_mc_api::access::sent::{self, AUTHENTICATED, BUILTIN_ADMIN_GROUPS, UNAUTHENTICATED};
use kubectl_mc_api::access::subject::RBAC_GROUP;
use kubectl_mc_api::access::{Policy, Subject};
use kubectl_mc_api::cluster_access::{RoleKind, RoleRef, host_name};
use kubectl_mc_api::member_cluster::ServiceAccounts;
use kubectl_mc_api::names::{ACCESS, KUBECTL_MC, MANAGED_BY};
use kubectl_mc_api::path::PROXY_GROUP;
use kubectl_mc_api::{ClusterAccess, ClusterName, is_label, is_subdomain};

/// The registered members.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Registry {
    /// The labels of this sidecar's members.
    pub(super) own: HashMap<ClusterName, BTreeMap<String, String>>,
    /// The members of sidecars in other namespaces, which sync them.
    pub(super) others: HashSet<ClusterName>,
}

/// The desired state, by the name of the ClusterAccess.
#[derive(Debug, Default)]
pub(super) struct Wanted {
    pub(super) accesses: BTreeMap<String, Selected>,
    pub(super) host: BTreeMap<String, (ClusterRole, ClusterRoleBinding)>,
    pub(super) members: HashMap<ClusterName, Grants>,
    /// When the next access expires.
    pub(super) next_end: Option<Timestamp>,
}

/// The grants of one member, by the name of the ClusterAccess.
pub(super) type Grants = BTreeMap<String, Arc<Grant>>;

/// The grant of a ClusterAccess on a member.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Grant {
    pub(super) role: RoleRef,
    /// `None` means everywhere.
    pub(super) namespaces: Option<BTreeSet<String>>,
    pub(super) subjects: BTreeSet<Subject>,
}

/// The members that a ClusterAccess selects.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Selected {
    /// It is being deleted; a finalizer may delay the deletion.
    Deleted,
    /// The registered members, and the names that are not registered.
    Clusters {
        registered: BTreeSet<ClusterName>,
        missing: BTreeSet<String>,
    },
    Expired,
    Invalid(String),
}

impl Wanted {
    pub(super) fn new<'a>(
        accesses: impl Iterator<Item = &'a Arc<ClusterAccess>>,
        registry: &Registry,
        namespace: &str,
        now: Timestamp,
    ) -> Self {
        let mut wanted = Self::default();
        for access in accesses {
            wanted.add(access, registry, namespace, now);
        }
        wanted
    }

    fn add(&mut self, access: &ClusterAccess, registry: &Registry, namespace: &str, now: Timestamp) {
        let name = access.name_any();
        let selected = selected(access, registry, now);
        if let Selected::Clusters { registered, .. } = &selected {
            if let Some(end) = &access.spec.expiration_timestamp {
                self.next_end = Some(self.next_end.map_or(end.0, |next| next.min(end.0)));
            }
            let subjects: BTreeSet<Subject> = access.spec.subjects.iter().filter_map(Subject::of).collect();
            if !registered.is_empty() {
                self.host.insert(name.clone(), host_objects(access, registered, &subjects, namespace));
            }
            let grant = Arc::new(Grant {
                role: access.spec.role_ref.clone(),
                namespaces: access.spec.namespaces.clone().map(BTreeSet::from_iter),
                subjects,
            });
            for cluster in registered {
                self.members.entry(cluster.clone()).or_default().insert(name.clone(), grant.clone());
            }
        }
        self.accesses.insert(name, selected);
    }
}

fn selected(access: &ClusterAccess, registry: &Registry, now: Timestamp) -> Selected {
    let Registry { own, others } = registry;
    if access.metadata.deletion_timestamp.is_some() {
        return Selected::Deleted;
    }
    if access.is_expired(now) {
        return Selected::Expired;
    }
    if let Some(subject) = access.spec.subjects.iter().find(|subject| Subject::of(subject).is_none()) {
        let (kind, name) = (&subject.kind, &subject.name);
        let message =
            format!("spec.subjects: {kind} {name:?} lacks a name, or a service account its namespace");
        return Selected::Invalid(message);
    }
    // The CRD's schema has the same rule.
    if access.spec.role_ref.kind == RoleKind::Role && access.spec.namespaces.is_none() {
        return Selected::Invalid("spec.namespaces: a Role needs namespaces".to_owned());
    }
    let selector = match access.selector() {
        Ok(selector) => selector,
        Err(error) => return Selected::Invalid(format!("spec.clusterSelector: {error}")),
    };
    let Some(selector) = selector else {
        let (mut registered, mut missing) = (BTreeSet::new(), BTreeSet::new());
        for name in access.spec.clusters.iter().flatten() {
            match name.parse::<ClusterName>() {
                Ok(cluster) if own.contains_key(&cluster) => _ = registered.insert(cluster),
                Ok(cluster) if others.contains(&cluster) => {}
                _ => _ = missing.insert(name.clone()),
            }
        }
        return Selected::Clusters { registered, missing };
    };
    // An empty selector selects all, as in Kubernetes.
    let of = |(name, labels): (&ClusterName, &BTreeMap<String, String>)| {
        selector.matches(labels).then(|| name.clone())
    };
    Selected::Clusters { registered: own.iter().filter_map(of).collect(), missing: BTreeSet::new() }
}

/// The host's right to access the members. Subjects that every member refuses are left out.
fn host_objects(
    access: &ClusterAccess,
    clusters: &BTreeSet<ClusterName>,
    subjects: &BTreeSet<Subject>,
    namespace: &str,
) -> (ClusterRole, ClusterRoleBinding) {
    let name = host_name(&access.name_any(), namespace);
    let metadata = ObjectMeta {
        name: Some(name.clone()),
        labels: Some(BTreeMap::from([
            (MANAGED_BY.to_owned(), KUBECTL_MC.to_owned()),
            (ACCESS.to_owned(), namespace.to_owned()),
        ])),
        // The host garbage-collects the objects with the ClusterAccess, even if no sidecar runs.
        owner_references: Some(vec![OwnerReference {
            api_version: ClusterAccess::api_version(&()).into_owned(),
            kind: ClusterAccess::kind(&()).into_owned(),
            name: access.name_any(),
            uid: access.uid().unwrap_or_default(),
            ..OwnerReference::default()
        }]),
        ..ObjectMeta::default()
    };
    let rule = |resource: &str, verbs: Vec<String>| PolicyRule {
        api_groups: Some(vec![PROXY_GROUP.to_owned()]),
        resources: Some(vec![resource.to_owned()]),
        resource_names: Some(clusters.iter().map(|cluster| cluster.as_str().to_owned()).collect()),
        verbs,
        ..PolicyRule::default()
    };
    let verbs = access.spec.proxy_verbs.clone().unwrap_or_else(|| vec!["*".to_owned()]);
    let role = ClusterRole {
        metadata: metadata.clone(),
        rules: Some(vec![rule("clusters", vec!["get".to_owned()]), rule("clusters/proxy", verbs)]),
        ..ClusterRole::default()
    };
    let binding = ClusterRoleBinding {
        metadata,
        role_ref: v1::RoleRef { api_group: RBAC_GROUP.to_owned(), kind: "ClusterRole".to_owned(), name },
        subjects: Some(
            subjects.iter().filter(|one| never_sent(one).is_none()).map(Subject::to_rbac).collect(),
        ),
    };
    (role, binding)
}

/// The subject in a binding on a member with this policy, or the reason why it gets no access
/// there. This includes every subject that the member's ValidatingAdmissionPolicy or RBAC would
/// refuse: subjects share a binding, so a refused one would block the others.
pub(super) fn on_member(
    subject: &Subject,
    policy: &Policy,
    accounts: ServiceAccounts,
) -> Result<Subject, &'static str> {
    if let Some(why) = never_sent(subject) {
        return Err(why);
    }
    let omitted = "spec.impersonation.serviceAccounts of the MemberCluster is Omit";
    let there = sent::subject(accounts, subject).ok_or(omitted)?;
    let is_refused = match &there {
        Subject::User(user) => policy.refused_users.contains(user),
        Subject::Group(group) => policy.refused_groups.contains(group),
        Subject::ServiceAccount { namespace, .. } => policy.refused_namespaces.contains(namespace),
    };
    if is_refused { Err("the member's ConfigMap kubectl-mc-manager refuses it") } else { Ok(there) }
}

/// Why no member ever sees a subject of the host.
fn never_sent(subject: &Subject) -> Option<&'static str> {
    let is_privileged = match subject {
        Subject::User(user) => is_privileged_user(user) || user == ANONYMOUS,
        Subject::Group(group) => {
            is_privileged_group(group)
                || BUILTIN_ADMIN_GROUPS.contains(&group.as_str())
                || [AUTHENTICATED, UNAUTHENTICATED].contains(&group.as_str())
        }
        Subject::ServiceAccount { namespace, name } => {
            if !(is_label(namespace) && is_subdomain(name)) {
                return Some("no service account can have this name");
            }
            is_privileged_namespace(namespace)
        }
    };
    is_privileged
        .then_some("it is an identity of everybody, of administrators, of a control plane or of the sidecar")
}

/// The user of callers without a credential.
const ANONYMOUS: &str = "system:anonymous";

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use serde_json::{Value, json};

    use super::*;

    fn access(name: &str, spec: Value) -> Arc<ClusterAccess> {
        let mut object = json!({
            "apiVersion": "fleet.kubectl-mc.dev/v1alpha1", "kind": "ClusterAccess",
            "metadata": {"name": name, "uid": "u", "generation": 1},
            "spec": {"subjects": [{"kind": "Group", "name": "dev"}], "roleRef": {"name": "view"}},
        });
        for (key, value) in spec.as_object().unwrap() {
            object["spec"][key] = value.clone();
        }
        Arc::new(serde_json::from_value(object).unwrap())
    }

    fn wanted(accesses: &[Arc<ClusterAccess>]) -> Wanted {
        let labels = [("m1", "prod"), ("m2", "prod"), ("m3", "test")];
        let labels = labels
            .map(|(name, env)| (name.parse().unwrap(), BTreeMap::from([("env".to_owned(), env.to_owned())])));
        let registry = Registry { own: labels.into(), others: ["m4".parse().unwrap()].into() };
        let now = "2026-01-01T12:00:00Z".parse().unwrap();
        Wanted::new(accesses.iter(), &registry, "kubectl-mc-system", now)
    }

    fn members(wanted: &Wanted) -> Vec<&str> {
        let mut names: Vec<_> = wanted.members.keys().map(ClusterName::as_str).collect();
        names.sort_unstable();
        names
    }

    #[test]
    fn selector_matches_labels_and_empty_selector_matches_all() {
        let prod = access("a", json!({"clusterSelector": {"matchLabels": {"env": "prod"}}}));
        assert_eq!(members(&wanted(&[prod])), ["m1", "m2"]);
        let not_prod = json!({"matchExpressions": [{"key": "env", "operator": "NotIn", "values": ["prod"]}]});
        assert_eq!(members(&wanted(&[access("a", json!({"clusterSelector": not_prod}))])), ["m3"]);
        assert_eq!(members(&wanted(&[access("a", json!({"clusterSelector": {}}))])), ["m1", "m2", "m3"]);
        let none = access("a", json!({"clusterSelector": {"matchLabels": {"env": "dev"}}}));
        let none = wanted(&[none]);
        assert!(members(&none).is_empty() && none.host.is_empty());
        let unknown = json!({"matchExpressions": [{"key": "env", "operator": "Near", "values": ["prod"]}]});
        let invalid = wanted(&[access("a", json!({"clusterSelector": unknown}))]);
        assert!(matches!(invalid.accesses["a"], Selected::Invalid(_)));
        assert!(invalid.host.is_empty());
    }

    #[test]
    fn unregistered_names_are_reported_as_missing() {
        let named = wanted(&[access("a", json!({"clusters": ["m1", "m4", "m9", "No"]}))]);
        assert_eq!(members(&named), ["m1"]);
        let Selected::Clusters { missing, .. } = &named.accesses["a"] else { panic!("{named:?}") };
        assert_eq!(missing.iter().collect::<Vec<_>>(), ["No", "m9"]);
    }

    #[test]
    fn invalid_or_deleted_access_grants_nothing() {
        let nothing = |access: Arc<ClusterAccess>| {
            let wanted = wanted(&[access]);
            assert!(wanted.host.is_empty() && wanted.members.is_empty(), "{wanted:?}");
            wanted.accesses.into_values().next().unwrap()
        };
        // Kubernetes refuses these selectors in its own objects. Evaluated literally, they would select every
        // member.
        for expression in [
            json!({"key": "env", "operator": "NotIn", "values": []}),
            json!({"key": "env", "operator": "NotIn"}),
            json!({"key": "env", "operator": "DoesNotExist", "values": ["x"]}),
        ] {
            let selector = json!({"clusterSelector": {"matchExpressions": [expression]}});
            assert!(matches!(nothing(access("a", selector)), Selected::Invalid(_)));
        }
        for subject in [json!({"kind": "ServiceAccount", "name": "x"}), json!({"kind": "User", "name": ""})] {
            let subjects = json!([{"kind": "User", "name": "jane"}, subject]);
            let spec = json!({"clusterSelector": {}, "subjects": subjects});
            assert!(matches!(nothing(access("a", spec)), Selected::Invalid(_)));
        }
        let everywhere = json!({"clusterSelector": {}, "roleRef": {"kind": "Role", "name": "deployer"}});
        assert!(matches!(nothing(access("a", everywhere)), Selected::Invalid(_)));
        let mut deleted = Arc::unwrap_or_clone(access("a", json!({"clusterSelector": {}})));
        deleted.metadata.deletion_timestamp = Some(Time("2026-01-01T00:00:00Z".parse().unwrap()));
        assert_eq!(nothing(Arc::new(deleted)), Selected::Deleted);
    }

    /// A subject that the member refuses would block the other subjects of its binding.
    #[test]
    fn subjects_refused_by_the_member_are_omitted() {
        let account = |namespace: &str, name: &str| Subject::ServiceAccount {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        };
        let group = |name: &str| Subject::Group(name.to_owned());
        let user = |name: &str| Subject::User(name.to_owned());
        for subject in [
            group("kubeadm:cluster-admins"),
            group("system:masters"),
            group("kubectl-mc:host-admins"),
            user("system:anonymous"),
            account("ci", "Bad_Name"),
            account("a.b", "x"),
            account("ci", "x..y"),
        ] {
            let there = on_member(&subject, &Policy::default(), ServiceAccounts::Same);
            assert!(there.is_err(), "{subject}");
        }
        for subject in [account("ci", "deployer.v2"), user("jane"), group("oidc:dev")] {
            let there = on_member(&subject, &Policy::default(), ServiceAccounts::Same);
            assert_eq!(there, Ok(subject));
        }
    }

    #[test]
    fn expiration_removes_all_grants() {
        let ends = |at: &str| access("a", json!({"clusters": ["m1"], "expirationTimestamp": at}));
        let open = wanted(&[ends("2026-01-01T12:00:01Z")]);
        assert_eq!(open.next_end, Some("2026-01-01T12:00:01Z".parse().unwrap()));
        assert_eq!((open.host.len(), open.members.len()), (1, 1));
        let ended = wanted(&[ends("2026-01-01T12:00:00Z")]);
        assert_eq!(ended.accesses["a"], Selected::Expired);
        assert!(ended.host.is_empty() && ended.members.is_empty() && ended.next_end.is_none());
    }

    #[test]
    fn host_role_has_selected_clusters_and_omits_privileged_users() {
        let subjects = json!([
            {"kind": "User", "name": "jane"}, {"kind": "Group", "name": "system:masters"},
            {"kind": "Group", "name": "system:authenticated"},
            {"kind": "ServiceAccount", "namespace": "kube-system", "name": "x"},
        ]);
        let spec = json!({"clusters": ["m1", "m3"], "subjects": subjects, "proxyVerbs": ["get"]});
        let wanted = wanted(&[access("a", spec)]);
        let (role, binding) = &wanted.host["a"];
        assert_eq!(role.metadata.name.as_deref(), Some("kubectl-mc-access:a"));
        assert_eq!(role.metadata.owner_references.as_ref().unwrap()[0].uid, "u");
        let rules = serde_json::to_value(&role.rules).unwrap();
        let names = json!(["m1", "m3"]);
        let group = json!(["proxy.kubectl-mc.dev"]);
        assert_eq!(
            rules,
            json!([
                {"apiGroups": group, "resources": ["clusters"], "resourceNames": names, "verbs": ["get"]},
                {"apiGroups": group, "resources": ["clusters/proxy"], "resourceNames": names, "verbs": ["get"]},
            ])
        );
        assert_eq!(binding.role_ref.name, "kubectl-mc-access:a");
        let subjects = serde_json::to_value(&binding.subjects).unwrap();
        assert_eq!(
            subjects,
            json!([{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "jane"}])
        );
    }
}
