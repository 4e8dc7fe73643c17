//! Writes the objects of a join in order. The credential comes last: the proxy stays off until the member's
//! side exists and the sidecar has reached the member. A member in use keeps its connection until then
//! ([`super::switch`]).

use std::cell::Cell;
use std::time::Duration;

use kubectl_mc_api::member_cluster::ServiceAccounts;
use kubectl_mc_api::{ClusterName, path};
use serde_json::{Value, json};

use super::agent::account::AgentGranted;
use super::agent::steps::{self as agent_steps, AgentSteps};
use super::endpoint::Endpoint;
use super::objects;
use super::side::Side;
use super::switch::Switch;
use super::tokens::{Granted, Tokens};
use super::{bindable_roles, service_accounts, token_policy, wait};
use crate::apply::delete::Delete;
use crate::apply::{Applied, Apply, Change};
use crate::error::{Failure, Hint};
use crate::printer::Printer;
use crate::progress::{Interrupt, Progress};

/// Both sides, and the objects to write.
pub(crate) struct Steps<'a> {
    pub(crate) name: &'a ClusterName,
    pub(crate) host: &'a Side,
    pub(crate) member: &'a Side,
    pub(crate) endpoint: &'a Endpoint,
    /// The agent that carries the connection.
    pub(crate) agent: Option<AgentSteps<'a>>,
    /// Whether to remove the member's agent.
    pub(crate) removes_agent: bool,
    /// The sidecar's namespace on the host.
    pub(crate) namespace: &'a str,
    /// The MemberCluster.
    pub(crate) registration: Value,
    /// The member's objects.
    pub(crate) member_objects: Vec<Value>,
    /// The patch of the list of bindable roles in an existing ConfigMap.
    pub(crate) bindable_roles: Option<Value>,
    /// Under which name the host's service accounts shall act on the member.
    pub(crate) service_accounts: Option<ServiceAccounts>,
    /// The objects of an earlier join that are no longer wanted.
    pub(crate) surplus: Vec<Value>,
    pub(crate) token_life: Duration,
    pub(crate) timeout: Duration,
    pub(crate) printer: &'a Printer,
}

/// A member that is ready.
pub(crate) struct Joined {
    pub(crate) granted: Granted,
    /// The lifetime of the agent's token, if the host issued one.
    pub(crate) agent: Option<AgentGranted>,
}

impl Steps<'_> {
    /// Joins the member. A member in use whose connection cannot be changed, or whose change is interrupted,
    /// gets its previous connection back.
    pub(crate) async fn run(self) -> Result<Joined, StepError> {
        let Self { name, host, namespace, endpoint, .. } = self;
        let switch = Switch::of(name, host, namespace, endpoint).await?;
        let interrupt = Interrupt::handle();
        let is_mixed = Cell::new(false);
        let written = interrupt.unless(self.write(switch.as_ref(), &is_mixed)).await;
        let written = written.map_or(Err(StepError::Interrupted), |written| Ok(written?));
        match (written, switch) {
            (Err(error), Some(switch)) if is_mixed.get() => {
                // A second signal ends the wait for a host that does not respond.
                Err(error.after_undo(interrupt.unless(switch.undo()).await))
            }
            (written, _) => written,
        }
    }

    /// Writes the objects; `is_mixed` is set while the Secrets may lead to different addresses.
    async fn write(self, switch: Option<&Switch<'_>>, is_mixed: &Cell<bool>) -> Result<Joined, Failure> {
        let Self {
            name,
            host,
            member,
            endpoint,
            agent,
            removes_agent,
            namespace,
            registration,
            member_objects,
            bindable_roles: list,
            service_accounts: accounts,
            surplus,
            token_life,
            timeout,
            printer,
        } = self;
        let progress = Progress::new(printer);
        let apply = Apply { dry_run: false, force_conflicts: true };

        let step = progress.step(&format!("registering {name} on the host"));
        let secret = name.member_secret();
        if let Some(agent) = &agent {
            print_applied("host", &agent.account().await?, printer);
        }
        let mut new_secrets = Vec::new();
        // The Secret comes first, so that the sidecar can try a registered cluster immediately.
        if switch.is_none() {
            let secret = connection(host, namespace, &secret, endpoint, apply).await?;
            new_secrets.extend(written_now(&secret));
            print_applied("host", &secret, printer);
        }
        apply.print_each("host: ", host.target(), [registration], printer).await?;
        step.done();

        let mut of_agent = None;
        if let Some(agent) = &agent {
            let step = progress.step("starting the agent on the member");
            let (written, granted) = agent.start(printer).await?;
            of_agent = granted;
            step.done();
            let is_other = written
                .iter()
                .any(|one| one.object.kind() == "Deployment" && one.outcome() == Change::Configured);
            let mut step = progress.step("waiting until the agent is connected");
            let waiting = agent.waiting();
            if is_other {
                waiting.until_replaced(timeout, &mut step).await?;
            }
            match switch {
                Some(_) => waiting.until_ready(timeout, &mut step).await?,
                None => waiting.until_connected(timeout, &mut step).await?,
            }
            step.done();
        }

        let not_reached = |mut failure: Failure| {
            if agent.is_some() {
                failure.hint = Some(BEHIND_AGENT.into());
            }
            failure
        };
        if switch.is_none() {
            let mut step = progress.step(&format!("waiting until the sidecar reaches {}", endpoint.server));
            let tried = |cluster: &Value| {
                cluster["status"]["server"].as_str().is_none_or(|server| server == endpoint.server)
            };
            let reached = wait::until_true(host, name, &["Reachable"], timeout, &mut step, tried).await;
            reached.map_err(not_reached)?;
            step.done();
        }

        let step = progress.step("preparing the member");
        // The policy on tokens waits for the first token, which shows the audiences.
        let (token_policies, member_objects): (Vec<_>, Vec<_>) =
            member_objects.into_iter().partition(token_policy::is_policy);
        apply.print_each("member: ", member.target(), member_objects, printer).await?;
        if let Some(list) = &list {
            printer.out_line(&format!("member: {}", bindable_roles::write(member, list, false).await?));
        }
        let delete = Delete { dry_run: false, timeout };
        delete.print_each("member: ", member.target(), surplus.into_iter(), printer).await?;
        // The member's policy of before would refuse the names.
        if let Some(accounts) = accounts {
            printer.out_line(&format!("host: {}", service_accounts::write(host, name, accounts).await?));
        }
        step.done();

        let step = progress.step("giving the sidecar its tokens");
        if switch.is_none() {
            let secret = connection(host, namespace, &name.manager_secret(), endpoint, apply).await?;
            new_secrets.extend(written_now(&secret));
            print_applied("host", &secret, printer);
        }
        let beside = switch.map(Switch::patch).unwrap_or_default();
        let report = |one: &Applied| printer.out_line(&format!("member: {}", one.line(false)));
        let tokens = Tokens {
            name,
            host,
            member,
            namespace,
            life: token_life,
            policies: token_policies,
            beside,
            report: &report,
        };
        is_mixed.set(switch.is_some());
        let granted = tokens.write().await?;
        step.done();

        if let Some(switch) = switch {
            let mut step = progress.step(&format!("waiting until the sidecar reaches {}", endpoint.server));
            switch.until_used(timeout, &mut step).await.map_err(not_reached)?;
            step.done();
        }
        is_mixed.set(false);
        for secret in [name.manager_secret(), name.member_secret()] {
            if !new_secrets.contains(&secret) {
                printer.out_line(&format!("host: secret/{secret} configured"));
            }
        }

        let mut step = progress.step(&format!("waiting until {name} is ready"));
        wait::until_true(host, name, &["AuthSynced", "Ready"], timeout, &mut step, |_| true).await?;
        step.done();
        if removes_agent {
            let step = progress.step("removing the agent");
            agent_steps::remove(name, host, member, timeout, printer).await?;
            step.done();
        }
        Ok(Joined { granted, agent: of_agent })
    }
}

/// Writes the connection into a Secret; an existing credential stays only with the same connection.
async fn connection(
    host: &Side,
    namespace: &str,
    secret: &str,
    endpoint: &Endpoint,
    apply: Apply,
) -> Result<Vec<Applied>, Failure> {
    let path = path::secret(namespace, secret);
    let existing = host.get(&path).await?.unwrap_or_default();
    let obsolete = objects::obsolete(&existing, endpoint);
    if !obsolete.is_empty() {
        host.merge(&path, &json!({"data": obsolete})).await?;
    }
    let mut written = apply.all(host.target(), [objects::secret(namespace, secret, endpoint)]).await?;
    // The Secret gets a new token in any case.
    written.retain(|applied| applied.outcome() != Change::Unchanged);
    Ok(written)
}

/// The names of the objects that were created or changed.
fn written_now(written: &[Applied]) -> impl Iterator<Item = String> {
    written.iter().map(|applied| applied.object.name().to_owned())
}

fn print_applied(side: &str, written: &[Applied], printer: &Printer) {
    for applied in written {
        printer.out_line(&format!("{side}: {}", applied.line(false)));
    }
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum StepError {
    #[error("{0}")]
    Failed(Failure),
    #[error("interrupted")]
    Interrupted,
    /// The member has its previous connection back.
    #[error("{0}; its connection of before is in use again")]
    Undone(Box<Self>),
}

impl From<Failure> for StepError {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

impl StepError {
    pub(crate) fn hint(&self) -> Option<Hint> {
        match self {
            Self::Failed(failure) => failure.hint.clone(),
            Self::Interrupted => None,
            Self::Undone(error) => error.hint(),
        }
    }

    /// The error after the connection of before was written back; `None` if a signal has come first.
    fn after_undo(self, undone: Option<Result<(), Failure>>) -> Self {
        match undone {
            Some(Ok(())) => Self::Undone(Box::new(self)),
            Some(Err(failure)) => Self::Failed(failure),
            None => Self::Interrupted,
        }
    }

    /// Whether a signal ended the join.
    pub(crate) fn is_interrupt(&self) -> bool {
        match self {
            Self::Failed(_) => false,
            Self::Interrupted => true,
            Self::Undone(error) => error.is_interrupt(),
        }
    }
}

/// The hint if the agent is connected, but the member does not respond through it.
const BEHIND_AGENT: &str = "the agent must reach its own kube-apiserver: set `target: ADDRESS:443` in \
     --agent-values=FILE, with the address of the member's Service default/kubernetes, if its pods have no \
     cluster DNS";

#[cfg(test)]
mod tests;
