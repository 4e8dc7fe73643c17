//! Reads and writes the fields of a protobuf message (protobuf.dev: Encoding).

use crate::fleet::bodies::error::Error;

/// A field of a message.
#[derive(Clone, Copy, Debug)]
pub(super) struct Field<'a> {
    pub(super) number: u32,
    pub(super) wire_type: u64,
    /// The whole field.
    pub(super) text: &'a [u8],
    /// The content of a field with a length.
    pub(super) content: &'a [u8],
}

/// The fields of a message, in their order.
pub(super) fn fields(mut message: &[u8]) -> impl Iterator<Item = Result<Field<'_>, Error>> {
    std::iter::from_fn(move || {
        if message.is_empty() {
            return None;
        }
        let field = field(message);
        message = match &field {
            Some(field) => &message[field.text.len()..],
            None => &[],
        };
        Some(field.ok_or(Error::Protobuf("a field is malformed or cut short")))
    })
}

fn field(message: &[u8]) -> Option<Field<'_>> {
    let mut rest = message;
    let tag = varint(&mut rest)?;
    // Go reads a larger number as its last 32 bits.
    let number = u32::try_from(tag >> 3).ok().filter(|number| (1..=MAX_NUMBER).contains(number))?;
    let wire_type = tag & 7;
    let mut content: &[u8] = &[];
    match wire_type {
        VARINT => drop(varint(&mut rest)?),
        FIXED_64 => rest = rest.get(8..)?,
        LENGTH_DELIMITED => {
            let length = usize::try_from(varint(&mut rest)?).ok()?;
            (content, rest) = rest.split_at_checked(length)?;
        }
        FIXED_32 => rest = rest.get(4..)?,
        // Groups are obsolete, and Kubernetes has none.
        _ => return None,
    }
    Some(Field { number, wire_type, text: &message[..message.len() - rest.len()], content })
}

fn varint(rest: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (byte, after) = rest.split_first()?;
        *rest = after;
        let bits = u64::from(byte & 0x7f);
        if bits << shift >> shift != bits {
            return None;
        }
        value |= bits << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

/// Writes a field with a length.
pub(super) fn write(number: u32, content: &[u8], to: &mut Vec<u8>) {
    write_varint(u64::from(number) << 3 | LENGTH_DELIMITED, to);
    write_varint(content.len() as u64, to);
    to.extend_from_slice(content);
}

fn write_varint(mut value: u64, to: &mut Vec<u8>) {
    while value >= 0x80 {
        to.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    to.push(value as u8);
}

const VARINT: u64 = 0;
const FIXED_64: u64 = 1;
pub(super) const LENGTH_DELIMITED: u64 = 2;
const FIXED_32: u64 = 5;
const MAX_NUMBER: u32 = (1 << 29) - 1;
