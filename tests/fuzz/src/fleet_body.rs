//! Fuzzes the bodies of requests to the fleet view. The first line has the method, the media type and the path's group,
//! namespace, resource and subresource (`-` for none), and the rest is the body for the member m1. What the member gets
//! differs from what the client sent by suffixes of m1 only, and Go reads no other namespace in it.

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, header};
use serde_json::Value;
use sidecar::fleet::bodies::Body;
use sidecar::head::request_info::RequestedObject;

use crate::lines;

pub fn run(input: &[u8]) {
    let (first, body) = lines::first(input);
    let Ok(first) = std::str::from_utf8(first) else { return };
    let words: Vec<_> = first.split(' ').map(|word| if word == "-" { "" } else { word }).collect();
    let [method, format, group, namespace, resource, subresource] = words[..] else { return };
    let (Ok(method), Ok(format)) = (Method::from_bytes(method.as_bytes()), HeaderValue::from_str(format))
    else {
        return;
    };
    let requested = RequestedObject {
        group: group.to_owned(),
        version: "v1".to_owned(),
        namespace: namespace.to_owned(),
        resource: resource.to_owned(),
        name: "one".to_owned(),
        subresource: subresource.to_owned(),
    };
    let mut headers = HeaderMap::new();
    headers.insert(header::CONTENT_TYPE, format.clone());
    let Ok(parsed) = Body::parse(&method, &headers, &requested, Bytes::copy_from_slice(body)) else { return };
    let Ok(sent) = parsed.to_member(&"m1".parse().expect("a name")) else { return };
    let is_named = !namespace.is_empty() && resource != "namespaces" && method != Method::DELETE;
    if sent.starts_with(b"k8s\0") {
        let (before, after) = (go::namespace(body), go::namespace(&sent));
        if is_named {
            assert_eq!(before.strip_suffix(b"_m1".as_slice()).unwrap_or_default(), after);
        }
        return;
    }
    if sent.is_empty() {
        assert!(body.is_empty());
        return;
    }
    let before: Value = serde_json::from_slice(body).expect("JSON was sent");
    let after: Value = serde_json::from_slice(&sent).expect("JSON is sent");
    if method == Method::PATCH && words[1].to_ascii_lowercase().contains("json-patch") {
        patches(&before, &after);
        return;
    }
    differ_by_suffixes(&before, &after);
    if is_named && let Some(namespace) = before.pointer("/metadata/namespace").and_then(Value::as_str) {
        let sent = after.pointer("/metadata/namespace").and_then(Value::as_str);
        assert!(
            namespace.is_empty() || namespace.strip_suffix("_m1") == sent,
            "{namespace:?} became {sent:?}"
        );
    }
}

/// Operations may be left out, and none is added or changes its place.
fn patches(before: &Value, after: &Value) {
    let mut left = before.as_array().expect("a list").iter();
    for operation in after.as_array().expect("a list") {
        let is_same =
            |of: &&Value| ["op", "path", "from"].iter().all(|key| of.get(key) == operation.get(key));
        let sent = left.find(is_same).expect("no operation is added");
        differ_by_suffixes(sent, operation);
    }
}

/// Whether each text is the same, but for the member's suffix or the member's resource version, and the view's annotation.
fn differ_by_suffixes(before: &Value, after: &Value) {
    match (before, after) {
        (Value::Object(before), Value::Object(after)) => {
            for (key, value) in before {
                match after.get(key) {
                    Some(sent) => differ_by_suffixes(value, sent),
                    None => assert_eq!(key, "fleet.kubectl-mc.dev/cluster"),
                }
            }
            assert!(after.keys().all(|key| before.contains_key(key)));
        }
        (Value::Array(before), Value::Array(after)) => {
            assert_eq!(before.len(), after.len());
            before.iter().zip(after).for_each(|(before, after)| differ_by_suffixes(before, after));
        }
        (Value::String(before), Value::String(after)) if before != after => {
            let is_suffixed = before.strip_suffix("_m1") == Some(after);
            let is_version = before.strip_prefix("m1.") == Some(after);
            // The annotation of `kubectl apply`.
            let object = |text: &str| serde_json::from_str(text).unwrap_or(Value::Null);
            if !is_suffixed && !is_version {
                let (before, after): (Value, Value) = (object(before), object(after));
                assert!(before.is_object() || before.is_array(), "{before} became {after}");
                differ_by_suffixes(&before, &after);
            }
        }
        _ => assert_eq!(before, after),
    }
}

/// Reads a message as the code that gogo/protobuf generates: a number has 32 bits, a text that occurs twice is the last
/// one, and a message that occurs twice is merged.
mod go {
    /// The namespace of the object in an envelope.
    pub(super) fn namespace(text: &[u8]) -> Vec<u8> {
        let object = last(&text[4..], 2);
        let mut namespace = Vec::new();
        each(&object, &mut |number, metadata| {
            if number == 1 {
                each(metadata, &mut |number, content| {
                    if number == 3 {
                        namespace = content.to_vec();
                    }
                });
            }
        });
        namespace
    }

    fn last(message: &[u8], wanted: i32) -> Vec<u8> {
        let mut found = Vec::new();
        each(message, &mut |number, content| {
            if number == wanted {
                found = content.to_vec();
            }
        });
        found
    }

    fn each(mut message: &[u8], found: &mut impl FnMut(i32, &[u8])) {
        while !message.is_empty() {
            let Some(tag) = varint(&mut message) else { return };
            let rest = match tag & 7 {
                0 => varint(&mut message).map(|_| message),
                1 => message.get(8..),
                5 => message.get(4..),
                2 => varint(&mut message).and_then(|length| {
                    let (content, rest) = message.split_at_checked(usize::try_from(length).ok()?)?;
                    found((tag >> 3) as i32, content);
                    Some(rest)
                }),
                _ => return,
            };
            let Some(rest) = rest else { return };
            message = rest;
        }
    }

    fn varint(message: &mut &[u8]) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let (byte, rest) = message.split_first()?;
            *message = rest;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }
}
