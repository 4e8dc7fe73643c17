//! Parses a member's address and credential from its Secret `<name>.member`. Nothing else determines where a
//! credential is sent, and no part of a request can change it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use http::uri::{Authority, InvalidUri, PathAndQuery, Scheme};
use http::{HeaderValue, Uri};
use k8s_openapi::ByteString;
use rustls::client::{Resumption, WantsClientCert};
use rustls::{ClientConfig, ConfigBuilder, RootCertStore};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName};

mod proxy;

pub(super) use proxy::Proxy;

/// A member's connection and credential.
pub struct Connection {
    authority: Authority,
    /// Prepended unchanged to each path; without a trailing slash.
    base_path: String,
    host: HeaderValue,
    authorization: Option<HeaderValue>,
    pub(super) server_name: ServerName<'static>,
    pub(super) proxy: Option<Proxy>,
    /// Whether the member's agent opens the connections.
    pub(super) is_via_agent: bool,
    pub(super) tls: Arc<ClientConfig>,
    has_certificate: bool,
}

impl Connection {
    /// Parses a Secret's data, which must contain a credential.
    pub fn parse(data: &BTreeMap<String, ByteString>) -> Result<Self, Error> {
        let connection = Self::parse_any(data)?;
        if connection.authorization.is_none() && !connection.has_certificate {
            let why = "there is no credential, neither a token nor tls.crt and tls.key";
            return Err(Error::new("token", why));
        }
        Ok(connection)
    }

    /// Parses a Secret's data, with or without a credential: the data of a member that has not yet granted
    /// one.
    pub fn parse_any(data: &BTreeMap<String, ByteString>) -> Result<Self, Error> {
        let text = |key: &'static str| match data.get(key) {
            None => Ok(None),
            Some(value) => match std::str::from_utf8(&value.0) {
                Ok(text) => Ok(Some(text.trim()).filter(|text| !text.is_empty())),
                Err(_) => Err(Error::new(key, "it is not UTF-8")),
            },
        };
        let server = text("server")?.ok_or_else(|| Error::new("server", "it is missing"))?;
        let (authority, base_path) = server_address(server).map_err(|reason| Error::new("server", reason))?;
        let host = HeaderValue::from_str(authority.as_str()).map_err(|_| Error::new("server", "no host"))?;

        let name = text("tls-server-name")?.unwrap_or_else(|| authority.host().trim_matches(['[', ']']));
        let server_name = ServerName::try_from(name.to_owned())
            .map_err(|_| Error::new("tls-server-name", "it is no DNS name or IP address"))?;

        let token = text("token")?;
        let authorization = match token {
            None => None,
            Some(token) => {
                let mut value = HeaderValue::from_str(&format!("Bearer {token}"))
                    .map_err(|_| Error::new("token", "it has characters that no header may have"))?;
                value.set_sensitive(true);
                Some(value)
            }
        };
        let insecure = match text("insecure-skip-tls-verify")? {
            None | Some("false") => false,
            Some("true") => true,
            Some(_) => return Err(Error::new("insecure-skip-tls-verify", "it is neither true nor false")),
        };
        let proxy = Proxy::parse(text("proxy-url")?, data)?;
        let is_via_agent = match text("via")? {
            None => false,
            Some("agent") => true,
            Some(_) => return Err(Error::new("via", "it can only be agent")),
        };
        if is_via_agent {
            // The agent must not be able to read the traffic, so the server must be verified.
            let refused = |key, why| Err(Error::new(key, format!("via: agent {why}")));
            match () {
                () if insecure => return refused("insecure-skip-tls-verify", "needs a verified server"),
                () if proxy.is_some() => return refused("proxy-url", "uses no proxy of the host's side"),
                () if !data.contains_key("ca.crt") => return refused("ca.crt", "needs the member's CA"),
                () => {}
            }
        }
        let has_certificate = data.contains_key(KEYS.chain);
        let tls = Arc::new(tls(insecure, data)?);
        Ok(Self {
            authority,
            base_path,
            host,
            authorization,
            server_name,
            proxy,
            is_via_agent,
            tls,
            has_certificate,
        })
    }

    /// The value of `Host`.
    pub fn host(&self) -> HeaderValue {
        self.host.clone()
    }

    /// The value of `Authorization`, if the credential has a token.
    pub fn authorization(&self) -> Option<HeaderValue> {
        self.authorization.clone()
    }

    /// Whether the credential contains a client certificate.
    pub fn has_certificate(&self) -> bool {
        self.has_certificate
    }

    /// The request target for a path, which stays exactly as the client sent it. It has no scheme
    /// and no authority (RFC 9112, 3.2.1), because it is sent to a server and not to a proxy.
    pub fn target(&self, path: &str, query: Option<&str>) -> Result<Uri, InvalidUri> {
        let mut target =
            String::with_capacity(self.base_path.len() + path.len() + 1 + query.map_or(0, str::len));
        target.push_str(&self.base_path);
        target.push_str(path);
        if let Some(query) = query {
            target.push('?');
            target.push_str(query);
        }
        PathAndQuery::try_from(target).map(Uri::from)
    }

    /// Host and port of the server.
    pub(super) fn host_and_port(&self) -> Result<Authority, InvalidUri> {
        match self.authority.port_u16() {
            Some(_) => Ok(self.authority.clone()),
            None => Authority::try_from(format!("{}:443", self.authority.host())),
        }
    }

    /// Whether the member's agent opens the connections.
    pub fn is_via_agent(&self) -> bool {
        self.is_via_agent
    }

    pub(super) fn address(&self) -> Result<Uri, http::Error> {
        Uri::builder().scheme(Scheme::HTTPS).authority(self.authority.clone()).path_and_query("/").build()
    }
}

/// Does not show the credential.
impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("server", &self.authority).finish_non_exhaustive()
    }
}

fn server_address(server: &str) -> Result<(Authority, String), &'static str> {
    if server.contains(['?', '#']) {
        return Err("it may have no query and no fragment");
    }
    let uri: Uri = server.parse().map_err(|_| "it is no URL")?;
    if uri.scheme() != Some(&Scheme::HTTPS) {
        return Err("it must begin with https://");
    }
    let authority = uri.authority().ok_or("it has no host")?;
    if authority.as_str().contains('@') {
        return Err("it may have no user info");
    }
    if authority.host().is_empty()
        || (authority.as_str() != authority.host() && authority.port_u16().is_none())
    {
        return Err("it has no host or no valid port");
    }
    Ok((authority.clone(), uri.path().trim_end_matches('/').to_owned()))
}

/// The two keys of a client certificate in a Secret.
#[derive(Clone, Copy)]
struct Keys {
    chain: &'static str,
    key: &'static str,
}

/// The client certificate for the member.
const KEYS: Keys = Keys { chain: "tls.crt", key: "tls.key" };

type Certificate = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

fn client_certificate(
    Keys { chain, key }: Keys,
    data: &BTreeMap<String, ByteString>,
) -> Result<Option<Certificate>, Error> {
    let missing = |name, other| Err(Error::new(name, format!("it is missing, though {other} is there")));
    let (certificates, private) = match (data.get(chain), data.get(key)) {
        (None, None) => return Ok(None),
        (Some(certificates), Some(private)) => (certificates, private),
        (Some(_), None) => return missing(key, chain),
        (None, Some(_)) => return missing(chain, key),
    };
    let certificates = CertificateDer::pem_slice_iter(&certificates.0).collect::<Result<Vec<_>, _>>();
    let certificates = certificates.ok().filter(|all| !all.is_empty());
    let certificates = certificates.ok_or_else(|| Error::new(chain, "it is no PEM certificate"))?;
    let private =
        PrivateKeyDer::from_pem_slice(&private.0).map_err(|_| Error::new(key, "it is no PEM key"))?;
    Ok(Some((certificates, private)))
}

fn tls(insecure: bool, data: &BTreeMap<String, ByteString>) -> Result<ClientConfig, Error> {
    let builder = ClientConfig::builder();
    let builder = if insecure {
        builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(super::connect::unverified::Unverified::default()))
    } else {
        builder.with_root_certificates(roots("ca.crt", data)?)
    };
    client_config(builder, KEYS, data)
}

fn client_config(
    builder: ConfigBuilder<ClientConfig, WantsClientCert>,
    keys: Keys,
    data: &BTreeMap<String, ByteString>,
) -> Result<ClientConfig, Error> {
    let mut config = match client_certificate(keys, data)? {
        None => builder.with_no_client_auth(),
        Some((chain, key)) => builder
            .with_client_auth_cert(chain, key)
            .map_err(|_| Error::new(keys.chain, format!("it does not fit {}", keys.key)))?,
    };
    // rustls reserves memory for 32 servers, and there is only one: with hundreds of members that is most of
    // their memory.
    config.resumption = Resumption::in_memory_sessions(TICKETS);
    Ok(config)
}

/// As many as rustls keeps for one server.
const TICKETS: usize = 8;

/// The authorities in this key of the Secret, or else the system's.
fn roots(key: &'static str, data: &BTreeMap<String, ByteString>) -> Result<RootCertStore, Error> {
    let mut roots = RootCertStore::empty();
    let Some(pem) = data.get(key) else {
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        if roots.is_empty() {
            return Err(Error::new(key, "it is missing, and the system has no certificate authority"));
        }
        return Ok(roots);
    };
    for certificate in CertificateDer::pem_slice_iter(&pem.0) {
        let certificate = certificate.map_err(|_| Error::new(key, "it is no PEM certificate"))?;
        roots.add(certificate).map_err(|_| Error::new(key, "it is no certificate authority"))?;
    }
    if roots.is_empty() {
        return Err(Error::new(key, "it is no PEM certificate"));
    }
    Ok(roots)
}

/// A key of a member's Secret is invalid. Its value may be a secret, so the error does not contain it.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("key {key}: {reason}")]
pub struct Error {
    key: &'static str,
    reason: String,
}

impl Error {
    pub(super) fn unusable_server() -> Self {
        Self::new("server", "it is no URL that can be reached")
    }

    pub(super) fn unusable_proxy() -> Self {
        Self::new("proxy-url", "it is no URL that can be reached")
    }

    fn new(key: &'static str, reason: impl Into<String>) -> Self {
        Self { key, reason: reason.into() }
    }
}

#[cfg(test)]
mod tests;
