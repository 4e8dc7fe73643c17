//! Runs many agents in one process: each is the agent from the sidecar's crate with its own
//! configuration.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use harness::http1::SIDECAR_NAME;
use sidecar::connection::tls;
use sidecar::programs::agent::{self, config::Config};
use sidecar::programs::args::LogFormat;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::role::say;

#[derive(Args)]
pub(crate) struct Options {
    /// Lines with a cluster and the token of its agent
    #[arg(long)]
    tokens: PathBuf,
    /// Address of a replica or a balancer; agents are spread over them
    #[arg(long)]
    server: Vec<SocketAddr>,
    #[arg(long)]
    ca: PathBuf,
    /// Address that all agents connect to
    #[arg(long)]
    target: String,
    #[arg(long)]
    tunnels: usize,
}

/// Runs until the process is killed.
pub(crate) fn run(options: &Options) -> Result<()> {
    tls::install_provider();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let text = fs::read_to_string(&options.tokens)?;
        let mut agents = JoinSet::new();
        for (number, line) in text.lines().enumerate() {
            let (cluster, token) = line.split_once(' ').context("no token")?;
            agents.spawn(agent::run(config(options, number, cluster, token)?, CancellationToken::new()));
        }
        say("started")?;
        while let Some(ended) = agents.join_next().await {
            ended??;
        }
        Ok(())
    })
}

fn config(options: &Options, number: usize, cluster: &str, token: &str) -> Result<Config> {
    let server = options.server.get(number % options.server.len()).context("no --server")?;
    let values = [
        ("server", format!("https://{server}")),
        ("tls-server-name", SIDECAR_NAME.to_owned()),
        ("token", token.to_owned()),
    ];
    Ok(Config {
        cluster: cluster.parse().map_err(|_| anyhow::anyhow!("not a cluster: {cluster:?}"))?,
        connection_dir: None,
        files: [("ca.crt", options.ca.clone())].into(),
        values: values.into(),
        token_secret: None,
        kubeconfig: None,
        enroll_until: None,
        enroll_token_duration: Duration::ZERO,
        target: options.target.parse()?,
        tunnels: options.tunnels,
        max_streams: 512,
        stream_window: 512 * 1024,
        admin_address: (ADMIN, 0).into(),
        log_format: LogFormat::Text,
    })
}

/// Another address than that whose ports the agents' connections use.
const ADMIN: Ipv4Addr = Ipv4Addr::new(127, 76, 0, 1);
