//! The settings that client-go's transport would use for a kubeconfig context: server, trust,
//! proxy, credential, identity and namespace (client-go: `DirectClientConfig.ClientConfig` and
//! `rest.TransportFor`). Clients are built only from this value, so that the plugin always connects
//! as kubectl does, or fails where kubectl does.
//!
//! - [`validate`]: the combinations of fields that client-go refuses
//! - [`credential`]: the credential in `Authorization`
//! - [`trust`], [`verifier`]: the certificates of the server that are accepted
//! - [`identity`], [`pem`]: the client certificate
//! - [`proxy`]: the proxy in front of the server

mod credential;
mod identity;
mod pem;
mod proxy;
mod trust;
mod validate;
mod verifier;

use std::sync::Arc;

use http::Uri;
use kube::client::ConfigExt;
use kube::config::{AuthInfo, Cluster, KubeConfigOptions, Kubeconfig};
use rustls::ClientConfig;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::sign::{CertifiedKey, SingleCertAndKey};

pub(crate) use self::credential::{Authorization, bearer, from_file as token_of_file};
pub(crate) use self::proxy::from_environment as proxy_from_environment;
use self::trust::Trust;
pub(crate) use self::verifier::Refused;
use crate::env::Env;

/// The connection to the server of a context.
#[derive(Debug)]
pub(crate) struct Transport {
    pub(crate) server: Uri,
    pub(crate) namespace: Option<String>,
    pub(crate) proxy: Option<Uri>,
    pub(crate) authorization: Authorization,
    /// The name in the server's certificate, if it is not the server's address.
    pub(crate) server_name: Option<ServerName<'static>>,
    trust: Trust,
    identity: Option<Arc<CertifiedKey>>,
    /// The user's entry, reduced to the impersonation.
    impersonation: AuthInfo,
}

/// The entries of a context.
struct Entries {
    cluster_name: String,
    cluster: Cluster,
    user_name: String,
    user: AuthInfo,
    namespace: Option<String>,
}

/// Why kubectl or the plugin cannot use a context.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct TransportError(String);

impl Transport {
    /// The connection of a context to `server`, whose credential plugin has already run.
    pub(crate) fn of(
        kubeconfig: Kubeconfig,
        options: &KubeConfigOptions,
        server: &str,
        env: &Env,
    ) -> Result<Self, TransportError> {
        let entries = Entries::of(kubeconfig, options)?;
        validate::check(&entries, server.starts_with("https://")).map_err(TransportError)?;
        let Entries { cluster_name, cluster, user_name, user, namespace } = entries;
        let of_cluster = |reason: String| TransportError(format!("cluster {cluster_name:?}: {reason}"));
        let of_user = |reason: String| TransportError(format!("user {user_name:?}: {reason}"));
        let (server, in_url) = credential::without_userinfo(server);
        let server: Uri = server.parse().map_err(|_| of_cluster("server is no valid URL".to_owned()))?;
        let is_tls = server.scheme_str() == Some("https");
        if !is_tls && server.scheme_str() != Some("http") {
            return Err(of_cluster("the scheme of server is neither https nor http".to_owned()));
        }
        let proxy = match &cluster.proxy_url {
            Some(url) => Some(proxy::of_kubeconfig(url).map_err(of_cluster)?),
            None => proxy::from_environment(&server, env).map_err(TransportError)?,
        };
        // client-go reads the credential and the trust only for TLS.
        let (trust, identity, server_name) = match is_tls {
            true => (
                Trust::of(&cluster).map_err(of_cluster)?,
                identity::of(&user).map_err(of_user)?,
                server_name(&cluster).map_err(of_cluster)?,
            ),
            false => (Trust::System, None, None),
        };
        let of_entry = if is_tls { Authorization::of(&user).map_err(of_user)? } else { Authorization::None };
        let authorization = in_url.map_or(of_entry, Authorization::Fixed);
        let impersonation = credential::impersonation(&user).map_err(of_user)?;
        Ok(Self { server, namespace, proxy, authorization, server_name, trust, identity, impersonation })
    }

    /// A connection to a server that is not from a kubeconfig, without a credential. `authorities`
    /// are certificates (DER).
    pub(crate) fn to(server: Uri, authorities: Option<Vec<Vec<u8>>>, proxy: Option<Uri>) -> Self {
        let roots = |ders: Vec<Vec<u8>>| ders.into_iter().map(CertificateDer::from).collect();
        Self {
            server,
            namespace: None,
            proxy,
            authorization: Authorization::None,
            server_name: None,
            trust: authorities.map_or(Trust::System, |authorities| Trust::Roots(roots(authorities))),
            identity: None,
            impersonation: AuthInfo::default(),
        }
    }

    /// The TLS settings of connections.
    pub(crate) fn tls(&self) -> Result<ClientConfig, kube::Error> {
        let mut tls = match &self.trust {
            Trust::Roots(roots) => verifier::client_config(roots.clone())
                .map_err(|error| kube::Error::Service(Box::new(error)))?,
            Trust::System | Trust::Insecure => {
                let mut config = self.config();
                config.accept_invalid_certs = self.trust == Trust::Insecure;
                config.rustls_client_config()?
            }
        };
        if let Some(identity) = &self.identity {
            tls.client_auth_cert_resolver = Arc::new(SingleCertAndKey::from(Arc::clone(identity)));
        }
        Ok(tls)
    }

    /// kube's configuration, for the URL and the impersonation of requests. It has no credential and no trust.
    pub(crate) fn config(&self) -> kube::Config {
        let mut config = kube::Config::new(self.server.clone());
        config.auth_info = self.impersonation.clone();
        if let Some(namespace) = &self.namespace {
            config.default_namespace.clone_from(namespace);
        }
        config
    }
}

impl Entries {
    fn of(kubeconfig: Kubeconfig, options: &KubeConfigOptions) -> Result<Self, TransportError> {
        let Kubeconfig { clusters, auth_infos, contexts, current_context, .. } = kubeconfig;
        let name = options.context.clone().or(current_context).unwrap_or_default();
        let context = contexts.into_iter().find(|entry| entry.name == name).and_then(|entry| entry.context);
        let context = context.ok_or_else(|| TransportError(format!("context {name:?} does not exist")))?;
        let cluster = clusters.into_iter().find(|entry| entry.name == context.cluster);
        let user_name = options.user.clone().or(context.user).unwrap_or_default();
        let user = auth_infos.into_iter().find(|entry| entry.name == user_name);
        Ok(Self {
            cluster_name: context.cluster,
            cluster: cluster.and_then(|entry| entry.cluster).unwrap_or_default(),
            user_name,
            user: user.and_then(|entry| entry.auth_info).unwrap_or_default(),
            namespace: context.namespace,
        })
    }
}

/// The value of `tls-server-name`.
fn server_name(cluster: &Cluster) -> Result<Option<ServerName<'static>>, String> {
    let Some(name) = cluster.tls_server_name.clone() else { return Ok(None) };
    let invalid = || format!("tls-server-name {name:?} is neither a DNS name nor an IP address");
    // As in Go, where server names may be an address in brackets.
    let address = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(&name);
    ServerName::try_from(address.to_owned()).map(Some).map_err(|_| invalid())
}

#[cfg(test)]
#[cfg(unix)]
mod differential;
