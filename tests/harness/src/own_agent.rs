//! Runs one test's own agent: the bed's program, which carries a member's connections to the host
//! as the agent of another registered cluster. The member is one of the bed's, under a second name.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tempfile::TempDir;
use testbed::Cluster;

use crate::api::Api;
use crate::bed::{SYSTEM, bed, host, member, sidecar};
use crate::http1::SIDECAR_NAME;
use crate::private_network::{self, PrivateNetwork};
use crate::registration::register_in;
use crate::wait::{SOON, eventually};

/// How an agent's connection and process differ from the default.
#[derive(Default)]
pub struct Difference<'a> {
    /// `https://address:port` of the host, or of a sidecar.
    pub server: Option<String>,
    /// The certificate authority of that server.
    pub ca: Option<String>,
    /// Additional files in the connection's folder.
    pub keys: &'a [(&'a str, &'a str)],
    /// Flags after all others.
    pub flags: &'a [&'a str],
    /// A program other than that of the bed's sidecar.
    pub program: Option<&'a Path>,
    /// The words before the program, for example to enter a network namespace.
    pub within: &'a [&'a str],
}

impl Difference<'_> {
    /// The difference for an agent that dials sidecars, or a proxy in front of them.
    pub fn to_sidecar(url: &str) -> Result<Self> {
        Ok(Self {
            server: Some(url.to_owned()),
            ca: Some(std::fs::read_to_string(&sidecar()?.ca_certificate)?),
            keys: &[("tls-server-name", SIDECAR_NAME)],
            ..Self::default()
        })
    }
}

/// The process. It is killed when this is dropped.
pub struct OwnAgent {
    pub cluster: String,
    /// The folder with its connection.
    pub connection: PathBuf,
    child: Child,
    log: PathBuf,
    _folder: TempDir,
}

/// The agent of `m1-by-agent`, which is member m1 in a network without inbound connections, if the bed has
/// networks. It ends with the tests.
pub fn shared() -> Result<&'static OwnAgent> {
    static SHARED: OnceLock<Result<OwnAgent, String>> = OnceLock::new();
    let start = || {
        let (name, mut member) = ("m1-by-agent", member("m1")?.clone());
        let mut data = own_data(&member)?;
        let mut within = Vec::new();
        if bed()?.netns.is_some() {
            within.extend(PrivateNetwork::shared()?.within());
            member.server = format!("https://{}", private_network::MEMBER);
            data["server"] = member.server.clone().into();
            data["tls-server-name"] = "kubernetes.default.svc".into();
        }
        register(name, SYSTEM, &data)?;
        let within: Vec<_> = within.iter().map(String::as_str).collect();
        let agent = OwnAgent::start(name, &member, &Difference { within: &within, ..Difference::default() })?;
        until_connected(name)?;
        Ok(agent)
    };
    let started = SHARED.get_or_init(|| start().map_err(|error: anyhow::Error| format!("{error:#}")));
    started.as_ref().map_err(|error| anyhow!("{error}"))
}

/// Registers a cluster that has an agent, with the agent's account.
pub fn register(name: &str, namespace: &str, data: &Value) -> Result<()> {
    account(name)?;
    let mut data = data.clone();
    data["via"] = "agent".into();
    register_in(namespace, name, &data)
}

/// The keys of the Secret with which the bed's sidecar reaches a member.
pub fn own_data(member: &Cluster) -> Result<Value> {
    data_of(&member.name)
}

/// The same for a member, given its name.
pub fn data_of(member: &str) -> Result<Value> {
    let secret = host()?.get(&format!("/api/v1/namespaces/{SYSTEM}/secrets/{member}.member"))?;
    let data = secret["data"].as_object().context("the member's Secret has no data")?;
    let decoded = data.iter().map(|(key, value)| {
        let value = STANDARD.decode(value.as_str().unwrap_or_default())?;
        Ok((key.clone(), Value::from(String::from_utf8(value)?)))
    });
    decoded.collect::<Result<serde_json::Map<_, _>>>().map(Value::Object)
}

/// Creates the account of a cluster's agent on the host.
pub fn account(cluster: &str) -> Result<()> {
    host()?.apply(
        &account_path(cluster),
        &json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": cluster}}),
    )?;
    Ok(())
}

pub fn account_path(cluster: &str) -> String {
    format!("/api/v1/namespaces/kubectl-mc-agents/serviceaccounts/{cluster}")
}

/// A token of the account of a cluster's agent.
pub fn token(cluster: &str, seconds: u64) -> Result<String> {
    let request = json!({
        "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": seconds},
    });
    let answer = host()?.create(&format!("{}/token", account_path(cluster)), &request)?;
    Ok(answer["status"]["token"].as_str().context("no token")?.to_owned())
}

/// Waits until the leader reports that the cluster's agent is connected.
pub fn until_connected(cluster: &str) -> Result<()> {
    until(cluster, "Connected", "True")
}

/// Waits until a condition of a cluster has this status.
pub fn until(cluster: &str, condition: &str, status: &str) -> Result<()> {
    eventually(&format!("{condition} of {cluster} is {status}"), A_MINUTE, || {
        let member = host()?.get(&format!("/apis/fleet.kubectl-mc.dev/v1alpha1/memberclusters/{cluster}"))?;
        let all = member["status"]["conditions"].as_array().context("no conditions yet")?;
        let found = all.iter().find(|found| found["type"] == condition);
        let found = found.with_context(|| format!("no {condition}: {}", member["status"]))?;
        ensure!(found["status"] == status, "it is {found}");
        Ok(Some(()))
    })
}

impl OwnAgent {
    /// Starts the agent of `cluster`, whose API server is that of `member`.
    pub fn start(cluster: &str, member: &Cluster, difference: &Difference<'_>) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let (connection, log) = (folder.path().join("connection"), folder.path().join("log"));
        std::fs::create_dir(&connection)?;
        let host = &bed()?.host;
        let ca = match &difference.ca {
            Some(ca) => ca.clone(),
            None => std::fs::read_to_string(&host.ca_certificate)?,
        };
        let server = difference.server.clone().unwrap_or_else(|| host.server.clone());
        let own = [("server", server.as_str()), ("ca.crt", &ca), ("token", &token(cluster, 3600)?)];
        for (key, value) in own.iter().chain(difference.keys) {
            std::fs::write(connection.join(key), value)?;
        }
        let bed_program = PathBuf::from(format!("/proc/{}/exe", sidecar()?.pid));
        let target = member.server.trim_start_matches("https://");
        // The agent ends when this process closes its end of the pipe: no test drops the shared agent.
        let script = "\"$@\" & agent=$!; cat >/dev/null; kill -9 $agent";
        let child = Command::new("sh")
            .args(["-c", script, "sh"])
            .args(difference.within)
            .arg(difference.program.unwrap_or(&bed_program))
            .args(["agent", &format!("--cluster={cluster}"), &format!("--target={target}")])
            .arg(format!("--connection-dir={}", connection.display()))
            .args(["--admin-bind-address=127.0.0.1:0", "--log-format=json"])
            .args(difference.flags)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(File::create(&log)?)
            .spawn()?;
        Ok(Self { cluster: cluster.to_owned(), connection, child, log, _folder: folder })
    }

    /// The log so far.
    pub fn log(&self) -> Result<String> {
        Ok(std::fs::read_to_string(&self.log)?)
    }

    /// Waits until it has logged this.
    pub fn until_logged(&self, text: &str) -> Result<()> {
        eventually(&format!("the agent says: {text}"), SOON, || {
            let log = self.log()?;
            ensure!(log.contains(text), "its log: {log}");
            Ok(Some(()))
        })
    }

    /// The process ID of the agent itself.
    pub fn pid(&self) -> Result<u32> {
        let children = format!("/proc/{0}/task/{0}/children", self.child.id());
        let children = std::fs::read_to_string(Path::new(&children))?;
        for child in children.split_ascii_whitespace() {
            let name = std::fs::read_to_string(format!("/proc/{child}/comm"))?;
            if name.trim() != "cat" {
                return Ok(child.parse()?);
            }
        }
        Err(anyhow!("the agent has ended: {}", self.log()?))
    }

    /// Kills it.
    pub fn kill(&mut self) -> Result<()> {
        drop(self.child.stdin.take());
        self.child.wait()?;
        Ok(())
    }
}

impl Drop for OwnAgent {
    fn drop(&mut self) {
        let _ = self.kill();
    }
}

/// A silent tunnel ends after 25 s, and counts as lost a while after that.
const A_MINUTE: Duration = Duration::from_secs(60);

/// The API of the host as this agent's account.
pub fn as_agent(cluster: &str) -> Result<Api> {
    Api::bearer(&bed()?.host, &token(cluster, 3600)?)
}
