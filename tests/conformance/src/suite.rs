//! One run of upstream's test program, and its report.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use harness::bed::bed;
use serde::Deserialize;

/// Upstream's test program and what all its runs have in common.
pub(crate) struct Suite {
    pub(crate) program: PathBuf,
    /// How long one run may take.
    pub(crate) minutes: u32,
    /// Names of specs to leave out.
    pub(crate) not_run: Vec<String>,
}

/// The specs that ran, by their full names.
#[derive(Default)]
pub(crate) struct Report {
    pub(crate) specs: BTreeMap<String, Outcome>,
}

#[derive(Debug, PartialEq)]
pub(crate) enum Outcome {
    Passed,
    Failed(String),
    /// The spec found that it cannot run here.
    SkippedItself(String),
}

impl Suite {
    /// The folder of the logs and reports of all runs.
    pub(crate) fn folder() -> Result<PathBuf> {
        let target = bed()?.dir.ancestors().nth(2).context("the bed is not in a target folder")?;
        let dir = target.join("conformance");
        fs::create_dir_all(&dir)?;
        Ok(dir)
    }

    /// Runs the specs that match one of these, with this kubectl, as the user of the kubeconfig.
    /// `name` is the name of its files.
    pub(crate) fn run(
        &self,
        name: &str,
        kubectl: &Path,
        kubeconfig: &Path,
        focus: &[&str],
    ) -> Result<Report> {
        let dir = Self::folder()?;
        let report = dir.join(format!("{name}.json"));
        let _ = fs::remove_file(&report);
        let log = dir.join(format!("{name}.log"));
        let output = File::create(&log)?;
        // The images on the bed's nodes have upstream's names, apart from the registry.
        let registries = dir.join("registries.yaml");
        fs::write(&registries, "promoterE2eRegistry: testbed.local\ngcRegistry: testbed.local\n")?;
        let mut command = Command::new(&self.program);
        command.arg("--provider=skeleton").arg("--kubeconfig").arg(kubeconfig);
        command.arg("--kubectl-path").arg(kubectl);
        command.args(focus.iter().map(|focus| format!("--ginkgo.focus={focus}")));
        command.arg(format!("--ginkgo.skip={NOT_HERE}"));
        command.args(self.not_run.iter().map(|name| format!("--ginkgo.skip={}", exactly(name))));
        command.arg("--ginkgo.no-color").arg(format!("--ginkgo.timeout={}m", self.minutes));
        command.arg(format!("--ginkgo.json-report={}", report.display()));
        command.env("KUBE_TEST_REPO_LIST", &registries).env_remove("KUBECONFIG");
        writeln!(std::io::stdout(), "conformance: {name} specs are running: {}", log.display())?;
        // Specs that want a proxy bring their own.
        for variable in ["HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"] {
            command.env_remove(variable).env_remove(variable.to_lowercase());
        }
        let status = command
            .stdout(output.try_clone()?)
            .stderr(output)
            .status()
            .with_context(|| format!("cannot start: {}", self.program.display()))?;
        let text = fs::read(&report)
            .with_context(|| format!("{status}, and there is no report: see {}", log.display()))?;
        Report::parse(&text).with_context(|| format!("{status}: see {}", log.display()))
    }
}

impl Report {
    /// Reads Ginkgo's JSON report.
    fn parse(text: &[u8]) -> Result<Self> {
        let suites: Vec<SuiteReport> = serde_json::from_slice(text).context("not a report")?;
        let mut specs = BTreeMap::new();
        for spec in suites.into_iter().flat_map(|suite| suite.specs) {
            let name = spec.name();
            let said = spec.failure.map(|failure| failure.message).unwrap_or_default();
            let outcome = match spec.state.as_str() {
                "passed" => Outcome::Passed,
                // It was left out by the command line and did not skip itself.
                "skipped" if said.is_empty() => continue,
                "skipped" => Outcome::SkippedItself(said),
                "pending" => continue,
                state => Outcome::Failed(format!("{state}: {said}")),
            };
            if spec.kind == "It" {
                specs.insert(name, outcome);
            } else if let Outcome::Failed(said) = outcome {
                bail!("{}: {said}", spec.kind);
            }
        }
        ensure!(!specs.is_empty(), "no spec ran");
        Ok(Self { specs })
    }

    pub(crate) fn failed(&self) -> Vec<&str> {
        let failed = self.specs.iter().filter(|(_, outcome)| matches!(outcome, Outcome::Failed(_)));
        failed.map(|(name, _)| name.as_str()).collect()
    }
}

/// A regular expression of Go that matches the spec of this name.
pub(crate) fn exactly(text: &str) -> String {
    let mut expression = String::with_capacity(text.len() * 2);
    for letter in text.chars() {
        if !letter.is_alphanumeric() && letter.is_ascii() && letter != ' ' {
            expression.push('\\');
        }
        expression.push(letter);
    }
    // Some names are prefixes of others.
    expression.push('$');
    expression
}

#[derive(Deserialize)]
struct SuiteReport {
    #[serde(rename = "SpecReports")]
    specs: Vec<SpecReport>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct SpecReport {
    #[serde(rename = "ContainerHierarchyTexts")]
    containers: Option<Vec<String>>,
    #[serde(rename = "LeafNodeType")]
    kind: String,
    leaf_node_text: String,
    state: String,
    failure: Option<Failure>,
}

impl SpecReport {
    fn name(&self) -> String {
        let words = self.containers.iter().flatten().chain([&self.leaf_node_text]);
        words.map(String::as_str).collect::<Vec<_>>().join(" ")
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Failure {
    #[serde(default)]
    message: String,
}

/// Specs that take very long, need the cluster for themselves, or need images that are not in the
/// bed.
const NOT_HERE: &str = r"\[Slow\]|\[Serial\]|\[Disruptive\]|Guestbook|Update Demo";

#[cfg(test)]
mod tests {
    use super::*;

    fn report(specs: &str) -> Result<Report> {
        Report::parse(format!(r#"[{{"SpecReports": [{specs}]}}]"#).as_bytes())
    }

    fn spec(name: &str, kind: &str, state: &str, message: &str) -> String {
        format!(
            r#"{{"ContainerHierarchyTexts": ["[sig-cli] Kubectl"], "LeafNodeType": "{kind}",
                "LeafNodeText": "{name}", "State": "{state}", "Failure": {{"Message": "{message}"}}}}"#
        )
    }

    #[test]
    fn specs_that_ran_are_separate_from_skipped_specs() {
        let specs = [
            spec("a", "It", "passed", ""),
            spec("b", "It", "timedout", "late"),
            spec("c", "It", "skipped", "not here"),
            spec("d", "It", "skipped", ""),
        ];
        let report = report(&specs.join(",")).unwrap();
        assert_eq!(report.specs.len(), 3);
        assert_eq!(report.specs["[sig-cli] Kubectl a"], Outcome::Passed);
        assert_eq!(report.failed(), ["[sig-cli] Kubectl b"]);
        assert_eq!(report.specs["[sig-cli] Kubectl c"], Outcome::SkippedItself("not here".to_owned()));
    }

    #[test]
    fn run_without_specs_fails() {
        assert!(report(&spec("a", "It", "skipped", "")).is_err());
    }

    #[test]
    fn suite_that_does_not_begin_fails() {
        let specs =
            [spec("a", "It", "passed", ""), spec("", "SynchronizedBeforeSuite", "failed", "no nodes")];
        assert!(report(&specs.join(",")).is_err());
    }

    #[test]
    fn name_becomes_an_expression_that_matches_it_alone() {
        assert_eq!(exactly("[sig-cli] port 0"), r"\[sig\-cli\] port 0$");
    }
}
