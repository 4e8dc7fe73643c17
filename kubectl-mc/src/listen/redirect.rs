//! Rewrites the `Location` of a response, so that the tool stays on the listener and on its
//! cluster. A redirect would send the listener's token and the request's method to its target, so
//! one that leaves the cluster is an error (CVE-2022-3172).

use http::header::{self, HeaderValue};
use http::{HeaderMap, StatusCode};

use super::path;
use super::refusal::Refusal;
use super::target::Target;

/// The `Location` on the listener, if there is one.
pub(super) fn rewritten(
    status: StatusCode,
    headers: &HeaderMap,
    target: &Target<'_>,
) -> Result<Option<HeaderValue>, Refusal> {
    let Some(location) = headers.get(header::LOCATION) else { return Ok(None) };
    let rewritten = location.to_str().ok().and_then(|location| on_listener(location, target));
    let rewritten = rewritten.and_then(|location| HeaderValue::try_from(location).ok());
    if rewritten.is_none() && status.is_redirection() {
        return Err(Refusal::Redirect { cluster: target.cluster.name.clone() });
    }
    // For a created object, it is only information.
    Ok(rewritten)
}

/// A location below the cluster's own path on its server, as a path of the listener.
fn on_listener(location: &str, target: &Target<'_>) -> Option<String> {
    let session = &target.cluster.session;
    let location = match location.strip_prefix(session.origin()) {
        // Another host may begin with the same text.
        Some(rest) if rest.starts_with('/') => rest,
        Some(_) => return None,
        None => location,
    };
    let below = location.strip_prefix(session.prefix())?.strip_prefix(&*target.cluster.root)?;
    let end = below.find(['?', '#']).unwrap_or(below.len());
    path::checked(&below[..end]).ok()?;
    Some(format!("{}{below}", target.base))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::listen::clusters::Served;
    use crate::listen::session::Session;

    const ROOT: &str = "/apis/proxy.kubectl-mc.dev/v1alpha1/clusters/m1/proxy";

    fn location(root: &str, base: &str, status: u16, location: &str) -> Result<Option<String>, Refusal> {
        let session = Arc::new(Session::unused());
        let cluster = Served { name: "m1".to_owned(), namespace: None, session, root: root.to_owned() };
        let target = Target { cluster: &cluster, path: "/", base };
        let headers = [(header::LOCATION, HeaderValue::try_from(location).unwrap())].into_iter().collect();
        let rewritten = rewritten(StatusCode::from_u16(status).unwrap(), &headers, &target)?;
        Ok(rewritten.map(|location| location.to_str().unwrap().to_owned()))
    }

    #[test]
    fn redirect_of_the_cluster_stays_on_the_listener() {
        let below = format!("/pre{ROOT}/api/v1/x/?a=%2F&b=/../#top");
        let on = |base: &str| Ok(Some(format!("{base}/api/v1/x/?a=%2F&b=/../#top")));
        assert_eq!(location(ROOT, "", 302, &below), on(""));
        assert_eq!(location(ROOT, "/m1", 302, &below), on("/m1"));
        assert_eq!(location(ROOT, "/m1", 307, &format!("https://host.example:6443{below}")), on("/m1"));
        assert_eq!(location("", "/m1", 301, "/pre/livez"), Ok(Some("/m1/livez".to_owned())));
    }

    #[test]
    fn redirect_elsewhere_is_an_error() {
        for elsewhere in [
            "https://evil.example/",
            "https://host.example:64430/pre",
            "https://host.example:6443.evil.example/pre",
            "http://host.example:6443/pre/x",
            "//evil.example/",
            "/\\evil.example/",
            "login",
            "",
            "?x",
            "/",
            "/pre/apis/proxy.kubectl-mc.dev/v1alpha1/clusters/m2/proxy/api",
            "/pre/apis/proxy.kubectl-mc.dev/v1alpha1/clusters/m1/proxyx/api",
            &format!("/pre{ROOT}"),
            &format!("/pre{ROOT}//evil.example/"),
            &format!("/pre{ROOT}/../../m2/proxy/api"),
            &format!("/pre{ROOT}/%2e%2e/m2"),
        ] {
            let refused = Err(Refusal::Redirect { cluster: "m1".to_owned() });
            assert_eq!(location(ROOT, "/m1", 302, elsewhere), refused, "{elsewhere}");
            assert_eq!(location(ROOT, "/m1", 201, elsewhere), Ok(None), "{elsewhere}");
        }
        // A path that begins with two slashes is another server.
        assert!(location("", "", 302, "/pre//evil.example/").is_err());
    }
}
