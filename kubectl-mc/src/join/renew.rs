//! `kubectl mc join --renew` and `--all-expired`: new tokens for members whose tokens expired while the host was off, or
//! whose lifetime shall change. A member's kubeconfig context is found by the uid of its kube-system, which the
//! registration names, so no token is requested from another cluster.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use kubectl_mc_api::names::MEMBER_UID;
use kubectl_mc_api::token_life::of_manager;
use kubectl_mc_api::{ClusterName, path};
use serde_json::Value;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use super::side::{Side, SideError};
use super::tokens::{Granted, TokenError, Tokens};
use super::{command, manifest, survey, token_policy, wait};
use crate::cli::JoinArgs;
use crate::cluster::connection;
use crate::cluster::context::{ClusterContext, HostOptions};
use crate::env::Env;
use crate::error::{Explain, Failure, chain};
use crate::exit::ExitStatus;
use crate::printer::Printer;
use crate::progress::Progress;

/// Renews the tokens of one member, or of all that need it.
pub(crate) fn run(
    name: Option<&ClusterName>,
    arguments: &JoinArgs,
    options: &HostOptions,
    env: &Env,
    printer: &Printer,
) -> Result<ExitStatus, Failure> {
    connection::run(async {
        let host = Side { role: "host", at: connection::connect(options, env).await? };
        let members = match name {
            Some(name) => vec![one(&host, name).await?],
            None => all_expired(&host).await?,
        };
        if members.is_empty() {
            printer.out_line("no member needs new tokens");
            return Ok(ExitStatus::Success);
        }
        let contexts = match arguments.member.member_context.is_some() {
            true => Contexts::given(command::member(&arguments.member, options, env)?, env).await?,
            false => {
                let step = Progress::new(printer).step("looking for the members' contexts in the kubeconfig");
                let contexts = Contexts::of_kubeconfig(arguments, options, &host, &members, env).await?;
                step.done();
                contexts
            }
        };
        renew(&host, members, &contexts, arguments, printer).await
    })
}

/// A registered member.
struct Member {
    name: ClusterName,
    /// The uid of its kube-system.
    uid: String,
}

async fn one(host: &Side, name: &ClusterName) -> Result<Member, RenewError> {
    let registered = host.get(&path::member_cluster(name)).await?;
    let registered =
        registered.ok_or_else(|| RenewError::Unknown { name: name.clone(), host: host.describe() })?;
    let uid = registered["metadata"]["annotations"][MEMBER_UID].as_str();
    let uid = uid.ok_or_else(|| RenewError::NotJoined { name: name.clone() })?;
    Ok(Member { name: name.clone(), uid: uid.to_owned() })
}

async fn all_expired(host: &Side) -> Result<Vec<Member>, RenewError> {
    let list = host.get(path::MEMBER_CLUSTERS_PATH).await?.unwrap_or_default();
    let needs = list["items"].as_array().into_iter().flatten().filter(|cluster| needs_tokens(cluster));
    let member = |cluster: &Value| {
        let name = cluster["metadata"]["name"].as_str()?.parse().ok()?;
        // Without the uid the member was registered by hand, with a credential that a join does not know.
        let uid = cluster["metadata"]["annotations"][MEMBER_UID].as_str()?.to_owned();
        Some(Member { name, uid })
    };
    Ok(needs.filter_map(member).collect())
}

/// Whether condition `CredentialValid` says what new tokens repair.
fn needs_tokens(cluster: &Value) -> bool {
    let conditions = cluster["status"]["conditions"].as_array().into_iter().flatten();
    let mut found = conditions.filter(|condition| condition["type"] == "CredentialValid");
    found.any(|condition| condition["reason"].as_str().is_some_and(|reason| REPAIRED.contains(&reason)))
}

/// The kubeconfig contexts by the uid of their cluster's kube-system.
struct Contexts {
    found: BTreeMap<String, Side>,
    /// Contexts that did not answer, with the reason.
    failed: Vec<String>,
}

impl Contexts {
    async fn given(member: ClusterContext, env: &Env) -> Result<Self, Failure> {
        let member = Side { role: "member", at: connection::to(member, env).await? };
        let uid = survey::uid(&member).await?;
        Ok(Self { found: BTreeMap::from([(uid, member)]), failed: Vec::new() })
    }

    /// Asks the clusters of all contexts for their uid until every member is found.
    async fn of_kubeconfig(
        arguments: &JoinArgs,
        options: &HostOptions,
        host: &Side,
        members: &[Member],
        env: &Env,
    ) -> Result<Self, Failure> {
        let file = arguments.member.member_kubeconfig.as_ref().map(Into::into);
        let kubeconfig = file.clone().or_else(|| options.kubeconfig.clone());
        // Which context is loaded does not matter: it is the list of all that is read.
        let any = HostOptions { kubeconfig: kubeconfig.clone(), context: None };
        let loaded = if file.is_some() { ClusterContext::load(&any, env)? } else { host.at.cluster.clone() };
        let names = loaded.kubeconfig.contexts.into_iter().map(|context| context.name);
        let names = names.filter(|name| file.is_some() || Some(name) != host.at.cluster.context.as_ref());

        let (mut asked, turns) = (JoinSet::new(), Arc::new(Semaphore::new(AT_ONCE)));
        for context in names {
            let options = HostOptions { kubeconfig: kubeconfig.clone(), context: Some(context.clone()) };
            let (env, turns) = (env.clone(), turns.clone());
            asked.spawn(async move {
                let _turn = turns.acquire().await;
                let answer = timeout(TIMEOUT, ask(&options, &env)).await;
                answer
                    .unwrap_or_else(|_| Err("timed out".to_owned()))
                    .map_err(|why| format!("{context}: {why}"))
            });
        }
        let mut contexts = Self { found: BTreeMap::new(), failed: Vec::new() };
        while !members.iter().all(|member| contexts.found.contains_key(&member.uid))
            && let Some(answer) = asked.join_next().await
        {
            match answer {
                Ok(Ok((uid, side))) => drop(contexts.found.insert(uid, side)),
                Ok(Err(why)) => contexts.failed.push(why),
                Err(_) => {}
            }
        }
        contexts.failed.sort();
        Ok(contexts)
    }

    fn of(&self, Member { name, uid }: &Member, is_given: bool) -> Result<&Side, RenewError> {
        self.found.get(uid).ok_or_else(|| match self.found.values().next() {
            Some(other) if is_given => RenewError::Other { name: name.clone(), member: other.describe() },
            _ => RenewError::NoContext { name: name.clone(), failed: self.failed.clone() },
        })
    }
}

async fn ask(options: &HostOptions, env: &Env) -> Result<(String, Side), String> {
    let at = connection::connect(options, env).await.map_err(|error| chain(&error))?;
    let side = Side { role: "member", at };
    match survey::uid(&side).await {
        Ok(uid) if uid.is_empty() => Err("you may not get its namespace kube-system".to_owned()),
        Ok(uid) => Ok((uid, side)),
        Err(error) => Err(error.to_string()),
    }
}

/// Writes new tokens for each member, then waits until the sidecar reports them as accepted.
async fn renew(
    host: &Side,
    members: Vec<Member>,
    contexts: &Contexts,
    arguments: &JoinArgs,
    printer: &Printer,
) -> Result<ExitStatus, Failure> {
    let namespace = survey::namespace(host).await?;
    let is_given = arguments.member.member_context.is_some();
    let (total, mut written, mut failures) = (members.len(), Vec::new(), Vec::new());
    for member in members {
        let step = Progress::new(printer).step(&format!("requesting tokens of {}", member.name));
        let done = async {
            let side = contexts.of(&member, is_given)?;
            tokens(&member.name, host, side, &namespace, arguments.token_duration).await
        };
        match done.await {
            Ok(granted) => {
                step.done();
                written.push((member.name, granted));
            }
            Err(error) => {
                drop(step);
                failures.push(Failure::from(error));
            }
        }
    }
    let deadline = Instant::now() + arguments.timeout;
    for (name, granted) in written {
        let mut step = Progress::new(printer).step(&format!("waiting until {name} accepts them"));
        let left = deadline.saturating_duration_since(Instant::now());
        match wait::until_true(host, &name, &["CredentialValid"], left, &mut step, |one| !needs_tokens(one))
            .await
        {
            Ok(()) => {
                step.done();
                printer.out_line(&format!("{name} has new tokens: {}", granted.outage()));
                if let Some(warning) = granted.warning(&host.at.cluster.kubectl_mc(), &name) {
                    printer.note_line(&format!("warning: {warning}"));
                }
            }
            Err(source) => {
                drop(step);
                failures.push(Failure::from(RenewError::Wait { name, source }));
            }
        }
    }
    let failed = failures.len();
    if total == 1
        && let Some(failure) = failures.pop()
    {
        return Err(failure);
    }
    failures.iter().for_each(|failure| printer.failure(failure));
    Ok(match failed {
        0 => ExitStatus::Success,
        all if all == total => ExitStatus::AllFailed,
        _ => ExitStatus::SomeFailed,
    })
}

async fn tokens(
    name: &ClusterName,
    host: &Side,
    member: &Side,
    namespace: &str,
    life: Duration,
) -> Result<Granted, RenewError> {
    let failed = |source: TokenError| RenewError::Token { name: name.clone(), source: Box::new(source) };
    for secret in [name.member_secret(), name.manager_secret()] {
        if host.get(&path::secret(namespace, &secret)).await?.is_none() {
            return Err(RenewError::NotJoined { name: name.clone() });
        }
    }
    let mut policies = Vec::new();
    if survey::validates(member).await? {
        let manifest = manifest::member().map_err(RenewError::Manifest)?;
        policies.extend(manifest.into_iter().filter(token_policy::is_policy));
        policies.iter_mut().for_each(|policy| token_policy::set_longest(policy, of_manager(life)));
    }
    let tokens = Tokens { name, host, member, namespace, life, policies };
    Ok(tokens.write().await.map_err(failed)?.granted)
}

#[derive(Debug, thiserror::Error)]
enum RenewError {
    #[error(transparent)]
    Side(#[from] SideError),
    #[error(transparent)]
    Manifest(manifest::Unreadable),
    #[error("{name} is not joined to the {host}")]
    Unknown { name: ClusterName, host: String },
    #[error("{name} was registered without `kubectl mc join`, so it has no tokens to renew")]
    NotJoined { name: ClusterName },
    #[error("the {member}, is not {name}")]
    Other { name: ClusterName, member: String },
    #[error("no context of the kubeconfig is {name}{}", unanswered(failed))]
    NoContext { name: ClusterName, failed: Vec<String> },
    #[error("{name} got no new tokens")]
    Token { name: ClusterName, source: Box<TokenError> },
    #[error("{name} has new tokens, but is not ready")]
    Wait { name: ClusterName, source: wait::WaitError },
}

fn unanswered(failed: &[String]) -> String {
    if failed.is_empty() { String::new() } else { format!(" (not asked: {})", failed.join("; ")) }
}

impl Explain for RenewError {
    fn hint(&self) -> Option<String> {
        match self {
            Self::Side(error) => error.hint(),
            Self::Manifest(_) => None,
            Self::Unknown { name, .. } => {
                Some(format!("join it: kubectl mc join {name} --member-context=NAME"))
            }
            Self::NotJoined { name } => Some(format!(
                "renew its credential the way that it was made, or join it: kubectl mc join {name} --member-context=NAME"
            )),
            Self::Other { .. } | Self::NoContext { .. } => Some(
                "a member's administrator runs this: choose the context by --member-context=NAME, its file by --member-kubeconfig=FILE"
                    .to_owned(),
            ),
            Self::Token { name, source } => source.hint().or_else(|| {
                Some(format!("join it again: kubectl mc join {name} --member-context=NAME"))
            }),
            Self::Wait { source, .. } => source.hint(),
        }
    }

    fn status(&self) -> ExitStatus {
        match self {
            Self::Unknown { .. } => ExitStatus::NoSuchCluster,
            _ => ExitStatus::Failed,
        }
    }
}

/// The reasons of condition `CredentialValid` that end with new tokens and the policy on them.
const REPAIRED: &[&str] =
    &["Expired", "Refused", "ManagerExpired", "ManagerRefused", "ManagerForbidden", "RenewalOverdue"];
/// Contexts that are asked at the same time.
const AT_ONCE: usize = 8;
/// A cluster that does not answer may be gone for good; the others are not kept waiting.
const TIMEOUT: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn expired_members_are_told_from_those_in_order() {
        let cluster = |reason: &str| {
            json!({"status": {"conditions": [
                {"type": "Ready", "reason": "Expired"}, {"type": "CredentialValid", "reason": reason},
            ]}})
        };
        assert!(needs_tokens(&cluster("Expired")) && needs_tokens(&cluster("ManagerExpired")));
        assert!(!needs_tokens(&cluster("Accepted")) && !needs_tokens(&cluster("ClientCertificate")));
        assert!(!needs_tokens(&json!({})));
    }
}
