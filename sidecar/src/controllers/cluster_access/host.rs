//! The host's side of ClusterAccesses: a ClusterRole and a ClusterRoleBinding for each. What is there already is
//! not written; what belongs to none that counts is deleted, rights first.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;

use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::{Api, Resource, ResourceExt};
use kubectl_mc_api::names::{ACCESS, SIDECAR};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// What could not be written, by the name of the ClusterAccess.
pub(super) type Failures = BTreeMap<String, String>;

/// What the host should have, by the name of the ClusterAccess.
pub(super) type Objects = BTreeMap<String, (ClusterRole, ClusterRoleBinding)>;

/// What the host has of it.
#[derive(Debug, Default)]
pub(super) struct HostSide {
    /// What it had, or was to have, after the last sync.
    pub(super) written: Objects,
    pub(super) failures: Failures,
}

/// # Errors
///
/// The host does not say what it has, or does not delete what is surplus. What else fails concerns one ClusterAccess.
pub(super) async fn sync(
    host: &kube::Client,
    namespace: &str,
    wanted: &Objects,
) -> Result<Failures, kube::Error> {
    let roles = Api::<ClusterRole>::all(host.clone());
    let bindings = Api::<ClusterRoleBinding>::all(host.clone());
    let ours = ListParams::default().labels(&format!("{ACCESS}={namespace}"));
    let (actual_roles, actual_bindings) = tokio::try_join!(roles.list(&ours), bindings.list(&ours))?;
    let (actual_roles, actual_bindings) = (by_name(actual_roles.items), by_name(actual_bindings.items));
    // Rights are taken away before others are given.
    let names: BTreeSet<String> = wanted.values().map(|(role, _)| role.name_any()).collect();
    delete_surplus(&bindings, &actual_bindings, &names).await?;
    delete_surplus(&roles, &actual_roles, &names).await?;
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
                patch(&roles, role).await?;
            }
            if !has_binding {
                patch(&bindings, binding).await?;
            }
            Ok::<_, kube::Error>(())
        };
        if let Err(error) = written.await {
            failures.insert(access.clone(), error.to_string());
        }
    }
    Ok(failures)
}

fn by_name<K: Resource>(objects: Vec<K>) -> BTreeMap<String, K> {
    objects.into_iter().map(|object| (object.name_any(), object)).collect()
}

async fn delete_surplus<K>(
    api: &Api<K>,
    actual: &BTreeMap<String, K>,
    wanted: &BTreeSet<String>,
) -> Result<(), kube::Error>
where
    K: Clone + DeserializeOwned + Debug,
{
    for name in actual.keys().filter(|&name| !wanted.contains(name)) {
        match api.delete(name, &DeleteParams::default()).await {
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            deleted => _ = deleted?,
        }
    }
    Ok(())
}

/// Of a ClusterAccess that was deleted and made anew, the host deletes what the first one owned.
fn is_owned<K: Resource>(actual: &K, wanted: &K) -> bool {
    actual.meta().owner_references == wanted.meta().owner_references
}

async fn patch<K>(api: &Api<K>, object: &K) -> Result<(), kube::Error>
where
    K: Resource + Clone + Debug + DeserializeOwned + Serialize,
{
    let ours = PatchParams::apply(SIDECAR).force();
    api.patch(&object.name_any(), &ours, &Patch::Apply(object)).await.map(drop)
}
