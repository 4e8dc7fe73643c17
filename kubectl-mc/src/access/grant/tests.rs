use serde_json::json;

use super::*;

#[test]
fn read_only_role_grants_the_get_verb_alone() {
    let role = |verbs: Value| json!({"rules": [{"verbs": ["get"]}, {"verbs": verbs}]});
    assert_eq!(Reach::of(&role(json!(["list", "watch"]))), Reach::Read);
    assert_eq!(Reach::of(&role(json!(["list", "create"]))), Reach::Write);
    assert_eq!(Reach::of(&role(json!(["*"]))), Reach::Write);
}

#[test]
fn fleet_binding_grants_the_shipped_role() {
    let binding = fleet_binding(&GrantSubject::user("jane").unwrap());
    assert_eq!(binding["roleRef"]["name"], "kubectl-mc-fleet");
    assert_eq!(binding["subjects"][0]["name"], "jane");
    assert!(include_str!("../../../../sidecar/deploy/rbac.yaml").contains("\n  name: kubectl-mc-fleet\n"));
}

#[test]
fn grant_names_only_its_cluster() {
    let cluster: ClusterName = "m1".parse().unwrap();
    let subject = GrantSubject::user("jane").unwrap();
    let grant = |namespace| {
        let role = GrantedRole::parse("view", namespace).unwrap();
        Grant { cluster: &cluster, role, subject: &subject }
    };
    let role = grant(None).host_role(Reach::Read);
    assert!(role["rules"].as_array().unwrap().iter().all(|rule| rule["resourceNames"] == json!(["m1"])));
    assert_eq!(role["rules"][1]["verbs"], json!(["get"]));
    let everywhere = grant(None);
    let shop = grant(Some("shop"));
    assert_eq!(everywhere.on_member(json!({}))["kind"], "ClusterRoleBinding");
    assert_eq!(shop.on_member(json!({}))["kind"], "RoleBinding");
    assert_eq!(shop.on_member(json!({}))["metadata"]["namespace"], "shop");
    // Revoking one grant must not remove the other.
    let name = |grant: &Grant<'_>| grant.host_binding()["metadata"]["name"].clone();
    assert_eq!(name(&shop), "kubectl-mc:m1:view@shop:user:jane");
    assert_ne!(name(&shop), name(&everywhere));
    let role = GrantedRole::parse("role/view", Some("shop")).unwrap();
    let of_role = Grant { cluster: &cluster, role, subject: &subject };
    assert_eq!(name(&of_role), "kubectl-mc-role:m1:shop:view:user:jane");
    assert_eq!(of_role.host_binding()["roleRef"]["name"], of_role.host_role(Reach::Read)["metadata"]["name"]);
    assert_eq!(of_role.on_member(json!({}))["roleRef"]["kind"], "Role");
    assert_ne!(
        of_role.on_member(json!({}))["metadata"]["name"],
        shop.on_member(json!({}))["metadata"]["name"]
    );
}
