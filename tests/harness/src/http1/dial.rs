//! Opens TCP connections from a chosen address and with a chosen receive buffer, for limits by address and
//! for clients that do not read.

use std::net::{IpAddr, SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result};
use socket2::{Domain, Socket, Type};

/// How the next connection is opened.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Dial {
    /// The client's address; by default the kernel's choice.
    pub(super) source: Option<IpAddr>,
    /// Bytes that the kernel holds for the client. The kernel has its own minimum.
    pub(super) receive_buffer: Option<usize>,
}

impl Dial {
    pub(super) fn connect(&self, address: SocketAddr, timeout: Duration) -> Result<TcpStream> {
        let Self { source, receive_buffer } = *self;
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
        if let Some(bytes) = receive_buffer {
            // The connection's window is negotiated with the first packet.
            socket.set_recv_buffer_size(bytes)?;
        }
        if let Some(source) = source {
            socket
                .bind(&SocketAddr::from((source, 0)).into())
                .with_context(|| format!("cannot use {source}"))?;
        }
        socket
            .connect_timeout(&address.into(), timeout)
            .with_context(|| format!("cannot connect to {address}"))?;
        Ok(socket.into())
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, TcpListener};

    use super::*;

    #[test]
    fn connection_comes_from_the_chosen_address() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let source = IpAddr::from([127, 0, 0, 66]);
        let dial = Dial { source: Some(source), receive_buffer: Some(4096) };
        let address = listener.local_addr().unwrap();
        let client = dial.connect(address, Duration::from_secs(5)).unwrap();
        assert_eq!(listener.accept().unwrap().1.ip(), source);
        assert_eq!(client.local_addr().unwrap().ip(), source);
    }
}
