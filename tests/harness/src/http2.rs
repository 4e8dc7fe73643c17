//! A client for HTTP/2 over TLS (RFC 9113) that sends and reads single frames, for attacks: it
//! sends what a library would not send, and returns unchanged what arrives. Headers are written as
//! literals (RFC 7541, 6.2.2) without a table. Of the answer's headers, only the status is read.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use crate::http1::{Connection, Endpoint};

/// One frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    pub kind: u8,
    pub flags: u8,
    pub stream: u32,
    pub payload: Vec<u8>,
}

/// What has arrived on one stream so far.
#[derive(Clone, Debug, Default)]
pub struct Stream {
    pub status: Option<u16>,
    pub body: Vec<u8>,
    pub ended: bool,
    /// The error code of the server's RST_STREAM.
    pub reset: Option<u32>,
}

/// One connection.
pub struct Http2 {
    connection: Connection,
    next: u32,
    streams: BTreeMap<u32, Stream>,
    /// The error code of the server's GOAWAY.
    pub goaway: Option<u32>,
    /// Whether the client refills the windows, so that the server may continue to send.
    reads: bool,
}

impl Http2 {
    /// Connects as a client that reads everything it is sent.
    pub fn connect(endpoint: &Endpoint) -> Result<Self> {
        let mut connection = Self::with_settings(endpoint, &[])?;
        connection.reads = true;
        // The initial window of the whole connection is only 64 KiB.
        connection.send(WINDOW_UPDATE, 0, 0, &(1_u32 << 30).to_be_bytes())?;
        Ok(connection)
    }

    /// Connects with these settings, and never refills a window.
    pub fn with_settings(endpoint: &Endpoint, settings: &[(u16, u32)]) -> Result<Self> {
        let mut connection = endpoint.clone().offering(&["h2"]).connect()?;
        connection.send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")?;
        let (streams, goaway) = (BTreeMap::new(), None);
        let mut connection = Self { connection, next: 1, streams, goaway, reads: false };
        // The server must not use a table either, so that each of its statuses is readable by itself.
        let all = [(HEADER_TABLE_SIZE, 0)].iter().chain(settings);
        let payload = all.flat_map(|(name, value)| [&name.to_be_bytes()[..], &value.to_be_bytes()].concat());
        connection.send(SETTINGS, 0, 0, &payload.collect::<Vec<_>>())?;
        Ok(connection)
    }

    /// Sends a frame without checking it.
    pub fn send(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Result<()> {
        self.connection.send(&frame(kind, flags, stream, payload)?)
    }

    /// Sends encoded frames.
    pub fn send_bytes(&mut self, bytes: &[u8]) -> Result<()> {
        self.connection.send(bytes)
    }

    /// A number for a new stream of the client.
    pub fn next_stream(&mut self) -> u32 {
        self.next += 2;
        self.next - 2
    }

    /// Sends a GET of a path.
    pub fn get(&mut self, path: &str, headers: &[(&str, &str)]) -> Result<u32> {
        self.request("GET", path, headers, true)
    }

    /// Sends the head of a request. If `ends`, the request ends with it.
    pub fn request(&mut self, method: &str, path: &str, headers: &[(&str, &str)], ends: bool) -> Result<u32> {
        let pseudo = [(":method", method), (":scheme", "https"), (":authority", "sidecar"), (":path", path)];
        self.head(&[&pseudo, headers].concat(), ends)
    }

    /// Sends a head of exactly these lines.
    pub fn head(&mut self, lines: &[(&str, &str)], ends: bool) -> Result<u32> {
        let stream = self.next_stream();
        let block: Vec<u8> = lines.iter().flat_map(|(name, value)| literal(name, value)).collect();
        let end = if ends { END_STREAM } else { 0 };
        let mut chunks = block.chunks(MAX_FRAME).peekable();
        let mut kind = HEADERS;
        while let Some(chunk) = chunks.next() {
            let last = if chunks.peek().is_none() { END_HEADERS } else { 0 };
            let flags = last | if kind == HEADERS { end } else { 0 };
            self.send(kind, flags, stream, chunk)?;
            kind = CONTINUATION;
        }
        Ok(stream)
    }

    /// Waits until the stream has an answer, complete or reset.
    pub fn answer(&mut self, stream: u32) -> Result<Stream> {
        self.until(stream, |stream| stream.ended || stream.reset.is_some())
    }

    /// Waits until what has arrived on the stream is enough.
    pub fn until(&mut self, stream: u32, enough: impl Fn(&Stream) -> bool) -> Result<Stream> {
        loop {
            if let Some(found) = self.streams.get(&stream).filter(|found| enough(found)) {
                return Ok(found.clone());
            }
            let frame = self.frame()?;
            ensure!(frame.is_some(), "closed ({:?}) before an answer on stream {stream}", self.goaway);
        }
    }

    /// Reads until the server closes, and returns the code of its GOAWAY, if any.
    pub fn end(&mut self) -> Result<Option<u32>> {
        while self.frame()?.is_some() {}
        Ok(self.goaway)
    }

    /// Records the next frame and returns it; none if the server closed.
    pub fn frame(&mut self) -> Result<Option<Frame>> {
        let Some(head) = self.connection.exactly_or_end(9)? else { return Ok(None) };
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        let stream = u32::from_be_bytes([head[5] & 0x7f, head[6], head[7], head[8]]);
        let Some(payload) = self.connection.exactly_or_end(length as usize)? else { return Ok(None) };
        let frame = Frame { kind: head[3], flags: head[4], stream, payload };
        self.note(&frame)?;
        Ok(Some(frame))
    }

    /// Waits until the server has read everything that was sent so far, and records what arrives in
    /// the meantime.
    pub fn sync(&mut self) -> Result<()> {
        let token = u64::from(self.next).to_be_bytes();
        self.send(PING, 0, 0, &token)?;
        loop {
            let Some(frame) = self.frame()? else { bail!("closed ({:?})", self.goaway) };
            if frame.kind == PING && frame.flags & ACK != 0 && frame.payload == token {
                return Ok(());
            }
        }
    }

    /// Sends pings and leaves their answers unread until the server accepts no more. After that,
    /// nothing that the server sends can leave it.
    pub fn fill(&mut self) -> Result<()> {
        let pings = frame(PING, 0, 0, &[0; 8])?.repeat(256);
        self.connection.send_until_held_back(&pings, MOST_PINGS, HELD_BACK)?;
        Ok(())
    }

    /// What has arrived on a stream so far.
    pub fn stream(&self, stream: u32) -> Option<&Stream> {
        self.streams.get(&stream)
    }

    /// The underlying connection.
    pub fn connection(&self) -> &Connection {
        &self.connection
    }

    fn note(&mut self, frame: &Frame) -> Result<()> {
        let stream = self.streams.entry(frame.stream).or_default();
        match frame.kind {
            HEADERS if stream.status.is_none() => stream.status = Some(status(&frame.payload)?),
            DATA => stream.body.extend(&frame.payload),
            RST_STREAM => stream.reset = Some(code(&frame.payload)?),
            GOAWAY => self.goaway = Some(code(frame.payload.get(4..).unwrap_or_default())?),
            _ => {}
        }
        stream.ended |= matches!(frame.kind, HEADERS | DATA) && frame.flags & END_STREAM != 0;
        // A server that sent GOAWAY may already have closed, so it is not an error if these frames
        // cannot be sent.
        match frame.kind {
            SETTINGS if frame.flags & ACK == 0 => drop(self.send(SETTINGS, ACK, 0, &[])),
            PING if frame.flags & ACK == 0 => drop(self.send(PING, ACK, 0, &frame.payload)),
            DATA if self.reads && !frame.payload.is_empty() => {
                let credit = u32::try_from(frame.payload.len())?.to_be_bytes();
                drop(self.send(WINDOW_UPDATE, 0, 0, &credit));
                drop(self.send(WINDOW_UPDATE, 0, frame.stream, &credit));
            }
            _ => {}
        }
        Ok(())
    }
}

/// A frame's bytes.
pub fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Result<Vec<u8>> {
    let length = u32::try_from(payload.len())?.to_be_bytes();
    let head = [&length[1..], &[kind, flags], &stream.to_be_bytes()].concat();
    Ok([&head, payload].concat())
}

/// A header line as a literal that is not put into the table.
pub fn literal(name: &str, value: &str) -> Vec<u8> {
    [vec![0], text(name.as_bytes()), text(value.as_bytes())].concat()
}

/// The same with any bytes as the value.
pub fn literal_bytes(name: &str, value: &[u8]) -> Vec<u8> {
    [vec![0], text(name.as_bytes()), text(value)].concat()
}

/// A header line as a literal that the receiver puts into its table.
pub fn remembered(name: &str, value: &str) -> Vec<u8> {
    [vec![0x40], text(name.as_bytes()), text(value.as_bytes())].concat()
}

/// A string literal without Huffman coding. Its length has a prefix of seven bits (RFC 7541, 5.1).
fn text(text: &[u8]) -> Vec<u8> {
    let mut encoded = Vec::with_capacity(text.len() + 4);
    if text.len() < 127 {
        encoded.push(text.len() as u8);
    } else {
        encoded.push(127);
        let mut rest = text.len() - 127;
        while rest >= 128 {
            encoded.push((rest % 128) as u8 | 128);
            rest /= 128;
        }
        encoded.push(rest as u8);
    }
    encoded.extend(text);
    encoded
}

/// The status, which comes first in a block.
fn status(block: &[u8]) -> Result<u16> {
    let mut block = block;
    // Changes of the table's size may come before it.
    while let [0x20..=0x3f, rest @ ..] = block {
        block = rest;
    }
    let unknown = || format!("no status that is understood: {block:02x?}");
    match *block {
        [indexed @ 0x88..=0x8e, ..] => Ok(STATUSES[usize::from(indexed - 0x88)]),
        // This is a literal whose name is one of those, with or without indexing.
        [0x08..=0x0e | 0x18..=0x1e | 0x48..=0x4e, length, ref value @ ..] => {
            let value = value.get(..usize::from(length & 0x7f)).with_context(unknown)?;
            let digits =
                if length & 0x80 == 0 { String::from_utf8(value.to_vec())? } else { huffman_digits(value)? };
            digits.parse().with_context(unknown)
        }
        _ => bail!(unknown()),
    }
}

/// Three digits in the Huffman code (RFC 7541, appendix B): 0 to 2 have five bits, the others six.
fn huffman_digits(value: &[u8]) -> Result<String> {
    let mut bits = value.iter().flat_map(|byte| (0..8).rev().map(move |bit| u32::from(byte >> bit & 1)));
    let mut digits = String::new();
    while digits.len() < 3 {
        let mut take = |count: usize| bits.by_ref().take(count).fold(0, |number, bit| number * 2 + bit);
        let digit = match take(5) {
            short @ 0..=2 => short,
            long @ 0b01100..=0b01111 => long * 2 + take(1) - 0b011_001 + 3,
            other => bail!("no digit: {other:05b}"),
        };
        digits.extend(char::from_digit(digit, 10));
    }
    Ok(digits)
}

fn code(payload: &[u8]) -> Result<u32> {
    let code = payload.first_chunk::<4>().context("a frame without a code")?;
    Ok(u32::from_be_bytes(*code))
}

// Frame types (RFC 9113, 6).
pub const DATA: u8 = 0;
pub const HEADERS: u8 = 1;
pub const RST_STREAM: u8 = 3;
pub const SETTINGS: u8 = 4;
pub const PING: u8 = 6;
pub const GOAWAY: u8 = 7;
pub const WINDOW_UPDATE: u8 = 8;
pub const CONTINUATION: u8 = 9;

// Flags.
pub const ACK: u8 = 1;
pub const END_STREAM: u8 = 1;
pub const END_HEADERS: u8 = 4;

// Settings.
const HEADER_TABLE_SIZE: u16 = 1;
pub const INITIAL_WINDOW_SIZE: u16 = 4;

// Error codes (RFC 9113, 7).
pub const PROTOCOL_ERROR: u32 = 1;
pub const REFUSED_STREAM: u32 = 7;
pub const CANCEL: u32 = 8;
pub const ENHANCE_YOUR_CALM: u32 = 11;

/// The statuses of HPACK's static table, from its index 8 on.
const STATUSES: [u16; 7] = [200, 204, 206, 304, 400, 404, 500];
/// The number of bytes of pings that fill any socket of the test bed.
const MOST_PINGS: usize = 64 * 1024 * 1024;
/// A server that has accepted nothing for this long accepts nothing more.
const HELD_BACK: Duration = Duration::from_millis(500);
/// The largest frame that a receiver accepts by default.
const MAX_FRAME: usize = 16 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_is_read_in_every_encoding() {
        for (block, expected) in [
            (&[0x88][..], 200),
            (&[0x20, 0x8d], 404),
            (b"\x08\x03403", 403),
            (&[0x20, 0x08, 0x83, 0x68, 0x4f, 0xff], 429),
            (&[0x48, 0x82, 0x68, 0x01], 401),
            (&[0x08, 0x83, 0x6c, 0x0c, 0xff], 503),
        ] {
            let read = status(block).unwrap_or_else(|error| panic!("{block:02x?}: {error}"));
            assert_eq!(read, expected, "{block:02x?}");
        }
        assert!(status(&[0x00, 1, b'a', 1, b'b']).is_err());
    }

    #[test]
    fn long_value_has_its_length_in_several_bytes() {
        assert_eq!(text(&[b'x'; 126])[..1], [126]);
        assert_eq!(text(&[b'x'; 127])[..2], [127, 0]);
        assert_eq!(text(&[b'x'; 1337])[..3], [127, 0xba, 0x09]);
    }

    #[test]
    fn frame_has_its_length_in_three_bytes() {
        assert_eq!(
            frame(DATA, END_STREAM, 5, b"abc").unwrap(),
            [0, 0, 3, 0, 1, 0, 0, 0, 5, b'a', b'b', b'c']
        );
    }
}
