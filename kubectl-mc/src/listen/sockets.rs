//! Binds the port on the loopback addresses. `NAME.localhost` may resolve to `127.0.0.1` and to
//! `::1`, so the listener binds both: another user's program on the free address would get the
//! token.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use tokio::net::TcpListener;

use crate::error::Failure;

/// The bound sockets, which have one port.
pub(super) struct Sockets {
    pub(super) listeners: Vec<TcpListener>,
    pub(super) addresses: Vec<IpAddr>,
    pub(super) port: u16,
}

impl Sockets {
    /// Binds `port`, or a free one for 0, on this address, or on both loopback addresses.
    pub(super) async fn bind(address: Option<IpAddr>, port: u16) -> Result<Self, Failure> {
        let mut attempts = if port == 0 { ATTEMPTS } else { 1 };
        loop {
            attempts -= 1;
            match Self::try_bind(address, port).await {
                // A port that is free on one address may be in use on the other.
                Err((_, error)) if attempts > 0 && error.kind() == io::ErrorKind::AddrInUse => {}
                done => return done.map_err(|((address, port), error)| not_bound(address, port, &error)),
            }
        }
    }

    async fn try_bind(address: Option<IpAddr>, port: u16) -> Result<Self, ((IpAddr, u16), io::Error)> {
        let failed = |address: IpAddr, port: u16| move |error: io::Error| ((address, port), error);
        let first = address.unwrap_or(LOOPBACK[0]);
        let listener = TcpListener::bind((first, port)).await.map_err(failed(first, port))?;
        let port = listener.local_addr().map_err(failed(first, port))?.port();
        let mut sockets = Self { listeners: vec![listener], addresses: vec![first], port };
        if address.is_none() {
            let second = LOOPBACK[1];
            match TcpListener::bind((second, port)).await {
                Ok(listener) => {
                    sockets.listeners.push(listener);
                    sockets.addresses.push(second);
                }
                // Without IPv6 no program can listen there.
                Err(error) if error.kind() != io::ErrorKind::AddrInUse => {}
                Err(error) => return Err(failed(second, port)(error)),
            }
        }
        Ok(sockets)
    }

    /// The first address with the port, as in a URL.
    pub(super) fn authority(&self) -> String {
        let first = self.addresses.first().copied().unwrap_or(LOOPBACK[0]);
        SocketAddr::new(first, self.port).to_string()
    }

    /// The addresses with which a request may refer to the listener, as hosts of a URL.
    pub(super) fn hosts(&self) -> Vec<String> {
        let host = |address: &IpAddr| match address {
            IpAddr::V4(address) => address.to_string(),
            IpAddr::V6(address) => format!("[{address}]"),
        };
        LOOPBACK.iter().chain(&self.addresses).map(host).collect()
    }
}

fn not_bound(address: IpAddr, port: u16, error: &io::Error) -> Failure {
    let failure = Failure::new(format!("cannot listen on {address} port {port}")).because(error);
    if port == 0 { failure } else { failure.with_hint("without --port, a free port is taken") }
}

const LOOPBACK: [IpAddr; 2] = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];
/// Attempts to find a free port, in case it is in use on the other address.
const ATTEMPTS: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn port_is_taken_on_both_addresses() {
        let sockets = Sockets::bind(None, 0).await.unwrap();
        let again = Sockets::bind(None, sockets.port).await.err().unwrap();
        assert!(again.to_string().contains(&sockets.port.to_string()) && again.hint.is_some(), "{again}");
        // The port is in use by another program only on the second address, if this machine has
        // IPv6.
        if let Ok(other) = TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).await {
            assert_eq!(sockets.addresses, LOOPBACK);
            let port = other.local_addr().unwrap().port();
            let error = Sockets::bind(None, port).await.err().unwrap().to_string();
            assert!(error.starts_with(&format!("cannot listen on ::1 port {port}: ")), "{error}");
        }
    }
}
