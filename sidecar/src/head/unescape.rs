//! Decodes percent-escapes like Go (`net/url.PathUnescape`): a malformed escape makes the whole text invalid,
//! where other decoders would keep the escape.

use std::borrow::Cow;

use percent_encoding::percent_decode_str;

/// The decoded bytes of a text; `None` if an escape is malformed.
pub(crate) fn unescape(text: &str) -> Option<Cow<'_, [u8]>> {
    let mut after_percent = text.as_bytes().split(|byte| *byte == b'%').skip(1);
    let is_hex = |escape: &[u8]| escape.get(..2).is_some_and(|hex| hex.iter().all(u8::is_ascii_hexdigit));
    after_percent.all(is_hex).then(|| percent_decode_str(text).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn malformed_escapes_are_not_decoded() {
        for (text, expected) in [
            ("", Some(&b""[..])),
            ("a+b", Some(b"a+b")),
            ("%61%2f%FF", Some(b"a/\xff")),
            ("%2561", Some(b"%61")),
            ("%", None),
            ("a%2", None),
            ("%zz", None),
            ("%2%61", None),
            ("%61%", None),
        ] {
            assert_eq!(unescape(text).as_deref(), expected, "{text}");
        }
    }
}
