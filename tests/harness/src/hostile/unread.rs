//! Sends requests whose answers the client never reads, in each way in which a client can stall. The sidecar
//! must end them without the client's help.

use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use anyhow::{Result, anyhow};

use super::Protocol;
use crate::http1::{Connection, Endpoint};
use crate::http2::{Http2, INITIAL_WINDOW_SIZE};

/// How the client avoids reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stall {
    /// HTTP/1.1 through a socket with a small receive buffer that is never read.
    Http1,
    /// HTTP/2 with a window of zero for every stream. The client answers pings, so the connection is healthy.
    Window,
    /// HTTP/2 whose connection is full: not even the end of a stream gets through.
    Connection,
}

/// A request of a client that does not read.
#[derive(Clone, Debug)]
pub struct Request {
    pub method: &'static str,
    pub target: String,
    /// Header lines, with names in lower case.
    pub lines: Vec<(&'static str, &'static str)>,
}

/// The requests, open for as long as this is kept.
pub struct Unread {
    stall: Stall,
    /// Never used, but a connection is open for as long as it is kept.
    _http1: Vec<Connection>,
    http2: Vec<Http2>,
    /// Connections whose frames a thread reads.
    _answering: Vec<Answering>,
}

/// Reads frames and answers pings until it is dropped, and never gives the server a window.
struct Answering(TcpStream);

impl Stall {
    pub const ALL: [Self; 3] = [Self::Http1, Self::Window, Self::Connection];

    pub fn protocol(self) -> Protocol {
        match self {
            Self::Http1 => Protocol::Http1,
            Self::Window | Self::Connection => Protocol::Http2,
        }
    }
}

impl Request {
    pub fn get(target: impl Into<String>) -> Self {
        Self { method: "GET", target: target.into(), lines: Vec::new() }
    }

    /// A POST without a body.
    pub fn post(target: impl Into<String>) -> Self {
        Self { method: "POST", target: target.into(), lines: vec![("content-length", "0")] }
    }

    fn head(&self) -> String {
        let Self { method, target, lines } = self;
        let lines: String = lines.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        format!("{method} {target} HTTP/1.1\r\nHost: x\r\n{lines}\r\n")
    }
}

impl Unread {
    /// Sends the requests: over HTTP/1.1 each on its own connection, otherwise as streams on as few
    /// connections as possible.
    pub fn send(stall: Stall, endpoint: &Endpoint, requests: &[Request]) -> Result<Self> {
        let endpoint = endpoint.clone().with_receive_buffer(SMALL);
        let (mut http1, mut http2) = (Vec::new(), Vec::new());
        match stall.protocol() {
            Protocol::Http1 => {
                for request in requests {
                    let mut connection = endpoint.connect()?;
                    connection.send(request.head().as_bytes())?;
                    http1.push(connection);
                }
            }
            Protocol::Http2 => {
                for requests in requests.chunks(STREAMS) {
                    let mut connection = Http2::with_settings(&endpoint, &[(INITIAL_WINDOW_SIZE, 0)])?;
                    for Request { method, target, lines } in requests {
                        connection.request(method, target, lines, true)?;
                    }
                    http2.push(connection);
                }
            }
        }
        let mut answering = Vec::new();
        if stall == Stall::Window {
            for http2 in http2.drain(..) {
                answering.push(Answering::begin(http2)?);
            }
        }
        Ok(Self { stall, _http1: http1, http2, _answering: answering })
    }

    /// Fills the connections of [`Stall::Connection`] until they accept no more bytes. The server
    /// reads in order, so call this once it is known to have the requests.
    pub fn settle<'a>(all: impl IntoIterator<Item = &'a mut Self>) -> Result<()> {
        // This runs in parallel, because a connection counts as full only when it has accepted
        // nothing for a while.
        std::thread::scope(|scope| {
            let connections =
                all.into_iter().filter(|one| one.stall == Stall::Connection).flat_map(|one| &mut one.http2);
            let filling: Vec<_> = connections.map(|http2| scope.spawn(|| http2.fill())).collect();
            filling.into_iter().try_for_each(|one| one.join().map_err(|_| anyhow!("it panicked"))?)
        })
    }
}

impl Answering {
    fn begin(mut http2: Http2) -> Result<Self> {
        let connection = http2.connection();
        connection.set_patience(FOREVER)?;
        let socket = connection.socket().try_clone()?;
        std::thread::spawn(move || while let Ok(Some(_)) = http2.frame() {});
        Ok(Self(socket))
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        // The thread's read ends with it. The server may already have closed it.
        let _ = self.0.shutdown(Shutdown::Both);
    }
}

/// Longer than any test.
const FOREVER: Duration = Duration::from_secs(24 * 3600);
/// About twice the kernel's minimum.
const SMALL: usize = 4096;
/// As many streams as a connection may have.
const STREAMS: usize = 250;
