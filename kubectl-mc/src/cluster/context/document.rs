//! Reads a kubeconfig's YAML as client-go does (`sigs.k8s.io/yaml`, which is go-yaml 2 and JSON):
//! the first document, with the types of YAML 1.1, in UTF-8 or UTF-16, using the last of several
//! equal keys.

mod scalar;

use std::collections::HashMap;

use granit_parser::{Event, Parser, ScanError};
use serde_json::{Map, Value};

use self::scalar::Scalar;

/// The first document as JSON; null if there is none.
pub(crate) fn json(bytes: &[u8]) -> Result<Value, String> {
    parse(&text(bytes)?)
}

/// The text of a file, whose encoding is determined by its byte order mark.
pub(super) fn text(bytes: &[u8]) -> Result<String, String> {
    let utf16 = |bytes: &[u8], unit: fn([u8; 2]) -> u16| {
        let (pairs, rest) = bytes.as_chunks::<2>();
        let units = pairs.iter().map(|pair| unit(*pair));
        let text = char::decode_utf16(units).collect::<Result<String, _>>();
        text.ok().filter(|_| rest.is_empty()).ok_or_else(|| "the text is no UTF-16".to_owned())
    };
    let text = match bytes {
        [0xff, 0xfe, rest @ ..] => utf16(rest, u16::from_le_bytes)?,
        [0xfe, 0xff, rest @ ..] => utf16(rest, u16::from_be_bytes)?,
        [0xef, 0xbb, 0xbf, rest @ ..] | rest => {
            let text = str::from_utf8(rest);
            text.map_err(|error| format!("byte {} is no UTF-8", error.valid_up_to() + 1))?.to_owned()
        }
    };
    match text.chars().position(|c| !is_printable(c)) {
        Some(at) => Err(format!("character {} is a control character", at + 1)),
        None => Ok(text),
    }
}

/// The characters that go-yaml reads.
fn is_printable(c: char) -> bool {
    matches!(c, '\t' | '\n' | '\r' | ' '..='~' | '\u{85}' | '\u{a0}'..='\u{fffd}' | '\u{10000}'..)
}

/// The first document of a text.
pub(super) fn parse(text: &str) -> Result<Value, String> {
    let mut tree = Tree::default();
    let mut parser = Parser::new_from_str(text);
    while let Some(next) = parser.next_event() {
        let (event, _) = next.map_err(|error| described(&error))?;
        match event {
            Event::DocumentStart(_, Some(version)) if (version.major, version.minor) != (1, 1) => {
                return Err(format!("YAML {}.{} is not supported", version.major, version.minor));
            }
            Event::Scalar(text, style, anchor, tag) => {
                tree.scalar(scalar::resolve(&text, style, tag.as_deref())?, anchor)?;
            }
            Event::SequenceStart(_, anchor, _) => tree.open(Frame::List(Vec::new()), anchor)?,
            Event::MappingStart(_, anchor, _) => tree.open(Frame::Map(Map::new(), None), anchor)?,
            Event::SequenceEnd | Event::MappingEnd => tree.close()?,
            Event::Alias(anchor) => tree.alias(anchor)?,
            Event::DocumentEnd => break,
            _ => {}
        }
    }
    Ok(tree.root.unwrap_or_default())
}

/// The place and the kind of the error, without the text, which may contain a secret.
fn described(error: &ScanError) -> String {
    let at = error.marker();
    format!("line {} column {}: {}", at.line(), at.col() + 1, error.info())
}

/// The value that is being built: the open lists and maps, innermost last.
#[derive(Default)]
struct Tree {
    open: Vec<(Frame, usize)>,
    anchors: HashMap<usize, (Value, usize)>,
    root: Option<Value>,
    nodes: usize,
}

enum Frame {
    List(Vec<Value>),
    /// The key whose value comes next.
    Map(Map<String, Value>, Option<Key>),
}

enum Key {
    Name(String),
    /// `<<`: the keys of the value become those of the map.
    Merge,
}

impl Tree {
    fn open(&mut self, frame: Frame, anchor: usize) -> Result<(), String> {
        if let Some((Frame::Map(_, key @ None), _)) = self.open.last()
            && key.is_none()
        {
            return Err("a key of a map is a list or a map".to_owned());
        }
        if self.open.len() >= MAX_DEPTH {
            return Err(format!("more than {MAX_DEPTH} lists and maps are inside each other"));
        }
        self.open.push((frame, anchor));
        Ok(())
    }

    fn close(&mut self) -> Result<(), String> {
        let Some((frame, anchor)) = self.open.pop() else { return Ok(()) };
        let value = match frame {
            Frame::List(list) => Value::Array(list),
            Frame::Map(map, _) => Value::Object(map),
        };
        self.value(value, anchor)
    }

    fn scalar(&mut self, scalar: Scalar, anchor: usize) -> Result<(), String> {
        let Some((Frame::Map(_, key @ None), _)) = self.open.last_mut() else {
            return self.value(scalar.value()?, anchor);
        };
        *key = Some(if scalar.is_merge() { Key::Merge } else { Key::Name(scalar.key()?) });
        if anchor != 0 {
            self.anchors.insert(anchor, (scalar.value()?, 1));
        }
        Ok(())
    }

    fn alias(&mut self, anchor: usize) -> Result<(), String> {
        let (value, size) = self.anchors.get(&anchor).ok_or("an anchor contains itself")?;
        self.nodes += size;
        if self.nodes > MAX_NODES {
            return Err("the document contains excessive aliasing".to_owned());
        }
        let value = value.clone();
        if let Some((Frame::Map(_, key @ None), _)) = self.open.last_mut() {
            *key = Some(Key::Name(scalar::key(&value)?));
            return Ok(());
        }
        self.value(value, 0)
    }

    /// Puts a complete value into its place.
    fn value(&mut self, value: Value, anchor: usize) -> Result<(), String> {
        self.nodes += 1;
        if anchor != 0 {
            self.anchors.insert(anchor, (value.clone(), size(&value)));
        }
        match self.open.last_mut() {
            None => self.root = Some(value),
            Some((Frame::List(list), _)) => list.push(value),
            Some((Frame::Map(map, key), _)) => match key.take() {
                Some(Key::Name(name)) => _ = map.insert(name, value),
                Some(Key::Merge) => merge(map, value)?,
                None => return Err("a map has a value without a key".to_owned()),
            },
        }
        Ok(())
    }
}

/// Copies the keys of a map, or of several maps, of which the first has priority. They replace
/// earlier keys, as in go-yaml 2.
fn merge(map: &mut Map<String, Value>, value: Value) -> Result<(), String> {
    let list = match value {
        Value::Array(list) => list,
        value => vec![value],
    };
    for value in list.into_iter().rev() {
        let Value::Object(other) = value else {
            return Err("map merge requires map or sequence of maps as the value".to_owned());
        };
        map.extend(other);
    }
    Ok(())
}

fn size(value: &Value) -> usize {
    1 + match value {
        Value::Array(list) => list.iter().map(size).sum(),
        Value::Object(map) => map.values().map(size).sum(),
        _ => 0,
    }
}

/// Values are dropped recursively. A kubeconfig has a depth of 7.
const MAX_DEPTH: usize = 256;
/// The values of all aliases, expanded. client-go refuses such a file above about 100,000.
const MAX_NODES: usize = 1_000_000;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn scalars_have_the_types_of_yaml_1_1() {
        let text = "{a: yes, b: 'yes', c: 0x10, d: 010, e: 1_000, f: 1e3, g: 2020-01-02, h: ~, i: , j: !!str 1, l: .5, m: 09, o: 1.2.3}";
        let expected = json!({"a": true, "b": "yes", "c": 16, "d": 8, "e": 1000, "f": 1000.0, "g": "2020-01-02",
            "h": null, "i": null, "j": "1", "l": 0.5, "m": 9.0, "o": "1.2.3"});
        assert_eq!(parse(text).unwrap(), expected);
        assert_eq!(parse("1: a\nyes: b\n").unwrap(), json!({"1": "a", "true": "b"}));
    }

    #[test]
    fn last_of_equal_keys_counts_in_the_first_document() {
        let text = "a: 1\na: 2\n---\na: 3\n";
        assert_eq!(parse(text).unwrap(), json!({"a": 2}));
        let merged = "x: &x {a: 1, b: 1}\ny: &y {b: 2}\nz: {a: 0, <<: [*x, *y], c: 3}\n";
        assert_eq!(parse(merged).unwrap()["z"], json!({"a": 1, "b": 1, "c": 3}));
        assert_eq!(parse("# nothing\n").unwrap(), Value::Null);
    }

    #[test]
    fn byte_order_mark_names_the_encoding() {
        let units: Vec<u16> = "a: é\n".encode_utf16().collect();
        let little: Vec<u8> =
            [0xff, 0xfe].into_iter().chain(units.iter().flat_map(|unit| unit.to_le_bytes())).collect();
        let big: Vec<u8> =
            [0xfe, 0xff].into_iter().chain(units.iter().flat_map(|unit| unit.to_be_bytes())).collect();
        for bytes in [&little, &big, &b"\xef\xbb\xbfa: \xc3\xa9\n".to_vec()] {
            assert_eq!(json(bytes).unwrap(), json!({"a": "é"}));
        }
        assert!(json(&little[..little.len() - 1]).unwrap_err().contains("UTF-16"));
        assert!(json(b"a: \xff").unwrap_err().contains("byte 4 is no UTF-8"));
        assert!(json(b"a: \0").unwrap_err().contains("control character"));
    }

    #[test]
    fn aliases_have_a_bound() {
        let mut text = "a0: &a0 [x]\n".to_owned();
        for level in 1..12 {
            let inner = vec![format!("*a{}", level - 1); 10].join(", ");
            text.push_str(&format!("a{level}: &a{level} [{inner}]\n"));
        }
        assert!(parse(&text).unwrap_err().contains("excessive aliasing"));
        assert!(parse("a: &a [*a]").is_err());
        assert!(parse(&"[".repeat(10_000)).is_err());
    }
}
