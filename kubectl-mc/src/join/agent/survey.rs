//! Reads the existing objects of an agent on both sides before a join, and decides whether the join may
//! begin.

use kubectl_mc_api::names::{AGENT_NAMESPACE, AGENTS};

use super::found::Found;
use super::plan::AgentPlan;
use crate::cli::AgentTokenLife;
use crate::cluster::connection::{Connection, ConnectionError};
use crate::error::{CommandLine, mc};
use crate::join::address;
use crate::join::preflight::{Finding, Names, rights};
use crate::join::survey::{RBAC, Rights, attributes, missing, own_server};

/// The state of both sides.
#[derive(Clone, Debug, Default)]
pub(crate) struct AgentSurvey {
    /// Whether the host has the namespace for the accounts of agents.
    pub(crate) host_serves: bool,
    /// The certificate authority that the member's own pods trust.
    pub(crate) root_ca: Option<String>,
    pub(crate) found: Found,
    missing_on_host: Vec<String>,
    missing_on_member: Vec<String>,
    local: Option<LocalServer>,
}

/// An address of the host that only this machine can use.
#[derive(Clone, Debug)]
struct LocalServer {
    /// Why, in words.
    what: &'static str,
    /// The address at which the host is probably reachable.
    likely: Option<String>,
}

impl AgentSurvey {
    pub(crate) async fn of(
        plan: &AgentPlan,
        host: &Connection,
        member: &Connection,
    ) -> Result<Self, ConnectionError> {
        let root_ca = member.readable("/api/v1/namespaces/kube-system/configmaps/kube-root-ca.crt").await?;
        let root_ca = root_ca.unwrap_or_default();
        Ok(Self {
            root_ca: root_ca["data"]["ca.crt"].as_str().map(str::to_owned),
            found: Found::of(member).await?,
            missing_on_member: missing(member, attributes(RIGHTS_ON_MEMBER).collect()).await?,
            ..Self::of_host(plan, host).await?
        })
    }

    /// Reads the host's side.
    pub(crate) async fn of_host(plan: &AgentPlan, host: &Connection) -> Result<Self, ConnectionError> {
        let mut rights: Vec<_> = attributes(RIGHTS_ON_HOST).collect();
        if plan.token == Some(AgentTokenLife::Forever) {
            rights.extend(attributes(RIGHTS_TO_TOKEN_SECRETS));
        }
        Ok(Self {
            host_serves: host.readable(&format!("/api/v1/namespaces/{AGENTS}")).await?.is_some(),
            missing_on_host: missing(host, rights).await?,
            local: match plan.locality() {
                Some(what) => Some(LocalServer { what, likely: likely_server(host).await }),
                None => None,
            },
            ..Self::default()
        })
    }

    /// The findings: refusals, warnings and remarks.
    pub(crate) fn findings(&self, names: &Names<'_>, plan: &AgentPlan) -> Vec<Finding> {
        let mut findings = self.findings_of_host(names.host_kubectl, plan);
        if self.root_ca.is_none() {
            findings.push(Finding::Refused(
                "the member's certificate authority is unknown: you may not get its ConfigMap \
                 kube-system/kube-root-ca.crt, or it has none"
                    .to_owned(),
                CommandLine::new(format!(
                    "{} -n kube-system get configmap kube-root-ca.crt",
                    names.member_kubectl
                ))
                .after("see"),
            ));
        }
        findings.extend(rights("member", names.member_kubectl, &self.missing_on_member));
        findings.extend(self.found.owner().map(|owner| {
            Finding::Fine(format!("{owner} manages the agent on the member: only its Secret is written"))
        }));
        findings
    }

    /// The findings about the host.
    pub(crate) fn findings_of_host(&self, kubectl: &str, plan: &AgentPlan) -> Vec<Finding> {
        let mut findings = Vec::new();
        if !self.host_serves {
            findings.push(Finding::Refused(
                format!("the host serves no agents: it has no namespace {AGENTS}"),
                mc("install").after("upgrade the sidecar"),
            ));
        }
        if let Some(LocalServer { what, likely }) = &self.local {
            let hint = match likely {
                Some(server) => format!("the host is likely reached by --agent-server={server}"),
                None => {
                    "set the host's address in the network of the member: --agent-server=https://…".to_owned()
                }
            };
            findings.push(Finding::Refused(
                format!("the host's server {} is {}: the agent cannot reach it", plan.host.server, what),
                hint.into(),
            ));
        }
        findings.extend(plan.unpinned().map(|unpinned| {
            Finding::Refused(unpinned.to_string(), unpinned.hint.unwrap_or_else(|| "".into()))
        }));
        findings.extend(rights("host", kubectl, &self.missing_on_host));
        findings
    }
}

/// The address that the host itself publishes.
async fn likely_server(host: &Connection) -> Option<String> {
    let own = own_server(host).await.filter(|server| !address::is_local(server));
    own.or_else(|| address::of_context(host.cluster.context.as_deref()?))
}

const RIGHTS_ON_HOST: &[Rights<'static>] = &[
    (&["get", "create", "patch"], "", "serviceaccounts", "", AGENTS),
    (&["create"], "", "serviceaccounts", "token", AGENTS),
    (&["get"], "", "secrets", "", AGENTS),
];
const RIGHTS_TO_TOKEN_SECRETS: &[Rights<'static>] = &[(&["create", "patch"], "", "secrets", "", AGENTS)];

const RIGHTS_ON_MEMBER: &[Rights<'static>] = &[
    (&["create", "patch"], "", "serviceaccounts", "", AGENT_NAMESPACE),
    (&["get", "create", "patch"], "", "secrets", "", AGENT_NAMESPACE),
    (&["create", "patch"], RBAC, "roles", "", AGENT_NAMESPACE),
    (&["create", "patch"], RBAC, "rolebindings", "", AGENT_NAMESPACE),
    (&["create", "patch"], "networking.k8s.io", "networkpolicies", "", AGENT_NAMESPACE),
    (&["create", "patch"], "policy", "poddisruptionbudgets", "", AGENT_NAMESPACE),
    (&["get", "create", "patch"], "apps", "deployments", "", AGENT_NAMESPACE),
];

#[cfg(test)]
mod tests;
