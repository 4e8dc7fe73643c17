//! `spec.impersonation.users: Any` lets the sidecar impersonate every user of a member, once the member
//! agrees.

use anyhow::{Context, Result, ensure};
use harness::caller::Caller;
use harness::managed::{lets_be, lets_be_user};
use harness::wait::{SOON, eventually};
use serde_json::{Value, json};

use crate::identity::quiet::unified_auth::{RBAC, within};
use crate::members::joined::Joined;
use crate::plugin;

#[test]
fn impersonation_of_any_user_needs_no_list_and_no_wait() -> Result<()> {
    let joined = Joined::under(NAME)?;
    let caller = Caller::certificate("e2e-any-jane", &["e2e-any-dev"])?;
    joined.admin.ok(&["access", "grant", "view", "--group=e2e-any-dev", "-n", "default", "-C", NAME])?;
    within("the group is known", SOON, || {
        lets_be(&joined.member, &json!({"resource": "groups", "name": "e2e-any-dev"}))
    })?;

    // The host alone cannot choose `Any`.
    joined.users("Any")?;
    eventually("it is said who else has to agree", SOON, || {
        let said = joined.fleet.condition(NAME, "AuthSynced")?.message;
        Ok(said.contains("not allowed by the member's ConfigMap kubectl-mc-manager").then_some(()))
    })?;
    ensure!(!lets_be_user(&joined.member, ANYBODY)?, "nobody on the member has agreed");

    joined.agree_on_the_member()?;
    within("the sidecar may be anybody", SOON, || lets_be_user(&joined.member, ANYBODY))?;
    ensure!(joined.named_users()?.is_null(), "users are named: {}", joined.named_users()?);
    plugin(&caller)?.ok(&READ)?;
    let learnt = joined.fleet.host.get(LEARNT).map(|map| map["data"].clone()).unwrap_or_default();
    ensure!(!learnt.to_string().contains("e2e-any-jane"), "jane was learnt: {learnt}");

    // From here on, the host decides, and its choice takes effect within seconds.
    let anybody = |wanted: bool| {
        joined.users(if wanted { "Any" } else { "Listed" })?;
        let so = || Ok(lets_be_user(&joined.member, ANYBODY)? == wanted);
        within(&format!("that the sidecar may be anybody is {wanted}"), SOON, so)
    };
    anybody(false)?;
    anybody(true)?;
    anybody(false)?;
    ensure!(!lets_be_user(&joined.member, "e2e-any-jane")?, "no binding names jane");
    plugin(&caller)?.ok(&READ)?;
    ensure!(lets_be_user(&joined.member, "e2e-any-jane")?, "she works, and is not listed");
    Ok(())
}

impl Joined {
    fn users(&self, users: &str) -> Result<()> {
        self.fleet.host.merge(&self.path(), &json!({"spec": {"impersonation": {"users": users}}})).map(drop)
    }

    /// Allows `Any` in the ConfigMap that the sidecar obeys and in the policy that the member enforces.
    fn agree_on_the_member(&self) -> Result<()> {
        let map = "/api/v1/namespaces/kubectl-mc-system/configmaps/kubectl-mc-manager";
        self.member.merge(map, &json!({"data": {"users": "Any"}}))?;
        let policy = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies/kubectl-mc-manager";
        let any_user = json!([
            {"op": "test", "path": "/spec/variables/0/name", "value": "anyUser"},
            {"op": "replace", "path": "/spec/variables/0/expression", "value": "true"},
        ]);
        self.member.patch(policy, &any_user).map(drop)
    }

    /// The names in the one rule for users.
    fn named_users(&self) -> Result<Value> {
        let role = self.member.get(&format!("{RBAC}/clusterroles/kubectl-mc-impersonator"))?;
        let rules = role["rules"].as_array().context("no rules")?;
        let rule = rules.iter().find(|rule| rule["resources"] == json!(["users"]));
        Ok(rule.context("no rule for users")?["resourceNames"].clone())
    }
}

const NAME: &str = "e2e-any";
/// A user without any binding.
const ANYBODY: &str = "e2e-any-stranger";
const READ: [&str; 5] = ["--cluster=e2e-any", "get", "configmaps", "-n", "default"];
const LEARNT: &str = "/api/v1/namespaces/kubectl-mc-system/configmaps/e2e-any.learnt";
