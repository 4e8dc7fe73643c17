//! Finds tunnels at other replicas of the sidecar. An agent has tunnels to a few replicas; a replica without
//! one asks the others which of them has one, and connects to the member through that replica. Nothing is
//! stored or announced, and only a replica without a tunnel has to ask. A replica answers only from
//! its own tunnels.
//!
//! A connection between replicas carries one question (see [`question`]) over mutual TLS to the secure port
//! ([`crate::connection::tls::replicas`]).

use std::collections::HashMap;
use std::future::ready;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use futures_util::StreamExt;
use futures_util::stream;
use http::uri::Authority;
use kubectl_mc_api::ClusterName;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, lookup_host};
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tracing::debug;

use super::enrollment::{self, Reply, Request};
use super::registry::dial::DialError;
use crate::base::tcp;
use crate::base::ttl_cache::TtlCache;
use crate::connection::tls::replicas::ReplicaTls;

pub mod answer;
mod question;

use question::Question;

/// The other replicas, by their DNS names.
#[derive(Debug)]
pub struct Peers {
    names: Vec<Authority>,
    /// Where this replica accepts connections.
    own: SocketAddr,
    addresses: ArcSwap<Vec<SocketAddr>>,
    /// The number of replicas, including this one; 0 if no address is known.
    replicas: AtomicUsize,
    tls: Arc<ReplicaTls>,
    /// Which replica has a tunnel to a cluster.
    located: TtlCache<ClusterName, Option<SocketAddr>>,
    /// Clusters without a tunnel at any replica.
    missing: TtlCache<ClusterName, ()>,
}

/// The tunnel of a cluster at another replica.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Elsewhere {
    pub replica: String,
    /// The agent's version.
    pub version: String,
}

type Stream = Box<TlsStream<TcpStream>>;
type BoxError = Box<dyn std::error::Error + Send + Sync>;

impl Peers {
    /// `names` are `host:port`; each may resolve to several replicas, including this one. `own` is
    /// where this replica accepts connections.
    pub fn new(names: Vec<Authority>, own: SocketAddr, tls: Arc<ReplicaTls>) -> Arc<Self> {
        Arc::new(Self {
            names,
            own,
            addresses: ArcSwap::default(),
            replicas: AtomicUsize::new(0),
            tls,
            located: TtlCache::new(MAX_LOCATED, LOCATED),
            missing: TtlCache::new(MAX_LOCATED, MISSING),
        })
    }

    /// Keeps resolving the names in the background, so that no request waits for a name server.
    pub async fn run(self: Arc<Self>) {
        while !self.names.is_empty() {
            self.look_up().await;
            sleep(LOOK_UP_INTERVAL).await;
        }
    }

    /// If a name cannot be resolved, the addresses stay unchanged.
    async fn look_up(&self) {
        let mut addresses = Vec::new();
        for name in &self.names {
            let host = name.host().trim_matches(['[', ']']);
            match lookup_host((host, name.port_u16().unwrap_or(PORT))).await {
                Ok(found) => addresses.extend(found),
                Err(error) => return debug!(%name, error = %error, "cannot look up the other replicas"),
            }
        }
        addresses.sort_unstable();
        addresses.dedup();
        if !addresses.is_empty() {
            let others = addresses.iter().filter(|address| !self.is_own(**address)).count();
            self.replicas.store(others + 1, Ordering::Relaxed);
        }
        self.addresses.store(Arc::new(addresses));
    }

    /// What this replica announces to agents: its name, and the number of replicas.
    pub fn introduce(&self, replica: &str) -> String {
        match self.replicas.load(Ordering::Relaxed) {
            0 => replica.to_owned(),
            count => format!("{replica}; of={count}"),
        }
    }

    /// Whether this address belongs to this replica.
    fn is_own(&self, address: SocketAddr) -> bool {
        // Only an address of this machine can be bound.
        let is_here = || UdpSocket::bind((address.ip(), 0)).is_ok();
        address.port() == self.own.port()
            && (address.ip() == self.own.ip() || self.own.ip().is_unspecified() && is_here())
    }

    /// Whether these certificates, whose key the peer holds, are those of a replica.
    pub fn is_replica(&self, certificates: Option<&[rustls_pki_types::CertificateDer<'_>]>) -> bool {
        self.tls.is_replica(certificates)
    }

    /// Connects to `target` through a replica with a tunnel of the cluster; `None` if there is none.
    pub(super) async fn open(
        &self,
        cluster: &ClusterName,
        target: &Authority,
    ) -> Option<Result<Stream, DialError>> {
        // The replica may have lost its tunnel in the meantime.
        for _ in 0..TRIES {
            let address = self.locate(cluster).await?;
            let question = Question::Connect(cluster.clone(), target.clone());
            match self.connect(address, &question).await {
                Ok(stream) => return Some(Ok(stream)),
                Err(DialError::NoAgent { .. } | DialError::Ended) => self.located.forget(cluster),
                Err(error) => return Some(Err(error)),
            }
        }
        None
    }

    /// The tunnels of the other replicas, by cluster. Replicas that do not answer are left out.
    pub async fn tunnels(&self) -> HashMap<ClusterName, Elsewhere> {
        let asking = stream::iter(self.addresses()).map(|address| async move {
            let asked = async {
                let mut stream = self.ask(address, &Question::Tunnels).await?;
                let mut text = String::new();
                (&mut stream).take(MAX_LIST).read_to_string(&mut text).await?;
                Ok::<_, BoxError>(text)
            };
            timeout(TIMEOUT, asked).await.map_err(BoxError::from).flatten()
        });
        let answers: Vec<_> = asking.buffer_unordered(AT_ONCE).collect().await;
        let texts = answers.into_iter().filter_map(|answer| match answer {
            Ok(text) => Some(text),
            Err(error) => {
                debug!(error = %error, "a replica did not answer");
                None
            }
        });
        texts.flat_map(|text| question::tunnels(&text)).collect()
    }

    /// Asks the agents of a cluster through the other replicas, until one agrees, and otherwise returns the
    /// last answer.
    pub(super) async fn enroll(&self, cluster: &ClusterName, request: Request) -> Option<Reply> {
        let mut last = None;
        for address in self.addresses() {
            let asked = async {
                let mut stream = self.ask(address, &Question::Enroll(cluster.clone(), request)).await?;
                let status = question::line(&mut stream).await?;
                let mut body = String::new();
                (&mut stream).take(MAX_ANSWER).read_to_string(&mut body).await?;
                Ok::<_, BoxError>(status.parse().ok().map(|status| Reply { status, body }))
            };
            match timeout(ENROLLS_WITHIN, asked).await.map_err(BoxError::from).flatten() {
                Ok(Some(reply)) if reply.status.is_success() => return Some(reply),
                Ok(reply) => last = reply.or(last),
                Err(error) => debug!(%address, error = %error, "a replica did not answer"),
            }
        }
        last
    }

    /// Where a tunnel of the cluster is.
    async fn locate(&self, cluster: &ClusterName) -> Option<SocketAddr> {
        if self.missing.get(cluster).is_some() {
            return None;
        }
        let found = Box::pin(self.located.get_or_fetch(cluster, self.find(cluster), Option::is_some)).await;
        if found.is_none() {
            self.missing.get_or_fetch(cluster, ready(()), |()| true).await;
        }
        found
    }

    /// Asks all replicas, a few at a time, for the first one with a tunnel of the cluster.
    async fn find(&self, cluster: &ClusterName) -> Option<SocketAddr> {
        let question = Question::Has(cluster.clone());
        let has = async |address| {
            let asked = async {
                let mut stream = self.ask(address, &question).await?;
                Ok::<_, BoxError>(question::line(&mut stream).await?)
            };
            match timeout(TIMEOUT, asked).await.map_err(BoxError::from).flatten() {
                Ok(answer) => (answer == question::YES).then_some(address),
                Err(error) => {
                    debug!(%address, error = %error, "a replica did not answer");
                    None
                }
            }
        };
        let mut asking = stream::iter(self.addresses()).map(has).buffer_unordered(AT_ONCE);
        while let Some(found) = asking.next().await {
            if found.is_some() {
                return found;
            }
        }
        None
    }

    async fn connect(&self, address: SocketAddr, question: &Question) -> Result<Stream, DialError> {
        let asked = async {
            let mut stream = self.ask(address, question).await?;
            let answer = question::line(&mut stream).await?;
            Ok::<_, BoxError>((stream, answer))
        };
        match asked.await {
            Ok((stream, answer)) => question.connected(&answer).map(|()| stream),
            Err(error) => {
                debug!(%address, error = %error, "a replica did not answer");
                Err(DialError::Ended)
            }
        }
    }

    fn addresses(&self) -> Vec<SocketAddr> {
        self.addresses.load().to_vec()
    }

    async fn ask(&self, address: SocketAddr, question: &Question) -> Result<Stream, BoxError> {
        let identity = self.tls.identity().ok_or("this replica has no certificate yet")?;
        let opening = async {
            let stream = TcpStream::connect(address).await?;
            tcp::prepare(&stream)?;
            TlsConnector::from(identity.client.clone()).connect(identity.name.clone(), stream).await
        };
        let mut stream = timeout(TIMEOUT, opening).await??;
        stream.write_all(question.to_string().as_bytes()).await?;
        stream.flush().await?;
        Ok(Box::new(stream))
    }
}

/// The secure port in the manifests.
const PORT: u16 = 10250;
const TRIES: usize = 2;
const AT_ONCE: usize = 8;
/// Timeout of one replica, in the same cluster or near it.
const TIMEOUT: Duration = Duration::from_secs(2);
/// The other replica asks the agents of its tunnels; there are at most two unless one is being replaced.
const ENROLLS_WITHIN: Duration = enrollment::ANSWERS_WITHIN.saturating_mul(3);
const MAX_ANSWER: u64 = 2 * enrollment::MAX_ANSWER as u64;
/// A new replica waits at most this long until the others find it.
const LOOK_UP_INTERVAL: Duration = Duration::from_secs(5);
const LOCATED: Duration = Duration::from_secs(30);
/// About the time until an agent that lost its tunnel dials again.
const MISSING: Duration = Duration::from_secs(1);
const MAX_LOCATED: usize = 16_384;
/// In bytes: enough for 16,384 tunnels.
const MAX_LIST: u64 = 4 * 1024 * 1024;

#[cfg(test)]
mod tests;
