//! Defines the flags of delegated authentication and authorization, with the names and defaults of an
//! aggregated API server (apiserver: `server/options/authentication.go`, `authorization.go`).

use std::time::Duration;

use clap::Args;
use kubectl_mc_api::go_duration::parse_flag;

#[derive(Debug, Args)]
pub struct Delegated {
    /// How long to cache the host's answers about bearer tokens; 0 means no cache.
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = parse_flag)]
    pub authentication_token_webhook_cache_ttl: Duration,
    /// How long to cache the host's decisions that allow a request; 0 means no cache. A right that is taken away ends
    /// open watches and tunnels up to 30 s later than this.
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = parse_flag)]
    pub authorization_webhook_cache_authorized_ttl: Duration,
    /// How long to cache the host's decisions that refuse a request; 0 means no cache.
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = parse_flag)]
    pub authorization_webhook_cache_unauthorized_ttl: Duration,
    /// Paths that every authenticated caller may get without asking the host; * at the end matches any text. This is
    /// about /metrics: clusters and members always need a right, health checks and discovery never do.
    #[arg(long, value_name = "PATH", value_delimiter = ',', default_values = ALWAYS_ALLOWED)]
    pub authorization_always_allow_paths: Vec<String>,
}

const ALWAYS_ALLOWED: [&str; 3] = ["/healthz", "/readyz", "/livez"];
