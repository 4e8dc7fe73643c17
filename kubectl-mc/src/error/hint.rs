//! The next step after a failure: text, and the commands in it as data. Only a [`CommandLine`] gets the flags of
//! the user's command line, so no text is searched for commands.

use std::fmt;

use crate::next_command::GivenFlags;

/// The next step, as a sentence with commands.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Hint(Vec<Piece>);

#[derive(Clone, Debug, PartialEq)]
enum Piece {
    Text(String),
    Command(CommandLine),
}

/// A command line of kubectl, quoted for a shell.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct CommandLine(String);

/// A command of the plugin.
pub(crate) fn mc(words: impl fmt::Display) -> CommandLine {
    CommandLine(format!("kubectl mc {words}"))
}

/// `kubectl mc clusters` lists the clusters
pub(crate) fn list_clusters() -> Hint {
    mc("clusters").that("lists the clusters")
}

/// `kubectl config get-contexts` lists the contexts
pub(crate) fn list_contexts() -> Hint {
    CommandLine::new("kubectl config get-contexts").that("lists the contexts")
}

impl CommandLine {
    pub(crate) fn new(line: impl Into<String>) -> Self {
        Self(line.into())
    }

    /// `log in: kubectl mc login`
    pub(crate) fn after(self, why: impl fmt::Display) -> Hint {
        Hint::from(format!("{why}: ")).then(self)
    }

    /// `` `kubectl mc clusters` lists the clusters ``
    pub(crate) fn that(self, does: impl fmt::Display) -> Hint {
        Hint::from("`").then(self).then(format!("` {does}"))
    }
}

impl Hint {
    /// The same hint, followed by this.
    pub(crate) fn then(mut self, next: impl Into<Self>) -> Self {
        self.0.extend(next.into().0);
        self
    }

    /// Both hints, separated by a semicolon.
    pub(crate) fn and(self, other: impl Into<Self>) -> Self {
        self.then("; ").then(other)
    }

    /// The same hint, with these flags in commands that do not name a host.
    pub(crate) fn with_flags(self, given: &GivenFlags) -> Self {
        let complete = |piece| match piece {
            Piece::Command(CommandLine(line)) => Piece::Command(CommandLine(given.command(&line))),
            text @ Piece::Text(_) => text,
        };
        Self(self.0.into_iter().map(complete).collect())
    }
}

impl From<String> for Hint {
    fn from(text: String) -> Self {
        Self(vec![Piece::Text(text)])
    }
}

impl From<&str> for Hint {
    fn from(text: &str) -> Self {
        text.to_owned().into()
    }
}

impl From<CommandLine> for Hint {
    fn from(command: CommandLine) -> Self {
        Self(vec![Piece::Command(command)])
    }
}

impl fmt::Display for Hint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|piece| match piece {
            Piece::Text(text) | Piece::Command(CommandLine(text)) => f.write_str(text),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::*;

    #[test]
    fn only_commands_get_the_given_flags() {
        let given = GivenFlags::of_words(&["--context=h", "--member-context=m"].map(OsString::from));
        let hint = |hint: Hint| hint.with_flags(&given).to_string();
        assert_eq!(hint(list_clusters()), "`kubectl mc --context=h clusters` lists the clusters");
        let join = mc("join m1 --member-context=NAME").after("join it");
        assert_eq!(hint(join), "join it: kubectl mc --context=h join m1 --member-context=m");
        let other =
            mc("install").after("or").and(CommandLine::new("kubectl --context=x get ns").after("see"));
        assert_eq!(hint(other), "or: kubectl mc --context=h install; see: kubectl --context=x get ns");
        assert_eq!(hint("kubectl mc install".into()), "kubectl mc install");
    }
}
