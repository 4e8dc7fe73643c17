//! Accepts kubectl's connections on a loopback address by TLS, with a certificate made for this command.

use std::error::Error;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use rcgen::CertifiedKey;
use rustls::ServerConfig;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

use super::relay::Relay;

/// The certificate of the proxy, which is also its certificate authority.
#[derive(Debug)]
pub(super) struct Identity {
    pub(super) pem: String,
    config: Arc<ServerConfig>,
}

impl Identity {
    pub(super) fn new() -> Result<Self, Box<dyn Error + Send + Sync>> {
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

pub(super) struct Listener {
    listener: TcpListener,
    tls: TlsAcceptor,
}

impl Listener {
    pub(super) async fn bind(identity: Identity) -> Result<Self, Box<dyn Error + Send + Sync>> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        Ok(Self { listener, tls: identity.config.into() })
    }

    pub(super) fn address(&self) -> std::io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves connections for as long as it is polled.
    pub(super) async fn serve(self, relay: Arc<Relay>) {
        let places = Arc::new(Semaphore::new(CONNECTIONS));
        // The semaphore is never closed.
        while let Ok(place) = Arc::clone(&places).acquire_owned().await {
            let Ok((stream, _)) = self.listener.accept().await else {
                // For example, too many open files.
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            };
            let (tls, relay) = (self.tls.clone(), Arc::clone(&relay));
            tokio::spawn(async move {
                connection(stream, &tls, relay).await;
                drop(place);
            });
        }
    }
}

async fn connection(stream: TcpStream, tls: &TlsAcceptor, relay: Arc<Relay>) {
    let _ = stream.set_nodelay(true);
    let Ok(Ok(stream)) = timeout(HEAD_LIMIT, tls.accept(stream)).await else { return };
    let answer = service_fn(move |request| {
        let relay = Arc::clone(&relay);
        async move { Ok::<_, std::convert::Infallible>(relay.answer(request).await) }
    });
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEAD_LIMIT);
    // kubectl reports the end of a connection.
    let _ = http.serve_connection(TokioIo::new(stream), answer).with_upgrades().await;
}

/// More than the processes of the largest command open.
const CONNECTIONS: usize = 1024;
/// For a handshake and the head of a first request, by another process of this machine.
const HEAD_LIMIT: Duration = Duration::from_secs(10);
