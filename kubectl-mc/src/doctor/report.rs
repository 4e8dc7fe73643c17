//! Formats the findings as lines for people and as JSON for programs.

use serde_json::{Value, json};

use crate::error::Hint;
use crate::exit::ExitStatus;
use crate::next_command::GivenFlags;

/// The result of a check, from good to bad.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Level {
    Ok,
    /// The check lacks a prerequisite, such as a right or a pod.
    Skipped,
    Warning,
    Problem,
}

impl Level {
    fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Skipped => "skipped",
            Self::Warning => "warning",
            Self::Problem => "problem",
        }
    }
}

/// The result of one check, with its message.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Finding {
    pub(super) check: &'static str,
    pub(super) level: Level,
    pub(super) message: String,
    /// A command, or a sentence if no command helps.
    pub(super) fix: Option<Hint>,
}

impl Finding {
    pub(super) fn ok(check: &'static str, message: impl Into<String>) -> Self {
        Self { check, level: Level::Ok, message: message.into(), fix: None }
    }

    pub(super) fn skipped(check: &'static str, message: impl Into<String>) -> Self {
        Self { check, level: Level::Skipped, message: message.into(), fix: None }
    }

    pub(super) fn warning(check: &'static str, message: impl Into<String>, fix: impl Into<Hint>) -> Self {
        Self { check, level: Level::Warning, message: message.into(), fix: Some(fix.into()) }
    }

    pub(super) fn problem(
        check: &'static str,
        message: impl Into<String>,
        fix: Option<impl Into<Hint>>,
    ) -> Self {
        Self { check, level: Level::Problem, message: message.into(), fix: fix.map(Into::into) }
    }
}

/// All checks of one subject: the machine, the host or a cluster.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Section {
    kind: Kind,
    name: String,
    findings: Vec<Finding>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Machine,
    Kubeconfig,
    Host,
    Cluster,
}

impl Kind {
    fn word(self) -> &'static str {
        match self {
            Self::Machine => "machine",
            Self::Kubeconfig => "kubeconfig",
            Self::Host => "host",
            Self::Cluster => "cluster",
        }
    }
}

impl Section {
    pub(super) fn new(kind: Kind, name: impl Into<String>, findings: Vec<Finding>) -> Self {
        Self { kind, name: name.into(), findings }
    }

    /// Adds the given flags to the commands of fixes that address no host. Fixes for the machine
    /// address none.
    pub(super) fn with_flags(mut self, given: &GivenFlags) -> Self {
        if self.kind != Kind::Machine {
            for finding in &mut self.findings {
                finding.fix = finding.fix.take().map(|fix| fix.with_flags(given));
            }
        }
        self
    }

    /// The worst of its levels.
    fn level(&self) -> Level {
        self.findings.iter().map(|finding| finding.level).max().unwrap_or(Level::Ok)
    }

    /// The lines without line endings. A cluster without a warning takes one line, because there may be
    /// hundreds.
    pub(super) fn lines(&self) -> Vec<String> {
        if self.kind == Kind::Cluster && self.level() < Level::Warning {
            let messages: Vec<_> = self.findings.iter().map(|finding| finding.message.as_str()).collect();
            return vec![format!("{}: ok: {}", self.name, messages.join("; "))];
        }
        let width = self.findings.iter().map(|finding| finding.check.len()).max().unwrap_or_default();
        let mut lines = vec![format!("{}:", self.name)];
        for Finding { check, level, message, fix } in &self.findings {
            lines.push(format!("  {:<7}  {check:<width$}  {message}", level.word()));
            if let Some(fix) = fix {
                lines.push(format!("  {:7}  {:width$}  fix: {fix}", "", ""));
            }
        }
        lines
    }
}

/// All sections in order.
#[derive(Debug, Default)]
pub(super) struct Report(Vec<Section>);

impl Report {
    pub(super) fn add(&mut self, section: Section) {
        self.0.push(section);
    }

    pub(super) fn status(&self) -> ExitStatus {
        let is_healthy = self.0.iter().all(|section| section.level() < Level::Problem);
        if is_healthy { ExitStatus::Success } else { ExitStatus::Failed }
    }

    /// `3 clusters checked: 1 problem, 2 warnings`
    pub(super) fn summary(&self) -> String {
        let count = |level: Level| {
            self.0
                .iter()
                .flat_map(|section| &section.findings)
                .filter(|finding| finding.level == level)
                .count()
        };
        let plural =
            |count: usize, word: &str| format!("{count} {word}{}", if count == 1 { "" } else { "s" });
        let clusters = self.0.iter().filter(|section| section.kind == Kind::Cluster).count();
        format!(
            "{} checked: {}, {}",
            plural(clusters, "cluster"),
            plural(count(Level::Problem), "problem"),
            plural(count(Level::Warning), "warning")
        )
    }

    /// The report as JSON, with an object for each check.
    pub(super) fn data(&self) -> Value {
        let checks = self.0.iter().flat_map(|section| {
            section.findings.iter().map(|Finding { check, level, message, fix }| {
                let mut object = json!({
                    "check": check, "message": message, "result": level.word(), "scope": section.kind.word(),
                });
                if !matches!(section.kind, Kind::Machine | Kind::Kubeconfig) {
                    object["name"] = section.name.as_str().into();
                }
                if let Some(fix) = fix {
                    object["fix"] = fix.to_string().into();
                }
                object
            })
        });
        json!({"checks": checks.collect::<Vec<_>>()})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(findings: Vec<Finding>) -> Report {
        let mut report = Report::default();
        report.add(Section::new(Kind::Machine, "This machine", vec![Finding::ok("plugin", "v1")]));
        report.add(Section::new(Kind::Cluster, "m1", findings));
        report
    }

    #[test]
    fn healthy_cluster_takes_one_line() {
        let report = report(vec![
            Finding::ok("request", "v1.36.3 in 4 ms"),
            Finding::skipped("streams", "no pod runs there"),
        ]);
        assert_eq!(report.0[1].lines(), ["m1: ok: v1.36.3 in 4 ms; no pod runs there"]);
        assert_eq!(report.summary(), "1 cluster checked: 0 problems, 0 warnings");
        assert_eq!(report.status(), ExitStatus::Success);
    }

    #[test]
    fn each_finding_beyond_ok_has_its_fix_below() {
        let report = report(vec![
            Finding::ok("request", "v1.36.3 in 4 ms"),
            Finding::problem("token", "it has expired", Some("kubectl mc join m1 --renew")),
            Finding::warning("kubectl", "too new", "use an older one"),
        ]);
        assert_eq!(
            report.0[1].lines().join("\n"),
            "m1:\n  \
             ok       request  v1.36.3 in 4 ms\n  \
             problem  token    it has expired\n                    \
             fix: kubectl mc join m1 --renew\n  \
             warning  kubectl  too new\n                    \
             fix: use an older one"
        );
        assert_eq!(report.summary(), "1 cluster checked: 1 problem, 1 warning");
        assert_eq!(report.status(), ExitStatus::Failed);
    }

    #[test]
    fn warning_alone_is_no_failure() {
        assert_eq!(report(vec![Finding::warning("x", "y", "z")]).status(), ExitStatus::Success);
    }

    #[test]
    fn data_includes_every_check() {
        let data = report(vec![Finding::problem("token", "expired", Some("renew"))]).data();
        assert_eq!(
            data,
            json!({"checks": [
                {"check": "plugin", "message": "v1", "result": "ok", "scope": "machine"},
                {"check": "token", "fix": "renew", "message": "expired", "name": "m1", "result": "problem", "scope": "cluster"},
            ]})
        );
    }
}
