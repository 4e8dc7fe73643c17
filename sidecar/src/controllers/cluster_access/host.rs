//! Writes the host's objects of ClusterAccesses: a ClusterRole and a ClusterRoleBinding for each. Only
//! objects that differ are written. Objects without a valid ClusterAccess are deleted first, bindings before
//! roles.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;

use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use kube::api::ListParams;
use kube::{Api, Resource, ResourceExt};
use kubectl_mc_api::cluster_access::HOST_PREFIX;
use kubectl_mc_api::names::ACCESS;
use serde::de::DeserializeOwned;

use crate::controllers::{kube_error, objects};

/// The errors of objects that could not be written, by the name of the ClusterAccess.
pub(super) type Failures = BTreeMap<String, String>;

/// The desired objects on the host, by the name of the ClusterAccess.
pub(super) type Objects = BTreeMap<String, (ClusterRole, ClusterRoleBinding)>;

/// The failures of a sync.
#[derive(Debug, Default)]
pub(super) struct Synced {
    pub(super) failures: Failures,
    /// The objects that could not be deleted, and why.
    pub(super) left: BTreeMap<String, String>,
}

/// The state of the host after the last sync.
#[derive(Debug, Default)]
pub(super) struct HostSide {
    /// The desired objects of the last completed sync.
    pub(super) written: Objects,
    pub(super) failures: Failures,
}

/// Syncs the host's objects.
///
/// # Errors
///
/// The host's objects cannot be listed. Other failures concern one object and are in the result.
pub(super) async fn sync(
    host: &kube::Client,
    namespace: &str,
    wanted: &Objects,
) -> Result<Synced, kube::Error> {
    let roles = Api::<ClusterRole>::all(host.clone());
    let bindings = Api::<ClusterRoleBinding>::all(host.clone());
    let ours = ListParams::default().labels(&format!("{ACCESS}={namespace}"));
    let (actual_roles, actual_bindings) = tokio::try_join!(roles.list(&ours), bindings.list(&ours))?;
    let (actual_roles, actual_bindings) = (by_name(actual_roles.items), by_name(actual_bindings.items));
    // Rights are removed before others are granted.
    let names: BTreeSet<String> = wanted.values().map(|(role, _)| role.name_any()).collect();
    let mut left = delete_surplus(&bindings, &actual_bindings, &names).await;
    left.extend(delete_surplus(&roles, &actual_roles, &names).await);
    let mut failures = Failures::new();
    for (access, (role, binding)) in wanted {
        let name = role.name_any();
        let has_role = actual_roles.get(&name).is_some_and(|actual| {
            actual.rules == role.rules && actual.aggregation_rule.is_none() && is_owned(actual, role)
        });
        let has_binding = actual_bindings.get(&name).is_some_and(|actual| {
            actual.subjects == binding.subjects
                && actual.role_ref == binding.role_ref
                && is_owned(actual, binding)
        });
        let written = async {
            if !has_role {
                objects::apply(&roles, role).await?;
            }
            if !has_binding {
                objects::apply(&bindings, binding).await?;
            }
            Ok::<_, kube::Error>(())
        };
        if let Err(error) = written.await {
            failures.insert(access.clone(), kube_error::message(&error));
        }
    }
    Ok(Synced { failures, left })
}

fn by_name<K: Resource>(objects: Vec<K>) -> BTreeMap<String, K> {
    objects.into_iter().map(|object| (object.name_any(), object)).collect()
}

/// Deletes surplus objects, and returns the names of those that remain, and why.
async fn delete_surplus<K>(
    api: &Api<K>,
    actual: &BTreeMap<String, K>,
    wanted: &BTreeSet<String>,
) -> BTreeMap<String, String>
where
    K: Clone + DeserializeOwned + Debug,
{
    let mut left = BTreeMap::new();
    // Objects of other owners may have the label too, so the name is checked as well.
    for name in actual.keys().filter(|name| name.starts_with(HOST_PREFIX) && !wanted.contains(*name)) {
        if let Err(error) = objects::delete(api, name).await {
            left.insert(name.clone(), kube_error::message(&error));
        }
    }
    left
}

/// Whether an object has the desired owner. After a ClusterAccess is deleted and recreated, the host deletes
/// the objects of the first one.
fn is_owned<K: Resource>(actual: &K, wanted: &K) -> bool {
    actual.meta().owner_references == wanted.meta().owner_references
}
