//! Writes the files with which tools use the listener, readable only by their owner. They are
//! removed with the listener.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::admission::host_of;
use super::clusters::Clusters;
use crate::cache::{self, RunFolder};
use crate::env::Env;
use crate::error::Failure;
use crate::yaml;

/// The content of a kubeconfig for the listener.
pub(super) struct Kubeconfig<'a> {
    pub(super) clusters: &'a Clusters,
    /// The address and the port of the listener.
    pub(super) authority: &'a str,
    /// Its certificate authority (PEM).
    pub(super) certificates: &'a str,
    /// `None` with `--no-token`.
    pub(super) token: Option<&'a str>,
}

impl Kubeconfig<'_> {
    /// Each context has the name of its cluster. The server is an address, because not every
    /// resolver knows NAME.localhost; the TLS server name is the cluster's.
    fn text(&self) -> String {
        let names: Vec<_> = self.clusters.iter().map(|served| served.name.as_str()).collect();
        let cluster = |name: &str| {
            json!({"name": name, "cluster": {
                "server": format!("https://{}", self.authority),
                "tls-server-name": host_of(name),
                "certificate-authority-data": STANDARD.encode(self.certificates),
            }})
        };
        let context = |name: &str, namespace: Option<&str>| {
            let mut context = json!({"cluster": name});
            if self.token.is_some() {
                context["user"] = USER.into();
            }
            if let Some(namespace) = namespace {
                context["namespace"] = namespace.into();
            }
            json!({"name": name, "context": context})
        };
        let contexts: Vec<_> =
            self.clusters.iter().map(|served| context(&served.name, served.namespace.as_deref())).collect();
        let users: Vec<Value> =
            self.token.iter().map(|token| json!({"name": USER, "user": {"token": token}})).collect();
        let document = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": names.iter().map(|name| cluster(name)).collect::<Vec<_>>(),
            "contexts": contexts,
            "current-context": names.first(),
            "users": users,
        });
        yaml::text(&document, 0)
    }
}

/// The written files, which are removed on drop.
pub(super) struct Files {
    pub(super) kubeconfig: PathBuf,
    /// The certificate authority.
    pub(super) certificates: PathBuf,
    /// The header with the token, for `curl -H @FILE`.
    pub(super) header: Option<PathBuf>,
    _folder: RunFolder,
    _chosen: Option<ChosenFile>,
}

impl Files {
    /// Writes the files into a folder of this run, and the kubeconfig into `chosen` if it is given.
    pub(super) fn write(content: &Kubeconfig<'_>, chosen: Option<&Path>, env: &Env) -> Result<Self, Failure> {
        let text = content.text();
        let chosen = chosen.map(|path| ChosenFile::create(path, text.as_bytes())).transpose()?;
        let folder = RunFolder::new(&cache::state_folder(env)?);
        let certificates = folder.write("ca.crt", content.certificates.as_bytes())?;
        let header =
            |token: &str| folder.write("header", format!("Authorization: Bearer {token}\n").as_bytes());
        let header = content.token.map(header).transpose()?;
        let kubeconfig = match &chosen {
            Some(chosen) => chosen.path.clone(),
            None => folder.write("kubeconfig", text.as_bytes())?,
        };
        Ok(Self { kubeconfig, certificates, header, _folder: folder, _chosen: chosen })
    }
}

/// A new file at a path that the user chose.
struct ChosenFile {
    path: PathBuf,
    content: Vec<u8>,
}

impl ChosenFile {
    fn create(path: &Path, content: &[u8]) -> Result<Self, Failure> {
        let failed = |error: io::Error| {
            let failure = Failure::new(format!("cannot write {}", path.display())).because(&error);
            match error.kind() {
                io::ErrorKind::AlreadyExists => failure.with_hint(
                    "--write-kubeconfig creates a new file, and removes it at the end: name another one",
                ),
                _ => failure,
            }
        };
        let path_in_full = std::path::absolute(path).map_err(failed)?;
        let mut file = cache::create_private(&path_in_full).map_err(failed)?;
        let created = Self { path: path_in_full, content: content.to_owned() };
        file.write_all(content).map_err(failed)?;
        Ok(created)
    }
}

impl Drop for ChosenFile {
    fn drop(&mut self) {
        // Another program may have put its own file there.
        if fs::read(&self.path).is_ok_and(|content| self.content.starts_with(&content)) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

const USER: &str = "kubectl-mc-listener";
