//! Tests of the gate of a connection below hyper and h2.

use std::convert::Infallible;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper::service::service_fn;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, ReadHalf, WriteHalf, duplex, split};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::connection::places::Proof;
use crate::limits::cutoff::Cutoff;
use crate::limits::in_flight::Caller;
use crate::limits::upload::Upload;
use crate::limits::upload::direct::DirectUploads;
use crate::server::listener::h2_connection::Connection;
use crate::server::listener::streams::Streams;

/// A request as the service receives it.
struct Accepted {
    /// The stream's number, from a header of the client.
    sent_on: u32,
    body: Upload,
    cutoff: Arc<Cutoff>,
}

/// The client's end of a connection. The service answers no request.
struct Client {
    write: WriteHalf<DuplexStream>,
    accepted: mpsc::UnboundedReceiver<Accepted>,
    frames: JoinHandle<Vec<(u8, u32)>>,
    next: u32,
}

impl Client {
    /// A front proxy.
    async fn connect() -> Self {
        Self::connect_as(Proof::FrontProxy, Account::Streams(Arc::default())).await
    }

    /// A direct caller, and the count of its frames.
    async fn connect_directly() -> (Self, Arc<ConnectionFrames>) {
        let frames = DirectUploads::default().connection(Caller::of_hash(1));
        (Self::connect_as(Proof::User, Account::Connection(frames.clone())).await, frames)
    }

    async fn connect_as(proof: Proof, account: Account) -> Self {
        let (near, far) = duplex(1024 * 1024);
        let peer = Arc::new(Peer::new(([127, 0, 0, 1], 1).into(), None, None));
        peer.mark_authenticated();
        let streams = Streams::default();
        let executor = streams.clone();
        let (accept, accepted) = mpsc::unbounded_channel();
        let counted = account.clone();
        let service = service_fn(move |request: Request<Incoming>| {
            let cutoff = streams.begin();
            let sent_on = request.headers()["x-stream"].to_str().unwrap().parse().unwrap();
            let body = Upload::new(request.into_body(), Some(&counted), &cutoff);
            accept.send(Accepted { sent_on, body, cutoff }).unwrap();
            std::future::pending::<Result<Response<Empty<Bytes>>, Infallible>>()
        });
        tokio::spawn(async move {
            let connection = Connection { stream: far, account, proof, peer: &peer, streams: executor };
            connection.serve(service, &CancellationToken::new()).await
        });
        let (read, mut write) = split(near);
        write.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await.unwrap();
        let mut client = Self { write, accepted, frames: tokio::spawn(frames(read)), next: 1 };
        client.send(&frame(SETTINGS, 0, 0, b"")).await;
        client
    }

    async fn send(&mut self, bytes: &[u8]) {
        self.write.write_all(bytes).await.unwrap();
    }

    /// The frame of a request, and its stream.
    fn request(&mut self, path: &str) -> (u32, Vec<u8>) {
        let stream = self.next;
        self.next += 2;
        let lines = [
            (":method", "POST"),
            (":scheme", "https"),
            (":authority", "x"),
            (":path", path),
            ("x-stream", &stream.to_string()),
        ];
        let literal = |(name, value): &(&str, &str)| {
            let text = |text: &str| [&[u8::try_from(text.len()).unwrap()], text.as_bytes()].concat();
            [vec![0], text(name), text(value)].concat()
        };
        (stream, frame(HEADERS, END_HEADERS, stream, &lines.iter().flat_map(literal).collect::<Vec<_>>()))
    }

    async fn accepted(&mut self) -> Accepted {
        timeout(Duration::from_secs(60), self.accepted.recv()).await.unwrap().unwrap()
    }

    /// The kinds and streams of the frames that the server sent, after the client closed.
    async fn end(mut self) -> Vec<(u8, u32)> {
        self.write.shutdown().await.unwrap();
        self.frames.await.unwrap()
    }
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// Reads the frames of a server until it closes.
async fn frames(mut read: ReadHalf<DuplexStream>) -> Vec<(u8, u32)> {
    let mut frames = Vec::new();
    let mut head = [0; 9];
    while read.read_exact(&mut head).await.is_ok() {
        let [a, b, c, kind, _, id @ ..] = head;
        let mut payload = vec![0; u32::from_be_bytes([0, a, b, c]) as usize];
        read.read_exact(&mut payload).await.unwrap();
        frames.push((kind, u32::from_be_bytes(id)));
    }
    frames
}

#[tokio::test]
async fn requests_know_their_streams_beside_refused_ones() {
    let mut client = Client::connect().await;
    let mut expected = Vec::new();
    let mut bytes = Vec::new();
    for number in 0..120 {
        let (stream, head) = client.request(if number % 4 == 0 { "" } else { "/" });
        bytes.extend(head);
        // A path may not be empty, so the server resets the stream.
        if number % 4 > 0 {
            expected.push(stream);
        }
        if number % 4 == 1 {
            bytes.extend(frame(RST_STREAM, 0, stream, &[0, 0, 0, 8]));
        }
    }
    client.send(&bytes).await;
    let mut all = Vec::new();
    for stream in expected {
        let accepted = client.accepted().await;
        assert_eq!((accepted.sent_on, accepted.body.stream()), (stream, Some(stream)));
        all.push(accepted);
    }
    // More requests than the server takes at once.
    let bytes: Vec<u8> = (0..300).flat_map(|_| client.request("/").1).collect();
    client.send(&bytes).await;
    drop(all.drain(..10));
    let (last, head) = client.request("/");
    client.send(&head).await;
    while let Ok(Some(accepted)) = timeout(Duration::from_secs(1), client.accepted.recv()).await {
        assert_eq!(accepted.body.stream(), Some(accepted.sent_on));
        all.push(accepted);
    }
    assert!(all.len() < 300, "none was refused, up to {last}");
    let frames = client.end().await;
    assert!(frames.iter().any(|(kind, _)| *kind == RST_STREAM), "none was reset");
}

#[tokio::test]
async fn fault_37_flood_of_small_frames_ends_only_its_own_request() {
    let mut client = Client::connect().await;
    let (slow, head) = client.request("/");
    client.send(&head).await;
    client.send(&frame(DATA, 0, slow, b"slow ")).await;
    let mut jane = client.accepted().await;
    jane.body.charge(Caller::of_hash(1));
    for _ in 0..3 {
        let (flood, head) = client.request("/");
        client.send(&head).await;
        let eve = client.accepted().await;
        eve.body.charge(Caller::of_hash(2));
        client.send(&frame(DATA, 0, flood, b"x").repeat(60_000)).await;
        let cut = std::future::poll_fn(|cx| eve.cutoff.poll_cut(cx));
        timeout(Duration::from_secs(60), cut).await.expect("the flood goes on");
    }
    assert!(jane.cutoff.poll_cut(&Context::from_waker(std::task::Waker::noop())).is_pending());
    client.send(&frame(DATA, END_STREAM, slow, b"writer")).await;
    let body = (&mut jane.body).collect().await.unwrap().to_bytes();
    assert_eq!(body, "slow writer");
    drop(jane);
    let frames = client.end().await;
    assert!(frames.iter().all(|(kind, _)| *kind != GOAWAY), "{frames:?}");
}

#[tokio::test]
async fn fault_37_direct_flood_of_small_frames_ends_its_connection() {
    let (mut client, frames) = Client::connect_directly().await;
    let (flood, head) = client.request("/");
    client.send(&head).await;
    let _eve = client.accepted().await;
    // A frame of an unknown type is ignored, and fills the read buffer that the small one keeps.
    let small = [frame(DATA, 0, flood, b"x"), frame(UNKNOWN, 0, 0, &[0; 8 * 1024])].concat();
    let mut sent = 0;
    while client.write.write_all(&small).await.is_ok() {
        sent += 1;
    }
    assert!((2_500..4_000).contains(&sent), "{sent}");
    assert!(frames.unread() < 25 * 1024 * 1024);
}

#[tokio::test]
async fn direct_connection_ends_when_its_frames_are_too_many() {
    let (mut client, frames) = Client::connect_directly().await;
    let (_, head) = client.request("/");
    client.send(&head).await;
    let _eve = client.accepted().await;
    frames.cutoff().cut();
    // This is before the server notices that its pings are not answered.
    timeout(Duration::from_secs(10), &mut client.frames).await.expect("it goes on").unwrap();
}

#[tokio::test]
async fn read_or_dropped_body_is_not_unread() {
    let (mut client, frames) = Client::connect_directly().await;
    for is_read in [true, false] {
        let (stream, head) = client.request("/");
        client.send(&head).await;
        client.send(&frame(DATA, 0, stream, b"x").repeat(1_000)).await;
        let mut upload = client.accepted().await.body;
        // An entry for each frame, and at least the first read buffer.
        while frames.unread() < 1_000 * 256 + 8 * 1024 {
            tokio::task::yield_now().await;
        }
        if is_read {
            client.send(&frame(DATA, END_STREAM, stream, b"")).await;
            assert_eq!((&mut upload).collect().await.unwrap().to_bytes().len(), 1_000);
        } else {
            drop(upload);
        }
        assert_eq!(frames.unread(), 0);
    }
}

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const GOAWAY: u8 = 7;
const UNKNOWN: u8 = 0xee;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
