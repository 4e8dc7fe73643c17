//! An agent in the hands of an attacker who has the account of one cluster's agent. It speaks the
//! tunnel's protocol by hand (WebSocket, RFC 6455; HTTP/2 with reversed roles, RFC 9113), so that
//! it can send what no library would.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;

use anyhow::{Context, Result, bail, ensure};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt, ReadHalf};
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::http1::Endpoint;
use crate::http2::{
    ACK, DATA, END_HEADERS, END_STREAM, GOAWAY, HEADERS, INITIAL_WINDOW_SIZE, PING, RST_STREAM, SETTINGS,
    WINDOW_UPDATE, frame,
};

/// What the agent does with a connection to its member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manner {
    /// It passes on the member's bytes, each in a separate frame.
    Trickles,
    /// It accepts the connection and never sends a byte.
    Withholds,
    /// It sends its own bytes instead of the member's.
    Lies,
}

/// One tunnel. It ends when this is dropped.
pub struct HostileAgent {
    end: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<Result<()>>>,
    sent: Arc<AtomicU64>,
}

impl HostileAgent {
    /// Attaches to a sidecar as the agent of `cluster`, whose API server is `target`.
    ///
    /// # Errors
    /// If the sidecar refuses the tunnel.
    pub fn attach(
        sidecar: &Endpoint,
        (cluster, token): (&str, &str),
        target: SocketAddr,
        manner: Manner,
    ) -> Result<Self> {
        let request = format!(
            "GET /apis/proxy.kubectl-mc.dev/v1alpha1/clusters/{cluster}/attach HTTP/1.1\r\nHost: host\r\n\
             Authorization: Bearer {token}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
             Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
             Sec-WebSocket-Protocol: v1.tunnel.kubectl-mc.dev\r\n\
             kubectl-mc-agent: 0.1.0; instance=hostile-{}\r\n\r\n",
            NUMBER.fetch_add(1, Ordering::Relaxed)
        );
        let sidecar = sidecar.clone();
        let (end, ended) = oneshot::channel();
        let (attached, answer) = std::sync::mpsc::channel();
        let sent = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&sent);
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(async {
                let stream = match dial(&sidecar, &request).await {
                    Ok(stream) => stream,
                    Err(error) => {
                        drop(attached.send(Err(error)));
                        return Ok(());
                    }
                };
                drop(attached.send(Ok(())));
                tokio::select! {
                    result = serve(stream, target, manner, &counted) => result,
                    _ = ended => Ok(()),
                }
            })
        });
        answer.recv().context("the agent has ended")??;
        Ok(Self { end: Some(end), thread: Some(thread), sent })
    }

    /// The number of DATA frames sent so far.
    pub fn frames(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    /// Whether the sidecar has ended the tunnel.
    pub fn is_cut(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }
}

impl Drop for HostileAgent {
    fn drop(&mut self) {
        drop(self.end.take());
        // A tunnel that the sidecar has cut ends with an error.
        drop(self.thread.take().map(JoinHandle::join));
    }
}

async fn dial(sidecar: &Endpoint, request: &str) -> Result<TlsStream<TcpStream>> {
    let (address, name, config) = sidecar.parts();
    let stream = TcpStream::connect(address).await?;
    let mut stream = TlsConnector::from(config).connect(name, stream).await?;
    stream.write_all(request.as_bytes()).await?;
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await?);
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    ensure!(head.starts_with("HTTP/1.1 101 "), "no tunnel: {head}");
    Ok(stream)
}

/// Serves the tunnel until its end.
async fn serve(
    stream: TlsStream<TcpStream>,
    target: SocketAddr,
    manner: Manner,
    sent: &Arc<AtomicU64>,
) -> Result<()> {
    let (read, mut write) = tokio::io::split(stream);
    let (out, mut frames) = mpsc::channel::<Vec<u8>>(16);
    let writing = async move {
        while let Some(frames) = frames.recv().await {
            write.write_all(&message(&frames)).await?;
        }
        anyhow::Ok(())
    };
    out.send(frame(SETTINGS, 0, 0, &[])?).await?;
    let mut tunnel = Tunnel {
        out,
        target,
        manner,
        sent: Arc::clone(sent),
        initial_window: 65_535,
        window: Arc::new(Semaphore::new(65_535)),
        streams: HashMap::new(),
    };
    tokio::select! {
        result = tunnel.read(Messages { read, left: 0 }) => result,
        result = writing => result,
    }
}

struct Tunnel {
    out: mpsc::Sender<Vec<u8>>,
    target: SocketAddr,
    manner: Manner,
    sent: Arc<AtomicU64>,
    initial_window: usize,
    window: Arc<Semaphore>,
    streams: HashMap<u32, Stream>,
}

struct Stream {
    window: Arc<Semaphore>,
    to_member: mpsc::UnboundedSender<Vec<u8>>,
}

impl Tunnel {
    async fn read(&mut self, mut from: Messages) -> Result<()> {
        from.exactly(PREFACE.len()).await?;
        loop {
            let head = from.exactly(9).await?;
            let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
            let (kind, flags) = (head[3], head[4]);
            let stream = u32::from_be_bytes([head[5] & 0x7f, head[6], head[7], head[8]]);
            let payload = from.exactly(length as usize).await?;
            self.frame(kind, flags, stream, payload).await?;
        }
    }

    async fn frame(&mut self, kind: u8, flags: u8, stream: u32, payload: Vec<u8>) -> Result<()> {
        match kind {
            SETTINGS if flags & ACK == 0 => {
                for setting in payload.chunks_exact(6) {
                    let value = u32::from_be_bytes([setting[2], setting[3], setting[4], setting[5]]);
                    if u16::from_be_bytes([setting[0], setting[1]]) == INITIAL_WINDOW_SIZE {
                        self.initial_window = value as usize;
                    }
                }
                self.out.send(frame(SETTINGS, ACK, 0, &[])?).await?;
            }
            PING if flags & ACK == 0 => self.out.send(frame(PING, ACK, 0, &payload)?).await?,
            WINDOW_UPDATE => {
                let bytes: [u8; 4] = payload.as_slice().try_into()?;
                let window = match stream {
                    0 => Some(&self.window),
                    _ => self.streams.get(&stream).map(|stream| &stream.window),
                };
                if let Some(window) = window {
                    window.add_permits(u32::from_be_bytes(bytes) as usize);
                }
            }
            // A question about the tunnel itself.
            HEADERS if flags & END_STREAM != 0 => {
                self.out.send(frame(HEADERS, END_HEADERS | END_STREAM, stream, NOT_IMPLEMENTED)?).await?;
            }
            HEADERS => self.connect(stream).await?,
            DATA => {
                if let Some(open) = self.streams.get(&stream) {
                    drop(open.to_member.send(payload.clone()));
                }
                if !payload.is_empty() {
                    let credit = u32::try_from(payload.len())?.to_be_bytes();
                    let of = |stream| frame(WINDOW_UPDATE, 0, stream, &credit);
                    self.out.send([of(0)?, of(stream)?].concat()).await?;
                }
                if flags & END_STREAM != 0 {
                    self.streams.remove(&stream);
                }
            }
            RST_STREAM => drop(self.streams.remove(&stream)),
            GOAWAY => bail!("the sidecar ends the tunnel"),
            _ => {}
        }
        Ok(())
    }

    async fn connect(&mut self, stream: u32) -> Result<()> {
        self.out.send(frame(HEADERS, END_HEADERS, stream, OK)?).await?;
        let (to_member, from_sidecar) = mpsc::unbounded_channel();
        let window = Arc::new(Semaphore::new(self.initial_window));
        self.streams.insert(stream, Stream { window: Arc::clone(&window), to_member });
        let relay = Relay {
            stream,
            out: self.out.clone(),
            windows: [Arc::clone(&self.window), window],
            sent: Arc::clone(&self.sent),
        };
        match self.manner {
            Manner::Withholds => {}
            Manner::Lies => drop(tokio::spawn(relay.pass_on(tokio::io::repeat(b'x')))),
            Manner::Trickles => {
                let (read, write) = TcpStream::connect(self.target).await?.into_split();
                tokio::spawn(relay.pass_on(read));
                tokio::spawn(copy(from_sidecar, write));
            }
        }
        Ok(())
    }
}

async fn copy(
    mut from: mpsc::UnboundedReceiver<Vec<u8>>,
    mut to: tokio::net::tcp::OwnedWriteHalf,
) -> Result<()> {
    while let Some(bytes) = from.recv().await {
        to.write_all(&bytes).await?;
    }
    Ok(())
}

/// What is sent on one stream.
struct Relay {
    stream: u32,
    out: mpsc::Sender<Vec<u8>>,
    windows: [Arc<Semaphore>; 2],
    sent: Arc<AtomicU64>,
}

impl Relay {
    /// Sends all bytes in frames of one byte, as far as the windows allow.
    async fn pass_on(self, mut from: impl AsyncRead + Unpin) -> Result<()> {
        let mut buffer = [0; 1024];
        loop {
            let length = from.read(&mut buffer).await?;
            if length == 0 {
                self.out.send(frame(DATA, END_STREAM, self.stream, &[])?).await?;
                return Ok(());
            }
            let mut frames = Vec::with_capacity(length * 10);
            for byte in &buffer[..length] {
                frames.extend(frame(DATA, 0, self.stream, &[*byte])?);
            }
            for window in &self.windows {
                window.acquire_many(u32::try_from(length)?).await?.forget();
            }
            self.out.send(frames).await?;
            self.sent.fetch_add(length as u64, Ordering::Relaxed);
        }
    }
}

/// The content of the sidecar's WebSocket messages.
struct Messages {
    read: ReadHalf<TlsStream<TcpStream>>,
    /// Bytes of the current message that have not been read yet.
    left: u64,
}

impl Messages {
    async fn exactly(&mut self, length: usize) -> Result<Vec<u8>> {
        let mut bytes = Vec::with_capacity(length);
        while bytes.len() < length {
            if self.left == 0 {
                self.next().await?;
                continue;
            }
            let part = self.left.min((length - bytes.len()) as u64);
            self.left -= part;
            (&mut self.read).take(part).read_to_end(&mut bytes).await?;
        }
        Ok(bytes)
    }

    /// Reads the head of the next message.
    async fn next(&mut self) -> Result<()> {
        let [kind, length] = [self.read.read_u8().await?, self.read.read_u8().await?];
        self.left = match length {
            126 => self.read.read_u16().await?.into(),
            127 => self.read.read_u64().await?,
            length => length.into(),
        };
        ensure!(kind & 0x0f <= BINARY, "the sidecar ends the WebSocket");
        Ok(())
    }
}

/// A binary message with a mask that changes nothing.
fn message(payload: &[u8]) -> Vec<u8> {
    let mut message = vec![0x80 | BINARY];
    match (u8::try_from(payload.len()), u16::try_from(payload.len())) {
        (Ok(length), _) if length < 126 => message.push(0x80 | length),
        (_, Ok(length)) => {
            message.push(0x80 | 126);
            message.extend(length.to_be_bytes());
        }
        _ => {
            message.push(0x80 | 127);
            message.extend((payload.len() as u64).to_be_bytes());
        }
    }
    message.extend([0; 4]);
    message.extend(payload);
    message
}

/// The next instance: a sidecar tells agents of one cluster apart by it.
static NUMBER: AtomicU64 = AtomicU64::new(0);
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// The binary message of a WebSocket.
const BINARY: u8 = 2;
/// `:status: 200` of HPACK's static table.
const OK: &[u8] = &[0x88];
/// `:status: 501`, its name from the static table.
const NOT_IMPLEMENTED: &[u8] = &[0x08, 3, b'5', b'0', b'1'];
