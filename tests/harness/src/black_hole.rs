//! An address where connections time out: the kernel drops attempts to connect, as a firewall does.

use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Result, bail};
use tokio::net::{TcpListener, TcpSocket};
use tokio::runtime::Runtime;

use crate::bed::bed;

/// The address, until this is dropped.
pub struct BlackHole {
    pub address: SocketAddr,
    _listener: TcpListener,
    /// They fill the listener's queue, and are never accepted.
    _waiting: Vec<TcpStream>,
    _runtime: Runtime,
}

impl BlackHole {
    pub fn start() -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let guard = runtime.enter();
        let socket = match bed()?.address {
            address if address.is_ipv4() => TcpSocket::new_v4()?,
            _ => TcpSocket::new_v6()?,
        };
        socket.bind((bed()?.address, 0).into())?;
        let listener = socket.listen(1)?;
        drop(guard);
        let address = listener.local_addr()?;
        let mut waiting = Vec::new();
        while let Ok(socket) = TcpStream::connect_timeout(&address, FULL_AFTER) {
            waiting.push(socket);
            if waiting.len() > 16 {
                bail!("the kernel takes more connections than the listener said");
            }
        }
        Ok(Self { address, _listener: listener, _waiting: waiting, _runtime: runtime })
    }
}

/// A local connection takes microseconds, so one that takes longer finds the queue full.
const FULL_AFTER: Duration = Duration::from_millis(500);
