//! `kubectl mc authz generate`: prints the objects of the host and the files of its kube-apiserver. It changes nothing.

use kubectl_mc_api::names::API_SERVICE;
use serde_json::Value;

use super::webhook::{CONFIG, KUBECONFIG, SERVICE};
use super::{AuthzError, clusters, policies, rbac, webhook};
use crate::apply::diff::documents;
use crate::cli::{AuthzGenerateArgs, Part};
use crate::cluster::kubernetes_version::{HOST_MINIMUM, KubernetesVersion};
use crate::error::Failure;
use crate::exit::ExitStatus;
use crate::join::side::Side;
use crate::printer::Printer;

pub(super) async fn run(
    arguments: &AuthzGenerateArgs,
    host: &Side,
    printer: &Printer,
) -> Result<ExitStatus, Failure> {
    let layout = arguments.hub.layout().map_err(AuthzError::Layout)?;
    let version = version(host).await?;
    let is_asked = |part| arguments.only.is_none_or(|only| only == part);
    let mut text = String::new();
    if is_asked(Part::Objects) {
        let mut objects = Vec::new();
        if !arguments.hub.without_webhook {
            objects.extend(webhook::objects(&arguments.namespace, arguments.webhook_port));
        }
        objects.extend(policies::objects(&layout, version));
        for cluster in clusters(&arguments.hub, host).await? {
            objects.extend(rbac::objects(&layout, &cluster));
        }
        text += "# Objects of the host: kubectl apply --server-side --force-conflicts\n";
        if !policies::stamps(version) {
            text += "# This host serves no MutatingAdmissionPolicy v1 (Kubernetes 1.36): new objects get no owner.\n";
        }
        text += &documents(&objects);
    }
    if !arguments.hub.without_webhook {
        if is_asked(Part::Config) {
            section(&mut text, &format!("{CONFIG} on each control-plane node:"), &CONFIG_NOTE);
            text += &documents([&webhook::config(version)]);
        }
        if is_asked(Part::Kubeconfig) {
            let (server, is_known) = server(arguments, host).await?;
            let bundle = ca_bundle(host).await?;
            section(&mut text, &format!("{KUBECONFIG} on each control-plane node:"), &[]);
            if !is_known {
                text += &format!(
                    "# Service {SERVICE} has no address yet: apply the objects, then print this again.\n"
                );
            }
            if bundle.is_none() {
                text += "# The host has no CA of the sidecar: write the CA of its serving certificate to this file.\n";
            }
            text += &documents([&webhook::kubeconfig(&server, &arguments.namespace, bundle.as_deref())]);
        }
    }
    printer.out(&text);
    Ok(ExitStatus::Success)
}

/// What a kube-apiserver of kubeadm needs beside the file.
const CONFIG_NOTE: [&str; 3] = [
    "In /etc/kubernetes/manifests/kube-apiserver.yaml, --authorization-config=/etc/kubernetes/mc-authz.yaml",
    "takes the place of --authorization-mode, and a hostPath volume for each of the two files makes them visible.",
    "The sidecar serves the webhook with --authorization-webhook-port.",
];

fn section(text: &mut String, title: &str, notes: &[&str]) {
    if !text.is_empty() {
        *text += "---\n";
    }
    *text += &format!("# {title}\n");
    for note in notes {
        *text += &format!("# {note}\n");
    }
}

/// The host's version. One that cannot be read is taken for the oldest, whose objects every host takes.
async fn version(host: &Side) -> Result<KubernetesVersion, Failure> {
    let answer = host.get("/version").await?.unwrap_or_default();
    let text = answer["gitVersion"].as_str().unwrap_or_default();
    Ok(KubernetesVersion::parse(text).unwrap_or(HOST_MINIMUM))
}

/// The URL of the webhook, and whether it is known.
async fn server(arguments: &AuthzGenerateArgs, host: &Side) -> Result<(String, bool), Failure> {
    if let Some(server) = &arguments.webhook_server {
        return Ok((server.clone(), true));
    }
    let path = format!("/api/v1/namespaces/{}/services/{SERVICE}", arguments.namespace);
    let service = host.readable(&path).await?.unwrap_or_default();
    // Static pods do not resolve the names of Services.
    Ok(match service["spec"]["clusterIP"].as_str().filter(|address| *address != "None") {
        Some(address) if address.contains(':') => (format!("https://[{address}]"), true),
        Some(address) => (format!("https://{address}"), true),
        None => ("https://ADDRESS".to_owned(), false),
    })
}

/// The CA of the sidecar's serving certificate, as the host has it for the aggregated API.
async fn ca_bundle(host: &Side) -> Result<Option<String>, Failure> {
    let path = format!("/apis/apiregistration.k8s.io/v1/apiservices/{API_SERVICE}");
    let service = host.readable(&path).await?.unwrap_or_default();
    let bundle = &service["spec"]["caBundle"];
    Ok(bundle.as_str().filter(|bundle| !bundle.is_empty()).map(str::to_owned))
}

/// Whether the object is there.
pub(super) async fn is_there(host: &Side, kind: &str, name: &str) -> Result<bool, Failure> {
    let found: Option<Value> =
        host.get(&format!("/apis/admissionregistration.k8s.io/v1/{kind}/{name}")).await?;
    Ok(found.is_some())
}
