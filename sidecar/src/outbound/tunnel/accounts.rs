//! Follows the agents' accounts on the host, `kubectl-mc-agents/<cluster>`, and ends an account's tunnels as
//! soon as it is deleted. A SubjectAccessReview would not detect the deletion, because RBAC binds the group
//! of the namespace whether or not the account exists.
//!
//! It also requests new tokens: an agent with an open tunnel gets one before its token expires. It announces
//! the CA of the direct endpoint as well: an agent that dials it needs the CA before the server uses
//! certificates of that CA.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use jiff::Timestamp;
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::PostParams;
use kube::core::PartialObjectMeta;
use kube::runtime::watcher::Event;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, ResourceExt};
use kubectl_mc_api::ClusterName;
use kubectl_mc_api::direct::Publication;
use kubectl_mc_api::names::AGENTS;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use super::link::CredentialLife;
use super::registry::AgentTunnel;
use crate::base::locked::Locked;
use crate::base::random;
use crate::host::watch_backoff::WatchBackoff;

/// The known accounts.
pub struct Accounts {
    endpoint: watch::Receiver<Option<Publication>>,
    accounts: Api<ServiceAccount>,
    metadata: Api<PartialObjectMeta<ServiceAccount>>,
    known: Locked<Option<HashMap<ClusterName, Account>>>,
}

#[derive(Debug)]
struct Account {
    uid: Option<String>,
    deleted: CancellationToken,
}

impl Account {
    fn new(uid: Option<String>) -> Self {
        Self { uid, deleted: CancellationToken::new() }
    }
}

/// Dropped when the account was deleted, or has another uid now.
impl Drop for Account {
    fn drop(&mut self) {
        self.deleted.cancel();
    }
}

/// Why an account is not accepted.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unknown {
    #[error("the sidecar has not read the service accounts of namespace {AGENTS} yet")]
    NotSynced,
    #[error("service account {AGENTS}/{0} does not exist, or has been replaced")]
    Deleted(ClusterName),
}

impl Accounts {
    pub fn new(host: kube::Client, endpoint: watch::Receiver<Option<Publication>>) -> Arc<Self> {
        let metadata = Api::namespaced(host.clone(), AGENTS);
        let accounts = Api::namespaced(host, AGENTS);
        Arc::new(Self { endpoint, accounts, metadata, known: Default::default() })
    }

    /// A token that is cancelled when the account of this cluster is deleted. `uid` is that of the
    /// authenticated account, if the host reports it.
    pub fn find(&self, cluster: &ClusterName, uid: Option<&str>) -> Result<CancellationToken, Unknown> {
        self.known.with(|known| {
            let accounts = known.as_ref().ok_or(Unknown::NotSynced)?;
            let account = accounts.get(cluster).ok_or_else(|| Unknown::Deleted(cluster.clone()))?;
            match (uid, account.uid.as_deref()) {
                (Some(shown), Some(known)) if shown != known => Err(Unknown::Deleted(cluster.clone())),
                _ => Ok(account.deleted.clone()),
            }
        })
    }

    /// Follows the accounts until the process ends.
    pub async fn run(self: Arc<Self>) {
        let config = watcher::Config::default();
        let events = watcher(self.metadata.clone(), config).backoff(WatchBackoff::default());
        let (mut events, mut read, mut has_failed) = (pin!(events), Vec::new(), false);
        while let Some(event) = events.next().await {
            let event = match event {
                Ok(event) => event,
                Err(error) => {
                    // An older installation does not have the right to watch the accounts, and has
                    // no agents.
                    match has_failed {
                        true => debug!(error = %error, "cannot watch the agents' accounts"),
                        false => {
                            warn!(error = %error, "cannot watch the agents' accounts: no agent can connect")
                        }
                    }
                    has_failed = true;
                    continue;
                }
            };
            match event {
                Event::Init => read = Vec::new(),
                Event::InitApply(account) => read.push((account.name_any(), account.uid())),
                Event::InitDone => self.replace(std::mem::take(&mut read)),
                Event::Apply(account) => self.apply(account.name_any(), account.uid()),
                Event::Delete(account) => self.delete(&account.name_any()),
            }
        }
    }

    /// Replaces all accounts with a complete list. A partial list would refuse existing accounts.
    fn replace(&self, read: Vec<(String, Option<String>)>) {
        self.known.with(|known| {
            let mut before = known.take().unwrap_or_default();
            let now = read.into_iter().filter_map(|(name, uid)| {
                let cluster = name.parse::<ClusterName>().ok()?;
                let account = before.remove(&cluster).filter(|account| account.uid == uid);
                Some((cluster, account.unwrap_or_else(|| Account::new(uid))))
            });
            *known = Some(now.collect());
        });
    }

    fn apply(&self, name: String, uid: Option<String>) {
        let Ok(cluster) = name.parse::<ClusterName>() else { return };
        self.known.with(|known| {
            let accounts = known.get_or_insert_default();
            if accounts.get(&cluster).is_none_or(|account| account.uid != uid) {
                accounts.insert(cluster, Account::new(uid));
            }
        });
    }

    fn delete(&self, name: &str) {
        let Ok(cluster) = name.parse::<ClusterName>() else { return };
        let removed = self.known.with(|known| known.as_mut().and_then(|accounts| accounts.remove(&cluster)));
        if let Some(account) = removed {
            info!(%cluster, "the agent's account was deleted");
            drop(account);
        }
    }

    /// Sends an agent new tokens for as long as its tunnel lives, each before the previous one expires. Rare
    /// calls are boxed, because every tunnel has such a task.
    pub async fn keep_credential(&self, tunnel: &AgentTunnel) {
        // Jitter: replicas with a tunnel to the same agent do not request tokens together.
        let share = random::fraction().mul_add(SPREAD, RENEWED_AFTER);
        loop {
            // An agent that does not answer now may answer later.
            let Some(about) = Box::pin(tunnel.about()).await else {
                sleep(PAUSE.mul_f64(1.0 + random::fraction())).await;
                continue;
            };
            // An agent without a token, or with one that never expires, needs no new token, but may
            // later get one that expires.
            let wait = about.credential.map_or(LONGEST_WAIT, |life| due_in(life, share, Timestamp::now()));
            if !wait.is_zero() {
                sleep(wait.min(LONGEST_WAIT)).await;
                continue;
            }
            match timeout(TIMEOUT, Box::pin(self.request_token(&tunnel.cluster))).await {
                Ok(Ok(token)) if Box::pin(tunnel.renew_credential(&token)).await => {
                    info!(cluster = %tunnel.cluster, "renewed the agent's credential");
                }
                Ok(Ok(_)) => warn!(cluster = %tunnel.cluster, "the agent rejected its new credential"),
                Ok(Err(error)) => {
                    warn!(cluster = %tunnel.cluster, error = %error, "cannot request a token for the agent");
                }
                Err(_) => warn!(cluster = %tunnel.cluster, "requesting a token for the agent timed out"),
            }
            sleep(PAUSE.mul_f64(1.0 + random::fraction())).await;
        }
    }

    /// Sends an agent the direct endpoint, now and whenever its CA changes, for as long as the tunnel lives.
    pub async fn keep_endpoint(&self, tunnel: &AgentTunnel) {
        let mut endpoint = self.endpoint.clone();
        loop {
            let current = endpoint.borrow_and_update().clone();
            if let Some(current) = current
                && !Box::pin(tunnel.announce(&current)).await
            {
                // An agent that does not answer now may answer later.
                sleep(PAUSE.mul_f64(1.0 + random::fraction())).await;
                endpoint.mark_changed();
            }
            if endpoint.changed().await.is_err() {
                return;
            }
        }
    }

    async fn request_token(&self, cluster: &ClusterName) -> Result<String, kube::Error> {
        let request = TokenRequest {
            spec: TokenRequestSpec {
                audiences: Vec::new(),
                expiration_seconds: Some(TOKEN_LIFE),
                bound_object_ref: None,
            },
            ..TokenRequest::default()
        };
        let params = PostParams::default();
        let made = self.accounts.create_token_request(cluster.as_str(), &params, &request).await?;
        Ok(made.status.map(|status| status.token).unwrap_or_default())
    }
}

/// The time until this share of a credential's lifetime is over.
fn due_in(life: CredentialLife, share: f64, now: Timestamp) -> Duration {
    let CredentialLife { issued, expires } = life;
    let after =
        Duration::from_secs(expires.saturating_sub(issued).max(0).unsigned_abs()).as_secs_f64() * share;
    #[expect(clippy::cast_precision_loss, reason = "seconds since 1970")]
    let left = issued as f64 + after - now.as_second() as f64;
    Duration::try_from_secs_f64(left).unwrap_or(Duration::ZERO)
}

/// 30 days, in seconds; hosts may issue shorter ones.
const TOKEN_LIFE: i64 = 30 * 24 * 3600;
const RENEWED_AFTER: f64 = 2.0 / 3.0;
const SPREAD: f64 = 0.1;
/// The clock may be changed in the meantime.
const LONGEST_WAIT: Duration = Duration::from_secs(3600);
const TIMEOUT: Duration = Duration::from_secs(10);
/// Pause before the next request to an agent: a changed Secret reaches the agent's pod within a minute or two.
const PAUSE: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::fake::host;
    use crate::outbound::tunnel::link::{self, About};
    use crate::outbound::tunnel::protocol::paths;
    use crate::outbound::tunnel::registry::AgentTunnels;

    fn accounts() -> Arc<Accounts> {
        Accounts::new(host(|_| (404, serde_json::json!({}))).0, watch::channel(None).1)
    }

    fn m1() -> ClusterName {
        "m1".parse().unwrap()
    }

    #[tokio::test]
    async fn deleted_or_replaced_account_ends_its_tunnels() {
        let accounts = accounts();
        assert_eq!(accounts.find(&m1(), None).unwrap_err(), Unknown::NotSynced);
        accounts.replace(vec![("m1".to_owned(), Some("1".to_owned())), ("m2".to_owned(), None)]);
        let first = accounts.find(&m1(), Some("1")).unwrap();
        accounts.apply("m1".to_owned(), Some("1".to_owned()));
        assert!(!first.is_cancelled(), "it was only written to");
        accounts.apply("m1".to_owned(), Some("2".to_owned()));
        assert!(first.is_cancelled());
        assert_eq!(accounts.find(&m1(), Some("1")).unwrap_err(), Unknown::Deleted(m1()));
        let second = accounts.find(&m1(), Some("2")).unwrap();
        accounts.delete("m1");
        assert!(second.is_cancelled());
        assert_eq!(accounts.find(&m1(), None).unwrap_err(), Unknown::Deleted(m1()));
    }

    #[tokio::test]
    async fn account_missing_from_a_new_list_is_deleted() {
        let accounts = accounts();
        accounts.replace(vec![("m1".to_owned(), None), ("m2".to_owned(), None)]);
        let (m1, m2) =
            (accounts.find(&m1(), None).unwrap(), accounts.find(&"m2".parse().unwrap(), None).unwrap());
        accounts.replace(vec![("m2".to_owned(), None)]);
        assert!(m1.is_cancelled() && !m2.is_cancelled());
    }

    #[tokio::test(start_paused = true)]
    async fn unanswered_request_delays_the_agents_token() {
        let answer = serde_json::json!({
            "spec": {"audiences": []},
            "status": {"token": "new", "expirationTimestamp": "2030-01-01T00:00:00Z"},
        });
        let accounts = Accounts::new(host(move |_| (201, answer.clone())).0, watch::channel(None).1);
        let (io, _sidecar) = link::tests::joined(&AgentTunnels::none(), accounts, "instance");
        let mut connection = h2::server::handshake(io).await.unwrap();
        let mut ignored = Vec::new();
        loop {
            let request = timeout(Duration::from_secs(3600), connection.accept()).await;
            let (request, mut respond) = request.expect("the agent got no token").unwrap().unwrap();
            match (request.uri().path(), ignored.is_empty()) {
                (paths::ABOUT, true) => ignored.push((request, respond)),
                (paths::ABOUT, false) => {
                    let credential = Some(CredentialLife { issued: 0, expires: 1 });
                    let about = About { credential, ..About::default() };
                    let mut send = respond.send_response(http::Response::new(()), false).unwrap();
                    send.send_data(serde_json::to_vec(&about).unwrap().into(), true).unwrap();
                }
                (paths::CREDENTIAL, _) => return,
                (other, _) => panic!("{other}"),
            }
        }
    }

    #[test]
    fn credential_is_renewed_after_its_share_of_life() {
        let life = CredentialLife { issued: 1000, expires: 1000 + 3000 };
        let due = |now| due_in(life, 0.5, Timestamp::from_second(now).unwrap()).as_secs();
        assert_eq!((due(1000), due(2000), due(2500), due(9000)), (1500, 500, 0, 0));
    }
}
