//! The configuration of the sidecar: plain data, validated before a port is bound.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use http::uri::Authority;
use kubectl_mc_api::access::sent;
use kubectl_mc_api::direct::Server;
use kubectl_mc_api::{Origin, names};

use crate::connection::goaway::Goaway;
use crate::connection::tls::certificates::Files;
use crate::controllers::{self, credentials, leader};
use crate::endpoints::hub_server;
use crate::identity::authorization;
use crate::identity::authorization::always_allowed::AlwaysAllowed;
use crate::identity::authorization::subject_access_review::Ttl;
use crate::identity::impersonation::member;
use crate::identity::trust::Trust;
use crate::limits::in_flight::Shares;
use crate::members::inventory::Inventories;
use crate::members::inventory::hub::KarmadaFlags;
use crate::programs::args::{Delegated, LogFormat, Serve};
use crate::request::cors::Cors;
use crate::telemetry::spans;

mod audit;
mod authorization_webhook;
mod inventories;
mod karmada_server;

pub use authorization_webhook::AuthorizationWebhook;

/// The configuration of a server.
#[derive(Debug)]
pub struct Config {
    pub kubeconfig: Option<PathBuf>,
    pub namespace: String,
    pub inventories: Inventories,
    /// The hub's server behind the sidecar, whose API group the sidecar serves.
    pub hub_server: Option<hub_server::Config>,
    pub address: SocketAddr,
    pub admin_address: SocketAddr,
    pub certificate: Certificate,
    /// The URL at which clients reach the sidecars directly.
    pub direct_server: Option<Server>,
    /// Keys of `extension-apiserver-authentication` that flags replace.
    pub trust: BTreeMap<String, String>,
    pub audiences: Vec<String>,
    pub anonymous_auth: bool,
    pub token_ttl: Duration,
    pub authorization: authorization::Config,
    pub goaway: Goaway,
    pub cors: Option<Cors>,
    pub rules: member::Rules,
    pub max_inflight: usize,
    pub max_mutating_inflight: usize,
    pub max_member_inflight: usize,
    pub level_shares: Shares,
    pub max_queued_per_caller: usize,
    pub max_tunnels: usize,
    pub max_agent_tunnels: usize,
    pub peers: Vec<Authority>,
    pub max_watches: usize,
    pub max_member_watches: usize,
    pub request_timeout: Duration,
    pub shutdown_delay: Duration,
    pub shutdown_grace: Duration,
    pub controllers: controllers::Config,
    pub audit: crate::telemetry::audit::Config,
    pub authorization_webhook: Option<AuthorizationWebhook>,
    /// The address of the admission webhooks for Karmada's agents.
    pub admission_webhook: Option<SocketAddr>,
    pub tracing: Option<spans::Config>,
    pub log_format: LogFormat,
}

/// The source of the serving certificate.
#[derive(Debug)]
pub enum Certificate {
    Files(Files),
    SelfManaged,
    SelfSigned,
}

impl TryFrom<Serve> for Config {
    type Error = Error;

    fn try_from(args: Serve) -> Result<Self, Error> {
        let Serve {
            kubeconfig,
            namespace,
            inventory,
            inventory_allow_refs,
            karmada_namespace,
            karmada_member_rbac,
            kubeadmiral_namespace,
            bind_address,
            secure_port,
            admin_bind_address,
            tls_cert_file,
            tls_private_key_file,
            rotate_server_certificates,
            karmada_server,
            direct_server,
            cluster_profile_server,
            client_ca_file,
            requestheader_client_ca_file,
            requestheader_allowed_names,
            requestheader_username_headers,
            requestheader_uid_headers,
            requestheader_group_headers,
            requestheader_extra_headers_prefix,
            api_audiences,
            anonymous_auth,
            delegated,
            goaway_chance,
            cors_allowed_origins,
            admin_groups,
            omit_extra,
            allow_privileged_identity,
            max_requests_inflight,
            max_mutating_requests_inflight,
            max_member_requests_inflight,
            priority_level_shares,
            max_requests_queued_per_caller,
            max_tunnels,
            max_agent_tunnels,
            peers,
            peer_ca_file,
            max_watches,
            max_member_watches,
            request_timeout,
            shutdown_delay_duration,
            shutdown_grace_period,
            controllers,
            leader_elect_lease_duration,
            leader_elect_renew_deadline,
            leader_elect_retry_period,
            leader_elect_resource_name,
            member_monitor_period,
            member_resync_period,
            token_renewal_fraction,
            audit,
            authorization_webhook,
            tracing_config_file,
            log_format,
        } = args;
        let mut trust = BTreeMap::new();
        for (key, file) in [
            ("client-ca-file", client_ca_file),
            ("requestheader-client-ca-file", requestheader_client_ca_file),
        ] {
            if let Some(file) = file {
                trust.insert(key.to_owned(), read(key, &file)?);
            }
        }
        for (key, list) in [
            ("requestheader-allowed-names", requestheader_allowed_names),
            ("requestheader-username-headers", requestheader_username_headers),
            ("requestheader-uid-headers", requestheader_uid_headers),
            ("requestheader-group-headers", requestheader_group_headers),
            ("requestheader-extra-headers-prefix", requestheader_extra_headers_prefix),
        ] {
            if let Some(list) = list {
                trust.insert(key.to_owned(), serde_json::json!(list).to_string());
            }
        }
        let admin_groups = sent::admin_groups(admin_groups);
        let admission_webhook = authorization_webhook.admission_webhook_port;
        let admission_webhook = admission_webhook.map(|port| SocketAddr::new(bind_address, port));
        let agents = self::authorization_webhook::layout(&authorization_webhook, &karmada_namespace)?;
        let agent_rbac = authorization_webhook.karmada_agent_rbac.then(|| Arc::new(agents.clone()));
        let webhook = AuthorizationWebhook::parse(authorization_webhook, bind_address, agents)?;
        let namespaces = [(Origin::Karmada, karmada_namespace), (Origin::KubeAdmiral, kubeadmiral_namespace)];
        let karmada = KarmadaFlags { allow_refs: inventory_allow_refs, member_rbac: karmada_member_rbac };
        let inventories = self::inventories::parse(inventory, namespaces, karmada)?;
        Trust::parse(&trust).map_err(|error| Error::Flag(error.to_string()))?;
        Ok(Self {
            kubeconfig,
            namespace: namespace.unwrap_or_else(own_namespace),
            address: SocketAddr::new(bind_address, secure_port),
            admin_address: admin_bind_address,
            certificate: match tls_cert_file.zip(tls_private_key_file) {
                Some((certificate, key)) => {
                    Certificate::Files(Files { certificate, key, peer_ca: peer_ca_file })
                }
                None if rotate_server_certificates => Certificate::SelfManaged,
                None => Certificate::SelfSigned,
            },
            direct_server: direct_server.clone(),
            trust,
            audiences: api_audiences,
            anonymous_auth,
            token_ttl: delegated.authentication_token_webhook_cache_ttl,
            authorization: authorization::Config {
                hub: inventories.hub.as_ref().map(|hub| hub.origin),
                ..self::authorization(delegated, priority_level_shares)?
            },
            hub_server: self::karmada_server::parse(karmada_server, &inventories)?,
            inventories,
            cors: Cors::new(&cors_allowed_origins)
                .map_err(|error| Error::Flag(format!("cors-allowed-origins: {error}")))?,
            goaway: Goaway::new(goaway_chance).ok_or_else(|| {
                Error::Flag("goaway-chance: it is less than 0 or more than 0.02".to_owned())
            })?,
            rules: member::Rules {
                admin_groups: admin_groups.clone(),
                omitted_extra: omit_extra,
                allow_privileged_identity,
            },
            max_inflight: max_requests_inflight,
            max_mutating_inflight: max_mutating_requests_inflight,
            max_member_inflight: max_member_requests_inflight,
            level_shares: priority_level_shares,
            max_queued_per_caller: max_requests_queued_per_caller,
            max_tunnels,
            max_agent_tunnels,
            peers,
            max_watches,
            max_member_watches,
            request_timeout,
            shutdown_delay: shutdown_delay_duration,
            shutdown_grace: shutdown_grace_period,
            controllers: controllers::Config {
                admin_groups: admin_groups.as_slice().into(),
                enabled: controllers::Enabled::parse(&controllers)
                    .map_err(|error| Error::Flag(format!("controllers: {error}")))?,
                election: leader::Config {
                    resource_name: leader_elect_resource_name,
                    lease_duration: leader_elect_lease_duration,
                    renew_deadline: leader_elect_renew_deadline,
                    retry_period: leader_elect_retry_period,
                }
                .checked()
                .map_err(|error| Error::Flag(error.to_owned()))?,
                settings: controllers::Settings {
                    member_monitor_period,
                    member_resync_period,
                    publishes_direct_endpoint: direct_server.is_some(),
                    cluster_profile_server,
                    hub_with_rights: karmada_member_rbac.then_some(Origin::Karmada),
                    agent_rbac,
                    token_renewal_fraction: Some(token_renewal_fraction)
                        .filter(|part| *part > 0.0 && *part < credentials::MAX_RENEWAL_FRACTION)
                        .ok_or_else(|| {
                            Error::Flag("token-renewal-fraction: it is not between 0 and 0.9".to_owned())
                        })?,
                },
            },
            audit: self::audit::config(audit)?,
            authorization_webhook: webhook,
            admission_webhook,
            tracing: tracing_config_file.map(|file| self::tracing(&file)).transpose()?,
            log_format,
        })
    }
}

fn authorization(flags: Delegated, levels: Shares) -> Result<authorization::Config, Error> {
    let patterns: Vec<_> =
        flags.authorization_always_allow_paths.into_iter().filter(|pattern| !pattern.is_empty()).collect();
    let always_allowed = AlwaysAllowed::parse(&patterns)
        .map_err(|error| Error::Flag(format!("authorization-always-allow-paths: {error}")))?;
    let ttl = Ttl {
        allowed: flags.authorization_webhook_cache_authorized_ttl,
        denied: flags.authorization_webhook_cache_unauthorized_ttl,
    };
    Ok(authorization::Config { always_allowed, ttl, levels: Some(levels), hub: None })
}

fn tracing(file: &Path) -> Result<spans::Config, Error> {
    let invalid =
        |error: spans::ConfigError| Error::Flag(format!("tracing-config-file: {}: {error}", file.display()));
    spans::Config::read(file).map_err(invalid)
}

fn read(flag: &str, file: &Path) -> Result<String, Error> {
    std::fs::read_to_string(file)
        .map_err(|error| Error::Flag(format!("{flag}: cannot read {}: {error}", file.display())))
}

fn own_namespace() -> String {
    let own = std::fs::read_to_string(NAMESPACE_FILE).unwrap_or_default();
    let own = own.trim();
    if own.is_empty() { names::NAMESPACE.to_owned() } else { own.to_owned() }
}

/// The file in every pod with the name of its namespace.
const NAMESPACE_FILE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";

/// A flag has an invalid value.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("--{0}")]
    Flag(String),
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::programs::args::{Cli, Command};

    fn config(flags: &[&str]) -> Result<Config, Error> {
        let cli = Cli::try_parse_from(["mc-sidecar", "serve"].iter().chain(flags)).unwrap();
        match cli.command {
            Command::Serve(serve) => Config::try_from(*serve),
            Command::Agent(_) | Command::Crds | Command::Check(_) => unreachable!(),
        }
    }

    #[test]
    fn defaults_match_the_documentation() {
        let config = config(&[]).unwrap();
        assert_eq!(config.address, "0.0.0.0:10250".parse().unwrap());
        assert_eq!(
            config.rules.admin_groups,
            ["system:masters", "kubeadm:cluster-admins", "system:cluster-admins"]
        );
        assert!(config.trust.is_empty());
    }

    #[test]
    fn admin_groups_flag_keeps_the_builtin_groups() {
        let config = config(&["--admin-groups=platform,ops"]).unwrap();
        let expected =
            ["system:masters", "kubeadm:cluster-admins", "system:cluster-admins", "platform", "ops"];
        assert_eq!(config.rules.admin_groups, expected);
        assert_eq!(*config.controllers.admin_groups, expected);
    }

    #[test]
    fn request_header_flags_replace_the_hosts_keys() {
        let config =
            config(&["--requestheader-allowed-names=a,b", "--requestheader-username-headers=X-User"])
                .unwrap();
        assert_eq!(config.trust["requestheader-allowed-names"], r#"["a","b"]"#);
        assert_eq!(config.trust["requestheader-username-headers"], r#"["X-User"]"#);
    }

    #[test]
    fn durations_have_a_unit_or_are_seconds() {
        let config =
            config(&["--request-timeout=2m", "--shutdown-delay-duration=5", "--shutdown-grace-period=1m30s"])
                .unwrap();
        let seconds = [config.request_timeout, config.shutdown_delay, config.shutdown_grace];
        assert_eq!(seconds.map(|duration| duration.as_secs()), [120, 5, 90]);
    }

    #[test]
    fn delegation_flags_have_upstreams_defaults() {
        let ttls = |config: &Config| {
            let Ttl { allowed, denied } = config.authorization.ttl;
            [config.token_ttl, allowed, denied].map(|ttl| ttl.as_secs())
        };
        assert_eq!(ttls(&config(&[]).unwrap()), [10, 10, 10]);
        let changed = config(&[
            "--authentication-token-webhook-cache-ttl=2m",
            "--authorization-webhook-cache-authorized-ttl=5m",
            "--authorization-webhook-cache-unauthorized-ttl=0",
            "--authorization-always-allow-paths=",
        ]);
        assert_eq!(ttls(&changed.unwrap()), [120, 300, 0]);
    }

    #[test]
    fn invalid_level_shares_are_named() {
        let flags = ["mc-sidecar", "serve", "--priority-level-shares=system=1,people=2"];
        let error = Cli::try_parse_from(flags).unwrap_err().to_string();
        assert!(error.contains("\"people\" is not a priority level with a share"), "{error}");
    }

    #[test]
    fn invalid_flag_is_named() {
        for (flag, named) in [
            ("--client-ca-file=/does/not/exist", "--client-ca-file: cannot read /does/not/exist"),
            ("--cors-allowed-origins=example.com", "--cors-allowed-origins: \"example.com\" does not pin"),
            (
                "--authorization-always-allow-paths=/metrics,/a*b",
                "--authorization-always-allow-paths: only a * at the end is allowed in \"/a*b\"",
            ),
            ("--goaway-chance=0.1", "--goaway-chance: it is less than 0 or more than 0.02"),
            ("--requestheader-username-headers=a b", "--requestheader-username-headers: no header name"),
        ] {
            let error = config(&[flag]).unwrap_err().to_string();
            assert!(error.starts_with(named), "{error}");
        }
    }
}
