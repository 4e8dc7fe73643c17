//! Checks the registry of the host: members whose MemberClusters are missing, and the policy that
//! forbids deleting it. Callers who may not read Secrets or policies get no findings.

use std::fmt::Write as _;

use kubectl_mc_api::names::{ALLOW_DELETION, DELETION_POLICY};
use serde_json::Value;

use super::report::Finding;
use crate::cluster::connection::Connection;
use crate::cluster::context::ClusterContext;
use crate::join::lost::{self, Lost};
use crate::join::survey;

pub(super) async fn check(host: &ClusterContext, client: &kube::Client) -> Vec<Finding> {
    if host.hub.is_foreign() {
        return Vec::new();
    }
    let side = Connection { role: "host", client: client.clone(), cluster: host.clone() };
    let Ok(namespace) = survey::namespace(&side).await else { return Vec::new() };
    let Ok(lost) = lost::find(&side, &namespace).await else { return Vec::new() };
    let kubectl_mc = host.kubectl_mc();
    let mut findings: Vec<_> = missing(&lost, &kubectl_mc).into_iter().collect();
    if lost.is_defined {
        findings.extend(protection(&side, &kubectl_mc).await);
    }
    findings
}

/// The members that a restore would recreate. If the definition exists, they are only a warning: a
/// Secret may be written before its MemberCluster, and an administrator may have deleted only the
/// MemberCluster.
fn missing(lost: &Lost, kubectl_mc: &str) -> Option<Finding> {
    let first = lost.members.iter().take(SHOWN).map(|member| member.name.as_str()).collect::<Vec<_>>();
    if first.is_empty() {
        return None;
    }
    let mut names = first.join(", ");
    if let Some(more) = lost.members.len().checked_sub(SHOWN).filter(|more| *more > 0) {
        let _ = write!(names, " and {more} more");
    }
    let message = format!("members with a Secret and no MemberCluster: {names}");
    let fix = format!("{kubectl_mc} join --restore; or remove a member for good: {kubectl_mc} unjoin NAME");
    Some(if lost.is_defined {
        Finding::warning("registry", message, fix)
    } else {
        let message = format!("the definition of MemberClusters is missing; {message}");
        Finding::problem("registry", message, Some(fix))
    })
}

/// Whether the deletion policy is enforced, if the caller may read it.
async fn protection(host: &Connection, kubectl_mc: &str) -> Option<Finding> {
    let admission = "/apis/admissionregistration.k8s.io/v1";
    let policy =
        host.get(&format!("{admission}/validatingadmissionpolicies/{DELETION_POLICY}")).await.ok()?;
    let binding = format!("{admission}/validatingadmissionpolicybindings/{DELETION_POLICY}");
    let binding = host.get(&binding).await.ok()?;
    let definition = host.get(DEFINITION).await.ok()?;
    Some(judged(policy.as_ref(), binding.as_ref(), definition.as_ref(), kubectl_mc))
}

fn judged(
    policy: Option<&Value>,
    binding: Option<&Value>,
    definition: Option<&Value>,
    kubectl_mc: &str,
) -> Finding {
    let denies = |binding: &Value| {
        let actions = binding["spec"]["validationActions"].as_array();
        actions.is_some_and(|actions| actions.iter().any(|action| action == "Deny"))
    };
    let again = format!(
        "an admin of the host installs again, with the flags and values of the installation: {kubectl_mc} install"
    );
    if policy.is_none() || !binding.is_some_and(denies) {
        return Finding::warning(
            "registry",
            format!("policy {DELETION_POLICY} is not in force: one command can delete all registrations"),
            again,
        );
    }
    let lifted =
        definition.is_some_and(|object| !object["metadata"]["annotations"][ALLOW_DELETION].is_null());
    if lifted {
        return Finding::warning(
            "registry",
            format!("annotation {ALLOW_DELETION} lets the definition of MemberClusters be deleted"),
            again,
        );
    }
    Finding::ok("registry", "protected against deletion")
}

const DEFINITION: &str =
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/memberclusters.fleet.kubectl-mc.dev";
/// The number of names in a finding.
const SHOWN: usize = 5;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::report::Level;
    use super::*;
    use crate::join::lost::LostMember;

    #[test]
    fn lost_members_are_reported_with_the_command() {
        let lost = |count: usize, is_defined| {
            let name = |at| LostMember { name: format!("m{at}").parse().unwrap(), record: None };
            missing(&Lost { members: (1..=count).map(name).collect(), is_defined }, "kubectl mc")
        };
        assert_eq!(lost(0, true), None);
        assert_eq!(lost(0, false), None, "no sidecar is installed");
        let one = lost(1, true).unwrap();
        assert_eq!(one.message, "members with a Secret and no MemberCluster: m1");
        assert!(
            one.level == Level::Warning
                && one.fix.unwrap().to_string().starts_with("kubectl mc join --restore;")
        );
        let many = lost(7, false).unwrap();
        assert_eq!(many.level, Level::Problem);
        assert!(many.message.starts_with("the definition of MemberClusters is missing; "), "{many:?}");
        assert!(many.message.ends_with("m1, m2, m3, m4, m5 and 2 more"), "{many:?}");
    }

    #[test]
    fn policy_that_is_not_in_force_is_a_warning() {
        let (policy, definition) = (json!({}), json!({"metadata": {"annotations": {"other": "x"}}}));
        let binding = |action: &str| json!({"spec": {"validationActions": [action]}});
        let level = |policy, binding: Option<&Value>, definition| {
            judged(policy, binding, Some(definition), "kubectl mc").level
        };
        assert_eq!(level(Some(&policy), Some(&binding("Deny")), &definition), Level::Ok);
        assert_eq!(level(None, Some(&binding("Deny")), &definition), Level::Warning);
        assert_eq!(level(Some(&policy), None, &definition), Level::Warning);
        assert_eq!(level(Some(&policy), Some(&binding("Audit")), &definition), Level::Warning);
        let lifted = json!({"metadata": {"annotations": {ALLOW_DELETION: "yes"}}});
        assert_eq!(level(Some(&policy), Some(&binding("Deny")), &lifted), Level::Warning);
    }
}
