//! Resolves the type of a YAML scalar as go-yaml 2 does.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use granit_parser::{ScalarStyle, Tag};
use serde_json::Value;

/// A scalar with its type.
pub(super) enum Scalar {
    Null,
    Bool(bool),
    Integer(i128),
    Float(f64),
    Text(String),
    Merge,
}

/// The scalar of a text, its style and its tag.
pub(super) fn resolve(text: &str, style: ScalarStyle, tag: Option<&Tag>) -> Result<Scalar, String> {
    let kind = match tag {
        None if style == ScalarStyle::Plain => return Ok(plain(text)),
        None => return Ok(Scalar::Text(text.to_owned())),
        Some(tag) => tag.suffix_in_namespace(NAMESPACE),
    };
    let resolved = match kind.as_deref() {
        Some("bool" | "int" | "float" | "null") => plain(text),
        Some("binary") => {
            let text: String = text.chars().filter(|c| !matches!(c, '\r' | '\n')).collect();
            let bytes = STANDARD.decode(text).map_err(|_| "!!binary value contains invalid base64 data")?;
            return Ok(Scalar::Text(String::from_utf8_lossy(&bytes).into_owned()));
        }
        _ => return Ok(Scalar::Text(text.to_owned())),
    };
    match (kind.as_deref(), resolved) {
        (Some("float"), Scalar::Integer(number)) => Ok(Scalar::Float(number as f64)),
        (Some("bool"), resolved @ Scalar::Bool(_))
        | (Some("int"), resolved @ Scalar::Integer(_))
        | (Some("float"), resolved @ Scalar::Float(_))
        | (Some("null"), resolved @ Scalar::Null) => Ok(resolved),
        (kind, _) => Err(format!("a value is no {}", kind.unwrap_or_default())),
    }
}

/// A scalar without quotes.
fn plain(text: &str) -> Scalar {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Scalar::Null,
        "<<" => return Scalar::Merge,
        ".nan" | ".NaN" | ".NAN" => return Scalar::Float(f64::NAN),
        ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" => return Scalar::Float(f64::INFINITY),
        "-.inf" | "-.Inf" | "-.INF" => return Scalar::Float(f64::NEG_INFINITY),
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => {
            return Scalar::Bool(true);
        }
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => {
            return Scalar::Bool(false);
        }
        _ => {}
    }
    let number = match text.as_bytes()[0] {
        b'.' => text.parse().ok().map(Scalar::Float),
        b'+' | b'-' | b'0'..=b'9' => {
            let digits = text.replace('_', "");
            integer(&digits).map(Scalar::Integer).or_else(|| float(&digits).map(Scalar::Float))
        }
        _ => None,
    };
    number.unwrap_or_else(|| Scalar::Text(text.to_owned()))
}

/// Go's `ParseInt` and `ParseUint` of any base, in 64 bits.
fn integer(text: &str) -> Option<i128> {
    let (negative, digits) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let (base, digits) = match digits.get(..2).map(str::to_ascii_lowercase).as_deref() {
        Some("0x") => (16, &digits[2..]),
        Some("0o") => (8, &digits[2..]),
        Some("0b") => (2, &digits[2..]),
        _ if digits.len() > 1 && digits.starts_with('0') => (8, &digits[1..]),
        _ => (10, digits),
    };
    if !digits.starts_with(|c: char| c.is_ascii_alphanumeric()) {
        return None;
    }
    let number = i128::from_str_radix(digits, base).ok()?;
    let number = if negative { -number } else { number };
    let is_unsigned = u64::try_from(number).is_ok() && !text.starts_with('+');
    (i64::try_from(number).is_ok() || is_unsigned).then_some(number)
}

/// go-yaml's `[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?`.
fn float(text: &str) -> Option<f64> {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let is_number = unsigned.starts_with(|c: char| c.is_ascii_digit() || c == '.')
        && unsigned
            .bytes()
            .all(|byte| byte.is_ascii_digit() || matches!(byte, b'.' | b'e' | b'E' | b'+' | b'-'));
    text.parse().ok().filter(|number: &f64| is_number && number.is_finite())
}

impl Scalar {
    pub(super) fn is_merge(&self) -> bool {
        matches!(self, Self::Merge)
    }

    pub(super) fn value(&self) -> Result<Value, String> {
        Ok(match self {
            Self::Null => Value::Null,
            Self::Bool(value) => (*value).into(),
            Self::Integer(number) => match i64::try_from(*number) {
                Ok(number) => number.into(),
                Err(_) => (*number as u64).into(),
            },
            Self::Float(number) if number.is_finite() => (*number).into(),
            Self::Float(_) => return Err("a number is infinite or not a number".to_owned()),
            Self::Text(text) => text.as_str().into(),
            Self::Merge => "<<".into(),
        })
    }

    /// The scalar as a key.
    pub(super) fn key(&self) -> Result<String, String> {
        match self {
            Self::Float(number) if !number.is_finite() => Ok(number.to_string()),
            scalar => key(&scalar.value()?),
        }
    }
}

/// A value as a key of a map.
pub(super) fn key(value: &Value) -> Result<String, String> {
    match value {
        Value::String(text) => Ok(text.clone()),
        Value::Bool(_) | Value::Number(_) => Ok(value.to_string()),
        Value::Null => Err("a key of a map is null".to_owned()),
        Value::Array(_) | Value::Object(_) => Err("a key of a map is a list or a map".to_owned()),
    }
}

const NAMESPACE: &str = "tag:yaml.org,2002:";
