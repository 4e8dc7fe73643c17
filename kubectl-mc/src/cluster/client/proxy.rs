//! Reads `HTTPS_PROXY`, `HTTP_PROXY` and `NO_PROXY` by Go's rules: upper case first, and never for loopback
//! addresses.

use std::net::IpAddr;

use http::Uri;
use hyper_util::client::proxy::matcher::Matcher;

use crate::env::{self, Env};

/// The proxy for `server` from the environment.
pub(crate) fn from_environment(server: &Uri, env: &Env) -> Option<Uri> {
    let host = server.host()?;
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    if host == "localhost" || address.is_ok_and(|address| address.is_loopback()) {
        return None;
    }
    let text = |names: [&str; 2]| {
        names.iter().find_map(|name| env.var(name)?.to_str()).unwrap_or_default().to_owned()
    };
    let matcher = Matcher::builder()
        .https(text(env::HTTPS_PROXY))
        .http(text(env::HTTP_PROXY))
        .no(text(env::NO_PROXY))
        .build();
    Some(matcher.intercept(server)?.uri().clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proxy(server: &str, variables: &[(&str, &str)]) -> Option<String> {
        let env = variables.iter().copied().collect();
        from_environment(&server.parse().unwrap(), &env).map(|proxy| proxy.to_string())
    }

    #[test]
    fn fault_81_proxy_is_chosen_by_the_server_scheme() {
        let both =
            [("HTTPS_PROXY", "http://s:1"), ("http_proxy", "http://p:2"), ("https_proxy", "http://lower:3")];
        assert_eq!(proxy("https://h:6443/prefix", &both).as_deref(), Some("http://s:1/"));
        assert_eq!(proxy("http://h:8080", &both).as_deref(), Some("http://p:2/"));
        assert_eq!(proxy("https://h:6443", &[]), None);
    }

    #[test]
    fn no_proxy_and_loopback_servers_bypass_the_proxy() {
        let with = |no: &'static str| [("HTTPS_PROXY", "http://s:1"), ("NO_PROXY", no)];
        for (server, no) in [
            ("https://127.0.0.1:6443", ""),
            ("https://[::1]:6443", ""),
            ("https://localhost", ""),
            ("https://10.1.2.3:6443", "10.0.0.0/8"),
            ("https://api.example.com", "example.com,other"),
            ("https://api.example.com", ".example.com"),
            ("https://anything", "*"),
        ] {
            assert_eq!(proxy(server, &with(no)), None, "{server} {no}");
        }
        assert!(proxy("https://11.1.2.3:6443", &with("10.0.0.0/8")).is_some());
    }
}
