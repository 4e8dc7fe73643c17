//! Runs konnectivity's own programs (`tests/konnectivity`), through which members are reached: an agent, and
//! a server in http-connect mode with one set of certificates for its clients and another for its agents.

use std::fs::{self, File};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use tempfile::TempDir;
use testbed::programs;

use crate::bed::bed;
use crate::proxy_authority::{ProxyAuthority, Signed};

/// The server and its agent, until this is dropped.
pub struct Konnectivity {
    server: Program,
    agent: Option<Program>,
    /// The server's port for the agent, and the hosts that the agent announces.
    agent_port: u16,
    identifiers: String,
    frontend: ProxyAuthority,
    client: Signed,
    url: String,
    folder: TempDir,
}

impl Konnectivity {
    /// Starts them on the bed's own address, with an agent for the hosts of these servers.
    pub fn start(servers: &[&str]) -> Result<Self> {
        let (address, folder) = (bed()?.address.to_string(), tempfile::tempdir()?);
        let (frontend, agents) = (ProxyAuthority::new()?, ProxyAuthority::new()?);
        let file = |name: &str| folder.path().join(name);
        fs::write(file("frontend-ca.crt"), frontend.pem())?;
        fs::write(file("agents-ca.crt"), agents.pem())?;
        write(&file("frontend"), &frontend.server(&[&address])?)?;
        write(&file("for-agents"), &agents.server(&[&address])?)?;
        write(&file("agent"), &agents.client()?)?;
        let [port, agent_port, admin, health] = free_ports()?;
        let path = |flag: &str, name: &str| format!("--{flag}={}", file(name).display());
        let server = [
            "--mode=http-connect".to_owned(),
            "--proxy-strategies=destHost".to_owned(),
            format!("--server-bind-address={address}"),
            format!("--server-port={port}"),
            path("server-cert", "frontend.crt"),
            path("server-key", "frontend.key"),
            path("server-ca-cert", "frontend-ca.crt"),
            format!("--agent-bind-address={address}"),
            format!("--agent-port={agent_port}"),
            path("cluster-cert", "for-agents.crt"),
            path("cluster-key", "for-agents.key"),
            path("cluster-ca-cert", "agents-ca.crt"),
            format!("--admin-port={admin}"),
            "--health-bind-address=127.0.0.1".to_owned(),
            format!("--health-port={health}"),
        ];
        let [program, _] = programs::konnectivity();
        let server = Program::start(&program, &server, &file("server.log"))?;
        let hosts =
            servers.iter().filter_map(|server| server.trim_start_matches("https://").rsplit_once(':'));
        let identifiers: Vec<_> = hosts.map(|(host, _)| format!("host={host}")).collect();
        let mut konnectivity = Self {
            server,
            agent: None,
            agent_port,
            identifiers: identifiers.join("&"),
            client: frontend.client()?,
            frontend,
            url: format!("https://{address}:{port}"),
            folder,
        };
        konnectivity.start_agent()?;
        Ok(konnectivity)
    }

    /// The server's URL, for `proxy-url`.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The keys of a member's Secret.
    pub fn secret_keys(&self) -> Value {
        let mut keys = self.frontend.secret_keys(&self.client);
        keys["proxy-url"] = self.url.clone().into();
        keys
    }

    /// The flags of a join. Their files are written into this folder.
    pub fn flags(&self, folder: &Path) -> Result<[String; 4]> {
        fs::write(folder.join("proxy-ca.crt"), self.frontend.pem())?;
        write(&folder.join("proxy"), &self.client)?;
        let file = |flag: &str, name: &str| format!("--proxy-{flag}={}", folder.join(name).display());
        Ok([
            format!("--proxy-url={}", self.url),
            file("certificate-authority", "proxy-ca.crt"),
            file("client-certificate", "proxy.crt"),
            file("client-key", "proxy.key"),
        ])
    }

    /// Stops the agent, and with it all its connections.
    pub fn stop_agent(&mut self) {
        self.agent = None;
    }

    pub fn start_agent(&mut self) -> Result<()> {
        let [health, admin] = free_ports()?;
        let path = |flag: &str, name: &str| format!("--{flag}={}", self.folder.path().join(name).display());
        let agent = [
            format!("--proxy-server-host={}", bed()?.address),
            format!("--proxy-server-port={}", self.agent_port),
            path("ca-cert", "agents-ca.crt"),
            path("agent-cert", "agent.crt"),
            path("agent-key", "agent.key"),
            format!("--agent-identifiers={}", self.identifiers),
            "--sync-interval=200ms".to_owned(),
            "--sync-interval-cap=1s".to_owned(),
            "--health-server-host=127.0.0.1".to_owned(),
            format!("--health-server-port={health}"),
            format!("--admin-server-port={admin}"),
        ];
        let [_, program] = programs::konnectivity();
        self.agent = Some(Program::start(&program, &agent, &self.folder.path().join("agent.log"))?);
        Ok(())
    }

    /// The processes of the server and the agent.
    pub fn pids(&self) -> Vec<u32> {
        [Some(&self.server), self.agent.as_ref()]
            .into_iter()
            .flatten()
            .map(|program| program.0.id())
            .collect()
    }

    /// The last lines of both logs, for when a test fails.
    pub fn last_words(&self) -> String {
        let last = |name: &str| {
            let log = fs::read_to_string(self.folder.path().join(name)).unwrap_or_default();
            let lines: Vec<_> = log.lines().collect();
            format!("{name}:\n{}", lines[lines.len().saturating_sub(20)..].join("\n"))
        };
        ["server.log", "agent.log"].map(last).join("\n")
    }
}

/// A process that is killed when this is dropped.
struct Program(Child);

impl Program {
    fn start(program: &Path, flags: &[String], log: &Path) -> Result<Self> {
        ensure!(program.exists(), "not built: {}: run `make everything`", program.display());
        let mut command = Command::new(program);
        command.args(flags).stdin(Stdio::null()).stdout(Stdio::null()).stderr(File::create(log)?);
        // gRPC also uses these variables.
        for variable in ["HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy"] {
            command.env_remove(variable);
        }
        Ok(Self(command.spawn().with_context(|| format!("cannot start: {}", program.display()))?))
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn write(stem: &Path, Signed { certificate, key }: &Signed) -> Result<()> {
    let with = |extension: &str| -> PathBuf { stem.with_extension(extension) };
    fs::write(with("crt"), certificate)?;
    Ok(fs::write(with("key"), key)?)
}

/// Free ports: the programs do not report a port that the kernel chose.
fn free_ports<const N: usize>() -> Result<[u16; N]> {
    let mut listeners = Vec::new();
    for _ in 0..N {
        listeners.push(TcpListener::bind((bed()?.address, 0))?);
    }
    let mut ports = [0; N];
    for (port, listener) in ports.iter_mut().zip(&listeners) {
        *port = listener.local_addr()?.port();
    }
    Ok(ports)
}
