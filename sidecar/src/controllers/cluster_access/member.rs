//! Syncs the bindings of one member for ClusterAccesses once, with its manager's credential. The manager may
//! read and write only the bindings of roles that the member's administrators list, each by its name.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use k8s_openapi::api::rbac::v1::{self, ClusterRoleBinding, RoleBinding};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Api;
use kube::api::ListParams;
use kubectl_mc_api::ClusterName;
use kubectl_mc_api::access::subject::RBAC_GROUP;
use kubectl_mc_api::access::{Policy, Subject};
use kubectl_mc_api::cluster_access::{RoleKind, RoleRef};
use kubectl_mc_api::member_cluster::ServiceAccounts;
use kubectl_mc_api::names::{ACCESS, KUBECTL_MC, MANAGED_BY, MANAGER, NAMESPACE};
use tokio::time::timeout;
use tracing::debug;

use super::bindings::{Bindings, Place, State, States};
use super::wanted::Grants;
use crate::controllers::{kube_error, objects};
use crate::outbound::tunnel::registry::AgentTunnels;
use crate::outbound::upstream::sidecar_client;

/// The result of a sync: the state of every ClusterAccess, and whether to retry soon.
pub(super) struct Outcome {
    pub(super) states: States,
    pub(super) retry: bool,
}

/// Writes the bindings of the member's grants, and deletes the sidecar's other bindings.
pub(super) async fn sync(
    cluster: &ClusterName,
    manager: &Secret,
    grants: &Grants,
    accounts: ServiceAccounts,
    tunnels: &Arc<AgentTunnels>,
) -> Outcome {
    let failed = |state: State| {
        let states = grants.keys().map(|access| (access.clone(), state.clone())).collect();
        Outcome { states, retry: true }
    };
    let member = match sidecar_client::client(cluster, manager, tunnels) {
        Ok(member) => member,
        Err(error) => {
            let message = format!("Secret {} cannot be used: {error}", cluster.manager_secret());
            return failed(State::no("MemberUnreachable", message));
        }
    };
    match timeout(TIMEOUT, attempt(&member, grants, accounts)).await {
        Ok(Ok(outcome)) => outcome,
        Ok(Err(error)) => failed(state_of(&error)),
        Err(_) => failed(State::no("MemberUnreachable", "the member did not answer in time")),
    }
}

async fn attempt(
    member: &kube::Client,
    grants: &Grants,
    accounts: ServiceAccounts,
) -> Result<Outcome, kube::Error> {
    let policies = Api::<ConfigMap>::namespaced(member.clone(), NAMESPACE);
    let policy = policies.get_opt(MANAGER).await?.and_then(|map| map.data);
    let policy = policy.map(|data| Policy::parse(&data)).unwrap_or_default();
    let mut bindings = Bindings::new(grants, &policy, accounts);
    let mut failed = false;
    // Bindings of a role that is no longer listed are deleted as far as the manager is allowed to.
    let listed: BTreeSet<RoleRef> =
        policy.bindable_roles.iter().map(|entry| RoleRef::from_entry(entry).0).collect();
    let roles: BTreeSet<&RoleRef> = grants.values().map(|grant| &grant.role).chain(&listed).collect();
    for role in roles {
        let actual = match read(member, role).await {
            Ok(actual) => actual,
            Err(_) if !listed.contains(role) => continue,
            Err(error) => {
                failed = true;
                // The failure concerns only this role.
                let places: Vec<Place> =
                    bindings.of.keys().filter(|place| place.0 == *role).cloned().collect();
                places.iter().for_each(|place| bindings.failed(place, &state_of(&error)));
                continue;
            }
        };
        // Rights are removed before others are granted.
        for place in actual.keys().filter(|&place| !bindings.wanted.contains_key(place)) {
            if let Err(error) = delete(member, place).await {
                debug!(%error, binding = role.binding_name(), "cannot delete a binding on the member");
                failed = true;
            }
        }
        let wanted: Vec<_> = bindings.wanted.iter().filter(|(place, _)| place.0 == *role).collect();
        let mut failures = Vec::new();
        for (place, subjects) in
            wanted.into_iter().filter(|&(place, subjects)| actual.get(place) != Some(subjects))
        {
            if let Err(error) = write(member, place, subjects).await {
                // A new subject may be the cause of the failure. Removed subjects must lose the role in any
                // case.
                let before = actual.get(place).cloned().unwrap_or_default();
                let kept: BTreeSet<Subject> = before.intersection(subjects).cloned().collect();
                if kept.len() < before.len()
                    && let Err(error) = write(member, place, &kept).await
                {
                    debug!(%error, binding = role.binding_name(), "cannot remove subjects on the member");
                    failed = true;
                }
                let state = match (&error, &place.1) {
                    (kube::Error::Api(status), Some(namespace)) if status.code == 404 => {
                        State::no("NamespaceMissing", format!("the member has no namespace {namespace}"))
                    }
                    _ => state_of(&error),
                };
                failures.push((place.clone(), state));
            }
        }
        failures.iter().for_each(|(place, state)| bindings.failed(place, state));
    }
    // Retry until the member's administrators have done their part.
    let retry = failed || bindings.states.values().any(|state| state.granted != Some(true));
    Ok(Outcome { states: bindings.states, retry })
}

/// The bindings of one role. A binding whose labels or role are not those that the sidecar writes
/// counts as empty.
async fn read(
    member: &kube::Client,
    role: &RoleRef,
) -> Result<BTreeMap<Place, BTreeSet<Subject>>, kube::Error> {
    let name = role.binding_name();
    let everywhere = Api::<ClusterRoleBinding>::all(member.clone());
    let in_namespaces = Api::<RoleBinding>::all(member.clone());
    // A list with a field selector for one name needs only the right to that name.
    let named = ListParams::default().fields(&format!("metadata.name={name}"));
    let everywhere = async {
        match role.kind {
            RoleKind::ClusterRole => everywhere.get_opt(&name).await,
            RoleKind::Role => Ok(None),
        }
    };
    let (everywhere, in_namespaces) = tokio::try_join!(everywhere, in_namespaces.list(&named))?;
    let everywhere = everywhere
        .map(|binding| (None, subjects(role, &binding.metadata, &binding.role_ref, binding.subjects)));
    let in_namespaces = in_namespaces.items.into_iter().map(|binding| {
        let namespace = binding.metadata.namespace.clone();
        (namespace, subjects(role, &binding.metadata, &binding.role_ref, binding.subjects))
    });
    Ok(everywhere
        .into_iter()
        .chain(in_namespaces)
        .map(|(namespace, subjects)| ((role.clone(), namespace), subjects))
        .collect())
}

fn subjects(
    role: &RoleRef,
    metadata: &ObjectMeta,
    role_ref: &v1::RoleRef,
    subjects: Option<Vec<v1::Subject>>,
) -> BTreeSet<Subject> {
    let labels = labels();
    let has_labels = labels
        .iter()
        .all(|(key, value)| metadata.labels.as_ref().and_then(|labels| labels.get(key)) == Some(value));
    if !has_labels || *role_ref != reference(role) {
        return BTreeSet::new();
    }
    subjects.iter().flatten().filter_map(Subject::of).collect()
}

async fn write(
    member: &kube::Client,
    (role, namespace): &Place,
    subjects: &BTreeSet<Subject>,
) -> Result<(), kube::Error> {
    let metadata = ObjectMeta {
        name: Some(role.binding_name()),
        namespace: namespace.clone(),
        labels: Some(labels()),
        ..ObjectMeta::default()
    };
    let subjects = Some(subjects.iter().map(Subject::to_rbac).collect());
    let role_ref = reference(role);
    match namespace {
        Some(namespace) => {
            let binding = RoleBinding { metadata, role_ref, subjects };
            objects::apply(&Api::namespaced(member.clone(), namespace), &binding).await
        }
        None => {
            let binding = ClusterRoleBinding { metadata, role_ref, subjects };
            objects::apply(&Api::all(member.clone()), &binding).await
        }
    }
}

async fn delete(member: &kube::Client, (role, namespace): &Place) -> Result<(), kube::Error> {
    let name = role.binding_name();
    match namespace {
        Some(namespace) => {
            objects::delete(&Api::<RoleBinding>::namespaced(member.clone(), namespace), &name).await
        }
        None => objects::delete(&Api::<ClusterRoleBinding>::all(member.clone()), &name).await,
    }
}

fn reference(role: &RoleRef) -> v1::RoleRef {
    let RoleRef { kind, name } = role;
    v1::RoleRef { api_group: RBAC_GROUP.to_owned(), kind: kind.as_str().to_owned(), name: name.clone() }
}

fn labels() -> BTreeMap<String, String> {
    let labels = [(MANAGED_BY, KUBECTL_MC), (ACCESS, "true")];
    labels.map(|(key, value)| (key.to_owned(), value.to_owned())).into()
}

fn state_of(error: &kube::Error) -> State {
    match error {
        kube::Error::Api(status) if status.code == 401 => State::no(
            "MemberUnreachable",
            format!("the member refuses the manager's credential: {}", kube_error::message(error)),
        ),
        kube::Error::Api(status) if status.code == 403 => State::no("Forbidden", kube_error::message(error)),
        kube::Error::Api(_) => State::no("MemberRefused", kube_error::message(error)),
        _ => State::no("MemberUnreachable", kube_error::message(error)),
    }
}

/// The timeout of a whole sync; the member may be distant.
const TIMEOUT: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::wanted::Grant;
    use super::*;
    use crate::host::fake;

    #[tokio::test]
    async fn refused_binding_does_not_stop_those_of_other_roles() {
        let role = |name: &str| RoleRef::from_entry(name).0;
        let grant = |name: &str, user: &str| {
            let subjects = [Subject::User(user.to_owned())].into();
            Arc::new(Grant { role: role(name), namespaces: None, subjects })
        };
        let grants =
            Grants::from([("a".to_owned(), grant("one", "jane")), ("b".to_owned(), grant("two", "zoe"))]);
        let [one, two] = ["one", "two"].map(|name| role(name).binding_name());
        let both = BTreeSet::from(["jane", "theo"].map(|name| Subject::User(name.to_owned())));
        let before = json!({
            "metadata": {"name": "x", "labels": labels()}, "roleRef": reference(&role("one")),
            "subjects": both.iter().map(Subject::to_rbac).collect::<Vec<_>>(),
        });
        let (written, wrote) = std::sync::mpsc::channel();
        let (member, _) = fake::host_by_path(move |path, object| {
            let name = path.rsplit('/').next().unwrap();
            let status =
                |code: u16, reason: &str| (code, json!({"kind": "Status", "code": code, "reason": reason}));
            match object.is_null() {
                true if name == MANAGER => {
                    (200, json!({"metadata": {}, "data": {"bindable-roles": "one\ntwo"}}))
                }
                true if name == "rolebindings" => (200, json!({"metadata": {}, "items": []})),
                true if name == one => (200, before.clone()),
                true => status(404, "NotFound"),
                // The manager lost its right to bind this role.
                false if name == one => status(403, "Forbidden"),
                false => {
                    written.send(name.to_owned()).unwrap();
                    (200, object.clone())
                }
            }
        });
        let outcome = attempt(&member, &grants, ServiceAccounts::Same).await.unwrap();
        assert_eq!(wrote.try_iter().collect::<Vec<_>>(), [two]);
        assert_eq!((outcome.states["a"].reason, outcome.states["b"].reason), ("Forbidden", "Granted"));
        assert!(outcome.retry);
    }
}
