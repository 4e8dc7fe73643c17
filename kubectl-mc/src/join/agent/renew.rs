//! Renews the token of an agent that was disconnected for longer than the token's lifetime.

use jiff::Timestamp;
use kubectl_mc_api::ClusterName;
use kubectl_mc_api::names::{AGENT, AGENT_NAMESPACE};
use kubectl_mc_api::path;

use super::account::{Account, AgentGranted};
use super::member;
use super::steps::secret_name;
use super::token::Claims;
use crate::cli::AgentTokenLife;
use crate::cluster::connection::{Connection, ConnectionError};
use crate::error::{Failure, mc};
use crate::join::endpoint;

/// Which tokens to renew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Which {
    /// Every token.
    Any,
    /// Tokens with a third of their lifetime left, or less.
    Aged,
}

/// Whether the member is joined through an agent.
pub(crate) async fn is_by_agent(
    host: &Connection,
    namespace: &str,
    name: &ClusterName,
) -> Result<bool, ConnectionError> {
    let secret = host.readable(&path::secret(namespace, &name.member_secret())).await?;
    Ok(secret.as_ref().is_some_and(endpoint::is_via_agent))
}

/// Writes a new token into the member's Secret; returns `None` if the agent's token is still good.
pub(crate) async fn renew(
    name: &ClusterName,
    host: &Connection,
    member: &Connection,
    wanted: Option<AgentTokenLife>,
    which: Which,
) -> Result<Option<AgentGranted>, Failure> {
    let secret = member.get(&path::secret(AGENT_NAMESPACE, AGENT)).await?;
    let Some(secret) = secret else {
        let (member, secret) = (member.describe(), secret_name());
        let join = mc("join NAME --member-context=NAME --agent");
        return Err(Failure::new(format!("the {member}, has no agent: its Secret {secret} is missing"))
            .with_hint(join.after("start the agent")));
    };
    if member::has_certificate(Some(&secret)) {
        return Ok(None);
    }
    let account = Account { name, host };
    account.apply().await?;
    if which == Which::Aged {
        let claims = member::token(Some(&secret)).as_deref().and_then(Claims::parse);
        let uid = account.uid().await?;
        if claims.is_some_and(|claims| claims.serves(&uid, Timestamp::now())) {
            return Ok(None);
        }
    }
    let token = account.renewed(wanted).await?;
    if let Some(fresh) = &token.fresh {
        member::store(member, fresh).await?;
        member::refresh(member).await;
    }
    if matches!(wanted, Some(AgentTokenLife::For(_))) {
        account.forget_forever().await?;
    }
    Ok(Some(token.granted))
}
