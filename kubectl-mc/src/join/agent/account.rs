//! Manages the account of an agent on the host: `kubectl-mc-agents/CLUSTER`. The account's name is the only
//! cluster that the agent may attach to.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use kubectl_mc_api::age::human;
use kubectl_mc_api::names::{AGENTS, KUBECTL_MC, MANAGED_BY};
use kubectl_mc_api::token_life::{AGENT_DEFAULT, WEEKEND, survived_absence};
use kubectl_mc_api::{ClusterName, path};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::no_token;
use super::token::Claims;
use crate::apply::delete::Delete;
use crate::apply::{Applied, Apply};
use crate::cli::AgentTokenLife;
use crate::cluster::connection::Connection;
use crate::error::Failure;

/// An agent's account on this host.
pub(crate) struct Account<'a> {
    pub(crate) name: &'a ClusterName,
    pub(crate) host: &'a Connection,
}

/// The token for an agent.
pub(crate) struct AgentToken {
    /// `None` keeps the agent's current token.
    pub(crate) fresh: Option<String>,
    pub(crate) granted: AgentGranted,
}

/// The lifetime that the host granted. Without a lifetime, the token never expires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AgentGranted(Option<Duration>);

impl Account<'_> {
    /// Applies the account.
    pub(crate) async fn apply(&self) -> Result<Vec<Applied>, Failure> {
        let apply = Apply { dry_run: false, force_conflicts: true };
        Ok(apply.all(self.host, [object(self.name)]).await?)
    }

    /// A token with the requested lifetime, or the current one if it is still good.
    pub(crate) async fn token(
        &self,
        wanted: Option<AgentTokenLife>,
        present: Option<&str>,
        now: Timestamp,
    ) -> Result<AgentToken, Failure> {
        let is_forever = self.is_forever(wanted).await?;
        let uid = self.uid().await?;
        let kept = present.and_then(Claims::parse).filter(|claims| claims.serves(&uid, now));
        if is_forever {
            let token = self.forever().await?;
            let fresh = (present != Some(token.as_str())).then_some(token);
            return Ok(AgentToken { fresh, granted: AgentGranted(None) });
        }
        let life = life(wanted);
        let kept = kept.and_then(|claims| claims.life).map(super::token::Life::whole);
        match kept.filter(|kept| wanted.is_none() || *kept == life) {
            Some(kept) => Ok(AgentToken { fresh: None, granted: AgentGranted(Some(kept)) }),
            None => self.request(life).await,
        }
    }

    /// A token for an agent that may have lost its own, of the same kind unless a lifetime is
    /// requested. A token that never expires is kept: while its Secret is replaced, the agent would
    /// have no valid token.
    pub(crate) async fn renewed(&self, wanted: Option<AgentTokenLife>) -> Result<AgentToken, Failure> {
        if self.is_forever(wanted).await? {
            return Ok(AgentToken { fresh: Some(self.forever().await?), granted: AgentGranted(None) });
        }
        self.request(life(wanted)).await
    }

    /// Whether the agent's token never expires: as requested, or else as it is now.
    async fn is_forever(&self, wanted: Option<AgentTokenLife>) -> Result<bool, Failure> {
        Ok(match wanted {
            Some(wanted) => wanted == AgentTokenLife::Forever,
            None => self.host.get(&self.secret_path()).await?.is_some(),
        })
    }

    /// Revokes a token that never expires, after another token has replaced it.
    pub(crate) async fn forget_forever(&self) -> Result<(), Failure> {
        let delete = Delete { dry_run: false, timeout: TIMEOUT };
        delete.all(self.host, std::iter::once(token_secret(self.name))).await?;
        Ok(())
    }

    pub(crate) async fn uid(&self) -> Result<String, Failure> {
        let account = self.host.get(&self.path()).await?.unwrap_or_default();
        Ok(account["metadata"]["uid"].as_str().unwrap_or_default().to_owned())
    }

    async fn request(&self, life: Duration) -> Result<AgentToken, Failure> {
        let request = json!({
            "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
            "spec": {"expirationSeconds": life.as_secs()},
        });
        let answer = self.host.create(&format!("{}/token", self.path()), &request).await?;
        let token = answer["status"]["token"].as_str().filter(|token| !token.is_empty());
        let token = token.ok_or_else(|| no_token(self.name))?.to_owned();
        // A kube-apiserver with --service-account-max-token-expiration responds with the granted lifetime.
        let life = answer["spec"]["expirationSeconds"].as_u64().map_or(life, Duration::from_secs);
        Ok(AgentToken { fresh: Some(token), granted: AgentGranted(Some(life)) })
    }

    /// The token of a Secret, as soon as the host has filled it in.
    async fn forever(&self) -> Result<String, Failure> {
        let apply = Apply { dry_run: false, force_conflicts: true };
        apply.all(self.host, [token_secret(self.name)]).await?;
        let begin = Instant::now();
        loop {
            let secret = self.host.get(&self.secret_path()).await?.unwrap_or_default();
            let token = secret["data"]["token"].as_str().and_then(|token| STANDARD.decode(token).ok());
            if let Some(token) = token.and_then(|token| String::from_utf8(token).ok()) {
                return Ok(token);
            }
            if begin.elapsed() > TIMEOUT {
                return Err(no_token(self.name));
            }
            sleep(POLL).await;
        }
    }

    fn path(&self) -> String {
        path_of(self.name)
    }

    fn secret_path(&self) -> String {
        path::secret(AGENTS, self.name.as_str())
    }
}

impl AgentGranted {
    /// Describes how long the agent may be disconnected.
    pub(crate) fn absence(self) -> String {
        match self.0 {
            None => "its agent's token never expires".to_owned(),
            Some(life) => format!(
                "its agent's token lives {}; the agent may be away for {} without losing the host",
                human(life),
                human(survived_absence(life))
            ),
        }
    }

    /// Warns if an agent that is off for a weekend would need a new token.
    pub(crate) fn warning(self, kubectl_mc: &str, name: &ClusterName) -> Option<String> {
        let life = self.0?;
        let absence = survived_absence(life);
        (absence < WEEKEND).then(|| {
            format!(
                "the agent of {name} survives no absence longer than {}, because its token lives {}; after one, run: \
                 {kubectl_mc} join {name} --renew; --agent --agent-token=forever gives it one that never expires",
                human(absence),
                human(life),
            )
        })
    }
}

/// The lifetime to request.
pub(super) fn life(wanted: Option<AgentTokenLife>) -> Duration {
    if let Some(AgentTokenLife::For(life)) = wanted { life } else { AGENT_DEFAULT }
}

/// The account. Its token is requested and never mounted.
pub(crate) fn object(name: &ClusterName) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": name.as_str(), "namespace": AGENTS, "labels": {MANAGED_BY: KUBECTL_MC}},
        "automountServiceAccountToken": false,
    })
}

/// The Secret of a token that never expires.
pub(crate) fn token_secret(name: &ClusterName) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": name.as_str(),
            "namespace": AGENTS,
            "labels": {MANAGED_BY: KUBECTL_MC},
            "annotations": {"kubernetes.io/service-account.name": name.as_str()},
        },
        "type": "kubernetes.io/service-account-token",
    })
}

/// The API path of the account of this cluster's agent.
pub(crate) fn path_of(name: &ClusterName) -> String {
    format!("/api/v1/namespaces/{AGENTS}/serviceaccounts/{name}")
}

/// Timeout for the host's controller to fill in the Secret.
const TIMEOUT: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(300);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::connection::fake;

    #[tokio::test]
    async fn renewal_keeps_a_token_that_never_expires() {
        let name = "m1".parse().unwrap();
        let token = STANDARD.encode("never");
        let metadata = json!({"name": "m1", "namespace": AGENTS, "resourceVersion": "1"});
        let secret =
            json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": {"token": token}});
        let (host, requests) = fake::connection("host", move |_, _| (200, secret.clone()));
        let renewed = Account { name: &name, host: &host }.renewed(None).await.unwrap();
        assert_eq!((renewed.fresh.as_deref(), renewed.granted), (Some("never"), AgentGranted(None)));
        assert!(requests.try_iter().all(|(method, ..)| method != http::Method::DELETE));
    }

    #[test]
    fn only_a_short_token_lifetime_is_warned_about() {
        let name = "m1".parse().unwrap();
        let of = |hours: u64| AgentGranted(Some(Duration::from_secs(hours * 3600)));
        let warning = of(24).warning("kubectl mc --context=h", &name).unwrap();
        assert!(warning.contains("no absence longer than 8h") && warning.contains("lives 24h"), "{warning}");
        assert!(warning.contains("run: kubectl mc --context=h join m1 --renew;"), "{warning}");
        assert_eq!(of(720).warning("kubectl mc", &name), None);
        assert!(
            of(720).absence().contains("lives 30d; the agent may be away for 10d"),
            "{}",
            of(720).absence()
        );
        assert_eq!(AgentGranted(None).warning("kubectl mc", &name), None);
        assert!(AgentGranted(None).absence().contains("never expires"));
    }
}
