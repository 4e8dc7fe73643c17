//! Validates the flags of the controllers.

use std::sync::Arc;

use kubectl_mc_api::Origin;
use kubectl_mc_api::direct::Server;
use kubectl_mc_api::ownership::Layout;

use super::error::Error;
use crate::controllers::{Config, Enabled, Settings, credentials, leader};
use crate::programs::args;

/// The flags of the controllers, and other flags that concern them.
pub(super) struct Flags {
    pub(super) flags: args::Controllers,
    pub(super) publishes_direct_endpoint: bool,
    pub(super) cluster_profile_server: Option<Server>,
    pub(super) hub_with_rights: Option<Origin>,
    pub(super) agent_rbac: Option<Arc<Layout>>,
    pub(super) admin_groups: Arc<[String]>,
}

impl Flags {
    pub(super) fn checked(self) -> Result<Config, Error> {
        let Self { flags, .. } = self;
        let enabled = Enabled::parse(&flags.controllers)
            .map_err(|error| Error::Flag(format!("controllers: {error}")))?;
        let election = leader::Config {
            resource_name: flags.leader_elect_resource_name,
            lease_duration: flags.leader_elect_lease_duration,
            renew_deadline: flags.leader_elect_renew_deadline,
            retry_period: flags.leader_elect_retry_period,
        };
        let election = election.checked().map_err(|error| Error::Flag(error.to_owned()))?;
        let token_renewal_fraction = flags.token_renewal_fraction;
        if !(token_renewal_fraction > 0.0 && token_renewal_fraction < credentials::MAX_RENEWAL_FRACTION) {
            return Err(Error::Flag("token-renewal-fraction: it is not between 0 and 0.9".to_owned()));
        }
        let settings = Settings {
            member_monitor_period: flags.member_monitor_period,
            member_resync_period: flags.member_resync_period,
            token_renewal_fraction,
            publishes_direct_endpoint: self.publishes_direct_endpoint,
            cluster_profile_server: self.cluster_profile_server,
            hub_with_rights: self.hub_with_rights,
            agent_rbac: self.agent_rbac,
        };
        Ok(Config { enabled, election, settings, admin_groups: self.admin_groups })
    }
}
