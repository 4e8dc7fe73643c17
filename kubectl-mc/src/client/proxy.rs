//! `HTTPS_PROXY`, `HTTP_PROXY` and `NO_PROXY` as Go reads them: never for the machine itself.

use http::Uri;
use hyper_util::client::proxy::matcher::Matcher;

/// The proxy that the environment asks for on the way to `server`.
pub(super) fn from_environment(server: &Uri) -> Option<Uri> {
    let host = server.host()?;
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<std::net::IpAddr>();
    if host == "localhost" || address.is_ok_and(|address| address.is_loopback()) {
        return None;
    }
    Some(Matcher::from_env().intercept(server)?.uri().clone())
}
