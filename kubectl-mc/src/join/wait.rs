//! Waits for the conditions that the controllers write into a MemberCluster.

use std::time::Duration;

use kubectl_mc_api::{ClusterName, path};
use serde_json::Value;
use tokio::time::{Instant, sleep};

use crate::cluster::connection::Connection;
use crate::cluster::fields::condition;
use crate::error::{CommandLine, Failure};
use crate::progress::Step;

/// The state of a condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum State {
    True,
    /// The sidecar has not written the condition yet.
    Unreported(String),
    Not(Unmet),
}

/// Why a condition is not true.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unmet {
    /// The condition's reason; empty if only the text describes the problem.
    reason: String,
    /// Such as `Ready is False: Reason: message`.
    text: String,
}

impl State {
    /// A state that only this text describes.
    pub(crate) fn not(text: impl Into<String>) -> Self {
        Self::Not(Unmet { reason: String::new(), text: text.into() })
    }

    /// Why the condition is not true.
    pub(crate) fn unmet(&self) -> Option<&str> {
        match self {
            Self::True => None,
            Self::Unreported(text) | Self::Not(Unmet { text, .. }) => Some(text),
        }
    }
}

/// The state of the conditions of this type on a MemberCluster.
pub(crate) fn state(cluster: &Value, kind: &str) -> State {
    let Some(found) = condition(cluster, kind) else {
        return State::Unreported(format!("{kind}: the sidecar has not reported it yet"));
    };
    let text = |field: &str| found[field].as_str().unwrap_or_default();
    if text("status") == "True" {
        return State::True;
    }
    State::Not(Unmet {
        reason: text("reason").to_owned(),
        text: format!("{kind} is {}: {}: {}", text("status"), text("reason"), text("message")),
    })
}

/// Waits until all of these conditions are true.
pub(crate) async fn until_true(
    host: &Connection,
    name: &ClusterName,
    kinds: &[&'static str],
    timeout: Duration,
    step: &mut Step<'_>,
    is_current: impl Fn(&Value) -> bool,
) -> Result<(), Failure> {
    let begin = Instant::now();
    loop {
        let cluster = host.get(&path::member_cluster(name)).await?;
        let cluster =
            cluster.ok_or_else(|| Failure::new(format!("MemberCluster {name} was deleted meanwhile")))?;
        let open = if is_current(&cluster) {
            let states = kinds.iter().map(|kind| (*kind, state(&cluster, kind)));
            states.into_iter().find(|(_, state)| *state != State::True)
        } else {
            Some((kinds[0], State::not("the sidecar has not probed this address yet")))
        };
        let Some((kind, state)) = open else { return Ok(()) };
        if begin.elapsed() > timeout {
            return Err(late(host, name, kind, &state, timeout));
        }
        step.update(state.unmet().unwrap_or_default());
        sleep(POLL).await;
    }
}

/// The failure of a condition that is not true in time.
pub(super) fn late(
    host: &Connection,
    name: &ClusterName,
    kind: &str,
    state: &State,
    timeout: Duration,
) -> Failure {
    let kubectl = host.cluster.kubectl();
    let hint = match (kind, state) {
        (_, State::Unreported(_)) => CommandLine::new(format!(
            "{kubectl} get lease -A --field-selector=metadata.name=mc-sidecar"
        ))
        .after("check that a sidecar holds the Lease"),
        ("Reachable", State::Not(Unmet { reason, .. })) if reason == "ProxyTLSFailed" => {
            "the sidecar must verify the proxy, and the proxy must accept the sidecar: set --proxy-certificate-authority, --proxy-client-certificate and --proxy-client-key"
                .into()
        }
        ("Reachable", _) => {
            "the sidecar must reach the member: set the address, the proxy or the certificate's name as seen from the host (--server, --proxy-url, --tls-server-name)"
                .into()
        }
        _ => CommandLine::new(format!("{kubectl} describe membercluster {name}")).after("see"),
    };
    let said = state.unmet().unwrap_or_default();
    Failure::new(format!("after {} s, {name} is not {kind}: {said}", timeout.as_secs())).with_hint(hint)
}

const POLL: Duration = Duration::from_millis(300);

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn condition_comes_with_its_reason() {
        let cluster = json!({"status": {"conditions": [
            {"type": "Reachable", "status": "False", "reason": "ConnectionRefused", "message": "no"},
            {"type": "Ready", "status": "True"},
        ]}});
        assert_eq!(state(&cluster, "Ready"), State::True);
        let refused = state(&cluster, "Reachable");
        assert_eq!(refused.unmet(), Some("Reachable is False: ConnectionRefused: no"));
        assert!(matches!(refused, State::Not(Unmet { reason, .. }) if reason == "ConnectionRefused"));
        assert!(matches!(state(&json!({}), "Ready"), State::Unreported(_)));
    }
}
