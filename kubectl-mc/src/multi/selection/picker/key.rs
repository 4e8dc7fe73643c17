//! Parses the keys in the input from a terminal (ECMA-48: control characters, CSI and SS3 sequences).

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key {
    Char(char),
    Enter,
    /// Marks the cluster and moves the cursor on.
    Tab,
    Backspace,
    /// Ctrl-U
    ClearText,
    /// Ctrl-A
    MarkAll,
    Up,
    Down,
    PageUp,
    PageDown,
    First,
    Last,
    /// Esc, Ctrl-C or Ctrl-D.
    Cancel,
}

/// The keys in `bytes`, and the number of parsed bytes. The rest is an incomplete sequence.
pub(super) fn keys(bytes: &[u8]) -> (Vec<Key>, usize) {
    let (mut keys, mut at) = (Vec::new(), 0);
    while let Some(&byte) = bytes.get(at) {
        let length = match byte {
            ESC => match sequence(&bytes[at..]) {
                Some(length) => length,
                None => break,
            },
            _ => 1,
        };
        keys.extend(key(&bytes[at..at + length]));
        at += length;
    }
    (keys, at)
}

/// The length of the sequence at the start, if it is complete.
fn sequence(bytes: &[u8]) -> Option<usize> {
    match bytes.get(1)? {
        b'[' => {
            let end = bytes[2..].iter().position(|byte| (0x40..=0x7e).contains(byte))?;
            Some(2 + end + 1)
        }
        b'O' => bytes.get(2).map(|_| 3),
        // Esc followed by another key, or Alt with a key, which has no function here.
        &ESC => Some(1),
        _ => Some(2),
    }
}

fn key(bytes: &[u8]) -> Option<Key> {
    Some(match bytes {
        [ESC | 0x03 | 0x04] => Key::Cancel,
        b"\r" | b"\n" => Key::Enter,
        b"\t" => Key::Tab,
        [0x7f | 0x08] => Key::Backspace,
        [0x15] => Key::ClearText,
        [0x01] => Key::MarkAll,
        [0x10] | b"\x1b[A" | b"\x1bOA" => Key::Up,
        [0x0e] | b"\x1b[B" | b"\x1bOB" => Key::Down,
        b"\x1b[5~" => Key::PageUp,
        b"\x1b[6~" => Key::PageDown,
        b"\x1b[H" | b"\x1bOH" | b"\x1b[1~" => Key::First,
        b"\x1b[F" | b"\x1bOF" | b"\x1b[4~" => Key::Last,
        [byte @ b' '..=b'~'] => Key::Char(char::from(*byte)),
        _ => return None,
    })
}

/// Starts a sequence, and is a key on its own.
pub(super) const ESC: u8 = 0x1b;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_read_from_bytes() {
        for (bytes, expected) in [
            (&b"a \x7f\r"[..], &[Key::Char('a'), Key::Char(' '), Key::Backspace, Key::Enter][..]),
            (
                b"\x1b[A\x1b[B\x1bOA\x1bOB\x10\x0e",
                &[Key::Up, Key::Down, Key::Up, Key::Down, Key::Up, Key::Down],
            ),
            (b"\x1b[5~\x1b[6~\x1b[H\x1b[4~", &[Key::PageUp, Key::PageDown, Key::First, Key::Last]),
            (b"\x03", &[Key::Cancel]),
            (b"\x1b\x1b[A", &[Key::Cancel, Key::Up]),
            // Keys without a function, characters that no name contains, and a pasted sequence.
            (b"\x1b[1;5C\x1b[200~\x1bx\xc3\xa4\x1a", &[]),
        ] {
            assert_eq!(keys(bytes), (expected.to_vec(), bytes.len()), "{bytes:?}");
        }
    }

    #[test]
    fn incomplete_sequence_waits_for_the_rest() {
        for (bytes, length) in [(&b"a\x1b"[..], 1), (b"a\x1b[", 1), (b"\x1b[1;", 0), (b"\x1bO", 0)] {
            assert_eq!(keys(bytes).1, length, "{bytes:?}");
        }
    }
}
