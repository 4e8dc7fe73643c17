//! Decodes the query of a request's target like a kube-apiserver (Go: `net/url.ParseQuery`): `+` is a space,
//! and a pair with a semicolon or an invalid escape is dropped. The sidecar decodes only what it reads
//! itself; a member gets the query unchanged.

use std::borrow::Cow;

use crate::head::unescape::unescape;

/// The pairs of a query.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Query<'a>(&'a str);

impl<'a> Query<'a> {
    pub(crate) fn new(raw: Option<&'a str>) -> Self {
        let raw = raw.unwrap_or_default();
        let too_many = raw.len() > MAX_PAIRS && raw.matches('&').count() >= MAX_PAIRS;
        Self(if too_many { "" } else { raw })
    }

    /// The first value of a key. Bytes that are not UTF-8 become U+FFFD, which never occurs in an expected
    /// value.
    pub(crate) fn first(self, key: &str) -> Option<Cow<'a, str>> {
        let (_, value) = self.pairs().find(|(name, _)| name.as_ref() == key.as_bytes())?;
        Some(match value {
            Cow::Borrowed(value) => String::from_utf8_lossy(value),
            Cow::Owned(value) => Cow::Owned(String::from_utf8_lossy(&value).into_owned()),
        })
    }

    /// A boolean. Every value is true, including the empty one, except `0` and `false` in any case
    /// (apimachinery: `conversion.Convert_Slice_string_To_bool`).
    pub(crate) fn boolean(self, key: &str) -> Option<bool> {
        self.first(key).map(|value| value != "0" && !is_false(&value))
    }

    /// Whether a boolean is present and true.
    pub(crate) fn is_set(self, key: &str) -> bool {
        self.boolean(key).unwrap_or_default()
    }

    fn pairs(self) -> impl Iterator<Item = (Cow<'a, [u8]>, Cow<'a, [u8]>)> {
        self.0.split('&').filter(|pair| !pair.is_empty() && !pair.contains(';')).filter_map(|pair| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            Some((decode(key)?, decode(value)?))
        })
    }
}

/// Go: `url.QueryUnescape`.
fn decode(text: &str) -> Option<Cow<'_, [u8]>> {
    if !text.contains('+') {
        return unescape(text);
    }
    let text = text.replace('+', " ");
    Some(Cow::Owned(unescape(&text)?.into_owned()))
}

/// Go: `strings.EqualFold`, which also takes the long s for an s.
fn is_false(value: &str) -> bool {
    value
        .chars()
        .map(|letter| if letter == 'ſ' { 's' } else { letter.to_ascii_lowercase() })
        .eq("false".chars())
}

/// Go ignores a query with more pairs, including empty ones (`url.defaultMaxParams`).
const MAX_PAIRS: usize = 10_000;

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};

    use super::*;

    #[test]
    fn queries_decode_as_in_go() {
        let table = include_str!("../../../tests/request-info/queries.tsv");
        for line in table.lines() {
            let (query, expected) = line.split_once('\t').unwrap();
            assert_eq!(encode(Query::new(Some(query))), expected, "{query}");
        }
        assert!(table.lines().count() > 400);
    }

    #[test]
    fn query_with_too_many_pairs_is_ignored() {
        let query = |pairs: usize| "&".repeat(pairs - 1) + "watch=1";
        assert!(Query::new(Some(&query(MAX_PAIRS))).is_set("watch"));
        assert!(!Query::new(Some(&query(MAX_PAIRS + 1))).is_set("watch"));
    }

    #[test]
    fn first_value_of_a_key_counts() {
        let query = Query::new(Some("a=%zz&a=1+2&a=3&b&c=%FF"));
        let first = |key| query.first(key);
        assert_eq!(
            (first("a").as_deref(), first("b").as_deref(), first("c").as_deref(), first("d")),
            (Some("1 2"), Some(""), Some("\u{FFFD}"), None)
        );
        assert!(Query::new(None).first("").is_none());
    }

    #[test]
    fn only_zero_and_false_are_false() {
        for (value, expected) in
            [("0", false), ("FaLSe", false), ("fal%C5%BFe", false), ("", true), ("f", true)]
        {
            assert_eq!(Query::new(Some(&format!("x={value}"))).boolean("x"), Some(expected), "{value}");
        }
        assert_eq!(Query::new(Some("y=1")).boolean("x"), None);
    }

    /// Go: `url.Values.Encode`.
    fn encode(query: Query<'_>) -> String {
        const KEPT: &AsciiSet =
            &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~').remove(b' ');
        let encode = |bytes: &[u8]| percent_encode(bytes, KEPT).to_string().replace(' ', "+");
        let mut values = BTreeMap::<_, Vec<_>>::new();
        for (key, value) in query.pairs() {
            values.entry(key.into_owned()).or_default().push(value);
        }
        let pairs = values.iter().flat_map(|(key, values)| values.iter().map(move |value| (key, value)));
        let encoded: Vec<_> =
            pairs.map(|(key, value)| format!("{}={}", encode(key), encode(value))).collect();
        encoded.join("&")
    }
}
