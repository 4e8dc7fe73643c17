//! Implements `kubectl mc join`: makes a cluster a member of the host.

use http::Method;
use kubectl_mc_api::{ClusterName, direct, names, path};

use crate::cli::{Flags, JoinArgs};
use crate::cluster::connection::{self, Connection, ConnectionError};
use crate::cluster::context::{ClusterContext, HostOptions};
use crate::env::Env;
use crate::error::{Failure, Hint, mc};
use crate::exit::ExitStatus;
use crate::join::agent::plan::AgentPlan;
use crate::join::agent::steps::AgentSteps;
use crate::join::agent::survey::AgentSurvey;
use crate::join::endpoint::Endpoint;
use crate::join::judge::judge;
use crate::join::objects::{self, MemberSide};
use crate::join::preflight::{self, Names};
use crate::join::print::Halves;
use crate::join::steps::{Joined, StepError, Steps};
use crate::join::survey::{self, HostSurvey, MemberSurvey};
use crate::join::{agent, bindable_roles, enroll, manifest, member_context, renew, restore, role_changes};
use crate::printer::Printer;
use crate::settings::{self, ClusterNamesError, Settings};

pub(crate) fn run(
    arguments: &JoinArgs,
    flags: &Flags,
    env: &Env,
    printer: &Printer,
) -> Result<ExitStatus, Failure> {
    let options = Settings::host_of(flags, env)?;
    if arguments.all_expired {
        return renew::run(None, arguments, &options, env, printer);
    }
    if arguments.restore {
        // Without a name, all lost members are restored.
        let name = match settings::cluster_name(arguments.name.as_deref(), flags) {
            Err(ClusterNamesError::NoCluster) => None,
            name => Some(name?),
        };
        return restore::run(name.as_ref(), arguments, &options, env, printer);
    }
    let name = settings::new_cluster_name(arguments.name.as_deref(), flags)?;
    if arguments.by_agent.enroll {
        return enroll::run(&name, arguments, &options, env, printer);
    }
    if arguments.renew {
        return renew::run(Some(&name), arguments, &options, env, printer);
    }
    let member = member_context::member(&arguments.member, &options, env)?;
    let direct = match arguments.by_agent.agent {
        true => None,
        false => Some(Endpoint::new(&member.server, &member.cluster, &arguments.connection)?),
    };
    if arguments.print {
        return print(&name, arguments, &member, direct, &options, env, printer);
    }
    let host = ClusterContext::load(&options, env)?;
    let way = match direct {
        Some(endpoint) => Way::Direct(endpoint),
        None => Way::Agent(Box::new(agent_plan(&name, arguments, Some(&host))?)),
    };
    if host.context.is_some()
        && host.context == member.context
        && arguments.member.member_kubeconfig.is_none()
    {
        return Err(Failure::usage(format!(
            "host and member are the same context {:?}",
            host.context.unwrap_or_default()
        ))
        .with_hint("choose the host by --context=NAME and the member by --member-context=NAME"));
    }
    connection::run(async {
        let host = connection::to("host", host, env).await?;
        let member = connection::to("member", member, env).await?;
        join(&name, arguments, way, &host, &member, printer).await
    })
}

/// How the sidecar reaches the member.
enum Way {
    Direct(Endpoint),
    Agent(Box<AgentPlan>),
}

/// The agent that the flags describe.
fn agent_plan(
    name: &ClusterName,
    arguments: &JoinArgs,
    host: Option<&ClusterContext>,
) -> Result<AgentPlan, Failure> {
    AgentPlan::of(name, &arguments.by_agent, host.map(|host| (host.server.as_str(), &host.cluster)))
}

/// Prints the commands of a join. The only request is to the host, for its identity, and may fail.
fn print(
    name: &ClusterName,
    arguments: &JoinArgs,
    member: &ClusterContext,
    direct: Option<Endpoint>,
    options: &HostOptions,
    env: &Env,
    printer: &Printer,
) -> Result<ExitStatus, Failure> {
    let host = ClusterContext::load(options, env);
    let (endpoint, plan) = match direct {
        Some(endpoint) => (endpoint, None),
        None => {
            let plan = agent_plan(name, arguments, host.as_ref().ok())?.for_others()?;
            (plan.endpoint(None, None), Some(plan))
        }
    };
    let host_kubectl = host.as_ref().map_or_else(|_| "kubectl".to_owned(), ClusterContext::kubectl);
    let member_kubectl = member.kubectl();
    let names = Names {
        cluster: name,
        host_kubectl: &host_kubectl,
        member_kubectl: &member_kubectl,
        member_context: member.context.as_deref(),
    };
    judge(preflight::address(&names, None, &endpoint).into_iter().collect(), true, printer)?;
    let identity = host.map_err(Failure::from).and_then(|host| {
        connection::run(async {
            let host = connection::to("host", host, env).await?;
            Ok((survey::uid(&host).await?, survey::namespace(&host).await?))
        })
    });
    let (host_uid, namespace) = identity.unwrap_or_else(|failure| {
        let namespace = names::NAMESPACE;
        printer.note_line(&format!(
            "warning: the host did not answer: {failure}; the commands do not record its uid, and use namespace {namespace}"
        ));
        (String::new(), namespace.to_owned())
    });
    let halves = Halves {
        name,
        arguments,
        endpoint: &endpoint,
        agent: plan.as_ref(),
        host_kubectl: &host_kubectl,
        member_kubectl: &member_kubectl,
        host_uid: Some(host_uid.as_str()).filter(|uid| !uid.is_empty()),
        namespace: &namespace,
    };
    printer.out(&halves.text()?);
    Ok(ExitStatus::Success)
}

async fn join(
    name: &ClusterName,
    arguments: &JoinArgs,
    way: Way,
    host: &Connection,
    member: &Connection,
    printer: &Printer,
) -> Result<ExitStatus, Failure> {
    let JoinArgs { no_host_admins, dry_run, bindable_roles, service_accounts, .. } = arguments;
    let token_life = arguments.token_life();
    let timeout = arguments.timeout(matches!(way, Way::Agent(_)));
    let is_local = matches!(&way, Way::Direct(endpoint) if endpoint.locality().is_some());
    let (on_host, on_member) = (HostSurvey::of(host).await?, MemberSurvey::of(member, is_local).await?);
    // An interrupted change to an address may have left the agent's account.
    let has_agent = agent::renew::is_by_agent(host, &on_host.namespace, name).await?
        || host.readable(&agent::account::path_of(name)).await?.is_some();
    let (endpoint, by_agent) = way.survey(host, member).await?;
    let endpoint = &endpoint;
    let surveys = Surveys { host, member, on_host: &on_host, on_member: &on_member };
    surveys.judge(name, arguments, endpoint, by_agent.as_ref(), has_agent, printer)?;
    let agent = by_agent.as_ref().map(|(plan, survey)| AgentSteps {
        name,
        plan,
        found: &survey.found,
        host,
        member,
        clock: on_host.clock,
    });

    // Without the flag, the list in the ConfigMap of the member's administrators applies.
    let policy = on_member.policy.as_ref();
    let roles = bindable_roles.clone().unwrap_or_else(|| bindable_roles::listed(policy));
    let side = MemberSide {
        cluster: name,
        host_uid: Some(&on_host.uid),
        host_admins: !no_host_admins,
        validates: on_member.validates,
        foreign_namespace: objects::is_foreign(on_member.namespace.as_ref()),
        keeps_policy: policy.is_some(),
        token_life,
        bindable_roles: &roles,
        refusals: &on_member.refusals,
    };
    let member_objects = side.objects(manifest::member()?);
    let mut surplus = side.surplus(member.readable(&host_admins_binding()).await?.as_ref());
    surplus.extend(role_changes::surplus(member, &on_member, &roles).await?);
    let steps = Steps {
        name,
        host,
        member,
        endpoint,
        agent,
        removes_agent: has_agent && by_agent.is_none(),
        namespace: &on_host.namespace,
        registration: objects::member_cluster(name, &arguments.labels, Some(&on_member.uid)),
        member_objects,
        bindable_roles: bindable_roles::patch(policy, &roles),
        service_accounts: *service_accounts,
        surplus,
        token_life,
        timeout,
        printer,
    };
    // A dry run also checks admission and RBAC escalation before anything is written.
    let judged = steps.judge_member().await?;
    if *dry_run {
        steps.preview(&judged).await?;
        return Ok(ExitStatus::Success);
    }
    // Each request is a step that can be repeated.
    let joined = steps.run().await.map_err(|error| not_joined(name, error))?;
    report(name, host, &on_member, endpoint, &joined, printer).await?;
    Ok(ExitStatus::Success)
}

impl Way {
    /// The endpoint of the member, and the agent with its survey.
    async fn survey(
        self,
        host: &Connection,
        member: &Connection,
    ) -> Result<(Endpoint, Option<(AgentPlan, AgentSurvey)>), Failure> {
        let plan = match self {
            Self::Direct(endpoint) => return Ok((endpoint, None)),
            Self::Agent(plan) => plan,
        };
        let published = host.readable(&direct::path()).await?.unwrap_or_default();
        let plan = plan.with_direct_endpoint(&published);
        let survey = AgentSurvey::of(&plan, host, member).await?;
        Ok((plan.endpoint(Some(&survey.found), survey.root_ca.clone()), Some((plan, survey))))
    }
}

/// Both sides, in their state before the join.
struct Surveys<'a> {
    host: &'a Connection,
    member: &'a Connection,
    on_host: &'a HostSurvey,
    on_member: &'a MemberSurvey,
}

impl Surveys<'_> {
    /// Prints the findings for and against the join; see [`judge`].
    fn judge(
        &self,
        name: &ClusterName,
        arguments: &JoinArgs,
        endpoint: &Endpoint,
        by_agent: Option<&(AgentPlan, AgentSurvey)>,
        has_agent: bool,
        printer: &Printer,
    ) -> Result<(), Failure> {
        let Self { host, member, on_host, on_member } = self;
        let (host_kubectl, member_kubectl) = (host.cluster.kubectl(), member.cluster.kubectl());
        let names = Names {
            cluster: name,
            host_kubectl: &host_kubectl,
            member_kubectl: &member_kubectl,
            member_context: member.cluster.context.as_deref(),
        };
        let mut findings = preflight::check(&names, on_host, on_member, endpoint, arguments.token_life());
        match by_agent {
            Some((plan, survey)) => findings.extend(survey.findings(&names, plan)),
            None => findings.extend(preflight::agent_is_kept(name, has_agent, endpoint)),
        }
        findings.extend(arguments.bindable_roles.iter().flat_map(role_changes::findings));
        judge(findings, arguments.yes || arguments.dry_run, printer)
    }
}

/// Prints the result of a join and the next command.
async fn report(
    name: &ClusterName,
    host: &Connection,
    on_member: &MemberSurvey,
    endpoint: &Endpoint,
    Joined { granted, agent }: &Joined,
    printer: &Printer,
) -> Result<(), Failure> {
    let next = next_command(host, name).await?;
    let place = if endpoint.via_agent { "through its agent" } else { &format!("at {}", endpoint.server) };
    printer.out_line(&format!("{name} is joined: Kubernetes {} {place}", on_member.version));
    printer.out_line(&granted.outage());
    let kubectl_mc = host.cluster.kubectl_mc();
    let warning = agent.as_ref().and_then(|agent| agent.warning(&kubectl_mc, name));
    agent.iter().for_each(|agent| printer.out_line(&agent.absence()));
    for warning in granted.warning(&kubectl_mc, name).into_iter().chain(warning) {
        printer.note_line(&format!("warning: {warning}"));
    }
    printer.out_line(&format!("Next: {next}"));
    Ok(())
}

/// The most informative command that this caller may run on the new member.
async fn next_command(host: &Connection, name: &ClusterName) -> Result<String, ConnectionError> {
    let (root, kubectl_mc) = (path::member_root(name), host.cluster.kubectl_mc());
    for (below, words) in CANDIDATES {
        let answer = host.send(Method::GET, &format!("{root}{below}"), None).await?;
        if answer.status.is_success() {
            return Ok(format!("{kubectl_mc} --cluster={name} {words}"));
        }
    }
    Ok(format!("{kubectl_mc} access explain -C {name} get pods"))
}

const CANDIDATES: &[(&str, &str)] = &[
    ("/api/v1/pods?limit=1", "get pods -A"),
    ("/api/v1/namespaces/default/pods?limit=1", "get pods -n default"),
    ("/version", "version"),
];

/// The binding of the host's administrators on a member.
fn host_admins_binding() -> String {
    format!("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/{}", names::HOST_ADMINS)
}

fn not_joined(name: &ClusterName, error: StepError) -> Failure {
    let go_on = Hint::from("run the same command again to continue")
        .and(mc(format!("unjoin {name} --member-context=NAME")).that("removes it"));
    let (text, status, hint) = match error {
        StepError::Interrupted => {
            (format!("interrupted: {name} may be partly joined"), ExitStatus::Interrupted, None)
        }
        error => {
            let status = if error.is_interrupt() { ExitStatus::Interrupted } else { ExitStatus::Failed };
            (format!("cannot finish joining {name}: {error}"), status, error.hint())
        }
    };
    let hint = hint.map_or_else(|| go_on.clone(), |hint| hint.and(go_on.clone()));
    Failure::new(text).with_hint(hint).with_status(status)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interrupted_and_undone_change_has_the_status_of_a_signal() {
        let status = |source: StepError| {
            let source = StepError::Undone(Box::new(source));
            not_joined(&"m1".parse().unwrap(), source).status
        };
        assert_eq!(status(StepError::Interrupted), ExitStatus::Interrupted);
        assert_eq!(status(StepError::Failed(Failure::usage("e").with_hint("h"))), ExitStatus::Failed);
    }
}
