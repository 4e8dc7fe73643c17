//! Formats YAML as kubectl does: `sigs.k8s.io/yaml`, which uses libyaml's emitter, with its order of keys,
//! its choice of quotes and its folding after column 80.

mod plain;

use std::cmp::Ordering;

use serde_json::Value;

use crate::json;

/// Formats a value as a document, or as a part of one at this indentation. The first line is not indented.
pub(crate) fn text(value: &Value, indent: usize) -> String {
    let mut writer = Writer { out: String::new(), column: indent };
    match value {
        Value::Object(fields) if !fields.is_empty() => writer.mapping(fields, indent),
        Value::Array(items) if !items.is_empty() => writer.sequence(items, indent),
        scalar => writer.scalar(scalar, indent + 2, true),
    }
    if writer.column > 0 {
        writer.out.push('\n');
    }
    writer.out
}

struct Writer {
    out: String,
    /// In characters, since the last line break.
    column: usize,
}

impl Writer {
    fn mapping(&mut self, fields: &serde_json::Map<String, Value>, indent: usize) {
        for (at, (name, value)) in sorted(fields).into_iter().enumerate() {
            if at > 0 {
                self.line(indent);
            }
            self.string(name, indent, false);
            self.put(":");
            match value {
                Value::Object(fields) if !fields.is_empty() => {
                    self.line(indent + 2);
                    self.mapping(fields, indent + 2);
                }
                Value::Array(items) if !items.is_empty() => {
                    self.line(indent);
                    self.sequence(items, indent);
                }
                scalar => {
                    self.put(" ");
                    self.scalar(scalar, indent + 2, true);
                }
            }
        }
    }

    fn sequence(&mut self, items: &[Value], indent: usize) {
        for (at, item) in items.iter().enumerate() {
            if at > 0 {
                self.line(indent);
            }
            self.put("- ");
            match item {
                Value::Object(fields) if !fields.is_empty() => self.mapping(fields, indent + 2),
                Value::Array(items) if !items.is_empty() => self.sequence(items, indent + 2),
                scalar => self.scalar(scalar, indent + 2, true),
            }
        }
    }

    fn scalar(&mut self, value: &Value, indent: usize, folds: bool) {
        match value {
            Value::Null => self.put("null"),
            Value::Bool(on) => self.put(if *on { "true" } else { "false" }),
            Value::Number(number) => self.put(&json::yaml_number(number)),
            Value::String(text) => self.string(text, indent, folds),
            Value::Array(_) => self.put("[]"),
            Value::Object(_) => self.put("{}"),
        }
    }

    fn string(&mut self, text: &str, indent: usize, folds: bool) {
        let may = plain::Styles::of(text);
        if text.contains('\n') {
            if may.block && folds {
                self.literal(text, indent)
            } else {
                self.double_quoted(text, indent, folds)
            }
        } else if plain::is_no_string(text) {
            self.double_quoted(text, indent, folds);
        } else if may.plain && (folds || !text.is_empty()) {
            self.words(text, indent, folds);
        } else if may.single_quoted {
            self.single_quoted(text, indent, folds);
        } else {
            self.double_quoted(text, indent, folds);
        }
    }

    /// Text that is folded at single spaces after the maximum width.
    fn words(&mut self, text: &str, indent: usize, folds: bool) {
        let mut spaces = false;
        let mut rest = text.chars().peekable();
        while let Some(c) = rest.next() {
            let space = c == ' ';
            if space && folds && !spaces && self.column > WIDTH && rest.peek() != Some(&' ') {
                self.line(indent);
            } else {
                self.character(c);
            }
            spaces = space;
        }
    }

    fn single_quoted(&mut self, text: &str, indent: usize, folds: bool) {
        self.put("'");
        let mut spaces = false;
        let mut rest = text.chars().enumerate().peekable();
        while let Some((at, c)) = rest.next() {
            let space = c == ' ';
            let inner = at > 0 && rest.peek().is_some_and(|(_, next)| *next != ' ');
            if space && folds && !spaces && self.column > WIDTH && inner {
                self.line(indent);
            } else {
                if c == '\'' {
                    self.character('\'');
                }
                self.character(c);
                if plain::is_break(c) {
                    // A line end for YAML, but not for text editors.
                    self.column = 0;
                    self.put(&" ".repeat(indent));
                }
            }
            spaces = space;
        }
        self.put("'");
    }

    fn double_quoted(&mut self, text: &str, indent: usize, folds: bool) {
        self.put("\"");
        let mut spaces = false;
        let mut rest = text.chars().enumerate().peekable();
        while let Some((at, c)) = rest.next() {
            if plain::needs_escape(c) {
                self.put(&escape(c));
                spaces = false;
            } else if c == ' ' {
                if folds && !spaces && self.column > WIDTH && at > 0 && rest.peek().is_some() {
                    self.line(indent);
                    if rest.peek().is_some_and(|(_, next)| *next == ' ') {
                        self.put("\\");
                    }
                } else {
                    self.character(' ');
                }
                spaces = true;
            } else {
                self.character(c);
                spaces = false;
            }
        }
        self.put("\"");
    }

    fn literal(&mut self, text: &str, indent: usize) {
        self.put("|");
        if text.starts_with(|c| c == ' ' || plain::is_break(c)) {
            self.put("2");
        }
        let body = text.trim_end_matches(plain::is_break);
        match text[body.len()..].chars().count() {
            0 => self.put("-"),
            1 if !body.is_empty() => {}
            _ => self.put("+"),
        }
        self.out.push('\n');
        self.column = 0;
        for line in text.split_inclusive(plain::is_break) {
            let broken = line.ends_with(plain::is_break);
            if !line.starts_with(plain::is_break) {
                self.put(&" ".repeat(indent));
            }
            self.put(line);
            if broken {
                self.column = 0;
            }
        }
    }

    /// Starts a new line, unless one was just started.
    fn line(&mut self, indent: usize) {
        if self.column > 0 {
            self.out.push('\n');
        }
        self.column = 0;
        self.put(&" ".repeat(indent));
    }

    fn put(&mut self, text: &str) {
        self.out.push_str(text);
        self.column += text.chars().count();
    }

    fn character(&mut self, c: char) {
        self.out.push(c);
        self.column += 1;
    }
}

fn escape(c: char) -> String {
    let short = match c {
        '\0' => '0',
        '\x07' => 'a',
        '\x08' => 'b',
        '\t' => 't',
        '\n' => 'n',
        '\x0b' => 'v',
        '\x0c' => 'f',
        '\r' => 'r',
        '\x1b' => 'e',
        '"' => '"',
        '\\' => '\\',
        '\u{85}' => 'N',
        '\u{a0}' => '_',
        '\u{2028}' => 'L',
        '\u{2029}' => 'P',
        c => {
            let code = u32::from(c);
            return match code {
                ..=0xff => format!("\\x{code:02X}"),
                0x100..=0xffff => format!("\\u{code:04X}"),
                _ => format!("\\U{code:08X}"),
            };
        }
    };
    format!("\\{short}")
}

/// Sorts by insertion, because go-yaml's order is not total, and the sorts of the standard library require a
/// total order. Fields are usually almost sorted.
fn sorted(fields: &serde_json::Map<String, Value>) -> Vec<(&String, &Value)> {
    let mut sorted: Vec<(&String, &Value)> = Vec::with_capacity(fields.len());
    for field in fields {
        let before = sorted.iter().rposition(|other| natural(other.0, field.0) != Ordering::Greater);
        sorted.insert(before.map_or(0, |before| before + 1), field);
    }
    sorted
}

/// The order of keys: by the value of numbers in them, and with letters after all other characters.
fn natural(a: &str, b: &str) -> Ordering {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let Some(at) = a.iter().zip(&b).position(|(a, b)| a != b) else { return a.len().cmp(&b.len()) };
    let (x, y) = (a[at], b[at]);
    match (x.is_alphabetic(), y.is_alphabetic()) {
        (true, true) => return x.cmp(&y),
        (true, false) => return Ordering::Greater,
        (false, true) => return Ordering::Less,
        (false, false) => {}
    }
    // A zero after other digits is not a leading zero.
    let behind =
        (x == '0' || y == '0') && a[..at].iter().rev().take_while(|c| c.is_ascii_digit()).any(|c| *c != '0');
    let number = |text: &[char]| {
        let digits = text[at..].iter().map_while(|c| c.to_digit(10));
        let value = digits
            .clone()
            .fold(i64::from(behind), |value, digit| value.wrapping_mul(10).wrapping_add(i64::from(digit)));
        (value, digits.count())
    };
    number(&a).cmp(&number(&b)).then(x.cmp(&y))
}

const WIDTH: usize = 80;

#[cfg(test)]
mod tests;
