//! The objects of the host: what `authz generate` prints, `apply` applies and `remove` removes.

use kubectl_mc_api::names::API_SERVICE;
use kubectl_mc_api::ownership::rbac;
use serde_json::Value;

use super::{AuthzError, clusters, policies, webhook};
use crate::cli::ObjectsArgs;
use crate::cluster::kubernetes_version::{HOST_MINIMUM, KubernetesVersion};
use crate::error::Failure;
use crate::join::side::Side;

/// All of them, in the order in which they are applied.
pub(super) async fn wanted(
    arguments: &ObjectsArgs,
    version: KubernetesVersion,
    host: &Side,
) -> Result<Vec<Value>, Failure> {
    let layout = arguments.hub.layout().map_err(AuthzError::Layout)?;
    let mut objects = Vec::new();
    if !arguments.hub.without_webhook {
        objects.extend(webhook::objects(&arguments.namespace, arguments.webhook_port));
    }
    objects.extend(policies::objects(&layout, version));
    for cluster in clusters(&arguments.hub, host).await? {
        objects.extend(rbac::objects(&layout, &cluster));
    }
    Ok(objects)
}

/// The host's version. One that cannot be read is taken for the oldest, whose objects every host takes.
pub(super) async fn version(host: &Side) -> Result<KubernetesVersion, Failure> {
    let answer = host.get("/version").await?.unwrap_or_default();
    let text = answer["gitVersion"].as_str().unwrap_or_default();
    Ok(KubernetesVersion::parse(text).unwrap_or(HOST_MINIMUM))
}

/// The CA of the sidecar's serving certificate, as the host has it for the aggregated API.
pub(super) async fn ca_bundle(host: &Side) -> Result<Option<String>, Failure> {
    let path = format!("/apis/apiregistration.k8s.io/v1/apiservices/{API_SERVICE}");
    let service = host.readable(&path).await?.unwrap_or_default();
    let bundle = &service["spec"]["caBundle"];
    Ok(bundle.as_str().filter(|bundle| !bundle.is_empty()).map(str::to_owned))
}
