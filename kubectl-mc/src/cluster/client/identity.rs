//! Applies kubectl's flags for the caller and for the trust in the host to the plugin's own
//! requests, so that these have the same result as kubectl's requests.

use std::error::Error;

use kube::config::{AuthInfo, Cluster, KubeConfigOptions, Kubeconfig, NamedAuthInfo};

use crate::argv::Scanned;

/// Applies the flags to the user and the cluster that the context names.
pub(super) fn apply(
    kubeconfig: &mut Kubeconfig,
    options: &KubeConfigOptions,
    scanned: &Scanned,
) -> Result<(), Box<dyn Error + Send + Sync>> {
    let text = |name: &str| scanned.value(name).and_then(|value| value.to_str()).map(str::to_owned);
    let Some(context) = options.context.as_ref().or(kubeconfig.current_context.as_ref()) else {
        return Ok(());
    };
    let context = kubeconfig.contexts.iter().find(|entry| entry.name == *context);
    let Some(context) = context.and_then(|entry| entry.context.clone()) else { return Ok(()) };

    let clusters = kubeconfig.clusters.iter_mut().filter(|entry| entry.name == context.cluster);
    for cluster in clusters.filter_map(|entry| entry.cluster.as_mut()) {
        trust(cluster, scanned);
    }

    let name = options.user.clone().or(context.user).unwrap_or_default();
    if !kubeconfig.auth_infos.iter().any(|entry| entry.name == name) {
        if options.user.is_some() {
            return Err(format!("user {name:?} does not exist").into());
        }
        kubeconfig.auth_infos.push(NamedAuthInfo { name: name.clone(), ..NamedAuthInfo::default() });
    }
    for entry in kubeconfig.auth_infos.iter_mut().filter(|entry| entry.name == name) {
        user(entry.auth_info.get_or_insert_default(), scanned, &text);
    }
    Ok(())
}

/// Applies the flags for the trust in the server.
pub(crate) fn trust(cluster: &mut Cluster, scanned: &Scanned) {
    let text = |name: &str| scanned.value(name).and_then(|value| value.to_str()).map(str::to_owned);
    if let Some(file) = text("certificate-authority") {
        cluster.certificate_authority = Some(file);
        cluster.certificate_authority_data = None;
        cluster.insecure_skip_tls_verify = None;
    }
    if scanned.has("insecure-skip-tls-verify") {
        cluster.insecure_skip_tls_verify = Some(true);
        if text("certificate-authority").is_none() {
            (cluster.certificate_authority, cluster.certificate_authority_data) = (None, None);
        }
    }
    cluster.tls_server_name = text("tls-server-name").or_else(|| cluster.tls_server_name.take());
}

fn user(user: &mut AuthInfo, scanned: &Scanned, text: &dyn Fn(&str) -> Option<String>) {
    if let Some(token) = text("token") {
        *user = AuthInfo { token: Some(token.into()), ..without_credential(user) };
    } else if let (Some(name), Some(password)) = (text("username"), text("password")) {
        *user =
            AuthInfo { username: Some(name), password: Some(password.into()), ..without_credential(user) };
    }
    if let (Some(certificate), Some(key)) = (text("client-certificate"), text("client-key")) {
        (user.client_certificate, user.client_key) = (Some(certificate), Some(key));
        (user.client_certificate_data, user.client_key_data) = (None, None);
    }
    user.impersonate = text("as").or_else(|| user.impersonate.take());
    user.impersonate_uid = text("as-uid").or_else(|| user.impersonate_uid.take());
    let groups: Vec<_> =
        scanned.values("as-group").filter_map(|group| group.to_str()).map(str::to_owned).collect();
    if !groups.is_empty() {
        user.impersonate_groups = Some(groups);
    }
    for (key, value) in scanned.values("as-user-extra").filter_map(|extra| extra.to_str()?.split_once('=')) {
        let extra = user.impersonate_user_extra.get_or_insert_default();
        extra.entry(key.to_owned()).or_default().push(value.to_owned());
    }
}

/// Removes the bearer credentials of the kubeconfig, which a token or a password on the command line
/// overrides. A client certificate stays.
fn without_credential(user: &AuthInfo) -> AuthInfo {
    AuthInfo {
        username: None,
        password: None,
        token: None,
        token_file: None,
        exec: None,
        auth_provider: None,
        ..user.clone()
    }
}
