//! Waits for the conditions that the controllers write into a MemberCluster.

use std::time::Duration;

use kubectl_mc_api::{ClusterName, path};
use serde_json::Value;
use tokio::time::{Instant, sleep};

use super::side::Side;
use crate::cluster::fields::condition;
use crate::error::{CommandLine, Failure};
use crate::progress::Step;

/// The state of a condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum State {
    True,
    /// `False: Reason: message`, or a text saying that the condition is not reported yet.
    Not(String),
}

/// The state of the conditions of this type on a MemberCluster.
pub(crate) fn state(cluster: &Value, kind: &str) -> State {
    let Some(found) = condition(cluster, kind) else {
        return State::Not(format!("{kind}: the sidecar has not reported it yet"));
    };
    let text = |field: &str| found[field].as_str().unwrap_or_default();
    if text("status") == "True" {
        return State::True;
    }
    State::Not(format!("{kind} is {}: {}: {}", text("status"), text("reason"), text("message")))
}

/// Waits until all of these conditions are true.
pub(crate) async fn until_true(
    host: &Side,
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
            kinds.iter().find_map(|kind| match state(&cluster, kind) {
                State::True => None,
                State::Not(said) => Some((*kind, said)),
            })
        } else {
            Some((kinds[0], "the sidecar has not probed this address yet".to_owned()))
        };
        let Some((kind, said)) = open else { return Ok(()) };
        if begin.elapsed() > timeout {
            return Err(late(host, name, kind, &said, timeout));
        }
        step.update(&said);
        sleep(POLL).await;
    }
}

/// The failure of a condition that is not true in time.
pub(super) fn late(host: &Side, name: &ClusterName, kind: &str, said: &str, timeout: Duration) -> Failure {
    let kubectl = host.at.cluster.kubectl();
    let hint = match kind {
        _ if said.contains("not reported") => CommandLine::new(format!(
            "{kubectl} get lease -A --field-selector=metadata.name=mc-sidecar"
        ))
        .after("check that a sidecar holds the Lease"),
        "Reachable" if said.contains("ProxyTLSFailed") => {
            "the sidecar must verify the proxy, and the proxy must accept the sidecar: set --proxy-certificate-authority, --proxy-client-certificate and --proxy-client-key"
                .into()
        }
        "Reachable" => {
            "the sidecar must reach the member: set the address, the proxy or the certificate's name as seen from the host (--server, --proxy-url, --tls-server-name)"
                .into()
        }
        _ => CommandLine::new(format!("{kubectl} describe membercluster {name}")).after("see"),
    };
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
        assert_eq!(
            state(&cluster, "Reachable"),
            State::Not("Reachable is False: ConnectionRefused: no".to_owned())
        );
        assert!(matches!(state(&json!({}), "Ready"), State::Not(said) if said.contains("not reported")));
    }
}
