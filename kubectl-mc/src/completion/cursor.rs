//! Finds the position of the last word in the command line.

use std::ffi::OsString;

use crate::argv::{self, Scanned};

/// The position of the last word.
pub(super) struct Cursor {
    /// The words before it, without a plugin flag that takes it as its value.
    pub(super) before: Scanned,
    pub(super) place: Place,
}

pub(super) enum Place {
    /// The value of this plugin flag, in its own word.
    OwnValue(String),
    /// The value of a kubectl flag, in its own word.
    KubectlValue,
    /// After `--`.
    AfterDashes,
    /// A verb, a flag or an argument.
    Word,
}

impl Cursor {
    pub(super) fn find(words: Vec<OsString>, typed: &str) -> Self {
        // A placeholder that is not a flag shows how the scanner classifies the word.
        let mark = OsString::from(if typed.starts_with('-') { "x" } else { typed });
        let marked = argv::scan(words.iter().cloned().chain([mark]).collect());
        let before = argv::scan(words.clone());
        if marked.own.len() > before.own.len() {
            let flag = words.last().map(|flag| flag.to_string_lossy().into_owned()).unwrap_or_default();
            let before = argv::scan(words[..words.len() - 1].to_vec());
            return Self { before, place: Place::OwnValue(flag) };
        }
        let place = if before.has_dashes() {
            Place::AfterDashes
        } else if marked.kubectl.len().checked_sub(1).is_some_and(|last| marked.is_value(last)) {
            Place::KubectlValue
        } else {
            Place::Word
        };
        Self { before, place }
    }
}
