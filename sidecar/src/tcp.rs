//! The options of TCP connections that this program opens.

use std::io;
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::net::TcpStream;

/// Idle time before the first keepalive probe.
pub(crate) const KEEPALIVE: Duration = Duration::from_secs(10);
/// Interval between keepalive probes.
pub(crate) const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(5);
/// How long sent data or a probe may stay without acknowledgment before the connection is closed.
pub(crate) const USER_TIMEOUT: Duration = Duration::from_secs(15);

/// Sends small pieces at once, and notices that the other end is gone.
pub(crate) fn prepare(stream: &TcpStream) -> io::Result<()> {
    let socket = SockRef::from(stream);
    let keepalive =
        TcpKeepalive::new().with_time(KEEPALIVE).with_interval(KEEPALIVE_INTERVAL).with_retries(3);
    stream.set_nodelay(true)?;
    socket.set_tcp_keepalive(&keepalive)?;
    #[cfg(target_os = "linux")]
    socket.set_tcp_user_timeout(Some(USER_TIMEOUT))?;
    Ok(())
}

/// What every connection should be that this program opens.
#[cfg(test)]
pub(crate) fn assert_prepared(stream: &TcpStream) {
    let socket = SockRef::from(stream);
    assert!(socket.keepalive().unwrap() && socket.tcp_nodelay().unwrap());
    assert_eq!(socket.tcp_keepalive_time().unwrap(), KEEPALIVE);
    assert_eq!(socket.tcp_keepalive_interval().unwrap(), KEEPALIVE_INTERVAL);
    #[cfg(target_os = "linux")]
    assert_eq!(socket.tcp_user_timeout().unwrap(), Some(USER_TIMEOUT));
}
