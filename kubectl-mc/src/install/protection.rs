//! Lifts and restores the protection of an installation against deletion. While there are members,
//! policy `kubectl-mc-deletion` forbids deleting the objects that they depend on, unless an object
//! has an annotation. `uninstall` sets the annotation, and `install` removes it, so after an
//! interrupted removal the next installation protects all objects again.

use kubectl_mc_api::names::{ALLOW_DELETION, API_SERVICE, DELETION_ALLOWED};
use serde_json::{Value, json};

use crate::apply::object::Object;
use crate::apply::{Applied, ApplyError};
use crate::cluster::connection::Connection;
use crate::printer::Printer;

/// Lets the host delete existing objects that the policy protects. This works without the policy,
/// and does not require its removal, which kube-apiservers notice only a second later.
pub(crate) async fn lift(host: &Connection, objects: &[Value]) -> Result<(), ApplyError> {
    for object in objects.iter().filter(|object| is_protected(object)) {
        let patch = json!({"metadata": {"annotations": {ALLOW_DELETION: DELETION_ALLOWED}}});
        match Object::new(object.clone())?.merge(host, &patch).await {
            Err(ApplyError::Refused { status, .. }) if status.is_not_found() => {}
            lifted => lifted?,
        }
    }
    Ok(())
}

/// Protects objects again that an uninstall or an administrator has left without protection.
pub(crate) async fn restore(
    host: &Connection,
    applied: &[Applied],
    printer: &Printer,
) -> Result<(), ApplyError> {
    let is_lifted = |one: &&Applied| !one.after["metadata"]["annotations"][ALLOW_DELETION].is_null();
    for one in applied.iter().filter(|one| is_protected(one.object.value())).filter(is_lifted) {
        one.object.merge(host, &json!({"metadata": {"annotations": {ALLOW_DELETION: null}}})).await?;
        printer.note_line(&format!("{} is protected against deletion again", one.object));
    }
    Ok(())
}

fn is_protected(object: &Value) -> bool {
    match object["kind"].as_str() {
        Some("CustomResourceDefinition" | "Namespace") => true,
        Some("APIService") => object["metadata"]["name"] == API_SERVICE,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use kubectl_mc_api::manifests::Parameters;
    use kubectl_mc_api::names::DELETION_POLICY;

    use super::*;

    fn policy() -> String {
        let objects = Parameters::new("i").host().unwrap();
        let policy = objects.iter().find(|object| {
            object["kind"] == "ValidatingAdmissionPolicy" && object["metadata"]["name"] == DELETION_POLICY
        });
        policy.unwrap()["spec"].to_string()
    }

    #[test]
    fn every_protected_object_is_one_of_the_policy() {
        let (policy, objects) = (policy(), Parameters::new("i").host().unwrap());
        let protected = objects.iter().filter(|object| is_protected(object));
        let names: Vec<_> = protected.filter_map(|object| object["metadata"]["name"].as_str()).collect();
        assert_eq!(
            names,
            [
                "kubectl-mc-system",
                "memberclusters.fleet.kubectl-mc.dev",
                "clusteraccesses.fleet.kubectl-mc.dev",
                "kubectl-mc-agents",
                "v1alpha1.proxy.kubectl-mc.dev"
            ]
        );
        for name in names {
            assert!(policy.contains(&format!("'{name}'")), "{name}");
        }
        assert!(policy.contains(&format!("['{ALLOW_DELETION}'] == '{DELETION_ALLOWED}'")));
    }
}
