use serde_json::json;

use super::*;

#[test]
fn document_is_formatted_as_in_kubectl() {
    let value = json!({
        "kind": "List", "apiVersion": "v1", "empty": {}, "none": [], "null": null, "yes": true,
        "items": [{"b": [1, [2, 3]], "a": {"x": "y "}}, "plain", [], {}],
    });
    let expected = "apiVersion: v1
empty: {}
items:
- a:
    x: 'y '
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

#[test]
fn quotes_are_added_where_yaml_needs_them() {
    for (value, expected) in [
        ("", "\"\""),
        ("plain words", "plain words"),
        ("true", "\"true\""),
        ("Yes", "\"Yes\""),
        ("1", "\"1\""),
        ("0x1f", "\"0x1f\""),
        ("08", "\"08\""),
        ("1e3", "\"1e3\""),
        ("1.2.3", "1.2.3"),
        ("10.0.0.1", "10.0.0.1"),
        ("100m", "100m"),
        ("12:30", "\"12:30\""),
        ("12:60", "12:60"),
        ("2026-11-21T20:50:40Z", "\"2026-11-21T20:50:40Z\""),
        ("2026-13-21T20:50:40Z", "2026-13-21T20:50:40Z"),
        ("2026-11-21", "\"2026-11-21\""),
        ("- x", "'- x'"),
        ("-x", "-x"),
        ("a: b", "'a: b'"),
        ("a:b", "a:b"),
        ("a #b", "'a #b'"),
        ("it's", "it's"),
        ("'it", "'''it'"),
        ("[x]", "'[x]'"),
        ("*", "'*'"),
        ("%", "'%'"),
        ("=", "="),
        ("---x", "'---x'"),
        ("a\tb", "\"a\\tb\""),
        ("é", "é"),
        ("😀", "\"\\U0001F600\""),
        ("{\"a\":1}", "'{\"a\":1}'"),
        ("~", "\"~\""),
        ("0b11", "\"0b11\""),
        ("1_000", "\"1_000\""),
        (".5", "\".5\""),
        ("-", "'-'"),
        ("a\r", "\"a\\r\""),
    ] {
        assert_eq!(text(&json!({"k": value}), 0), format!("k: {expected}\n"), "{value:?}");
    }
}

#[test]
fn multi_line_strings_become_block_scalars() {
    for (value, expected) in [
        ("a\nb\n", "|\n  a\n  b\n"),
        ("a\nb", "|-\n  a\n  b\n"),
        ("a\n\n", "|+\n  a\n\n"),
        (" a\nb\n", "|2\n   a\n  b\n"),
        ("a \nb\n", "\"a \\nb\\n\"\n"),
        ("a\n  b\n", "|\n  a\n    b\n"),
    ] {
        assert_eq!(text(&json!({"k": value}), 0), format!("k: {expected}"), "{value:?}");
        assert_eq!(text(&json!({"k": value, "l": 1}), 0), format!("k: {expected}l: 1\n"), "{value:?}");
    }
}

#[test]
fn long_lines_are_folded_after_column_80() {
    let words = "word ".repeat(30);
    let expected = format!("k: {}\n  {}\n", ["word"; 16].join(" "), ["word"; 14].join(" "));
    assert_eq!(text(&json!({"k": words.trim()}), 0), expected);
}

#[test]
fn keys_are_in_natural_order() {
    let value = json!({"a10": 1, "a2": 1, "a": 1, "b": 1, "_": 1, "a/b": 1, "ab": 1, "1": 1, "A": 1});
    let text = text(&value, 0);
    let keys: Vec<_> = text.lines().filter_map(|line| line.split_once(':')).map(|(key, _)| key).collect();
    assert_eq!(keys, ["_", "\"1\"", "A", "a", "a/b", "a2", "a10", "ab", "b"]);
}
