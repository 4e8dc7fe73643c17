//! Bounds the values of a JSON text, which take much more memory than their text.

/// Whether a JSON text has at most this many values.
pub(crate) fn values_are_at_most(most: usize, text: &[u8]) -> bool {
    values(text) <= most
}

/// The memory that a body takes until it is sent, in bytes.
pub fn weight(text: &[u8]) -> usize {
    3 * text.len() + VALUE * values(text)
}

/// The number of values of a JSON text. Texts of ConfigMaps are full of commas, so strings do not count.
fn values(text: &[u8]) -> usize {
    let (mut values, mut in_string, mut is_escaped) = (0, false, false);
    for byte in text {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = in_string,
            b'"' => in_string = !in_string,
            b',' | b'{' | b'[' if !in_string => values += 1,
            _ => {}
        }
    }
    values
}

/// A field of an object with its name, in bytes.
const VALUE: usize = 128;
/// Many times the values of the largest objects that etcd stores, and at most 60 MB of memory.
pub(crate) const MAX_VALUES: usize = 100_000;
