//! Runs the built kubectl as an administrator of a cluster.

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use crate::process;

/// A kubectl with one kubeconfig.
#[derive(Clone)]
pub(crate) struct Kubectl {
    pub(crate) bed: String,
    pub(crate) program: PathBuf,
    pub(crate) kubeconfig: PathBuf,
    /// The folder of its discovery cache.
    pub(crate) home: PathBuf,
}

impl Kubectl {
    /// Runs it and returns its standard output.
    pub(crate) fn run(&self, args: &[&str]) -> Result<String> {
        self.run_with_input(args, "")
    }

    /// Applies objects in order. Retries when kubectl times out, because a dozen kube-apiservers
    /// start on one machine.
    pub(crate) fn apply(&self, objects: &[Value]) -> Result<()> {
        let list = json!({"apiVersion": "v1", "kind": "List", "items": objects}).to_string();
        let apply = || self.run_with_input(&["apply", "--server-side", "-f", "-"], &list).map(drop);
        for _ in 0..RETRIES {
            match apply() {
                Err(error) if error.to_string().contains("Client.Timeout") => {}
                done => return done,
            }
        }
        apply()
    }

    fn run_with_input(&self, args: &[&str], input: &str) -> Result<String> {
        let mut command = Command::new(&self.program);
        let mut child = process::environment(&mut command, &self.bed)
            .args(args)
            .env("KUBECONFIG", &self.kubeconfig)
            .env("HOME", &self.home)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot start: {}", self.program.display()))?;
        if let Some(mut stdin) = child.stdin.take() {
            stdin.write_all(input.as_bytes())?;
        }
        let output = child.wait_with_output()?;
        if !output.status.success() {
            bail!("kubectl {}: {}", args.join(" "), String::from_utf8_lossy(&output.stderr).trim());
        }
        Ok(String::from_utf8(output.stdout)?)
    }
}

const RETRIES: usize = 2;
