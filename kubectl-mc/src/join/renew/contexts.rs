//! Finds the kubeconfig contexts of members by the uid of each cluster's kube-system. Several contexts of a
//! cluster may have different users: the one of a user who may request tokens is preferred.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use kubectl_mc_api::names::{IMPERSONATOR, NAMESPACE};
use serde_json::json;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::{Member, RenewError};
use crate::argv::Scanned;
use crate::cli::JoinArgs;
use crate::cluster::connection;
use crate::cluster::context::{ClusterContext, HostOptions};
use crate::cluster::shared_credentials::SharedCredentials;
use crate::env::Env;
use crate::error::{Failure, chain};
use crate::join::side::Side;
use crate::join::survey;

/// The kubeconfig contexts by the uid of their cluster's kube-system.
pub(super) struct Contexts {
    found: BTreeMap<String, Side>,
    /// Contexts that did not respond, with the reason.
    failed: Vec<String>,
}

impl Contexts {
    pub(super) async fn given(member: ClusterContext, env: &Env) -> Result<Self, Failure> {
        let member = Side { role: "member", at: connection::to(member, env).await? };
        let uid = survey::uid(&member).await?;
        Ok(Self { found: BTreeMap::from([(uid, member)]), failed: Vec::new() })
    }

    /// Queries the clusters of all contexts for their uid until every member is found.
    pub(super) async fn of_kubeconfig(
        arguments: &JoinArgs,
        options: &HostOptions,
        host: &Side,
        members: &[Member],
        env: &Env,
    ) -> Result<Self, Failure> {
        let file = arguments.member.member_kubeconfig.as_ref().map(Into::into);
        let kubeconfig = file.clone().or_else(|| options.kubeconfig.clone());
        // Any context will do: only the list of all contexts is read.
        let any = HostOptions::plain(kubeconfig.clone(), None);
        let loaded = if file.is_some() { ClusterContext::load(&any, env)? } else { host.at.cluster.clone() };
        let names = loaded.kubeconfig.contexts.into_iter().map(|context| context.name);
        let names = names.filter(|name| file.is_some() || Some(name) != host.at.cluster.context.as_ref());

        let (mut asked, turns) = (JoinSet::new(), Arc::new(Semaphore::new(AT_ONCE)));
        let credentials = SharedCredentials::default();
        for context in names {
            let options = HostOptions::plain(kubeconfig.clone(), Some(context.clone()));
            let (env, turns, credentials) = (env.clone(), turns.clone(), credentials.clone());
            asked.spawn(async move {
                let _turn = turns.acquire().await;
                let answer = ask(&options, &credentials, &env).await;
                answer.map_err(|why| format!("{context}: {why}"))
            });
        }
        let (mut found, mut failed) = (Found::default(), Vec::new());
        while !members.iter().all(|member| found.is_settled(&member.uid))
            && let Some(answer) = asked.join_next().await
        {
            match answer {
                Ok(Ok(Answer { uid, can_request_tokens, side })) => found.add(uid, can_request_tokens, side),
                Ok(Err(why)) => failed.push(why),
                Err(_) => {}
            }
        }
        failed.sort();
        Ok(Self { found: found.best(), failed })
    }

    pub(super) fn of(&self, Member { name, uid, .. }: &Member, is_given: bool) -> Result<&Side, RenewError> {
        self.found.get(uid).ok_or_else(|| match self.found.values().next() {
            Some(other) if is_given => RenewError::Other { name: name.clone(), member: other.describe() },
            _ => RenewError::NoContext { name: name.clone(), failed: self.failed.clone() },
        })
    }
}

async fn ask(options: &HostOptions, credentials: &SharedCredentials, env: &Env) -> Result<Answer, String> {
    let context = ClusterContext::load(options, env).map_err(|error| chain(&error))?;
    // A client runs a credential plugin without a timeout, and blocks those of the other contexts.
    let context = credentials.obtain(&context, &Scanned::default(), Some(TIMEOUT)).await;
    let context = context.map_err(|error| chain(&error))?;
    timeout(TIMEOUT, identify(context, env)).await.unwrap_or_else(|_| Err("timed out".to_owned()))
}

/// What the cluster of a context answered.
struct Answer {
    uid: String,
    /// Whether the context's user may request tokens there.
    can_request_tokens: bool,
    side: Side,
}

/// The contexts found so far, by the uid of their cluster's kube-system.
struct Found<T> {
    preferred: BTreeMap<String, T>,
    /// Those of users who may not request tokens.
    others: BTreeMap<String, T>,
}

impl<T> Default for Found<T> {
    fn default() -> Self {
        Self { preferred: BTreeMap::new(), others: BTreeMap::new() }
    }
}

impl<T> Found<T> {
    fn add(&mut self, uid: String, can_request_tokens: bool, context: T) {
        let contexts = if can_request_tokens { &mut self.preferred } else { &mut self.others };
        contexts.entry(uid).or_insert(context);
    }

    /// Whether no better context can be found.
    fn is_settled(&self, uid: &str) -> bool {
        self.preferred.contains_key(uid)
    }

    /// The best context of each cluster. A request by one of the others is refused with the server's reason.
    fn best(self) -> BTreeMap<String, T> {
        let Self { preferred, mut others } = self;
        others.extend(preferred);
        others
    }
}

async fn identify(context: ClusterContext, env: &Env) -> Result<Answer, String> {
    let at = connection::to(context, env).await.map_err(|error| chain(&error))?;
    let side = Side { role: "member", at };
    match survey::uid(&side).await {
        Ok(uid) if uid.is_empty() => Err("you may not get its namespace kube-system".to_owned()),
        Ok(uid) => {
            let token = json!({
                "verb": "create", "resource": "serviceaccounts", "subresource": "token", "namespace": NAMESPACE,
                "name": IMPERSONATOR,
            });
            // Without an answer, the server decides when the token is requested.
            let can_request_tokens = side.may(&token).await.unwrap_or(false);
            Ok(Answer { uid, can_request_tokens, side })
        }
        Err(error) => Err(error.to_string()),
    }
}

/// Number of contexts that are queried in parallel.
const AT_ONCE: usize = 8;
/// Timeout for a cluster that may be gone for good, so that it does not delay the others.
const TIMEOUT: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn context_of_a_user_who_may_renew_is_preferred() {
        for order in [[("reader", false), ("admin", true)], [("admin", true), ("reader", false)]] {
            let mut found = Found::default();
            for (context, can_request_tokens) in order {
                found.add("1".to_owned(), can_request_tokens, context);
            }
            assert!(found.is_settled("1"));
            found.add("2".to_owned(), false, "other");
            assert!(!found.is_settled("2"));
            assert_eq!(found.best(), [("1".to_owned(), "admin"), ("2".to_owned(), "other")].into());
        }
    }
}
