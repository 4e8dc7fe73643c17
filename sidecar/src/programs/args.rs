//! Defines the command line. Flags that a kube-apiserver or an aggregated API server also has keep their
//! names.

mod audit;
mod authorization_webhook;
mod delegated;
mod karmada_server;

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgAction, Args, Parser, Subcommand, ValueEnum};
use http::uri::Authority;
use jiff::Timestamp;
use kubectl_mc_api::Origin;
use kubectl_mc_api::direct::Server;
use kubectl_mc_api::go_duration::{self, parse_flag};
use kubectl_mc_api::origin::{KARMADA_NAMESPACE, KUBEADMIRAL_NAMESPACE};
use kubectl_mc_api::token_life::RENEWAL_FRACTION;

use crate::identity::impersonation::member::DEFAULT_OMITTED_EXTRA;
use crate::limits::in_flight::Shares;

pub use audit::Audit;
pub use authorization_webhook::{AuthorizationWebhook, ListClusters};
pub use delegated::Delegated;
pub use karmada_server::KarmadaServer;

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
    /// Connect this member to its host: keep a tunnel for members that the host cannot reach.
    Agent(Box<Agent>),
    /// Print the custom resource definitions.
    Crds,
    /// Check that the host reaches a sidecar.
    Check(Check),
}

#[derive(Debug, Args)]
pub struct Check {
    /// Kubeconfig of the host cluster. Default: the pod's service account.
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// How long to repeat the check until it succeeds.
    #[arg(long, value_name = "DURATION", default_value = "1m", value_parser = parse_flag)]
    pub timeout: Duration,
}

#[derive(Debug, Args)]
pub struct Agent {
    /// Name of this member on the host.
    #[arg(long, value_name = "NAME")]
    pub cluster: String,
    /// Folder with the connection to the host: files server, ca.crt, tls-server-name, token, tls.crt, tls.key and
    /// proxy-url, as a mounted Secret has them. They are read at each attempt to connect.
    #[arg(long, value_name = "DIR")]
    pub connection_dir: Option<PathBuf>,
    /// URL of the host's API server, or of the sidecar.
    #[arg(long, value_name = "URL")]
    pub server: Option<String>,
    /// File with the CA of the server (PEM). Default: every CA of the system, with a warning.
    #[arg(long, value_name = "FILE")]
    pub server_ca_file: Option<PathBuf>,
    /// Name that the server's certificate must have. Default: the host of the URL.
    #[arg(long, value_name = "NAME")]
    pub tls_server_name: Option<String>,
    /// File with the token of service account kubectl-mc-agents/NAME on the host.
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// File with a client certificate for the host, instead of a token (PEM).
    #[arg(long, value_name = "FILE", requires = "client_key")]
    pub client_certificate: Option<PathBuf>,
    /// File with the key of the client certificate (PEM).
    #[arg(long, value_name = "FILE", requires = "client_certificate")]
    pub client_key: Option<PathBuf>,
    /// Proxy on the way to the server: http, https or socks5. Default: HTTPS_PROXY, unless NO_PROXY has the server.
    #[arg(long, value_name = "URL")]
    pub proxy_url: Option<String>,
    /// Secret of this member in which the agent keeps a renewed token.
    #[arg(long, value_name = "NAMESPACE/NAME")]
    pub token_secret: Option<String>,
    /// Kubeconfig of this member, for --token-secret and --enroll-until. Default: the pod's service account.
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// Until when the agent enrolls this member (RFC 3339): it gives the host the CA and tokens of the sidecar's two
    /// accounts once, and then deletes its right to do so.
    #[arg(long, value_name = "TIME")]
    pub enroll_until: Option<Timestamp>,
    /// Lifetime of the sidecar's token, with --enroll-until; the token that renews it lives 1.5 times as long.
    #[arg(long, value_name = "DURATION", default_value = "720h", value_parser = duration)]
    pub enroll_token_duration: Duration,
    /// The only address that the agent connects to for the host: the API server of this member.
    #[arg(long, value_name = "HOST:PORT", default_value = "kubernetes.default.svc:443")]
    pub target: String,
    /// Number of tunnels, each to another replica of the sidecar. A replica without one asks the others.
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u8).range(1..=8))]
    pub tunnels: u8,
    /// Maximum number of connections in one tunnel. Each watch and each exec is one.
    #[arg(long, value_name = "N", default_value_t = 512, value_parser = clap::value_parser!(u32).range(1..=2048))]
    pub max_streams: u32,
    /// How much of one connection may be on its way to this member unread.
    #[arg(long, value_name = "BYTES", default_value = "512Ki")]
    pub stream_window: String,
    /// Address on which to serve /livez and /readyz over plain HTTP.
    #[arg(long, value_name = "IP:PORT", default_value = "127.0.0.1:8080")]
    pub admin_bind_address: SocketAddr,
    /// Log format.
    #[arg(long, value_enum, default_value_t = LogFormat::Text)]
    pub log_format: LogFormat,
}

#[derive(Debug, Args)]
pub struct Serve {
    /// Kubeconfig of the host cluster. Default: the pod's service account.
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// Namespace of the members' Secrets. Default: the pod's namespace, or kubectl-mc-system.
    #[arg(long, value_name = "NAME")]
    pub namespace: Option<String>,
    /// Inventories to read members from: membercluster (MemberClusters and their Secrets), karmada (Clusters of
    /// Karmada), kubeadmiral (FederatedClusters of KubeAdmiral). A name in several of them is served from the first.
    #[arg(long, value_name = "NAME", value_delimiter = ',', default_value = "membercluster")]
    pub inventory: Vec<Origin>,
    /// Let Clusters of Karmada name other Secrets than their own. Then everyone who may write a Cluster decides to which
    /// server the token of any Secret in Karmada's namespace is sent.
    #[arg(long)]
    pub inventory_allow_refs: bool,
    /// Namespace of the Secrets of Karmada's Clusters, and of their heartbeat Leases.
    #[arg(long, value_name = "NAME", default_value = KARMADA_NAMESPACE)]
    pub karmada_namespace: String,
    /// Write impersonation rights on Karmada's members, with the accounts in the Secrets of its Clusters, which may do
    /// everything there. Members then accept uid, extra, every group and kubectl-mc:host-admins.
    #[arg(long)]
    pub karmada_member_rbac: bool,
    /// Namespace of the Secrets of KubeAdmiral's FederatedClusters.
    #[arg(long, value_name = "NAME", default_value = KUBEADMIRAL_NAMESPACE)]
    pub kubeadmiral_namespace: String,
    /// Address on which to serve HTTPS.
    #[arg(long, value_name = "IP", default_value = "0.0.0.0")]
    pub bind_address: IpAddr,
    /// Port on which to serve HTTPS.
    #[arg(long, value_name = "PORT", default_value_t = 10250)]
    pub secure_port: u16,
    /// Address on which to serve /livez and /readyz over plain HTTP, and /metrics if it is a loopback address.
    #[arg(long, value_name = "IP:PORT", default_value = "127.0.0.1:8080")]
    pub admin_bind_address: SocketAddr,
    /// File with the serving certificate (PEM). Without it and without --rotate-server-certificates, the sidecar
    /// generates a certificate that clients cannot verify.
    #[arg(long, value_name = "FILE", requires = "tls_private_key_file")]
    pub tls_cert_file: Option<PathBuf>,
    /// File with the key of the serving certificate (PEM).
    #[arg(long, value_name = "FILE", requires = "tls_cert_file")]
    pub tls_private_key_file: Option<PathBuf>,
    /// Issue the serving certificate from the CA in Secret mc-sidecar-ca, renew both, and keep the caBundle of the
    /// APIServices up to date.
    #[arg(long, conflicts_with = "tls_cert_file")]
    pub rotate_server_certificates: bool,
    #[command(flatten)]
    pub karmada_server: KarmadaServer,
    /// URL at which clients reach the sidecars past the host's API server. Its host is a name in the certificate of
    /// --rotate-server-certificates, and the leader keeps the CA in ConfigMap kube-public/kubectl-mc up to date.
    #[arg(long, value_name = "URL")]
    pub direct_server: Option<Server>,
    /// URL of the host's API server for ClusterProfiles (multicluster.x-k8s.io) of the members, which the leader then
    /// writes into its namespace. The CA of the host must have signed the server's certificate.
    #[arg(long, value_name = "URL")]
    pub cluster_profile_server: Option<Server>,
    /// CA of client certificates. Default: what the host publishes in ConfigMap
    /// kube-system/extension-apiserver-authentication, as for all flags with this default.
    #[arg(long, value_name = "FILE")]
    pub client_ca_file: Option<PathBuf>,
    /// CA of the front proxy's client certificate. Default: what the host publishes.
    #[arg(long, value_name = "FILE")]
    pub requestheader_client_ca_file: Option<PathBuf>,
    /// Common names that the front proxy's client certificate may have. Default: what the host publishes.
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub requestheader_allowed_names: Option<Vec<String>>,
    /// Headers with the name of the user. Default: what the host publishes.
    #[arg(long, value_name = "HEADER", value_delimiter = ',')]
    pub requestheader_username_headers: Option<Vec<String>>,
    /// Headers with the UID of the user. Default: what the host publishes.
    #[arg(long, value_name = "HEADER", value_delimiter = ',')]
    pub requestheader_uid_headers: Option<Vec<String>>,
    /// Headers with the groups of the user. Default: what the host publishes.
    #[arg(long, value_name = "HEADER", value_delimiter = ',')]
    pub requestheader_group_headers: Option<Vec<String>>,
    /// Prefixes of the headers with the extra fields of the user. Default: what the host publishes.
    #[arg(long, value_name = "PREFIX", value_delimiter = ',')]
    pub requestheader_extra_headers_prefix: Option<Vec<String>>,
    /// Audiences of accepted bearer tokens. Default: the audiences of the host's API server.
    #[arg(long, value_name = "AUDIENCE", value_delimiter = ',')]
    pub api_audiences: Vec<String>,
    /// Accept requests without credentials as user system:anonymous. RBAC decides what they may do. This is about
    /// direct requests: the host decides about those that it forwards.
    #[arg(long, value_name = "BOOL", default_value_t = false, action = ArgAction::Set, num_args = 0..=1,
        default_missing_value = "true", require_equals = true)]
    pub anonymous_auth: bool,
    #[command(flatten)]
    pub delegated: Delegated,
    /// Probability of closing an HTTP/2 connection with GOAWAY after a request, at most 0.02. It spreads clients
    /// over the replicas.
    #[arg(long, value_name = "FRACTION", default_value_t = 0.0)]
    pub goaway_chance: f64,
    /// Allowed origins for CORS on direct requests: regular expressions that match the whole host name, for example
    /// '^https://example\.com(:|$)'. Pages of other origins can neither change anything nor open streams.
    #[arg(long, value_name = "REGEX", value_delimiter = ',')]
    pub cors_allowed_origins: Vec<String>,
    /// Additional groups of administrators. Members see group kubectl-mc:host-admins in place of these and of
    /// system:masters, kubeadm:cluster-admins and system:cluster-admins.
    #[arg(long, value_name = "GROUP", value_delimiter = ',')]
    pub admin_groups: Vec<String>,
    /// Keys of extra fields that the sidecar never sends to members; * at either end matches any text.
    #[arg(long, value_name = "KEY", value_delimiter = ',', default_values = DEFAULT_OMITTED_EXTRA)]
    pub omit_extra: Vec<String>,
    /// Allow identities of the host's control plane on members.
    #[arg(long)]
    pub allow_privileged_identity: bool,
    /// Maximum number of open read requests, without long-running ones; 0 means no limit.
    #[arg(long, value_name = "N", default_value_t = 2000)]
    pub max_requests_inflight: usize,
    /// Maximum number of open write requests; 0 means no limit.
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub max_mutating_requests_inflight: usize,
    /// Maximum number of open requests to one member, of which one priority level can have 100 by default; 0 means no
    /// limit.
    #[arg(long, value_name = "N", default_value_t = 160)]
    pub max_member_requests_inflight: usize,
    /// Shares of the priority levels in these three limits: system (the host's control plane and nodes),
    /// workload-high (service accounts), interactive (other users), catch-all (callers without a credential). A
    /// level lends a part of its share while it is idle, and keeps the rest; 0 keeps nothing.
    #[arg(long, value_name = "LEVEL=SHARE,...", default_value_t = Shares::default())]
    pub priority_level_shares: Shares,
    /// Maximum number of queued requests of one caller, when a limit is reached or the caller has reached its share
    /// of it (three quarters of its level's places for a single caller); 0 means no queue.
    #[arg(long, value_name = "N", default_value_t = 50)]
    pub max_requests_queued_per_caller: usize,
    /// Maximum number of open tunnels (exec, attach, port-forward), of which one caller can have three quarters; 0
    /// means no limit.
    #[arg(long, value_name = "N", default_value_t = 2000)]
    pub max_tunnels: usize,
    /// Maximum number of open tunnels of members' agents; 0 means no limit.
    #[arg(long, value_name = "N", default_value_t = 16_384)]
    pub max_agent_tunnels: usize,
    /// Addresses of the other replicas, or names that resolve to them (this replica's own address does no harm). A replica
    /// without a tunnel of a member's agent asks them. They verify each other's serving certificates.
    #[arg(long, value_name = "HOST:PORT", value_delimiter = ',')]
    pub peers: Vec<Authority>,
    /// CA of the other replicas' serving certificates, which are for client authentication too and have the URI
    /// kubectl-mc:peer. Default: the CA in Secret mc-sidecar-ca, with --rotate-server-certificates.
    #[arg(long, value_name = "FILE", requires = "tls_cert_file")]
    pub peer_ca_file: Option<PathBuf>,
    /// Maximum number of open watches, followed logs and other long-running requests without an upgrade, of which
    /// one caller can have three quarters; 0 means no limit.
    #[arg(long, value_name = "N", default_value_t = 16_384)]
    pub max_watches: usize,
    /// Maximum number of such requests to one member, of which one caller can have three quarters; 0 means no
    /// limit.
    #[arg(long, value_name = "N", default_value_t = 8_192)]
    pub max_member_watches: usize,
    /// Timeout of requests that are not long-running. A request can shorten it with ?timeout=.
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = parse_flag)]
    pub request_timeout: Duration,
    /// How long to accept new connections after the signal to shut down.
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = parse_flag)]
    pub shutdown_delay_duration: Duration,
    /// How long to wait for open requests and tunnels at a shutdown.
    #[arg(long, value_name = "DURATION", default_value = "20s", value_parser = parse_flag)]
    pub shutdown_grace_period: Duration,
    /// Controllers to run on the leader: * means all, NAME one controller, -NAME all but this one, an empty value
    /// none.
    #[arg(long, value_name = "NAME", value_delimiter = ',', default_value = "*", allow_hyphen_values = true)]
    pub controllers: Vec<String>,
    /// How long the Lease of the controllers is valid after a renewal.
    #[arg(long, value_name = "DURATION", default_value = "15s", value_parser = duration)]
    pub leader_elect_lease_duration: Duration,
    /// How long the leader tries to renew the Lease before it stops the controllers.
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = duration)]
    pub leader_elect_renew_deadline: Duration,
    /// Interval between attempts to acquire or renew the Lease.
    #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = duration)]
    pub leader_elect_retry_period: Duration,
    /// Name of the Lease in the sidecar's namespace.
    #[arg(long, value_name = "NAME", default_value = "mc-sidecar")]
    pub leader_elect_resource_name: String,
    /// Interval between health probes of each member by the leader.
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = duration)]
    pub member_monitor_period: Duration,
    /// Interval between checks of the RBAC objects that the leader keeps on a member, plus up to 50 %.
    #[arg(long, value_name = "DURATION", default_value = "3m", value_parser = duration)]
    pub member_resync_period: Duration,
    /// Fraction of a token's lifetime after which the leader renews it, less than 0.9.
    #[arg(long, value_name = "FRACTION", default_value_t = RENEWAL_FRACTION)]
    pub token_renewal_fraction: f64,
    /// Log format.
    #[arg(long, value_enum, default_value_t = LogFormat::Text)]
    pub log_format: LogFormat,
    /// File with the tracing configuration (TracingConfiguration of apiserver.config.k8s.io/v1), in the form of a
    /// kube-apiserver's. Default: no tracing.
    #[arg(long, value_name = "FILE")]
    pub tracing_config_file: Option<PathBuf>,
    #[command(flatten)]
    pub audit: Audit,
    #[command(flatten)]
    pub authorization_webhook: AuthorizationWebhook,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    Text,
    Json,
}

/// Parses a duration in the format of Kubernetes' flags: `15s`, `1m30s`.
fn duration(text: &str) -> Result<Duration, String> {
    match go_duration::parse(text) {
        Ok(Some(duration)) => Ok(duration),
        Ok(None) => Err("it is not longer than 0".to_owned()),
        Err(fault) => Err(fault.to_string()),
    }
}
