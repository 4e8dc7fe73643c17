//! Manages the state of the picker, and renders its lines.

use std::collections::BTreeSet;

use super::super::choice::Choice;
use super::super::selected_clusters::SelectedCluster;
use super::filter::{filter, labels};
use super::key::Key;
use crate::server_text::escaped;

/// The clusters, the typed text and the marks.
pub(super) struct Menu<'a> {
    all: &'a [SelectedCluster],
    text: String,
    /// The positions of the clusters that match the text.
    shown: Vec<usize>,
    /// The position of the cursor among these.
    cursor: usize,
    /// The first of these on the screen.
    top: usize,
    /// The positions of the marked clusters.
    marked: BTreeSet<usize>,
    /// The number of rows on the screen.
    rows: usize,
}

/// The effect of a key.
#[derive(Debug, PartialEq)]
pub(super) enum Step {
    Continue,
    Accept(Choice),
    Cancel,
}

impl<'a> Menu<'a> {
    pub(super) fn new(all: &'a [SelectedCluster]) -> Self {
        let shown = filter(all, "");
        Self { all, text: String::new(), shown, cursor: 0, top: 0, marked: BTreeSet::new(), rows: 1 }
    }

    pub(super) fn press(&mut self, key: Key) -> Step {
        let last = self.shown.len().saturating_sub(1);
        match key {
            Key::Cancel => return Step::Cancel,
            Key::Enter => return self.accept().map_or(Step::Continue, Step::Accept),
            Key::Char(' ') => self.toggle(),
            Key::Tab => {
                self.toggle();
                self.cursor = (self.cursor + 1).min(last);
            }
            Key::MarkAll => match self.shown.iter().all(|at| self.marked.contains(at)) {
                true => self.marked.retain(|at| !self.shown.contains(at)),
                false => self.marked.extend(&self.shown),
            },
            Key::Up => self.cursor = self.cursor.saturating_sub(1),
            Key::Down => self.cursor = (self.cursor + 1).min(last),
            Key::PageUp => self.cursor = self.cursor.saturating_sub(self.rows),
            Key::PageDown => self.cursor = (self.cursor + self.rows).min(last),
            Key::First => self.cursor = 0,
            Key::Last => self.cursor = last,
            Key::Char(letter) => {
                self.text.push(letter);
                self.narrow();
            }
            Key::Backspace => {
                self.text.pop();
                self.narrow();
            }
            Key::ClearText => {
                self.text.clear();
                self.narrow();
            }
        }
        Step::Continue
    }

    /// The marked clusters, or else the one at the cursor, in the order of the list.
    fn accept(&self) -> Option<Choice> {
        let places: Vec<_> = match self.marked.is_empty() {
            true => self.shown.get(self.cursor).copied().into_iter().collect(),
            false => self.marked.iter().copied().collect(),
        };
        let names = places.iter().map(|&at| self.all[at].name.clone());
        (!places.is_empty()).then(|| Choice::names(names))
    }

    fn toggle(&mut self) {
        if let Some(at) = self.shown.get(self.cursor)
            && !self.marked.remove(at)
        {
            self.marked.insert(*at);
        }
    }

    fn narrow(&mut self) {
        self.shown = filter(self.all, &self.text);
        (self.cursor, self.top) = (0, 0);
    }

    /// The lines for a screen of this size, none of them wider: the text, the column names, the
    /// clusters and the keys.
    pub(super) fn lines(&mut self, height: usize, width: usize) -> Vec<String> {
        // Some terminals report no width, and some wrap in the last column.
        let width = if width == 0 { 80 } else { width } - 1;
        self.rows = height.saturating_sub(FRAME).clamp(1, ROWS);
        self.top = self.top.clamp((self.cursor + 1).saturating_sub(self.rows), self.cursor);
        let longest = |cells: fn(&SelectedCluster) -> String, header: &str| {
            self.all.iter().map(|cluster| cells(cluster).len()).max().unwrap_or(0).max(header.len())
        };
        let (name, version) = (longest(name, "NAME"), longest(version, "VERSION"));
        let row = |head: &str, cells: [&str; 4]| {
            let [a, b, c, d] = cells;
            format!("{head}{a:name$}   {b:7}   {c:version$}   {d}")
        };
        // Shows the end of a long text, where the user types.
        let room = width.saturating_sub(PROMPT.len());
        let text = &self.text[self.text.len().saturating_sub(room)..];
        let mut lines = vec![row("    ", ["NAME", "READY", "VERSION", "LABELS"])];
        for (place, &at) in self.shown.iter().enumerate().skip(self.top).take(self.rows) {
            let cluster = &self.all[at];
            let cursor = if place == self.cursor { '>' } else { ' ' };
            let mark = if self.marked.contains(&at) { '*' } else { ' ' };
            let cells =
                [cluster.name.as_str(), cluster.ready(), &self::version(cluster), &plain(&labels(cluster))];
            lines.push(row(&format!("{cursor} {mark} "), cells));
        }
        if self.shown.is_empty() {
            lines.push("    no cluster matches".to_owned());
        }
        let (shown, all, marked) = (self.shown.len(), self.all.len(), self.marked.len());
        lines.push(format!("{shown}/{all}, {marked} marked; {KEYS}"));
        let mut lines: Vec<_> = lines.iter().map(|line| cut(line, width).trim_end().to_owned()).collect();
        lines.push(cut(&format!("{PROMPT}{text}"), width).to_owned());
        lines
    }
}

fn name(cluster: &SelectedCluster) -> String {
    cluster.name.to_string()
}

fn version(cluster: &SelectedCluster) -> String {
    let version = cluster.listed.as_ref().and_then(|listed| listed.version.as_ref());
    version.map_or_else(String::new, |version| plain(version.raw()).chars().take(LONGEST_VERSION).collect())
}

/// Truncates a line of ASCII.
fn cut(line: &str, width: usize) -> &str {
    line.get(..width).unwrap_or(line)
}

/// Text of a server as characters that are one column wide.
fn plain(text: &str) -> String {
    escaped(text).chars().map(|c| if c.is_ascii() { c } else { '?' }).collect()
}

const PROMPT: &str = "Clusters: ";
const KEYS: &str = "space marks, enter accepts, esc cancels";
/// The number of lines besides the clusters, including a free one below.
const FRAME: usize = 4;
/// With more clusters, typing is faster than scrolling.
const ROWS: usize = 15;
/// Fits the version of any provider; a longer one must not push the labels off the screen.
const LONGEST_VERSION: usize = 24;

#[cfg(test)]
mod tests;
