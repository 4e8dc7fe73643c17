//! Escapes control characters in text from a server: a hostile name or message must not move the
//! cursor, write a second line or reverse the text next to it.
//!
//! cli-runtime's printers escape ESC and CR (`terminal.EscapeTerminal`). This module also escapes every C0,
//! C1 and invisible format character.

use std::fmt::{self, Write};

use serde::Deserialize;

/// Text from a server. `Display` escapes it; [`ServerText::raw`] is for comparisons and for JSON.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(transparent)]
pub(crate) struct ServerText(String);

impl ServerText {
    /// The unescaped text of the server; never print it to a terminal.
    pub(crate) fn raw(&self) -> &str {
        &self.0
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<T: Into<String>> From<T> for ServerText {
    fn from(text: T) -> Self {
        Self(text.into())
    }
}

impl fmt::Display for ServerText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.chars().try_for_each(|c| match c {
            '\n' => f.write_str("\\n"),
            '\r' => f.write_str("\\r"),
            '\t' => f.write_str("\\t"),
            // The caret notation of terminals, which kubectl uses for ESC.
            '\0'..='\x1f' | '\x7f' => write!(f, "^{}", char::from(c as u8 ^ 0x40)),
            c if is_unsafe(c) => write!(f, "\\u{:04x}", u32::from(c)),
            c => f.write_char(c),
        })
    }
}

/// A line that may contain text of a server, with its control characters escaped.
pub(crate) fn escaped(line: &str) -> String {
    ServerText::from(line).to_string()
}

/// Whether a character controls a terminal, or invisibly changes the text around it.
pub(crate) fn is_unsafe(c: char) -> bool {
    c.is_control()
        || matches!(c,
            // Arabic letter mark, zero width space, left-to-right and right-to-left marks.
            '\u{61c}' | '\u{200b}' | '\u{200e}' | '\u{200f}'
            // Line and paragraph separators, embeddings and overrides.
            | '\u{2028}'..='\u{202e}'
            // Word joiner, invisible operators, isolates and deprecated format characters.
            | '\u{2060}'..='\u{206f}'
            // Byte order mark, interlinear annotations, tags.
            | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_and_format_characters_are_escaped() {
        for (text, printed) in [
            ("no\x1b[2Jway\nhome\r\t!", "no^[[2Jway\\nhome\\r\\t!"),
            ("\0\x07\x7f", "^@^G^?"),
            ("a\u{9b}31mb\u{85}", "a\\u009b31mb\\u0085"),
            ("abc\u{202e}fed\u{2066}\u{2069}", "abc\\u202efed\\u2066\\u2069"),
            ("\u{200e}\u{200f}\u{2028}\u{2029}\u{61c}", "\\u200e\\u200f\\u2028\\u2029\\u061c"),
            ("\u{feff}\u{e0041}", "\\ufeff\\ue0041"),
        ] {
            assert_eq!(ServerText::from(text).to_string(), printed);
            assert_eq!(escaped(printed), printed, "escaped text stays as it is");
        }
    }

    #[test]
    fn visible_text_is_unchanged() {
        for text in ["jané", "日本語", "שלום", "👩\u{200d}💻", "a\\nb", " a  b "] {
            assert_eq!(ServerText::from(text).to_string(), text);
            assert_eq!(ServerText::from(text).raw(), text);
        }
    }
}
