//! Recognizes server addresses that are local to the caller's machine: loopback, and the names that kind,
//! k3d, minikube and Docker Desktop write into kubeconfigs. The sidecar cannot reach them.

use std::net::IpAddr;

use http::Uri;

/// Whether an address or URL is local to this machine.
pub(crate) fn is_local(url: &str) -> bool {
    local(url).is_some()
}

/// Why other machines cannot use the address of this URL, such as `a loopback address`.
pub(crate) fn local(url: &str) -> Option<&'static str> {
    let uri: Uri = url.parse().ok()?;
    let host = uri.host()?.trim_matches(['[', ']']).trim_end_matches('.').to_ascii_lowercase();
    match host.parse::<IpAddr>() {
        Ok(address) if address.to_canonical().is_loopback() => Some("a loopback address"),
        Ok(address) if address.is_unspecified() => Some("no address of a machine"),
        Ok(_) => None,
        Err(_) if host == "localhost" || host.ends_with(".localhost") => Some("a loopback address"),
        Err(_) if host.ends_with(".docker.internal") => Some("a name that Docker gives to this machine only"),
        Err(_) if host == "kubernetes" || host.starts_with("kubernetes.default") => {
            Some("a name inside the member only")
        }
        Err(_) => None,
    }
}

/// Guesses the server that other machines can use from the name of the context. kind, k3d and minikube name
/// their contexts, and the names of their nodes resolve in the network that the nodes share.
pub(crate) fn of_context(context: &str) -> Option<String> {
    if let Some(cluster) = context.strip_prefix("kind-") {
        return Some(format!("https://{cluster}-control-plane:6443"));
    }
    context.strip_prefix("k3d-").map(|cluster| format!("https://k3d-{cluster}-serverlb:6443"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn local_addresses_are_recognized() {
        for url in [
            "https://127.0.0.1:34567",
            "https://127.8.8.8",
            "https://[::1]:6443",
            "https://[::ffff:127.0.0.1]",
            "https://0.0.0.0:6550",
            "https://localhost:6443",
            "https://LOCALHOST.",
            "https://api.localhost",
            "https://kubernetes.docker.internal:6443",
            "https://host.docker.internal:6443",
            "https://kubernetes.default.svc",
            "socks5://localhost:1080",
        ] {
            assert!(is_local(url), "{url}");
        }
        for url in [
            "https://10.0.0.1",
            "https://api.example.com",
            "https://[fd00::1]:6443",
            "https://m1-control-plane:6443",
        ] {
            assert!(!is_local(url), "{url}");
        }
    }

    #[test]
    fn context_of_a_known_tool_gives_the_server() {
        assert_eq!(of_context("kind-m1").as_deref(), Some("https://m1-control-plane:6443"));
        assert_eq!(of_context("k3d-m1").as_deref(), Some("https://k3d-m1-serverlb:6443"));
        assert_eq!(of_context("arn:aws:eks:eu-west-1:1:cluster/m1"), None);
    }
}
