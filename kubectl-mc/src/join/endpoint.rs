//! Builds the connection from the sidecar to the member: the member's kubeconfig context without its local
//! parts, overridden by flags.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::Uri;
use kube::config::Cluster;
use serde_json::Value;

use super::address;
use super::proxy_tls::ProxyTls;
use crate::cli::ConnectionArgs;
use crate::error::Failure;

/// The connection's keys in a member's Secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Endpoint {
    pub(crate) server: String,
    /// PEM; `None` means the system's roots.
    pub(crate) ca: Option<String>,
    pub(crate) tls_server_name: Option<String>,
    pub(crate) insecure: bool,
    pub(crate) proxy_url: Option<String>,
    pub(crate) proxy_tls: ProxyTls,
    /// Whether the member's agent carries the connection.
    pub(crate) via_agent: bool,
    /// Whether a flag gave the server, whose address is then not checked for locality.
    pub(crate) is_given: bool,
}

impl Endpoint {
    /// Builds the connection of a kubeconfig's cluster; `server` already includes the scheme.
    pub(crate) fn new(server: &str, cluster: &Cluster, flags: &ConnectionArgs) -> Result<Self, Failure> {
        let ConnectionArgs {
            server: given,
            certificate_authority,
            proxy_url,
            tls_server_name,
            insecure_skip_tls_verify,
            // The TLS files of the proxy are read together.
            proxy_certificate_authority: _,
            proxy_client_certificate: _,
            proxy_client_key: _,
        } = flags;
        let insecure = *insecure_skip_tls_verify
            || (certificate_authority.is_none() && cluster.insecure_skip_tls_verify == Some(true));
        let ca = match certificate_authority {
            Some(file) => Some(read(&file.to_string_lossy()).map_err(unusable_ca)?),
            None => ca(cluster).map_err(unusable_ca)?,
        };
        let filled = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
        // An empty flag removes the kubeconfig's value.
        let proxy = filled(if proxy_url.is_some() { proxy_url } else { &cluster.proxy_url });
        let endpoint = Self {
            server: checked(given.as_deref().unwrap_or(server)).map_err(|reason| {
                let server = given.as_deref().unwrap_or(server);
                Failure::usage(format!("the member's server {server:?} cannot be used: {reason}"))
                    .with_hint("set the URL that the host's sidecar can reach: --server=https://…")
            })?,
            via_agent: false,
            // The sidecar accepts only one of the two.
            ca: ca.filter(|_| !insecure),
            tls_server_name: filled(tls_server_name).or_else(|| filled(&cluster.tls_server_name)),
            insecure,
            proxy_tls: ProxyTls::read(flags, proxy.as_deref())?,
            proxy_url: proxy,
            is_given: given.is_some(),
        };
        if proxy_url.is_none()
            && let Some(proxy) = &endpoint.proxy_url
            && address::is_local(proxy)
        {
            return Err(Failure::usage(format!(
                "the sidecar cannot use the kubeconfig's proxy-url {proxy:?}: it is local to this machine"
            ))
            .with_hint("set the sidecar's proxy by --proxy-url=URL, or disable it by --proxy-url="));
        }
        Ok(endpoint)
    }

    /// The connection that an agent carries to its target, `HOST:PORT`. The CA is the one that the cluster's
    /// pods trust.
    pub(crate) fn via_agent(target: &str, ca: Option<String>) -> Self {
        let authority = target.strip_suffix(":443").unwrap_or(target);
        Self {
            server: format!("https://{authority}"),
            ca,
            // Every kube-apiserver's certificate contains this name, because the cluster's own pods use it.
            tls_server_name: (authority != IN_CLUSTER).then(|| IN_CLUSTER.to_owned()),
            insecure: false,
            proxy_url: None,
            proxy_tls: ProxyTls::default(),
            via_agent: true,
            is_given: true,
        }
    }

    /// Why only this machine can use the address.
    pub(crate) fn locality(&self) -> Option<&'static str> {
        if self.is_given { None } else { address::local(&self.server) }
    }

    /// The Secret's keys, without a credential.
    pub(crate) fn data(&self) -> BTreeMap<&'static str, String> {
        let Self { server, ca, tls_server_name, insecure, proxy_url, proxy_tls, via_agent, is_given: _ } =
            self;
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
        proxy_tls.insert_into(&mut data);
        if *via_agent {
            data.insert(VIA, VIA_AGENT.to_owned());
        }
        data
    }
}

/// Checks that a server uses https and contains neither user info nor a query.
pub(crate) fn checked(server: &str) -> Result<String, &'static str> {
    let Ok(uri) = server.parse::<Uri>() else { return Err("it is not a URL") };
    let Some(authority) = uri.authority() else { return Err("it is not a URL") };
    if uri.scheme_str() != Some("https") {
        return Err("it must be https");
    }
    if authority.as_str().contains('@') {
        return Err("it holds user info");
    }
    if uri.query().is_some() {
        return Err("it holds a query");
    }
    Ok(server.trim_end_matches('/').to_owned())
}

/// Whether the member's agent carries the connection, according to its Secret.
pub(crate) fn is_via_agent(secret: &Value) -> bool {
    secret["data"][VIA].as_str() == Some(&STANDARD.encode(VIA_AGENT))
}

/// The certificate authority of a kubeconfig's cluster; `None` means the system's roots.
pub(crate) fn ca(cluster: &Cluster) -> Result<Option<String>, Failure> {
    if let Some(data) = cluster.certificate_authority_data.as_deref().filter(|data| !data.is_empty()) {
        let pem = STANDARD.decode(data.trim()).ok().and_then(|pem| String::from_utf8(pem).ok());
        return pem
            .map(Some)
            .ok_or_else(|| Failure::usage("its certificate-authority-data is not base64 of PEM"));
    }
    let file = cluster.certificate_authority.as_deref().filter(|file| !file.is_empty());
    file.map(read).transpose()
}

fn unusable_ca(failure: Failure) -> Failure {
    failure
        .within("the member's certificate authority cannot be used")
        .with_hint("set it by --certificate-authority=FILE")
}

/// Reads a file of certificates.
pub(crate) fn read(file: &str) -> Result<String, Failure> {
    std::fs::read_to_string(file)
        .map_err(|error| Failure::usage(format!("cannot read {file}")).because(&error))
}

/// All keys of a connection in a member's Secret.
pub(crate) const KEYS: &[&str] = &[
    "server",
    "ca.crt",
    "tls-server-name",
    "insecure-skip-tls-verify",
    "proxy-url",
    "proxy-ca.crt",
    "proxy-tls.crt",
    "proxy-tls.key",
    VIA,
];
/// The key of a member's Secret that names the carrier of the connection.
const VIA: &str = "via";
const VIA_AGENT: &str = "agent";
const IN_CLUSTER: &str = "kubernetes.default.svc";

#[cfg(test)]
mod tests {
    use super::*;

    fn cluster() -> Cluster {
        Cluster { certificate_authority_data: Some(STANDARD.encode("PEM")), ..Cluster::default() }
    }

    fn of(server: &str, cluster: &Cluster, flags: &ConnectionArgs) -> Result<Endpoint, Failure> {
        Endpoint::new(server, cluster, flags)
    }

    #[test]
    fn connection_comes_from_kubeconfig_and_flags_override() {
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
    fn agent_connection_has_no_member_address() {
        let endpoint = Endpoint::via_agent("kubernetes.default.svc:443", Some("PEM".to_owned()));
        let expected = [("ca.crt", "PEM"), ("server", "https://kubernetes.default.svc"), ("via", "agent")];
        assert_eq!(endpoint.data(), expected.map(|(key, value)| (key, value.to_owned())).into());
        assert!(endpoint.locality().is_none());
        let other = Endpoint::via_agent("10.96.0.1:6443", None).data();
        assert_eq!(
            [&other["server"], &other["tls-server-name"]],
            ["https://10.96.0.1:6443", "kubernetes.default.svc"]
        );
        let secret = |endpoint: &Endpoint| crate::join::objects::secret("ns", "m1.member", endpoint);
        assert!(is_via_agent(&secret(&endpoint)));
        let direct = of("https://m1", &cluster(), &ConnectionArgs::default()).unwrap();
        assert!(!is_via_agent(&secret(&direct)));
    }

    #[test]
    fn insecure_and_ca_are_mutually_exclusive() {
        let flags = ConnectionArgs { insecure_skip_tls_verify: true, ..ConnectionArgs::default() };
        let data = of("https://m:6443", &cluster(), &flags).unwrap().data();
        assert_eq!(data.get("ca.crt"), None);
        assert_eq!(data["insecure-skip-tls-verify"], "true");
    }

    #[test]
    fn invalid_connection_is_refused_before_any_write() {
        for (server, reason) in [
            ("http://m:8080", "must be https"),
            ("https://u:p@m", "user info"),
            ("https://m?x=1", "a query"),
            ("m:6443", "must be https"),
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
        assert!(error.to_string().contains("is local to this machine"), "{error}");
        let flags = ConnectionArgs { proxy_url: Some(String::new()), ..ConnectionArgs::default() };
        assert_eq!(of("https://m", &cluster, &flags).unwrap().proxy_url, None);
        let other = Cluster { proxy_url: Some("http://proxy.corp:3128".to_owned()), ..cluster };
        let taken = of("https://m", &other, &ConnectionArgs::default()).unwrap();
        assert_eq!(taken.proxy_url.as_deref(), Some("http://proxy.corp:3128"));
    }

    #[test]
    fn only_a_kubeconfig_server_is_checked_for_locality() {
        let flags = ConnectionArgs::default();
        assert!(of("https://127.0.0.1:6443", &cluster(), &flags).unwrap().locality().is_some());
        let flags = ConnectionArgs { server: Some("https://127.0.0.1:6443".to_owned()), ..flags };
        assert!(of("https://m", &cluster(), &flags).unwrap().locality().is_none());
    }
}
