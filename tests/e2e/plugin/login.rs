//! `kubectl mc login`: one login makes kubectl, the plugin and members see the same user, until
//! logout.

mod keyring;
mod oidc;

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use harness::bed::{bed, kubectl};
use harness::caller::Caller;
use harness::tool::Tool;
use serde_json::Value;

use crate::plugin;

/// A user with a kubeconfig that has a context for the host and no credential. There is no keyring.
struct Person {
    plugin: Tool,
    kubectl: Tool,
}

impl Person {
    fn new() -> Result<Self> {
        // The plugin does not read the caller's kubeconfig.
        let plugin = plugin(&Caller::token("theo")?)?;
        let kubeconfig = plugin.home().join("kubeconfig");
        let host = &bed()?.host;
        let authority = STANDARD.encode(fs::read(&host.ca_certificate)?);
        let text = format!(
            "apiVersion: v1\nkind: Config\nclusters:\n- cluster:\n    certificate-authority-data: {authority}\n    \
             server: {}\n  name: hub\ncontexts:\n- context:\n    cluster: hub\n  name: hub\ncurrent-context: hub\n",
            host.server
        );
        fs::write(&kubeconfig, text)?;
        let kubectl = Tool::client(kubectl()?, &Caller::token("theo")?)?;
        let kubectl = kubectl.env("HOME", plugin.home());
        let [plugin, kubectl] = [plugin, kubectl].map(|tool| tool.env("KUBECONFIG", &kubeconfig));
        Ok(Self { plugin, kubectl })
    }

    /// The user name of kubectl at the host.
    fn name(&self) -> Result<String> {
        self.kubectl.ok(&["auth", "whoami", "-o", "jsonpath={.status.userInfo.username}"])
    }

    fn file(&self) -> Result<PathBuf> {
        let folder = self.plugin.home().join(".local/state/kubectl-mc");
        let mut files = fs::read_dir(folder)?.filter_map(|entry| Some(entry.ok()?.path()));
        files.find(|file| file.extension().is_some_and(|end| end == "json")).context("no login is stored")
    }

    /// Changes the stored credential to an expired one.
    fn expire(&self) -> Result<()> {
        let file = self.file()?;
        let mut record: Value = serde_json::from_slice(&fs::read(&file)?)?;
        ensure!(record["credential"]["expires"].is_string(), "no end is stored");
        record["credential"]["expires"] = "2020-01-01T00:00:00Z".into();
        Ok(fs::write(file, record.to_string())?)
    }
}
