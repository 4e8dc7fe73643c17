//! The sidecar repairs changes to its rights on a member at the next re-sync, without an event.

use anyhow::{Context, Result};
use harness::both_sides::alone;
use harness::managed::Managed;
use harness::own_fleet::OwnFleet;
use harness::wait::{SOON, eventually};
use serde_json::{Value, json};

use crate::identity::quiet::unified_auth::{RBAC, bind, named, rule};

#[test]
fn drift_of_a_members_rbac_is_repaired() -> Result<()> {
    let alone = alone()?;
    let fleet = OwnFleet::new("drift")?;
    let member = Managed::prepare(NAME, alone.cluster, &fleet.namespace)?;
    bind("drift", &rule(&["clusters/proxy"], &["get"], &[NAME]), &[&named("User", "e2e-drift-user")])?;
    let _own = fleet.sidecar(&["--member-resync-period=1s"])?;
    fleet.until(NAME, "AuthSynced", "True", "Synced")?;
    let role = format!("{RBAC}/clusterroles/kubectl-mc-impersonator");
    let binding = format!("{RBAC}/clusterrolebindings/kubectl-mc-impersonator");
    let of_default = format!("{RBAC}/namespaces/default/roles/kubectl-mc-impersonator");
    let rights = || -> Result<[Value; 3]> {
        let roles =
            member.api.get(&format!("{RBAC}/roles?fieldSelector=metadata.name%3Dkubectl-mc-impersonator"))?;
        Ok([
            member.api.get(&role)?["rules"].clone(),
            member.api.get(&binding)?["subjects"].clone(),
            roles["items"].clone(),
        ])
    };
    let before = rights().context("nothing is there yet")?;
    let everybody = json!({"apiGroups": [""], "resources": ["users"], "verbs": ["impersonate"]});
    let account = json!({"kind": "ServiceAccount", "name": "default", "namespace": "default"});
    let changes: [(&str, &dyn Fn() -> Result<Value>); 5] = [
        ("a right more", &|| {
            member.api.patch(&role, &json!([{"op": "add", "path": "/rules/-", "value": everybody}]))
        }),
        ("no right left", &|| member.api.merge(&role, &json!({"rules": []}))),
        ("another who has the rights", &|| {
            member.api.patch(&binding, &json!([{"op": "add", "path": "/subjects/-", "value": account}]))
        }),
        ("a binding deleted", &|| member.api.delete(&binding)),
        ("a role in a namespace", &|| {
            let accounts =
                json!({"apiGroups": [""], "resources": ["serviceaccounts"], "verbs": ["impersonate"]});
            let role = json!({
                "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
                "metadata": {"name": "kubectl-mc-impersonator"}, "rules": [accounts],
            });
            member.api.apply(&of_default, &role)
        }),
    ];
    for (what, change) in changes {
        change().context(what)?;
        eventually(&format!("{what} is repaired"), SOON, || Ok((rights()? == before).then_some(())))?;
    }
    Ok(())
}

const NAME: &str = "e2e-drift";
