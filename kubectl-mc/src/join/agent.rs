//! Joins a member that the host cannot reach: the objects of its agent on both sides.
//!
//! - [`plan`]: the agent that the flags describe
//! - [`survey`]: the existing state of both sides, and the findings that prevent a join
//! - [`account`]: the agent's account on the host, and its token
//! - [`token`]: the claims of a token
//! - [`member`]: the agent's objects on the member; [`found`]: those that it has; [`pods`]: their replacement
//! - [`steps`]: the steps on both sides, in order
//! - [`wait`]: waits until the agent is connected, or reports why it is not
//! - [`renew`]: a new token for an agent that was disconnected for too long
//! - [`trust`]: how the agent verifies the host
//! - [`shell`]: the agent's part of the commands for two administrators

pub(crate) mod account;
pub(crate) mod found;
pub(crate) mod member;
pub(crate) mod plan;
mod pods;
pub(crate) mod renew;
pub(crate) mod shell;
pub(crate) mod steps;
pub(crate) mod survey;
pub(crate) mod token;
pub(crate) mod trust;
pub(crate) mod wait;

use kubectl_mc_api::ClusterName;

use crate::error::Failure;

pub(super) fn no_token(name: &ClusterName) -> Failure {
    Failure::new(format!("the host returned no token for the agent's service account {name}"))
}
