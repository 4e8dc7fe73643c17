//! `kubectl mc join --print`: the commands of a join for two administrators. The member's half prints the tokens
//! that the host's half needs.

use std::fmt::Write;
use std::time::Duration;

use kubectl_mc_api::ClusterName;
use kubectl_mc_api::names::{
    HOST_ADMINS, IMPERSONATOR, KUBECTL_MC, MANAGED_BY, MANAGER, MEMBER_UID, NAMESPACE, SECRET_TYPE,
};
use kubectl_mc_api::token_life::of_manager;

use super::bindable_roles;
use super::endpoint::Endpoint;
use super::manifest;
use super::objects::MemberSide;
use super::refusals::Variables;
use super::token_policy;
use crate::apply::diff::documents;
use crate::cli::JoinArgs;
use crate::error::Failure;

/// The input of both halves.
pub(crate) struct Halves<'a> {
    pub(crate) name: &'a ClusterName,
    pub(crate) arguments: &'a JoinArgs,
    pub(crate) endpoint: &'a Endpoint,
    /// `kubectl --context=…` of each side.
    pub(crate) host_kubectl: &'a str,
    pub(crate) member_kubectl: &'a str,
    /// The uid of the host's kube-system, if it could be asked.
    pub(crate) host_uid: Option<&'a str>,
    /// The sidecar's, on the host.
    pub(crate) namespace: &'a str,
}

impl Halves<'_> {
    pub(crate) fn text(&self) -> Result<String, Failure> {
        Ok(format!("{}\n{}", self.member()?, self.host()?))
    }

    fn member(&self) -> Result<String, Failure> {
        let Self { name, arguments, member_kubectl: kubectl, host_uid, .. } = self;
        let JoinArgs { no_host_admins, token_duration, bindable_roles, .. } = arguments;
        let roles = bindable_roles.clone().unwrap_or_default();
        let side = MemberSide {
            cluster: name,
            host_uid: *host_uid,
            host_admins: !no_host_admins,
            validates: true,
            foreign_namespace: false,
            keeps_policy: false,
            token_life: *token_duration,
            bindable_roles: &roles,
            refusals: &Variables::new(),
        };
        let objects = side.objects(manifest::member()?);
        let token = |account, life: Duration| {
            format!("$({kubectl} -n {NAMESPACE} create token {account} --duration={}s)", life.as_secs())
        };
        let mut text = format!(
            "# On the member, as its administrator. Before Kubernetes 1.30, leave out what has ValidatingAdmissionPolicy in its name.\n{kubectl} apply --server-side --field-manager=kubectl-mc -f - <<'EOF'\n"
        );
        text.push_str(&documents(&objects));
        // What an earlier join may have made.
        let mut surplus = match no_host_admins {
            true => format!("{kubectl} delete clusterrolebinding {HOST_ADMINS} --ignore-not-found\n"),
            false => String::new(),
        };
        surplus.push_str(&bindable_roles::shell(kubectl, &roles));
        let audiences = token_policy::shell(kubectl, NAMESPACE, MANAGER);
        let _ = write!(
            text,
            "EOF\n\
             {surplus}\
             {audiences}\
             export MEMBER_UID=$({kubectl} get namespace kube-system -o jsonpath='{{.metadata.uid}}')\n\
             export IMPERSONATOR_TOKEN={}\n\
             export MANAGER_TOKEN={}\n\
             # If somebody else administers the host, hand these over, as the credentials that they are:\n\
             #   export -p | grep -E '(MEMBER_UID|IMPERSONATOR_TOKEN|MANAGER_TOKEN)='\n",
            token(IMPERSONATOR, *token_duration),
            token(MANAGER, of_manager(*token_duration))
        );
        Ok(text)
    }

    fn host(&self) -> Result<String, Failure> {
        let Self { name, arguments: JoinArgs { labels, .. }, endpoint, host_kubectl: kubectl, .. } = self;
        let mut text = format!(
            "# On the host, as its administrator, in a shell that has those three variables.\n\
             {kubectl} apply --server-side --field-manager=kubectl-mc -f - <<EOF\n"
        );
        let mut registration = super::objects::member_cluster(name, labels, Some("$MEMBER_UID"));
        registration["metadata"]["annotations"][MEMBER_UID] = "$MEMBER_UID".into();
        let secrets =
            [(name.manager_secret(), "$MANAGER_TOKEN"), (name.member_secret(), "$IMPERSONATOR_TOKEN")];
        let secrets =
            secrets.map(|(secret, token)| secret_in_clear(self.namespace, &secret, endpoint, token));
        text.push_str(&documents(std::iter::once(&registration).chain(&secrets)));
        let _ = write!(text, "EOF\n{}", waits(kubectl, name));
        Ok(text)
    }
}

/// A Secret as people read it; the shell puts the token in.
fn secret_in_clear(namespace: &str, name: &str, endpoint: &Endpoint, token: &str) -> serde_json::Value {
    let mut data = endpoint.data();
    data.insert("token", token.to_owned());
    serde_json::json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "type": SECRET_TYPE,
        "metadata": {"name": name, "namespace": namespace, "labels": {MANAGED_BY: KUBECTL_MC}},
        "stringData": data,
    })
}

fn waits(kubectl: &str, name: &ClusterName) -> String {
    format!("{kubectl} wait membercluster/{name} --for=condition=Ready --timeout=120s\n")
}
