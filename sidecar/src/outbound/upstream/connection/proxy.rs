//! Parses the proxy in front of a member: `proxy-url`, and for a proxy with TLS its authority and the client
//! certificate for it.

use std::collections::BTreeMap;
use std::sync::Arc;

use http::Uri;
use k8s_openapi::ByteString;
use rustls::ClientConfig;

use super::{Error, Keys, client_config, roots};

/// A forward proxy. It has no `Debug`, because the URL may contain a password.
pub(in super::super) struct Proxy {
    pub(in super::super) url: Uri,
    /// For an `https` URL.
    pub(in super::super) tls: Option<Arc<ClientConfig>>,
}

impl Proxy {
    /// Parses the keys of a Secret that configure the proxy.
    pub(super) fn parse(
        url: Option<&str>,
        data: &BTreeMap<String, ByteString>,
    ) -> Result<Option<Self>, Error> {
        let url = url.map(address).transpose().map_err(|reason| Error::new("proxy-url", reason))?;
        let Some(url) = url.as_ref().filter(|url| url.scheme_str() == Some("https")) else {
            return match [AUTHORITY, KEYS.chain, KEYS.key].into_iter().find(|key| data.contains_key(*key)) {
                Some(key) => Err(Error::new(key, "it needs a proxy-url that begins with https://")),
                None => Ok(url.map(|url| Self { url, tls: None })),
            };
        };
        let roots = roots(AUTHORITY, data)?;
        let tls = client_config(ClientConfig::builder().with_root_certificates(roots), KEYS, data)?;
        Ok(Some(Self { url: url.clone(), tls: Some(Arc::new(tls)) }))
    }
}

fn address(url: &str) -> Result<Uri, &'static str> {
    let uri: Uri = url.parse().map_err(|_| "it is no URL")?;
    match uri.scheme_str() {
        Some("http" | "https" | "socks5" | "socks5h") if uri.host().is_some_and(|host| !host.is_empty()) => {
            Ok(uri)
        }
        _ => Err("it must begin with http://, https:// or socks5:// and name a host"),
    }
}

const AUTHORITY: &str = "proxy-ca.crt";
const KEYS: Keys = Keys { chain: "proxy-tls.crt", key: "proxy-tls.key" };

#[cfg(test)]
mod tests;
