//! Classifies why a member did not answer one of the sidecar's own requests, as a machine-readable reason.

use std::error::Error as StdError;
use std::io::ErrorKind;

use rustls::CertificateError;

use super::super::connect::Silent;
use super::super::connect::at_proxy::AtProxy;
use super::super::connect::lookup;
use super::super::timeouts::is_timeout;
use crate::base::causes::{causes, innermost};
use crate::base::retry;
use crate::outbound::tunnel::registry::{DialError, Reason};

/// The reason of conditions when the member's agent has no tunnel.
pub const NO_AGENT: &str = "NoAgent";

/// Why there is no answer.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    pub kind: Kind,
    message: String,
}

/// The kind of a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The member's agent has no tunnel.
    NoAgent,
    /// The name of the server or of the proxy cannot be resolved, or DNS does not answer.
    NameNotFound,
    ConnectionRefused,
    NoRoute,
    /// Nothing came back.
    ConnectionTimeout,
    /// The certificate is for another name.
    TlsName,
    /// The certificate's authority is not in the Secret.
    TlsAuthority,
    /// The certificate has expired or is not valid yet.
    TlsExpired,
    TlsFailed,
    ConnectionFailed,
    /// The proxy's certificate is not trusted, or the proxy rejects the sidecar's.
    ProxyTlsFailed,
    /// The proxy does not connect to the member.
    ProxyFailed,
    /// The connection works, but there was no answer in time.
    Slow,
    /// The connection works, but the member's answer is not valid.
    NoAnswer,
}

impl Kind {
    /// The reason in a condition.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NoAgent => NO_AGENT,
            Self::NameNotFound => "NameNotFound",
            Self::ConnectionRefused => "ConnectionRefused",
            Self::NoRoute => "NoRoute",
            Self::ConnectionTimeout => "ConnectionTimeout",
            Self::TlsName => "TLSName",
            Self::TlsAuthority => "TLSAuthority",
            Self::TlsExpired => "TLSExpired",
            Self::TlsFailed => "TLSFailed",
            Self::ConnectionFailed => "ConnectionFailed",
            Self::ProxyTlsFailed => "ProxyTLSFailed",
            Self::ProxyFailed => "ProxyFailed",
            Self::Slow => "Slow",
            Self::NoAnswer => "NoAnswer",
        }
    }
}

impl Failure {
    /// A failure to connect.
    pub(super) fn of_connecting(error: &(dyn StdError + 'static)) -> Self {
        Self {
            kind: causes(error).find_map(kind).unwrap_or(Kind::ConnectionFailed),
            message: innermost(error),
        }
    }

    /// A failure to get an answer over an open connection.
    pub(super) fn of_asking(error: &hyper::Error) -> Self {
        let kind = if is_timeout(error) { Kind::ConnectionTimeout } else { Kind::NoAnswer };
        let message = match retry::is_lost_connection(error) {
            true => "the connection ended before there was an answer".to_owned(),
            false => innermost(error),
        };
        Self { kind, message }
    }

    pub(super) fn late() -> Self {
        Self { kind: Kind::Slow, message: "the connection was made, but no answer came in time".to_owned() }
    }

    pub(super) fn too_many_values() -> Self {
        Self { kind: Kind::NoAnswer, message: "the answer has more values than the sidecar reads".to_owned() }
    }

    pub(super) fn unusable() -> Self {
        Self { kind: Kind::ConnectionFailed, message: "the server's address cannot be used".to_owned() }
    }
}

fn kind(error: &(dyn StdError + 'static)) -> Option<Kind> {
    if error.is::<lookup::Error>() {
        return Some(Kind::NameNotFound);
    }
    if let Some(error) = error.downcast_ref::<DialError>() {
        return Some(match error {
            DialError::NoAgent { .. } => Kind::NoAgent,
            DialError::Failed(Reason::Refused) => Kind::ConnectionRefused,
            DialError::Failed(Reason::Timeout) | DialError::Silent => Kind::ConnectionTimeout,
            DialError::Failed(Reason::Dns) => Kind::NameNotFound,
            _ => Kind::ConnectionFailed,
        });
    }
    if error.is::<Silent>() {
        return Some(Kind::ConnectionTimeout);
    }
    if let Some(at_proxy) = error.downcast_ref::<AtProxy>() {
        return Some(match causes(at_proxy.cause()).find_map(kind) {
            Some(Kind::TlsName | Kind::TlsAuthority | Kind::TlsExpired | Kind::TlsFailed) => {
                Kind::ProxyTlsFailed
            }
            Some(kind) => kind,
            None => Kind::ProxyFailed,
        });
    }
    if let Some(tls) = error.downcast_ref::<rustls::Error>() {
        return Some(match tls {
            rustls::Error::InvalidCertificate(certificate) => of_certificate(certificate),
            _ => Kind::TlsFailed,
        });
    }
    match error.downcast_ref::<std::io::Error>()?.kind() {
        ErrorKind::ConnectionRefused => Some(Kind::ConnectionRefused),
        ErrorKind::HostUnreachable | ErrorKind::NetworkUnreachable => Some(Kind::NoRoute),
        ErrorKind::TimedOut => Some(Kind::ConnectionTimeout),
        _ => None,
    }
}

fn of_certificate(error: &CertificateError) -> Kind {
    match error {
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => Kind::TlsName,
        CertificateError::UnknownIssuer | CertificateError::BadSignature => Kind::TlsAuthority,
        CertificateError::Expired
        | CertificateError::ExpiredContext { .. }
        | CertificateError::NotValidYet
        | CertificateError::NotValidYetContext { .. } => Kind::TlsExpired,
        _ => Kind::TlsFailed,
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    fn of(error: impl Into<Box<dyn StdError + Send + Sync>>) -> Kind {
        Failure::of_connecting(error.into().as_ref()).kind
    }

    #[test]
    fn failure_has_the_reason_of_its_cause() {
        assert_eq!(of(io::Error::from(ErrorKind::ConnectionRefused)), Kind::ConnectionRefused);
        assert_eq!(of(Silent), Kind::ConnectionTimeout);
        assert_eq!(of("anything else"), Kind::ConnectionFailed);
        for (certificate, kind) in [
            (CertificateError::NotValidForName, Kind::TlsName),
            (CertificateError::UnknownIssuer, Kind::TlsAuthority),
            (CertificateError::Expired, Kind::TlsExpired),
            (CertificateError::Revoked, Kind::TlsFailed),
        ] {
            // This is how a TLS stream wraps the error.
            let tls = rustls::Error::InvalidCertificate(certificate);
            assert_eq!(of(io::Error::new(ErrorKind::InvalidData, tls)), kind);
        }
    }

    #[test]
    fn failure_at_the_proxy_is_not_attributed_to_the_member() {
        let proxy = "https://proxy/".parse().unwrap();
        let at_proxy = |cause: io::Error| of(AtProxy::name(Some(&proxy), cause.into()));
        for certificate in [CertificateError::UnknownIssuer, CertificateError::Expired] {
            let tls = rustls::Error::InvalidCertificate(certificate);
            assert_eq!(at_proxy(io::Error::new(ErrorKind::InvalidData, tls)), Kind::ProxyTlsFailed);
        }
        let alert = rustls::Error::AlertReceived(rustls::AlertDescription::CertificateRequired);
        assert_eq!(at_proxy(io::Error::new(ErrorKind::InvalidData, alert)), Kind::ProxyTlsFailed);
        assert_eq!(at_proxy(io::Error::from(ErrorKind::ConnectionRefused)), Kind::ConnectionRefused);
        assert_eq!(of(AtProxy::name(Some(&proxy), "no".into())), Kind::ProxyFailed);
    }
}
