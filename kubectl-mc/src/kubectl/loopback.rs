//! Serves kubectl on a loopback address over TLS, with a certificate and a token that are created
//! for this command.

use std::error::Error;
use std::future::Future;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::error::Unspecified;
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use http::header::{self, HeaderMap};
use http::{Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use kube::client::Body;
use rcgen::CertifiedKey;
use rustls::ServerConfig;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

/// Answers the requests of kubectl.
pub(crate) trait Answers: Send + Sync + 'static {
    fn answer(&self, request: Request<Incoming>) -> impl Future<Output = Response<Body>> + Send;
}

/// A token that only the kubectl of this command gets.
pub(crate) struct Token(pub(crate) String);

impl Token {
    /// 256 random bits.
    pub(crate) fn new() -> Result<Self, Unspecified> {
        let mut bytes = [0; 32];
        aws_lc_rs::rand::fill(&mut bytes)?;
        Ok(Self(BASE64_URL_SAFE_NO_PAD.encode(bytes)))
    }

    /// Whether a request has the token.
    pub(crate) fn is_in(&self, headers: &HeaderMap) -> bool {
        let given = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        given.and_then(|value| value.strip_prefix("Bearer ")).is_some_and(|given| {
            aws_lc_rs::constant_time::verify_slices_are_equal(given.as_bytes(), self.0.as_bytes()).is_ok()
        })
    }
}

/// The certificate of the server, which is also its certificate authority.
#[derive(Debug)]
pub(crate) struct Identity {
    pub(crate) pem: String,
    config: Arc<ServerConfig>,
}

impl Identity {
    pub(crate) fn new() -> Result<Self, Box<dyn Error + Send + Sync>> {
        let CertifiedKey { cert, signing_key } =
            rcgen::generate_simple_self_signed([Ipv4Addr::LOCALHOST.to_string()])?;
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(signing_key.serialize_der()));
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(vec![cert.der().clone()], key)?;
        Ok(Self { pem: cert.pem(), config: Arc::new(config) })
    }
}

/// The listening socket.
pub(crate) struct Listener {
    listener: TcpListener,
    tls: TlsAcceptor,
}

impl Listener {
    pub(crate) async fn bind(identity: Identity) -> Result<Self, Box<dyn Error + Send + Sync>> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        Ok(Self { listener, tls: identity.config.into() })
    }

    pub(crate) fn address(&self) -> std::io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves connections for as long as it is polled.
    pub(crate) async fn serve(self, answers: Arc<impl Answers>) {
        let places = Arc::new(Semaphore::new(CONNECTIONS));
        // The semaphore is never closed.
        while let Ok(place) = Arc::clone(&places).acquire_owned().await {
            let Ok((stream, _)) = self.listener.accept().await else {
                // For example, too many open files.
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            };
            let (tls, answers) = (self.tls.clone(), Arc::clone(&answers));
            tokio::spawn(async move {
                connection(stream, &tls, answers).await;
                drop(place);
            });
        }
    }
}

async fn connection(stream: TcpStream, tls: &TlsAcceptor, answers: Arc<impl Answers>) {
    let _ = stream.set_nodelay(true);
    let Ok(Ok(stream)) = timeout(HEAD_LIMIT, tls.accept(stream)).await else { return };
    let answer = service_fn(move |request| {
        let answers = Arc::clone(&answers);
        async move { Ok::<_, std::convert::Infallible>(answers.answer(request).await) }
    });
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEAD_LIMIT);
    // kubectl reports the end of a connection.
    let _ = http.serve_connection(TokioIo::new(stream), answer).await;
}

/// More than kubectl opens.
const CONNECTIONS: usize = 1024;
/// For a handshake and the head of a first request, from another process on this machine.
const HEAD_LIMIT: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_whole_bearer_token_is_accepted() {
        let token = Token("secret".to_owned());
        let is_in = |value: &str| {
            let headers = [(header::AUTHORIZATION, value.parse().unwrap())].into_iter().collect();
            token.is_in(&headers)
        };
        assert!(is_in("Bearer secret"));
        for value in ["", "Bearer ", "Bearer secre", "Bearer secret2", "Basic secret", "secret"] {
            assert!(!is_in(value), "{value:?}");
        }
        assert!(!token.is_in(&HeaderMap::new()));
    }
}
