//! Collects the objects of the host that `authz generate` prints, `apply` applies and `remove` removes.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use kubectl_mc_api::names::API_SERVICE;
use kubectl_mc_api::ownership::rbac;
use serde_json::Value;

use super::arguments::{clusters, layout};
use super::{admission, keeper, policies, webhook};
use crate::cli::ObjectsArgs;
use crate::cluster::connection::Connection;
use crate::cluster::kubernetes_version::{HOST_MINIMUM, KubernetesVersion};
use crate::error::Failure;

/// All objects, in the order of application.
pub(super) async fn wanted(
    arguments: &ObjectsArgs,
    version: KubernetesVersion,
    host: &Connection,
) -> Result<Vec<Value>, Failure> {
    let layout = layout(arguments.hub.layout())?;
    let mut objects = Vec::new();
    let ports = webhook::Ports {
        authorization: (!arguments.hub.without_webhook).then_some(arguments.webhook_port),
        admission: (!arguments.hub.without_admission_webhook).then_some(arguments.admission_webhook_port),
    };
    objects.extend(webhook::objects(&arguments.namespace, ports));
    objects.extend(policies::objects(&layout, version));
    if arguments.kept_by_sidecar {
        objects.extend(keeper::policy(&layout));
    }
    if !arguments.hub.without_admission_webhook {
        objects.extend(admission::objects(&route(arguments, host).await?, policies::stamps(version)));
    }
    for cluster in clusters(&arguments.hub, host).await? {
        objects.extend(rbac::objects(&layout, &cluster));
    }
    // Last, because the policies that limit them must already be in force.
    if arguments.kept_by_sidecar {
        objects.extend(keeper::rights(&arguments.namespace));
    }
    Ok(objects)
}

/// How the kube-apiserver reaches the admission webhooks.
async fn route(arguments: &ObjectsArgs, host: &Connection) -> Result<admission::Route, Failure> {
    let to = match &arguments.admission_webhook_server {
        Some(server) => admission::To::Url(server.clone()),
        None => admission::To::Service(arguments.namespace.clone()),
    };
    let ca_bundle = match &arguments.admission_webhook_ca_file {
        Some(file) => {
            let read = std::fs::read(file).map_err(|error| {
                let text = format!("cannot read --admission-webhook-ca-file {}", file.display());
                Failure::usage(text).because(&error)
            })?;
            Some(STANDARD.encode(read))
        }
        None => ca_bundle(host).await?,
    };
    Ok(admission::Route { to, ca_bundle })
}

/// The host's version. An unreadable version counts as the oldest, whose objects every host accepts.
pub(super) async fn version(host: &Connection) -> Result<KubernetesVersion, Failure> {
    let answer = host.get("/version").await?.unwrap_or_default();
    let text = answer["gitVersion"].as_str().unwrap_or_default();
    Ok(KubernetesVersion::parse(text).unwrap_or(HOST_MINIMUM))
}

/// The CA of the sidecar's serving certificate, from the host's registration of the aggregated API.
pub(super) async fn ca_bundle(host: &Connection) -> Result<Option<String>, Failure> {
    let path = format!("/apis/apiregistration.k8s.io/v1/apiservices/{API_SERVICE}");
    let service = host.readable(&path).await?.unwrap_or_default();
    let bundle = &service["spec"]["caBundle"];
    Ok(bundle.as_str().filter(|bundle| !bundle.is_empty()).map(str::to_owned))
}
