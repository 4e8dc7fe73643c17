//! Parses the answers of members. As in client-go, an answer counts only if it names its type. A list or an object
//! of another type, or without one, is a failure of the member and never an empty result.

use std::borrow::Cow;

use serde::{Deserialize, Deserializer};

use super::failure::MemberFailure;

/// Parses JSON.
pub(super) fn parse<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, MemberFailure> {
    serde_json::from_slice(body).map_err(|error| MemberFailure::Unreadable(error.to_string().into()))
}

/// One page of a list.
#[derive(Debug)]
pub(super) struct Page<T> {
    pub(super) items: Vec<T>,
    pub(super) metadata: ListMeta,
}

/// The continue token of a list, and the version from which to watch.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ListMeta {
    #[serde(default)]
    pub(super) resource_version: String,
    #[serde(default, rename = "continue")]
    pub(super) next: String,
}

/// Parses a list of any type.
pub(super) fn list<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<Page<T>, MemberFailure> {
    let List { kind, metadata, items } = parse(body)?;
    match items {
        Some(items) if kind.ends_with("List") => {
            Ok(Page { items: items.unwrap_or_default(), metadata: metadata.unwrap_or_default() })
        }
        _ => Err(of_another_kind(&kind, "a list")),
    }
}

/// Parses an object of this kind.
pub(super) fn object<'a, T: Deserialize<'a>>(body: &'a [u8], kind: &str) -> Result<T, MemberFailure> {
    check_kind(body, &[kind])?;
    parse(body)
}

/// Checks that an answer has one of these kinds.
pub(super) fn check_kind(body: &[u8], kinds: &[&str]) -> Result<(), MemberFailure> {
    let Kind { kind } = parse(body)?;
    if kinds.contains(&&*kind) { Ok(()) } else { Err(of_another_kind(&kind, &kinds.join(" or "))) }
}

/// The failure for an unexpected answer.
pub(super) fn of_another_kind(kind: &str, wanted: &str) -> MemberFailure {
    let is = if kind.is_empty() { "it has no kind".to_owned() } else { format!("it is of kind {kind:?}") };
    MemberFailure::Unreadable(format!("{is}, and not {wanted}").into())
}

#[derive(Deserialize)]
struct Kind<'a> {
    #[serde(default, borrow)]
    kind: Cow<'a, str>,
}

#[derive(Deserialize)]
#[serde(bound = "T: Deserialize<'de>")]
struct List<'a, T> {
    #[serde(default, borrow)]
    kind: Cow<'a, str>,
    metadata: Option<ListMeta>,
    /// Go writes an empty list as null.
    #[serde(default = "Option::default", deserialize_with = "present")]
    items: Option<Option<Vec<T>>>,
}

/// A field that is present but may be null.
fn present<'de, D: Deserializer<'de>, T: Deserialize<'de>>(from: D) -> Result<Option<Option<T>>, D::Error> {
    Option::deserialize(from).map(Some)
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn items(body: &str) -> Result<usize, String> {
        list::<Value>(body.as_bytes()).map(|page| page.items.len()).map_err(|failure| failure.to_string())
    }

    #[test]
    fn answer_without_items_is_no_empty_list() {
        assert_eq!(items(r#"{"kind": "PodList", "items": [{}], "metadata": {"continue": "x"}}"#), Ok(1));
        assert_eq!(items(r#"{"kind": "PodList", "items": null, "metadata": null}"#), Ok(0));
        for (body, why) in [
            ("{}", "cannot read the answer: it has no kind, and not a list"),
            (r#"{"items": []}"#, "cannot read the answer: it has no kind, and not a list"),
            (r#"{"kind": "PodList"}"#, "cannot read the answer: it is of kind \"PodList\", and not a list"),
            (
                r#"{"kind": "Status", "status": "Success"}"#,
                "cannot read the answer: it is of kind \"Status\", and not a list",
            ),
            (
                r#"{"kind": "Pod", "items": []}"#,
                "cannot read the answer: it is of kind \"Pod\", and not a list",
            ),
        ] {
            assert_eq!(items(body), Err(why.to_owned()), "{body}");
        }
        assert!(items(r#"{"kind": "PodList", "items": [{}"#).is_err_and(|why| why.contains("EOF")));
    }

    #[test]
    fn object_of_another_kind_is_a_failure() {
        let pod = |body: &str| object::<Value>(body.as_bytes(), "Pod").map_err(|failure| failure.to_string());
        assert!(pod(r#"{"kind": "Pod", "metadata": {}}"#).is_ok());
        assert_eq!(pod("{}"), Err("cannot read the answer: it has no kind, and not Pod".to_owned()));
        assert!(pod(r#"{"kind": "Status"}"#).is_err());
    }
}
