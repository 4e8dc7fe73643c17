//! Runs replicas of the sidecar behind balancers, and the agents that dial the balancers.

use std::net::SocketAddr;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use harness::bed::{bed, sidecar};
use harness::own_sidecar::OwnSidecar;
use harness::usage;

use super::registered::Registered;
use crate::role::Process;
use crate::usage::Cpu;

pub(super) struct Replicas {
    pub(super) sidecars: Vec<OwnSidecar>,
    pub(super) addresses: Vec<SocketAddr>,
    /// Each balancer uses about half of the open files that a process may have.
    balancers: Vec<(Process, SocketAddr)>,
}

/// The resources of all replicas together.
pub(super) struct State {
    /// Bytes.
    pub(super) resident: f64,
    /// Seconds.
    pub(super) cpu: f64,
    pub(super) tunnels: usize,
}

impl Replicas {
    /// Each replica knows the others. Controllers are off, because they send requests to every member.
    pub(super) fn start(registered: &Registered, count: usize) -> Result<Self> {
        let addresses: Vec<_> =
            PORTS[..count].iter().map(|&port| Ok((bed()?.address, port).into())).collect::<Result<_>>()?;
        let sidecars = addresses.iter().map(|address: &SocketAddr| {
            let peers: Vec<_> = addresses.iter().map(SocketAddr::to_string).collect();
            replica(registered, address.port(), &peers)
        });
        let sidecars = sidecars.collect::<Result<_>>()?;
        let balancers = registered.names.len().div_ceil(AGENTS_OF_A_BALANCER);
        let balancers = (0..balancers).map(|_| Process::balancer(&addresses)).collect::<Result<_>>()?;
        Ok(Self { sidecars, addresses, balancers })
    }

    /// Starts the agents of all members.
    pub(super) fn agents(
        &self,
        registered: &Registered,
        tunnels: usize,
        target: SocketAddr,
    ) -> Result<Process> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("crowd").args(self.balancers.iter().map(|(_, address)| format!("--server={address}")));
        command.arg("--tokens").arg(&registered.tokens).arg("--ca").arg(&sidecar()?.ca_certificate);
        command.args([format!("--target={target}"), format!("--tunnels={tunnels}")]);
        for variable in ["HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"] {
            command.env_remove(variable);
        }
        Ok(Process::start(command)?.0)
    }

    /// Waits until this many tunnels are open, and returns how long that took.
    pub(super) fn until_open(&self, wanted: usize) -> Result<Duration> {
        let begin = Instant::now();
        loop {
            let open = self.tunnels()?;
            if open >= wanted {
                return Ok(begin.elapsed());
            }
            if begin.elapsed() > PATIENCE {
                bail!("only {open} of {wanted} tunnels are open after {:?}", begin.elapsed());
            }
            thread::park_timeout(Duration::from_millis(250));
        }
    }

    pub(super) fn state(&self) -> Result<State> {
        let pids: Vec<_> = self.sidecars.iter().map(OwnSidecar::pid).collect();
        let resident = pids.iter().map(|&pid| usage::resident(pid)).sum::<Result<usize>>()?;
        Ok(State { resident: resident as f64, cpu: Cpu::of(&pids)?.total, tunnels: self.tunnels()? })
    }

    /// Kills the last replica.
    pub(super) fn kill_last(&mut self) -> Result<()> {
        self.sidecars.pop().context("no replica")?.kill()
    }

    fn tunnels(&self) -> Result<usize> {
        let open = self.sidecars.iter().map(|sidecar| sidecar.metric(TUNNELS));
        Ok(open.sum::<Result<f64>>()? as usize)
    }
}

/// A replica at this port of the bed's address; 0 is any port.
pub(super) fn replica(registered: &Registered, port: u16, peers: &[String]) -> Result<OwnSidecar> {
    let (port, peers) = (format!("--secure-port={port}"), format!("--peers={}", peers.join(",")));
    let address = format!("--bind-address={}", bed()?.address);
    registered.fleet.replica(registered.files.path(), &["--controllers=", &address, &port, &peers])
}

const TUNNELS: &str = "mc_sidecar_agent_tunnels ";
/// Ports of the bed's address.
const PORTS: [u16; 3] = [9011, 9012, 9013];
const AGENTS_OF_A_BALANCER: usize = 2_000;
const PATIENCE: Duration = Duration::from_secs(300);
