//! A load balancer like a Service or a cloud's: each connection goes to the next replica that
//! accepts it, and arrives there from its own address, as if the balancer preserved the client's
//! address.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context, Result};
use clap::Args;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpSocket, TcpStream};

use crate::role::say;

#[derive(Args)]
pub(crate) struct Options {
    /// Address of a replica
    #[arg(long)]
    replica: Vec<SocketAddr>,
}

/// The connections and bytes that passed through.
#[derive(Default)]
pub(crate) struct Carried {
    pub(crate) connections: AtomicU64,
    pub(crate) bytes: AtomicU64,
}

/// Runs until the process is killed.
pub(crate) async fn run(options: &Options) -> Result<()> {
    let listener = bind()?;
    say(&listener.local_addr()?.to_string())?;
    carry(listener, options.replica.clone(), Arc::default()).await
}

pub(crate) fn bind() -> Result<TcpListener> {
    let socket = TcpSocket::new_v4()?;
    socket.bind((Ipv4Addr::LOCALHOST, 0).into())?;
    Ok(socket.listen(BACKLOG)?)
}

/// Carries each connection to the next replica.
pub(crate) async fn carry(
    listener: TcpListener,
    replicas: Vec<SocketAddr>,
    carried: Arc<Carried>,
) -> Result<()> {
    let replicas: Arc<[SocketAddr]> = replicas.into();
    for number in 0_u32.. {
        let (client, _) = listener.accept().await?;
        let (replicas, carried) = (replicas.clone(), carried.clone());
        tokio::spawn(async move {
            let replica = connect(&replicas, number).await?;
            carried.connections.fetch_add(1, Ordering::Relaxed);
            client.set_nodelay(true)?;
            replica.set_nodelay(true)?;
            let ((requests, answers), (from, to)) = (client.into_split(), replica.into_split());
            let (asking, answering) = (pass(requests, to, &carried), pass(from, answers, &carried));
            tokio::try_join!(asking, answering)
        });
    }
    Ok(())
}

/// Connects to the next replica that accepts, since a killed one refuses.
async fn connect(replicas: &[SocketAddr], number: u32) -> Result<TcpStream> {
    let [_, _, third, fourth] = number.to_be_bytes();
    let source = Ipv4Addr::new(127, 77, third, fourth.max(1));
    let (count, number) = (replicas.len(), number as usize);
    // If a replica refuses connections, they go to the other replicas in turn.
    let step = 1 + (number / count) % count.saturating_sub(1).max(1);
    for replica in (0..count).map(|at| replicas[(number + at * step) % count]) {
        let socket = TcpSocket::new_v4()?;
        socket.bind((source, 0).into())?;
        if let Ok(stream) = socket.connect(replica).await {
            return Ok(stream);
        }
    }
    Err(anyhow::anyhow!("no replica accepts connections"))
}

async fn pass(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, carried: &Carried) -> Result<()> {
    let mut buffer = vec![0; BUFFER];
    loop {
        let length = from.read(&mut buffer).await.context("cut")?;
        if length == 0 {
            return Ok(to.shutdown().await?);
        }
        carried.bytes.fetch_add(length as u64, Ordering::Relaxed);
        to.write_all(&buffer[..length]).await?;
    }
}

const BACKLOG: u32 = 4096;
const BUFFER: usize = 4096;
