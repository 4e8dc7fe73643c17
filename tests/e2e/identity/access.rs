//! `kubectl mc access` grants and revokes access, and explains which hop refuses a request.

use anyhow::{Context, Result, ensure};
use harness::caller::Caller;
use harness::scene::Scene;
use harness::tool::Tool;
use harness::wait::{SOON, eventually};

use crate::plugin;

#[test]
fn grant_takes_effect_at_once_and_revoke_ends_it() -> Result<()> {
    let scene = Scene::on("m2", "access-grant")?;
    let jane = Caller::certificate("e2e-access-jane", &[])?;
    let words = grant_words("view", "--user=e2e-access-jane", &scene);
    let said = admin()?.ok(&to("grant", &words))?;
    for line in [
        "host: clusterrole.rbac.authorization.k8s.io/kubectl-mc:m2:view",
        "host: clusterrolebinding.rbac.authorization.k8s.io/kubectl-mc:m2:view@e2e-access-grant:user:e2e-access-jane created",
        "m2: rolebinding.rbac.authorization.k8s.io/kubectl-mc:view:user:e2e-access-jane created",
        " --cluster=m2 get pods -n e2e-access-grant",
    ] {
        ensure!(said.contains(line), "{line:?} is not in {said}");
    }
    eventually("jane reads", SOON, || reads(&jane, &scene.name).map(Some))?;
    let create = ["--cluster=m2", "create", "configmap", "x", "-n", &scene.name];
    // The role only reads, so the host refuses everything else.
    plugin(&jane)?.run(&create)?.failure(&["orbidden"])?;
    plugin(&jane)?.run(&["--cluster=m2", "get", "configmaps", "-n", "default"])?.failure(&["orbidden"])?;

    let again = admin()?.ok(&to("grant", &words))?;
    ensure!(!again.contains("created") && again.contains("unchanged"), "{again}");

    let said = admin()?.ok(&to("revoke", &words))?;
    ensure!(said.contains("host: clusterrolebinding") && said.contains("m2: rolebinding"), "{said}");
    eventually("jane is shut out", SOON, || {
        let refused = plugin(&jane)?.run(&["--cluster=m2", "get", "configmaps", "-n", &scene.name])?;
        Ok((refused.code != 0 && refused.stderr.contains("e2e-access-jane")).then_some(()))
    })?;
    let nothing = admin()?.run(&to("revoke", &words))?;
    ensure!(nothing.code == 0 && nothing.stderr.contains("nothing to revoke"), "{nothing:?}");
    Ok(())
}

#[test]
fn grant_by_fields_is_for_clusters_that_match_now() -> Result<()> {
    let scene = Scene::on("m2", "access-where")?;
    let grant = ["access", "grant", "view", "--user=e2e-access-where", "-n", &scene.name, "-C", "m1,m2"];
    let said = admin()?.ok(&[&grant[..], &["--where=name!=m1,ready!=False"]].concat())?;
    ensure!(said.contains("m2: ") && !said.contains("m1: "), "{said}");
    let kept = [&grant[..6], &["--where=ready=True", "--all-clusters"]].concat();
    admin()?.run(&kept)?.failure(&["--where cannot be combined with --all-clusters"])?;
    Ok(())
}

#[test]
fn groups_and_service_accounts_are_granted_alike() -> Result<()> {
    let scene = Scene::on("m2", "access-subjects")?;
    let member = Caller::certificate("e2e-access-member", &["e2e/access group"])?;
    let robot = Caller::service_account(&scene.name, "robot")?;
    let account = format!("--serviceaccount={}:robot", scene.name);
    for (subject, caller) in [("--group=e2e/access group", &member), (&account, &robot)] {
        let words = grant_words("edit", subject, &scene);
        admin()?.ok(&to("grant", &words))?;
        eventually("they write", SOON, || {
            let create = ["--cluster=m2", "create", "configmap", &caller_map(caller), "-n", &scene.name];
            plugin(caller)?.ok(&create).map(Some)
        })?;
        admin()?.ok(&to("revoke", &words))?;
    }
    Ok(())
}

#[test]
fn invalid_grant_is_refused_with_its_reason_and_writes_nothing() -> Result<()> {
    for (words, reason) in [
        (["grant", "view", "--group=system:authenticated", "-C", "m2"], "system:authenticated"),
        (["grant", "view", "--group=system:masters", "-C", "m2"], "kubectl-mc:host-admins"),
        (["grant", "view", "--user=system:kube-scheduler", "-C", "m2"], "control plane"),
        (["grant", "view", "--user=system:serviceaccount:a:b", "-C", "m2"], "--serviceaccount=a:b"),
        (["grant", "view", "--serviceaccount=robot", "-C", "m2"], "NAMESPACE:NAME"),
        (["grant", "veiw", "--user=e2e-access-nobody", "-C", "m2"], "no ClusterRole \"veiw\""),
        (["grant", "view", "--user=e2e-access-nobody", "-C", "e2e-no-such"], "cluster unknown"),
        (["grant", "view", "--user=e2e-access-nobody", "-C", "e2e-no-such-*"], "no cluster matches"),
    ] {
        admin()?.with(&["access"]).run(&words)?.failure(&[reason])?;
    }
    admin()?.run(&["access", "grant", "view", "-C", "m2"])?.failure(&["--user"])?;
    admin()?.run(&["access", "grant", "view", "--user=e2e-access-nobody"])?.failure(&["no cluster named"])?;
    let host = Tool::admin(&harness::bed::bed()?.host)?;
    let bindings = host.ok(&["get", "clusterrolebindings", "-o", "name"])?;
    ensure!(
        !bindings.contains("e2e-access-nobody") && !bindings.contains("system:authenticated:"),
        "{bindings}"
    );
    Ok(())
}

#[test]
fn dry_run_prints_the_changes_and_changes_nothing() -> Result<()> {
    let scene = Scene::on("m2", "access-dry")?;
    let mut words = to("grant", &grant_words("view", "--user=e2e-access-dry", &scene));
    words.push("--dry-run".to_owned());
    let said = admin()?.ok(&words)?;
    ensure!(said.contains("created (server dry run)"), "{said}");
    let host = Tool::admin(&harness::bed::bed()?.host)?;
    ensure!(!host.ok(&["get", "clusterrolebindings", "-o", "name"])?.contains("e2e-access-dry"));
    Ok(())
}

#[test]
fn explain_names_each_refusing_hop_and_the_fix_works() -> Result<()> {
    let scene = Scene::on("m2", "access-explain")?;
    let user = "e2e-access-erin";
    let explain = |words: &[&str]| -> Result<harness::tool::Output> {
        let no_group = "--as-group=system:authenticated";
        let question = ["access", "explain", "--as", user, no_group, "-C", "m2", "-n", &scene.name];
        admin()?.run(&[&question[..], words].concat())
    };
    let line = |text: &str, hop: &str| {
        let found = text.lines().find(|line| line.starts_with(hop)).unwrap_or_default();
        found[hop.len()..].trim().to_owned()
    };
    let first = explain(&["get", "po"])?;
    ensure!(first.code == 1, "{first:?}");
    let text = first.text();
    ensure!(line(&text, "host authentication").starts_with("yes"), "{text}");
    ensure!(line(&text, "host authorization").starts_with("no   may not get clusters/proxy of m2"), "{text}");
    ensure!(line(&text, "sidecar").starts_with(['y', 'n']), "{text}");
    ensure!(line(&text, "member impersonation").starts_with("yes"), "{text}");
    ensure!(line(&text, "member authorization").starts_with("no"), "{text}");

    let fix = text
        .lines()
        .find_map(|line| line.trim().strip_prefix("fix: kubectl mc ")?.split_once("access grant"));
    let (_, fix) = fix.with_context(|| format!("no fix is given: {text}"))?;
    admin()?.with(&["access", "grant"]).ok(&fix.split_whitespace().collect::<Vec<_>>())?;
    eventually("both sides allow it", SOON, || {
        let text = explain(&["get", "po"])?.text();
        let allowed = line(&text, "host authorization").contains("ClusterRoleBinding \"kubectl-mc:m2:view@")
            && line(&text, "member authorization")
                .contains("RoleBinding \"kubectl-mc:view:user:e2e-access-erin");
        Ok(allowed.then_some(()))
    })?;
    let write = explain(&["exec", "pods", "web"])?.text();
    ensure!(line(&write, "host authorization").starts_with("no   may not create clusters/proxy"), "{write}");
    ensure!(write.contains("access grant edit --user=e2e-access-erin"), "{write}");
    Ok(())
}

#[test]
fn explain_covers_unknown_cluster_and_privileged_identity() -> Result<()> {
    let unknown = admin()?.run(&["access", "explain", "-C", "e2e-no-such", "get", "pods"])?;
    ensure!(
        unknown.code == 1 && unknown.text().contains("e2e-no-such is not registered, or not visible to you"),
        "{unknown:?}"
    );
    let words = ["access", "explain", "--as=system:kube-scheduler", "-C", "m2", "get", "pods"];
    let privileged = admin()?.run(&words)?;
    ensure!(privileged.code == 1 && privileged.text().contains("control plane"), "{privileged:?}");
    Ok(())
}

#[test]
fn unprivileged_caller_gets_an_explanation_of_own_access() -> Result<()> {
    let scene = Scene::on("m2", "access-self")?;
    let caller = scene.caller()?;
    let words = ["access", "explain", "-C", "m2", "get", "configmaps", "-n", &scene.name];
    let said = plugin(&caller)?.run(&words)?;
    let text = said.text();
    ensure!(text.contains("host authentication") && text.contains("e2e-access-self-user"), "{said:?}");
    ensure!(text.contains("member authorization") && !text.contains("access grant"), "{said:?}");
    Ok(())
}

#[test]
fn reader_gets_whoami_and_can_i_from_a_member() -> Result<()> {
    let scene = Scene::on("m2", "access-reader")?;
    let reader = Caller::certificate("e2e-access-reader", &[])?;
    let words = grant_words("view", "--user=e2e-access-reader", &scene);
    admin()?.ok(&to("grant", &words))?;
    eventually("the reader reads", SOON, || reads(&reader, &scene.name).map(Some))?;
    let plugin = plugin(&reader)?;
    let can_i = |verb: &str| plugin.run(&["-C", "m2", "auth", "can-i", verb, "pods", "-n", &scene.name]);
    let (list, create) = (can_i("list")?, can_i("create")?);
    ensure!(list.code == 0 && list.text().trim() == "yes", "{list:?}");
    ensure!(create.code == 1 && create.text().trim() == "no", "{create:?}");
    let rules = plugin.ok(&["-C", "m2", "auth", "can-i", "--list", "-n", &scene.name])?;
    ensure!(rules.contains("configmaps") && rules.contains("[get list watch]"), "{rules}");
    let who = plugin.ok(&["-C", "m2", "auth", "whoami"])?;
    ensure!(who.contains("e2e-access-reader"), "{who}");
    // Of several clusters, only those that the reader may read answer.
    let both = plugin.run(&["-C", "m1,m2", "auth", "whoami"])?;
    ensure!(both.text().contains("e2e-access-reader") && both.stderr.contains("m1 | error: "), "{both:?}");
    Ok(())
}

/// An administrator of the host, and so of the members.
fn admin() -> Result<Tool> {
    plugin(&Caller::certificate("e2e-access-admin", &["system:masters"])?)
}

fn grant_words(role: &str, subject: &str, scene: &Scene) -> Vec<String> {
    [role, subject, "-n", &scene.name, "-C", &scene.member].map(str::to_owned).to_vec()
}

fn to(verb: &str, words: &[String]) -> Vec<String> {
    ["access".to_owned(), verb.to_owned()].into_iter().chain(words.iter().cloned()).collect()
}

fn reads(caller: &Caller, namespace: &str) -> Result<String> {
    plugin(caller)?.ok(&["--cluster=m2", "get", "configmaps", "-n", namespace, "-o", "name"])
}

/// A ConfigMap name that is unique to the caller.
fn caller_map(caller: &Caller) -> String {
    caller.user.chars().map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '-' }).collect()
}
