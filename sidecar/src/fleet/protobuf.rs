//! Renames what an object in Kubernetes' protobuf format names (apimachinery: `runtime/serializer/protobuf`): the bytes
//! `k8s\0` and a message `Unknown`, which holds the object.
//!
//! The fields that can be renamed become a JSON object, which the table of references renames; then each of them takes
//! the place of its old value, and all other bytes stay as they are. Kubernetes' decoder reads some malformed messages
//! in its own way, such as a field that occurs twice, so they are refused.

use std::collections::BTreeMap;

use bytes::Bytes;
use kubectl_mc_api::ClusterName;
use kubectl_mc_api::fleet::names;
use kubectl_mc_api::fleet::references::{self, Type};
use serde_json::{Map, Value};

use crate::fleet::bodies::error::Error;
use crate::fleet::bodies::values::MAX_VALUES;
use crate::head::request_info::RequestedObject;

mod schema;
mod wire;

use schema::{Content, Schema};
use wire::{Field, LENGTH_DELIMITED};

/// An object in its envelope.
#[derive(Debug)]
pub(super) struct Envelope {
    text: Bytes,
    object: std::ops::Range<usize>,
    schema: Schema,
    /// Whether the schema has all fields that name something.
    is_known: bool,
    fields: Value,
}

impl Envelope {
    pub(super) fn parse(
        text: Bytes,
        of: Type,
        requested: &RequestedObject,
        is_deletion: bool,
    ) -> Result<Self, Error> {
        let unknown = text.strip_prefix(MAGIC).ok_or(Error::Protobuf("it does not begin with k8s"))?;
        let (mut object, mut place) = (0..0, MAGIC.len());
        let mut seen = [false; 5];
        for field in wire::fields(unknown) {
            let field = field?;
            let end = place + field.text.len();
            let number = usize::try_from(field.number).unwrap_or_default();
            match seen.get_mut(number) {
                Some(seen) if !*seen && field.wire_type == LENGTH_DELIMITED => *seen = true,
                _ => return Err(Error::Protobuf("its envelope has an unknown or a repeated field")),
            }
            match field.number {
                TYPE => {}
                OBJECT => object = end - field.content.len()..end,
                _ if field.content.is_empty() => {}
                _ => return Err(Error::Protobuf("its envelope is encoded")),
            }
            place = end;
        }
        let (schema, is_known) = schema::of(of, requested, is_deletion);
        let mut left = MAX_VALUES;
        let fields = Value::Object(decode(schema, &text[object.clone()], &mut left)?);
        Ok(Self { text, object, schema, is_known, fields })
    }

    /// The fields that can be renamed.
    pub(super) fn fields(&self) -> &Value {
        &self.fields
    }

    pub(super) fn into_members(mut self, of: Type, member: &ClusterName) -> Result<Vec<u8>, Error> {
        references::to_member(&mut self.fields, of, member)?;
        let mut object = Vec::with_capacity(self.object.len());
        encode(self.schema, &self.text[self.object.clone()], self.fields.as_object(), &mut object)?;
        let suffix = names::join("", member);
        if !self.is_known && object.windows(suffix.len()).any(|window| window == suffix.as_bytes()) {
            return Err(Error::UnknownReference(member.clone()));
        }
        let mut text = Vec::with_capacity(self.text.len());
        text.extend_from_slice(MAGIC);
        for field in wire::fields(&self.text[MAGIC.len()..]) {
            match field? {
                Field { number: OBJECT, .. } => wire::write(OBJECT, &object, &mut text),
                field => text.extend_from_slice(field.text),
            }
        }
        Ok(text)
    }
}

/// The fields of a message that the schema has.
fn decode(schema: Schema, message: &[u8], left: &mut usize) -> Result<Map<String, Value>, Error> {
    let mut fields = Map::new();
    for field in wire::fields(message) {
        let field = field?;
        let Some((name, content)) = schema::field(schema, field.number) else { continue };
        if field.wire_type != LENGTH_DELIMITED {
            return Err(Error::Protobuf("a field has another type than it should"));
        }
        *left = left.checked_sub(1).ok_or(Error::TooManyValues)?;
        let value = match content {
            Content::Text => text(&field)?.into(),
            Content::Message(schema) => Value::Object(decode(schema, field.content, left)?),
            Content::List(schema) => {
                let element = Value::Object(decode(schema, field.content, left)?);
                if let Value::Array(list) = fields.entry(name).or_insert_with(|| Value::Array(Vec::new())) {
                    list.push(element);
                }
                continue;
            }
            Content::Texts => {
                let (key, value) = entry(field.content)?;
                if let Value::Object(map) = fields.entry(name).or_insert_with(|| Value::Object(Map::new())) {
                    map.insert(key.to_owned(), value.into());
                }
                continue;
            }
        };
        if fields.insert(name.to_owned(), value).is_some() {
            return Err(Error::Protobuf("a field occurs twice"));
        }
    }
    Ok(fields)
}

/// Writes a message again, with the fields of the schema as they are in `fields`.
fn encode(
    schema: Schema,
    message: &[u8],
    fields: Option<&Map<String, Value>>,
    to: &mut Vec<u8>,
) -> Result<(), Error> {
    let mut elements = BTreeMap::new();
    for field in wire::fields(message) {
        let field = field?;
        let Some((name, content)) = schema::field(schema, field.number) else {
            to.extend_from_slice(field.text);
            continue;
        };
        let value = fields.and_then(|fields| fields.get(name));
        let mut written = Vec::new();
        match content {
            Content::Text => {
                written.extend_from_slice(value.and_then(Value::as_str).unwrap_or_default().as_bytes())
            }
            Content::Message(schema) => {
                encode(schema, field.content, value.and_then(Value::as_object), &mut written)?;
            }
            Content::List(schema) => {
                let index = elements.entry(field.number).or_insert(0_usize);
                let element = value.and_then(|list| list.get(*index));
                *index += 1;
                encode(schema, field.content, element.and_then(Value::as_object), &mut written)?;
            }
            Content::Texts => {
                let (key, before) = entry(field.content)?;
                let Some(value) = value.and_then(|map| map.get(key)).and_then(Value::as_str) else {
                    continue;
                };
                if value == before {
                    to.extend_from_slice(field.text);
                    continue;
                }
                wire::write(KEY, key.as_bytes(), &mut written);
                wire::write(VALUE, value.as_bytes(), &mut written);
            }
        }
        wire::write(field.number, &written, to);
    }
    Ok(())
}

/// An entry of a map of texts.
fn entry(message: &[u8]) -> Result<(&str, &str), Error> {
    let (mut key, mut value) = (None, None);
    for field in wire::fields(message) {
        let field = field?;
        let place = match field.number {
            KEY => &mut key,
            VALUE => &mut value,
            _ => return Err(Error::Protobuf("an annotation has an unknown field")),
        };
        if place.replace(text(&field)?).is_some() {
            return Err(Error::Protobuf("an annotation has two keys or values"));
        }
    }
    Ok((key.unwrap_or_default(), value.unwrap_or_default()))
}

fn text<'a>(field: &Field<'a>) -> Result<&'a str, Error> {
    if field.wire_type != LENGTH_DELIMITED {
        return Err(Error::Protobuf("a field has another type than it should"));
    }
    std::str::from_utf8(field.content).map_err(|_| Error::Protobuf("a text is not UTF-8"))
}

const MAGIC: &[u8] = b"k8s\0";
/// The fields of `Unknown`.
const TYPE: u32 = 1;
const OBJECT: u32 = 2;
/// The fields of an entry of a map.
const KEY: u32 = 1;
const VALUE: u32 = 2;

#[cfg(test)]
mod tests;
