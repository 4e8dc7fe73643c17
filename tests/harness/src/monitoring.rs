//! Reads the alert rules and the dashboard of `sidecar/deploy`, and finds the metrics that they
//! use.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use regex::Regex;
use serde_json::Value;

/// The text of the alert rules.
pub fn alerts() -> Result<String> {
    read("sidecar/deploy/alerts.yaml")
}

pub fn dashboard() -> Result<Value> {
    Ok(serde_json::from_str(&read("sidecar/deploy/dashboard.json")?)?)
}

/// The title and the expression of each query of the dashboard's panels.
pub fn panel_queries() -> Result<Vec<(String, String)>> {
    let dashboard = dashboard()?;
    let mut queries = Vec::new();
    for panel in dashboard["panels"].as_array().context("no panels")? {
        let title = panel["title"].as_str().context("a panel without a title")?;
        for target in panel["targets"].as_array().into_iter().flatten() {
            let expression = target["expr"].as_str().context("a query without an expression")?;
            queries.push((title.to_owned(), expression.to_owned()));
        }
    }
    Ok(queries)
}

/// The metric families that the alert rules and the dashboard use, without a histogram's suffixes.
pub fn metrics() -> Result<BTreeSet<String>> {
    Ok(metrics_in(&(alerts()? + &dashboard()?.to_string())))
}

/// The metrics that a text mentions. A sidecar's metrics begin with one of a few words, and nothing
/// else does.
pub fn metrics_in(text: &str) -> BTreeSet<String> {
    let name = Regex::new(
        r"\b(apiserver|authentication|authorization|leader_election|mc_sidecar|process|workqueue)_[a-z0-9_]+",
    );
    let name = name.expect("the expression is valid");
    let suffixes = ["_bucket", "_sum", "_count"];
    let family = |name: &str| suffixes.iter().find_map(|suffix| name.strip_suffix(suffix)).map(str::to_owned);
    name.find_iter(text)
        .map(|found| family(found.as_str()).unwrap_or_else(|| found.as_str().to_owned()))
        .collect()
}

fn read(path: &str) -> Result<String> {
    fs::read_to_string(root().join(path)).with_context(|| path.to_owned())
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

#[cfg(test)]
mod tests {
    use super::*;

    const HANDBOOK: &str = "docs/how-to/handbook/alerts.md";

    #[test]
    fn every_metric_in_use_is_documented() {
        let table = read("docs/reference/metrics.md").unwrap();
        let documented = metrics_in(&table);
        let missing: Vec<_> =
            metrics().unwrap().into_iter().filter(|name| !documented.contains(name)).collect();
        assert!(missing.is_empty(), "not in docs/reference/metrics.md: {missing:#?}");
        assert!(metrics().unwrap().len() > 40);
    }

    #[test]
    fn every_alert_has_a_section_in_the_handbook() {
        let (alerts, handbook) = (alerts().unwrap(), read(HANDBOOK).unwrap());
        let names = captures(&alerts, r"(?m)^  - alert: (\w+)$");
        assert!(names.len() > 10, "{names:?}");
        assert_eq!(
            captures(&handbook, r"(?m)^## (Mc\w+)$"),
            names,
            "sections of {HANDBOOK}, in the order of the rules"
        );
        let page = format!("{}/blob/main/{HANDBOOK}", env!("CARGO_PKG_REPOSITORY"));
        let links: Vec<_> = names.iter().map(|name| format!("{page}#{}", name.to_lowercase())).collect();
        assert_eq!(captures(&alerts, r"(?m)^      runbook_url: (\S+)$"), links);
    }

    #[test]
    fn alerts_have_unique_names_and_every_field() {
        let alerts = alerts().unwrap();
        let names = captures(&alerts, r"(?m)^  - alert: (\w+)$");
        assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len(), "{names:?}");
        for rule in alerts.split("  - alert: ").skip(1) {
            let has = |field: &str| assert!(rule.contains(field), "no {field}: {rule}");
            assert_eq!(captures(rule, r"labels: \{severity: (critical|warning)\}").len(), 1, "{rule}");
            ["expr: ", "summary: ", "description: >-", "First command: kubectl "].into_iter().for_each(has);
        }
    }

    #[test]
    fn handbook_has_three_commands_for_each_alert() {
        for section in read(HANDBOOK).unwrap().split("\n## Mc").skip(1) {
            let commands = section.lines().filter(|line| line.starts_with("$ kubectl ")).count();
            assert!(commands >= 3, "{commands} commands: {section}");
        }
    }

    #[test]
    fn panels_have_unique_ids_and_do_not_overlap() {
        let dashboard = dashboard().unwrap();
        let panels = dashboard["panels"].as_array().unwrap();
        let ids: BTreeSet<_> = panels.iter().map(|panel| panel["id"].as_u64().unwrap()).collect();
        assert_eq!(ids.len(), panels.len());
        let mut cells = BTreeSet::new();
        for panel in panels {
            let at = |side: &str| panel["gridPos"][side].as_u64().unwrap();
            for (x, y) in (0..at("w")).flat_map(|x| (0..at("h")).map(move |y| (x, y))) {
                assert!(at("x") + x < 24 && cells.insert((at("x") + x, at("y") + y)), "{}", panel["title"]);
            }
        }
    }

    #[test]
    fn metrics_are_found_in_expressions() {
        let expression = r#"sum by (le, priority_level) (rate(mc_sidecar_x_seconds_bucket{job="mc-sidecar"}[5m])) > process_a"#;
        assert_eq!(
            metrics_in(expression),
            BTreeSet::from(["mc_sidecar_x_seconds", "process_a"].map(str::to_owned))
        );
    }

    fn captures(text: &str, expression: &str) -> Vec<String> {
        Regex::new(expression).unwrap().captures_iter(text).map(|found| found[1].to_owned()).collect()
    }
}
