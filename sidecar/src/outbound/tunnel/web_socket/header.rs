//! Parses and encodes the head of a WebSocket frame (RFC 6455, 5.2).

use std::io;

use bytes::{BufMut, BytesMut};

use super::{MAX_PAYLOAD, invalid};

/// The head of a frame.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) is_final: bool,
    pub(super) opcode: Opcode,
    pub(super) mask: Option<[u8; 4]>,
    /// Length of the payload in bytes.
    pub(super) payload: usize,
    /// Length of the head in bytes.
    pub(super) length: usize,
}

/// The type of a frame. A tunnel carries no text frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Opcode {
    Continuation = 0,
    Binary = 2,
    Close = 8,
    Ping = 9,
    Pong = 10,
}

impl Opcode {
    pub(super) fn is_control(self) -> bool {
        self as u8 >= Self::Close as u8
    }
}

impl Header {
    /// Parses the head at the beginning of `input`; `None` if it is incomplete.
    pub(super) fn parse(input: &[u8]) -> io::Result<Option<Self>> {
        let &[first, second, ref rest @ ..] = input else { return Ok(None) };
        let opcode = match first & 0x0f {
            0 => Opcode::Continuation,
            2 => Opcode::Binary,
            8 => Opcode::Close,
            9 => Opcode::Ping,
            10 => Opcode::Pong,
            _ => return Err(invalid("a frame has an opcode that is not served")),
        };
        if first & 0x70 != 0 {
            return Err(invalid("a frame uses an extension"));
        }
        let is_final = first & 0x80 != 0;
        let (payload, extended) = match second & 0x7f {
            126 => match rest {
                [a, b, ..] => (u64::from(u16::from_be_bytes([*a, *b])), 2),
                _ => return Ok(None),
            },
            127 => match rest.first_chunk() {
                Some(length) => (u64::from_be_bytes(*length), 8),
                None => return Ok(None),
            },
            length => (u64::from(length), 0),
        };
        let shortest = match payload {
            0..126 => 0,
            126..65_536 => 2,
            _ => 8,
        };
        if extended != shortest {
            return Err(invalid("the length of a frame is not in its shortest form"));
        }
        let payload = usize::try_from(payload).ok().filter(|length| *length <= MAX_PAYLOAD);
        let payload = payload.ok_or_else(|| invalid("a frame is too long"))?;
        if opcode.is_control() && (!is_final || extended > 0) {
            return Err(invalid("a control frame is fragmented or too long"));
        }
        let (mask, length) = match second & 0x80 {
            0 => (None, 2 + extended),
            _ => match rest.get(extended..).and_then(<[u8]>::first_chunk) {
                Some(mask) => (Some(*mask), 2 + extended + 4),
                None => return Ok(None),
            },
        };
        Ok(Some(Self { is_final, opcode, mask, payload, length }))
    }

    /// Writes the head of a frame that is a complete message.
    #[expect(clippy::cast_possible_truncation, reason = "the arms say how long it is")]
    pub(super) fn encode(opcode: Opcode, payload: usize, mask: Option<[u8; 4]>, output: &mut BytesMut) {
        output.put_u8(0x80 | opcode as u8);
        let masked = if mask.is_some() { 0x80 } else { 0 };
        match payload {
            0..126 => output.put_u8(masked | payload as u8),
            126..65_536 => {
                output.put_u8(masked | 126);
                output.put_u16(payload as u16);
            }
            _ => {
                output.put_u8(masked | 127);
                output.put_u64(payload as u64);
            }
        }
        if let Some(mask) = mask {
            output.put_slice(&mask);
        }
    }
}
