//! Refuses the entries of a context that client-go refuses (`validateClusterInfo`, `validateAuthInfo`). Entries of
//! other contexts are not checked.

use std::fs::File;

use kube::config::{AuthInfo, Cluster, ExecConfig};
use secrecy::{ExposeSecret, SecretString};

use super::{Entries, proxy};
use crate::cluster::context::INTERACTIVE_MODE;

/// The errors of the entries, in one sentence. Without TLS, client-go reads neither the trust nor
/// the credential, and does not notice contradictions there.
pub(super) fn check(entries: &Entries, is_tls: bool) -> Result<(), String> {
    let mut errors = user(&entries.user_name, &entries.user, is_tls);
    errors.extend(cluster(&entries.cluster_name, &entries.cluster, is_tls));
    if errors.is_empty() { Ok(()) } else { Err(format!("invalid configuration: {}", errors.join("; "))) }
}

fn cluster(name: &str, cluster: &Cluster, is_tls: bool) -> Vec<String> {
    let mut errors = Vec::new();
    if let Some(Err(reason)) = cluster.proxy_url.as_deref().map(proxy::of_kubeconfig) {
        errors.push(format!("cluster {name:?}: {reason}"));
    }
    let (file, data) = (&cluster.certificate_authority, &cluster.certificate_authority_data);
    if file.is_some() && data.is_some() {
        errors.push(format!(
            "certificate-authority-data and certificate-authority are both specified for cluster {name:?}"
        ));
    }
    errors.extend(unreadable("certificate-authority", file.as_deref(), &format!("cluster {name:?}")));
    if is_tls && cluster.insecure_skip_tls_verify == Some(true) && (file.is_some() || data.is_some()) {
        errors.push(format!(
            "cluster {name:?} has a certificate authority and insecure-skip-tls-verify: true, of which only one is allowed"
        ));
    }
    errors
}

fn user(name: &str, user: &AuthInfo, is_tls: bool) -> Vec<String> {
    let mut errors = Vec::new();
    let of_user = format!("user {name:?}");
    let has_basic = user.username.is_some() || user.password.as_ref().is_some_and(is_set);
    let has_token = user.token.as_ref().is_some_and(is_set);
    if has_token && has_basic || is_tls && user.token_file.is_some() && user.username.is_some() {
        errors.push(format!(
            "more than one authentication method found for {of_user}: a token and a name with password"
        ));
    }
    if user.client_certificate.is_some() || user.client_certificate_data.is_some() {
        errors.extend(certificate(&of_user, user));
    }
    if let Some(exec) = &user.exec {
        if user.auth_provider.is_some() {
            errors.push(format!("auth-provider and exec are both specified for {of_user}"));
        }
        errors.extend(plugin(&of_user, exec, is_tls));
    }
    let needs_user = user.impersonate_uid.is_some()
        || user.impersonate_groups.is_some()
        || user.impersonate_user_extra.is_some();
    if needs_user && user.impersonate.is_none() {
        errors.push(format!("{of_user} impersonates a uid, groups or extra fields without a user (as)"));
    }
    errors
}

fn certificate(of_user: &str, user: &AuthInfo) -> Vec<String> {
    let mut errors = Vec::new();
    let has_key_data = user.client_key_data.as_ref().is_some_and(is_set);
    if user.client_certificate.is_some() && user.client_certificate_data.is_some() {
        errors
            .push(format!("client-certificate-data and client-certificate are both specified for {of_user}"));
    }
    if user.client_key.is_some() && has_key_data {
        errors.push(format!("client-key-data and client-key are both specified for {of_user}"));
    }
    if user.client_key.is_none() && !has_key_data {
        errors.push(format!("{of_user} has a client certificate without client-key-data or client-key"));
    }
    errors.extend(unreadable("client-certificate", user.client_certificate.as_deref(), of_user));
    errors.extend(unreadable("client-key", user.client_key.as_deref(), of_user));
    errors
}

fn plugin(of_user: &str, exec: &ExecConfig, is_tls: bool) -> Vec<String> {
    let mut errors = Vec::new();
    let needs =
        |field: &str| format!("{field} must be specified for the credential plugin (exec) of {of_user}");
    if exec.command.as_deref().is_none_or(str::is_empty) {
        errors.push(needs("command"));
    }
    match exec.api_version.as_deref() {
        None | Some("") => errors.push(needs("apiVersion")),
        Some(version) if is_tls && !VERSIONS.contains(&version) => {
            errors
                .push(format!("invalid apiVersion {version:?} of the credential plugin (exec) of {of_user}"));
        }
        Some(_) => {}
    }
    let mut variables = exec.env.iter().flatten();
    if variables.any(|variable| variable.get("name").is_none_or(String::is_empty)) {
        errors.push(needs("the name of each env variable"));
    }
    match exec.other.get(INTERACTIVE_MODE) {
        Some(mode) => errors
            .push(format!("invalid interactiveMode {mode} of the credential plugin (exec) of {of_user}")),
        // Older versions have a default.
        None if exec.interactive_mode.is_none() && !is_defaulted(exec.api_version.as_deref()) => {
            errors.push(needs("interactiveMode"));
        }
        None => {}
    }
    errors
}

/// Whether client-go has an interactive mode for a version without one.
fn is_defaulted(version: Option<&str>) -> bool {
    let version = version.and_then(|version| version.strip_prefix("client.authentication.k8s.io/"));
    matches!(version, Some("v1beta1" | "v1alpha1"))
}

fn unreadable(field: &str, file: Option<&str>, of: &str) -> Option<String> {
    let error = File::open(file?).err()?;
    Some(format!("cannot read {field} {} of {of}: {error}", file?))
}

fn is_set(secret: &SecretString) -> bool {
    !secret.expose_secret().is_empty()
}

/// The versions of credential plugins that client-go runs.
const VERSIONS: [&str; 2] = ["client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1"];
