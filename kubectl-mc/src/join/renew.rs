//! Implements `kubectl mc join --renew` and `--all-expired`: requests new tokens for members whose tokens
//! expired while the host was off, or whose token lifetime changes. A member's kubeconfig context is found by
//! the uid of its kube-system in the registration, so no token is requested from another cluster.
//! An agent that was disconnected for too long also gets a new token and, with a flag, another CA
//! of the host.

use std::time::Duration;

use kubectl_mc_api::names::{AGENT, AGENT_NAMESPACE};
use kubectl_mc_api::token_life::{DEFAULT, SHORTEST, of_impersonator, of_manager};
use kubectl_mc_api::{ClusterName, path};
use serde_json::{Map, Value};
use tokio::time::Instant;

use super::agent::account::AgentGranted;
use super::agent::member as agent_member;
use super::agent::renew::{self as agent_renew, Which};
use super::agent::token::Claims;
use super::agent::trust::Trust;
use super::agent::wait::{CONNECTED, Waiting};
use super::tokens::{Granted, Tokens};
use super::{manifest, member_context, objects, survey, token_policy, wait};
use crate::cli::JoinArgs;
use crate::cluster::connection::{self, Connection};
use crate::cluster::context::HostOptions;
use crate::cluster::fields::{condition, items};
use crate::env::Env;
use crate::error::{Context, Failure, mc};
use crate::exit::ExitStatus;
use crate::printer::Printer;
use crate::progress::Progress;

mod contexts;

use contexts::Contexts;

/// Renews the tokens of one member, or of all members that need it.
pub(crate) fn run(
    name: Option<&ClusterName>,
    arguments: &JoinArgs,
    options: &HostOptions,
    env: &Env,
    printer: &Printer,
) -> Result<ExitStatus, Failure> {
    let trust = Trust::read(&arguments.by_agent)?;
    connection::run(async {
        let host = connection::connect("host", options, env).await?;
        let members = match name {
            Some(name) => vec![one(&host, name).await?],
            None => all_expired(&host).await?,
        };
        if members.is_empty() {
            printer.out_line("no member needs new tokens");
            return Ok(ExitStatus::Success);
        }
        let contexts = match arguments.member.member_context.is_some() {
            true => Contexts::given(member_context::member(&arguments.member, options, env)?, env).await?,
            false => {
                let step = Progress::new(printer).step("looking for the members' contexts in the kubeconfig");
                let contexts = Contexts::of_kubeconfig(arguments, options, &host, &members, env).await?;
                step.done();
                contexts
            }
        };
        renew(&host, members, &contexts, arguments, trust.as_ref(), printer).await
    })
}

/// A registered member.
struct Member {
    name: ClusterName,
    /// The uid of its kube-system.
    uid: String,
    need: Need,
}

/// Why a member is selected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Need {
    /// Its tokens need renewal, because it was named or because of its conditions.
    Tokens,
    /// Its agent is not connected. The agent's token may have expired, which only the member can
    /// show.
    Agent,
}

/// The result for one member.
struct Renewed {
    name: ClusterName,
    granted: Granted,
    agent: Option<AgentGranted>,
    /// The member, if its agent has to reconnect.
    waits_for: Option<Connection>,
    /// Whether the agent's pods are replaced, if the way it verifies the host has changed.
    replaces_pods: Option<bool>,
}

async fn one(host: &Connection, name: &ClusterName) -> Result<Member, Failure> {
    let registered = host.get(&path::member_cluster(name)).await?;
    let registered = registered.ok_or_else(|| {
        Failure::new(format!("{name} is not joined to the {}", host.describe()))
            .with_hint(mc(format!("join {name} --member-context=NAME")).after("join it"))
            .with_status(ExitStatus::NoSuchCluster)
    })?;
    let uid = objects::uid_of(&registered).ok_or_else(|| not_joined(name))?;
    Ok(Member { name: name.clone(), uid: uid.to_owned(), need: Need::Tokens })
}

async fn all_expired(host: &Connection) -> Result<Vec<Member>, Failure> {
    let list = host.get(path::MEMBER_CLUSTERS_PATH).await?.unwrap_or_default();
    let member = |cluster: &Value| {
        let need = need(cluster)?;
        let name = cluster["metadata"]["name"].as_str()?.parse().ok()?;
        // A registration without the uid was made by hand, with a credential that a join does not know.
        let uid = objects::uid_of(cluster)?.to_owned();
        Some(Member { name, uid, need })
    };
    Ok(items(&list).filter_map(member).collect())
}

/// The need for new tokens, by the conditions.
fn need(cluster: &Value) -> Option<Need> {
    if needs_tokens(cluster) {
        return Some(Need::Tokens);
    }
    let is_away = condition(cluster, CONNECTED).is_some_and(|connected| connected["status"] == "False");
    is_away.then_some(Need::Agent)
}

/// Whether condition `CredentialValid` reports a problem that new tokens solve.
fn needs_tokens(cluster: &Value) -> bool {
    let reason = condition(cluster, "CredentialValid").and_then(|valid| valid["reason"].as_str());
    reason.is_some_and(|reason| REPAIRED.contains(&reason))
}

/// Writes new tokens for each member, then waits until the sidecar reports them as accepted.
async fn renew(
    host: &Connection,
    members: Vec<Member>,
    contexts: &Contexts,
    arguments: &JoinArgs,
    trust: Option<&Trust>,
    printer: &Printer,
) -> Result<ExitStatus, Failure> {
    let namespace = survey::namespace(host).await?;
    let (total, mut written, mut failures) = (members.len(), Vec::new(), Vec::new());
    for member in members {
        let step = Progress::new(printer).step(&format!("requesting tokens of {}", member.name));
        match renewed(host, &member, contexts, &namespace, arguments, trust).await {
            Ok(Some(renewed)) => {
                step.done();
                written.push(renewed);
            }
            Ok(None) => {
                drop(step);
                printer.note_line(&format!(
                    "the agent of {} is not connected, and no expired token is found to be the reason; its context shows \
                     more: kubectl -n {AGENT_NAMESPACE} logs deployment/{AGENT}",
                    member.name
                ));
            }
            Err(error) => {
                drop(step);
                failures.push(error);
            }
        }
    }
    let by_agent = written.iter().any(|renewed| renewed.waits_for.is_some());
    let deadline = Instant::now() + arguments.timeout(by_agent);
    for renewed in written {
        match accepted(host, &renewed, deadline, printer).await {
            Ok(()) => told(host, &renewed, trust, printer),
            Err(error) => failures.push(error),
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

/// Writes new tokens for one member and its agent; returns `None` if the agent is disconnected for another
/// reason.
async fn renewed(
    host: &Connection,
    member: &Member,
    contexts: &Contexts,
    namespace: &str,
    arguments: &JoinArgs,
    trust: Option<&Trust>,
) -> Result<Option<Renewed>, Failure> {
    let Member { name, need, .. } = member;
    let by_agent = agent_renew::is_by_agent(host, namespace, name).await?;
    if arguments.by_agent.agent && !by_agent {
        let join = mc(format!("join {name} --member-context=NAME --agent"));
        return Err(Failure::new(format!("{name} has no agent: the sidecar connects to it directly"))
            .with_hint(join.after("omit --agent to renew its tokens; to give it an agent")));
    }
    let side = match contexts.of(member, arguments.member.member_context.is_some()) {
        Err(_) if *need == Need::Agent => return Ok(None),
        side => side?,
    };
    let (mut agent, mut replaces_pods) = (None, None);
    if by_agent {
        let which = if *need == Need::Agent { Which::Aged } else { Which::Any };
        let wanted = arguments.by_agent.agent_token;
        let failed = || agent_failed(name);
        agent = agent_renew::renew(name, host, side, wanted, which).await.context(failed)?;
        if let Some(trust) = trust {
            let written = trust.write(side).await;
            replaces_pods = Some(written.map_err(Failure::from).context(failed)?);
        }
    }
    if *need == Need::Agent && agent.is_none() {
        return Ok(None);
    }
    let granted = tokens(name, host, side, namespace, arguments.token_duration).await?;
    let waits_for = by_agent.then(|| side.clone());
    Ok(Some(Renewed { name: name.clone(), granted, agent, waits_for, replaces_pods }))
}

/// Waits until the agent is connected and the member's tokens are accepted.
async fn accepted(
    host: &Connection,
    renewed: &Renewed,
    deadline: Instant,
    printer: &Printer,
) -> Result<(), Failure> {
    let Renewed { name, waits_for, replaces_pods, .. } = renewed;
    let left = || deadline.saturating_duration_since(Instant::now());
    if let Some(member) = waits_for {
        let mut step =
            Progress::new(printer).step(&format!("waiting until the agent of {name} is connected"));
        let waiting = Waiting { name, host, member, server: "the host" };
        let failed = || agent_failed(name);
        if *replaces_pods == Some(true) {
            waiting.until_replaced(left(), &mut step).await.context(failed)?;
        }
        waiting.until_connected(left(), &mut step).await.context(failed)?;
        step.done();
    }
    let mut step = Progress::new(printer).step(&format!("waiting until {name} accepts them"));
    let waited =
        wait::until_true(host, name, &["CredentialValid"], left(), &mut step, |one| !needs_tokens(one));
    waited.await.context(|| format!("{name} has new tokens, but is not ready"))?;
    step.done();
    Ok(())
}

fn told(host: &Connection, renewed: &Renewed, trust: Option<&Trust>, printer: &Printer) {
    let Renewed { name, granted, agent, waits_for, replaces_pods } = renewed;
    let kubectl_mc = host.cluster.kubectl_mc();
    printer.out_line(&format!("{name} has new tokens: {}", granted.outage()));
    agent.iter().for_each(|agent| printer.out_line(&format!("{name}: {}", agent.absence())));
    trust.iter().for_each(|trust| printer.out_line(&format!("{name}: {}", trust.outcome())));
    if let (Some(false), Some(member)) = (replaces_pods, waits_for) {
        printer.note_line(&format!(
            "warning: the pods of the agent of {name} are not replaced, and open tunnels do not try the CA: {} -n \
             {AGENT_NAMESPACE} rollout restart deployment/{AGENT}",
            member.cluster.kubectl()
        ));
    }
    let of_agent = agent.and_then(|agent| agent.warning(&kubectl_mc, name));
    for warning in granted.warning(&kubectl_mc, name).into_iter().chain(of_agent) {
        printer.note_line(&format!("warning: {warning}"));
    }
}

async fn tokens(
    name: &ClusterName,
    host: &Connection,
    member: &Connection,
    namespace: &str,
    wanted: Option<Duration>,
) -> Result<Granted, Failure> {
    let stored = host.get(&path::secret(namespace, &name.member_secret())).await?;
    let of_manager_too = host.get(&path::secret(namespace, &name.manager_secret())).await?;
    if stored.is_none() || of_manager_too.is_none() {
        return Err(not_joined(name));
    }
    let (mut policies, mut present) = (Vec::new(), None);
    if survey::validates(member).await? {
        present = member.readable(&token_policy::path()).await?;
        policies.extend(manifest::member()?.into_iter().filter(token_policy::is_policy));
    }
    let life = wanted.unwrap_or_else(|| present_life(present.as_ref(), stored.as_ref()));
    policies.iter_mut().for_each(|policy| token_policy::set_longest(policy, of_manager(life)));
    let (beside, report) = (Map::new(), &|_: &_| ());
    let tokens = Tokens { name, host, member, namespace, life, policies, beside, report };
    let written = tokens.write().await.context(|| format!("{name} got no new tokens"));
    let again = || mc(format!("join {name} --member-context=NAME")).after("join it again");
    written.map_err(|failure| failure.or_hint(again))
}

/// The lifetime that an earlier join chose. The policy has it even if the member granted less.
fn present_life(policy: Option<&Value>, secret: Option<&Value>) -> Duration {
    let of_policy = policy.and_then(token_policy::longest).map(of_impersonator);
    let of_token = || Some(Claims::parse(&agent_member::token(secret)?)?.life?.whole());
    of_policy.or_else(of_token).map_or(DEFAULT, |life| life.max(SHORTEST))
}

fn agent_failed(name: &ClusterName) -> String {
    format!("the agent of {name} got no new token, or does not use it")
}

fn not_joined(name: &ClusterName) -> Failure {
    Failure::new(format!("{name} was registered without `kubectl mc join`, so it has no tokens to renew"))
        .with_hint(
            mc(format!("join {name} --member-context=NAME"))
                .after("renew its credential the way that it was made, or join it"),
        )
}

/// The reasons of condition `CredentialValid` that new tokens and their policy resolve.
const REPAIRED: &[&str] =
    &["Expired", "Refused", "ManagerExpired", "ManagerRefused", "ManagerForbidden", "RenewalOverdue"];

#[cfg(test)]
mod tests;
