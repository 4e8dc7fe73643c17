//! Bounds the memory that a JSON text from an untrusted peer takes once it is parsed: an empty object has two
//! bytes as text, and hundreds as a Kubernetes object or as a [`serde_json::Value`].

/// Whether a JSON text has at most this many values. Commas and brackets inside strings count as well, so a
/// text may have fewer values than are counted.
pub(crate) fn are_at_most(most: usize, text: &[u8]) -> bool {
    text.iter().filter(|byte| matches!(byte, b',' | b'{' | b'[')).nth(most).is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_is_counted() {
        for (text, values) in [("{}", 1), ("[]", 1), ("[{},{}]", 4), (r#"{"a":1,"b":[2,3]}"#, 4), ("1", 0)] {
            assert!(are_at_most(values, text.as_bytes()), "{text}");
            assert!(values == 0 || !are_at_most(values - 1, text.as_bytes()), "{text}");
        }
    }
}
