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
use crate::endpoints::hub_server;
use crate::identity::authorization;
use crate::identity::authorization::always_allowed::AlwaysAllowed;
use crate::identity::authorization::subject_access_review::Ttl;
use crate::identity::impersonation::member;
use crate::limits::in_flight::Shares;
use crate::members::inventory::Inventories;
use crate::programs::args::{self, Delegated, LogFormat, Serve, Serving};
use crate::request::cors::Cors;
use crate::request::fleet::view as fleet_view;
use crate::telemetry::spans;

mod audit;
mod authorization_webhook;
mod controllers;
mod error;
mod inventories;
mod karmada_server;
mod trust;

pub use authorization_webhook::AuthorizationWebhook;
pub use error::Error;

/// The configuration of a server. No field is public, so that the compiler warns about an unused
/// one.
#[derive(Debug)]
pub struct Config {
    pub(super) kubeconfig: Option<PathBuf>,
    pub(super) namespace: String,
    pub(super) inventories: Inventories,
    /// The hub's server behind the sidecar, whose API group the sidecar serves.
    pub(super) hub_server: Option<hub_server::Config>,
    pub(super) address: SocketAddr,
    pub(super) admin_address: SocketAddr,
    pub(super) certificate: Certificate,
    /// The URL at which clients reach the sidecars directly.
    pub(super) direct_server: Option<Server>,
    /// Keys of `extension-apiserver-authentication` that flags replace.
    pub(super) trust: BTreeMap<String, String>,
    pub(super) audiences: Vec<String>,
    pub(super) anonymous_auth: bool,
    pub(super) token_ttl: Duration,
    pub(super) authorization: authorization::Config,
    pub(super) goaway: Goaway,
    pub(super) cors: Option<Cors>,
    pub(super) rules: member::Rules,
    pub(super) limits: args::Limits,
    /// `None`: the fleet view is off.
    pub(super) fleet: Option<fleet_view::Config>,
    pub(super) peers: Vec<Authority>,
    pub(super) request_timeout: Duration,
    pub(super) shutdown_delay: Duration,
    pub(super) shutdown_grace: Duration,
    pub(super) controllers: crate::controllers::Config,
    pub(super) audit: crate::telemetry::audit::Config,
    pub(super) authorization_webhook: Option<AuthorizationWebhook>,
    /// The address of the admission webhooks for Karmada's agents.
    pub(super) admission_webhook: Option<SocketAddr>,
    pub(super) tracing: Option<spans::Config>,
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
            serving,
            karmada_server,
            direct_server,
            cluster_profile_server,
            trust,
            api_audiences,
            anonymous_auth,
            delegated,
            goaway_chance,
            cors_allowed_origins,
            rules,
            limits,
            fleet,
            peers,
            peer_ca_file,
            request_timeout,
            shutdown_delay_duration,
            shutdown_grace_period,
            controllers,
            log_format,
            tracing_config_file,
            audit,
            authorization_webhook,
        } = args;
        let trust = self::trust::parse(trust)?;
        let rules = member::Rules {
            admin_groups: sent::admin_groups(rules.admin_groups),
            omitted_extra: rules.omit_extra,
            allow_privileged_identity: rules.allow_privileged_identity,
        };
        let admission_webhook = authorization_webhook.admission_webhook_port;
        let admission_webhook = admission_webhook.map(|port| SocketAddr::new(serving.bind_address, port));
        let agents =
            self::authorization_webhook::layout(&authorization_webhook, &inventory.karmada_namespace)?;
        let agent_rbac = authorization_webhook.karmada_agent_rbac.then(|| Arc::new(agents.clone()));
        let webhook = AuthorizationWebhook::parse(authorization_webhook, serving.bind_address, agents)?;
        let controllers = self::controllers::Flags {
            flags: controllers,
            publishes_direct_endpoint: direct_server.is_some(),
            cluster_profile_server,
            hub_with_rights: inventory.karmada_member_rbac.then_some(Origin::Karmada),
            agent_rbac,
            admin_groups: rules.admin_groups.as_slice().into(),
        };
        let inventories = self::inventories::parse(inventory)?;
        Ok(Self {
            kubeconfig,
            namespace: namespace.unwrap_or_else(own_namespace),
            address: SocketAddr::new(serving.bind_address, serving.secure_port),
            admin_address: serving.admin_bind_address,
            certificate: certificate(serving, peer_ca_file),
            direct_server,
            trust,
            audiences: api_audiences,
            anonymous_auth,
            token_ttl: delegated.authentication_token_webhook_cache_ttl,
            authorization: self::authorization(delegated, limits.priority_level_shares, &inventories)?,
            hub_server: self::karmada_server::parse(karmada_server, &inventories)?,
            inventories,
            cors: cors(&cors_allowed_origins)?,
            goaway: goaway(goaway_chance)?,
            limits,
            fleet: self::fleet(&fleet),
            peers,
            request_timeout,
            shutdown_delay: shutdown_delay_duration,
            shutdown_grace: shutdown_grace_period,
            controllers: controllers.checked()?,
            rules,
            audit: self::audit::config(audit)?,
            authorization_webhook: webhook,
            admission_webhook,
            tracing: tracing_config_file.map(|file| self::tracing(&file)).transpose()?,
            log_format,
        })
    }
}

fn authorization(
    flags: Delegated,
    levels: Shares,
    inventories: &Inventories,
) -> Result<authorization::Config, Error> {
    let patterns: Vec<_> =
        flags.authorization_always_allow_paths.into_iter().filter(|pattern| !pattern.is_empty()).collect();
    let always_allowed = AlwaysAllowed::parse(&patterns)
        .map_err(|error| Error::Flag(format!("authorization-always-allow-paths: {error}")))?;
    let ttl = Ttl {
        allowed: flags.authorization_webhook_cache_authorized_ttl,
        denied: flags.authorization_webhook_cache_unauthorized_ttl,
    };
    let hub = inventories.hub.as_ref().map(|hub| hub.origin);
    Ok(authorization::Config { always_allowed, ttl, levels: Some(levels), hub })
}

fn certificate(flags: Serving, peer_ca: Option<PathBuf>) -> Certificate {
    match flags.tls_cert_file.zip(flags.tls_private_key_file) {
        Some((certificate, key)) => Certificate::Files(Files { certificate, key, peer_ca }),
        None if flags.rotate_server_certificates => Certificate::SelfManaged,
        None => Certificate::SelfSigned,
    }
}

fn fleet(flags: &args::FleetView) -> Option<fleet_view::Config> {
    let by_caller = flags.max_merged_member_watches_per_caller;
    flags.fleet_view.then_some(fleet_view::Config {
        merged_requests: flags.max_merged_requests,
        member_watches: [flags.max_merged_member_watches, by_caller],
    })
}

fn cors(origins: &[String]) -> Result<Option<Cors>, Error> {
    Cors::new(origins).map_err(|error| Error::Flag(format!("cors-allowed-origins: {error}")))
}

fn goaway(chance: f64) -> Result<Goaway, Error> {
    let invalid = || Error::Flag("goaway-chance: it is less than 0 or more than 0.02".to_owned());
    Goaway::new(chance).ok_or_else(invalid)
}

fn tracing(file: &Path) -> Result<spans::Config, Error> {
    let invalid =
        |error: spans::ConfigError| Error::Flag(format!("tracing-config-file: {}: {error}", file.display()));
    spans::Config::read(file).map_err(invalid)
}

fn own_namespace() -> String {
    let own = std::fs::read_to_string(NAMESPACE_FILE).unwrap_or_default();
    let own = own.trim();
    if own.is_empty() { names::NAMESPACE.to_owned() } else { own.to_owned() }
}

/// The file in every pod with the name of its namespace.
const NAMESPACE_FILE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";

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
