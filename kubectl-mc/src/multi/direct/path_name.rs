//! Checks names before they become part of a request path, because a member may send anything.

/// Whether this is a DNS name, as of a pod, a namespace, a group, a version or a type.
pub(super) fn is_name(text: &str) -> bool {
    let is_letter = |letter: u8| letter.is_ascii_lowercase() || letter.is_ascii_digit();
    let bytes = text.as_bytes();
    bytes.len() <= 253
        && bytes.first().copied().is_some_and(is_letter)
        && bytes.iter().all(|&letter| is_letter(letter) || letter == b'-' || letter == b'.')
}
