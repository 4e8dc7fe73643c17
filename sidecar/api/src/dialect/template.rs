//! Parses the path that a user gives for a hub without a dialect: `/some/path/{cluster}/proxy`, or a URL with
//! such a path. The host's credential is sent only to the host's own server, so the URL must name
//! that server (same scheme, host and port; RFC 6454).

use std::fmt;
use std::net::Ipv6Addr;
use std::str::FromStr;

/// The path of a cluster's API.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Template {
    /// The scheme and the authority of a URL, as given. Without one the path is below the host's server.
    server: Option<String>,
    before: String,
    after: String,
}

impl Template {
    pub(super) fn around(&self) -> (&str, &str) {
        (&self.before, &self.after)
    }

    /// The server below which the path is.
    pub(super) fn base<'a>(&self, server: &'a str) -> Result<&'a str, OtherServer> {
        let Some(own) = &self.server else { return Ok(server) };
        let other = || OtherServer { template: own.clone(), host: shown(server).to_owned() };
        let of_host = Origin::of(server).ok_or_else(other)?;
        if Origin::of(own).is_none_or(|origin| origin != of_host) {
            return Err(other());
        }
        Ok(split_url(server).map_or(server, |(server, _)| server))
    }
}

impl FromStr for Template {
    type Err = InvalidTemplate;

    fn from_str(text: &str) -> Result<Self, InvalidTemplate> {
        let (server, path) = match text.strip_prefix('/') {
            Some(_) => (None, text),
            None => {
                let (server, path) = split_url(text).ok_or(InvalidTemplate::NoPath)?;
                Origin::of(server).ok_or(InvalidTemplate::Server)?;
                (Some(server.to_owned()), path)
            }
        };
        let path = path.strip_suffix('/').unwrap_or(path);
        let (before, after) = path.split_once(CLUSTER).ok_or(InvalidTemplate::NoCluster)?;
        if after.contains(CLUSTER) {
            return Err(InvalidTemplate::NoCluster);
        }
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~:/".contains(&byte);
        if !before.bytes().chain(after.bytes()).all(is_plain) {
            return Err(InvalidTemplate::Character);
        }
        // `{cluster}` stands for a name, so a dot next to it does not make a dot segment.
        let segments = path.split('/').skip(1);
        if segments.into_iter().any(|segment| segment.is_empty() || segment == "." || segment == "..") {
            return Err(InvalidTemplate::Segment);
        }
        Ok(Self { server, before: before.to_owned(), after: after.to_owned() })
    }
}

impl fmt::Display for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let server = self.server.as_deref().unwrap_or_default();
        write!(f, "{server}{}{CLUSTER}{}", self.before, self.after)
    }
}

/// The origin of a URL: scheme, host and port identify a server.
#[derive(PartialEq, Eq)]
pub(super) struct Origin {
    scheme: &'static str,
    host: String,
    port: u16,
}

impl Origin {
    /// The origin of a URL without a user. A URL with a user is refused, because a user is a credential.
    pub(super) fn of(url: &str) -> Option<Self> {
        let (server, _) = split_url(url)?;
        let (scheme, authority, port) = match server.split_once("://")? {
            ("https", authority) => ("https", authority, 443),
            ("http", authority) => ("http", authority, 80),
            _ => return None,
        };
        let (host, rest) = match authority.strip_prefix('[') {
            Some(rest) => {
                let (address, rest) = rest.split_once(']')?;
                (address.parse::<Ipv6Addr>().ok()?.to_string(), rest)
            }
            None => {
                let (host, rest) = authority.split_at(authority.find(':').unwrap_or(authority.len()));
                let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
                if host.is_empty() || !host.bytes().all(is_name) {
                    return None;
                }
                (host.to_ascii_lowercase(), rest)
            }
        };
        let port = match rest.strip_prefix(':') {
            Some(digits) if digits.bytes().all(|digit| digit.is_ascii_digit()) => digits.parse().ok()?,
            Some(_) => return None,
            None if rest.is_empty() => port,
            None => return None,
        };
        Some(Self { scheme, host, port })
    }
}

/// Splits a URL into the scheme with the authority, and the path.
pub(super) fn split_url(url: &str) -> Option<(&str, &str)> {
    let authority = url.find("://")? + "://".len();
    let end = url[authority..].find('/').map_or(url.len(), |at| authority + at);
    Some(url.split_at(end))
}

/// A server for messages, without a user and a password.
fn shown(server: &str) -> &str {
    if server.contains('@') { "with a user in its URL" } else { server }
}

const CLUSTER: &str = "{cluster}";

/// Why a template is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidTemplate {
    #[error("a template is a path that begins with /, or a URL")]
    NoPath,
    #[error("a template's URL is https://HOST[:PORT]/PATH, without a user")]
    Server,
    #[error("a template contains {{cluster}} once, in its path")]
    NoCluster,
    #[error("a template's path has letters, digits and - . _ ~ : / only")]
    Character,
    #[error("a template's path has no empty segments and no dot segments")]
    Segment,
}

/// A template that would send the host's credential to another server.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the template's server {template} is not the host's, {host}: the host's credential is sent to its own server only"
)]
pub struct OtherServer {
    template: String,
    host: String,
}
