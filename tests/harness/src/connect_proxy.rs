//! A forward proxy that speaks CONNECT and nothing else, and remembers where it was sent.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Context, Result};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio::sync::watch;

use crate::bed::bed;

/// The proxy, until it is let go.
pub struct ConnectProxy {
    pub address: SocketAddr,
    asked: watch::Receiver<Vec<String>>,
    _runtime: Runtime,
}

impl ConnectProxy {
    /// On the bed's own address, so that the sidecar and kubectl alike can reach it.
    pub fn start() -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let listener = runtime.block_on(TcpListener::bind((bed()?.address, 0)))?;
        let address = listener.local_addr()?;
        let (sender, asked) = watch::channel(Vec::new());
        let sender = Arc::new(sender);
        runtime.spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let sender = Arc::clone(&sender);
                tokio::spawn(async move { serve(client, &sender).await });
            }
        });
        Ok(Self { address, asked, _runtime: runtime })
    }

    /// The `host:port` of every CONNECT so far.
    pub fn asked(&self) -> Vec<String> {
        self.asked.borrow().clone()
    }
}

async fn serve(client: TcpStream, asked: &watch::Sender<Vec<String>>) -> Result<()> {
    let mut client = BufReader::new(client);
    let mut line = String::new();
    client.read_line(&mut line).await?;
    let authority = line
        .strip_prefix("CONNECT ")
        .and_then(|rest| rest.split(' ').next())
        .with_context(|| format!("no CONNECT: {line:?}"))?
        .to_owned();
    loop {
        line.clear();
        if client.read_line(&mut line).await? <= 2 {
            break;
        }
    }
    let mut upstream = TcpStream::connect(&authority).await?;
    asked.send_modify(|all| all.push(authority));
    client.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").await?;
    copy_bidirectional(&mut client, &mut upstream).await?;
    Ok(())
}
