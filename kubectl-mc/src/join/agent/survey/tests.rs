use kube::config::Cluster;
use kubectl_mc_api::names::{KUBECTL_MC, MANAGED_BY};
use serde_json::json;

use super::*;
use crate::cli::AgentArgs;

fn survey() -> AgentSurvey {
    AgentSurvey { host_serves: true, root_ca: Some("PEM".to_owned()), ..AgentSurvey::default() }
}

/// The texts of the refusals, with their hints.
fn refusals(survey: &AgentSurvey, server: &str) -> Vec<String> {
    let known = Cluster { certificate_authority_data: Some("UEVN".to_owned()), ..Cluster::default() };
    refusals_with(survey, server, &known)
}

/// The same for a host's cluster of this kubeconfig.
fn refusals_with(survey: &AgentSurvey, server: &str, host: &Cluster) -> Vec<String> {
    let cluster = "m1".parse().unwrap();
    let names = Names {
        cluster: &cluster,
        host_kubectl: "kubectl --context=h",
        member_kubectl: "kubectl --context=m1",
        member_context: Some("m1"),
    };
    let plan = AgentPlan::of(&cluster, &AgentArgs::default(), Some((server, host))).unwrap();
    let findings = survey.findings(&names, &plan).into_iter();
    findings
        .filter_map(|finding| match finding {
            Finding::Refused(what, hint) => Some(format!("{what}: {hint}")),
            Finding::Fine(_) | Finding::Warning(_) => None,
        })
        .collect()
}

#[test]
fn complete_survey_has_no_refusals() {
    assert_eq!(refusals(&survey(), "https://h"), [""; 0]);
}

#[test]
fn host_without_agents_is_to_be_upgraded() {
    let refusals = refusals(&AgentSurvey { host_serves: false, ..survey() }, "https://h");
    assert_eq!(
        refusals,
        [
            "the host serves no agents: it has no namespace kubectl-mc-agents: upgrade the sidecar: kubectl mc install"
        ]
    );
}

#[test]
fn local_address_of_the_host_comes_with_a_suggestion() {
    let local = |likely: Option<&str>| {
        let what = address::local("https://127.0.0.1:6443").unwrap();
        let local = Some(LocalServer { what, likely: likely.map(str::to_owned) });
        refusals(&AgentSurvey { local, ..survey() }, "https://127.0.0.1:6443").join("")
    };
    let said = local(Some("https://10.0.0.1:6443"));
    assert!(
        said.contains("https://127.0.0.1:6443 is a loopback address: the agent cannot reach it"),
        "{said}"
    );
    assert!(said.contains("--agent-server=https://10.0.0.1:6443"), "{said}");
    assert!(local(None).contains("--agent-server=https://…"));
}

#[test]
fn unknown_authority_of_the_member_is_refused() {
    let said = refusals(&AgentSurvey { root_ca: None, ..survey() }, "https://h").join("");
    assert!(
        said.contains("kube-root-ca.crt") && said.contains("kubectl --context=m1 -n kube-system"),
        "{said}"
    );
}

#[test]
fn fault_45_unknown_authority_of_the_host_is_refused() {
    let said = refusals_with(&survey(), "https://h", &Cluster::default()).join("");
    assert!(said.contains("the certificate authority of the host's server https://h is unknown"), "{said}");
    assert!(said.contains("--agent-server-ca=FILE"), "{said}");
}

#[test]
fn missing_rights_are_named_for_each_side() {
    let survey = AgentSurvey {
        missing_on_host: vec!["create serviceaccounts/token in kubectl-mc-agents".to_owned()],
        missing_on_member: vec!["create deployments.apps in kubectl-mc-agent".to_owned()],
        ..survey()
    };
    let said = refusals(&survey, "https://h").join("\n");
    assert!(said.contains("on the host: create serviceaccounts/token in kubectl-mc-agents"), "{said}");
    assert!(said.contains("on the member: create deployments.apps in kubectl-mc-agent"), "{said}");
}

#[test]
fn agent_owner_is_the_tool_that_created_it() {
    let by = |owner: &str| Found {
        deployment: Some(json!({"metadata": {"labels": {MANAGED_BY: owner}}})),
        ..Found::default()
    };
    assert_eq!(by("Helm").owner(), Some("Helm"));
    assert_eq!(by(KUBECTL_MC).owner(), None);
    assert_eq!(Found::default().owner(), None);
    let unlabeled = Found { deployment: Some(json!({"metadata": {}})), ..Found::default() };
    assert_eq!(unlabeled.owner(), Some("another tool"));
}
