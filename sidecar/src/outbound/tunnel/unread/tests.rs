//! An agent with two tunnels, whose member sends endless output on each connection.

use std::io::ErrorKind;

use http::Response;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::task::yield_now;
use tokio::time::{advance, timeout};
use tokio_util::task::AbortOnDropHandle;

use super::*;
use crate::outbound::tunnel::link;
use crate::outbound::tunnel::link::tests::no_accounts;
use crate::outbound::tunnel::protocol::STREAM_WINDOW;
use crate::outbound::tunnel::purpose::Purpose;
use crate::outbound::tunnel::registry::AgentTunnels;
use crate::outbound::tunnel::stream::TunnelStream;

const WINDOW: usize = STREAM_WINDOW as usize;
/// The small frames before they are merged, and those of one read of the tunnel.
const MAX_IN_A_READ: usize = MAX_SMALL_FRAMES + 4096;
const SOON: Duration = Duration::from_secs(10);
const ENDLESS: &str = "endless:443";
/// A target that sends single bytes.
const TINY: &str = "tiny:443";
/// A target that sends a kilobyte.
const SHORT: &str = "short:443";

struct Tunnels {
    tunnels: Arc<AgentTunnels>,
    /// Receives when the agent can no longer send on a connection.
    reset: UnboundedReceiver<()>,
    _tasks: Vec<AbortOnDropHandle<()>>,
}

async fn tunnels(most: usize) -> Tunnels {
    tunnels_within(Bounds::undivided(most)).await
}

async fn tunnels_within(bounds: Bounds) -> Tunnels {
    let tunnels = AgentTunnels::with_unread(UnreadLimit::new(bounds));
    let (ended, reset) = unbounded_channel();
    let mut tasks = Vec::new();
    for instance in ["a", "b"] {
        let (io, sidecar) = link::tests::joined(&tunnels, no_accounts(), instance);
        let ended = ended.clone();
        let agent = tokio::spawn(async move {
            let mut connection = h2::server::handshake(io).await.unwrap();
            while let Some(Ok((request, mut respond))) = connection.accept().await {
                let send = respond.send_response(Response::new(()), false).unwrap();
                let target = request.uri().authority().map(ToString::to_string).unwrap_or_default();
                let piece = if target == TINY { 1 } else { 16 * 1024 };
                let mut stream = TunnelStream::new(send, request.into_body());
                let ended = ended.clone();
                tokio::spawn(async move {
                    stream.write_all(&[0; 1024]).await.unwrap();
                    stream.flush().await.unwrap();
                    if target == SHORT {
                        return std::future::pending().await;
                    }
                    while stream.write_all(&vec![0; piece]).await.is_ok() && stream.flush().await.is_ok() {}
                    _ = ended.send(());
                });
            }
        });
        tasks.extend([sidecar, AbortOnDropHandle::new(agent)]);
    }
    while tunnels.by_preference(&"m1".parse().unwrap()).map_or(0, |open| open.len()) < 2 {
        yield_now().await;
    }
    Tunnels { tunnels, reset, _tasks: tasks }
}

impl Tunnels {
    /// A connection with `unread` bytes.
    async fn open(&self, target: &str, unread: usize) -> TunnelStream {
        let (cluster, target) = ("m1".parse().unwrap(), target.parse().unwrap());
        let stream = self.tunnels.open_here(&cluster, &target, Purpose::Any).await.unwrap();
        unread_reaches(&stream, unread).await;
        stream
    }

    fn sweep(&self) {
        self.tunnels.unread().sweep();
    }

    /// The number of connections that are counted.
    fn watched(&self) -> usize {
        let tunnels = self.tunnels.unread().tunnels.with(|tunnels| tunnels.clone());
        tunnels.iter().filter_map(Weak::upgrade).map(|tunnel| tunnel.watched.with(|all| all.len())).sum()
    }

    fn resets(&self) -> u64 {
        self.tunnels.unread().resets.get()
    }
}

async fn unread_reaches(stream: &TunnelStream, unread: usize) {
    while stream.unread() < unread {
        yield_now().await;
    }
}

async fn is_reset(stream: &mut TunnelStream) -> bool {
    match stream.read_exact(&mut [0; 1024]).await {
        Ok(_) => false,
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{error}");
            assert_eq!(
                error.to_string(),
                "reset, because too many bytes of connections through agents are unread"
            );
            true
        }
    }
}

#[tokio::test]
async fn fault_66_unread_answers_of_all_tunnels_are_bounded() {
    let mut tunnels = tunnels(8 * WINDOW).await;
    let mut read = tunnels.open(ENDLESS, WINDOW).await;
    let mut unread = Vec::new();
    for _ in 0..11 {
        unread.push(tunnels.open(ENDLESS, WINDOW).await);
    }
    tunnels.sweep();
    assert_eq!(tunnels.resets(), 0);
    read.read_exact(&mut vec![0; WINDOW]).await.unwrap();
    unread_reaches(&read, WINDOW).await;
    tunnels.sweep();
    let sum: usize = unread.iter().chain([&read]).map(TunnelStream::unread).sum();
    assert_eq!((sum, tunnels.resets()), (6 * WINDOW, 6));
    for _ in 0..6 {
        timeout(SOON, tunnels.reset.recv()).await.unwrap();
    }
    assert!(!is_reset(&mut read).await);
    let mut resets = 0;
    for stream in &mut unread {
        resets += u32::from(is_reset(stream).await);
    }
    assert_eq!(resets, 6);
}

#[tokio::test]
async fn unread_answers_below_the_bound_are_kept() {
    let tunnels = tunnels(4 * WINDOW).await;
    let mut unread = Vec::new();
    for _ in 0..4 {
        unread.push(tunnels.open(ENDLESS, WINDOW).await);
    }
    for _ in 0..1000 {
        tunnels.sweep();
    }
    for stream in &mut unread {
        stream.read_exact(&mut vec![0; 2 * WINDOW]).await.unwrap();
    }
    assert_eq!(tunnels.resets(), 0);
}

#[tokio::test]
async fn reader_that_keeps_up_is_never_reset() {
    let tunnels = tunnels(1).await;
    let mut stream = tunnels.open(ENDLESS, WINDOW).await;
    for _ in 0..20 {
        tunnels.sweep();
        stream.read_exact(&mut vec![0; WINDOW]).await.unwrap();
        unread_reaches(&stream, WINDOW).await;
    }
    tunnels.sweep();
    assert!(!is_reset(&mut stream).await);
}

#[tokio::test]
async fn reader_of_single_bytes_does_not_keep_up() {
    let tunnels = tunnels(1).await;
    let mut stream = tunnels.open(ENDLESS, WINDOW).await;
    tunnels.sweep();
    stream.read_exact(&mut [0]).await.unwrap();
    tunnels.sweep();
    assert!(is_reset(&mut stream).await);
}

#[tokio::test]
async fn short_unread_answers_are_spared() {
    let tunnels = tunnels(2 * WINDOW).await;
    let mut short = tunnels.open(SHORT, 1024).await;
    for _ in 0..10 {
        tunnels.sweep();
    }
    let mut unread = Vec::new();
    for _ in 0..3 {
        unread.push(tunnels.open(ENDLESS, WINDOW).await);
    }
    tunnels.sweep();
    tunnels.sweep();
    assert_eq!(tunnels.resets(), 2);
    assert!(!is_reset(&mut short).await);
}

#[tokio::test]
async fn reset_wakes_a_blocked_writer() {
    let tunnels = tunnels(1).await;
    let mut stream = tunnels.open(ENDLESS, WINDOW).await;
    let writing = tokio::spawn(async move { stream.write_all(&vec![0; WINDOW]).await });
    // Until the agent's window is full.
    for _ in 0..1000 {
        yield_now().await;
    }
    assert!(!writing.is_finished());
    tunnels.sweep();
    tunnels.sweep();
    let error = timeout(SOON, writing).await.unwrap().unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{error}");
}

#[tokio::test]
async fn closed_connections_are_forgotten() {
    let tunnels = tunnels(WINDOW).await;
    drop(tunnels.open(ENDLESS, WINDOW).await);
    let _open = tunnels.open(ENDLESS, WINDOW).await;
    tunnels.sweep();
    tunnels.sweep();
    assert_eq!(tunnels.watched(), 1);
    assert_eq!(tunnels.resets(), 0);
}

#[tokio::test(start_paused = true)]
async fn sweeps_repeat_on_their_own() {
    let tunnels = tunnels(1).await;
    let _running = AbortOnDropHandle::new(tokio::spawn(tunnels.tunnels.unread().clone().run()));
    for resets in 1..=2 {
        let mut stream = tunnels.open(ENDLESS, WINDOW).await;
        for _ in 0..2 {
            advance(INTERVAL).await;
            yield_now().await;
        }
        assert!(is_reset(&mut stream).await);
        assert_eq!(tunnels.resets(), resets);
    }
}

#[test]
fn resets_are_in_the_metrics() {
    let mut registry = Registry::default();
    UnreadLimit::of_replica().register(&mut registry);
    let text = crate::observe::metrics::text(&registry);
    assert!(text.contains("\nmc_sidecar_unread_connections_reset_total 0\n"), "{text}");
}

/// Each frame takes additional memory, and an agent can send hundreds of thousands within the
/// windows.
#[tokio::test]
async fn fault_66_small_frames_are_gathered_as_they_arrive() {
    let tunnels = tunnels(usize::MAX).await;
    let mut stream = tunnels.open(TINY, WINDOW / 4).await;
    assert!(stream.unread() - stream.gathered() <= MAX_IN_A_READ, "{}", stream.unread() - stream.gathered());
    let unread = stream.unread();
    timeout(SOON, stream.read_exact(&mut vec![0; 2 * unread])).await.unwrap().unwrap();
}

#[tokio::test]
async fn fault_66_caller_above_the_share_loses_only_own_connections() {
    let tunnels =
        tunnels_within(Bounds { total: 100 * WINDOW, caller: 4 * WINDOW, cluster: 100 * WINDOW }).await;
    let (mallory, jane) = (Caller::of_hash(1), Caller::of_hash(2));
    // Late for longer than all others.
    let mut victim = tunnels.open(ENDLESS, WINDOW).await;
    victim.directions().serves(jane);
    tunnels.sweep();
    tunnels.sweep();
    let mut unread = Vec::new();
    for _ in 0..6 {
        let stream = tunnels.open(ENDLESS, WINDOW).await;
        stream.directions().serves(mallory);
        unread.push(stream);
    }
    tunnels.sweep();
    tunnels.sweep();
    assert_eq!(tunnels.resets(), 3);
    assert!(!is_reset(&mut victim).await);
}

#[tokio::test]
async fn fault_66_unread_frames_of_late_connections_are_gathered() {
    let tunnels = tunnels(usize::MAX).await;
    let mut stream = tunnels.open(ENDLESS, WINDOW).await;
    tunnels.sweep();
    assert_eq!(stream.gathered(), 0, "its reader may keep up");
    let unread = stream.unread();
    tunnels.sweep();
    assert_eq!((stream.gathered(), stream.unread()), (unread, unread));
    timeout(SOON, stream.read_exact(&mut vec![0; 2 * unread])).await.unwrap().unwrap();
    assert_eq!(stream.gathered(), 0);
}
