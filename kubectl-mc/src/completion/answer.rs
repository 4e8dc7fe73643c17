//! Formats the response to a shell as cobra does: one candidate per line, a tab before its description, and
//! the directive as the last line.
//!
//! Members, files and other programs choose the text of candidates. The scripts of `kubectl completion` before
//! 1.34 expand a candidate as bash would (`compgen -W`), and zsh inserts it without quotes. So a
//! candidate contains no character that has a special meaning in any shell.

use std::fmt::Write;

/// The hidden verb. It is only recognized as the first word.
pub(crate) const VERB: &str = "__complete";

/// The candidates for a shell, and the directive for handling them.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Answer {
    pub(super) candidates: Vec<Candidate>,
    pub(super) directive: Directive,
}

/// A word that completes the command line.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Candidate {
    word: String,
    about: String,
}

/// The characters of a word: those of names, types, flags, lists, RBAC roles, users and ARNs.
fn is_plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || "-._/:,=@+".contains(c)
}

/// The characters of a description. Some versions of kubectl's script expand it too.
fn is_plain_text(c: char) -> bool {
    c.is_alphanumeric() || is_plain(c) || " ;%'\"()[]*#!?&|".contains(c)
}

/// cobra's `ShellCompDirective`, a bit set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Directive(u8);

impl Directive {
    /// No space after the word, because more text may follow.
    pub(super) const NO_SPACE: Self = Self(2);
    /// No file names, even without candidates.
    pub(super) const NO_FILES: Self = Self(4);
    /// File names if there are no candidates.
    pub(super) const FILES: Self = Self(0);
    /// Something failed: the shell ignores the candidates.
    const ERROR: Self = Self(1);

    /// Parses the directive of kubectl. Unknown bits of a later cobra are kept.
    fn parse(text: &str) -> Option<Self> {
        text.strip_prefix(':')?.parse().ok().map(Self)
    }

    fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    fn has(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }
}

impl Default for Directive {
    fn default() -> Self {
        Self::NO_FILES
    }
}

impl Candidate {
    /// A candidate; `None` if a shell might read the word as more than text. Of the description, only
    /// harmless characters remain.
    pub(super) fn new(word: &str, about: &str) -> Option<Self> {
        // zsh replaces a word that begins with `=` by the path of a program; a line that begins with `:` is the
        // directive.
        if word.is_empty() || word.starts_with(['=', ':']) || !word.chars().all(is_plain) {
            return None;
        }
        let about = about.lines().next().unwrap_or_default();
        let about = about.chars().filter(|&c| is_plain_text(c)).collect();
        Some(Self { word: word.to_owned(), about })
    }

    pub(super) fn word(&self) -> &str {
        &self.word
    }

    /// Whether this is a flag that kubectl offers before a dash is typed.
    fn is_required_flag(&self) -> bool {
        let flag = self.word.strip_prefix("--").map(|flag| flag.strip_suffix('=').unwrap_or(flag));
        flag.is_some_and(|flag| REQUIRED_FLAGS.contains(&flag))
    }
}

impl Answer {
    /// File names only.
    pub(super) fn files() -> Self {
        Self { candidates: Vec::new(), directive: Directive::FILES }
    }

    /// These words, without descriptions.
    pub(super) fn words<'a>(words: impl IntoIterator<Item = &'a str>) -> Self {
        words.into_iter().filter_map(|word| Candidate::new(word, "")).collect()
    }

    /// These candidates, then the other ones.
    pub(super) fn or_also(mut self, other: Self) -> Self {
        self.candidates.extend(other.candidates);
        self
    }

    /// Parses the response of kubectl to the typed word; empty if kubectl failed.
    pub(super) fn parse(text: &str, typed: &str) -> Self {
        let mut lines: Vec<_> = text.lines().filter(|line| !line.is_empty()).collect();
        let Some(directive) = lines.pop().and_then(Directive::parse) else { return Self::default() };
        if directive.has(Directive::ERROR) {
            return Self::default();
        }
        let candidate = |line: &str| {
            let (word, about) = line.split_once('\t').unwrap_or((line, ""));
            Candidate::new(word, about)
        };
        // Help texts for the user are not candidates.
        let lines = lines.into_iter().filter(|line| !line.starts_with("_activeHelp_ "));
        // Otherwise an object named like a flag would be inserted where its name is expected.
        let is_expected = |candidate: &Candidate| {
            typed.starts_with('-') || !candidate.word.starts_with('-') || candidate.is_required_flag()
        };
        Self { candidates: lines.filter_map(candidate).filter(is_expected).collect(), directive }
    }

    /// The candidates that begin with the typed text.
    pub(super) fn beginning_with(mut self, typed: &str) -> Self {
        self.candidates.retain(|candidate| candidate.word.starts_with(typed));
        self
    }

    /// The candidates that are not refused.
    pub(super) fn without(mut self, is_refused: impl Fn(&str) -> bool) -> Self {
        self.candidates.retain(|candidate| !is_refused(&candidate.word));
        self
    }

    /// Prefixes each candidate with the text before it in the word of the command line. The
    /// descriptions are dropped: with them, kubectl's script for bash would compare the quoted
    /// word, and it quotes commas.
    pub(super) fn behind(mut self, before: &str) -> Self {
        // `!` excludes a cluster. Names never contain it.
        if !before.chars().all(|c| is_plain(c) || c == '!') {
            self.candidates.clear();
        }
        for candidate in self.candidates.iter_mut().filter(|_| !before.is_empty()) {
            candidate.word.insert_str(0, before);
            candidate.about.clear();
        }
        self
    }

    /// The candidates of both; of two equal words, the first is kept.
    pub(super) fn and(mut self, other: Self) -> Self {
        let new =
            other.candidates.into_iter().filter(|new| self.candidates.iter().all(|c| c.word != new.word));
        let new: Vec<_> = new.collect();
        self.candidates.extend(new);
        self.directive = self.directive.and(other.directive);
        self
    }

    /// The same candidates, without a space after the word.
    pub(super) fn without_space(mut self) -> Self {
        self.directive = self.directive.and(Directive::NO_SPACE);
        self
    }

    /// The printed text.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        for Candidate { word, about } in &self.candidates {
            let tab = if about.is_empty() { "" } else { "\t" };
            let _ = writeln!(text, "{word}{tab}{about}");
        }
        let _ = writeln!(text, ":{}", self.directive.0);
        text
    }
}

impl FromIterator<Candidate> for Answer {
    fn from_iter<T: IntoIterator<Item = Candidate>>(candidates: T) -> Self {
        Self { candidates: candidates.into_iter().collect(), directive: Directive::NO_FILES }
    }
}

/// The required flags of kubectl's verbs.
const REQUIRED_FLAGS: &[&str] =
    &["clusterrole", "external-name", "image", "max", "replicas", "schedule", "section"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kubectl_answer_round_trips() {
        for (text, expected) in [
            ("pods\tResource\nnodes\n:4\n", "pods\tResource\nnodes\n:4\n"),
            ("web\n\n:36\n", "web\n:36\n"),
            ("_activeHelp_ choose\na\n:4\n", "a\n:4\n"),
            ("a\n:0\n", "a\n:0\n"),
            // An error, a missing directive, and empty output.
            ("a\n:1\n", ":4\n"),
            ("a\nb\n", ":4\n"),
            ("", ":4\n"),
        ] {
            assert_eq!(Answer::parse(text, "").text(), expected, "{text:?}");
        }
    }

    #[test]
    fn text_that_a_shell_would_run_is_dropped() {
        let text = "$(id)\n`id`\n<({id,-u})\na b\n~\n=ls\n:0\n!1\n\u{1b}[2Jpod\nweb\tde`p$loy\u{7}ment\n:4\n";
        assert_eq!(Answer::parse(text, "").text(), "web\tdeployment\n:4\n");
    }

    #[test]
    fn first_of_two_equal_words_wins() {
        let ours: Answer = Candidate::new("--cluster", "ours").into_iter().collect();
        let theirs = Answer::parse("--cluster\ttheirs\n--all\n:4\n", "-");
        assert_eq!(ours.and(theirs).text(), "--cluster\tours\n--all\n:4\n");
    }
}
