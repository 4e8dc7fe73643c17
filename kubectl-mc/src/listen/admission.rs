//! Decides which requests are admitted: those that are addressed to this listener, do not come from
//! a page of another origin, and have the token. Only a request to a loopback name can come from a
//! tool: the page of an attacker's site keeps that site's name if DNS directs it here (DNS
//! rebinding).

use http::header::{self, HeaderMap, HeaderName};

use super::refusal::Refusal;
use crate::kubectl::loopback::Token;

/// The meaning of a host name.
#[derive(Debug, PartialEq)]
pub(super) enum Host {
    /// The listener, for any cluster.
    Loopback,
    /// `NAME.localhost`
    Cluster(String),
}

/// The scheme of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scheme {
    Http,
    Https,
}

impl Scheme {
    fn prefix(self) -> &'static str {
        match self {
            Self::Http => "http://",
            Self::Https => "https://",
        }
    }

    fn default_port(self) -> u16 {
        match self {
            Self::Http => 80,
            Self::Https => 443,
        }
    }
}

/// The requirements for a request.
pub(super) struct Admission {
    pub(super) port: u16,
    /// The addresses of the listener, as written in a URL.
    pub(super) addresses: Vec<String>,
    /// `None` with `--no-token`.
    pub(super) token: Option<Token>,
}

impl Admission {
    /// The host to which an admitted request is addressed.
    pub(super) fn check(&self, headers: &HeaderMap, scheme: Scheme) -> Result<Host, Refusal> {
        let host = only(headers, &header::HOST).ok_or(Refusal::Host)?.to_ascii_lowercase();
        let named = self.named(&host, scheme).ok_or(Refusal::Host)?;
        if headers.contains_key(header::ORIGIN) {
            let origin = only(headers, &header::ORIGIN).ok_or(Refusal::Origin)?;
            if !origin.eq_ignore_ascii_case(&format!("{}{host}", scheme.prefix())) {
                return Err(Refusal::Origin);
            }
        }
        // A browser does not send an Origin with the GET for an image or a link on another page.
        if headers.get_all(SITE).iter().any(|site| site != "none" && site != "same-origin") {
            return Err(Refusal::Origin);
        }
        match &self.token {
            Some(token) if only(headers, &header::AUTHORIZATION).is_none() || !token.is_in(headers) => {
                Err(Refusal::Token)
            }
            _ => Ok(named),
        }
    }

    /// The meaning of a host in lower case; `None` for every name that is not a loopback name with
    /// the listener's port.
    fn named(&self, host: &str, scheme: Scheme) -> Option<Host> {
        let is_default = self.port == scheme.default_port();
        let name = host.strip_suffix(&format!(":{}", self.port)).or_else(|| is_default.then_some(host))?;
        if name == LOCALHOST || self.addresses.iter().any(|address| address == name) {
            return Some(Host::Loopback);
        }
        let cluster = cluster_of(name)?;
        Some(Host::Cluster(cluster.to_owned()))
    }
}

/// The cluster of `NAME.localhost`.
pub(super) fn cluster_of(host: &str) -> Option<&str> {
    let name = host.strip_suffix(LOCALHOST)?.strip_suffix('.')?;
    (!name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-'))
        .then_some(name)
}

/// The name of a cluster as a host.
pub(super) fn host_of(cluster: &str) -> String {
    format!("{cluster}.{LOCALHOST}")
}

/// The value of a header, if a request has it exactly once.
fn only<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (Some(value), None) => value.to_str().ok(),
        _ => None,
    }
}

pub(super) const LOCALHOST: &str = "localhost";
/// The relation of a page to the server of its request (Fetch Metadata Request Headers).
const SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

#[cfg(test)]
mod tests {
    use super::*;

    fn check(lines: &[(&str, &str)]) -> Result<Host, Refusal> {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.append(HeaderName::try_from(*name).unwrap(), value.parse().unwrap());
        }
        let addresses = ["127.0.0.1", "[::1]"].map(str::to_owned).to_vec();
        let token = Some(Token("secret".to_owned()));
        Admission { port: 4000, addresses, token }.check(&headers, Scheme::Https)
    }

    const TOKEN: (&str, &str) = ("authorization", "Bearer secret");

    #[test]
    fn loopback_names_with_the_port_are_admitted() {
        for (host, expected) in [
            ("m1.localhost:4000", Host::Cluster("m1".to_owned())),
            ("M1.LocalHost:4000", Host::Cluster("m1".to_owned())),
            ("localhost:4000", Host::Loopback),
            ("127.0.0.1:4000", Host::Loopback),
            ("[::1]:4000", Host::Loopback),
        ] {
            assert_eq!(check(&[("host", host), TOKEN]), Ok(expected), "{host}");
        }
    }

    /// Like the page of a site whose name DNS resolves to this machine.
    #[test]
    fn every_other_host_is_refused_before_the_token() {
        for host in [
            "",
            "evil.example:4000",
            "evil.example",
            "m1.localhost",
            "m1.localhost:4001",
            "m1.localhost.:4000",
            "localhost.:4000",
            "m1.localhost.evil.example:4000",
            "evillocalhost:4000",
            ".localhost:4000",
            "a.b.localhost:4000",
            "u@m1.localhost:4000",
            "127.0.0.2:4000",
            "0.0.0.0:4000",
            "127.1:4000",
            "2130706433:4000",
            "::1:4000",
            "[::ffff:127.0.0.1]:4000",
            "m1.localhost:04000",
            "m1.localhost:4000:4000",
            "m1.localhost:4000/x",
        ] {
            assert_eq!(check(&[("host", host), TOKEN]), Err(Refusal::Host), "{host}");
        }
        assert_eq!(check(&[TOKEN]), Err(Refusal::Host));
        let two = [("host", "m1.localhost:4000"), ("host", "m2.localhost:4000"), TOKEN];
        assert_eq!(check(&two), Err(Refusal::Host));
        assert_eq!(check(&[("host", "evil.example:4000")]), Err(Refusal::Host));
    }

    #[test]
    fn default_port_may_be_left_out() {
        let addresses = vec!["127.0.0.1".to_owned()];
        let admission = Admission { port: 443, addresses, token: None };
        assert!(admission.named("m1.localhost", Scheme::Https).is_some());
        assert!(admission.named("m1.localhost:443", Scheme::Https).is_some());
        assert!(admission.named("m1.localhost", Scheme::Http).is_none());
    }

    #[test]
    fn pages_of_another_origin_are_refused() {
        let host = ("host", "m1.localhost:4000");
        for origin in [
            "https://evil.example",
            "null",
            "",
            "http://m1.localhost:4000",
            "https://m2.localhost:4000",
            "https://localhost:4000",
            "https://m1.localhost:4001",
            "https://m1.localhost:4000/",
            "https://m1.localhost:4000.evil.example",
        ] {
            assert_eq!(check(&[host, ("origin", origin), TOKEN]), Err(Refusal::Origin), "{origin}");
        }
        let own = ("origin", "https://m1.localhost:4000");
        assert!(check(&[host, own, TOKEN]).is_ok());
        assert_eq!(check(&[host, own, own, TOKEN]), Err(Refusal::Origin));
        for (site, is_admitted) in
            [("none", true), ("same-origin", true), ("same-site", false), ("cross-site", false), ("", false)]
        {
            assert_eq!(check(&[host, ("sec-fetch-site", site), TOKEN]).is_ok(), is_admitted, "{site}");
        }
    }

    #[test]
    fn only_the_whole_token_is_admitted() {
        let host = ("host", "m1.localhost:4000");
        for value in
            ["", "secret", "Bearer", "Bearer secre", "Bearer secret2", "Bearer  secret", "Basic secret"]
        {
            assert_eq!(check(&[host, ("authorization", value)]), Err(Refusal::Token), "{value}");
        }
        assert_eq!(check(&[host]), Err(Refusal::Token));
        assert_eq!(check(&[host, TOKEN, TOKEN]), Err(Refusal::Token));
        assert_eq!(check(&[host, ("cookie", "token=secret")]), Err(Refusal::Token));
    }
}
