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

use super::Member;
use crate::argv::Scanned;
use crate::cli::JoinArgs;
use crate::cluster::connection::{self, Connection};
use crate::cluster::context::{ClusterContext, HostOptions};
use crate::cluster::shared_credentials::SharedCredentials;
use crate::env::Env;
use crate::error::{Failure, chain};
use crate::join::survey;

/// The kubeconfig contexts by the uid of their cluster's kube-system.
pub(super) struct Contexts {
    found: BTreeMap<String, Connection>,
    /// Contexts that did not respond, with the reason.
    failed: Vec<String>,
}

impl Contexts {
    pub(super) async fn given(member: ClusterContext, env: &Env) -> Result<Self, Failure> {
        let member = connection::to("member", member, env).await?;
        let uid = survey::uid(&member).await?;
        Ok(Self { found: BTreeMap::from([(uid, member)]), failed: Vec::new() })
    }

    /// Queries the clusters of all contexts for their uid until every member is found.
    pub(super) async fn of_kubeconfig(
        arguments: &JoinArgs,
        options: &HostOptions,
        host: &Connection,
        members: &[Member],
        env: &Env,
    ) -> Result<Self, Failure> {
        let file = arguments.member.member_kubeconfig.as_ref().map(Into::into);
        let kubeconfig = file.clone().or_else(|| options.kubeconfig.clone());
        // Any context is fine: only the list of all contexts is read.
        let any = HostOptions::plain(kubeconfig.clone(), None);
        let loaded = if file.is_some() { ClusterContext::load(&any, env)? } else { host.cluster.clone() };
        let names = loaded.kubeconfig.contexts.into_iter().map(|context| context.name);
        let names = names.filter(|name| file.is_some() || Some(name) != host.cluster.context.as_ref());

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
        let (mut found, mut failed) = (Found(BTreeMap::new()), Vec::new());
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

    pub(super) fn of(
        &self,
        Member { name, uid, .. }: &Member,
        is_given: bool,
    ) -> Result<&Connection, Failure> {
        self.found.get(uid).ok_or_else(|| {
            let failure = match (self.found.values().next(), &self.failed[..]) {
                (Some(other), _) if is_given => format!("the {}, is not {name}", other.describe()),
                (_, []) => format!("no context of the kubeconfig is {name}"),
                (_, failed) => format!(
                    "no context of the kubeconfig is {name} (not queried: {})",
                    failed.join("; ")
                ),
            };
            Failure::new(failure).with_hint(
                "a member's administrator runs this: choose the context by --member-context=NAME, its file by --member-kubeconfig=FILE",
            )
        })
    }
}

async fn ask(options: &HostOptions, credentials: &SharedCredentials, env: &Env) -> Result<Answer, String> {
    let context = ClusterContext::load(options, env).map_err(|error| chain(&error))?;
    // Contexts with the same plugin share its credential.
    let context = credentials.obtain(&context, &Scanned::default(), env, Some(TIMEOUT)).await;
    let context = context.map_err(|error| chain(&error))?;
    let identified = timeout(TIMEOUT, identify(context, env)).await;
    let (uid, side) = identified.unwrap_or_else(|_| Err("timed out".to_owned()))?;
    Ok(Answer { can_request_tokens: can_request_tokens(&side).await, uid, side })
}

/// The answer of a context's cluster.
struct Answer {
    uid: String,
    /// Whether the context's user may request tokens there; `None` if unknown.
    can_request_tokens: Option<bool>,
    side: Connection,
}

/// The best context so far of each cluster, by the uid of its kube-system, and whether its user may request
/// tokens.
struct Found<T>(BTreeMap<String, (Option<bool>, T)>);

impl<T> Found<T> {
    fn add(&mut self, uid: String, can_request_tokens: Option<bool>, context: T) {
        let is_better = |(other, _): &(Option<bool>, T)| rank(can_request_tokens) > rank(*other);
        if self.0.get(&uid).is_none_or(is_better) {
            self.0.insert(uid, (can_request_tokens, context));
        }
    }

    /// Whether no better context can be found.
    fn is_settled(&self, uid: &str) -> bool {
        matches!(self.0.get(uid), Some((Some(true), _)))
    }

    /// A request by a user without the right is refused with the server's reason.
    fn best(self) -> BTreeMap<String, T> {
        self.0.into_iter().map(|(uid, (_, context))| (uid, context)).collect()
    }
}

/// A user whose rights are unknown may have them.
fn rank(can_request_tokens: Option<bool>) -> u8 {
    match can_request_tokens {
        Some(true) => 2,
        None => 1,
        Some(false) => 0,
    }
}

/// Finds the uid of the cluster's kube-system.
async fn identify(context: ClusterContext, env: &Env) -> Result<(String, Connection), String> {
    let side = connection::to("member", context, env).await.map_err(|failure| failure.to_string())?;
    match survey::uid(&side).await {
        Ok(uid) if uid.is_empty() => Err("you may not get its namespace kube-system".to_owned()),
        Ok(uid) => Ok((uid, side)),
        Err(error) => Err(error.to_string()),
    }
}

/// Whether the context's user may request tokens; `None` without an answer in time.
async fn can_request_tokens(side: &Connection) -> Option<bool> {
    let token = json!({
        "verb": "create", "resource": "serviceaccounts", "subresource": "token", "namespace": NAMESPACE,
        "name": IMPERSONATOR,
    });
    timeout(REVIEW_TIMEOUT, side.may(&token)).await.ok()?.ok()
}

/// Number of contexts that are queried in parallel.
const AT_ONCE: usize = 8;
/// Timeout for a cluster that may be gone for good, so that it does not delay the others.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Timeout for the review on a cluster that was already found.
const REVIEW_TIMEOUT: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::connection::fake;

    #[test]
    fn context_of_a_user_who_may_renew_is_preferred() {
        let mut contexts = [("reader", Some(false)), ("unknown", None), ("admin", Some(true))];
        for _ in 0..2 {
            for from in 0..3 {
                let mut found = Found(BTreeMap::new());
                for (context, can_request_tokens) in contexts.iter().cycle().skip(from).take(3) {
                    found.add("1".to_owned(), *can_request_tokens, *context);
                }
                assert!(found.is_settled("1"));
                for (context, can_request_tokens) in contexts.iter().filter(|(name, _)| *name != "admin") {
                    found.add("2".to_owned(), *can_request_tokens, *context);
                }
                assert!(!found.is_settled("2"));
                let best = [("1".to_owned(), "admin"), ("2".to_owned(), "unknown")];
                assert_eq!(found.best(), best.into());
            }
            contexts.reverse();
        }
    }

    #[tokio::test(start_paused = true)]
    async fn review_without_an_answer_leaves_the_right_unknown() {
        let hangs = tower::service_fn(|_: http::Request<kube::client::Body>| {
            std::future::pending::<Result<http::Response<kube::client::Body>, std::io::Error>>()
        });
        let side = fake::over("member", kube::Client::new(hangs, "default"));
        let answer = timeout(TIMEOUT, can_request_tokens(&side)).await;
        assert_eq!(answer, Ok(None));
        let (fails, _) = fake::connection("member", |_, _| (500, json!({})));
        assert_eq!(can_request_tokens(&fails).await, None);
    }
}
