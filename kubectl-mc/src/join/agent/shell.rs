//! Prints the agent's part of the commands for two administrators. The agent starts last, when the host knows
//! the cluster.

use kubectl_mc_api::ClusterName;
use kubectl_mc_api::names::AGENTS;
use serde_json::Value;

use super::account;
use super::plan::AgentPlan;
use crate::apply::diff::documents;
use crate::cli::AgentTokenLife;
use crate::error::Failure;
use crate::join::here_document::here_document;

/// The variable that passes the member's certificate authority to the host: base64, as in a Secret's `data`.
pub(crate) const MEMBER_CA: &str = "MEMBER_CA";

/// The command that reads the member's certificate authority.
pub(crate) fn member_ca(kubectl: &str) -> String {
    format!(
        "export {MEMBER_CA}=$({kubectl} -n kube-system get configmap kube-root-ca.crt -o jsonpath='{{.data.ca\\.crt}}' | \
         base64 | tr -d '\\n')\n"
    )
}

/// The objects of the agent's account.
pub(crate) fn account(name: &ClusterName, plan: &AgentPlan) -> Vec<Value> {
    let mut objects = vec![account::object(name)];
    if plan.token == Some(AgentTokenLife::Forever) {
        objects.push(account::token_secret(name));
    }
    objects
}

/// The command that requests the token of the agent's account.
pub(crate) fn token(kubectl: &str, name: &ClusterName, plan: &AgentPlan) -> String {
    let command = match plan.token {
        Some(AgentTokenLife::Forever) => format!(
            "{kubectl} -n {AGENTS} wait secret {name} --for=jsonpath='{{.data.token}}' >/dev/null && \
             {kubectl} -n {AGENTS} get secret {name} -o jsonpath='{{.data.token}}' | base64 -d"
        ),
        other => {
            let life = account::life(other).as_secs();
            format!("{kubectl} -n {AGENTS} create token {name} --duration={life}s")
        }
    };
    format!("export AGENT_TOKEN=$({command})\n")
}

/// The commands that start the agent, in a shell that has its token in a variable.
pub(crate) fn start(kubectl: &str, plan: &AgentPlan) -> Result<String, Failure> {
    let objects = plan.objects()?;
    let (pods, others): (Vec<_>, Vec<_>) =
        objects.into_iter().partition(|object| object["kind"] == "Deployment");
    let apply = format!("{kubectl} apply --server-side --field-manager=kubectl-mc -f -");
    let secret = here_document(|variable| vec![plan.host.secret_in_clear(&variable("AGENT_TOKEN"))]);
    Ok(format!(
        "{apply} <<'EOF'\n{}EOF\n{apply} --force-conflicts <<EOF\n{secret}EOF\n{apply} <<'EOF'\n{}EOF\n",
        documents(&others),
        documents(&pods),
    ))
}
