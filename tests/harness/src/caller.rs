//! Callers that log in to the host, one kind for each login method. Each has its own kubeconfig.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use serde_json::{Value, json};
use tempfile::TempDir;
use testbed::{ClientCertificate, Cluster};

use crate::bed::{bed, host};
use crate::http1::member_path;
use crate::noise::sha256;

/// A caller with a credential for the host.
#[derive(Clone)]
pub struct Caller {
    pub user: String,
    pub groups: Vec<String>,
    /// The bearer token, if the caller logs in with one.
    pub token: Option<String>,
    /// The client certificate, if the caller logs in with one.
    pub certificate: Option<Arc<ClientCertificate>>,
    folder: Arc<TempDir>,
}

impl Caller {
    /// A caller with a client certificate, with any name and groups.
    pub fn certificate(user: &str, groups: &[&str]) -> Result<Self> {
        Self::certificate_at(&bed()?.host, user, groups)
    }

    /// The same at another cluster that is a host.
    pub fn certificate_at(host: &Cluster, user: &str, groups: &[&str]) -> Result<Self> {
        let certificate = host.client_certificate(user, groups)?;
        let folder = tempfile::tempdir()?;
        std::fs::write(folder.path().join("tls.crt"), &certificate.certificate)?;
        std::fs::write(folder.path().join("tls.key"), &certificate.key)?;
        let credential = json!({"client-certificate": "tls.crt", "client-key": "tls.key"});
        Self {
            user: user.to_owned(),
            groups: groups.iter().map(|&group| group.to_owned()).collect(),
            token: None,
            certificate: Some(Arc::new(certificate)),
            folder: Arc::new(folder),
        }
        .with_credential(host, credential)
    }

    /// A caller with a token that the host reads from its token file: ulrike (groups dev and ops)
    /// or theo (no groups).
    pub fn token(user: &str) -> Result<Self> {
        let groups: &[&str] = if user == "ulrike" { &["dev", "ops"] } else { &[] };
        Self::bearer(user, groups, format!("{user}-token"))
    }

    /// A caller that is a service account of the host, which is created.
    pub fn service_account(namespace: &str, name: &str) -> Result<Self> {
        make_service_account(namespace, name)?;
        Self::by_token_request(namespace, name, &json!({}))
    }

    /// A caller that is a service account in a pod of the host: the token is bound to the pod, and
    /// contains its name.
    pub fn pod(namespace: &str, name: &str) -> Result<Self> {
        make_service_account(namespace, name)?;
        let pod = host()?.apply(
            &format!("/api/v1/namespaces/{namespace}/pods/{name}"),
            &json!({
                "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
                "spec": {"serviceAccountName": name, "containers": [{"name": "main", "image": "none"}]},
            }),
        )?;
        let bound = json!({"apiVersion": "v1", "kind": "Pod", "name": name, "uid": pod["metadata"]["uid"]});
        Self::by_token_request(namespace, name, &json!({"boundObjectRef": bound}))
    }

    fn by_token_request(namespace: &str, name: &str, spec: &Value) -> Result<Self> {
        let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token");
        let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec});
        let answer = host()?.create(&path, &request)?;
        let token = answer["status"]["token"].as_str().context("a TokenRequest without a token")?;
        let of_namespace = format!("system:serviceaccounts:{namespace}");
        let user = format!("system:serviceaccount:{namespace}:{name}");
        Self::bearer(&user, &["system:serviceaccounts", &of_namespace], token.to_owned())
    }

    /// The kubeconfig, with one cluster `host` and one context `host`.
    pub fn kubeconfig(&self) -> PathBuf {
        self.folder.path().join("kubeconfig")
    }

    /// The folder of the kubeconfig, for files that it refers to by a relative path.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The caller with a member's proxy path as the server, as configured in programs other than
    /// the plugin.
    pub fn at(self, member: &str) -> Result<Self> {
        let server = bed()?.host.server.clone() + &member_path(member, "");
        self.edit(|config| config["clusters"][0]["cluster"]["server"] = server.into())
    }

    /// Edits the kubeconfig.
    pub fn edit(self, change: impl FnOnce(&mut Value)) -> Result<Self> {
        let mut config: Value = serde_json::from_slice(&std::fs::read(self.kubeconfig())?)?;
        change(&mut config);
        std::fs::write(self.kubeconfig(), config.to_string())?;
        Ok(self)
    }

    /// The Authorization header line; empty for a caller with a certificate.
    pub fn authorization(&self) -> String {
        self.token.as_ref().map_or_else(String::new, |token| format!("Authorization: Bearer {token}\r\n"))
    }

    /// The ID of the certificate in Kubernetes: the extra `authentication.kubernetes.io/credential-id`.
    pub fn certificate_id(&self) -> Result<String> {
        let pem = &self.certificate.as_ref().context("no certificate")?.certificate;
        Ok(format!("X509SHA256={}", sha256(&CertificateDer::from_pem_slice(pem.as_bytes())?)))
    }

    /// A caller with a token from elsewhere, which is for this user and these groups.
    pub fn bearer(user: &str, groups: &[&str], token: String) -> Result<Self> {
        Self::bearer_at(&bed()?.host, user, groups, token)
    }

    /// The same at another cluster that is a host.
    pub fn bearer_at(host: &Cluster, user: &str, groups: &[&str], token: String) -> Result<Self> {
        let credential = json!({"token": token});
        Self {
            user: user.to_owned(),
            groups: groups.iter().map(|&group| group.to_owned()).collect(),
            token: Some(token),
            certificate: None,
            folder: Arc::new(tempfile::tempdir()?),
        }
        .with_credential(host, credential)
    }

    fn with_credential(self, host: &Cluster, credential: Value) -> Result<Self> {
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "host",
            "clusters": [{"name": "host", "cluster": {
                "server": host.server, "certificate-authority": host.ca_certificate,
            }}],
            "users": [{"name": "caller", "user": credential}],
            "contexts": [{"name": "host", "context": {"cluster": "host", "user": "caller"}}],
        });
        // JSON is YAML, and kubectl reads it.
        std::fs::write(self.kubeconfig(), config.to_string())?;
        Ok(self)
    }
}

fn make_service_account(namespace: &str, name: &str) -> Result<()> {
    let host = host()?;
    host.apply(
        &format!("/api/v1/namespaces/{namespace}"),
        &json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}),
    )?;
    host.apply(
        &format!("/api/v1/namespaces/{namespace}/serviceaccounts/{name}"),
        &json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}}),
    )?;
    Ok(())
}
