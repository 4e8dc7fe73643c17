//! A cluster that is joined: used at once, known again, and taken away without a trace.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use harness::bed::{bed, member};
use harness::both_sides::{Alone, alone, both};
use harness::caller::Caller;
use harness::tool::Tool;
use harness::wait::{SOON, eventually};

use crate::plugin;

#[test]
fn a_cluster_is_joined_used_and_taken_away_without_a_trace() -> Result<()> {
    let alone = alone()?;
    let before = Traces::of(&alone)?;
    let both = both(alone.cluster, |_| {})?;
    let join = ["join", NAME, "--member-context=member", "--labels=env=e2e"];
    let said = plugin(&both)?.ok(&join)?;
    ensure!(said.contains(&format!("host: membercluster.fleet.kubectl-mc.dev/{NAME} created")), "{said}");
    ensure!(said.contains("member: serviceaccount/kubectl-mc-manager created"), "{said}");
    follow(&both, &said)?;
    let labelled = plugin(&both)?.ok(&["clusters", "-l", "env=e2e", "-o", "name"])?;
    ensure!(labelled.contains(NAME), "{labelled}");

    let again = plugin(&both)?.ok(&join)?;
    ensure!(!again.contains(" created"), "{again}");
    follow(&both, &again)?;
    let other_name = ["join", "e2e-other", "--member-context=member"];
    plugin(&both)?.run(&other_name)?.failure(&[&format!("joined already, as {NAME}")])?;
    let other_cluster = harness::both_sides::both(member("m2")?, |_| {})?;
    plugin(&other_cluster)?.run(&join)?.failure(&[&format!("the name {NAME} is taken: another cluster")])?;
    plugin(&other_cluster)?
        .run(&["unjoin", NAME, "--member-context=member", "--yes"])?
        .failure(&[&format!("is not {NAME}")])?;

    let jane = Caller::certificate("e2e-joined-jane", &[])?;
    plugin(&both)?.ok(&["access", "grant", "view", "--user=e2e-joined-jane", "-n", "default", "-C", NAME])?;
    let cluster = format!("--cluster={NAME}");
    eventually("jane reads", SOON, || {
        plugin(&jane)?.ok(&[&cluster, "get", "configmaps", "-n", "default"]).map(Some)
    })?;

    let unjoin = ["unjoin", NAME, "--member-context=member"];
    plugin(&both)?.run(&unjoin)?.failure(&["nobody can be asked", "--yes"])?;
    let dry = plugin(&both)?.ok(&[&unjoin[..], &["--dry-run"]].concat())?;
    ensure!(dry.contains(&format!("host: secret/{NAME}.member deleted (server dry run)")), "{dry}");
    plugin(&both)?.ok(&[&unjoin[..], &["--yes"]].concat())?;
    Traces::of(&alone)?.same_as(&before)?;
    plugin(&both)?.run(&["unjoin", NAME, "--force", "--yes"])?.failure(&["is not joined"])?;
    Ok(())
}

/// Runs what the join says comes next.
fn follow(caller: &Caller, said: &str) -> Result<()> {
    let next = said.lines().find_map(|line| line.strip_prefix("Next: kubectl mc "));
    let next = next.with_context(|| format!("no next command is told: {said}"))?;
    plugin(caller)?.ok(&next.split(' ').collect::<Vec<_>>())?;
    Ok(())
}

/// All that a join could leave, on both sides.
#[derive(Debug)]
struct Traces(BTreeSet<String>);

impl Traces {
    fn of(alone: &Alone) -> Result<Self> {
        let mut traces = BTreeSet::new();
        let rbac = "clusterroles,clusterrolebindings,roles,rolebindings,";
        let on_member =
            format!("{rbac}namespaces,validatingadmissionpolicies,validatingadmissionpolicybindings");
        let everywhere = "--all-namespaces";
        let name = "-o=jsonpath={range .items[*]}{.kind}/{.metadata.namespace}/{.metadata.name}{'\\n'}{end}";
        let member = Tool::admin(alone.cluster)?.ok(&["get", &on_member, everywhere, name])?;
        traces.extend(member.lines().map(|line| format!("member: {line}")));
        let host = Tool::admin(&bed()?.host)?;
        // Other tests have clusters and roles there, named otherwise.
        let on_host = format!("{rbac}memberclusters,secrets,configmaps");
        let host = host.ok(&["get", &on_host, everywhere, name])?;
        traces.extend(host.lines().filter(|line| line.contains(NAME)).map(|line| format!("host: {line}")));
        Ok(Self(traces))
    }

    fn same_as(&self, before: &Self) -> Result<()> {
        let left: Vec<_> = self.0.symmetric_difference(&before.0).collect();
        ensure!(left.is_empty(), "{left:?}");
        Ok(())
    }
}

const NAME: &str = "e2e-joined";
