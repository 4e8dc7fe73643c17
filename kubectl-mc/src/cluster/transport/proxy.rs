//! The proxy in front of a server: the one in the kubeconfig, else the one in the environment.

use http::Uri;
use kubectl_mc_api::environment_proxy::Environment;

use crate::env::{self, Env};

/// The proxy of a kubeconfig (`proxy-url`), which `NO_PROXY` does not change.
pub(super) fn of_kubeconfig(url: &str) -> Result<Uri, String> {
    let scheme = url.split_once("://").map(|(scheme, _)| scheme.to_ascii_lowercase());
    match scheme.as_deref() {
        Some("http" | "https" | "socks5") => {}
        _ => return Err("the scheme of proxy-url must be http, https or socks5".to_owned()),
    }
    url.parse::<Uri>()
        .ok()
        .filter(|url| url.host().is_some())
        .ok_or_else(|| "proxy-url is no valid URL".to_owned())
}

/// The proxy for a server from the environment.
pub(crate) fn from_environment(server: &Uri, env: &Env) -> Result<Option<Uri>, String> {
    let text = |names: [&str; 2]| names.iter().find_map(|name| env.var(name)?.to_str()).unwrap_or_default();
    let environment =
        Environment { https: text(env::HTTPS_PROXY), http: text(env::HTTP_PROXY), no: text(env::NO_PROXY) };
    let (scheme, host) = (server.scheme_str().unwrap_or_default(), server.host().unwrap_or_default());
    let Some(url) = environment.proxy(scheme, host, server.port_u16()) else { return Ok(None) };
    // Without it, the request would go where the user does not want it.
    let url = url.parse::<Uri>().ok().filter(|url| url.host().is_some());
    url.map(Some).ok_or_else(|| format!("the proxy of the environment for {scheme} is no valid URL"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fault_81_proxy_is_chosen_by_the_server_scheme() {
        let proxy = |server: &str, variables: &[(&str, &str)]| {
            let env = variables.iter().copied().collect();
            from_environment(&server.parse().unwrap(), &env).unwrap().map(|proxy| proxy.to_string())
        };
        let both =
            [("HTTPS_PROXY", "http://s:1"), ("http_proxy", "http://p:2"), ("https_proxy", "http://lower:3")];
        assert_eq!(proxy("https://h:6443/prefix", &both).as_deref(), Some("http://s:1/"));
        assert_eq!(proxy("http://h:8080", &both).as_deref(), Some("http://p:2/"));
        assert_eq!(proxy("https://h:6443", &[]), None);
        let without = [("HTTPS_PROXY", "socks5h://s:1"), ("no_proxy", "h:6443")];
        assert_eq!(proxy("https://h:6443", &without), None);
        assert_eq!(proxy("https://h", &without).as_deref(), Some("socks5h://s:1/"));
    }
}
