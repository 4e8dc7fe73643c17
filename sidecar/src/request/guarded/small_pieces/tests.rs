//! Tests of small pieces below hyper and h2.

use std::convert::Infallible;
use std::future::ready;
use std::time::Duration;

use futures_util::{StreamExt, stream};
use http::{HeaderMap, Request, Response, Version};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout};

use super::*;
use crate::outbound::body;
use crate::request::guarded::{Guarded, tests::record};

/// A client with a wide window, and the frames of its request's answer.
struct Client {
    stream: DuplexStream,
    events: Option<mpsc::Sender<Bytes>>,
    /// Whether the answer has ended.
    ended: bool,
}

impl Client {
    async fn connect() -> Self {
        let (stream, far) = duplex(1024);
        let (events, body) = mpsc::channel(BYTES);
        let body = Guarded::new(body::Body::Stream(body), record(), Version::HTTP_2);
        let body = std::cell::Cell::new(Some(body));
        let service = service_fn(move |_: Request<Incoming>| {
            ready(Ok::<_, Infallible>(Response::new(body.take().expect("there is one request"))))
        });
        let mut builder = http2::Builder::new(TokioExecutor::new());
        builder.max_send_buf_size(BYTES);
        tokio::spawn(builder.serve_connection(TokioIo::new(far), service));
        let mut client = Self { stream, events: Some(events), ended: false };
        let most = (i32::MAX as u32).to_be_bytes();
        let frames = [
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(),
            frame(SETTINGS, 0, 0, &[&[0, INITIAL_WINDOW_SIZE], &most[..]].concat()),
            frame(WINDOW_UPDATE, 0, 0, &(1_u32 << 30).to_be_bytes()),
            // GET https://x/ in HPACK.
            frame(HEADERS, END_STREAM | END_HEADERS, 1, &[0x82, 0x87, 0x84, 0x41, 1, b'x']),
        ];
        client.stream.write_all(&frames.concat()).await.unwrap();
        client
    }

    /// Sends events of one byte, and waits until there is no more progress.
    async fn send(&self, bytes: &[u8]) {
        for byte in bytes {
            self.events.as_ref().unwrap().try_send(Bytes::copy_from_slice(&[*byte])).unwrap();
        }
        sleep(Duration::from_secs(1)).await;
    }

    /// The payload of the next DATA frame, which must be there.
    async fn read(&mut self) -> Vec<u8> {
        let reading = async {
            loop {
                let mut head = [0; 9];
                self.stream.read_exact(&mut head).await.unwrap();
                let [a, b, c, kind, flags, ..] = head;
                let mut payload = vec![0; u32::from_be_bytes([0, a, b, c]) as usize];
                self.stream.read_exact(&mut payload).await.unwrap();
                if kind == DATA {
                    self.ended = flags & END_STREAM != 0;
                    return payload;
                }
            }
        };
        timeout(Duration::from_secs(60), reading).await.expect("it hangs")
    }

    /// The lengths of the frames in which these bytes arrive.
    async fn read_all(&mut self, bytes: &[u8]) -> Vec<usize> {
        let (mut read, mut lengths) = (Vec::new(), Vec::new());
        while read.len() < bytes.len() {
            let payload = self.read().await;
            lengths.push(payload.len());
            read.extend(payload);
        }
        assert!(read == bytes, "other bytes");
        lengths
    }
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

fn bytes(length: usize) -> Vec<u8> {
    (0..length).map(|n| (n % 251) as u8).collect()
}

#[tokio::test(start_paused = true)]
async fn fault_37_single_bytes_are_joined_while_nothing_is_read() {
    let mut client = Client::connect().await;
    let sent = bytes(BYTES);
    client.send(&sent).await;
    client.events = None;
    let frames = client.read_all(&sent).await.len();
    // h2 writes ahead into a buffer of 16 KiB.
    assert!(frames < 2_000, "{frames} frames waited");
    assert!(client.ended, "the answer does not end");
}

#[tokio::test(start_paused = true)]
async fn event_goes_out_at_once_to_a_client_that_reads() {
    let mut client = Client::connect().await;
    for byte in bytes(1000) {
        client.events.as_ref().unwrap().try_send(Bytes::copy_from_slice(&[byte])).unwrap();
        let begun = Instant::now();
        assert_eq!(client.read().await, [byte]);
        assert_eq!(begun.elapsed(), Duration::ZERO);
    }
}

#[tokio::test(start_paused = true)]
async fn joined_pieces_go_out_when_the_client_reads_again() {
    let mut client = Client::connect().await;
    let sent = bytes(5_000);
    client.send(&sent).await;
    let lengths = client.read_all(&sent).await;
    assert!(lengths.iter().any(|length| *length > 1), "none was joined");
    client.send(b"x").await;
    assert_eq!(client.read().await, b"x");
}

/// A body of single bytes, and what follows them.
fn body(
    last: impl IntoIterator<Item = Result<Frame<Bytes>, &'static str>>,
) -> SmallPieces<impl Body<Data = Bytes, Error = &'static str> + Unpin> {
    let byte = |n: usize| Ok(Frame::data(Bytes::from(vec![n as u8])));
    let frames: Vec<_> = (0..MAX_WAITING + 8).map(byte).chain(last).collect();
    SmallPieces::new(StreamBody::new(stream::iter(frames)), true)
}

/// The frames that are sent while none is written.
async fn first<B: Body<Data = Bytes, Error = &'static str> + Unpin>(
    body: &mut SmallPieces<B>,
) -> Vec<Frame<Bytes>> {
    let mut first = Vec::new();
    while first.len() < MAX_WAITING {
        first.push(body.frame().await.unwrap().unwrap());
        assert_eq!(first.last().unwrap().data_ref().unwrap().len(), 1);
    }
    first
}

#[tokio::test]
async fn trailers_and_large_pieces_follow_joined_pieces() {
    let large = Bytes::from(bytes(LARGE));
    let trailers = HeaderMap::from_iter([(http::header::AGE, http::HeaderValue::from(1))]);
    for next in [Frame::data(large.clone()), Frame::trailers(trailers)] {
        let is_data = next.is_data();
        let mut body = body([Ok(next)]);
        let _first = first(&mut body).await;
        let joined = body.frame().await.unwrap().unwrap().into_data().unwrap();
        assert_eq!(joined, (32..40).collect::<Vec<u8>>());
        assert!(!body.is_end_stream());
        let next = body.frame().await.unwrap().unwrap();
        assert_eq!(next.is_data(), is_data);
        assert!(body.frame().await.is_none());
    }
}

#[tokio::test]
async fn error_is_not_delayed_by_joined_pieces() {
    let mut body = body([Err("broken")]);
    let _first = first(&mut body).await;
    assert_eq!(body.frame().await.unwrap().unwrap_err(), "broken");
}

#[tokio::test(start_paused = true)]
async fn written_piece_wakes_the_answer() {
    let frame = |_| Ok::<_, &str>(Frame::data(Bytes::from_static(b"x")));
    let frames: Vec<_> = (0..=MAX_WAITING).map(frame).collect();
    let endless = stream::iter(frames).chain(stream::pending());
    let mut body = SmallPieces::new(StreamBody::new(endless), true);
    let mut held = first(&mut body).await;
    let next = tokio::spawn(async move { body.frame().await.unwrap().unwrap() });
    sleep(Duration::from_secs(1)).await;
    assert!(!next.is_finished());
    held.pop();
    timeout(Duration::from_secs(1), next).await.expect("it was not woken").unwrap();
}

#[tokio::test]
async fn joined_pieces_are_limited() {
    let mut body = body((0..LARGE).map(|_| Ok(Frame::data(Bytes::from_static(b"x")))));
    let _first = first(&mut body).await;
    let joined = body.frame().await.unwrap().unwrap().into_data().unwrap();
    assert_eq!(joined.len(), LARGE);
}

#[tokio::test]
async fn answer_with_waiting_pieces_is_not_taken() {
    let (events, body) = mpsc::channel(BYTES);
    let record = record();
    let mut body = Guarded::new(body::Body::Stream(body), record.clone(), Version::HTTP_2);
    let mut poll = || {
        events.try_send(Bytes::from_static(b"x")).unwrap();
        let mut frames = Vec::new();
        let mut cx = Context::from_waker(std::task::Waker::noop());
        while let Poll::Ready(Some(Ok(frame))) = Pin::new(&mut body).poll_frame(&mut cx) {
            frames.push(frame);
        }
        frames
    };
    let mut held = Vec::new();
    while held.len() < MAX_WAITING {
        held.extend(poll());
        assert!(record.hold().cutoff().is_taken());
    }
    assert!(poll().is_empty() && !record.hold().cutoff().is_taken());
    held.clear();
    assert!(!poll().is_empty() && record.hold().cutoff().is_taken());
}

const BYTES: usize = 64 * 1024;
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const WINDOW_UPDATE: u8 = 8;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
const INITIAL_WINDOW_SIZE: u8 = 4;
