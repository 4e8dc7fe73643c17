//! A way to somewhere that can be cut and mended: bytes pass both ways until it is cut.

use std::net::{IpAddr, SocketAddr};

use anyhow::Result;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio::sync::watch;

use crate::bed::bed;

/// The way, until it is let go.
pub struct Relay {
    pub address: SocketAddr,
    open: watch::Sender<bool>,
    _runtime: Runtime,
}

impl Relay {
    /// A way to `https://address:port`, open.
    pub fn to(server: &str) -> Result<Self> {
        Self::at(bed()?.address, server)
    }

    /// The same from an address of choice.
    pub fn at(address: IpAddr, server: &str) -> Result<Self> {
        let target: SocketAddr = server.trim_start_matches("https://").parse()?;
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let listener = runtime.block_on(TcpListener::bind((address, 0)))?;
        let address = listener.local_addr()?;
        let open = watch::Sender::new(true);
        let is_open = open.subscribe();
        runtime.spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(carry(client, target, is_open.clone()));
            }
        });
        Ok(Self { address, open, _runtime: runtime })
    }

    /// Ends every connection, and from now on each as soon as it comes.
    pub fn cut(&self) {
        self.open.send_replace(false);
    }

    pub fn mend(&self) {
        self.open.send_replace(true);
    }
}

async fn carry(mut client: TcpStream, target: SocketAddr, mut open: watch::Receiver<bool>) -> Result<()> {
    if !*open.borrow_and_update() {
        return Ok(());
    }
    let mut server = TcpStream::connect(target).await?;
    tokio::select! {
        copied = copy_bidirectional(&mut client, &mut server) => drop(copied?),
        cut = open.wait_for(|&open| !open) => drop(cut?),
    }
    Ok(())
}
