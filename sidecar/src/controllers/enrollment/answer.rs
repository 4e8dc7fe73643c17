//! Validates an agent's enrollment response. The response is untrusted: its sender is known only by the token
//! of the agent's account. It can affect only this member, and no cluster that the host already
//! knows.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::ByteString;
use kubectl_mc_api::ClusterName;
use kubectl_mc_api::names::{HOST_UID, IMPERSONATOR, MANAGER, NAMESPACE};

use crate::host::token::Token;
use crate::members::inventory::fleet::{Fleet, Registered};
use crate::outbound::tunnel::enrollment::Handover;
use crate::outbound::upstream::connection::{self, Connection};

/// The data of a Secret.
type Data = BTreeMap<String, ByteString>;

/// The new content of the member's Secrets.
pub(super) struct Checked {
    pub(super) member: Data,
    pub(super) manager: Data,
    pub(super) uid: String,
}

/// Why a response is refused. The errors do not quote the response.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Refused {
    #[error("the agent's answer has not the form of an enrollment")]
    Form,
    #[error("the agent's answer gives no usable connection: {0}")]
    Connection(#[from] connection::Error),
    #[error("the agent's answer has no token of service account {NAMESPACE}/{0}")]
    Account(&'static str),
    #[error("the agent's token of service account {NAMESPACE}/{0} has no end, or has expired")]
    Life(&'static str),
    #[error("the agent's answer does not tell the cluster's uid")]
    Uid,
    #[error("the agent runs on the host itself")]
    Host,
    #[error("the cluster is joined already, as {0}")]
    Joined(ClusterName),
    #[error("another cluster was joined by this name: unjoin it first")]
    Another,
}

/// Validates a response. The connections are those of the Secrets, with the CA and the tokens of the
/// response.
pub(super) fn check(
    answer: &str,
    cluster: &ClusterName,
    registered: &Registered,
    fleet: &Fleet,
    now: Timestamp,
) -> Result<Checked, Refused> {
    let Handover { ca, uid, tokens } = serde_json::from_str(answer).map_err(|_| Refused::Form)?;
    let is_uid = |uid: &str| uid.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    if uid.is_empty() || uid.len() > MAX_UID || !is_uid(&uid) {
        return Err(Refused::Uid);
    }
    let annotations = registered.connection.as_ref().and_then(|secret| secret.metadata.annotations.as_ref());
    if annotations.and_then(|annotations| annotations.get(HOST_UID)) == Some(&uid) {
        return Err(Refused::Host);
    }
    if registered.uid().is_some_and(|before| before != uid) {
        return Err(Refused::Another);
    }
    let mut others = fleet.iter().filter(|(name, _)| *name != cluster);
    if let Some((other, _)) = others.find(|(_, other)| other.uid() == Some(&*uid)) {
        return Err(Refused::Joined(other.clone()));
    }
    let data = |secret: Option<&k8s_openapi::api::core::v1::Secret>, token: &str, account| {
        let said = Token::of(token);
        let is_its = said.account.is_some_and(|said| said.namespace == NAMESPACE && said.name == account);
        if !is_its || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(Refused::Account(account));
        }
        if said.life.is_none_or(|life| life.ends <= now) {
            return Err(Refused::Life(account));
        }
        let mut data = secret.and_then(|secret| secret.data.clone()).unwrap_or_default();
        data.insert("ca.crt".to_owned(), ByteString(ca.clone().into_bytes()));
        data.insert("token".to_owned(), ByteString(token.as_bytes().to_vec()));
        Connection::parse(&data)?;
        Ok(data)
    };
    Ok(Checked {
        member: data(registered.connection.as_deref(), &tokens.impersonator, IMPERSONATOR)?,
        manager: data(registered.manager.as_deref(), &tokens.manager, MANAGER)?,
        uid,
    })
}

const MAX_UID: usize = 64;

#[cfg(test)]
mod tests;
