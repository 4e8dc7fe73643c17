//! The cost of audit events: two sidecars of the same build on the same member, one with an audit log.

use anyhow::Result;
use harness::own_sidecar::{Difference, OwnSidecar};

use crate::against;
use crate::requests::CONNECTIONS;
use crate::site::Site;
use crate::table::{Goal, Spread, Table};
use crate::usage;

/// With and without, by turns.
pub(crate) fn measure(site: &Site, quick: bool) -> Result<Table> {
    let folder = tempfile::tempdir()?;
    let log = format!("--audit-log-path={}", folder.path().join("audit.log").display());
    let policy = folder.path().join("policy.yaml");
    std::fs::write(&policy, POLICY)?;
    let policy = format!("--audit-policy-file={}", policy.display());
    let mut table = Table::new(&[
        "audit",
        "connections",
        "requests/s",
        "of without",
        "goal",
        "CPU µs/request",
        "of without",
        "resident MB",
        "of without",
    ]);
    let variants: [(&str, Vec<&str>); 3] = [
        ("ends of requests", vec![&log]),
        ("all stages, batch", vec![&log, &policy, "--audit-log-mode=batch"]),
        ("all stages, blocking", vec![&log, &policy]),
    ];
    for (name, flags) in &variants {
        let with = OwnSidecar::with(&Difference { flags, ..Difference::default() })?;
        let without = OwnSidecar::start()?;
        let ways = [site.member.sidecar.by(&with.sidecar), site.member.sidecar.by(&without.sidecar)];
        ways.iter().try_for_each(|way| way.warm_up())?;
        for (connections, rounds) in CONNECTIONS {
            let pairs = against::by_turns(&ways, connections, if quick { 1 } else { rounds })?;
            let rate = Spread::of(pairs.iter().map(|[with, without]| with.load.rate / without.load.rate));
            let cpu = Spread::of(pairs.iter().map(|[with, without]| with.cpu.total / without.cpu.total));
            let memory = [usage::resident(with.pid())?, usage::resident(without.pid())?];
            let goal = match connections {
                16 => Goal::AtLeast(0.95).verdict(rate.median),
                _ => String::new(),
            };
            table.row([
                (*name).to_owned(),
                connections.to_string(),
                format!("{:.0}", against::middle(&pairs, |round| round.load.rate)),
                rate.to_string(),
                goal,
                format!("{:.0}", against::middle(&pairs, |round| round.cpu.total)),
                cpu.to_string(),
                format!("{:.1}", memory[0]),
                format!("{:.2}", memory[0] / memory[1]),
            ]);
        }
    }
    Ok(table)
}

const POLICY: &str = "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata}]\n";
