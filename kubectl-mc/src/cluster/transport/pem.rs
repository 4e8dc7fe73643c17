//! Reads PEM blocks as Go's `encoding/pem` does: everything that is not a complete block is
//! skipped.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// A block.
pub(super) struct Block {
    pub(super) label: String,
    pub(super) has_headers: bool,
    pub(super) content: Vec<u8>,
}

/// The blocks of a text, in order.
pub(super) fn blocks(bytes: &[u8]) -> Vec<Block> {
    let text = String::from_utf8_lossy(bytes);
    let mut found = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let Some(label) = label(line, "-----BEGIN ") else { continue };
        let mut rest = lines.clone();
        if let Some(block) = block(label, &mut rest) {
            found.push(block);
            lines = rest;
        }
    }
    found
}

fn label<'a>(line: &'a str, begin: &str) -> Option<&'a str> {
    line.trim_end_matches([' ', '\t', '\r']).strip_prefix(begin)?.strip_suffix("-----")
}

/// The block whose first line was read; nothing if it has no end or its content is not base64.
fn block<'a>(begun: &str, lines: &mut impl Iterator<Item = &'a str>) -> Option<Block> {
    let mut has_headers = false;
    let mut encoded = String::new();
    for line in lines {
        if let Some(label) = label(line, "-----END ") {
            if label != begun {
                return None;
            }
            let content = STANDARD.decode(encoded).ok()?;
            return Some(Block { label: begun.to_owned(), has_headers, content });
        }
        if line.starts_with("-----BEGIN ") {
            return None;
        }
        match line.contains(':') && encoded.is_empty() {
            true => has_headers = true,
            false => encoded.extend(line.chars().filter(|c| !c.is_ascii_whitespace())),
        }
    }
    None
}
