use std::time::Duration;

use futures_util::FutureExt;
use futures_util::{SinkExt, StreamExt};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::time::timeout;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::Role as OtherRole;

use super::*;

/// One side with this implementation, and the other with a library's.
async fn beside(role: Role, buffer: usize) -> (WebSocket<DuplexStream>, WebSocketStream<DuplexStream>) {
    let (ours, other) = duplex(buffer);
    let other_role = match role {
        Role::Client => OtherRole::Server,
        Role::Server => OtherRole::Client,
    };
    (WebSocket::new(ours, role), WebSocketStream::from_raw_socket(other, other_role, None).await)
}

fn content(length: usize) -> Vec<u8> {
    (0..length).map(|at| u8::try_from(at * 7 % 251).unwrap()).collect()
}

#[test]
fn handshake_answer_matches_the_rfc() {
    assert_eq!(accept(b"dGhlIHNhbXBsZSBub25jZQ=="), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    assert_ne!(key(), key());
    assert_eq!(STANDARD.decode(key()).unwrap().len(), 16);
}

#[tokio::test]
async fn bytes_pass_both_ways_with_another_implementation() {
    for role in [Role::Client, Role::Server] {
        for length in [0, 1, 125, 126, 127, 65_535, 65_536, 65_537, 300_000] {
            let (mut ours, mut other) = beside(role, 999).await;
            let sent = content(length);
            let echo = tokio::spawn(async move {
                let mut read = 0;
                while let Some(Ok(message)) = other.next().await {
                    if let Message::Binary(bytes) = message {
                        read += bytes.len();
                        other.send(Message::Binary(bytes)).await.unwrap();
                    }
                }
                read
            });
            let (mut reader, mut writer) = tokio::io::split(&mut ours);
            let mut back = vec![0; length];
            let write = async {
                writer.write_all(&sent).await.unwrap();
                writer.flush().await.unwrap();
            };
            tokio::join!(write, async { reader.read_exact(&mut back).await.unwrap() });
            assert_eq!(back, sent, "{role:?} {length}");
            ours.shutdown().await.unwrap();
            assert_eq!(ours.read(&mut [0]).await.unwrap(), 0);
            assert_eq!(echo.await.unwrap(), length);
        }
    }
}

#[tokio::test]
async fn ping_is_answered_on_an_idle_connection() {
    let (mut ours, mut other) = beside(Role::Server, 4096).await;
    let reading = tokio::spawn(async move { ours.read(&mut [0]).await });
    other.send(Message::Ping("are you there".into())).await.unwrap();
    let pong = timeout(Duration::from_secs(5), other.next()).await.unwrap().unwrap().unwrap();
    assert_eq!(pong, Message::Pong("are you there".into()));
    other.send(Message::Close(None)).await.unwrap();
    assert_eq!(reading.await.unwrap().unwrap(), 0);
}

/// What a server reads from these bytes, up to the end.
async fn read(bytes: &[u8]) -> io::Result<Vec<u8>> {
    let (ours, mut other) = duplex(1 << 20);
    other.write_all(bytes).await.unwrap();
    other.shutdown().await.unwrap();
    let mut read = Vec::new();
    WebSocket::new(ours, Role::Server).read_to_end(&mut read).await?;
    Ok(read)
}

/// A frame of a client whose mask changes nothing.
fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = BytesMut::new();
    Header::encode(Opcode::Binary, payload.len(), Some([0; 4]), &mut frame);
    frame[0] = first;
    frame.put_slice(payload);
    frame.to_vec()
}

#[tokio::test]
async fn fragments_are_joined_with_control_frames_between() {
    let bytes = [frame(0x02, b"he"), frame(0x89, b"ping"), frame(0x00, b""), frame(0x80, b"llo")].concat();
    assert_eq!(read(&bytes).await.unwrap(), b"hello");
    assert_eq!(read(&[bytes, frame(0x88, b""), frame(0x82, b"more")].concat()).await.unwrap(), b"hello");
}

#[tokio::test]
async fn invalid_frames_end_the_stream() {
    let unmasked = |frame: Vec<u8>| [&[frame[0], frame[1] & 0x7f], &frame[6..]].concat();
    for (why, bytes) in [
        ("text", frame(0x81, b"x")),
        ("reserved opcode", frame(0x83, b"x")),
        ("reserved bit", frame(0xc2, b"x")),
        ("continuation of nothing", frame(0x80, b"x")),
        ("message within a message", [frame(0x02, b"x"), frame(0x82, b"y")].concat()),
        ("unmasked", unmasked(frame(0x82, b"x"))),
        ("oversize", frame(0x82, &vec![0; MAX_PAYLOAD + 1])),
        ("64 bits of length", [&[0x82, 0xff][..], &u64::MAX.to_be_bytes(), &[0; 4]].concat()),
        ("length not in its shortest form", vec![0x82, 0xfe, 0, 1, 0, 0, 0, 0, b'x']),
        ("fragmented ping", frame(0x09, b"x")),
        ("long ping", frame(0x89, &[0; 126])),
    ] {
        let error = read(&bytes).await.map(|read| read.len()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData, "{why}");
    }
}

#[tokio::test]
async fn server_frames_must_not_be_masked() {
    let (ours, mut other) = duplex(4096);
    other.write_all(&frame(0x82, b"x")).await.unwrap();
    let read = WebSocket::new(ours, Role::Client).read(&mut [0]).await;
    assert_eq!(read.unwrap_err().kind(), io::ErrorKind::InvalidData);
}

#[tokio::test]
async fn ping_flood_uses_no_memory() {
    let (ours, mut other) = duplex(1 << 20);
    other.write_all(&frame(0x89, &[b'x'; 125]).repeat(MAX_WITHOUT_DATA as usize)).await.unwrap();
    let mut ours = WebSocket::new(ours, Role::Server);
    assert!(timeout(Duration::from_millis(1), ours.read(&mut [0])).await.is_err());
    assert!(ours.output.capacity() + ours.input.capacity() < 4 * BUFFER);
}

#[tokio::test]
async fn pings_of_a_peer_that_reads_nothing_use_no_memory() {
    let (ours, mut other) = duplex(64);
    let mut ours = WebSocket::new(ours, Role::Server);
    for _ in 0..1000 {
        let ping = frame(0x89, &[b'x'; 50]);
        other.write_all(&ping).await.unwrap();
        assert!(ours.read(&mut [0]).now_or_never().is_none());
        // The HTTP/2 layer does this after each read.
        let _ = ours.flush().now_or_never();
        assert!(ours.output.len() < 200, "{} bytes", ours.output.len());
    }
}

#[test]
fn mask_continues_across_split_payloads() {
    let content = content(1000);
    let slowly = |mask: [u8; 4]| -> Vec<u8> {
        content.iter().zip(mask.into_iter().cycle()).map(|(byte, key)| byte ^ key).collect()
    };
    let key = [0x12, 0x34, 0x56, 0x78];
    for cut in [0, 1, 2, 3, 4, 5, 7, 8, 9, 333] {
        let (mut mask, mut masked) = (Mask(key), content.clone());
        let (head, tail) = masked.split_at_mut(cut);
        mask.apply(head);
        mask.apply(tail);
        assert_eq!(masked, slowly(key), "cut at {cut}");
    }
}

#[tokio::test(start_paused = true)]
async fn frames_without_data_are_rate_limited() {
    for (first, rest) in [(0x89, 0x89), (0x8a, 0x8a), (0x02, 0x00)] {
        let rest = frame(rest, b"");
        let most = [frame(first, b""), rest.repeat(MAX_WITHOUT_DATA as usize - 1)].concat();
        assert_eq!(read(&most).await.unwrap(), b"");
        let error = read(&[&most[..], &rest].concat()).await.unwrap_err();
        assert!(error.to_string().contains("too many frames without data"), "{error}");
    }
}
