//! Implements `kubectl mc join --print`: prints the commands of a join for two administrators. The member's
//! half prints the tokens that the host's half needs.

use std::fmt::Write;
use std::time::Duration;

use kubectl_mc_api::ClusterName;
use kubectl_mc_api::names::{
    HOST_ADMINS, IMPERSONATOR, KUBECTL_MC, MANAGED_BY, MANAGER, MEMBER_UID, NAMESPACE, SECRET_TYPE,
};
use kubectl_mc_api::token_life::of_manager;
use serde_json::{Value, json};

use super::agent::plan::AgentPlan;
use super::agent::shell;
use super::bindable_roles;
use super::endpoint::Endpoint;
use super::here_document::here_document;
use super::manifest;
use super::objects::MemberSide;
use super::{refusals, service_accounts, token_policy};
use crate::apply::diff::documents;
use crate::cli::JoinArgs;
use crate::error::Failure;

/// The input of both halves.
pub(crate) struct Halves<'a> {
    pub(crate) name: &'a ClusterName,
    pub(crate) arguments: &'a JoinArgs,
    pub(crate) endpoint: &'a Endpoint,
    /// The agent that carries the connection.
    pub(crate) agent: Option<&'a AgentPlan>,
    /// `kubectl --context=…` of each side.
    pub(crate) host_kubectl: &'a str,
    pub(crate) member_kubectl: &'a str,
    /// The uid of the host's kube-system, if the host answered.
    pub(crate) host_uid: Option<&'a str>,
    /// The sidecar's namespace on the host.
    pub(crate) namespace: &'a str,
}

impl Halves<'_> {
    pub(crate) fn text(&self) -> Result<String, Failure> {
        let mut text = format!("{}\n{}", self.member()?, self.host()?);
        if let Some(plan) = self.agent {
            let _ = write!(
                text,
                "\n# On the member again, in a shell that has AGENT_TOKEN: the agent, which makes {} ready.\n{}",
                self.name,
                shell::start(self.member_kubectl, plan)?
            );
            let _ = write!(text, "\n# On the host again.\n{}", waits(self.host_kubectl, self.name));
        }
        Ok(text)
    }

    fn member(&self) -> Result<String, Failure> {
        let Self { name, arguments, agent, member_kubectl: kubectl, host_uid, .. } = self;
        let JoinArgs { no_host_admins, bindable_roles, .. } = arguments;
        let token_life = arguments.token_life();
        let roles = bindable_roles.clone().unwrap_or_default();
        let side = MemberSide::unread(name, *host_uid, arguments, &roles);
        let objects = side.objects(manifest::member()?);
        let token = |account, life: Duration| {
            format!("$({kubectl} -n {NAMESPACE} create token {account} --duration={}s)", life.as_secs())
        };
        // Objects that an earlier join may have created.
        let mut surplus = match no_host_admins {
            true => format!("{kubectl} delete clusterrolebinding {HOST_ADMINS} --ignore-not-found\n"),
            false => String::new(),
        };
        surplus.push_str(&bindable_roles::shell(kubectl, &roles));
        let audiences = token_policy::shell(kubectl, NAMESPACE, MANAGER);
        let (ca, variables) = match agent {
            Some(_) => (shell::member_ca(kubectl), "MEMBER_UID|MEMBER_CA|IMPERSONATOR_TOKEN|MANAGER_TOKEN"),
            None => (String::new(), "MEMBER_UID|IMPERSONATOR_TOKEN|MANAGER_TOKEN"),
        };
        let commands = format!(
            "{kubectl} apply --server-side --field-manager=kubectl-mc -f - <<'EOF'\n\
             {}\
             EOF\n\
             {surplus}\
             {audiences}\
             export MEMBER_UID=$({kubectl} get namespace kube-system -o jsonpath='{{.metadata.uid}}')\n\
             {ca}\
             export IMPERSONATOR_TOKEN={}\n\
             export MANAGER_TOKEN={}\n",
            documents(&objects),
            token(IMPERSONATOR, token_life),
            token(MANAGER, of_manager(token_life))
        );
        Ok(format!(
            "# On the member, as its administrator. Before Kubernetes 1.30, leave out what has ValidatingAdmissionPolicy in \
             its name.\n\
             {}\
             # If another person administers the host, hand over the lines below as credentials:\n\
             #   export -p | grep -E '({variables})='\n",
            refusals::shell(kubectl, name, bindable_roles.is_some(), &commands),
        ))
    }

    fn host(&self) -> Result<String, Failure> {
        let Self { name, arguments, endpoint, agent, host_kubectl: kubectl, .. } = self;
        let JoinArgs { labels, .. } = arguments;
        let key = match endpoint.proxy_tls.has_key() {
            true => {
                "# The Secrets hold the private key of --proxy-client-key: treat this as the credential that it is.\n"
            }
            false => "",
        };
        let accounts = arguments.service_accounts;
        let accounts =
            accounts.map(|accounts| service_accounts::shell(kubectl, name, accounts)).unwrap_or_default();
        let mut text = format!(
            "# On the host, as its administrator, in a shell that has those variables.\n\
             {accounts}{key}{kubectl} apply --server-side --field-manager=kubectl-mc -f - <<EOF\n"
        );
        text.push_str(&here_document(|variable| {
            let uid = variable("MEMBER_UID");
            let mut registration = super::objects::member_cluster(name, labels, Some(&uid));
            registration["metadata"]["annotations"][MEMBER_UID] = uid.into();
            let tokens =
                [(name.manager_secret(), "MANAGER_TOKEN"), (name.member_secret(), "IMPERSONATOR_TOKEN")];
            let secrets = tokens.map(|(secret, token)| self.secret_in_clear(&secret, token, variable));
            let account = agent.map(|plan| shell::account(name, plan)).unwrap_or_default();
            account.into_iter().chain([registration]).chain(secrets).collect()
        }));
        text.push_str("EOF\n");
        match agent {
            Some(plan) => {
                text.push_str(&shell::token(kubectl, name, plan));
                text.push_str(
                    "# If another person administers the member, hand over the lines below as a credential:\n\
                     #   export -p | grep AGENT_TOKEN=\n",
                );
            }
            None => text.push_str(&waits(kubectl, name)),
        }
        Ok(text)
    }

    /// A Secret in readable form (`stringData`); the shell inserts the token.
    fn secret_in_clear(&self, name: &str, token: &str, variable: &dyn Fn(&str) -> String) -> Value {
        let Self { endpoint, namespace, .. } = self;
        let mut data = endpoint.data();
        data.insert("token", variable(token));
        let mut secret = json!({
            "apiVersion": "v1",
            "kind": "Secret",
            "type": SECRET_TYPE,
            "metadata": {"name": name, "namespace": namespace, "labels": {MANAGED_BY: KUBECTL_MC}},
            "stringData": data,
        });
        if endpoint.via_agent {
            secret["data"] = json!({"ca.crt": variable(shell::MEMBER_CA)});
        }
        secret
    }
}

fn waits(kubectl: &str, name: &ClusterName) -> String {
    format!("{kubectl} wait membercluster/{name} --for=condition=Ready --timeout=120s\n")
}
