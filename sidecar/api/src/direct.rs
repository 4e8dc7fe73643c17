//! Describes the direct endpoint: the sidecar's own address for clients, which bypasses the host's
//! kube-apiserver, and the ConfigMap that publishes it to every authenticated user of the host.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The namespace of [`CONFIG_MAP`], which kubeadm and the cluster bootstrap use for the same purpose.
pub const NAMESPACE: &str = "kube-public";
/// The name of the ConfigMap with [`SERVER`] and [`AUTHORITY`], of the Role that grants reading it, and of
/// the Role's binding.
pub const CONFIG_MAP: &str = "kubectl-mc";
/// The key of the URL: a [`Server`].
pub const SERVER: &str = "server";
/// The key of the CA certificates (PEM) that verify the server. Without it, the client uses its system roots.
pub const AUTHORITY: &str = "ca.crt";
/// The Service that exposes the sidecars to clients.
pub const SERVICE: &str = "mc-sidecar-direct";

/// The URL of a direct endpoint and the CA certificates (PEM) that verify its server, as the sidecar sends
/// them to an agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Publication {
    pub server: Server,
    #[serde(rename = "ca.crt")]
    pub authority: String,
}

/// The URL of a [`CONFIG_MAP`] and its CA, if it has a valid URL.
pub fn published(config_map: &Value) -> Option<(Server, Option<String>)> {
    let text = |key: &str| config_map["data"][key].as_str().filter(|text| !text.is_empty());
    Some((text(SERVER)?.parse().ok()?, text(AUTHORITY).map(str::to_owned)))
}

/// The path of [`CONFIG_MAP`] in the host's API.
pub fn path() -> String {
    format!("/api/v1/namespaces/{NAMESPACE}/configmaps/{CONFIG_MAP}")
}

/// The URL of a direct endpoint: `https://HOST[:PORT]`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Server {
    url: String,
    host: String,
}

impl Server {
    /// The URL without a trailing slash.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The DNS name or IP address that the server's certificate must have, an IPv6 address without brackets.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The host, if it is an IP address.
    pub fn address(&self) -> Option<IpAddr> {
        self.host.parse().ok()
    }
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.url)
    }
}

impl FromStr for Server {
    type Err = InvalidServer;

    fn from_str(text: &str) -> Result<Self, InvalidServer> {
        let url = text.strip_suffix('/').unwrap_or(text);
        let authority = url.strip_prefix("https://").ok_or(InvalidServer)?;
        let (host, port) = match authority.strip_prefix('[') {
            Some(rest) => {
                let (address, port) = rest.split_once(']').ok_or(InvalidServer)?;
                address.parse::<Ipv6Addr>().map_err(|_| InvalidServer)?;
                (address, port)
            }
            None => {
                let host = authority.split(':').next().unwrap_or_default();
                (host, authority.get(host.len()..).unwrap_or_default())
            }
        };
        let is_port = |port: &str| port.parse::<u16>().is_ok_and(|port| port != 0);
        let port_is_valid = port.is_empty() || port.strip_prefix(':').is_some_and(is_port);
        if !port_is_valid || !(host.parse::<IpAddr>().is_ok() || is_dns_name(host)) {
            return Err(InvalidServer);
        }
        Ok(Self { host: host.to_owned(), url: url.to_owned() })
    }
}

impl From<Server> for String {
    fn from(server: Server) -> Self {
        server.url
    }
}

impl TryFrom<String> for Server {
    type Error = InvalidServer;

    fn try_from(text: String) -> Result<Self, InvalidServer> {
        text.parse()
    }
}

/// A host name (RFC 1123) whose last label has a letter, which excludes mistyped IP addresses.
fn is_dns_name(host: &str) -> bool {
    let is_label = |label: &str| {
        let is_part = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        !label.is_empty()
            && label.len() <= 63
            && label.bytes().all(is_part)
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    let last = host.rsplit('.').next().unwrap_or_default();
    host.len() <= 253 && host.split('.').all(is_label) && last.bytes().any(|byte| byte.is_ascii_alphabetic())
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected https://HOST[:PORT]")]
pub struct InvalidServer;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn server_url_and_host_are_parsed() {
        for (text, url, host) in [
            ("https://mc.example.com", "https://mc.example.com", "mc.example.com"),
            ("https://mc.example.com:8443/", "https://mc.example.com:8443", "mc.example.com"),
            ("https://203.0.113.7:30443", "https://203.0.113.7:30443", "203.0.113.7"),
            ("https://[2001:db8::7]:443", "https://[2001:db8::7]:443", "2001:db8::7"),
        ] {
            let server: Server = text.parse().unwrap();
            assert_eq!((server.url(), server.host()), (url, host));
        }
    }

    #[test]
    fn url_other_than_an_https_authority_is_refused() {
        for text in [
            "http://mc.example.com",
            "mc.example.com",
            "https://",
            "https://mc.example.com/path",
            "https://user@mc.example.com",
            "https://mc.example.com:0",
            "https://mc.example.com:x",
            "https://mc.example.com:1:2",
            "https://mc example.com",
            "https://-mc.example.com",
            "https://203.0.113.777",
            "https://2001:db8::7",
            "https://[203.0.113.7]",
            "https://[2001:db8::7",
            "https://mc.example.com?x=1",
            "https://mc.example.com//",
        ] {
            assert_eq!(text.parse::<Server>(), Err(InvalidServer), "{text}");
        }
    }
}
