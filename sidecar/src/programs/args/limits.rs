//! Defines the flags that limit concurrent requests.

use clap::Args;

use crate::limits::in_flight::Shares;

#[derive(Debug, Args)]
pub struct Limits {
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
    /// Maximum number of open watches, followed logs and other long-running requests without an upgrade, of which
    /// one caller can have three quarters; 0 means no limit.
    #[arg(long, value_name = "N", default_value_t = 16_384)]
    pub max_watches: usize,
    /// Maximum number of such requests to one member, of which one caller can have three quarters; 0 means no
    /// limit.
    #[arg(long, value_name = "N", default_value_t = 8_192)]
    pub max_member_watches: usize,
}
