//! Accepts connections with TLS or plain HTTP, depending on their first byte. A connection must
//! soon prove itself with an admitted request. Only a few may be unproven: the oldest of them is
//! closed for a new one, so that another user of this machine cannot take the places of the user's
//! tools.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::future::{pending, poll_fn};
use std::io;
use std::sync::{Arc, OnceLock};
use std::task::Poll;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::time::sleep;
use tokio_rustls::TlsAcceptor;

use super::admission::Scheme;
use super::refusal::Refusal;
use super::relay::Relay;

/// Serves connections for as long as it is polled.
pub(super) async fn serve(sockets: &[TcpListener], tls: &TlsAcceptor, relay: Arc<Relay>) {
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    let mut unproven = Unproven::default();
    loop {
        let Ok(stream) = accept(sockets).await else {
            // For example, too many open files.
            sleep(Duration::from_millis(100)).await;
            continue;
        };
        let (evicted, proof) = (unproven.admit(), Arc::new(Notify::new()));
        let places =
            Places { places: Arc::clone(&places), proof: Arc::clone(&proof), place: OnceLock::new() };
        let (tls, relay) = (tls.clone(), Arc::clone(&relay));
        tokio::spawn(async move {
            tokio::select! {
                // A client reports the end of its connection.
                _ = connection(stream, &tls, relay, places) => {}
                () = unproven_too_long(evicted, &proof) => {}
            }
        });
    }
}

async fn accept(sockets: &[TcpListener]) -> io::Result<TcpStream> {
    poll_fn(|context| {
        let accepted = sockets.iter().map(|socket| socket.poll_accept(context));
        accepted.into_iter().find(Poll::is_ready).unwrap_or(Poll::Pending)
    })
    .await
    .map(|(stream, _)| stream)
}

/// Ends when a connection without an admitted request must close.
async fn unproven_too_long(mut evicted: oneshot::Receiver<()>, proof: &Notify) {
    tokio::select! {
        () = proof.notified() => {
            drop(evicted);
            pending().await
        }
        _ = &mut evicted => {}
        () = sleep(FIRST_REQUEST) => {}
    }
}

/// The connections without an admitted request, the oldest first.
#[derive(Default)]
struct Unproven(VecDeque<oneshot::Sender<()>>);

impl Unproven {
    /// Adds a connection; the result resolves when it must close.
    fn admit(&mut self) -> oneshot::Receiver<()> {
        // A connection that has proven itself or ended has dropped its end of the channel.
        self.0.retain(|connection| !connection.is_closed());
        if self.0.len() >= UNPROVEN {
            self.0.pop_front();
        }
        let (sender, receiver) = oneshot::channel();
        self.0.push_back(sender);
        receiver
    }
}

/// The places of proven connections, and the place of this connection.
struct Places {
    places: Arc<Semaphore>,
    proof: Arc<Notify>,
    place: OnceLock<Arc<OwnedSemaphorePermit>>,
}

/// A connection, as seen by the relay.
pub(super) struct Connection {
    /// The server name of TLS; the outer `None` is plain HTTP.
    tls: Option<Option<String>>,
    places: Places,
}

impl Connection {
    pub(super) fn scheme(&self) -> Scheme {
        if self.tls.is_some() { Scheme::Https } else { Scheme::Http }
    }

    pub(super) fn server_name(&self) -> Option<&str> {
        self.tls.as_ref()?.as_deref()
    }

    /// Marks the connection as one of the user's tools. The place is held by the connection and by its upgrade.
    pub(super) fn prove(&self) -> Result<Arc<OwnedSemaphorePermit>, Refusal> {
        let Places { places, proof, place } = &self.places;
        if let Some(place) = place.get() {
            return Ok(Arc::clone(place));
        }
        let own = Arc::clone(places).try_acquire_owned().map_err(|_| Refusal::Busy)?;
        proof.notify_one();
        Ok(Arc::clone(place.get_or_init(|| Arc::new(own))))
    }
}

async fn connection(
    stream: TcpStream,
    tls: &TlsAcceptor,
    relay: Arc<Relay>,
    places: Places,
) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut first = [0];
    if stream.peek(&mut first).await? == 1 && first == [TLS_HANDSHAKE] {
        let stream = tls.accept(stream).await?;
        let name = stream.get_ref().1.server_name().map(str::to_owned);
        http(stream, Connection { tls: Some(name), places }, relay).await;
    } else {
        http(stream, Connection { tls: None, places }, relay).await;
    }
    Ok(())
}

async fn http<S>(stream: S, connection: Connection, relay: Arc<Relay>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let connection = Arc::new(connection);
    let answer = service_fn(move |request| {
        let (relay, connection) = (Arc::clone(&relay), Arc::clone(&connection));
        async move { Ok::<_, Infallible>(relay.answer(request, &connection).await) }
    });
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEAD).max_buf_size(LARGEST_HEAD);
    let _ = http.serve_connection(TokioIo::new(stream), answer).with_upgrades().await;
}

/// The first byte of a TLS connection (RFC 8446, 5.1: the type of a record).
const TLS_HANDSHAKE: u8 = 22;
/// More than tools of one user open. Each takes two file descriptors, of which a process usually has 1024.
const CONNECTIONS: usize = 384;
/// A tool proves itself within milliseconds, so only a few are unproven at a time.
const UNPROVEN: usize = 64;
/// For a handshake and the first request, from a process on this machine.
const FIRST_REQUEST: Duration = Duration::from_secs(10);
/// For each head, and for a connection between two requests: longer than clients keep one.
const HEAD: Duration = Duration::from_secs(100);
/// The query may contain a long command of `exec`. hyper accepts a head that ends in the read that
/// exceeds this.
const LARGEST_HEAD: usize = 128 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn oldest_unproven_connection_closes_first() {
        let mut unproven = Unproven::default();
        let mut waiting: VecDeque<_> = (0..UNPROVEN).map(|_| unproven.admit()).collect();
        let mut oldest = waiting.pop_front().unwrap();
        assert!(oldest.try_recv() == Err(oneshot::error::TryRecvError::Empty));
        waiting.push_back(unproven.admit());
        assert_eq!(oldest.try_recv(), Err(oneshot::error::TryRecvError::Closed));
        // A connection that proves itself makes room, so no other one is closed.
        drop(waiting.pop_back());
        waiting.push_back(unproven.admit());
        assert!(waiting.iter_mut().all(|one| one.try_recv() == Err(oneshot::error::TryRecvError::Empty)));
    }

    #[tokio::test(start_paused = true)]
    async fn connection_must_prove_itself_in_time() {
        let (_held, evicted) = oneshot::channel();
        let begun = tokio::time::Instant::now();
        unproven_too_long(evicted, &Notify::new()).await;
        assert_eq!(begun.elapsed(), FIRST_REQUEST);
        let (held, evicted) = oneshot::channel();
        let proof = Notify::new();
        proof.notify_one();
        let longer = tokio::time::timeout(FIRST_REQUEST * 100, unproven_too_long(evicted, &proof)).await;
        assert!(longer.is_err() && held.is_closed());
    }
}
