//! Binds ports, accepts connections, and sets the TCP options of connections that this program opens.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Context;
use hyper_util::client::legacy::connect::HttpConnector;
use socket2::{SockRef, Socket, TcpKeepalive};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tracing::field::display;
use tracing::warn;

/// Idle time before the first keepalive probe.
pub(crate) const KEEPALIVE: Duration = Duration::from_secs(10);
/// Interval between keepalive probes.
pub(crate) const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(5);
/// How long sent data or a probe may stay without acknowledgment before the connection is closed.
pub(crate) const USER_TIMEOUT: Duration = Duration::from_secs(15);

/// Sends small segments at once, and detects a dead peer of an idle connection.
///
/// There is no TCP_USER_TIMEOUT: it also ends a connection whose peer is alive and reads nothing, such as a
/// command that does not read its input for a while (tcp(7)).
pub(crate) fn prepare(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let_pause(&SockRef::from(stream))
}

/// The same for a connection whose peer reads what it gets: it detects a peer that acknowledges nothing.
pub(crate) fn prepare_timed(stream: &TcpStream) -> io::Result<()> {
    prepare(stream)?;
    #[cfg(target_os = "linux")]
    SockRef::from(stream).set_tcp_user_timeout(Some(USER_TIMEOUT))?;
    Ok(())
}

/// Lets the peer of a connection pause reading for as long as it wants, but still detects a dead
/// peer.
pub(crate) fn let_pause(socket: &Socket) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    socket.set_tcp_user_timeout(None)?;
    let keepalive = TcpKeepalive::new().with_time(KEEPALIVE).with_interval(KEEPALIVE_INTERVAL);
    socket.set_tcp_keepalive(&keepalive.with_retries(2))
}

/// Sets the same options for the connections of a connector, and detects a peer that acknowledges nothing.
pub(crate) fn prepare_all<R>(connector: &mut HttpConnector<R>) {
    connector.set_nodelay(true);
    connector.set_keepalive(Some(KEEPALIVE));
    connector.set_keepalive_interval(Some(KEEPALIVE_INTERVAL));
    connector.set_keepalive_retries(Some(3));
    #[cfg(target_os = "linux")]
    connector.set_tcp_user_timeout(Some(USER_TIMEOUT));
}

/// Binds a port.
pub(crate) fn listen(address: SocketAddr) -> anyhow::Result<TcpListener> {
    let listen = || {
        let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        socket.listen(BACKLOG)
    };
    listen().with_context(|| format!("cannot bind {address}"))
}

/// Accepts the next connection; `None` after `shutdown`.
pub(crate) async fn accept(
    listener: &TcpListener,
    shutdown: &CancellationToken,
) -> Option<(TcpStream, SocketAddr)> {
    loop {
        // Both arms are cancel-safe: accept() loses no connection.
        let accepted = tokio::select! {
            biased;
            () = shutdown.cancelled() => return None,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok(accepted) => return Some(accepted),
            Err(error) => {
                let address = listener.local_addr().ok().map(display);
                warn!(address, error = %error, "cannot accept a connection");
                // Usually there are too many open files, so an immediate retry would fail as well.
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Length of the accept queue: as long as the kernel allows (`net.core.somaxconn`), like Go. If the queue is
/// full, the kernel drops the attempt, and the client retries after a second.
const BACKLOG: u32 = 65_535;

/// Asserts the options of a connection that [`prepare`] has set.
#[cfg(test)]
pub(crate) fn assert_prepared(stream: &TcpStream) {
    let socket = SockRef::from(stream);
    assert!(socket.keepalive().unwrap() && socket.tcp_nodelay().unwrap());
    assert_eq!(socket.tcp_keepalive_time().unwrap(), KEEPALIVE);
    assert_eq!(socket.tcp_keepalive_interval().unwrap(), KEEPALIVE_INTERVAL);
}

/// Asserts that the peer of a connection may pause reading for as long as it wants.
#[cfg(test)]
pub(crate) fn assert_untimed(stream: &TcpStream) {
    assert_prepared(stream);
    #[cfg(target_os = "linux")]
    assert_eq!(SockRef::from(stream).tcp_user_timeout().unwrap(), None);
}

/// Asserts the options of a connection of a connector.
#[cfg(test)]
pub(crate) fn assert_timed(stream: &TcpStream) {
    assert_prepared(stream);
    #[cfg(target_os = "linux")]
    assert_eq!(SockRef::from(stream).tcp_user_timeout().unwrap(), Some(USER_TIMEOUT));
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[tokio::test]
    async fn shutdown_accepts_no_queued_connection() {
        let listener = listen((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
        let (address, shutdown) = (listener.local_addr().unwrap(), CancellationToken::new());
        let (client, accepted) = tokio::join!(TcpStream::connect(address), accept(&listener, &shutdown));
        assert_eq!(client.unwrap().local_addr().unwrap(), accepted.unwrap().1);
        let _queued = TcpStream::connect(address).await.unwrap();
        shutdown.cancel();
        assert!(accept(&listener, &shutdown).await.is_none());
    }
}
