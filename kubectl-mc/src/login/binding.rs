//! Binds a credential to a server: its address, the certificate authority, and the name in its certificate.
//! The credential is not returned for any other server, so that another person's kubeconfig cannot
//! send it elsewhere.

use aws_lc_rs::digest;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::Uri;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use serde_json::Value;

use crate::cluster::context::ClusterContext;
use crate::cluster::credential;
use crate::error::{CommandLine, Failure, Hint, mc};
use crate::log::without_credential;

/// A login: its name, and the host to which its credential is bound.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Binding {
    /// Distinguishes two contexts of one host with different users.
    name: String,
    /// `https://host:port/path`, without a trailing slash and without the default port.
    server: String,
    /// The digest of the authority's certificates; `None` means the system's authorities.
    authority: Option<String>,
    tls_server_name: Option<String>,
}

impl Binding {
    /// The binding of a login of this name to a host of the kubeconfig.
    pub(super) fn of_host(name: &str, host: &ClusterContext) -> Result<Self, Failure> {
        let mut cluster = credential::cluster_info(&host.cluster);
        cluster["server"] = host.server.as_str().into();
        Self::requested(name, &host.server, &cluster)
    }

    /// The binding of the login's server, if the request goes to it: to the same address, at its path or
    /// below it, where members are. `cluster` is `spec.cluster` of an ExecCredential, or null.
    pub(super) fn requested(name: &str, login: &str, cluster: &Value) -> Result<Self, Failure> {
        let text = |key: &str| cluster.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
        let asked = text("server").ok_or_else(no_server)?;
        let (server, path) = address(login)?;
        let authority = text("certificate-authority-data").map(digest_of).transpose()?;
        // client-go uses https for a server without a scheme if there is an authority.
        let is_bare = !asked.contains("://") && authority.is_some();
        let asked = if is_bare { format!("https://{asked}") } else { asked.to_owned() };
        let (asked_server, asked_path) = address(&asked)?;
        let below = asked_path.strip_prefix(&path);
        if server != asked_server || !below.is_some_and(|rest| rest.is_empty() || rest.starts_with('/')) {
            let [login, asked] = [login, &asked].map(without_credential);
            return Err(Failure::usage(format!(
                "the credential is for {login}, and the request is for {asked}"
            ))
            .with_hint(mc("login --context=NAME").after("log in to that server")));
        }
        if cluster.get("insecure-skip-tls-verify").and_then(Value::as_bool) == Some(true) {
            return Err(Failure::usage(format!(
                "the certificate of {server} is not verified (insecure-skip-tls-verify), so another server could take the credential"
            ))
            .with_hint(set_authority()));
        }
        let tls_server_name = text("tls-server-name").map(str::to_ascii_lowercase);
        let (name, server) = (name.to_owned(), format!("{server}{path}"));
        Ok(Self { name, server, authority, tls_server_name })
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn server(&self) -> &str {
        &self.server
    }

    /// The storage key of the credential.
    pub(super) fn key(&self) -> String {
        let Self { name, server, authority, tls_server_name } = self;
        // The JSON encoding is unambiguous.
        let text = serde_json::json!([name, server, authority, tls_server_name]).to_string();
        hex(digest::digest(&digest::SHA256, text.as_bytes()).as_ref())
    }
}

/// The normalized address and path of a URL.
fn address(url: &str) -> Result<(String, String), Failure> {
    let unusable = || Failure::usage(format!("{} is not the address of one server", without_credential(url)));
    let parsed: Uri = url.parse().map_err(|_| unusable())?;
    let authority = parsed.authority().ok_or_else(unusable)?;
    if parsed.scheme_str() != Some("https") {
        let server = without_credential(url);
        return Err(Failure::usage(format!(
            "{server} is reached without TLS, so anyone on the way could read the credential"
        ))
        .with_hint(set_authority()));
    }
    let path = parsed.path().trim_end_matches('/');
    // A server might resolve such segments to another path.
    let is_ambiguous = path.contains("/.") || path.contains(['%', '\\']) || path.contains("//");
    if authority.as_str().contains('@') || is_ambiguous || parsed.query().is_some() {
        return Err(unusable());
    }
    let host = authority.host().to_ascii_lowercase();
    let server = match authority.port_u16() {
        None | Some(443) => format!("https://{host}"),
        Some(port) => format!("https://{host}:{port}"),
    };
    Ok((server, path.to_owned()))
}

/// The digest of certificates, independent of their order and of surrounding text.
fn digest_of(data: &str) -> Result<String, Failure> {
    let not_pem = || Failure::usage("cannot read the certificate authority of the host: it is not PEM");
    let pem = STANDARD.decode(data.trim()).map_err(|_| not_pem())?;
    let certificates = CertificateDer::pem_slice_iter(&pem).collect::<Result<Vec<_>, _>>();
    let mut certificates = certificates.map_err(|_| not_pem())?;
    if certificates.is_empty() {
        return Err(not_pem());
    }
    certificates.sort_unstable_by(|one, other| one.as_ref().cmp(other.as_ref()));
    certificates.dedup();
    let mut context = digest::Context::new(&digest::SHA256);
    for certificate in certificates {
        // Hashes the digest of each certificate, so that different lists never give the same input.
        context.update(digest::digest(&digest::SHA256, &certificate).as_ref());
    }
    Ok(hex(context.finish().as_ref()))
}

/// The failure of a request that does not name its cluster.
pub(super) fn no_server() -> Failure {
    Failure::usage("the request names no server, and a login is for one server only").with_hint(
        Hint::from("the user's entry of the kubeconfig needs provideClusterInfo: true, as `")
            .then(mc("login"))
            .then("` writes it"),
    )
}

fn set_authority() -> Hint {
    CommandLine::new("kubectl config set-cluster NAME --certificate-authority=FILE --embed-certs")
        .after("set the authority of the server")
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests;
