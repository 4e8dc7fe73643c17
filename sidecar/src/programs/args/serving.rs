//! Defines the flags of the ports and of their certificate.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use clap::Args;

#[derive(Debug, Args)]
pub struct Serving {
    /// Address on which to serve HTTPS.
    #[arg(long, value_name = "IP", default_value = "0.0.0.0")]
    pub bind_address: IpAddr,
    /// Port on which to serve HTTPS.
    #[arg(long, value_name = "PORT", default_value_t = 10250)]
    pub secure_port: u16,
    /// Address on which to serve /livez and /readyz over plain HTTP, and /metrics if it is a loopback address.
    #[arg(long, value_name = "IP:PORT", default_value = "127.0.0.1:8080")]
    pub admin_bind_address: SocketAddr,
    /// File with the serving certificate (PEM). Without it and without --rotate-server-certificates, the sidecar
    /// generates a certificate that clients cannot verify.
    #[arg(long, value_name = "FILE", requires = "tls_private_key_file")]
    pub tls_cert_file: Option<PathBuf>,
    /// File with the key of the serving certificate (PEM).
    #[arg(long, value_name = "FILE", requires = "tls_cert_file")]
    pub tls_private_key_file: Option<PathBuf>,
    /// Issue the serving certificate from the CA in Secret mc-sidecar-ca, renew both, and keep the caBundle of the
    /// APIServices up to date.
    #[arg(long, conflicts_with = "tls_cert_file")]
    pub rotate_server_certificates: bool,
}
