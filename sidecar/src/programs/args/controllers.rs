//! Defines the flags of the controllers. Those of the election have the names of a kube-controller-manager
//! (component-base: `config/options/leaderelectionconfig.go`).

use std::time::Duration;

use clap::Args;
use kubectl_mc_api::token_life::RENEWAL_FRACTION;

use super::duration::duration;

#[derive(Debug, Args)]
pub struct Controllers {
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
}
