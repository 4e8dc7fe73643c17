//! A running bed as tests see it: its clusters and its sidecar, and client certificates for any user.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::certificates::{Authority, ClientCertificate};
use crate::control_plane::{self, Site};
use crate::images;
use crate::karmada;
use crate::node;
use crate::process::MARK;
use crate::programs;
use crate::registration;

/// A running bed.
#[derive(Serialize, Deserialize)]
pub struct Bed {
    pub id: String,
    pub dir: PathBuf,
    /// The network namespace of everything in the bed.
    pub netns: Option<String>,
    /// The address by which others in the bed reach this machine: the bridge's, or 127.0.0.1.
    pub address: IpAddr,
    /// The folder of kube-apiserver, kubectl, agnhost …
    pub bin: PathBuf,
    pub host: Cluster,
    pub members: BTreeMap<String, Cluster>,
    /// Clusters that are not registered on the host.
    pub spares: BTreeMap<String, Cluster>,
    pub sidecar: Option<Sidecar>,
    /// The socket to which kube-apiservers and the sidecar send traces.
    pub collector: Option<PathBuf>,
    /// Parts of the request that are not possible here, with the reason.
    pub skipped: Vec<String>,
}

impl Bed {
    /// The bed that this process was started in.
    pub fn from_env() -> Result<Self> {
        let dir = std::env::var_os(TESTBED)
            .context("TESTBED is not set: start this by `testbed run -- COMMAND` (see tests/testbed)")?;
        Self::load(Path::new(&dir))
    }

    /// The bed in a folder.
    pub fn load(dir: &Path) -> Result<Self> {
        let path = dir.join("bed.json");
        let bytes = fs::read(&path).with_context(|| format!("no bed: {}", path.display()))?;
        serde_json::from_slice(&bytes).with_context(|| format!("not a bed: {}", path.display()))
    }

    /// A cluster by its name, `host` included.
    pub fn cluster(&self, name: &str) -> Result<&Cluster> {
        let cluster = if name == self.host.name { Some(&self.host) } else { self.members.get(name) };
        cluster.or_else(|| self.spares.get(name)).with_context(|| format!("no such cluster: {name}"))
    }

    /// Starts Karmada's aggregated API server for a cluster. It runs until it is stopped.
    pub fn start_karmada(&self, cluster: &Cluster) -> Result<Karmada> {
        programs::build_karmada()?;
        let site = Site { id: &self.id, dir: &self.dir, loopback: self.netns.is_none(), tracing: None };
        karmada::start(&site, cluster)
    }

    /// Loads karmada-agent's image on the node of a cluster, and returns its name.
    pub fn load_karmada_agent(&self, cluster: &Cluster) -> Result<&'static str> {
        programs::build_karmada()?;
        let (name, archive) = images::karmada_agent()?;
        node::import(&self.id, &cluster.dir, &archive)?;
        Ok(name)
    }

    /// A command that runs in the bed, and ends with the bed at the latest.
    pub fn command(&self, command: &[OsString]) -> Result<Command> {
        let (program, args) = command.split_first().context("no command")?;
        let mut command = Command::new(program);
        command.args(args).envs(self.environment()).env(MARK, &self.id);
        Ok(command)
    }

    /// The environment of a program in the bed.
    pub fn environment(&self) -> Vec<(&'static str, OsString)> {
        let inherited = |name| std::env::var_os(name).unwrap_or_default();
        let joined = |first: &OsStr, separator: &str, rest: OsString| {
            let mut value = first.to_owned();
            if !rest.is_empty() {
                value.push(separator);
                value.push(rest);
            }
            value
        };
        let direct = OsStr::new("10.88.0.0/16,127.0.0.1,localhost");
        vec![
            (TESTBED, self.dir.clone().into()),
            ("KUBECONFIG", self.host.kubeconfig.clone().into()),
            ("PATH", joined(self.bin.as_os_str(), ":", inherited("PATH"))),
            // A proxy in the machine's network cannot reach the bed's addresses.
            ("NO_PROXY", joined(direct, ",", inherited("NO_PROXY"))),
            ("no_proxy", joined(direct, ",", inherited("no_proxy"))),
        ]
    }

    pub(crate) fn save(&self) -> Result<()> {
        Ok(fs::write(self.dir.join("bed.json"), serde_json::to_vec_pretty(self)?)?)
    }
}

/// A cluster of a bed.
#[derive(Clone, Serialize, Deserialize)]
pub struct Cluster {
    pub name: String,
    pub version: String,
    /// `https://address:port`
    pub server: String,
    pub dir: PathBuf,
    /// The kubeconfig of an administrator in `system:masters`.
    pub kubeconfig: PathBuf,
    pub ca_certificate: PathBuf,
    pub ca_key: PathBuf,
    pub audit_log: PathBuf,
    /// The name of its node.
    pub node: Option<String>,
    /// Its etcd, for other programs that store their objects there.
    pub etcd: String,
    /// Karmada's aggregated API server, if the bed was asked for one.
    pub karmada: Option<Karmada>,
}

impl Cluster {
    /// A client certificate of this cluster for any user and groups.
    pub fn client_certificate(&self, user: &str, groups: &[&str]) -> Result<ClientCertificate> {
        Authority::load(&control_plane::authority_name(&self.name), &self.ca_certificate, &self.ca_key)?
            .client(user, groups)
    }

    /// Configures the issuers whose ID tokens the host accepts from now on: `jwt` of an
    /// AuthenticationConfiguration. The host takes some seconds to fetch the keys of all of them.
    pub fn trust_issuers(&self, jwt: &Value) -> Result<()> {
        let config = json!({
            "apiVersion": control_plane::AUTHENTICATION_API, "kind": "AuthenticationConfiguration", "jwt": jwt,
        });
        // The file is replaced as a whole, because it is read as soon as it changes. JSON is YAML.
        let new = self.dir.join("authentication.new");
        fs::write(&new, config.to_string())?;
        Ok(fs::rename(new, self.dir.join(control_plane::AUTHENTICATION))?)
    }

    /// Stops the kube-apiserver. It stays stopped until it is restarted.
    pub fn stop_apiserver(&self) -> Result<()> {
        control_plane::stop_apiserver(&self.dir)
    }

    /// Stops the kube-apiserver, starts it again and waits until it is ready.
    pub fn restart_apiserver(&self) -> Result<()> {
        self.restart_apiserver_with(&[])
    }

    /// The process of its kube-apiserver.
    pub fn apiserver_pid(&self) -> Result<u32> {
        control_plane::apiserver_pid(&self.dir)
    }

    /// The same with additional flags, until it is restarted again; `!--flag` removes one.
    pub fn restart_apiserver_with(&self, flags: &[&str]) -> Result<()> {
        control_plane::restart_apiserver(&self.dir, &self.server, &self.ca_certificate, None, flags)
    }

    /// The same with names resolved by the file `hosts` in the cluster's folder (hosts(5)) instead
    /// of the machine's file. That file may be rewritten while the kube-apiserver runs.
    pub fn restart_apiserver_with_hosts(&self, hosts: &str, flags: &[&str]) -> Result<()> {
        control_plane::restart_apiserver(&self.dir, &self.server, &self.ca_certificate, Some(hosts), flags)
    }
}

/// Karmada's aggregated API server of a cluster: it serves `cluster.karmada.io`.
#[derive(Clone, Serialize, Deserialize)]
pub struct Karmada {
    /// `https://address:port` of the server itself. It accepts the cluster's certificates and
    /// tokens.
    pub url: String,
    pub ca_certificate: PathBuf,
    pub log: PathBuf,
    /// Its folder.
    pub dir: PathBuf,
}

impl Karmada {
    /// The client certificate and the key of a front proxy that it trusts in addition to the host's, as
    /// files.
    pub fn front_proxy(&self) -> [PathBuf; 2] {
        ["front-client.crt", "front-client.key"].map(|name| self.dir.join(name))
    }

    /// Stops it. It stays stopped until it is restarted.
    pub fn stop(&self) -> Result<()> {
        karmada::stop(self)
    }

    /// Stops it and starts it again with additional flags, until it is restarted again; `!--flag`
    /// removes one.
    pub fn restart_with(&self, flags: &[&str]) -> Result<()> {
        karmada::restart_with(self, flags)
    }

    /// Its process.
    pub fn pid(&self) -> Result<u32> {
        karmada::pid(self)
    }
}

/// The sidecar of a bed, and its addresses.
#[derive(Clone, Serialize, Deserialize)]
pub struct Sidecar {
    /// `https://address:port`
    pub url: String,
    pub ca_certificate: PathBuf,
    /// `http://address:port` of /livez and /readyz, and of /metrics on a loopback address.
    pub admin: String,
    pub log: PathBuf,
    pub pid: u32,
}

impl Sidecar {
    /// Writes a serving certificate that the sidecar's system trusts to `<stem>.crt` and `<stem>.key`.
    pub fn serving_files(&self, names: &[&str], dir: &Path, stem: &str) -> Result<()> {
        let key = self.ca_certificate.with_extension("key");
        Authority::load(registration::AUTHORITY, &self.ca_certificate, &key)?.serving_files(names, dir, stem)
    }
}

/// The variable that holds the bed's folder.
pub(crate) const TESTBED: &str = "TESTBED";
