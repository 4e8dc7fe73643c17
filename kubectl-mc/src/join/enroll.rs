//! Implements `kubectl mc join --agent --enroll`: joins a member whose administrator has no access to the
//! host, and for which the caller has no context. It registers the member on the host, opens the enrollment
//! of its agent, and prints one manifest for the member's administrator. The agent then hands the member's CA
//! and tokens to the sidecar.

use jiff::Timestamp;
use kubectl_mc_api::age::human;
use kubectl_mc_api::names::{ENROLLMENT_UNTIL, HOST_UID};
use kubectl_mc_api::{ClusterName, direct, path};
use serde_json::{Value, json};

use super::agent::account::{self, Account, AgentToken};
use super::agent::no_token;
use super::agent::plan::AgentPlan;
use super::agent::survey::AgentSurvey;
use super::endpoint::Endpoint;
use super::judge::judge;
use super::preflight::{self, Finding};
use super::survey::HostSurvey;
use super::{objects, role_changes, service_accounts};
use crate::apply::{Applied, Apply};
use crate::cli::JoinArgs;
use crate::cluster::connection::{self, Connection};
use crate::cluster::context::{ClusterContext, HostOptions};
use crate::env::Env;
use crate::error::{Failure, mc};
use crate::exit::ExitStatus;
use crate::printer::Printer;

mod manifest;

use manifest::Manifest;

pub(crate) fn run(
    name: &ClusterName,
    arguments: &JoinArgs,
    options: &HostOptions,
    env: &Env,
    printer: &Printer,
) -> Result<ExitStatus, Failure> {
    let JoinArgs { member, print, renew, .. } = arguments;
    let refused = [
        (
            member.member_context.is_some() || member.member_kubeconfig.is_some(),
            "--member-context and --member-kubeconfig",
            "with a context of the member, leave out --enroll: join then writes both sides",
        ),
        (
            *print,
            "--print",
            "--enroll prints one manifest for the member; leave it out for the commands of two administrators",
        ),
        (
            *renew,
            "--renew",
            "leave out --renew: running the command again opens the enrollment again, with a new token",
        ),
    ];
    if let Some((_, flags, hint)) = refused.into_iter().find(|(is_given, ..)| *is_given) {
        return Err(Failure::usage(format!("--enroll cannot be used with {flags}")).with_hint(hint));
    }
    let host = ClusterContext::load(options, env)?;
    let plan = AgentPlan::of(name, &arguments.by_agent, Some((host.server.as_str(), &host.cluster)))?;
    connection::run(async {
        let host = connection::to("host", host, env).await?;
        enroll(name, arguments, plan, &host, printer).await
    })
}

async fn enroll(
    name: &ClusterName,
    arguments: &JoinArgs,
    plan: AgentPlan,
    host: &Connection,
    printer: &Printer,
) -> Result<ExitStatus, Failure> {
    let JoinArgs { labels, dry_run, yes, bindable_roles, .. } = arguments;
    let survey = HostSurvey::of(host).await?;
    let plan = plan.with_direct_endpoint(&host.readable(&direct::path()).await?.unwrap_or_default());
    let kubectl = host.cluster.kubectl();
    let mut findings = preflight::of_host(&kubectl, &survey);
    findings.extend(AgentSurvey::of_host(&plan, host).await?.findings_of_host(&kubectl, &plan));
    findings.extend(bindable_roles.iter().flat_map(role_changes::findings));
    findings.extend(preflight::hub_registers(name, &survey));
    let secret = host.get(&path::secret(&survey.namespace, &name.member_secret())).await?;
    findings.extend(is_joined(name, secret.as_ref()));
    judge(findings, *yes || *dry_run, printer)?;

    let clock = survey.clock.unwrap_or_else(Timestamp::now);
    let until = clock.checked_add(arguments.by_agent.enroll_for).unwrap_or(clock);
    let until: Timestamp = Timestamp::from_second(until.as_second()).unwrap_or(until);
    let plan = plan.enrolling(until, arguments.token_life());
    let endpoint = plan.endpoint(None, None);
    let manifest = Manifest::new(name, arguments, &plan, &survey.uid, until)?;
    let opening = Opening { name, host, namespace: &survey.namespace, endpoint: &endpoint };
    let registration = objects::member_cluster(name, labels, None);
    let secrets = opening.secrets(until, &survey.uid);
    if *dry_run {
        let apply = Apply { dry_run: true, force_conflicts: true };
        let all = [account::object(name)].into_iter().chain([registration]).chain(secrets);
        let judged = apply.all(host, all).await?;
        judged.iter().for_each(|one| printer.out_line(&format!("host: {}", one.line(true))));
        return Ok(ExitStatus::Success);
    }
    let account = Account { name, host };
    // Printed as notes, because standard output is the manifest.
    let note = |one: &Applied| printer.note_line(&format!("host: {}", one.line(false)));
    account.apply().await?.iter().for_each(note);
    opening.open(secrets, note).await?;
    let apply = Apply { dry_run: false, force_conflicts: true };
    apply.each(host, [registration], note).await?;
    if let Some(accounts) = arguments.service_accounts {
        printer.note_line(&format!("host: {}", service_accounts::write(host, name, accounts).await?));
    }
    let AgentToken { fresh, granted } = account.token(plan.token, None, clock).await?;
    let token = fresh.ok_or_else(|| no_token(name))?;
    printer.out(&manifest.text(&token));
    let left = human(arguments.by_agent.enroll_for);
    let kubectl_mc = host.cluster.kubectl_mc();
    printer.note_line(&format!("{name} is registered; its agent can enroll it until {until} ({left})"));
    printer.note_line(&granted.absence());
    granted.warning(&kubectl_mc, name).iter().for_each(|text| printer.note_line(&format!("warning: {text}")));
    printer.note_line("the manifest has the agent's token: hand it over as a credential");
    printer.note_line(RESETS);
    printer.note_line("Next, an administrator of the member runs: kubectl apply --server-side -f MANIFEST");
    printer.note_line(&format!(
        "Then: {kubectl} wait membercluster/{name} --for=condition=Ready --timeout={}s",
        arguments.by_agent.enroll_for.as_secs()
    ));
    Ok(ExitStatus::Success)
}

/// The enrollment of one member.
struct Opening<'a> {
    name: &'a ClusterName,
    host: &'a Connection,
    /// The sidecar's namespace on the host.
    namespace: &'a str,
    endpoint: &'a Endpoint,
}

impl Opening<'_> {
    /// Both Secrets, without the CA and the token.
    fn secrets(&self, until: Timestamp, host_uid: &str) -> Vec<Value> {
        let secret = |name: String| {
            let mut secret = objects::secret(self.namespace, &name, self.endpoint);
            secret["metadata"]["annotations"] =
                json!({ENROLLMENT_UNTIL: until.to_string(), HOST_UID: host_uid});
            secret
        };
        [self.name.manager_secret(), self.name.member_secret()].map(secret).into()
    }

    /// Deletes the remains of an unfinished enrollment, then writes the Secrets.
    async fn open(&self, secrets: Vec<Value>, report: impl FnMut(&Applied)) -> Result<(), Failure> {
        for secret in &secrets {
            let name = secret["metadata"]["name"].as_str().unwrap_or_default();
            let path = path::secret(self.namespace, name);
            let existing = self.host.get(&path).await?.unwrap_or_default();
            let obsolete = objects::obsolete(&existing, self.endpoint);
            if !obsolete.is_empty() {
                self.host.merge(&path, &json!({"data": obsolete})).await?;
            }
        }
        let apply = Apply { dry_run: false, force_conflicts: true };
        apply.each(self.host, secrets, report).await?;
        Ok(())
    }
}

/// The manifest is generated without reading the member.
const RESETS: &str = "warning: on a cluster that was a member before, the manifest resets the refused names and the bindable roles \
     in ConfigMap and ValidatingAdmissionPolicy kubectl-mc-manager: copy them into it first";

/// Refuses a member that has a credential, because it keeps its connection.
fn is_joined(name: &ClusterName, secret: Option<&Value>) -> Option<Finding> {
    let data = &secret?["data"];
    objects::CREDENTIAL.iter().any(|key| data[*key].is_string()).then(|| {
        Finding::Refused(
            format!("{name} is joined already"),
            mc(format!("join {name} --member-context=NAME --agent"))
                .after("choose another name; or, with a context of the member")
                .and(mc(format!("unjoin {name} --force")).after("or remove it first")),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn member_with_a_credential_is_not_enrolled_again() {
        let name = "m1".parse().unwrap();
        let with = |key: &str| json!({"data": {"server": "aA==", key: "dA=="}});
        assert_eq!(is_joined(&name, None), None);
        assert_eq!(is_joined(&name, Some(&with("via"))), None);
        for key in ["token", "tls.crt", "tls.key"] {
            assert!(matches!(is_joined(&name, Some(&with(key))), Some(Finding::Refused(..))), "{key}");
        }
    }
}
