//! Checks whether a request for a tunnel comes from a member's agent. An agent can attach only the
//! cluster whose name its account has.

use http::{HeaderMap, HeaderValue, header};
use kubectl_mc_api::ClusterName;
use kubectl_mc_api::names::AGENTS;
use tokio_util::sync::CancellationToken;

use crate::head::headers::tokens;
use crate::head::protocol::Protocol;
use crate::identity::Identity;
use crate::outbound::tunnel::accounts::{self, Accounts};
use crate::outbound::tunnel::protocol::{AGENT_HEADER, PROTOCOL};
use crate::outbound::tunnel::registry::{self, AgentInfo};

/// Why an agent gets no tunnel.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(
        "cluster {cluster} can be attached by service account {AGENTS}/{cluster} only, and not by User {user:?}"
    )]
    NotItsAgent { cluster: ClusterName, user: String },
    #[error(transparent)]
    Account(#[from] accounts::Unknown),
    #[error("invalid request for a tunnel: {0}")]
    Handshake(&'static str),
    #[error(transparent)]
    Refused(#[from] registry::Refused),
}

/// The account's token that ends the tunnel, if the caller is the account that may attach this cluster.
pub fn permitted(
    cluster: &ClusterName,
    caller: &Identity,
    accounts: &Accounts,
) -> Result<CancellationToken, Error> {
    if caller.service_account() != Some((AGENTS, cluster.as_str())) {
        return Err(Error::NotItsAgent { cluster: cluster.clone(), user: caller.user.clone() });
    }
    Ok(accounts.find(cluster, caller.uid.as_deref())?)
}

/// Reads the agent's name and version, and the handshake key that the answer must confirm.
pub fn handshake(headers: &HeaderMap, upgrade: Option<Protocol>) -> Result<(AgentInfo, HeaderValue), Error> {
    if upgrade != Some(Protocol::WebSocket) {
        return Err(Error::Handshake("it is not a WebSocket upgrade"));
    }
    // A page in a browser can open a WebSocket with the user's credential, and sends an Origin header.
    if headers.contains_key(header::ORIGIN) {
        return Err(Error::Handshake("unexpected header Origin"));
    }
    if !tokens(headers, &header::SEC_WEBSOCKET_PROTOCOL).any(|offered| offered == PROTOCOL) {
        return Err(Error::Handshake("subprotocol v1.tunnel.kubectl-mc.dev is not offered"));
    }
    let key = headers.get(header::SEC_WEBSOCKET_KEY).cloned();
    let key = key.ok_or(Error::Handshake("header Sec-WebSocket-Key is missing"))?;
    let agent = headers.get(AGENT_HEADER).and_then(|said| said.to_str().ok()).and_then(agent_info);
    let agent = agent.ok_or(Error::Handshake("header kubectl-mc-agent lacks the version or the instance"))?;
    Ok((agent, key))
}

/// Parses `0.9.0; instance=<id>`; other parameters are ignored.
fn agent_info(said: &str) -> Option<AgentInfo> {
    let is_word = |word: &&str| {
        !word.is_empty() && word.len() <= MAX_WORD && word.bytes().all(|byte| byte.is_ascii_graphic())
    };
    let mut parts = said.split(';').map(str::trim);
    let version = parts.next().filter(is_word)?.into();
    let instance = parts.find_map(|part| part.strip_prefix("instance=")).filter(is_word)?.into();
    Some(AgentInfo { version, instance })
}

const MAX_WORD: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::fake::host;

    fn headers(lines: &[(&'static str, &'static str)]) -> HeaderMap {
        lines
            .iter()
            .map(|(name, value)| (http::HeaderName::from_static(name), HeaderValue::from_static(value)))
            .collect()
    }

    const GOOD: [(&str, &str); 3] = [
        ("sec-websocket-key", "a2V5"),
        ("sec-websocket-protocol", "v1.tunnel.kubectl-mc.dev"),
        ("kubectl-mc-agent", "0.9.0; instance=abc; held=r1,r2"),
    ];

    #[test]
    fn handshake_requires_every_header() {
        let (agent, key) = handshake(&headers(&GOOD), Some(Protocol::WebSocket)).unwrap();
        assert_eq!((&*agent.version, &*agent.instance, key.as_bytes()), ("0.9.0", "abc", &b"a2V5"[..]));
        for left_out in 0..GOOD.len() {
            let mut lines = GOOD.to_vec();
            lines.remove(left_out);
            assert!(handshake(&headers(&lines), Some(Protocol::WebSocket)).is_err(), "{left_out}");
        }
        assert!(handshake(&headers(&GOOD), None).is_err());
        assert!(handshake(&headers(&GOOD), Some(Protocol::Spdy)).is_err());
        let browser = [&GOOD[..], &[("origin", "https://example.com")]].concat();
        assert!(handshake(&headers(&browser), Some(Protocol::WebSocket)).is_err());
    }

    #[test]
    fn agent_header_yields_version_and_instance() {
        for no_agent in ["", "0.9.0", "0.9.0; held=x", "; instance=a", "0.9.0; instance=", "a b; instance=c"]
        {
            assert_eq!(agent_info(no_agent), None, "{no_agent:?}");
        }
        assert_eq!(agent_info(&format!("1; instance={}", "x".repeat(65))), None);
    }

    #[tokio::test]
    async fn account_attaches_only_the_cluster_of_its_name() {
        let accounts =
            Accounts::new(host(|_| (404, serde_json::json!({}))).0, tokio::sync::watch::channel(None).1);
        let (m1, caller) =
            ("m1".parse().unwrap(), |user: &str| Identity { user: user.to_owned(), ..Identity::default() });
        for stranger in [
            "jane",
            "m1",
            "system:serviceaccount:kubectl-mc-agents:m2",
            "system:serviceaccount:kubectl-mc-system:m1",
            "system:serviceaccount:kubectl-mc-agents:m1:x",
        ] {
            let refused = permitted(&m1, &caller(stranger), &accounts);
            assert!(matches!(refused, Err(Error::NotItsAgent { .. })), "{stranger}: {refused:?}");
        }
        let known = permitted(&m1, &caller("system:serviceaccount:kubectl-mc-agents:m1"), &accounts);
        assert!(matches!(known, Err(Error::Account(accounts::Unknown::NotSynced))), "{known:?}");
    }
}
