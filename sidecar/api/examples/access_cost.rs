//! Measures how long it takes to derive members' rights from the host's RBAC, with 1,000 members and 1,000
//! bindings, and prints a Markdown table. `cargo run --release -p kubectl-mc-api --example access_cost`;
//! `make bench` prints it too.

use std::error::Error;
use std::io::Write;
use std::time::{Duration, Instant};

use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use kubectl_mc_api::ClusterName;
use kubectl_mc_api::access::{Because, Difference, Impersonator, Index, MemberRules, Policy, Subject};
use kubectl_mc_api::member_cluster::Impersonation;
use serde_json::json;

fn main() -> Result<(), Box<dyn Error>> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "| | all | each |\n|---|---|---|")?;
    // Each member has its own role and binding, with ten users.
    let roles: Vec<_> =
        (0..MEMBERS).map(|n| role(&format!("r{n}"), &[format!("m{n}")])).collect::<Result<_, _>>()?;
    let bindings: Vec<_> =
        (0..MEMBERS).map(|n| binding(&format!("b{n}"), &format!("r{n}"), n)).collect::<Result<_, _>>()?;
    let mut index = Index::default();
    let begun = Instant::now();
    roles.iter().for_each(|role| drop(index.role(role)));
    bindings.iter().for_each(|binding| drop(index.binding(binding)));
    tell(&mut out, "read 1,000 roles and 1,000 bindings, one for each member", begun.elapsed(), 2 * MEMBERS)?;
    let small = resident();

    let changed: Vec<_> =
        (0..MEMBERS).map(|n| binding(&format!("b{n}"), &format!("r{n}"), n + 1)).collect::<Result<_, _>>()?;
    let begun = Instant::now();
    changed.iter().for_each(|binding| drop(index.binding(binding)));
    tell(&mut out, "change each of the bindings", begun.elapsed(), MEMBERS)?;

    let clusters: Vec<ClusterName> =
        (0..MEMBERS).map(|n| format!("m{n}").parse()).collect::<Result<_, _>>()?;
    let begun = Instant::now();
    clusters.iter().for_each(|cluster| drop(rules(&index, cluster)));
    tell(&mut out, "derive the rules of each member (10 users)", begun.elapsed(), MEMBERS)?;

    // Now every binding refers to one role that reaches all members.
    index.role(&role("all", &[])?);
    let everywhere: Vec<_> =
        (0..MEMBERS).map(|n| binding(&format!("b{n}"), "all", n)).collect::<Result<_, _>>()?;
    let begun = Instant::now();
    everywhere.iter().for_each(|binding| drop(index.binding(binding)));
    tell(&mut out, "bind all 1,000 to a role for every member", begun.elapsed(), MEMBERS)?;
    let begun = Instant::now();
    let mut last = MemberRules::default();
    clusters.iter().take(FEW).for_each(|cluster| last = rules(&index, cluster));
    tell(&mut out, "derive the rules of 20 members (10,000 users each)", begun.elapsed(), FEW)?;
    let begun = Instant::now();
    for _ in 0..FEW {
        std::hint::black_box(Difference::of(&last, &Impersonator::default(), &Default::default()));
    }
    tell(&mut out, "compare 10,000 users with a member that has none", begun.elapsed(), FEW)?;
    drop(index);
    named(&mut out, small)
}

/// The worst case: each of 1,000 bindings reaches each of 1,000 members by its name.
fn named(out: &mut impl Write, small: usize) -> Result<(), Box<dyn Error>> {
    let mut names: Vec<_> = (0..MEMBERS).map(|n| format!("m{n}")).collect();
    let roles: Vec<_> = (0..MEMBERS).map(|n| role(&format!("r{n}"), &names)).collect::<Result<_, _>>()?;
    let bindings: Vec<_> =
        (0..MEMBERS).map(|n| binding(&format!("b{n}"), &format!("r{n}"), n)).collect::<Result<_, _>>()?;
    let before = resident();
    let mut index = Index::default();
    let begun = Instant::now();
    roles.iter().for_each(|role| drop(index.role(role)));
    bindings.iter().for_each(|binding| drop(index.binding(binding)));
    tell(
        out,
        "read 1,000 roles that name all 1,000 members each, and their bindings",
        begun.elapsed(),
        2 * MEMBERS,
    )?;
    let holds = resident().saturating_sub(before);
    let changed = binding("b7", "r7", MEMBERS)?;
    let begun = Instant::now();
    std::hint::black_box(index.binding(&changed));
    tell(out, "change one of these bindings, which concerns all members", begun.elapsed(), 1)?;
    names.pop();
    let narrower = role("r7", &names)?;
    let begun = Instant::now();
    std::hint::black_box(index.role(&narrower));
    tell(out, "take one member from one of these roles, which concerns that one", begun.elapsed(), 1)?;
    writeln!(
        out,
        "\nThe last index holds {:.0} MB; the first one, with all that was read for it, {:.0} MB.",
        mb(holds),
        mb(small)
    )?;
    Ok(())
}

/// The resident memory of the process in bytes; 0 without `/proc`.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
    line.trim().trim_end_matches(" kB").parse::<usize>().unwrap_or(0) * 1024
}

#[expect(clippy::cast_precision_loss, reason = "shown in megabytes")]
fn mb(bytes: usize) -> f64 {
    bytes as f64 / 1e6
}

fn rules(index: &Index, cluster: &ClusterName) -> MemberRules {
    let entitled: Vec<(Subject, Because)> =
        index.entitled(cluster).map(|(subject, because)| (subject.clone(), because)).collect();
    let entitled = entitled.iter().map(|(subject, because)| (subject, because.clone()));
    MemberRules::new(&[], &Impersonation::default(), &Policy::default(), entitled, &[])
}

fn role(name: &str, clusters: &[String]) -> serde_json::Result<ClusterRole> {
    serde_json::from_value(json!({"metadata": {"name": name}, "rules": [{
        "apiGroups": ["proxy.kubectl-mc.dev"], "resources": ["clusters/proxy"], "verbs": ["get"],
        "resourceNames": clusters,
    }]}))
}

fn binding(name: &str, role: &str, number: usize) -> serde_json::Result<ClusterRoleBinding> {
    let users: Vec<_> = (0..10)
        .map(|user| json!({"kind": "User", "name": format!("user-{number:05}-{user}@example.com")}))
        .collect();
    serde_json::from_value(json!({
        "metadata": {"name": name}, "subjects": users,
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
    }))
}

fn tell(out: &mut impl Write, what: &str, took: Duration, times: usize) -> Result<(), Box<dyn Error>> {
    let each = took / u32::try_from(times)?;
    writeln!(out, "| {what} | {:.1} ms | {:.1} µs |", took.as_secs_f64() * 1e3, each.as_secs_f64() * 1e6)?;
    Ok(())
}

const MEMBERS: usize = 1_000;
const FEW: usize = 20;
