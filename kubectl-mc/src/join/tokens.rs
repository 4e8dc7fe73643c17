//! Requests the tokens of both accounts on a member (TokenRequest) and writes them into the host's Secrets:
//! first the manager's, which renews both, then the impersonator's, which turns the proxy on.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::StatusCode;
use kubectl_mc_api::age::human;
use kubectl_mc_api::names::{IMPERSONATOR, MANAGER, NAMESPACE};
use kubectl_mc_api::token_life::{WEEKEND, of_manager, survived_outage};
use kubectl_mc_api::{ClusterName, path};
use serde_json::{Map, Value, json};

use super::token_policy;
use crate::apply::{Applied, Apply};
use crate::cluster::connection::{Connection, ConnectionError};
use crate::error::{CommandLine, Failure};
use crate::next_command::quoted;

/// The tokens of one member.
pub(crate) struct Tokens<'a> {
    pub(crate) name: &'a ClusterName,
    pub(crate) host: &'a Connection,
    pub(crate) member: &'a Connection,
    /// The sidecar's namespace on the host.
    pub(crate) namespace: &'a str,
    /// The requested lifetime of the impersonator's token.
    pub(crate) life: Duration,
    /// The member's policies on the manager's TokenRequests, without the audiences.
    pub(crate) policies: Vec<Value>,
    /// The fields that the Secrets get together with their token, as a merge patch (RFC 7386).
    pub(crate) beside: Map<String, Value>,
    /// Reports each policy once it is applied.
    pub(crate) report: &'a dyn Fn(&Applied),
}

/// The lifetimes that the member granted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Granted {
    impersonator: Duration,
    manager: Duration,
}

impl Tokens<'_> {
    pub(crate) async fn write(self) -> Result<Granted, Failure> {
        let Self { name, host, member, namespace, life, policies, beside, report } = self;
        let of_account = async |account, life| match request(member, account, life).await {
            Err(ConnectionError::Refused { side, status: StatusCode::NOT_FOUND, .. }) => {
                let (kubectl_mc, context) = (host.cluster.kubectl_mc(), member.cluster.context.as_deref());
                let context = quoted(context.unwrap_or("NAME").as_ref());
                let join = CommandLine::new(format!("{kubectl_mc} join {name} --member-context={context}"));
                Err(Failure::new(format!("the {side}, has no service account {NAMESPACE}/{account}"))
                    .with_hint(join.after("a join makes it again")))
            }
            Err(error) => Err(error.into()),
            Ok(answer) => read(&answer, account, life),
        };
        let manager = of_account(MANAGER, of_manager(life)).await?;
        // The policy applies before the host has the manager's token.
        let mut policies = policies;
        policies.iter_mut().for_each(|policy| token_policy::set_audiences(policy, &manager.audiences));
        let apply = Apply { dry_run: false, force_conflicts: true };
        apply.each(member, policies, report).await?;
        store(host, namespace, &name.manager_secret(), &manager, &beside).await?;
        let impersonator = of_account(IMPERSONATOR, life).await?;
        store(host, namespace, &name.member_secret(), &impersonator, &beside).await?;
        Ok(Granted { impersonator: impersonator.life, manager: manager.life })
    }
}

impl Granted {
    /// Describes how long an outage of the host this member survives.
    pub(crate) fn outage(self) -> String {
        let (token, outage) = (human(self.impersonator), human(survived_outage(self.manager)));
        format!("its tokens live {token}; the host may be off for {outage} without losing the member")
    }

    /// Warns if an outage of the host over a weekend would lose the member.
    pub(crate) fn warning(self, kubectl_mc: &str, name: &ClusterName) -> Option<String> {
        let outage = survived_outage(self.manager);
        (outage < WEEKEND).then(|| {
            format!(
                "{name} survives no outage of the host longer than {}, because its tokens live {}; \
                 after one, run: {kubectl_mc} join {name} --renew",
                human(outage),
                human(self.impersonator),
            )
        })
    }
}

/// The response to a TokenRequest.
struct Token {
    token: String,
    /// The audiences that the member's kube-apiserver filled in.
    audiences: Vec<String>,
    life: Duration,
}

async fn request(member: &Connection, account: &str, life: Duration) -> Result<Value, ConnectionError> {
    let path = format!("/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{account}/token");
    let request = json!({
        "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
        "spec": {"expirationSeconds": life.as_secs()},
    });
    member.create(&path, &request).await
}

fn read(answer: &Value, account: &str, life: Duration) -> Result<Token, Failure> {
    let token = answer["status"]["token"].as_str().filter(|token| !token.is_empty());
    let token = token.ok_or_else(|| {
        Failure::new(format!("the member returned no token for its service account {account}"))
    });
    let token = token?.to_owned();
    let audiences = serde_json::from_value(answer["spec"]["audiences"].clone()).unwrap_or_default();
    // A kube-apiserver with --service-account-max-token-expiration responds with the granted lifetime.
    let life = answer["spec"]["expirationSeconds"].as_u64().map_or(life, Duration::from_secs);
    Ok(Token { token, audiences, life })
}

async fn store(
    host: &Connection,
    namespace: &str,
    secret: &str,
    token: &Token,
    beside: &Map<String, Value>,
) -> Result<(), ConnectionError> {
    let mut data = beside.clone();
    data.insert("token".to_owned(), STANDARD.encode(&token.token).into());
    host.merge(&path::secret(namespace, secret), &json!({"data": data})).await.map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_short_token_lifetime_is_warned_about() {
        let hours = |hours: u64| Duration::from_secs(hours * 3600);
        let name = "m1".parse().unwrap();
        let capped = Granted { impersonator: hours(24), manager: hours(24) };
        let warning = capped.warning("kubectl mc --context=h", &name).unwrap();
        assert!(warning.contains("longer than 16h") && warning.contains("live 24h"), "{warning}");
        assert!(warning.ends_with("run: kubectl mc --context=h join m1 --renew"), "{warning}");
        let long = Granted { impersonator: hours(720), manager: hours(1080) };
        assert_eq!(long.warning("kubectl mc", &name), None);
        assert!(
            long.outage().contains("live 30d") && long.outage().contains("off for 30d"),
            "{}",
            long.outage()
        );
    }
}
