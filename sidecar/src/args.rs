//! The command line. Flags that a kube-apiserver or an aggregated API server has bear its names.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgAction, Args, Parser, Subcommand, ValueEnum};
use kubectl_mc_api::go_duration::{self, parse_flag};

use crate::controllers::credentials::DEFAULT_RENEWAL_FRACTION;
use crate::identity::impersonation::member::DEFAULT_OMITTED_EXTRA;

/// The cluster proxy beside a host cluster's kube-apiserver.
#[derive(Debug, Parser)]
#[command(name = "mc-sidecar", version, about, long_about = None)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Serve the cluster proxy.
    Serve(Box<Serve>),
    /// Print the custom resource definitions.
    Crds,
}

#[derive(Debug, Args)]
pub struct Serve {
    /// Kubeconfig of the host cluster; without it the in-cluster credential.
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// Namespace of the members' Secrets; by default the pod's own, else kubectl-mc-system.
    #[arg(long, value_name = "NAME")]
    pub namespace: Option<String>,
    /// Address to serve HTTPS on.
    #[arg(long, value_name = "IP", default_value = "0.0.0.0")]
    pub bind_address: IpAddr,
    /// Port to serve HTTPS on.
    #[arg(long, value_name = "PORT", default_value_t = 10250)]
    pub secure_port: u16,
    /// Address of /livez and /readyz by plain HTTP, and of /metrics if it is a loopback address.
    #[arg(long, value_name = "IP:PORT", default_value = "127.0.0.1:8080")]
    pub admin_bind_address: SocketAddr,
    /// Serving certificate (PEM); without it and without --rotate-server-certificates, an unverifiable one is generated.
    #[arg(long, value_name = "FILE", requires = "tls_private_key_file")]
    pub tls_cert_file: Option<PathBuf>,
    /// Key of the serving certificate (PEM).
    #[arg(long, value_name = "FILE", requires = "tls_cert_file")]
    pub tls_private_key_file: Option<PathBuf>,
    /// Make the serving certificate from the authority in Secret mc-sidecar-ca, renew both, and keep the
    /// APIService's caBundle.
    #[arg(long, conflicts_with = "tls_cert_file")]
    pub rotate_server_certificates: bool,
    /// CA of client certificates; by default what the host publishes.
    #[arg(long, value_name = "FILE")]
    pub client_ca_file: Option<PathBuf>,
    /// CA of the front proxy's certificate; by default what the host publishes.
    #[arg(long, value_name = "FILE")]
    pub requestheader_client_ca_file: Option<PathBuf>,
    /// Common names that the front proxy may have; by default what the host publishes.
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub requestheader_allowed_names: Option<Vec<String>>,
    /// Headers of the user's name; by default what the host publishes.
    #[arg(long, value_name = "HEADER", value_delimiter = ',')]
    pub requestheader_username_headers: Option<Vec<String>>,
    /// Headers of the user's uid; by default what the host publishes.
    #[arg(long, value_name = "HEADER", value_delimiter = ',')]
    pub requestheader_uid_headers: Option<Vec<String>>,
    /// Headers of the user's groups; by default what the host publishes.
    #[arg(long, value_name = "HEADER", value_delimiter = ',')]
    pub requestheader_group_headers: Option<Vec<String>>,
    /// Prefixes of the headers of the user's extra; by default what the host publishes.
    #[arg(long, value_name = "PREFIX", value_delimiter = ',')]
    pub requestheader_extra_headers_prefix: Option<Vec<String>>,
    /// Audiences that a bearer token may be meant for; by default the host's own.
    #[arg(long, value_name = "AUDIENCE", value_delimiter = ',')]
    pub api_audiences: Vec<String>,
    /// Let callers without a credential in as system:anonymous; what they may is RBAC's to say. Those
    /// who come through the host are the host's to let in.
    #[arg(long, value_name = "BOOL", default_value_t = false, action = ArgAction::Set, num_args = 0..=1,
        default_missing_value = "true", require_equals = true)]
    pub anonymous_auth: bool,
    /// Share of the HTTP/2 requests after which the connection takes no more, at most 0.02, so that
    /// clients spread over the replicas.
    #[arg(long, value_name = "FRACTION", default_value_t = 0.0)]
    pub goaway_chance: f64,
    /// Origins whose pages may use the API from a browser, past the host: regular expressions, each bound
    /// to both ends of the host's name, as '^https://example\.com(:|$)'.
    #[arg(long, value_name = "REGEX", value_delimiter = ',')]
    pub cors_allowed_origins: Vec<String>,
    /// Further groups of administrators, beside system:masters, kubeadm:cluster-admins and
    /// system:cluster-admins: a member sees kubectl-mc:host-admins in place of each.
    #[arg(long, value_name = "GROUP", value_delimiter = ',')]
    pub admin_groups: Vec<String>,
    /// Extra keys that are never sent to a member; * at either end matches any text.
    #[arg(long, value_name = "KEY", value_delimiter = ',', default_values = DEFAULT_OMITTED_EXTRA)]
    pub omit_extra: Vec<String>,
    /// Let identities of the host's control plane act on members.
    #[arg(long)]
    pub allow_privileged_identity: bool,
    /// Reads under way at once, long-running ones not counted; 0 is no limit.
    #[arg(long, value_name = "N", default_value_t = 2000)]
    pub max_requests_inflight: usize,
    /// Writes under way at once; 0 is no limit.
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub max_mutating_requests_inflight: usize,
    /// Requests under way at once to one member; 0 is no limit.
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub max_member_requests_inflight: usize,
    /// Requests of one caller that may wait when such a limit is reached, or when the caller alone takes
    /// three quarters of it; 0 is none.
    #[arg(long, value_name = "N", default_value_t = 50)]
    pub max_requests_queued_per_caller: usize,
    /// Tunnels (exec, attach, port-forward) that may be open at once, three quarters of them one caller's; 0
    /// is no limit.
    #[arg(long, value_name = "N", default_value_t = 2000)]
    pub max_tunnels: usize,
    /// Maximum number of open watches, followed logs and other long-running requests that keep their protocol,
    /// three quarters of them one caller's; 0 is no limit.
    #[arg(long, value_name = "N", default_value_t = 16_384)]
    pub max_watches: usize,
    /// Maximum number of such requests to one member, three quarters of them one caller's; 0 is no limit.
    #[arg(long, value_name = "N", default_value_t = 8_192)]
    pub max_member_watches: usize,
    /// Maximum duration of a request that is not long-running; its ?timeout= can shorten it.
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = parse_flag)]
    pub request_timeout: Duration,
    /// Time between the signal to shut down and the last new connection.
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = parse_flag)]
    pub shutdown_delay_duration: Duration,
    /// Time that open requests and tunnels have at a shutdown.
    #[arg(long, value_name = "DURATION", default_value = "20s", value_parser = parse_flag)]
    pub shutdown_grace_period: Duration,
    /// Controllers to run while this replica leads: * is all, NAME one, -NAME not that one, nothing none.
    #[arg(long, value_name = "NAME", value_delimiter = ',', default_value = "*", allow_hyphen_values = true)]
    pub controllers: Vec<String>,
    /// Time after its last renewal in which no other replica takes the Lease of the controllers.
    #[arg(long, value_name = "DURATION", default_value = "15s", value_parser = duration)]
    pub leader_elect_lease_duration: Duration,
    /// Time without a renewal after which the leader stops the controllers.
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = duration)]
    pub leader_elect_renew_deadline: Duration,
    /// Time between attempts to take the Lease, or to renew it.
    #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = duration)]
    pub leader_elect_retry_period: Duration,
    /// Name of the Lease, in the sidecar's namespace.
    #[arg(long, value_name = "NAME", default_value = "mc-sidecar")]
    pub leader_elect_resource_name: String,
    /// As often the leader asks each member whether it is well.
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = duration)]
    pub member_monitor_period: Duration,
    /// As often, and up to a half later, the leader looks whether anybody has changed the rights that it keeps
    /// on a member.
    #[arg(long, value_name = "DURATION", default_value = "3m", value_parser = duration)]
    pub member_resync_period: Duration,
    /// Part of a token's life after which the leader renews it, less than 0.9.
    #[arg(long, value_name = "FRACTION", default_value_t = DEFAULT_RENEWAL_FRACTION)]
    pub token_renewal_fraction: f64,
    /// Format of the log.
    #[arg(long, value_enum, default_value_t = LogFormat::Text)]
    pub log_format: LogFormat,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    Text,
    Json,
}

/// A duration as Kubernetes' flags have it: `15s`, `1m30s`.
fn duration(text: &str) -> Result<Duration, String> {
    match go_duration::parse(text) {
        Ok(Some(duration)) => Ok(duration),
        Ok(None) => Err("it is not longer than 0".to_owned()),
        Err(fault) => Err(fault.to_string()),
    }
}
