//! Measures the cost of audit events and of traces: two sidecars of the same build on the same member, one of
//! them with the feature. The collector runs on the same machine and takes CPU time from all other
//! processes; it decodes the spans and discards them.

use std::io::{BufRead, BufReader, copy, sink};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;

use anyhow::{Context, Result};
use harness::own_sidecar::{Difference, OwnSidecar};

use crate::against;
use crate::requests::CONNECTIONS;
use crate::site::Site;
use crate::table::{Goal, Spread, Table};
use crate::usage;

/// Alternates between measuring with the feature and without it.
pub(crate) fn measure(site: &Site, quick: bool) -> Result<Table> {
    let folder = tempfile::tempdir()?;
    let log = format!("--audit-log-path={}", folder.path().join("audit.log").display());
    let policy = folder.path().join("policy.yaml");
    std::fs::write(&policy, POLICY)?;
    let policy = format!("--audit-policy-file={}", policy.display());
    let mut table = Table::new(&[
        "observed",
        "connections",
        "requests/s",
        "of without",
        "goal",
        "CPU µs/request",
        "of without",
        "resident MB",
        "of without",
    ]);
    let collector = Collector::start(folder.path())?;
    let [few, all] =
        [("few", 10_000), ("all", 1_000_000)].map(|(name, rate)| collector.flag(folder.path(), name, rate));
    let (few, all) = (few?, all?);
    let variants: [(&str, Vec<&str>, f64); 5] = [
        ("audit: ends of requests", vec![&log], 0.95),
        ("audit: all stages, batch", vec![&log, &policy, "--audit-log-mode=batch"], 0.95),
        ("audit: all stages, blocking", vec![&log, &policy], 0.95),
        ("audit: ends, traces: 1 %", vec![&log, &few], 0.9),
        ("audit: ends, traces: all", vec![&log, &all], 0.9),
    ];
    for (name, flags, goal) in &variants {
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
                16 => Goal::AtLeast(*goal).verdict(rate.median),
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

/// The OpenTelemetry Collector's own receiver. It is killed when this is dropped.
struct Collector {
    child: Child,
    address: String,
}

impl Collector {
    fn start(folder: &Path) -> Result<Self> {
        let mut child = Command::new(testbed::programs::collector())
            .arg(folder.join("collector"))
            .args(["127.0.0.1", "--discard"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("the collector is not built: run `target/debug/testbed build`")?;
        let mut output = BufReader::new(child.stdout.take().context("no standard output")?);
        let mut address = String::new();
        output.read_line(&mut address)?;
        thread::spawn(move || copy(&mut output, &mut sink()));
        Ok(Self { child, address: address.trim().to_owned() })
    }

    /// The flag of a sidecar that samples this many requests in a million.
    fn flag(&self, folder: &Path, name: &str, rate: u32) -> Result<String> {
        let file = folder.join(name);
        let (kind, address) = ("kind: TracingConfiguration", &self.address);
        let text = format!(
            "apiVersion: apiserver.config.k8s.io/v1\n{kind}\nendpoint: {address}\nsamplingRatePerMillion: {rate}\n"
        );
        std::fs::write(&file, text)?;
        Ok(format!("--tracing-config-file={}", file.display()))
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
