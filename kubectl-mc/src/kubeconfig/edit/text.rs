//! Edits the text of a kubeconfig in the layout of kubectl: a block list below each key at the left edge. It
//! does not parse YAML. The caller verifies the meaning of the edited text.

use std::ops::Range;

use serde_json::Value;

use super::Section;
use crate::{json, yaml};

/// The edited text; `None` if the text has another layout.
pub(super) fn edit(text: &str, sections: &[Section], wanted: &Value) -> Option<String> {
    if text.trim_start().starts_with('{') {
        // JSON has no comments that could be lost.
        serde_json::from_str::<Value>(text).ok()?;
        let end = if text.ends_with('\n') { "\n" } else { "" };
        return Some(json::text(wanted, 0) + end);
    }
    let line_end = if text.contains("\r\n") { "\r\n" } else { "\n" };
    let mut text = text.to_owned();
    for section in sections.iter().filter(|section| !section.is_empty()) {
        text = edit_section(&text, section, line_end)?;
    }
    Some(text)
}

fn edit_section(text: &str, section: &Section, line_end: &str) -> Option<String> {
    let mut lines: Vec<String> = text.split_inclusive('\n').map(str::to_owned).collect();
    if let Some(last) = lines.last_mut().filter(|last| !last.ends_with('\n')) {
        last.push_str(line_end);
    }
    let key = format!("{}:", section.key);
    let Some(header) = lines.iter().position(|line| line.starts_with(&key)) else {
        let entries = section.added.iter().map(|entry| entry_text(entry, 0, line_end));
        return Some(lines.concat() + &key + line_end + &entries.collect::<String>());
    };
    let value = header_value(&lines[header][key.len()..]);
    let is_empty = ["", "[]", "null", "~"].contains(&value);
    let list = List::find(&lines, header + 1);
    if !is_empty || list.entries.len() != section.length {
        return None;
    }
    let is_left = list.entries.len() + section.added.len()
        > section.changed.iter().filter(|(_, entry)| entry.is_none()).count();
    let mut edited = lines[..header].concat();
    match (is_left, value) {
        // The value is the block below the key.
        (true, "") => edited.push_str(&lines[header]),
        (true, _) => edited.push_str(&lines[header].replacen(value, "", 1)),
        (false, _) => edited.push_str(&lines[header].replacen(':', ": []", 1)),
    }
    let mut next = header + 1;
    let added: String = section.added.iter().map(|entry| entry_text(entry, list.indent, line_end)).collect();
    if list.entries.is_empty() {
        edited.push_str(&added);
    }
    for (at, entry) in list.entries.iter().enumerate() {
        edited.push_str(&lines[next..entry.start].concat());
        match section.change(at) {
            Some(Some(changed)) => edited.push_str(&entry_text(changed, list.indent, line_end)),
            Some(None) => {}
            None => edited.push_str(&lines[entry.clone()].concat()),
        }
        next = entry.end;
        if at + 1 == list.entries.len() {
            edited.push_str(&added);
        }
    }
    edited.push_str(&lines[next..].concat());
    Some(edited)
}

/// The entries of a list.
struct List {
    indent: usize,
    /// The line range of each entry, without the blank lines and comments after it.
    entries: Vec<Range<usize>>,
}

impl List {
    /// Finds the list that begins at this line. It ends before the next key at the left edge, or at the end
    /// of the document.
    fn find(lines: &[String], begin: usize) -> Self {
        let is_outside =
            |line: &String| line.starts_with("---") || !line.starts_with([' ', '\t', '#', '-', '\r', '\n']);
        let end = lines[begin..].iter().position(is_outside).map_or(lines.len(), |at| begin + at);
        let indent_of = |line: &str| line.len() - line.trim_start_matches(' ').len();
        let is_entry = |line: &str| {
            let rest = line.trim_start_matches(' ').strip_prefix('-');
            rest.is_some_and(|rest| rest.starts_with([' ', '\r', '\n']))
        };
        let first = lines[begin..end].iter().find(|line| is_entry(line));
        let indent = first.map_or(0, |line| indent_of(line));
        let starts: Vec<_> =
            (begin..end).filter(|&at| is_entry(&lines[at]) && indent_of(&lines[at]) == indent).collect();
        let is_content = |line: &str| {
            let line = line.trim();
            !line.is_empty() && !line.starts_with('#')
        };
        let entry = |(at, &start): (usize, &usize)| {
            let limit = starts.get(at + 1).copied().unwrap_or(end);
            let last = (start..limit).rfind(|&line| is_content(&lines[line])).unwrap_or(start);
            start..last + 1
        };
        Self { indent, entries: starts.iter().enumerate().map(entry).collect() }
    }
}

/// The value in the same line as the key.
fn header_value(rest: &str) -> &str {
    rest.split('#').next().unwrap_or_default().trim()
}

fn entry_text(entry: &Value, indent: usize, line_end: &str) -> String {
    let text = format!("{}- {}", " ".repeat(indent), yaml::text(entry, indent + 2));
    if line_end == "\n" { text } else { text.replace('\n', line_end) }
}
