//! Formats JSON as kubectl does: Go's `json.MarshalIndent` with four spaces, keys sorted, `<`, `>` and `&`
//! escaped, numbers in Go's format.

use std::io;

use serde::Serialize;
use serde_json::ser::{CharEscape, Formatter, PrettyFormatter};
use serde_json::{Number, Value};

/// Formats the value, indented for this depth except for the first line.
pub(crate) fn text(value: &Value, depth: usize) -> String {
    let mut out = Vec::new();
    let formatter = Go { pretty: PrettyFormatter::with_indent(b"    ") };
    // Writing to memory cannot fail, and a value always serializes.
    let _ = value.serialize(&mut serde_json::Serializer::with_formatter(&mut out, formatter));
    let text = String::from_utf8_lossy(&out).into_owned();
    if depth == 0 { text } else { text.replace('\n', &format!("\n{}", "    ".repeat(depth))) }
}

struct Go<'a> {
    pretty: PrettyFormatter<'a>,
}

impl Formatter for Go<'_> {
    fn write_f64<W: ?Sized + io::Write>(&mut self, writer: &mut W, value: f64) -> io::Result<()> {
        writer.write_all(go_float(value, Style::Json).as_bytes())
    }

    fn write_u64<W: ?Sized + io::Write>(&mut self, writer: &mut W, value: u64) -> io::Result<()> {
        match i64::try_from(value) {
            Ok(value) => write!(writer, "{value}"),
            Err(_) => self.write_f64(writer, value as f64),
        }
    }

    fn write_string_fragment<W: ?Sized + io::Write>(&mut self, writer: &mut W, text: &str) -> io::Result<()> {
        let mut rest = text;
        while let Some(at) = rest.find(['<', '>', '&', '\u{2028}', '\u{2029}']) {
            let (before, from) = rest.split_at(at);
            writer.write_all(before.as_bytes())?;
            let Some(c) = from.chars().next() else { break };
            write!(writer, "\\u{:04x}", u32::from(c))?;
            rest = &from[c.len_utf8()..];
        }
        writer.write_all(rest.as_bytes())
    }

    fn write_char_escape<W: ?Sized + io::Write>(
        &mut self,
        writer: &mut W,
        escape: CharEscape,
    ) -> io::Result<()> {
        self.pretty.write_char_escape(writer, escape)
    }

    fn begin_array<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.pretty.begin_array(writer)
    }

    fn end_array<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.pretty.end_array(writer)
    }

    fn begin_array_value<W: ?Sized + io::Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        self.pretty.begin_array_value(writer, first)
    }

    fn end_array_value<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.pretty.end_array_value(writer)
    }

    fn begin_object<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.pretty.begin_object(writer)
    }

    fn end_object<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.pretty.end_object(writer)
    }

    fn begin_object_key<W: ?Sized + io::Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        self.pretty.begin_object_key(writer, first)
    }

    fn begin_object_value<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.pretty.begin_object_value(writer)
    }

    fn end_object_value<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.pretty.end_object_value(writer)
    }
}

/// The Go package that formats a float: `encoding/json` and `fmt` use exponents differently.
#[derive(Clone, Copy, PartialEq)]
enum Style {
    Json,
    Print,
}

/// A number in the format of Go's `fmt`, which has 64-bit integers and prints every other number as a float.
pub(crate) fn go_number(number: &Number) -> String {
    match number.as_i64() {
        Some(integer) => integer.to_string(),
        None => go_float(number.as_f64().unwrap_or(f64::NAN), Style::Print),
    }
}

/// The shortest text that represents the same float.
fn go_float(value: f64, style: Style) -> String {
    let scientific = format!("{value:e}");
    let parts = scientific
        .split_once('e')
        .and_then(|(mantissa, exponent)| Some((mantissa, exponent.parse::<i32>().ok()?)));
    let Some((mantissa, exponent)) = parts else { return value.to_string() };
    let (smallest, largest) = match style {
        Style::Json => (-6, 21),
        Style::Print => (-4, 21),
    };
    match exponent {
        _ if value == 0.0 || (smallest..largest).contains(&exponent) => format!("{value}"),
        ..0 if style == Style::Json => format!("{mantissa}e{exponent}"),
        ..0 => format!("{mantissa}e-{:02}", -exponent),
        _ => format!("{mantissa}e+{exponent:02}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_formatted_as_in_kubectl() {
        let value: Value =
            serde_json::from_str(r#"{"b": [], "a": {"x<y": "1 > 0 & \"q\" \u2028é"}, "n": [1.0, 2]}"#)
                .unwrap();
        let expected = "{\n    \"a\": {\n        \"x\\u003cy\": \"1 \\u003e 0 \\u0026 \\\"q\\\" \\u2028é\"\n    },\n    \"b\": [],\n    \"n\": [\n        1,\n        2\n    ]\n}";
        assert_eq!(text(&value, 0), expected);
        assert_eq!(text(&serde_json::json!({"a": 1}), 2), "{\n            \"a\": 1\n        }");
    }

    #[test]
    fn numbers_are_formatted_as_in_go() {
        for (json, text) in [
            ("1.0", "1"),
            ("-0.5", "-0.5"),
            ("100000000000000000000", "100000000000000000000"),
            ("1e21", "1e+21"),
            ("1.5e-7", "1.5e-7"),
            ("0.000001", "0.000001"),
            ("9223372036854775807", "9223372036854775807"),
        ] {
            assert_eq!(super::text(&serde_json::from_str(json).unwrap(), 0), text, "{json}");
        }
        for (value, text) in [(1e-5, "1e-05"), (0.0001, "0.0001"), (1e21, "1e+21"), (2.0, "2")] {
            assert_eq!(go_float(value, Style::Print), text);
        }
    }
}
