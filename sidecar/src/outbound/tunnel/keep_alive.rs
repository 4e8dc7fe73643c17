//! Detects that the other end of a tunnel has disappeared silently, for example because a NAT
//! dropped the connection or a machine lost power. Both ends send pings.
//!
//! A ping waits behind the data that is queued on a slow line. So while data arrives, the other end counts as
//! alive, even if its answer is late.

use std::future::{Future, pending};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use h2::{Ping, PingPong};
use tokio::time::{sleep, timeout};

/// The observed state of the other end.
pub(crate) struct Peer<'a> {
    pub(crate) pings: Option<PingPong>,
    /// Set whenever data arrives from it.
    pub(crate) heard: &'a AtomicBool,
    /// Set while the answer to a ping is late.
    pub(crate) is_late: &'a AtomicBool,
}

impl Peer<'_> {
    /// Resolves when the other end has been silent for too long.
    async fn silent(self) {
        let Self { pings: Some(mut pings), heard, is_late } = self else { return pending().await };
        loop {
            sleep(INTERVAL).await;
            heard.store(false, Ordering::Relaxed);
            let mut answer = pin!(pings.ping(Ping::opaque()));
            let mut answered = timeout(LATE, &mut answer).await;
            while answered.is_err() {
                is_late.store(true, Ordering::Relaxed);
                answered = timeout(TIMEOUT, &mut answer).await;
                if answered.is_err() && !heard.swap(false, Ordering::Relaxed) {
                    return;
                }
            }
            match answered {
                Ok(Ok(_)) => is_late.store(false, Ordering::Relaxed),
                Ok(Err(_)) | Err(_) => return,
            }
        }
    }
}

/// Drives a connection until it ends, its other end is silent for too long, or `stopped` resolves.
pub(crate) async fn drive<T>(
    connection: impl Future<Output = T>,
    peer: Peer<'_>,
    stopped: impl Future<Output = ()>,
) -> End<T> {
    tokio::select! {
        biased;
        () = stopped => End::Stopped,
        ended = connection => End::Closed(ended),
        () = peer.silent() => End::Silent,
    }
}

/// How a connection ended.
#[derive(Debug)]
pub(crate) enum End<T> {
    Closed(T),
    Silent,
    Stopped,
}

const INTERVAL: Duration = Duration::from_secs(15);
/// After this time without an answer, new connections use another tunnel if there is one.
const LATE: Duration = Duration::from_secs(2);
/// After this additional time without an answer or data, the other end counts as gone.
const TIMEOUT: Duration = Duration::from_secs(8);
