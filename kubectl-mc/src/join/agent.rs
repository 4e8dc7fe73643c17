//! Joins a member that the host cannot reach: the objects of its agent on both sides.
//!
//! - [`plan`]: the agent that the flags describe
//! - [`survey`]: the existing state of both sides, and the findings that prevent a join
//! - [`account`]: the agent's account on the host, and its token
//! - [`token`]: the claims of a token
//! - [`member`]: the agent's objects on the member
//! - [`steps`]: the steps on both sides, in order
//! - [`wait`]: waits until the agent is connected, or reports why it is not
//! - [`renew`]: a new token for an agent that was disconnected for too long
//! - [`trust`]: how the agent verifies the host
//! - [`shell`]: the agent's part of the commands for two administrators

pub(crate) mod account;
pub(crate) mod member;
pub(crate) mod plan;
pub(crate) mod renew;
pub(crate) mod shell;
pub(crate) mod steps;
pub(crate) mod survey;
pub(crate) mod token;
pub(crate) mod trust;
pub(crate) mod wait;

use kubectl_mc_api::manifests;

use crate::error::Explain;

/// Why there is no agent.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AgentError {
    #[error("cannot make the agent's manifests")]
    Manifest(#[from] manifests::Error),
    #[error("no image of mc-sidecar for the agent: this build of kubectl-mc does not name one")]
    NoImage,
    #[error("the host returned no token for the agent's service account {0}")]
    NoToken(String),
    #[error("the {member}, has no agent: its Secret {secret} is missing")]
    NoAgent { member: String, secret: String },
    #[error("the agent of {name} is not connected: {said}")]
    NotConnected { name: String, said: String, hint: String },
}

impl Explain for AgentError {
    fn hint(&self) -> Option<String> {
        match self {
            Self::Manifest(_) | Self::NoToken(_) => None,
            Self::NoImage => Some("set it by --agent-image=IMAGE".to_owned()),
            Self::NoAgent { .. } => {
                Some("start the agent: kubectl mc join NAME --member-context=NAME --agent".to_owned())
            }
            Self::NotConnected { hint, .. } => Some(hint.clone()),
        }
    }
}
