//! Commands of Go in one module, all with the same flags: only then do they use one build cache.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

/// A module, the flags and the packages.
pub(super) struct Go<'a> {
    pub(super) module: &'a Path,
    pub(super) flags: Vec<String>,
    pub(super) packages: &'a [String],
    /// For Windows, and not for this system.
    pub(super) is_for_windows: bool,
}

impl Go<'_> {
    /// A command without its packages.
    pub(super) fn command(&self, verb: &[&str]) -> Command {
        let mut command = Command::new("go");
        command
            .args(verb)
            .args(&self.flags)
            .envs([("CGO_ENABLED", "0"), ("GOTOOLCHAIN", "local")])
            // This saves a tenth of the CPU time at the cost of some hundred megabytes: the
            // compiler rarely collects garbage.
            .env("GOGC", "800")
            .current_dir(self.module)
            .stdin(Stdio::null());
        if self.is_for_windows {
            command.env("GOOS", "windows");
        }
        command
    }

    /// The output of a command about the packages.
    pub(super) fn run(&self, verb: &[&str]) -> Result<String> {
        let mut command = self.command(verb);
        let output = command.args(self.packages).stderr(Stdio::inherit()).output();
        let output = output.context("cannot start: go (Go builds Kubernetes)")?;
        if !output.status.success() {
            bail!("go {} in {}: {}", verb[0], self.module.display(), output.status);
        }
        Ok(String::from_utf8(output.stdout)?)
    }
}
