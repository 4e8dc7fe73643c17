//! Marks failures before the member's TLS as failures at the proxy, not at the member.

use std::error::Error as StdError;

use http::Uri;

use super::super::timeouts::is_timeout;
use super::lookup::BoxError;
use crate::base::causes::innermost;

/// A failure of a proxy, or of the connection to it. It has no source: errors show their innermost cause,
/// which does not name the proxy.
#[derive(Debug, thiserror::Error)]
#[error("proxy {scheme}://{authority}: {}", innermost(cause.as_ref()))]
pub(in super::super) struct AtProxy {
    scheme: String,
    authority: String,
    cause: BoxError,
}

impl AtProxy {
    /// Reports the failure as one of the proxy, if there is a proxy. A timeout stays unchanged, because
    /// either the proxy or the member may be silent.
    pub(in super::super) fn name(proxy: Option<&Uri>, cause: BoxError) -> BoxError {
        let Some(proxy) = proxy.filter(|_| !is_timeout(cause.as_ref())) else { return cause };
        let authority = proxy.authority().map(ToString::to_string).unwrap_or_default();
        let scheme = proxy.scheme_str().unwrap_or_default().to_owned();
        Self { scheme, authority, cause }.into()
    }

    pub(in super::super) fn cause(&self) -> &(dyn StdError + 'static) {
        self.cause.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Error, ErrorKind};

    use super::*;

    #[test]
    fn failure_names_the_proxy_and_its_innermost_cause() {
        let proxy = "https://proxy:3128/".parse().unwrap();
        let tls = rustls::Error::InvalidCertificate(rustls::CertificateError::UnknownIssuer);
        let named = AtProxy::name(Some(&proxy), Error::new(ErrorKind::InvalidData, tls).into());
        assert_eq!(
            innermost(named.as_ref()),
            "proxy https://proxy:3128: invalid peer certificate: UnknownIssuer"
        );
    }

    #[test]
    fn timeout_and_failure_without_a_proxy_stay_unchanged() {
        let proxy = "https://proxy:3128/".parse().unwrap();
        let refused = AtProxy::name(None, Error::from(ErrorKind::ConnectionRefused).into());
        assert!(!refused.is::<AtProxy>());
        let late = AtProxy::name(Some(&proxy), Error::from(ErrorKind::TimedOut).into());
        assert!(is_timeout(late.as_ref()));
    }
}
