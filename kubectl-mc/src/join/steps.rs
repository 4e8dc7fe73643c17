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
use super::switch::Switch;
use super::tokens::{Granted, Tokens};
use super::{bindable_roles, service_accounts, token_policy, wait};
use crate::apply::delete::Delete;
use crate::apply::{Applied, Apply, Change};
use crate::cluster::connection::Connection;
use crate::error::{Failure, Hint};
use crate::printer::Printer;
use crate::progress::{Interrupt, Progress};

/// Both sides, and the objects to write.
pub(crate) struct Steps<'a> {
    pub(crate) name: &'a ClusterName,
    pub(crate) host: &'a Connection,
    pub(crate) member: &'a Connection,
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
    /// How the host's service accounts are named on the member.
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
    /// The result of a dry run of the member's objects.
    pub(crate) async fn judge_member(&self) -> Result<Vec<Applied>, Failure> {
        let of_agent = self.agent.as_ref().map(AgentSteps::on_member).transpose()?.unwrap_or_default();
        let objects = of_agent.into_iter().chain(self.member_objects.clone());
        Ok(TRY_ONLY.all(self.member, objects).await?)
    }

    /// Prints what the join would write and delete; `judged` is the result of the dry run on the member.
    pub(crate) async fn preview(self, judged: &[Applied]) -> Result<(), Failure> {
        let Self { name, host, member, endpoint, namespace, printer, .. } = self;
        let secrets = [name.member_secret(), name.manager_secret()];
        let secrets = secrets.iter().map(|secret| objects::secret(namespace, secret, endpoint));
        let account = self.agent.as_ref().map(AgentSteps::on_host).unwrap_or_default();
        let on_host = account.into_iter().chain([self.registration]).chain(secrets);
        let registered = TRY_ONLY.all(host, on_host).await?;
        print_judged("host", &registered, printer);
        print_judged("member", judged, printer);
        if let Some(list) = &self.bindable_roles {
            printer.out_line(&format!("member: {}", bindable_roles::write(member, list, true).await?));
        }
        if let Some(accounts) = self.service_accounts {
            printer.out_line(&format!("host: {} (not written)", service_accounts::line(name, accounts)));
        }
        let delete = Delete { dry_run: true, timeout: self.timeout };
        let deleted = delete.all(member, self.surplus.into_iter()).await?;
        deleted.iter().for_each(|one| printer.out_line(&format!("member: {one} deleted (server dry run)")));
        Ok(())
    }

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

    /// Writes the objects; `is_mixed` is set while the Secrets may contain different addresses.
    async fn write(mut self, switch: Option<&Switch<'_>>, is_mixed: &Cell<bool>) -> Result<Joined, Failure> {
        let Self { name, host, member, endpoint, timeout, printer, .. } = self;
        let progress = Progress::new(printer);
        let mut new_secrets = self.register(&progress, switch.is_none()).await?;
        let agent = self.start_agent(&progress, switch.is_some()).await?;
        let waiting = format!("waiting until the sidecar reaches {}", endpoint.server);
        if switch.is_none() {
            let mut step = progress.step(&waiting);
            let tried = |cluster: &Value| {
                cluster["status"]["server"].as_str().is_none_or(|server| server == endpoint.server)
            };
            let reached = wait::until_true(host, name, &["Reachable"], timeout, &mut step, tried).await;
            reached.map_err(|failure| self.not_reached(failure))?;
            step.done();
        }
        let policies = self.prepare_member(&progress).await?;

        let step = progress.step("giving the sidecar its tokens");
        if switch.is_none() {
            new_secrets.extend(self.connection(&name.manager_secret()).await?);
        }
        is_mixed.set(switch.is_some());
        let granted = self.write_tokens(policies, switch).await?;
        step.done();

        if let Some(switch) = switch {
            let mut step = progress.step(&waiting);
            let used = switch.until_used(timeout, &mut step).await;
            used.map_err(|failure| self.not_reached(failure))?;
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
        if self.removes_agent {
            let step = progress.step("removing the agent");
            agent_steps::remove(name, host, member, timeout, printer).await?;
            step.done();
        }
        Ok(Joined { granted, agent })
    }

    /// Writes the MemberCluster and, for a member that is not in use, its connection. Returns the Secrets that changed.
    async fn register(
        &mut self,
        progress: &Progress<'_>,
        with_connection: bool,
    ) -> Result<Vec<String>, Failure> {
        let step = progress.step(&format!("registering {} on the host", self.name));
        if let Some(agent) = &self.agent {
            print_applied("host", &agent.account().await?, self.printer);
        }
        let mut new_secrets = Vec::new();
        // The Secret comes first, so that the sidecar can try a registered cluster immediately.
        if with_connection {
            new_secrets = self.connection(&self.name.member_secret()).await?;
        }
        APPLY.print_each("host: ", self.host, [self.registration.take()], self.printer).await?;
        step.done();
        Ok(new_secrets)
    }

    /// Starts the agent, if there is one, and waits until it is connected or, for a member in use, ready.
    async fn start_agent(
        &self,
        progress: &Progress<'_>,
        is_in_use: bool,
    ) -> Result<Option<AgentGranted>, Failure> {
        let Self { agent, timeout, printer, .. } = self;
        let Some(agent) = agent else { return Ok(None) };
        let step = progress.step("starting the agent on the member");
        let (written, granted) = agent.start(printer).await?;
        step.done();
        let is_other = written
            .iter()
            .any(|one| one.object.kind() == "Deployment" && one.outcome() == Change::Configured);
        let mut step = progress.step("waiting until the agent is connected");
        let waiting = agent.waiting();
        if is_other {
            waiting.until_replaced(*timeout, &mut step).await?;
        }
        match is_in_use {
            true => waiting.until_ready(*timeout, &mut step).await?,
            false => waiting.until_connected(*timeout, &mut step).await?,
        }
        step.done();
        Ok(granted)
    }

    /// Writes the member's objects, and returns the policies on tokens: they wait for the first token, which shows the
    /// audiences.
    async fn prepare_member(&mut self, progress: &Progress<'_>) -> Result<Vec<Value>, Failure> {
        let step = progress.step("preparing the member");
        let objects = std::mem::take(&mut self.member_objects);
        let (policies, objects): (Vec<_>, Vec<_>) = objects.into_iter().partition(token_policy::is_policy);
        let surplus = std::mem::take(&mut self.surplus);
        let Self { name, host, member, timeout, printer, .. } = self;
        APPLY.print_each("member: ", member, objects, printer).await?;
        if let Some(list) = &self.bindable_roles {
            printer.out_line(&format!("member: {}", bindable_roles::write(member, list, false).await?));
        }
        let delete = Delete { dry_run: false, timeout: *timeout };
        delete.print_each("member: ", member, surplus.into_iter(), printer).await?;
        // The member's previous policy would refuse the names.
        if let Some(accounts) = self.service_accounts {
            printer.out_line(&format!("host: {}", service_accounts::write(host, name, accounts).await?));
        }
        step.done();
        Ok(policies)
    }

    /// Writes the tokens, together with the new connection of a member in use.
    async fn write_tokens(
        &self,
        policies: Vec<Value>,
        switch: Option<&Switch<'_>>,
    ) -> Result<Granted, Failure> {
        let Self { name, host, member, namespace, token_life: life, printer, .. } = *self;
        let report = |one: &Applied| printer.out_line(&format!("member: {}", one.line(false)));
        let beside = switch.map(Switch::patch).unwrap_or_default();
        Tokens { name, host, member, namespace, life, policies, beside, report: &report }.write().await
    }

    /// Writes the connection into a Secret; an existing credential is kept only with the same
    /// connection. Returns the name of the Secret if it changed.
    async fn connection(&self, secret: &str) -> Result<Vec<String>, Failure> {
        let Self { host, namespace, endpoint, .. } = self;
        let path = path::secret(namespace, secret);
        let existing = host.get(&path).await?.unwrap_or_default();
        let obsolete = objects::obsolete(&existing, endpoint);
        if !obsolete.is_empty() {
            host.merge(&path, &json!({"data": obsolete})).await?;
        }
        let mut written = APPLY.all(host, [objects::secret(namespace, secret, endpoint)]).await?;
        // The Secret gets a new token in any case.
        written.retain(|applied| applied.outcome() != Change::Unchanged);
        print_applied("host", &written, self.printer);
        Ok(written.iter().map(|applied| applied.object.name().to_owned()).collect())
    }

    fn not_reached(&self, failure: Failure) -> Failure {
        match self.agent {
            Some(_) => failure.with_hint(BEHIND_AGENT),
            None => failure,
        }
    }
}

const APPLY: Apply = Apply { dry_run: false, force_conflicts: true };
const TRY_ONLY: Apply = Apply { dry_run: true, ..APPLY };

fn print_applied(side: &str, written: &[Applied], printer: &Printer) {
    written.iter().for_each(|one| printer.out_line(&format!("{side}: {}", one.line(false))));
}

fn print_judged(side: &str, judged: &[Applied], printer: &Printer) {
    judged.iter().for_each(|one| printer.out_line(&format!("{side}: {}", one.line(true))));
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

    /// The error after the previous connection was restored; `None` if there was a signal before.
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
