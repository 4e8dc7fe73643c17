//! Defines the command line. Flags that a kube-apiserver or an aggregated API server also has keep their
//! names.

mod audit;
mod authorization_webhook;
mod controllers;
mod delegated;
mod duration;
mod inventory;
mod karmada_server;
mod limits;
mod rules;
mod serving;
mod trust;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgAction, Args, Parser, Subcommand, ValueEnum};
use http::uri::Authority;
use jiff::Timestamp;
use kubectl_mc_api::direct::Server;
use kubectl_mc_api::go_duration::parse_flag;

pub use audit::Audit;
pub use authorization_webhook::{AuthorizationWebhook, ListClusters};
pub use controllers::Controllers;
pub use delegated::Delegated;
pub use inventory::Inventory;
pub use karmada_server::KarmadaServer;
pub use limits::Limits;
pub use rules::Rules;
pub use serving::Serving;
pub use trust::Trust;

use duration::duration;

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
    #[command(flatten)]
    pub inventory: Inventory,
    #[command(flatten)]
    pub serving: Serving,
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
    #[command(flatten)]
    pub trust: Trust,
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
    #[command(flatten)]
    pub rules: Rules,
    #[command(flatten)]
    pub limits: Limits,
    #[command(flatten)]
    pub fleet: FleetView,
    /// Addresses of the other replicas, or names that resolve to them (this replica's own address does no harm). A replica
    /// without a tunnel of a member's agent asks them. They verify each other's serving certificates.
    #[arg(long, value_name = "HOST:PORT", value_delimiter = ',')]
    pub peers: Vec<Authority>,
    /// CA of the other replicas' serving certificates, which are for client authentication too and have the URI
    /// kubectl-mc:peer. Default: the CA in Secret mc-sidecar-ca, with --rotate-server-certificates.
    #[arg(long, value_name = "FILE", requires = "tls_cert_file")]
    pub peer_ca_file: Option<PathBuf>,
    /// Timeout of requests that are not long-running. A request can shorten it with ?timeout=.
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = parse_flag)]
    pub request_timeout: Duration,
    /// How long to accept new connections after the signal to shut down.
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = parse_flag)]
    pub shutdown_delay_duration: Duration,
    /// How long to wait for open requests and tunnels at a shutdown.
    #[arg(long, value_name = "DURATION", default_value = "20s", value_parser = parse_flag)]
    pub shutdown_grace_period: Duration,
    #[command(flatten)]
    pub controllers: Controllers,
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

/// The fleet view.
#[derive(Debug, Args)]
pub struct FleetView {
    /// Serve all members as one cluster below clusters/*/proxy, with namespaces as NAMESPACE_MEMBER.
    #[arg(long)]
    pub fleet_view: bool,
    /// Maximum number of requests to the whole fleet in progress, without watches. 0: no limit.
    #[arg(long, value_name = "N", default_value_t = 64, requires = "fleet_view")]
    pub max_merged_requests: usize,
    /// Maximum number of watches at members for watches of the whole fleet.
    #[arg(long, value_name = "N", default_value_t = 10_000, requires = "fleet_view")]
    pub max_merged_member_watches: usize,
    /// Maximum number of watches at members for the watches of one caller.
    #[arg(long, value_name = "N", default_value_t = 4_000, requires = "fleet_view")]
    pub max_merged_member_watches_per_caller: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    Text,
    Json,
}
