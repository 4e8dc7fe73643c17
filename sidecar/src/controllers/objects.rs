//! Writes objects of the host and of members as the sidecar.

use std::fmt::Debug;

use kube::api::{DeleteParams, Patch, PatchParams};
use kube::{Api, Resource, ResourceExt};
use kubectl_mc_api::names::SIDECAR;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Server-side apply, even to create objects: the path of a PATCH has the name, so a right limited
/// to that name is enough.
pub(super) async fn apply<K>(api: &Api<K>, object: &K) -> Result<(), kube::Error>
where
    K: Resource + Clone + Debug + DeserializeOwned + Serialize,
{
    let ours = PatchParams::apply(SIDECAR).force();
    api.patch(&object.name_any(), &ours, &Patch::Apply(object)).await.map(drop)
}

/// Deletes an object, unless it is already gone.
pub(super) async fn delete<K>(api: &Api<K>, name: &str) -> Result<(), kube::Error>
where
    K: Clone + Debug + DeserializeOwned,
{
    match api.delete(name, &DeleteParams::default()).await {
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        deleted => deleted.map(drop),
    }
}
