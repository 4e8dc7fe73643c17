//! The file that names the exceptions. An entry is a line of kind and name, and indented lines that give the reason.

use anyhow::{Context, Result, bail, ensure};

/// Specs that are not expected to pass through the proxy.
pub(crate) struct Exceptions {
    entries: Vec<Entry>,
}

struct Entry {
    kind: Kind,
    name: String,
    reason: String,
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    /// It would fail at the member itself. It is left out of all runs, because it fails slowly.
    NotRun,
    /// It passes at the member and must fail through the proxy. If it passes there too, the entry
    /// has to be removed.
    Fails(Program),
}

/// The program that runs the commands of the specs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Program {
    /// kubectl, with the member's proxy path as the server of its kubeconfig.
    Kubectl,
    /// The plugin in place of kubectl.
    Plugin,
}

impl Exceptions {
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let mut entries: Vec<Entry> = Vec::new();
        for line in text.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#')) {
            if line.starts_with(char::is_whitespace) {
                let entry = entries.last_mut().context("a reason before all names")?;
                entry.reason = format!("{} {}", entry.reason, line.trim()).trim_start().to_owned();
                continue;
            }
            let (kind, name) = line.split_once(": ").with_context(|| format!("no kind: {line}"))?;
            let kind = match kind {
                "not run" => Kind::NotRun,
                "fails" => Kind::Fails(Program::Kubectl),
                "fails by the plugin" => Kind::Fails(Program::Plugin),
                _ => bail!("no such kind: {kind}"),
            };
            entries.push(Entry { kind, name: name.to_owned(), reason: String::new() });
        }
        for entry in &entries {
            ensure!(!entry.reason.is_empty(), "no reason for: {}", entry.name);
        }
        Ok(Self { entries })
    }

    /// The names of the specs that are left out.
    pub(crate) fn not_run(&self) -> Vec<String> {
        self.of(Kind::NotRun).map(|entry| entry.name.clone()).collect()
    }

    /// Why this spec cannot pass through the proxy, if it is known.
    pub(crate) fn reason(&self, name: &str, program: Program) -> Option<&str> {
        self.of(Kind::Fails(program)).find(|entry| entry.name == name).map(|entry| entry.reason.as_str())
    }

    fn of(&self, kind: Kind) -> impl Iterator<Item = &Entry> {
        self.entries.iter().filter(move |entry| entry.kind == kind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_kinds_and_reasons() {
        let exceptions =
            Exceptions::parse("# c\n\nfails: [x] a\n  because\n  of it\nnot run: b\n  so\n").unwrap();
        assert_eq!(exceptions.reason("[x] a", Program::Kubectl), Some("because of it"));
        assert_eq!(exceptions.reason("[x] a", Program::Plugin), None);
        assert_eq!(exceptions.reason("b", Program::Kubectl), None);
        assert_eq!(exceptions.not_run(), ["b"]);
    }

    #[test]
    fn unknown_lines_are_refused() {
        for text in ["fails: a\n", "  reason\n", "perhaps: a\n  why\n", "a\n  why\n"] {
            assert!(Exceptions::parse(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn file_of_the_repository_is_valid() {
        Exceptions::parse(include_str!("../exceptions.txt")).unwrap();
    }
}
