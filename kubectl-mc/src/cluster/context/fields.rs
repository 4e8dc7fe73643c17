//! Reads the fields of a JSON object as Go's decoder does: null is the zero value, unknown fields are kept, and
//! a value of another type is an error. Errors name the field and not its value, which may be a secret.

use std::collections::{BTreeMap, HashMap};

use base64::Engine;
use base64::alphabet::STANDARD as ALPHABET;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig, STANDARD};
use serde_json::{Map, Value};

/// The fields of an object that were not read yet.
pub(super) struct Fields {
    fields: Map<String, Value>,
    /// The place of the object, for messages.
    at: String,
}

impl Fields {
    /// The fields of a value; null has none.
    pub(super) fn of(value: Value, at: impl Into<String>) -> Result<Self, String> {
        let at = at.into();
        match value {
            Value::Null => Ok(Self { fields: Map::new(), at }),
            Value::Object(fields) => Ok(Self { fields, at }),
            other => Err(mismatch(&at, &other, "a map")),
        }
    }

    /// The place of a field.
    pub(super) fn place(&self, key: &str) -> String {
        if self.at.is_empty() { key.to_owned() } else { format!("{}.{key}", self.at) }
    }

    /// A field that is neither absent nor null.
    pub(super) fn value(&mut self, key: &str) -> Option<Value> {
        self.fields.remove(key).filter(|value| !value.is_null())
    }

    /// A non-empty text.
    pub(super) fn text(&mut self, key: &str) -> Result<Option<String>, String> {
        let place = self.place(key);
        let text = self.value(key).map(|value| text(value, &place)).transpose()?;
        Ok(text.filter(|text| !text.is_empty()))
    }

    /// A boolean that is true.
    pub(super) fn flag(&mut self, key: &str) -> Result<Option<bool>, String> {
        match self.value(key) {
            None | Some(Value::Bool(false)) => Ok(None),
            Some(Value::Bool(true)) => Ok(Some(true)),
            Some(other) => Err(mismatch(&self.place(key), &other, "a boolean")),
        }
    }

    /// Non-empty bytes, as base64 without line breaks.
    pub(super) fn data(&mut self, key: &str) -> Result<Option<String>, String> {
        let place = self.place(key);
        let bytes = match self.value(key) {
            None => return Ok(None),
            // As in Go, the numeric values of the bytes.
            Some(Value::Array(list)) => {
                let byte = |value: &Value| {
                    if value.is_null() { Some(0) } else { u8::try_from(value.as_u64()?).ok() }
                };
                let bytes: Option<Vec<u8>> = list.iter().map(byte).collect();
                bytes.ok_or_else(|| format!("{place} is a list of something else than bytes"))?
            }
            Some(value) => {
                let text: String =
                    text(value, &place)?.chars().filter(|c| !matches!(c, '\r' | '\n')).collect();
                LENIENT.decode(text).map_err(|_| format!("{place} is no base64"))?
            }
        };
        Ok((!bytes.is_empty()).then(|| STANDARD.encode(bytes)))
    }

    /// The items of a list with their places.
    pub(super) fn list(&mut self, key: &str) -> Result<Option<Vec<(Value, String)>>, String> {
        let place = self.place(key);
        match self.value(key) {
            None => Ok(None),
            Some(Value::Array(list)) => {
                let items = list.into_iter().enumerate();
                Ok(Some(items.map(|(index, item)| (item, format!("{place}[{index}]"))).collect()))
            }
            Some(other) => Err(mismatch(&place, &other, "a list")),
        }
    }

    /// A list of texts, where null is an empty one.
    pub(super) fn texts(&mut self, key: &str) -> Result<Option<Vec<String>>, String> {
        let list = self.list(key)?;
        list.map(|list| list.into_iter().map(|(item, place)| text(item, &place)).collect()).transpose()
    }

    /// The fields of an object.
    pub(super) fn object(&mut self, key: &str) -> Result<Option<Self>, String> {
        let place = self.place(key);
        self.value(key).map(|value| Self::of(value, place)).transpose()
    }

    /// All remaining fields as texts.
    pub(super) fn into_texts(self) -> Result<HashMap<String, String>, String> {
        let Self { fields, at } = self;
        fields
            .into_iter()
            .map(|(key, value)| {
                let text = text(value, &format!("{at}.{key}"))?;
                Ok((key, text))
            })
            .collect()
    }

    /// All remaining fields as lists of texts.
    pub(super) fn into_lists(mut self) -> Result<HashMap<String, Vec<String>>, String> {
        let keys: Vec<_> = self.fields.keys().cloned().collect();
        let list = |key: String| Ok((key.clone(), self.texts(&key)?.unwrap_or_default()));
        keys.into_iter().map(list).collect()
    }

    /// The fields that have not been read.
    pub(super) fn rest(self) -> BTreeMap<String, Value> {
        self.fields.into_iter().collect()
    }
}

fn text(value: Value, place: &str) -> Result<String, String> {
    match value {
        Value::Null => Ok(String::new()),
        Value::String(text) => Ok(text),
        other => Err(mismatch(place, &other, "a text: quote it")),
    }
}

fn mismatch(place: &str, value: &Value, expected: &str) -> String {
    let kind = match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "a map",
    };
    let place = if place.is_empty() { "the file" } else { place };
    format!("{place} is {kind} and not {expected}")
}

/// Go's `base64.StdEncoding`, which ignores the last bits.
const LENIENT: GeneralPurpose =
    GeneralPurpose::new(&ALPHABET, GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true));
