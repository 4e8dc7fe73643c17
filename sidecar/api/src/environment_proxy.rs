//! The proxy that the environment sets for a server, by the rules of Go
//! (`golang.org/x/net/http/httpproxy`), which kubectl and other Kubernetes programs follow.

use std::net::IpAddr;

/// The values of `HTTPS_PROXY`, `HTTP_PROXY` and `NO_PROXY`; an empty one counts as absent.
#[derive(Clone, Copy, Debug, Default)]
pub struct Environment<'a> {
    pub https: &'a str,
    pub http: &'a str,
    pub no: &'a str,
}

impl Environment<'_> {
    /// The URL of the proxy for a server; `None` if it is reached directly. An IPv6 address may have brackets.
    #[must_use]
    pub fn proxy(&self, scheme: &str, host: &str, port: Option<u16>) -> Option<String> {
        let (proxy, default_port) = match scheme {
            "https" => (self.https, 443),
            "http" => (self.http, 80),
            _ => return None,
        };
        if proxy.is_empty() || !self.applies_to(host.trim_matches(['[', ']']), port.unwrap_or(default_port)) {
            return None;
        }
        let has_scheme = proxy.split_once("://").is_some_and(|(scheme, host)| {
            !scheme.is_empty() && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric()) && !host.is_empty()
        });
        Some(if has_scheme { proxy.to_owned() } else { format!("http://{proxy}") })
    }

    fn applies_to(&self, host: &str, port: u16) -> bool {
        let address = host.parse::<IpAddr>().ok();
        if host == "localhost" || address.is_some_and(|address| address.to_canonical().is_loopback()) {
            return false;
        }
        let host = host.to_ascii_lowercase();
        !self.no.split(',').any(|entry| matches(entry.trim(), &host, port, address))
    }
}

/// Whether an entry of `NO_PROXY` has the server: `*`, an address or a network, or a domain, also with a port.
fn matches(entry: &str, host: &str, port: u16, address: Option<IpAddr>) -> bool {
    let entry = entry.to_ascii_lowercase();
    if entry == "*" {
        return true;
    }
    if let Some((network, bits)) = network(&entry) {
        return address.is_some_and(|address| is_in(address.to_canonical(), network, bits));
    }
    let (name, entry_port) = host_and_port(&entry);
    if name.is_empty() || entry_port.is_some_and(|entry_port| entry_port != port.to_string()) {
        return false;
    }
    if let Ok(entry) = name.parse::<IpAddr>() {
        return address.is_some_and(|address| address.to_canonical() == entry.to_canonical());
    }
    let domain = name.strip_prefix("*.").map_or_else(|| name.to_owned(), |domain| format!(".{domain}"));
    address.is_none()
        && match domain.starts_with('.') {
            true => host.ends_with(&domain),
            false => host == domain || host.strip_suffix(&domain).is_some_and(|rest| rest.ends_with('.')),
        }
}

/// Splits `host:port` and `[address]:port`. Other text is a host.
fn host_and_port(entry: &str) -> (&str, Option<&str>) {
    if let Some((host, port)) = entry.strip_prefix('[').and_then(|rest| rest.split_once("]:")) {
        return (host, Some(port).filter(|port| !port.is_empty()));
    }
    match entry.split_once(':') {
        Some((host, port)) if !port.contains(':') && !entry.contains(['[', ']']) => {
            (host, Some(port).filter(|port| !port.is_empty()))
        }
        _ => (entry, None),
    }
}

fn network(entry: &str) -> Option<(IpAddr, u32)> {
    let (address, bits) = entry.split_once('/')?;
    let (address, bits) = (address.parse::<IpAddr>().ok()?, bits.parse().ok()?);
    let most = if address.is_ipv4() { 32 } else { 128 };
    (bits <= most).then_some((address, bits))
}

fn is_in(address: IpAddr, network: IpAddr, bits: u32) -> bool {
    match (address, network) {
        (IpAddr::V4(address), IpAddr::V4(network)) => {
            let different = address.to_bits() ^ network.to_bits();
            different.checked_shr(32 - bits).unwrap_or_default() == 0
        }
        (IpAddr::V6(address), IpAddr::V6(network)) => {
            let different = address.to_bits() ^ network.to_bits();
            different.checked_shr(128 - bits).unwrap_or_default() == 0
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether `NO_PROXY` excludes a server.
    fn is_direct(no: &str, host: &str, port: u16) -> bool {
        Environment { https: "http://p:3128", no, ..Environment::default() }
            .proxy("https", host, Some(port))
            .is_none()
    }

    #[test]
    fn no_proxy_has_the_rules_of_go() {
        for (no, host, expected) in [
            ("*", "10.1.2.3", true),
            ("a, *", "b.example", true),
            ("10.0.0.0/8", "10.1.2.3", true),
            ("10.0.0.0/8", "11.1.2.3", false),
            ("fd00::/8", "[fd00::1]", true),
            ("0.0.0.0/0", "1.2.3.4", true),
            ("10.1.2.3", "10.1.2.3", true),
            ("10.1.2.3:6443", "10.1.2.3", true),
            ("10.1.2.3:443", "10.1.2.3", false),
            ("[fd00::1]:6443", "[fd00::1]", true),
            ("fd00::1", "fd00::1", true),
            ("[fd00::1]", "fd00::1", false),
            ("example.com", "api.Example.com", true),
            ("example.com", "example.com", true),
            ("example.com", "badexample.com", false),
            (".example.com", "example.com", false),
            (".example.com", "api.example.com", true),
            ("*.example.com", "api.example.com", true),
            ("*.example.com", "example.com", false),
            ("example.com:6443", "api.example.com", true),
            ("example.com:443", "api.example.com", false),
            (":6443", "api.example.com", false),
            ("2.3", "10.1.2.3", false),
            ("", "localhost", true),
            ("", "127.0.0.1", true),
            ("", "::1", true),
            ("", "api.example.com", false),
        ] {
            assert_eq!(is_direct(no, host, 6443), expected, "{no} {host}");
        }
    }

    #[test]
    fn scheme_of_the_server_chooses_the_proxy() {
        let both = Environment { https: "s:1", http: "socks5h://p:2", no: "" };
        assert_eq!(both.proxy("https", "h", None).as_deref(), Some("http://s:1"));
        assert_eq!(both.proxy("http", "h", None).as_deref(), Some("socks5h://p:2"));
        assert_eq!(Environment::default().proxy("https", "h", None), None);
    }
}
