//! Checks that an install or uninstall has the flags of the place where the sidecars are installed: their
//! namespace, and the cluster that runs them. Otherwise it would cut off the running sidecars.

use std::ffi::OsStr;

use kubectl_mc_api::manifests::REMOTE_HOST;
use kubectl_mc_api::names::{HOST_UID, KUBECTL_MC, MANAGED_BY, SIDECAR};
use serde_json::Value;

use super::host::HelmRelease;
use super::plan::InstallPlan;
use super::{InstallError, get, host};
use crate::cluster::connection::Connection;
use crate::next_command::quoted;

/// Fails if an install would move the sidecars.
pub(crate) async fn check(host: &Connection, plan: &InstallPlan) -> Result<(), InstallError> {
    let (namespace, run_on) = (&plan.parameters.namespace, plan.run_on.as_deref());
    let again = |namespace: &str, more: &str| {
        let words = format!("{} install -n {namespace} {}", host.cluster.kubectl_mc(), plan.flags);
        format!("{}{more}", words.trim_end())
    };
    if let Some(installed) = other_namespace(&host.client, namespace).await? {
        let hint = format!(
            "install them there: {}; to move them, remove them there first: {}",
            again(&installed, ""),
            uninstall(host, &installed, run_on)
        );
        return Err(InstallError::OtherNamespace { installed, given: namespace.clone(), hint });
    }
    if run_on.is_some() {
        return Ok(());
    }
    if let Some(reach) = reach_elsewhere(&host.client, namespace).await? {
        let hint = format!(
            "name that cluster: {}; to run them on the host, remove them there first: {} --run-on=CONTEXT",
            again(namespace, &format!(" --run-on=CONTEXT {reach}")),
            uninstall(host, namespace, None)
        );
        return Err(InstallError::RunElsewhere { namespace: namespace.clone(), hint });
    }
    Ok(())
}

/// Fails if the sidecars are installed in another namespace than an uninstall removes, or by another tool.
pub(crate) async fn check_removal(
    host: &Connection,
    namespace: &str,
    run_on: Option<&str>,
) -> Result<(), InstallError> {
    if let Some(installed) = other_namespace(&host.client, namespace).await? {
        let hint = format!("remove them there: {}", uninstall(host, &installed, run_on));
        return Err(InstallError::OtherNamespace { installed, given: namespace.to_owned(), hint });
    }
    // Their sidecars would stay, while the registrations and credentials of the members are lost.
    for path in [host::registration(), host::deployment(namespace)] {
        let object = get(&host.client, &path).await?;
        if !object.is_null() && !is_ours(&object) {
            return Err(foreign(&object, &path, host));
        }
    }
    Ok(())
}

fn foreign(object: &Value, path: &str, host: &Connection) -> InstallError {
    match HelmRelease::of(object) {
        Some(release) => InstallError::Foreign {
            owner: release.to_string(),
            hint: format!("remove it by Helm: {}", release.command("uninstall")),
        },
        None => InstallError::Foreign {
            owner: "another tool".to_owned(),
            hint: format!("remove it by that tool; see: {} get --raw {path}", host.cluster.kubectl()),
        },
    }
}

/// Fails if the other cluster has sidecars in this namespace that do not serve this host. Returns the uid of the
/// host's kube-system, which its sidecars there carry as an annotation.
pub(crate) async fn check_elsewhere(
    host: &Connection,
    remote: &Connection,
    namespace: &str,
    hint: &str,
) -> Result<String, InstallError> {
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
    Err(InstallError::OtherHost { namespace: namespace.to_owned(), other, hint: hint.to_owned() })
}

/// The command that removes the applied objects.
pub(crate) fn uninstall(host: &Connection, namespace: &str, run_on: Option<&str>) -> String {
    let run_on =
        run_on.map_or_else(String::new, |context| format!(" --run-on={}", quoted(OsStr::new(context))));
    format!("{} uninstall -n {namespace}{run_on}", host.cluster.kubectl_mc())
}

/// The namespace to which the plugin's registration leads, if it is not this one.
async fn other_namespace(client: &kube::Client, namespace: &str) -> Result<Option<String>, InstallError> {
    let registration = get(client, &host::registration()).await?;
    let installed = registration["spec"]["service"]["namespace"].as_str();
    let other = installed.filter(|installed| is_ours(&registration) && *installed != namespace);
    Ok(other.map(str::to_owned))
}

/// The flag that describes how the host reaches the sidecars, if another cluster runs them.
pub(crate) async fn reach_elsewhere(
    client: &kube::Client,
    namespace: &str,
) -> Result<Option<String>, InstallError> {
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
