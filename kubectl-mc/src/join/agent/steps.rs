//! Runs the steps that an agent adds to a join: its account on the host, then the agent on the member with a
//! token of that account, then the wait until it is connected.

use std::time::Duration;

use jiff::Timestamp;
use kubectl_mc_api::ClusterName;
use kubectl_mc_api::names::{AGENT, AGENT_NAMESPACE};
use serde_json::Value;

use super::account::{self, Account, AgentGranted};
use super::found::Found;
use super::plan::AgentPlan;
use super::wait::Waiting;
use super::{member, trust};
use crate::apply::delete::Delete;
use crate::apply::{Applied, Apply, Change};
use crate::cli::AgentTokenLife;
use crate::cluster::connection::Connection;
use crate::error::Failure;
use crate::join::cleanup;
use crate::printer::Printer;

/// The agent to start.
pub(crate) struct AgentSteps<'a> {
    pub(crate) name: &'a ClusterName,
    pub(crate) plan: &'a AgentPlan,
    pub(crate) found: &'a Found,
    pub(crate) host: &'a Connection,
    pub(crate) member: &'a Connection,
    /// The host's clock, which decides when tokens expire.
    pub(crate) clock: Option<Timestamp>,
}

impl AgentSteps<'_> {
    pub(crate) async fn account(&self) -> Result<Vec<Applied>, Failure> {
        Account { name: self.name, host: self.host }.apply().await
    }

    /// Starts the agent on the member with a token.
    pub(crate) async fn start(
        &self,
        printer: &Printer,
    ) -> Result<(Vec<Applied>, Option<AgentGranted>), Failure> {
        let Self { name, plan, found, host, member, clock } = self;
        let apply = Apply { dry_run: false, force_conflicts: true };
        let (before, after) = member::objects(plan, found)?;
        let mut applied = apply.print_each("member: ", member, before, printer).await?;
        let is_changed = |one: &Applied| one.object.kind() == "Secret" && one.outcome() == Change::Configured;
        let mut is_new = applied.iter().any(is_changed);
        let secret = found.secret.as_ref();
        // A CA that the agent or a renewal has written is not a field of the applied Secret.
        if plan.host.ca.is_none() && secret.is_some_and(|secret| secret["data"]["ca.crt"].is_string()) {
            trust::store(member, None).await?;
            is_new = true;
        }
        let mut granted = None;
        if !member::has_certificate(secret) {
            let account = Account { name, host };
            let present = member::token(secret);
            let now = clock.unwrap_or_else(Timestamp::now);
            let token = account.token(plan.token, present.as_deref(), now).await?;
            if let Some(fresh) = &token.fresh {
                member::store(member, fresh).await?;
                is_new = true;
            }
            if matches!(plan.token, Some(AgentTokenLife::For(_))) {
                account.forget_forever().await?;
            }
            granted = Some(token.granted);
        }
        if is_new {
            member::refresh(member).await;
        }
        applied.extend(apply.print_each("member: ", member, after, printer).await?);
        Ok((applied, granted))
    }

    pub(crate) fn waiting(&self) -> Waiting<'_> {
        let Self { name, plan, host, member, .. } = self;
        Waiting { name, host, member, server: &plan.host.server }
    }

    /// The objects of a dry run on the host.
    pub(crate) fn on_host(&self) -> Vec<Value> {
        vec![account::object(self.name)]
    }

    /// The objects of a dry run on the member.
    pub(crate) fn on_member(&self) -> Result<Vec<Value>, Failure> {
        let (mut before, after) = member::objects(self.plan, self.found)?;
        before.extend(after);
        Ok(before)
    }
}

/// Removes the agent from a member that is now connected directly, and the agent's account from the host.
pub(crate) async fn remove(
    name: &ClusterName,
    host: &Connection,
    member: &Connection,
    timeout: Duration,
    printer: &Printer,
) -> Result<(), Failure> {
    let delete = Delete { dry_run: false, timeout };
    let on_host = cleanup::agent_on_host(host, name).await?;
    let on_member = cleanup::agent_on_member(member).await?.objects;
    delete.print_each("member: ", member, on_member.into_iter(), printer).await?;
    delete.print_each("host: ", host, on_host.into_iter(), printer).await?;
    Ok(())
}

/// `Secret kubectl-mc-agent/mc-agent`, for messages.
pub(crate) fn secret_name() -> String {
    format!("{AGENT_NAMESPACE}/{AGENT}")
}

#[cfg(test)]
mod tests {
    use http::Method;
    use kube::config::Cluster;
    use serde_json::json;

    use super::*;
    use crate::cli::AgentArgs;
    use crate::cluster::connection::fake;

    /// If another writer, such as a renewal, has set the key, it stays when the join applies the
    /// Secret without it.
    #[tokio::test]
    async fn system_roots_remove_an_earlier_ca() {
        let printer = Printer::default();
        let secret = json!({"metadata": {"name": AGENT, "namespace": AGENT_NAMESPACE},
            "data": {"ca.crt": "UEVN", "tls.crt": "eA==", "tls.key": "eA=="}});
        let found = Found {
            deployment: Some(json!({"metadata": {"labels": {"app.kubernetes.io/managed-by": "Helm"}}})),
            secret: Some(secret.clone()),
            ..Found::default()
        };
        let (host, _) = fake::connection("host", |_, _| (200, json!({})));
        let name: ClusterName = "m1".parse().unwrap();
        let of_host = Cluster { certificate_authority_data: Some("UEVN".to_owned()), ..Cluster::default() };
        for agent_trust_system_roots in [true, false] {
            let answer = secret.clone();
            let (member, requests) = fake::connection("member", move |_, _| (200, answer.clone()));
            let flags = AgentArgs { agent_trust_system_roots, ..AgentArgs::default() };
            let plan = AgentPlan::of(&name, &flags, Some(("https://h", &of_host))).unwrap();
            let steps = AgentSteps {
                name: &name,
                plan: &plan,
                found: &found,
                host: &host,
                member: &member,
                clock: None,
            };
            steps.start(&printer).await.unwrap();
            let removal = json!({"data": {"ca.crt": null}});
            let is_removed =
                requests.try_iter().any(|(method, _, body)| method == Method::PATCH && body == removal);
            assert_eq!(is_removed, agent_trust_system_roots);
        }
    }
}
