//! Reads the clusters and the namespaces that a command of `authz` names.

use kubectl_mc_api::ownership::{InvalidLayout, Layout, subject};
use serde_json::Value;

use crate::cli::{Hub, HubArgs};
use crate::cluster::connection::Connection;
use crate::cluster::fields::items;
use crate::error::Failure;

/// The clusters whose agents are selected.
pub(super) async fn clusters(arguments: &HubArgs, host: &Connection) -> Result<Vec<String>, Failure> {
    let Hub::Karmada = arguments.agents_of;
    let names = if arguments.names.is_empty() {
        let list = host.get("/apis/cluster.karmada.io/v1alpha1/clusters").await?.ok_or_else(|| {
            Failure::new("the host serves no clusters of Karmada (cluster.karmada.io/v1alpha1)")
                .with_hint("name the kubeconfig context of Karmada's API server by --context")
        })?;
        let name = |cluster: &Value| cluster["metadata"]["name"].as_str().map(str::to_owned);
        items(&list).filter_map(name).collect()
    } else {
        arguments.names.clone()
    };
    checked(&names)
}

/// The names, if each belongs to a cluster with its own objects.
pub(super) fn checked(names: &[String]) -> Result<Vec<String>, Failure> {
    match names.iter().find(|name| !subject::is_cluster(name)) {
        Some(name) => {
            let failure = format!("{name:?} is no name of a cluster that has objects of its own in Karmada");
            Err(Failure::usage(failure).with_hint(
                "a name is a DNS label of 48 characters at most, does not end in -impersonator, and is not \
                 rbac-generator",
            ))
        }
        None => Ok(names.to_vec()),
    }
}

pub(super) fn layout(given: Result<Layout, InvalidLayout>) -> Result<Layout, Failure> {
    given.map_err(|error| Failure::usage(format!("invalid namespaces: {error}")).because(&error))
}
