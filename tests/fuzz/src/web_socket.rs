//! Fuzzes the bytes that an agent sends in its tunnel's WebSocket, against a reader that works frame by
//! frame. The payload is the same no matter how the bytes are split in transit, and a violation of
//! RFC 6455 is an error at the same place.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use sidecar::outbound::tunnel::web_socket::{Role, WebSocket};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

pub fn run(input: &[u8]) {
    let [cut, bytes @ ..] = input else { return };
    let mut stream = WebSocket::new(Cut { bytes, most: usize::from(*cut).max(1) }, Role::Server);
    let (mut read, mut buffer) = (Vec::new(), [0; 700]);
    let failed = loop {
        let mut part = ReadBuf::new(&mut buffer);
        match Pin::new(&mut stream).poll_read(&mut Context::from_waker(Waker::noop()), &mut part) {
            Poll::Ready(Ok(())) if part.filled().is_empty() => break false,
            Poll::Ready(Ok(())) => read.extend_from_slice(part.filled()),
            Poll::Ready(Err(error)) => {
                assert_eq!(error.kind(), io::ErrorKind::InvalidData);
                break true;
            }
            Poll::Pending => unreachable!("nothing is waited for"),
        }
    };
    assert_eq!((read, failed), slowly(bytes));
}

/// The payloads, and whether a frame violates the protocol.
fn slowly(mut bytes: &[u8]) -> (Vec<u8>, bool) {
    let (mut read, mut fragmented) = (Vec::new(), false);
    loop {
        let Some(head) = bytes.get(..2) else { return (read, false) };
        let (fin, reserved, opcode) = (head[0] >> 7 == 1, head[0] >> 4 & 7, head[0] & 15);
        let (masked, short) = (head[1] >> 7 == 1, head[1] & 127);
        let is_control = opcode >= 8;
        if reserved != 0 || ![0, 2, 8, 9, 10].contains(&opcode) {
            return (read, true);
        }
        let extended = match short {
            126 => 2,
            127 => 8,
            _ => 0,
        };
        let Some(rest) = bytes.get(2..2 + extended) else { return (read, false) };
        let length = match extended {
            0 => u64::from(short),
            _ => rest.iter().fold(0, |length, byte| length << 8 | u64::from(*byte)),
        };
        let is_shortest = match extended {
            0 => true,
            2 => length >= 126,
            _ => length >= 65_536,
        };
        if !is_shortest || length > 65_536 || (is_control && (!fin || extended > 0)) {
            return (read, true);
        }
        if !masked {
            return (read, true);
        }
        let Some(mask) = bytes.get(2 + extended..6 + extended) else { return (read, false) };
        if !is_control && (opcode == 0) != fragmented {
            return (read, true);
        }
        let payload = &bytes[6 + extended..];
        let length = usize::try_from(length).expect("it is small");
        let is_whole = payload.len() >= length;
        let payload = &payload[..length.min(payload.len())];
        if is_control {
            if !is_whole || opcode == 8 {
                return (read, false);
            }
        } else {
            fragmented = !fin;
            read.extend(payload.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask));
            if !is_whole {
                return (read, false);
            }
        }
        bytes = &bytes[6 + extended + length..];
    }
}

/// Bytes that arrive a few at a time; written bytes are discarded.
struct Cut<'a> {
    bytes: &'a [u8],
    most: usize,
}

impl AsyncRead for Cut<'_> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let length = self.bytes.len().min(self.most).min(buf.remaining());
        let (now, later) = self.bytes.split_at(length);
        buf.put_slice(now);
        self.bytes = later;
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Cut<'_> {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Poll::Ready(Ok(buf.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
