//! The watches and the writes of the host.

use std::time::Duration;

use futures_util::future::ready;
use futures_util::stream::select_all;
use futures_util::{Stream, StreamExt};
use kube::api::{Api, ApiResource, DeleteParams, Patch, PatchParams, Preconditions};
use kube::core::{DynamicObject, GroupVersionKind};
use kube::runtime::watcher::{Config, Event};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Error, ResourceExt};
use kubectl_mc_api::names::{KEPT_BY, SIDECAR};
use tokio::time::timeout;
use tracing::{debug, warn};

use super::state::{Key, Source, Step};
use crate::controllers::kube_error;
use crate::host::watch_backoff::WatchBackoff;

/// A failed sync of one agent's RBAC.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Failure {
    pub(super) message: String,
    /// Whether all failures concern a namespace that does not exist.
    pub(super) is_absent: bool,
}

/// The events of all watches. An error is logged, and its watch is restarted.
pub(super) fn events(
    host: &kube::Client,
    namespace: &str,
) -> impl Stream<Item = (Source, Event<DynamicObject>)> + use<> {
    select_all(Source::ALL.map(|source| {
        let config = match source {
            Source::Clusters => Config::default(),
            _ => Config::default().labels(&format!("{KEPT_BY}={namespace}")),
        };
        let events = watcher(Api::all_with(host.clone(), &source.resource()), config);
        let events = events.modify(|object: &mut DynamicObject| object.managed_fields_mut().clear());
        let events = events.backoff(WatchBackoff::default());
        let events = events.filter_map(move |event| {
            ready(match event {
                Ok(event) => Some((source, event)),
                Err(watcher::Error::InitialListFailed(Error::Api(status))) if status.code == 404 => {
                    debug!(kind = source.kind(), "the host does not serve this kind");
                    None
                }
                Err(error) => {
                    warn!(kind = source.kind(), error = %error, "cannot watch for the RBAC of agents");
                    None
                }
            })
        });
        events.boxed()
    }))
}

/// Executes these writes in order, and returns their number. A failure does not stop the later
/// writes.
pub(super) async fn carry_out(host: &kube::Client, steps: Vec<Step>) -> Result<usize, Failure> {
    let (mut failure, count): (Option<Failure>, _) = (None, steps.len());
    for step in steps {
        let key = step.key().clone();
        let (message, is_absent) = match timeout(TIMEOUT, step.write(&key.api(host))).await {
            Ok(Ok(())) => continue,
            Ok(Err(error)) => {
                let is_absent = matches!(&error, Error::Api(status) if status.code == 404);
                (kube_error::message(&error), is_absent)
            }
            Err(_) => ("the host did not answer in time".to_owned(), false),
        };
        let failed = Failure { message: format!("{} {}: {message}", key.source.kind(), key.name), is_absent };
        if failure.as_ref().is_none_or(|first| first.is_absent && !is_absent) {
            failure = Some(failed);
        }
    }
    failure.map_or(Ok(count), Err)
}

impl Step {
    fn key(&self) -> &Key {
        match self {
            Self::Apply(key, _) | Self::Delete { key, .. } => key,
        }
    }

    async fn write(self, api: &Api<DynamicObject>) -> Result<(), Error> {
        match self {
            Self::Delete { key, uid } => {
                let preconditions = Preconditions { uid, resource_version: None };
                delete(api, &key, DeleteParams::default().preconditions(preconditions)).await
            }
            Self::Apply(key, object) => {
                // An object of this name that a registration wrote is taken over.
                let ours = PatchParams::apply(SIDECAR).force();
                let patch = Patch::Apply(&object);
                match api.patch(&key.name, &ours, &patch).await {
                    Err(Error::Api(status)) if is_of_another_role(&status) => {
                        delete(api, &key, DeleteParams::default()).await?;
                        api.patch(&key.name, &ours, &patch).await.map(drop)
                    }
                    written => written.map(drop),
                }
            }
        }
    }
}

async fn delete(api: &Api<DynamicObject>, key: &Key, parameters: DeleteParams) -> Result<(), Error> {
    match api.delete(&key.name, &parameters).await {
        // Another deletion was faster, or the object has been replaced, which the watch reports.
        Err(Error::Api(status)) if status.is_not_found() || status.is_conflict() => Ok(()),
        deleted => deleted.map(drop),
    }
}

/// Whether the host refused to change the role of a binding, which cannot be changed.
fn is_of_another_role(status: &kube::core::Status) -> bool {
    let mut causes = status.details.iter().flat_map(|details| &details.causes);
    status.code == 422 && causes.any(|cause| cause.field == "roleRef")
}

impl Source {
    fn resource(self) -> ApiResource {
        let (group, version, plural) = match self {
            Self::Clusters => ("cluster.karmada.io", "v1alpha1", "clusters"),
            Self::ClusterRoles => (RBAC, "v1", "clusterroles"),
            Self::ClusterRoleBindings => (RBAC, "v1", "clusterrolebindings"),
            Self::Roles => (RBAC, "v1", "roles"),
            Self::RoleBindings => (RBAC, "v1", "rolebindings"),
        };
        let kind = GroupVersionKind::gvk(group, version, self.kind());
        ApiResource::from_gvk_with_plural(&kind, plural)
    }
}

impl Key {
    fn api(&self, host: &kube::Client) -> Api<DynamicObject> {
        let resource = self.source.resource();
        if self.namespace.is_empty() {
            Api::all_with(host.clone(), &resource)
        } else {
            Api::namespaced_with(host.clone(), &self.namespace, &resource)
        }
    }
}

const RBAC: &str = "rbac.authorization.k8s.io";
const TIMEOUT: Duration = Duration::from_secs(10);
