//! A stream of bytes in WebSocket binary messages (RFC 6455), for an agent's tunnel. The boundaries of
//! messages have no meaning, and the content has its own framing.
//!
//! This is stricter than the RFC where the agent and the sidecar need no more: only binary
//! messages, no extensions, no frame with more than [`MAX_PAYLOAD`], and a limit on frames without
//! data.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};

use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::{Buf, BufMut, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};
use tokio_util::io::poll_read_buf;

use super::frame_limit::Rate;
use super::protocol::MAX_HEAD;
use crate::base::random;

mod header;

use header::{Header, Opcode};

/// The side of a connection, which determines whose frames are masked (RFC 6455, 5.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    Client,
    Server,
}

/// The bytes in the binary messages of a connection after its handshake.
#[derive(Debug)]
pub struct WebSocket<S> {
    io: S,
    role: Role,
    /// Received and not read yet.
    input: BytesMut,
    /// The frame that is being read.
    frame: Option<Payload>,
    /// Whether the message continues in the next frame.
    is_fragmented: bool,
    has_ended: bool,
    /// Encoded and not sent yet.
    output: BytesMut,
    /// The answer to the last ping: earlier ones need none (RFC 6455, 5.5.3).
    pong: Option<Vec<u8>>,
    has_closed: bool,
    heard: Arc<AtomicBool>,
    /// Limits frames without data: each costs work, and a ping needs an answer.
    without_data: Rate<MAX_WITHOUT_DATA>,
}

/// The remaining payload of a data frame.
#[derive(Debug)]
struct Payload {
    left: usize,
    mask: Mask,
}

/// A masking key, rotated to the next byte of the payload.
#[derive(Clone, Copy, Debug)]
struct Mask([u8; 4]);

/// The value of `Sec-WebSocket-Accept` for a `Sec-WebSocket-Key` (RFC 6455, 4.2.2).
pub(crate) fn accept(key: &[u8]) -> String {
    let answered = digest(&SHA1_FOR_LEGACY_USE_ONLY, &[key, GUID].concat());
    STANDARD.encode(answered)
}

/// A new `Sec-WebSocket-Key`.
pub(crate) fn key() -> String {
    STANDARD.encode([random::bits().to_ne_bytes(), random::bits().to_ne_bytes()].concat())
}

impl<S> WebSocket<S> {
    /// For a connection after its handshake.
    pub fn new(io: S, role: Role) -> Self {
        Self {
            io,
            role,
            input: BytesMut::new(),
            frame: None,
            is_fragmented: false,
            has_ended: false,
            output: BytesMut::new(),
            pong: None,
            has_closed: false,
            heard: Arc::default(),
            without_data: Rate::default(),
        }
    }

    /// Set whenever data arrives from the other end.
    pub(crate) fn heard(&self) -> Arc<AtomicBool> {
        self.heard.clone()
    }

    /// Removes the next frame from the input, if it has arrived: only the header of a data frame,
    /// but all of any other frame.
    fn next_frame(&mut self) -> io::Result<bool> {
        let Some(header) = Header::parse(&self.input)? else { return Ok(false) };
        if header.mask.is_some() != (self.role == Role::Server) {
            return Err(invalid("a frame is masked by the wrong side"));
        }
        let mask = Mask(header.mask.unwrap_or_default());
        if header.opcode.is_control() {
            if self.input.len() < header.length + header.payload {
                return Ok(false);
            }
            self.count_without_data()?;
            self.input.advance(header.length);
            let mut payload = self.input.split_to(header.payload);
            let mut mask = mask;
            mask.apply(&mut payload);
            match header.opcode {
                Opcode::Close => self.has_ended = true,
                Opcode::Ping => self.pong = Some(payload.to_vec()),
                _ => {}
            }
            return Ok(true);
        }
        match (header.opcode, self.is_fragmented) {
            (Opcode::Continuation, true) | (Opcode::Binary, false) => {}
            _ => return Err(invalid("a frame is not part of a binary message")),
        }
        if header.payload == 0 {
            self.count_without_data()?;
        }
        self.is_fragmented = !header.is_final;
        self.input.advance(header.length);
        self.frame = Some(Payload { left: header.payload, mask });
        Ok(true)
    }

    fn count_without_data(&mut self) -> io::Result<()> {
        match self.without_data.admits() {
            true => Ok(()),
            false => Err(invalid("too many frames without data in a second")),
        }
    }

    fn encode(&mut self, opcode: Opcode, parts: &[&[u8]]) {
        let mask = (self.role == Role::Client).then(random_mask);
        let length = parts.iter().map(|part| part.len()).sum();
        self.output.reserve(MAX_HEAD + length);
        Header::encode(opcode, length, mask, &mut self.output);
        let mut mask = Mask(mask.unwrap_or_default());
        // Masked in small pieces, while they are in the cache.
        for piece in parts.iter().flat_map(|part| part.chunks(4096)) {
            let begin = self.output.len();
            self.output.put_slice(piece);
            mask.apply(&mut self.output[begin..]);
        }
    }
}

impl<S: AsyncWrite + Unpin> WebSocket<S> {
    /// Sends the encoded data.
    fn poll_drain(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            while !self.output.is_empty() {
                let written = ready!(Pin::new(&mut self.io).poll_write(cx, &self.output))?;
                if written == 0 {
                    return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
                }
                self.output.advance(written);
            }
            // Only after all earlier output: an answer for each ping would be unbounded if the peer
            // does not read.
            let Some(payload) = self.pong.take() else { break };
            self.encode(Opcode::Pong, &[&payload]);
        }
        // Releases the buffer, like that of the input.
        self.output = BytesMut::new();
        Poll::Ready(Ok(()))
    }

    /// Writes a message without a copy of it, if it is not masked and nothing waits before it.
    fn write_through(&mut self, cx: &mut Context<'_>, parts: [&[u8]; 2], length: usize) -> io::Result<bool> {
        if self.role == Role::Client || !self.output.is_empty() || self.pong.is_some() {
            return Ok(false);
        }
        Header::encode(Opcode::Binary, length, None, &mut self.output);
        let bufs = [&self.output, parts[0], parts[1]].map(IoSlice::new);
        let Poll::Ready(written) = Pin::new(&mut self.io).poll_write_vectored(cx, &bufs)? else {
            self.output.clear();
            return Ok(false);
        };
        let head = written.min(self.output.len());
        self.output.advance(head);
        let mut written = written - head;
        for part in parts {
            let length = written.min(part.len());
            self.output.extend_from_slice(&part[length..]);
            written -= length;
        }
        Ok(true)
    }

    /// Answers a ping even if nothing else is written. Bytes that cannot be sent now are sent with
    /// the next data.
    fn answer_ping(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        if self.pong.is_none() || !self.output.is_empty() {
            return Ok(());
        }
        match self.poll_drain(cx) {
            Poll::Ready(Ok(())) => match Pin::new(&mut self.io).poll_flush(cx) {
                Poll::Ready(Err(error)) => Err(error),
                _ => Ok(()),
            },
            Poll::Ready(Err(error)) => Err(error),
            Poll::Pending => Ok(()),
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for WebSocket<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        loop {
            if this.has_ended || buf.remaining() == 0 {
                return Poll::Ready(Ok(()));
            }
            if this.frame.as_ref().is_some_and(|frame| frame.left == 0) {
                this.frame = None;
            }
            if this.frame.is_none() && this.next_frame()? {
                this.answer_ping(cx)?;
                continue;
            }
            match &mut this.frame {
                Some(frame) if !this.input.is_empty() => {
                    let length = frame.left.min(this.input.len()).min(buf.remaining());
                    frame.left -= length;
                    let payload = &mut this.input[..length];
                    frame.mask.apply(payload);
                    buf.put_slice(payload);
                    this.input.advance(length);
                    this.heard.store(true, Ordering::Relaxed);
                    return Poll::Ready(Ok(()));
                }
                // Straight into the reader's buffer.
                Some(frame) => {
                    let before = buf.filled().len();
                    let mut payload = (&mut this.io).take(frame.left as u64);
                    ready!(Pin::new(&mut payload).poll_read(cx, buf))?;
                    let read = &mut buf.filled_mut()[before..];
                    match read.is_empty() {
                        // The HTTP/2 layer detects a truncated stream.
                        true => this.has_ended = true,
                        false => this.heard.store(true, Ordering::Relaxed),
                    }
                    frame.left -= read.len();
                    frame.mask.apply(read);
                    return Poll::Ready(Ok(()));
                }
                None => {
                    this.input.reserve(BUFFER);
                    match poll_read_buf(Pin::new(&mut this.io), cx, &mut this.input)? {
                        Poll::Ready(0) => {
                            // The HTTP/2 layer detects a truncated stream.
                            this.has_ended = true;
                        }
                        Poll::Ready(_) => {}
                        Poll::Pending => {
                            // Thousands of tunnels are idle, and each would keep a buffer.
                            if this.input.is_empty() {
                                this.input = BytesMut::new();
                            }
                            return Poll::Pending;
                        }
                    }
                }
            }
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for WebSocket<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[IoSlice::new(buf)])
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if self.has_closed {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        if self.output.len() >= BUFFER {
            ready!(self.poll_drain(cx))?;
        }
        // HTTP/2 writes the head of a frame and its payload.
        let mut parts = [&[][..]; 2];
        let mut room = MAX_PAYLOAD;
        for (part, buf) in parts.iter_mut().zip(bufs.iter().filter(|buf| !buf.is_empty())) {
            *part = &buf[..buf.len().min(room)];
            room -= part.len();
        }
        let length = MAX_PAYLOAD - room;
        if length > 0 && !self.write_through(cx, parts, length)? {
            self.encode(Opcode::Binary, &parts);
        }
        Poll::Ready(Ok(length))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_drain(cx))?;
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !self.has_closed {
            self.has_closed = true;
            self.encode(Opcode::Close, &[&NORMAL_CLOSURE.to_be_bytes()]);
        }
        ready!(self.poll_drain(cx))?;
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}

impl Mask {
    /// Masks or unmasks the next bytes of a payload.
    fn apply(&mut self, bytes: &mut [u8]) {
        if self.0 == [0; 4] {
            return;
        }
        let [a, b, c, d] = self.0;
        let key = u64::from_ne_bytes([a, b, c, d, a, b, c, d]);
        let (words, rest) = bytes.as_chunks_mut::<8>();
        for word in words {
            *word = (u64::from_ne_bytes(*word) ^ key).to_ne_bytes();
        }
        for (byte, key) in rest.iter_mut().zip(self.0.into_iter().cycle()) {
            *byte ^= key;
        }
        self.0.rotate_left(bytes.len() % 4);
    }
}

fn random_mask() -> [u8; 4] {
    let [a, b, c, d, ..] = random::bits().to_ne_bytes();
    [a, b, c, d]
}

fn invalid(why: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("invalid WebSocket: {why}"))
}

const GUID: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
/// The largest payload of a frame. Proxies in between may split messages, but do not merge them.
const MAX_PAYLOAD: usize = 64 * 1024;
/// Per second. Proxies in between may send a ping every few seconds.
const MAX_WITHOUT_DATA: u32 = 1_000;
/// RFC 6455, 7.4.1
const NORMAL_CLOSURE: u16 = 1000;
/// The size of a TLS record.
const BUFFER: usize = 16 * 1024;

#[cfg(test)]
mod tests;
