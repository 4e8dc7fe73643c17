//! Writes YAML for kubectl and for people: keys in order, lists at the indentation of their key, and text of several
//! lines as a literal block. kubectl reads YAML 1.1, so text that is a number or a boolean there has quotes.

use serde::{Serialize, Serializer};
use serde_json::Value;
use serde_saphyr::{DoubleQuoted, SerializerOptions};

use crate::json;

/// Formats a value as a document, or as a part of one at this indentation. The first line is not indented.
pub(crate) fn text(value: &Value, indent: usize) -> String {
    // Long lines are not folded, so that they can be searched.
    let mut options = SerializerOptions::default();
    options.folded_wrap_chars = usize::MAX;
    // JSON is YAML too.
    let text = serde_saphyr::to_string_with_options(&Yaml(value), options)
        .unwrap_or_else(|_| json::text(value, 0) + "\n");
    let (margin, mut lines) = (" ".repeat(indent), text.split_inclusive('\n'));
    let first = lines.next().unwrap_or_default().to_owned();
    lines.fold(first, |text, line| match line.trim_end_matches('\n') {
        "" => text + line,
        _ => text + &margin + line,
    })
}

/// A value whose texts kubectl's reader accepts: it refuses a block that begins with a tab.
struct Yaml<'a>(&'a Value);

impl Serialize for Yaml<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Value::Object(fields) => {
                serializer.collect_map(fields.iter().map(|(name, value)| (name, Yaml(value))))
            }
            Value::Array(items) => serializer.collect_seq(items.iter().map(Yaml)),
            Value::String(text) if text.trim_start_matches(['\n', ' ']).starts_with('\t') => {
                DoubleQuoted(text).serialize(serializer)
            }
            scalar => scalar.serialize(serializer),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn lists_have_the_indentation_of_their_key() {
        let value = json!({
            "kind": "List", "apiVersion": "v1", "empty": {}, "none": [], "null": null, "yes": true,
            "items": [{"b": [1, [2, 3]], "a": {"x": "y "}}, "plain", [], {}],
        });
        let expected = "apiVersion: v1
empty: {}
items:
- a:
    x: \"y \"
  b:
  - 1
  - - 2
    - 3
- plain
- []
- {}
kind: List
none: []
\"null\": null
\"yes\": true
";
        assert_eq!(text(&value, 0), expected);
        assert_eq!(text(&json!({"a": {"b": 1}, "c": 2}), 2), "a:\n    b: 1\n  c: 2\n");
    }

    /// The words and numbers of YAML 1.1, which kubectl reads, also as keys.
    #[test]
    fn text_that_yaml_1_1_reads_as_another_type_has_quotes() {
        for word in [
            "",
            "true",
            "Yes",
            "no",
            "on",
            "Off",
            "y",
            "N",
            "~",
            "null",
            "1",
            "0x1f",
            "08",
            "1e3",
            "0b11",
            "0o7",
            "1_000",
            ".5",
            "+1",
            "-.inf",
            ".nan",
            "12:30",
            "2026-11-21",
            "2026-11-21T20:50:40Z",
            "<<",
            "- x",
            "a: b",
            "a #b",
            "[x]",
            "*a",
            "&a",
            "!a",
            "%",
            "---",
            "a\tb",
            "a\r",
            "\u{feff}a",
            "a\u{2028}b",
            "\u{85}",
        ] {
            let text = text(&json!({"k": word, word: "v"}), 0);
            let quoted = |part: &str| part.starts_with(['"', '\'']);
            let value = text.lines().find_map(|line| line.strip_prefix("k: ")).unwrap();
            assert!(quoted(value), "{text}");
            assert!(text.lines().any(|line| quoted(line) && line.ends_with(": v")), "{text}");
        }
        for word in ["plain words", "100m", "a:b", "it's", "é", "-x", "v1.36.3+k3s1"] {
            assert_eq!(text(&json!({"k": word}), 0), format!("k: {word}\n"));
        }
    }

    #[test]
    fn several_lines_are_a_literal_block_unless_a_tab_is_first() {
        for (value, expected) in [
            ("a\nb\n", "|\n  a\n  b\n"),
            ("a\nb", "|-\n  a\n  b\n"),
            ("a\n  b\n", "|\n  a\n    b\n"),
            ("a\n\nb\n", "|\n  a\n\n  b\n"),
            // kubectl's parser refuses a block that begins with a tab.
            ("\ta\nb\n", "\"\\ta\\nb\\n\"\n"),
            ("\n \ta\n", "\"\\n \\ta\\n\"\n"),
        ] {
            assert_eq!(text(&json!({"k": value, "l": 1}), 0), format!("k: {expected}l: 1\n"), "{value:?}");
        }
        let long = "word ".repeat(30).trim().to_owned();
        assert_eq!(text(&json!({"k": &long}), 0), format!("k: {long}\n"));
    }

    proptest::proptest! {
        #[test]
        fn every_text_is_read_back_from_every_indentation(
            value in "(?s)[ -~\n\t\r\u{85}\u{a0}\u{2028}\u{feff}\u{1f600}]{0,12}",
            key in "(?s)[ -~\n\t\u{85}\u{2028}\u{1f600}]{0,8}",
        ) {
            let value = json!({"a": {&key: [&value, {"b": &value}]}, "z": 1});
            for indent in [0, 2, 6] {
                let document = format!("{}- {}", " ".repeat(indent), text(&value, indent + 2));
                let read: Value = serde_saphyr::from_str(&document)
                    .map_err(|error| proptest::test_runner::TestCaseError::fail(format!("{error}: {document}")))?;
                proptest::prop_assert_eq!(&read[0], &value, "{}", document);
            }
        }
    }
}
