//! Checks that an install or uninstall has the flags of the place where the sidecars are installed: their
//! namespace, and the cluster that runs them. Otherwise it would cut off the running sidecars.

use std::ffi::OsStr;

use kubectl_mc_api::manifests::REMOTE_HOST;
use kubectl_mc_api::names::{HOST_UID, KUBECTL_MC, MANAGED_BY, SIDECAR};
use serde_json::Value;

use super::host::HelmRelease;
use super::plan::InstallPlan;
use super::{RUNS_ON, get, get_from, host};
use crate::cluster::connection::Connection;
use crate::error::{CommandLine, Failure};
use crate::next_command::quoted;

/// Fails if an install would move the sidecars.
pub(crate) async fn check(host: &Connection, plan: &InstallPlan) -> Result<(), Failure> {
    let (namespace, run_on) = (&plan.parameters.namespace, plan.run_on.as_deref());
    let again = |namespace: &str, more: &str| {
        let words = format!("{} install -n {namespace} {}", host.cluster.kubectl_mc(), plan.flags);
        format!("{}{more}", words.trim_end())
    };
    if let Some(installed) = other_namespace(host, namespace).await? {
        let there = CommandLine::new(again(&installed, "")).after("install them there");
        let removal = CommandLine::new(uninstall(host, &installed, run_on));
        let hint = there.and(removal.after("to move them, remove them there first"));
        return Err(in_other_namespace(&installed, namespace).with_hint(hint));
    }
    if run_on.is_some() {
        return Ok(());
    }
    if let Some(reach) = reach_elsewhere(&host.client, namespace).await? {
        let there = CommandLine::new(again(namespace, &format!(" --run-on=CONTEXT {reach}")));
        let removal = CommandLine::new(format!("{} --run-on=CONTEXT", uninstall(host, namespace, None)));
        let removal = removal.after("to run them on the host, remove them there first");
        return Err(Failure::usage(format!(
            "nothing was applied: Service {namespace}/{SIDECAR} of the host leads to sidecars in another cluster, which \
             --run-on does not name"
        ))
        .with_hint(there.after("name that cluster").and(removal)));
    }
    Ok(())
}

/// Fails if the sidecars are installed in another namespace than an uninstall removes, or by another tool.
pub(crate) async fn check_removal(
    host: &Connection,
    namespace: &str,
    run_on: Option<&str>,
) -> Result<(), Failure> {
    if let Some(installed) = other_namespace(host, namespace).await? {
        let removal = CommandLine::new(uninstall(host, &installed, run_on));
        return Err(in_other_namespace(&installed, namespace).with_hint(removal.after("remove them there")));
    }
    // Their sidecars would stay, while the registrations and credentials of the members are lost.
    for path in [host::registration(), host::deployment(namespace)] {
        let object = get_from(host, &path).await?;
        if !object.is_null() && !is_ours(&object) {
            return Err(foreign(&object, &path, host));
        }
    }
    Ok(())
}

fn in_other_namespace(installed: &str, given: &str) -> Failure {
    Failure::usage(format!(
        "nothing was changed: the sidecars are installed in namespace {installed}, not in {given}"
    ))
}

fn foreign(object: &Value, path: &str, host: &Connection) -> Failure {
    match HelmRelease::of(object) {
        Some(release) => release.owns("remove it by Helm", "uninstall"),
        None => {
            let shown = CommandLine::new(format!("{} get --raw {path}", host.cluster.kubectl()));
            host::installed_by("another tool").with_hint(shown.after("remove it by that tool; see"))
        }
    }
}

/// Fails if the other cluster has sidecars in this namespace that do not serve this host. Returns the uid of the
/// host's kube-system, which its sidecars there carry as an annotation.
pub(crate) async fn check_elsewhere(
    host: &Connection,
    remote: &Connection,
    namespace: &str,
    hint: &str,
) -> Result<String, Failure> {
    let system = get(&host.client, "/api/v1/namespaces/kube-system").await?;
    let uid = system["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
    let client = &remote.client;
    let deployment = get(client, &host::deployment(namespace)).await?;
    if !is_ours(&deployment) {
        return Ok(uid);
    }
    let other = match deployment["metadata"]["annotations"][HOST_UID].as_str() {
        Some(served) if served == uid => return Ok(uid),
        Some(served) => format!("another host, whose kube-system has uid {served}"),
        None => {
            let kubeconfig =
                get(client, &format!("/api/v1/namespaces/{namespace}/secrets/{REMOTE_HOST}")).await?;
            if !kubeconfig.is_null() {
                // Earlier versions wrote no annotation.
                return Ok(uid);
            }
            "that cluster itself".to_owned()
        }
    };
    let text =
        format!("nothing was changed: the sidecars in namespace {namespace} of the {RUNS_ON} serve {other}");
    Err(Failure::usage(text).with_hint(hint))
}

/// The command that removes the applied objects.
pub(crate) fn uninstall(host: &Connection, namespace: &str, run_on: Option<&str>) -> String {
    let run_on =
        run_on.map_or_else(String::new, |context| format!(" --run-on={}", quoted(OsStr::new(context))));
    format!("{} uninstall -n {namespace}{run_on}", host.cluster.kubectl_mc())
}

/// The namespace to which the plugin's registration points, if it is not this one.
async fn other_namespace(host: &Connection, namespace: &str) -> Result<Option<String>, Failure> {
    let registration = get_from(host, &host::registration()).await?;
    let installed = registration["spec"]["service"]["namespace"].as_str();
    let other = installed.filter(|installed| is_ours(&registration) && *installed != namespace);
    Ok(other.map(str::to_owned))
}

/// The flag that describes how the host reaches the sidecars, if another cluster runs them.
pub(crate) async fn reach_elsewhere(
    client: &kube::Client,
    namespace: &str,
) -> Result<Option<String>, Failure> {
    let service = get(client, &format!("/api/v1/namespaces/{namespace}/services/{SIDECAR}")).await?;
    // A Service of sidecars on the host itself selects their pods.
    let selects_pods = service["spec"]["selector"].as_object().is_some_and(|labels| !labels.is_empty());
    if !is_ours(&service) || selects_pods {
        return Ok(None);
    }
    Ok(Some(match service["spec"]["externalName"].as_str() {
        Some(name) => format!("--external-name={name}"),
        None => "--endpoint=IP:PORT".to_owned(),
    }))
}

fn is_ours(object: &Value) -> bool {
    object["metadata"]["labels"][MANAGED_BY] == KUBECTL_MC
}
