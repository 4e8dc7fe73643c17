//! `kubectl mc access diff` shows how the sidecar would change its rights on a member, and because of which
//! binding.

use anyhow::{Result, ensure};
use harness::managed::lets_be_user;
use harness::wait::{SOON, eventually};
use serde_json::json;

use crate::identity::quiet::unified_auth::{bind, named, rule, unbind, within};
use crate::members::joined::Joined;

#[test]
fn diff_shows_each_change_and_its_binding_until_in_sync() -> Result<()> {
    let joined = Joined::under(NAME)?;
    let proxy = rule(&["clusters/proxy"], &["get"], &[NAME]);
    bind("diff-goes", &proxy, &[&named("User", "e2e-diff-leaver")])?;
    within("the user is known", SOON, || lets_be_user(&joined.member, "e2e-diff-leaver"))?;
    joined.until_in_sync()?;

    // Without the manager's credential, the sidecar cannot sync the member.
    let path = format!("/api/v1/namespaces/kubectl-mc-system/secrets/{NAME}.manager");
    let manager = joined.fleet.host.get(&path)?;
    joined.fleet.host.delete(&path)?;
    joined.fleet.until(NAME, "AuthSynced", "Unknown", "NoManager")?;
    unbind("diff-goes")?;
    bind("diff-comes", &proxy, &[&named("User", "e2e-diff-comer")])?;
    let told = joined.admin.run(&["access", "diff", NAME])?;
    ensure!(told.code == 1, "there are differences: {told:?}");
    let text = told.text();
    for line in [
        "+ impersonate user \"e2e-diff-comer\": ClusterRoleBinding \"e2e-diff-comes\" to ClusterRole \"e2e-diff-comes\"",
        "- impersonate user \"e2e-diff-leaver\": no subject on the host is entitled to it",
    ] {
        ensure!(text.lines().any(|other| other == line), "{line:?} is not in {text}");
    }
    ensure!(!lets_be_user(&joined.member, "e2e-diff-comer")?, "it was to be told and not to be done");

    let mut again = json!({"metadata": {"name": format!("{NAME}.manager")}});
    for key in ["apiVersion", "kind", "type", "data"] {
        again[key] = manager[key].clone();
    }
    joined.fleet.host.apply(&path, &again)?;
    within("what was told is done", SOON, || {
        Ok(lets_be_user(&joined.member, "e2e-diff-comer")?
            && !lets_be_user(&joined.member, "e2e-diff-leaver")?)
    })?;
    joined.until_in_sync()
}

impl Joined {
    /// Waits until the diff is empty, because other tests bind users to all clusters at the same
    /// time.
    fn until_in_sync(&self) -> Result<()> {
        eventually("nothing would change", SOON, || {
            let told = self.admin.run(&["access", "diff", self.name])?;
            ensure!(told.code == 0 && told.text().is_empty(), "{told:?}");
            ensure!(told.stderr.contains(&format!("{} has exactly these rights: ", self.name)), "{told:?}");
            Ok(Some(()))
        })
    }
}

const NAME: &str = "e2e-diff";
