//! A TCP relay that can be cut and restored, or be slow. Bytes pass in both directions until it is
//! cut.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use anyhow::Result;
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until};

use crate::bed::bed;

/// The relay, until this is dropped.
pub struct Relay {
    pub address: SocketAddr,
    open: watch::Sender<bool>,
    targets: watch::Sender<Vec<SocketAddr>>,
    _runtime: Runtime,
}

impl Relay {
    /// A relay to `https://address:port`, not cut.
    pub fn to(server: &str) -> Result<Self> {
        Self::at(bed()?.address, server)
    }

    /// The same, with answers delayed by this time.
    pub fn slow(server: &str, delay: Duration) -> Result<Self> {
        Self::with(bed()?.address, server, delay)
    }

    /// The same on another address.
    pub fn at(address: IpAddr, server: &str) -> Result<Self> {
        Self::with(address, server, Duration::ZERO)
    }

    /// A relay to these servers in rotation, like a load balancer. Without any server, every
    /// connection ends at once.
    pub fn between(servers: &[&str]) -> Result<Self> {
        Self::to_each(bed()?.address, servers, Duration::ZERO)
    }

    fn with(address: IpAddr, server: &str, delay: Duration) -> Result<Self> {
        Self::to_each(address, &[server], delay)
    }

    fn to_each(address: IpAddr, servers: &[&str], delay: Duration) -> Result<Self> {
        let targets = watch::Sender::new(parse(servers)?);
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let listener = runtime.block_on(TcpListener::bind((address, 0)))?;
        let address = listener.local_addr()?;
        let open = watch::Sender::new(true);
        let (is_open, current) = (open.subscribe(), targets.subscribe());
        runtime.spawn(async move {
            let mut number = 0;
            while let Ok((client, _)) = listener.accept().await {
                number += 1;
                let targets = current.borrow();
                let Some(target) = targets.get(number % targets.len().max(1)) else { continue };
                tokio::spawn(carry(client, *target, delay, is_open.clone()));
            }
        });
        Ok(Self { address, open, targets, _runtime: runtime })
    }

    /// From now on, connects new connections to these servers.
    pub fn lead_to(&self, servers: &[&str]) -> Result<()> {
        self.targets.send_replace(parse(servers)?);
        Ok(())
    }

    /// Ends every connection, and from now on ends each new one at once.
    pub fn cut(&self) {
        self.open.send_replace(false);
    }

    pub fn mend(&self) {
        self.open.send_replace(true);
    }
}

fn parse(servers: &[&str]) -> Result<Vec<SocketAddr>> {
    servers.iter().map(|server| Ok(server.trim_start_matches("https://").parse()?)).collect()
}

async fn carry(
    client: TcpStream,
    target: SocketAddr,
    delay: Duration,
    mut open: watch::Receiver<bool>,
) -> Result<()> {
    if !*open.borrow_and_update() {
        return Ok(());
    }
    let server = TcpStream::connect(target).await?;
    let (mut requests, answers) = client.into_split();
    let (late, mut asked) = server.into_split();
    let asking = async {
        copy(&mut requests, &mut asked).await?;
        asked.shutdown().await
    };
    let both = async { tokio::try_join!(asking, answer(late, answers, delay)) };
    tokio::select! {
        copied = both => drop(copied?),
        cut = open.wait_for(|&open| !open) => drop(cut?),
    }
    Ok(())
}

/// Passes each piece on when it is due, and reads the next ones in the meantime.
async fn answer(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, delay: Duration) -> std::io::Result<()> {
    let (sender, mut pieces) = mpsc::channel(PIECES);
    let reading = async move {
        loop {
            let mut piece = Vec::with_capacity(64 * 1024);
            let read = from.read_buf(&mut piece).await?;
            if read == 0 || sender.send((Instant::now() + delay, piece)).await.is_err() {
                return Ok(());
            }
        }
    };
    let writing = async move {
        while let Some((due, piece)) = pieces.recv().await {
            sleep_until(due).await;
            to.write_all(&piece).await?;
        }
        to.shutdown().await
    };
    tokio::try_join!(reading, writing).map(drop)
}

/// The maximum number of pieces that are delayed at once.
const PIECES: usize = 1024;
