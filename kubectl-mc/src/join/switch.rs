//! Changes the connection of a member in use without failing requests: to a direct one, to an
//! agent, or to another address. First it prepares everything that the new connection needs; then
//! it writes the connection and the token into each Secret in one request. If no request reaches
//! the member over the new connection, it restores the Secrets.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::{Method, StatusCode};
use kubectl_mc_api::{ClusterName, Hop, path};
use serde_json::{Map, Value, json};
use tokio::time::{Instant, sleep};

use super::endpoint::{self, Endpoint};
use super::objects::{self, CREDENTIAL};
use super::wait::{self, State};
use crate::cluster::connection::{Connection, ConnectionError};
use crate::error::Failure;
use crate::progress::Step;

/// A member in use whose connection is to change.
pub(crate) struct Switch<'a> {
    name: &'a ClusterName,
    host: &'a Connection,
    namespace: &'a str,
    endpoint: &'a Endpoint,
    /// The names and the previous content of the Secrets.
    before: [(String, Value); 2],
}

impl<'a> Switch<'a> {
    /// Returns `None` for a cluster that is new, not ready, or already uses this connection.
    pub(crate) async fn of(
        name: &'a ClusterName,
        host: &'a Connection,
        namespace: &'a str,
        endpoint: &'a Endpoint,
    ) -> Result<Option<Self>, Failure> {
        let (member, manager) = (name.member_secret(), name.manager_secret());
        let Some(of_member) = host.get(&path::secret(namespace, &member)).await? else { return Ok(None) };
        let Some(of_manager) = host.get(&path::secret(namespace, &manager)).await? else { return Ok(None) };
        let cluster = host.get(&path::member_cluster(name)).await?.unwrap_or_default();
        let is_due =
            wait::state(&cluster, "Ready") == State::True && objects::leads_elsewhere(&of_member, endpoint);
        let before = [(manager, of_manager), (member, of_member)];
        Ok(is_due.then_some(Self { name, host, namespace, endpoint, before }))
    }

    /// The patch of each Secret, without its token (RFC 7386): the new connection, with every
    /// previous key removed.
    pub(crate) fn patch(&self) -> Map<String, Value> {
        let mut patch: Map<_, _> = nothing();
        let data = self.endpoint.data().into_iter();
        patch.extend(data.map(|(key, value)| (key.to_owned(), STANDARD.encode(value).into())));
        patch
    }

    /// Waits until the member answers a request through the new connection, for `timeout` but at most 10 s.
    pub(crate) async fn until_used(&self, timeout: Duration, step: &mut Step<'_>) -> Result<(), Failure> {
        let Self { name, host, endpoint, .. } = self;
        let (timeout, begin) = (timeout.min(TRIAL), Instant::now());
        let is_read = |cluster: &Value| cluster["status"]["server"] == endpoint.server.as_str();
        wait::until_true(host, name, &["Reachable"], timeout, step, is_read).await?;
        // The other replicas read the Secret at about the same time.
        sleep(OTHERS).await;
        loop {
            let said = match self.ask().await? {
                Asked::Answered => return Ok(()),
                Asked::Unknown => {
                    // Any probe through the old connection has ended by then.
                    sleep(PROBE).await;
                    return wait::until_true(host, name, &["Reachable"], timeout, step, is_read).await;
                }
                Asked::Refused(said) => said,
            };
            if begin.elapsed() > timeout {
                return Err(wait::late(host, name, "Reachable", &State::not(said), timeout));
            }
            step.update(&said);
            sleep(POLL).await;
        }
    }

    /// Sends a request to the member as the caller, who may lack the right to use the proxy.
    async fn ask(&self) -> Result<Asked, ConnectionError> {
        let path = format!("{}/version", path::member_root(self.name));
        let answer = self.host.send(Method::GET, &path, None).await?;
        Ok(match (answer.hop, answer.status) {
            (Some(Hop::Member), _) => Asked::Answered,
            (None | Some(Hop::HostAuthorization), StatusCode::FORBIDDEN) => Asked::Unknown,
            _ => Asked::Refused(answer.message().to_string()),
        })
    }

    /// Restores the previous connection.
    pub(crate) async fn undo(&self) -> Result<(), Failure> {
        for (secret, before) in &self.before {
            let mut data = nothing();
            data.extend(before["data"].as_object().cloned().unwrap_or_default());
            self.host.merge(&path::secret(self.namespace, secret), &json!({"data": data})).await?;
        }
        Ok(())
    }
}

enum Asked {
    Answered,
    /// The host did not authorize the caller's request.
    Unknown,
    Refused(String),
}

/// A patch that removes every key of a connection and its credential.
fn nothing() -> Map<String, Value> {
    let keys = endpoint::KEYS.iter().chain(&CREDENTIAL);
    keys.map(|key| ((*key).to_owned(), Value::Null)).collect()
}

/// Until then, other callers' requests fail if the new connection does not work.
const TRIAL: Duration = Duration::from_secs(10);
/// Interval between two requests.
const POLL: Duration = Duration::from_millis(500);
const OTHERS: Duration = Duration::from_secs(1);
const PROBE: Duration = Duration::from_secs(15);
