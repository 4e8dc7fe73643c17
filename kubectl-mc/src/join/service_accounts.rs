//! Sets under which name the host's service accounts act on a member (`spec.impersonation.serviceAccounts`).
//!
//! The field has its own field manager, so that a later join without the flag does not change it.

use http::Method;
use kubectl_mc_api::ClusterName;
use kubectl_mc_api::member_cluster::ServiceAccounts;
use kubectl_mc_api::names::FLEET_GROUP_VERSION;
use kubectl_mc_api::path;
use serde_json::{Value, json};

use super::here_document::here_document;
use crate::cluster::connection::Connection;
use crate::error::{CommandLine, Failure};

/// Writes the field of a registered member, and returns a line of output. The member's policy must
/// already allow the names.
pub(crate) async fn write(
    host: &Connection,
    name: &ClusterName,
    accounts: ServiceAccounts,
) -> Result<String, Failure> {
    let cluster = path::member_cluster(name);
    let patch = json!({"spec": spec(accounts)});
    let to = format!("{cluster}?fieldManager={FIELD_MANAGER}");
    let answer = host.send(Method::PATCH, &to, Some(("application/merge-patch+json", &patch))).await?;
    if !answer.status.is_success() {
        return Err(host.refused(format!("patch {cluster}"), &answer).into());
    }
    // A host whose CustomResourceDefinition does not know the field drops it.
    if answer.json()["spec"]["impersonation"]["serviceAccounts"] != json!(accounts) {
        let install = CommandLine::new(format!("{} install", host.cluster.kubectl_mc()));
        return Err(Failure::new(format!(
            "the host dropped spec.impersonation.serviceAccounts of MemberCluster {name}: it does not know the field"
        ))
        .with_hint(install.after("update the sidecar on the host, then join again")));
    }
    Ok(line(name, accounts))
}

/// `membercluster.fleet.kubectl-mc.dev/m1: service accounts Prefixed`
pub(crate) fn line(name: &ClusterName, accounts: ServiceAccounts) -> String {
    format!("membercluster.fleet.kubectl-mc.dev/{name}: service accounts {accounts:?}")
}

/// The command that creates the registration with the field, before its Secrets exist.
pub(crate) fn shell(kubectl: &str, name: &ClusterName, accounts: ServiceAccounts) -> String {
    let object: Value = json!({
        "apiVersion": FLEET_GROUP_VERSION,
        "kind": "MemberCluster",
        "metadata": {"name": name.as_str()},
        "spec": spec(accounts),
    });
    format!(
        "{kubectl} apply --server-side --force-conflicts --field-manager={FIELD_MANAGER} -f - <<EOF\n{}EOF\n",
        here_document(|_| vec![object.clone()])
    )
}

fn spec(accounts: ServiceAccounts) -> Value {
    json!({"impersonation": {"serviceAccounts": accounts}})
}

const FIELD_MANAGER: &str = "kubectl-mc-service-accounts";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn printed_command_applies_the_field_alone() {
        let name = "m1".parse().unwrap();
        let text = shell("kubectl --context=h", &name, ServiceAccounts::Prefixed);
        let begin = "kubectl --context=h apply --server-side --force-conflicts \
                     --field-manager=kubectl-mc-service-accounts -f - <<EOF\n";
        assert!(text.starts_with(begin) && text.ends_with("\nEOF\n"), "{text}");
        assert!(text.contains("name: m1\n") && text.contains("serviceAccounts: Prefixed\n"), "{text}");
        assert!(!text.contains("labels") && !text.contains("annotations"), "a later join owns these: {text}");
    }
}
