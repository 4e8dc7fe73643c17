//! The connection from the sidecar to the member: the member's kubeconfig context without its local parts,
//! overridden by flags.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::Uri;
use kube::config::Cluster;

use super::address;
use crate::cli::ConnectionArgs;
use crate::error::Explain;
use crate::exit::ExitStatus;

/// The connection's keys of a member's Secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Endpoint {
    pub(crate) server: String,
    /// PEM; none is the system's roots.
    pub(crate) ca: Option<String>,
    pub(crate) tls_server_name: Option<String>,
    pub(crate) insecure: bool,
    pub(crate) proxy_url: Option<String>,
    /// Whether the caller gave the server: then its address is not second-guessed.
    pub(crate) is_given: bool,
}

impl Endpoint {
    /// The connection of a kubeconfig's cluster; `server` has its scheme already.
    pub(crate) fn new(
        server: &str,
        cluster: &Cluster,
        flags: &ConnectionArgs,
    ) -> Result<Self, EndpointError> {
        let ConnectionArgs {
            server: given,
            certificate_authority,
            proxy_url,
            tls_server_name,
            insecure_skip_tls_verify,
        } = flags;
        let insecure = *insecure_skip_tls_verify
            || (certificate_authority.is_none() && cluster.insecure_skip_tls_verify == Some(true));
        let ca = match certificate_authority {
            Some(file) => Some(read(&file.to_string_lossy())?),
            None => ca(cluster)?,
        };
        let filled = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
        let endpoint = Self {
            server: checked(given.as_deref().unwrap_or(server))?,
            // The sidecar takes either, not both.
            ca: ca.filter(|_| !insecure),
            tls_server_name: filled(tls_server_name).or_else(|| filled(&cluster.tls_server_name)),
            insecure,
            proxy_url: filled(proxy_url).or_else(|| filled(&cluster.proxy_url)),
            is_given: given.is_some(),
        };
        if proxy_url.is_none()
            && let Some(proxy) = &endpoint.proxy_url
            && address::is_local(proxy)
        {
            return Err(EndpointError::LocalProxy(proxy.clone()));
        }
        Ok(endpoint)
    }

    /// Why only this machine can use the address.
    pub(crate) fn locality(&self) -> Option<address::Local> {
        if self.is_given { None } else { address::local(&self.server) }
    }

    /// The Secret's keys, without a credential.
    pub(crate) fn data(&self) -> BTreeMap<&'static str, String> {
        let Self { server, ca, tls_server_name, insecure, proxy_url, is_given: _ } = self;
        let mut data = BTreeMap::from([("server", server.clone())]);
        if let Some(ca) = ca {
            data.insert("ca.crt", ca.clone());
        }
        if let Some(name) = tls_server_name {
            data.insert("tls-server-name", name.clone());
        }
        if *insecure {
            data.insert("insecure-skip-tls-verify", "true".to_owned());
        }
        if let Some(proxy) = proxy_url {
            data.insert("proxy-url", proxy.clone());
        }
        data
    }
}

/// The Secret takes https, and neither user info nor a query.
fn checked(server: &str) -> Result<String, EndpointError> {
    let refused = |reason| Err(EndpointError::Server { server: server.to_owned(), reason });
    let Ok(uri) = server.parse::<Uri>() else { return refused("it is not a URL") };
    let Some(authority) = uri.authority() else { return refused("it is not a URL") };
    if uri.scheme_str() != Some("https") {
        return refused("the sidecar speaks https only");
    }
    if authority.as_str().contains('@') {
        return refused("it holds user info");
    }
    if uri.query().is_some() {
        return refused("it holds a query");
    }
    Ok(server.trim_end_matches('/').to_owned())
}

fn ca(cluster: &Cluster) -> Result<Option<String>, EndpointError> {
    if let Some(data) = cluster.certificate_authority_data.as_deref().filter(|data| !data.is_empty()) {
        let pem = STANDARD.decode(data.trim()).ok().and_then(|pem| String::from_utf8(pem).ok());
        return pem.map(Some).ok_or(EndpointError::CaData);
    }
    let file = cluster.certificate_authority.as_deref().filter(|file| !file.is_empty());
    file.map(read).transpose()
}

fn read(file: &str) -> Result<String, EndpointError> {
    std::fs::read_to_string(file).map_err(|source| EndpointError::CaFile { file: file.to_owned(), source })
}

/// Why no connection can be made of a kubeconfig and flags.
#[derive(Debug, thiserror::Error)]
pub(crate) enum EndpointError {
    #[error("the member's server {server:?} cannot be used: {reason}")]
    Server { server: String, reason: &'static str },
    #[error("the member's certificate-authority-data is not base64 of PEM")]
    CaData,
    #[error("cannot read the member's certificate authority {file}")]
    CaFile { file: String, source: std::io::Error },
    #[error("the sidecar cannot use the kubeconfig's proxy-url {0:?}: it is local to this machine")]
    LocalProxy(String),
}

impl Explain for EndpointError {
    fn hint(&self) -> Option<String> {
        match self {
            Self::Server { .. } => {
                Some("set the URL that the host's sidecar can reach: --server=https://…".to_owned())
            }
            Self::CaData | Self::CaFile { .. } => Some("set it by --certificate-authority=FILE".to_owned()),
            Self::LocalProxy(_) => {
                Some("set the sidecar's proxy by --proxy-url=URL, or disable it by --proxy-url=".to_owned())
            }
        }
    }

    fn status(&self) -> ExitStatus {
        ExitStatus::Usage
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cluster() -> Cluster {
        Cluster { certificate_authority_data: Some(STANDARD.encode("PEM")), ..Cluster::default() }
    }

    fn of(server: &str, cluster: &Cluster, flags: &ConnectionArgs) -> Result<Endpoint, EndpointError> {
        Endpoint::new(server, cluster, flags)
    }

    #[test]
    fn the_kubeconfig_says_it_and_flags_win() {
        let flags = ConnectionArgs::default();
        let plain = of("https://m:6443/", &cluster(), &flags).unwrap();
        assert_eq!(
            plain.data(),
            BTreeMap::from([("server", "https://m:6443".to_owned()), ("ca.crt", "PEM".to_owned())])
        );
        let flags = ConnectionArgs {
            server: Some("https://lb.example/base".to_owned()),
            tls_server_name: Some("m".to_owned()),
            proxy_url: Some("http://proxy:3128".to_owned()),
            ..ConnectionArgs::default()
        };
        let data = of("https://m:6443", &cluster(), &flags).unwrap().data();
        assert_eq!(data["server"], "https://lb.example/base");
        assert_eq!(data["tls-server-name"], "m");
        assert_eq!(data["proxy-url"], "http://proxy:3128");
    }

    #[test]
    fn insecure_and_a_ca_exclude_each_other_as_in_the_secret() {
        let flags = ConnectionArgs { insecure_skip_tls_verify: true, ..ConnectionArgs::default() };
        let data = of("https://m:6443", &cluster(), &flags).unwrap().data();
        assert_eq!(data.get("ca.crt"), None);
        assert_eq!(data["insecure-skip-tls-verify"], "true");
    }

    #[test]
    fn invalid_connection_is_refused_before_any_write() {
        for (server, reason) in [
            ("http://m:8080", "https only"),
            ("https://u:p@m", "user info"),
            ("https://m?x=1", "a query"),
            ("m:6443", "https only"),
            ("not a url", "not a URL"),
        ] {
            let flags = ConnectionArgs { server: Some(server.to_owned()), ..ConnectionArgs::default() };
            let error = of("https://m", &cluster(), &flags).unwrap_err();
            assert!(error.to_string().contains(reason), "{server}: {error}");
        }
    }

    #[test]
    fn local_proxy_is_refused_and_can_be_disabled() {
        let cluster = Cluster { proxy_url: Some("socks5://localhost:1080".to_owned()), ..cluster() };
        let error = of("https://m", &cluster, &ConnectionArgs::default()).unwrap_err();
        assert!(matches!(error, EndpointError::LocalProxy(_)), "{error}");
        let other = Cluster { proxy_url: Some("http://proxy.corp:3128".to_owned()), ..cluster };
        let taken = of("https://m", &other, &ConnectionArgs::default()).unwrap();
        assert_eq!(taken.proxy_url.as_deref(), Some("http://proxy.corp:3128"));
    }

    #[test]
    fn only_a_server_that_was_not_given_is_second_guessed() {
        let flags = ConnectionArgs::default();
        assert!(of("https://127.0.0.1:6443", &cluster(), &flags).unwrap().locality().is_some());
        let flags = ConnectionArgs { server: Some("https://127.0.0.1:6443".to_owned()), ..flags };
        assert!(of("https://m", &cluster(), &flags).unwrap().locality().is_none());
    }
}
