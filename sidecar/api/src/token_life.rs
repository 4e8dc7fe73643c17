//! Defines the lifetimes of a member's tokens and of an agent's token, and the longest outage of the host and
//! absence of the agent that they survive.

use std::time::Duration;

/// The lifetime that `join` requests for the impersonator's token. A member may grant less.
pub const DEFAULT: Duration = Duration::from_secs(30 * DAY);
/// Kubernetes grants no shorter lifetime.
pub const SHORTEST: Duration = Duration::from_secs(600);
/// Part of a token's lifetime after which the leader renews it.
pub const RENEWAL_FRACTION: f64 = 0.33;
/// The longest expected outage: a host that is switched off from Friday evening to Monday morning.
pub const WEEKEND: Duration = Duration::from_secs(3 * DAY);

/// The lifetime of the manager's token, which renews both tokens. It outlives the impersonator's token, so a
/// host that was down for longer than that recovers without the member's administrator.
pub fn of_manager(impersonator: Duration) -> Duration {
    impersonator.mul_f64(1.5)
}

/// The lifetime of the impersonator's token, from that of the manager's token.
pub fn of_impersonator(manager: Duration) -> Duration {
    manager.div_f64(1.5)
}

/// The longest outage of the host after which a manager's token with this lifetime can still be
/// used for renewal, if the outage begins just before a renewal.
pub fn survived_outage(manager: Duration) -> Duration {
    manager.mul_f64(1.0 - RENEWAL_FRACTION)
}

/// The lifetime that is requested for an agent's token. A host may grant less.
pub const AGENT_DEFAULT: Duration = Duration::from_secs(30 * DAY);
/// Part of an agent's token's lifetime after which the host renews it.
pub const AGENT_RENEWAL_FRACTION: f64 = 2.0 / 3.0;

/// The longest time that an agent with a token of this lifetime may be disconnected, if it
/// disconnects just before a renewal.
pub fn survived_absence(agent: Duration) -> Duration {
    agent.mul_f64(1.0 - AGENT_RENEWAL_FRACTION)
}

const DAY: u64 = 24 * 3600;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_token_survives_a_month_of_outage() {
        assert_eq!(of_impersonator(of_manager(DEFAULT)), DEFAULT);
        assert!(survived_outage(of_manager(DEFAULT)) > Duration::from_secs(30 * DAY));
        assert!(survived_outage(of_manager(Duration::from_secs(DAY))) < WEEKEND);
        assert!(survived_absence(AGENT_DEFAULT) > WEEKEND);
        assert!(survived_absence(Duration::from_secs(2 * DAY)) < WEEKEND);
    }
}
