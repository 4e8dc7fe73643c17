//! The roles in which this program starts itself: a separate process has its own memory and its own
//! limit on open files.

use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};
use clap::{Args, Subcommand};

use crate::agent_fleet::{balancer, crowd};
use crate::nginx::Certificates;
use crate::{bare, member};

/// What it does instead of measuring.
#[derive(Subcommand)]
pub(crate) enum Role {
    /// Be a member whose answers have no end
    #[command(hide = true)]
    Member(Serving),
    /// Hold watches of that member without a proxy, and say what they take
    #[command(hide = true)]
    Bare(Holding),
    /// Run many agents
    #[command(hide = true)]
    Crowd(crowd::Options),
    /// Carry connections to replicas by turns
    #[command(hide = true)]
    Balancer(balancer::Options),
}

#[derive(Args)]
pub(crate) struct Serving {
    #[arg(long)]
    pub(crate) address: SocketAddr,
    #[arg(long)]
    pub(crate) certificate: PathBuf,
    #[arg(long)]
    pub(crate) key: PathBuf,
}

#[derive(Args)]
pub(crate) struct Holding {
    #[arg(long)]
    pub(crate) address: SocketAddr,
    #[arg(long)]
    pub(crate) ca: PathBuf,
    #[arg(long)]
    pub(crate) connections: usize,
    /// By what, above the socket
    #[arg(long, value_enum)]
    pub(crate) by: Layer,
}

/// How much of a proxy's way to a member there is.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub(crate) enum Layer {
    Tls,
    Http,
}

impl Role {
    pub(crate) fn play(&self) -> Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        match self {
            Self::Crowd(options) => crowd::run(options),
            Self::Balancer(options) => runtime.block_on(balancer::run(options)),
            Self::Member(serving) => runtime.block_on(member::serve(serving)),
            Self::Bare(holding) => runtime.block_on(bare::hold(holding)),
        }
    }
}

/// Prints one line for the process that started this one.
pub(crate) fn say(line: &str) -> Result<()> {
    let mut stdout = std::io::stdout().lock();
    writeln!(stdout, "{line}")?;
    Ok(stdout.flush()?)
}

/// A process of this program, until this is dropped.
pub(crate) struct Process(Child);

impl Process {
    /// A member, and the address at which it serves.
    pub(crate) fn member(address: SocketAddr, certificates: &Certificates) -> Result<(Self, SocketAddr)> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("member").arg(format!("--address={address}"));
        command.arg("--certificate").arg(&certificates.certificate).arg("--key").arg(&certificates.key);
        let (process, line) = Self::start(command)?;
        Ok((process, line.parse().with_context(|| format!("not an address: {line:?}"))?))
    }

    /// The bytes that one watch takes without a proxy.
    pub(crate) fn bare(address: SocketAddr, ca: &PathBuf, connections: usize, by: Layer) -> Result<f64> {
        let by = match by {
            Layer::Tls => "tls",
            Layer::Http => "http",
        };
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["bare".to_owned(), format!("--address={address}"), format!("--by={by}")]);
        command.arg(format!("--connections={connections}")).arg("--ca").arg(ca);
        let (_, line) = Self::start(command)?;
        line.parse().with_context(|| format!("not a number: {line:?}"))
    }

    /// A balancer before these replicas, and the address at which it accepts connections.
    pub(crate) fn balancer(replicas: &[SocketAddr]) -> Result<(Self, SocketAddr)> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("balancer").args(replicas.iter().map(|replica| format!("--replica={replica}")));
        let (process, line) = Self::start(command)?;
        Ok((process, line.parse().with_context(|| format!("not an address: {line:?}"))?))
    }

    /// Starts it and waits for its first line.
    pub(crate) fn start(mut command: Command) -> Result<(Self, String)> {
        let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
        let mut process = Self(child);
        let mut line = String::new();
        BufReader::new(process.0.stdout.take().context("no output")?).read_line(&mut line)?;
        Ok((process, line.trim().to_owned()))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
