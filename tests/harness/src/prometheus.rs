//! Runs a real Prometheus (`tests/prometheus`) that scrapes sidecars at their secure port, with a token, and
//! evaluates rules.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use tempfile::TempDir;
use testbed::programs;

use crate::http1::{SIDECAR_NAME, plain_get};
use crate::own_sidecar::OwnSidecar;
use crate::wait::{SOON, eventually};

/// The process. It is killed when this is dropped.
pub struct Prometheus {
    url: String,
    child: Child,
    folder: TempDir,
}

impl Prometheus {
    /// Scrapes these sidecars with a token, and evaluates the rules, both every second. Returns once it has
    /// scraped each sidecar.
    pub fn start(sidecars: &[&OwnSidecar], token: &str, rules: &str) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let file = |name: &str| folder.path().join(name);
        fs::write(file("token"), token)?;
        fs::write(file("rules.yaml"), rules)?;
        fs::write(file("prometheus.yaml"), config(sidecars)?)?;
        let [prometheus, _] = programs::prometheus();
        let child = Command::new(prometheus)
            .args([
                "--config.file=prometheus.yaml",
                "--storage.tsdb.path=data",
                "--web.listen-address=127.0.0.1:0",
            ])
            .current_dir(folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(file("log"))?)
            .spawn()
            .context("cannot start Prometheus")?;
        let mut started = Self { url: String::new(), child, folder };
        started.url = eventually("Prometheus listens", SOON, || started.listening())?;
        eventually("Prometheus has scraped each sidecar", SOON, || {
            let up = started.query("count(up == 1)")?;
            let expected = sidecars.len().to_string();
            ensure!(up.first().is_some_and(|found| found["value"][1] == expected), "{}", started.targets()?);
            Ok(Some(()))
        })?;
        Ok(started)
    }

    /// The series of an instant query, each with `metric` and `value`.
    pub fn query(&self, expression: &str) -> Result<Vec<Value>> {
        let answer = self.get(&format!("/api/v1/query?query={}", encoded(expression)))?;
        Ok(answer["result"].as_array().context("no result")?.clone())
    }

    /// The state of the alert with these labels: `pending`, `firing`, or none.
    pub fn alert(&self, name: &str, labels: &[(&str, &str)]) -> Result<Option<String>> {
        let answer = self.get("/api/v1/alerts")?;
        let is = |alert: &&Value| {
            let has = |(label, value): &(&str, &str)| alert["labels"][label] == *value;
            has(&("alertname", name)) && labels.iter().all(has)
        };
        let found = answer["alerts"].as_array().context("no alerts")?.iter().find(is);
        Ok(found.and_then(|alert| alert["state"].as_str()).map(str::to_owned))
    }

    /// Waits until the alert with these labels fires, or no longer does.
    pub fn until_alert(&self, name: &str, labels: &[(&str, &str)], fires: bool) -> Result<()> {
        let what = format!("{name} {}", if fires { "fires" } else { "is resolved" });
        eventually(&what, SOON, || {
            let state = self.alert(name, labels)?;
            Ok((state.as_deref() == fires.then_some("firing")).then_some(()))
        })
    }

    /// The types of all metrics of the targets, by family.
    pub fn types(&self) -> Result<BTreeMap<String, String>> {
        let answer = self.get("/api/v1/metadata")?;
        let types = answer.as_object().context("no metadata")?.iter();
        Ok(types
            .map(|(name, all)| (name.clone(), all[0]["type"].as_str().unwrap_or_default().to_owned()))
            .collect())
    }

    /// Waits until each rule has been evaluated without an error.
    pub fn until_rules_are_evaluated(&self) -> Result<()> {
        eventually("each rule was evaluated", SOON, || {
            let answer = self.get("/api/v1/rules")?;
            let groups = answer["groups"].as_array().context("no groups")?.iter();
            for rule in groups.flat_map(|group| group["rules"].as_array().into_iter().flatten()) {
                ensure!(rule["health"] == "ok", "{rule}");
            }
            Ok(Some(()))
        })
    }

    fn targets(&self) -> Result<Value> {
        self.get("/api/v1/targets?state=active")
    }

    fn get(&self, path: &str) -> Result<Value> {
        let answer = plain_get(&self.url, path)?;
        let value: Value = serde_json::from_slice(&answer.body).with_context(|| answer.text())?;
        ensure!(value["status"] == "success", "{path}: {value}");
        Ok(value["data"].clone())
    }

    fn listening(&mut self) -> Result<Option<String>> {
        let log = fs::read_to_string(self.folder.path().join("log"))?;
        ensure!(self.child.try_wait()?.is_none(), "it ended: {log}");
        let line = log.lines().find(|line| line.contains("Listening on"));
        let address =
            line.and_then(|line| line.split("address=").nth(1)).and_then(|rest| rest.split(' ').next());
        Ok(address.map(|address| format!("http://{address}")))
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The configuration of docs/how-to/monitoring.md, with fixed addresses.
fn config(sidecars: &[&OwnSidecar]) -> Result<String> {
    let first = sidecars.first().context("no sidecar")?;
    let authority: &Path = &first.sidecar.ca_certificate;
    let targets: Vec<_> = sidecars.iter().map(|own| own.sidecar.url.trim_start_matches("https://")).collect();
    Ok(serde_json::json!({
        "global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"},
        "rule_files": ["rules.yaml"],
        "scrape_configs": [{
            "job_name": "mc-sidecar", "scheme": "https", "authorization": {"credentials_file": "token"},
            "tls_config": {"ca_file": authority, "server_name": SIDECAR_NAME},
            "static_configs": [{"targets": targets}],
        }],
    })
    .to_string())
}

/// The text, with every byte escaped that is not a letter or a digit.
fn encoded(text: &str) -> String {
    text.bytes().fold(String::new(), |mut encoded, byte| {
        let _ = if byte.is_ascii_alphanumeric() {
            write!(encoded, "{}", char::from(byte))
        } else {
            write!(encoded, "%{byte:02X}")
        };
        encoded
    })
}
