//! Implements `kubectl mc authz remove`: removes the protection of the host, or all rights of the agents of
//! named clusters.

use kubectl_mc_api::names::{AGENT_RBAC, KARMADA_AGENT, NO_AGENT_RBAC};
use kubectl_mc_api::ownership::{Layout, rbac};
use serde_json::{Value, json};

use super::arguments::{checked, layout};
use super::token::{SYSTEM, TOKEN_TYPE};
use super::{admission, keeper, policies, webhook};
use crate::apply::delete::Delete;
use crate::cli::{AuthzRemoveArgs, Hub};
use crate::cluster::connection::Connection;
use crate::cluster::fields::items;
use crate::confirm::confirm;
use crate::error::Failure;
use crate::exit::ExitStatus;
use crate::printer::Printer;

pub(super) async fn run(
    arguments: &AuthzRemoveArgs,
    host: &Connection,
    printer: &Printer,
) -> Result<ExitStatus, Failure> {
    let Hub::Karmada = arguments.agents_of;
    let layout = layout(arguments.layout())?;
    let names = checked(&arguments.names)?;
    let (objects, question) = if names.is_empty() {
        let question = "Remove the admission policies and webhooks that keep agents to their clusters?";
        (protection(&layout, &arguments.namespace), question.to_owned())
    } else {
        let question = format!("Remove all rights of the agents of {}?", names.join(", "));
        (rights(&layout, &names, host).await?, question)
    };
    if !arguments.yes && !arguments.dry_run {
        confirm(&question, printer)?;
    }
    if !arguments.dry_run {
        stop_keeping(&names, host).await?;
    }
    let delete = Delete { dry_run: arguments.dry_run, timeout: arguments.timeout };
    if !delete.print_each("", host, objects.into_iter(), printer).await? {
        printer.note_line("nothing to remove");
    }
    Ok(ExitStatus::Success)
}

/// The objects of `apply`, without the RBAC of agents.
fn protection(layout: &Layout, namespace: &str) -> Vec<Value> {
    // In the reverse order: the sidecar's account loses its rights before the policy that limits
    // them is gone, and the host stops calling the webhooks before their Service is gone.
    let mut objects = webhook::names(namespace).to_vec();
    objects.extend(admission::all(namespace));
    objects.extend(policies::all(layout));
    objects.extend(keeper::policy(layout));
    objects.extend(keeper::rights(namespace));
    objects
}

/// Tells the sidecars to stop maintaining the RBAC of these agents; otherwise they would write it
/// again.
async fn stop_keeping(clusters: &[String], host: &Connection) -> Result<(), Failure> {
    let rights = format!("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/{}", keeper::NAME);
    if clusters.is_empty() || host.readable(&rights).await?.is_none() {
        return Ok(());
    }
    for cluster in clusters {
        let path = format!("/apis/cluster.karmada.io/v1alpha1/clusters/{cluster}");
        if host.get(&path).await?.is_some() {
            let none = json!({"metadata": {"annotations": {AGENT_RBAC: NO_AGENT_RBAC}}});
            host.merge(&path, &none).await?;
        }
    }
    Ok(())
}

/// The RBAC of these agents, including what a registration wrote, and the tokens with which they
/// could enroll again.
async fn rights(layout: &Layout, clusters: &[String], host: &Connection) -> Result<Vec<Value>, Failure> {
    let mut objects = Vec::new();
    for cluster in clusters {
        let path = format!("/api/v1/namespaces/{SYSTEM}/secrets?labelSelector={KARMADA_AGENT}%3D{cluster}");
        let tokens = host.readable(&path).await?.unwrap_or_default();
        let tokens = items(&tokens).filter(|secret| secret["type"] == TOKEN_TYPE).map(|secret| {
            json!({"apiVersion": "v1", "kind": "Secret",
                "metadata": {"name": secret["metadata"]["name"], "namespace": SYSTEM}})
        });
        objects.extend(tokens);
        objects.extend(rbac::objects(layout, cluster));
    }
    Ok(objects)
}
