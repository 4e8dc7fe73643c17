//! The fake member's server, which reads requests and performs the steps of the script.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use anyhow::{Result, anyhow};
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::aws_lc_rs::default_provider;
use tokio_rustls::rustls::version::TLS12;
use tokio_rustls::rustls::{DEFAULT_VERSIONS, ServerConfig};
use tokio_rustls::server::TlsStream;

use super::{Came, Door, Exchange, Manners, READY, Request, Step, ok};
use crate::noise::Dice;

type Stream = TlsStream<TcpStream>;

pub(super) fn acceptor(
    certificate: CertificateDer<'static>,
    key: Vec<u8>,
    manners: Manners,
) -> Result<TlsAcceptor> {
    let versions: &[_] = if manners.only_tls12 { &[&TLS12] } else { DEFAULT_VERSIONS };
    let key = PrivateKeyDer::try_from(key).map_err(|error| anyhow!("{error}"))?;
    let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_protocol_versions(versions)?
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}

pub(super) async fn run(
    listener: TcpListener,
    acceptor: TlsAcceptor,
    script: impl Fn(&Request) -> Vec<Step> + Send + Sync + 'static,
    requests: watch::Sender<Vec<Request>>,
    door: Door,
    manners: Manners,
) {
    let script = Arc::new(script);
    let mut connection = 0;
    while let Ok((socket, _)) = listener.accept().await {
        door.knocked.fetch_add(1, Ordering::SeqCst);
        if door.shut.load(Ordering::SeqCst) {
            continue;
        }
        let (acceptor, script, requests) = (acceptor.clone(), Arc::clone(&script), requests.clone());
        let open = door.open.clone();
        open.fetch_add(1, Ordering::SeqCst);
        let held = async move {
            if manners.resets {
                socket.set_zero_linger()?;
            }
            let stream = acceptor.accept(socket).await?;
            let (read, write) = tokio::io::split(stream);
            let record = Record { requests: (!manners.forgets).then_some(requests), index: 0 };
            let read_ahead = Vec::new();
            let probed = manners.probed;
            Conversation { connection, read, write, record, read_ahead, probed }.hold(&*script).await
        };
        tokio::spawn(async move {
            let held = held.await;
            open.fetch_sub(1, Ordering::SeqCst);
            held
        });
        connection += 1;
    }
}

/// One connection, request after request.
struct Conversation {
    connection: usize,
    read: ReadHalf<Stream>,
    write: WriteHalf<Stream>,
    record: Record,
    read_ahead: Vec<u8>,
    probed: bool,
}

impl Conversation {
    async fn hold(mut self, script: &(impl Fn(&Request) -> Vec<Step> + ?Sized)) -> Result<()> {
        while let Some(head) = self.head().await? {
            let request = Request { connection: self.connection, head, received: Vec::new(), ended: false };
            let is_probe = !self.probed && request.is_probe();
            if !is_probe {
                self.record.begin(request.clone());
            }
            self.body(&request).await?;
            let steps = if is_probe || request.target() == READY { ok() } else { script(&request) };
            for step in steps {
                match self.walk(step).await {
                    Ok(true) => {}
                    Ok(false) => return Ok(()),
                    Err(error) => {
                        self.record.end();
                        return Err(error);
                    }
                }
            }
        }
        Ok(())
    }

    /// Performs one step; false if the connection ends with it.
    async fn walk(&mut self, step: Step) -> Result<bool> {
        match step {
            Step::Send(bytes) => {
                self.write.write_all(&bytes).await?;
                self.write.flush().await?;
            }
            Step::Repeat(bytes, times) => {
                for _ in 0..times {
                    self.write.write_all(&bytes).await?;
                }
                self.write.flush().await?;
            }
            Step::Wait(gate) => {
                gate.0.subscribe().wait_for(|&open| open).await?;
            }
            Step::Receive(length) => self.receive(length).await?,
            Step::ReceiveAll => self.receive(usize::MAX).await?,
            Step::Echo => self.echo().await?,
            Step::Exchange(exchange) => self.exchange(exchange).await,
            Step::Trickle(bytes, pause) => loop {
                self.write.write_all(&bytes).await?;
                self.write.flush().await?;
                tokio::time::sleep(pause).await;
            },
            Step::Pause(time) => tokio::time::sleep(time).await,
            Step::Finish => self.write.shutdown().await?,
            Step::Close => return Ok(false),
            Step::Hang => std::future::pending::<()>().await,
        }
        Ok(true)
    }

    async fn head(&mut self) -> Result<Option<String>> {
        loop {
            if let Some(at) = self.read_ahead.windows(4).position(|window| window == b"\r\n\r\n") {
                let rest = self.read_ahead.split_off(at + 4);
                let head = std::mem::replace(&mut self.read_ahead, rest);
                return Ok(Some(String::from_utf8_lossy(&head).into_owned()));
            }
            if self.read.read_buf(&mut self.read_ahead).await? == 0 {
                return Ok(None);
            }
        }
    }

    async fn body(&mut self, request: &Request) -> Result<()> {
        if let Some(length) = request.values("content-length").first() {
            return self.receive(length.parse()?).await;
        }
        if request.values("transfer-encoding").iter().any(|coding| coding.contains("chunked")) {
            // These bytes are recorded undecoded and at once, because tests search for their text
            // and check when it arrived.
            let mut tail = Vec::new();
            loop {
                let read = std::mem::take(&mut self.read_ahead);
                self.record.add(&read);
                tail.extend(read);
                if tail.ends_with(b"0\r\n\r\n") || self.read.read_buf(&mut self.read_ahead).await? == 0 {
                    break;
                }
                tail.drain(..tail.len().saturating_sub(LAST_CHUNK));
            }
        }
        Ok(())
    }

    async fn echo(&mut self) -> Result<()> {
        loop {
            let taken = std::mem::take(&mut self.read_ahead);
            self.record.add(&taken);
            self.write.write_all(&taken).await?;
            self.write.flush().await?;
            if !matches!(self.read.read_buf(&mut self.read_ahead).await, Ok(1..)) {
                self.record.end();
                return Ok(());
            }
        }
    }

    async fn exchange(&mut self, exchange: Exchange) {
        let Exchange { mut sends, mut expects, finishes_first, tell } = exchange;
        let Self { read, write, read_ahead, .. } = self;
        let (ended, mut end) = watch::channel(false);
        let sending = async {
            let mut dice = Dice::new(sends.left());
            while sends.left() > 0 {
                write.write_all(sends.piece(dice.size(MOST))).await?;
                write.flush().await?;
            }
            if !finishes_first {
                end.wait_for(|&ended| ended).await.map_err(std::io::Error::other)?;
            }
            write.shutdown().await
        };
        let comparing = async {
            let mut as_expected = expects.continues(&std::mem::take(read_ahead));
            let mut buffer = vec![0; MOST];
            while let Ok(length @ 1..) = read.read(&mut buffer).await {
                as_expected &= expects.continues(&buffer[..length]);
            }
            ended.send_replace(true);
            tell(Came { as_expected, missing: expects.left() });
        };
        // If the client disconnected, the number of missing bytes shows it.
        let _ = tokio::join!(sending, comparing);
    }

    async fn receive(&mut self, mut length: usize) -> Result<()> {
        let mut buffer = vec![0; 64 * 1024];
        while length > 0 {
            let taken = if self.read_ahead.is_empty() {
                // A connection that breaks ends like one that is closed: neither has more bytes.
                let wanted = buffer.len().min(length);
                match self.read.read(&mut buffer[..wanted]).await {
                    Ok(0) | Err(_) => {
                        self.record.end();
                        return Ok(());
                    }
                    Ok(read) => buffer[..read].to_vec(),
                }
            } else {
                let rest = self.read_ahead.split_off(self.read_ahead.len().min(length));
                std::mem::replace(&mut self.read_ahead, rest)
            };
            length -= taken.len();
            self.record.add(&taken);
        }
        Ok(())
    }
}

/// The maximum that is written at once.
const MOST: usize = 64 * 1024;
/// The length of a chunked body's end.
const LAST_CHUNK: usize = 5;

/// Records the current request of a connection for the test.
struct Record {
    requests: Option<watch::Sender<Vec<Request>>>,
    index: usize,
}

impl Record {
    fn begin(&mut self, request: Request) {
        let Some(requests) = &self.requests else { return };
        requests.send_modify(|all| {
            self.index = all.len();
            all.push(request);
        });
    }

    fn add(&self, bytes: &[u8]) {
        self.change(|request| request.received.extend_from_slice(bytes));
    }

    fn end(&self) {
        self.change(|request| request.ended = true);
    }

    fn change(&self, change: impl FnOnce(&mut Request)) {
        let Some(requests) = &self.requests else { return };
        requests.send_modify(|all| change(&mut all[self.index]));
    }
}
