//! Opens as many connections without a request as a client can hold. Each takes a file descriptor,
//! and a place among the connections that a server accepts.

use std::io::{ErrorKind, Write};
use std::net::TcpStream;
use std::time::Duration;

use anyhow::Result;

use super::attack::{Attack, Bounds};
use crate::http1::{Connection, Endpoint};

/// How far the client goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// A TCP connection without a single byte.
    Silent,
    /// The beginning of a TLS hello.
    HalfHello,
    /// TLS, but no request.
    Idle,
}

/// Each client opens this many connections at once, and from then on replaces those that the server
/// has closed.
pub fn connections(endpoint: Endpoint, stage: Stage, each: usize, bounds: Bounds) -> Attack {
    Attack::start(bounds, move |shift| {
        let mut open: Vec<Held> = Vec::new();
        let mut room = each;
        while !shift.is_over() {
            for _ in 0..room {
                // If the server refuses one connection, the others stay open.
                open.extend(Held::open(&endpoint, stage));
                shift.sent(1);
            }
            shift.pause(PACE);
            open.retain(Held::is_open);
            room = (each - open.len()).min(AGAIN);
        }
        Ok(())
    })
}

enum Held {
    Tcp(TcpStream),
    Tls(Box<Connection>),
}

impl Held {
    fn open(endpoint: &Endpoint, stage: Stage) -> Result<Self> {
        if stage == Stage::Idle {
            let mut connection = endpoint.connect()?;
            // Flushing nothing completes the handshake.
            connection.send(b"")?;
            return Ok(Self::Tls(Box::new(connection)));
        }
        let mut socket = endpoint.dial()?;
        if stage == Stage::HalfHello {
            socket.write_all(&[22, 3, 1, 0, 200, 1, 0, 0, 196, 3, 3])?;
        }
        Ok(Self::Tcp(socket))
    }

    /// Whether it is open: the server has not closed it.
    fn is_open(&self) -> bool {
        let socket = match self {
            Self::Tcp(socket) => socket,
            Self::Tls(connection) => connection.socket(),
        };
        let peeked = socket.set_nonblocking(true).and_then(|()| socket.peek(&mut [0]));
        let blocking = socket.set_nonblocking(false);
        // TLS session tickets arrive after the handshake and stay unread.
        blocking.is_ok()
            && match peeked {
                Ok(length) => length > 0,
                Err(error) => error.kind() == ErrorKind::WouldBlock,
            }
    }
}

/// How many new connections are opened at each interval: a server that closes all of them must not
/// overload the test's machine.
const AGAIN: usize = 300;
const PACE: Duration = Duration::from_secs(1);
