//! The MemberCluster decides how a service account of the host acts on a member: as the member's
//! account of the same name, as a separate user, or not at all.

use anyhow::{Result, ensure};
use harness::caller::Caller;
use harness::wait::{SOON, eventually};
use serde_json::json;

use crate::identity::quiet::unified_auth::RBAC;
use crate::members::joined::Joined;
use crate::plugin;

#[test]
fn fault_84_prefixed_account_has_only_its_own_rights() -> Result<()> {
    let joined = Joined::under(NAME)?;
    let robot = Caller::service_account(NAMESPACE, "robot")?;
    // The member's own account of that name is powerful there.
    let metadata = json!({"name": NAMESPACE});
    joined.member.apply(
        &format!("/api/v1/namespaces/{NAMESPACE}"),
        &json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}),
    )?;
    joined.member.apply(
        &format!("{RBAC}/namespaces/{NAMESPACE}/rolebindings/own"),
        &json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": "own"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit"},
            "subjects": [{"kind": "ServiceAccount", "namespace": NAMESPACE, "name": "robot"}],
        }),
    )?;
    let account = format!("--serviceaccount={NAMESPACE}:robot");
    let grant = ["access", "grant", "edit", &account, "-n", "default", "-C", NAME];
    let cluster = format!("--cluster={NAME}");
    let write = [&cluster, "-n", NAMESPACE, "create", "configmap"];
    let write = |name: &str| plugin(&robot)?.run(&[&write[..], &[name]].concat());
    let reads = || {
        eventually("the account reads in its namespace", SOON, || {
            plugin(&robot)?.ok(&[&cluster, "-n", "default", "get", "configmaps"]).map(Some)
        })
    };
    joined.admin.ok(&grant)?;
    reads()?;
    ensure!(write("same")?.code == 0, "the same name has the rights of the member's account");

    let join = ["join", NAME, "--member-context=member"];
    let said = joined.admin.ok(&[&join[..], &["--service-accounts=prefixed"]].concat())?;
    ensure!(said.contains("service accounts Prefixed"), "{said}");
    eventually("the account is a user of its own", SOON, || {
        let refused = write("prefixed")?;
        ensure!(refused.code != 0, "{refused:?}");
        let user = format!("User \"kubectl-mc:host:serviceaccount:{NAMESPACE}:robot\"");
        Ok(refused.stderr.contains(&user).then_some(()))
    })?;
    let said = joined.admin.ok(&grant)?;
    ensure!(said.contains("rolebinding"), "{said}");
    reads()?;
    ensure!(write("prefixed-2")?.code != 0, "it writes");
    let user = format!("--as=system:serviceaccount:{NAMESPACE}:robot");
    let explain = ["access", "explain", NAME, "list", "configmaps", "-n", "default", &user];
    let said = joined.admin.ok(&explain)?;
    ensure!(said.contains(&format!("kubectl-mc:host:serviceaccount:{NAMESPACE}:robot")), "{said}");
    // The same as any user in the group.
    let group = format!("--as-group=system:serviceaccounts:{NAMESPACE}");
    let said = joined.admin.ok(&[&cluster, "--as=jane", &group, MASTERS, "auth", "whoami"])?;
    ensure!(said.contains(&format!("kubectl-mc:host:serviceaccounts:{NAMESPACE}")), "{said}");

    // A later join without the flag leaves the field as it is.
    joined.admin.ok(&join)?;
    let accounts = || {
        let cluster = joined.fleet.host.get(&joined.path())?;
        Ok::<_, anyhow::Error>(cluster["spec"]["impersonation"]["serviceAccounts"].clone())
    };
    ensure!(accounts()? == "Prefixed", "{}", accounts()?);
    joined.admin.ok(&[&join[..], &["--service-accounts=omit"]].concat())?;
    eventually("the member and the field are named", SOON, || {
        let refused = write("omitted")?;
        ensure!(refused.code != 0, "{refused:?}");
        let why = format!("MemberCluster {NAME} has spec.impersonation.serviceAccounts: Omit");
        Ok(refused.stderr.contains(&why).then_some(()))
    })?;
    joined.admin.run(&grant)?.failure(&["spec.impersonation.serviceAccounts", "is Omit"]).map(drop)
}

const NAME: &str = "e2e-accounts";
const NAMESPACE: &str = "e2e-accounts";
/// The host lets this group, its administrators, in.
const MASTERS: &str = "--as-group=system:masters";
