//! `conformance` runs upstream's own end-to-end tests of kubectl (`[sig-cli]`) with a member's
//! proxy path as their server. A spec that passes at the member itself must also pass through the
//! proxy; `exceptions.txt` lists those that cannot.
//!
//! - [`suite`]: one run of upstream's test program, and its report
//! - [`plugin`]: the plugin in place of kubectl
//! - [`exceptions`]: the specs that cannot pass through the proxy
//! - [`verdict`]: compares the two runs

use std::io::Write;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};
use harness::bed::{kubectl, member};
use harness::caller::Caller;
use harness::own_agent;
use serde_json::json;

use crate::exceptions::{Exceptions, Program};
use crate::suite::Suite;
use crate::verdict::Verdict;

mod exceptions;
mod plugin;
mod suite;
mod verdict;

/// Runs upstream's end-to-end tests of kubectl through the proxy
#[derive(Parser)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Build upstream's test program, which takes minutes the first time
    Build,
    /// Run the specs; started by `testbed run --node m1 --sidecar PATH --`
    Run {
        /// Only specs whose names match this regular expression of Go
        #[arg(long, default_value = ".")]
        focus: String,
        /// Reach the member through an agent's tunnel
        #[arg(long)]
        by_agent: bool,
        /// Run the plugin in place of kubectl
        #[arg(long)]
        by_plugin: bool,
        /// How long a run of them may take, in minutes
        #[arg(long, default_value_t = 30)]
        minutes: u32,
    },
}

fn main() -> ExitCode {
    let done = match Cli::parse().command {
        Command::Build => testbed::programs::build_upstream_tests().map(|_| true),
        Command::Run { focus, by_agent, by_plugin, minutes } => {
            let program = if by_plugin { Program::Plugin } else { Program::Kubectl };
            run(&focus, by_agent, program, minutes)
        }
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            // A failure to write this cannot be reported.
            let _ = writeln!(std::io::stderr(), "conformance: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Through the proxy first; what fails there is then tried at the member itself.
fn run(focus: &str, by_agent: bool, program: Program, minutes: u32) -> Result<bool> {
    let exceptions = Exceptions::parse(include_str!("../exceptions.txt"))?;
    let member = member(MEMBER)?;
    let suite =
        Suite { program: testbed::programs::build_upstream_tests()?, minutes, not_run: exceptions.not_run() };
    let (name, cluster) = match by_agent {
        true => ("by-agent", own_agent::shared()?.cluster.as_str()),
        false => ("proxied", MEMBER),
    };
    let admin = host_admin(cluster)?;
    let plugin = match program {
        Program::Kubectl => None,
        Program::Plugin => Some(plugin::InPlaceOfKubectl::new(cluster)?),
    };
    let (name, kubectl_path) = match &plugin {
        None => (name.to_owned(), kubectl()?),
        Some(plugin) => (format!("{name}-plugin"), plugin.path()),
    };
    let proxied =
        suite.run(&name, &kubectl_path, &admin.kubeconfig(), &[&format!(r"\[sig-cli\].*({focus})")])?;
    let failed = proxied.failed();
    let failed = failed.iter().map(|name| suite::exactly(name)).collect::<Vec<_>>();
    let direct = if failed.is_empty() {
        suite::Report::default()
    } else {
        let focus = failed.iter().map(String::as_str).collect::<Vec<_>>();
        suite.run("direct", &kubectl()?, &member.kubeconfig, &focus)?
    };
    let verdict = Verdict::new(&proxied, &direct, &exceptions, program);
    write!(std::io::stdout(), "{verdict}")?;
    Ok(verdict.is_good())
}

/// An administrator of the host, at the cluster's proxy path.
fn host_admin(cluster: &str) -> Result<Caller> {
    let admin = Caller::certificate("conformance", &["system:masters"])?.at(cluster)?;
    let file = |name: &str| admin.folder().join(name).to_string_lossy().into_owned();
    // Upstream's program takes relative paths from its own working directory.
    let credential = json!({"client-certificate": file("tls.crt"), "client-key": file("tls.key")});
    admin.edit(|config| config["users"][0]["user"] = credential)
}

/// The member whose proxy is tested: the one with a node.
const MEMBER: &str = "m1";
