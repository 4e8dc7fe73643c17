//! Implements `kubectl mc authz generate`: prints the objects of the host and the files of its
//! kube-apiserver. It changes nothing.

use kubectl_mc_api::names::WEBHOOK_SERVICE as SERVICE;

use super::webhook::{CONFIG, KUBECONFIG};
use super::{keeper, objects, policies, webhook};
use crate::apply::diff::documents;
use crate::cli::{AuthzGenerateArgs, Part};
use crate::cluster::connection::Connection;
use crate::error::Failure;
use crate::exit::ExitStatus;
use crate::printer::Printer;

pub(super) async fn run(
    arguments: &AuthzGenerateArgs,
    host: &Connection,
    printer: &Printer,
) -> Result<ExitStatus, Failure> {
    let version = objects::version(host).await?;
    let is_asked = |part| arguments.only.is_none_or(|only| only == part);
    let mut text = String::new();
    if is_asked(Part::Objects) {
        let objects = objects::wanted(&arguments.objects, version, host).await?;
        text += "# Objects of the host: `kubectl mc authz apply`, or kubectl apply --server-side --force-conflicts\n";
        if !policies::stamps(version) && arguments.objects.hub.without_admission_webhook {
            text += "# This host serves no MutatingAdmissionPolicy v1 (Kubernetes 1.36): new objects get no owner.\n";
        }
        if arguments.objects.kept_by_sidecar {
            let name = keeper::NAME;
            text += &format!(
                "# Apply ClusterRole {name} and its binding only when the host enforces policy {name}.\n"
            );
        }
        text += &documents(&objects);
    }
    if !arguments.objects.hub.without_webhook {
        if is_asked(Part::Config) {
            section(&mut text, &format!("{CONFIG} on each control-plane node:"), &CONFIG_NOTE);
            text += &documents([&webhook::config(version)]);
        }
        if is_asked(Part::Kubeconfig) {
            let (server, is_known) = server(arguments, host).await?;
            let bundle = objects::ca_bundle(host).await?;
            section(&mut text, &format!("{KUBECONFIG} on each control-plane node:"), &[]);
            if !is_known {
                text += &format!(
                    "# Service {SERVICE} has no address yet: apply the objects, then print this again.\n"
                );
            }
            if bundle.is_none() {
                text += "# The host has no CA of the sidecar: write the CA of its serving certificate to this file.\n";
            }
            let namespace = &arguments.objects.namespace;
            text += &documents([&webhook::kubeconfig(&server, namespace, bundle.as_deref())]);
        }
    }
    printer.out(&text);
    Ok(ExitStatus::Success)
}

/// The changes that a kubeadm kube-apiserver needs in addition to the file.
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

/// The URL of the webhook, and whether it is known.
async fn server(arguments: &AuthzGenerateArgs, host: &Connection) -> Result<(String, bool), Failure> {
    if let Some(server) = &arguments.webhook_server {
        return Ok((server.clone(), true));
    }
    let path = format!("/api/v1/namespaces/{}/services/{SERVICE}", arguments.objects.namespace);
    let service = host.readable(&path).await?.unwrap_or_default();
    // Static pods cannot resolve the names of Services.
    Ok(match service["spec"]["clusterIP"].as_str().filter(|address| *address != "None") {
        Some(address) if address.contains(':') => (format!("https://[{address}]"), true),
        Some(address) => (format!("https://{address}"), true),
        None => ("https://ADDRESS".to_owned(), false),
    })
}
