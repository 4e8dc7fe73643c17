//! Represents a failed command for the user: what failed and why, a hint and an exit code. Code
//! creates a [`Failure`] where the problem occurs. A module has its own error type only if other
//! code matches its variants; [`Explain`] adds the hint and the exit code to such a type.

mod hint;

use std::error::Error;
use std::fmt;

use crate::cli::FoundHub;
use crate::exit::ExitStatus;

pub(crate) use hint::{CommandLine, Hint, list_clusters, list_contexts, mc};

/// A separate error type, with a hint for the user.
pub(crate) trait Explain: Error + Send + Sync + 'static {
    /// The next step, as a sentence or a command.
    fn hint(&self) -> Option<Hint> {
        None
    }

    /// The exit code for this kind of failure.
    fn status(&self) -> ExitStatus {
        ExitStatus::Failed
    }

    /// The hub with which the command would not have failed like this.
    fn found_hub(&self) -> Option<&FoundHub> {
        None
    }
}

/// A failed command, ready to be printed. It is not an [`Error`], so that [`Context`] keeps its
/// hint and exit code.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Failure {
    pub(crate) status: ExitStatus,
    pub(crate) hint: Option<Hint>,
    /// The hub that the host serves instead of kubectl-mc's sidecar, found before any output.
    pub(crate) found_hub: Option<Box<FoundHub>>,
    /// What failed, on which object, and the causes on one line: `outer: inner: innermost`.
    text: String,
}

impl Failure {
    /// A failure of the command; its text has no cause yet.
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self { status: ExitStatus::Failed, hint: None, found_hub: None, text: text.into() }
    }

    /// An invalid command line or input.
    pub(crate) fn usage(text: impl Into<String>) -> Self {
        Self::new(text).with_status(ExitStatus::Usage)
    }

    /// The same failure with the next step.
    pub(crate) fn with_hint(self, hint: impl Into<Hint>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    /// The same failure with this next step, if it has none.
    pub(crate) fn or_hint(self, hint: impl FnOnce() -> Hint) -> Self {
        Self { hint: self.hint.or_else(|| Some(hint())), ..self }
    }

    pub(crate) fn with_status(self, status: ExitStatus) -> Self {
        Self { status, ..self }
    }

    /// The same failure as the cause of this one: `what: cause`.
    pub(crate) fn within(self, what: impl Into<String>) -> Self {
        Self { text: format!("{}: {}", what.into(), self.text), ..self }
    }

    /// The same failure with its cause.
    pub(crate) fn because(self, cause: &(dyn Error + 'static)) -> Self {
        Self { text: with_causes(self.text, causes(cause)), ..self }
    }
}

impl<E: Explain> From<E> for Failure {
    fn from(error: E) -> Self {
        let found_hub = error.found_hub().cloned().map(Box::new);
        Self { status: error.status(), hint: error.hint(), found_hub, text: chain(&error) }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Adds what failed, in front of the cause.
pub(crate) trait Context<T> {
    /// `what: cause`
    fn context<W: Into<String>>(self, what: impl FnOnce() -> W) -> Result<T, Failure>;
}

impl<T, E: Error + 'static> Context<T> for Result<T, E> {
    fn context<W: Into<String>>(self, what: impl FnOnce() -> W) -> Result<T, Failure> {
        self.map_err(|error| Failure::new(what()).because(&error))
    }
}

/// The hint and the exit code remain those of the cause.
impl<T> Context<T> for Result<T, Failure> {
    fn context<W: Into<String>>(self, what: impl FnOnce() -> W) -> Self {
        self.map_err(|cause| cause.within(what()))
    }
}

/// An error and its causes on one line.
pub(crate) fn chain(error: &(dyn Error + 'static)) -> String {
    with_causes(error.to_string(), causes(error).skip(1))
}

fn with_causes<'a>(mut line: String, causes: impl Iterator<Item = &'a (dyn Error + 'static)>) -> String {
    let mut last = line.clone();
    for cause in causes {
        let text = cause.to_string();
        // Some libraries repeat the cause in their own message; it is printed once.
        if !last.contains(&text) {
            line = format!("{line}: {text}");
        }
        last = text;
    }
    line
}

/// An error and its causes, outermost first.
pub(crate) fn causes<'a>(
    error: &'a (dyn Error + 'static),
) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |error| cause(*error)).take(MAX_CAUSES)
}

/// The cause of an error. The source of an `io::Error` skips the error that it wraps.
fn cause<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a (dyn Error + 'static)> {
    let wrapped = error.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
    wrapped.map(|wrapped| wrapped as &(dyn Error + 'static)).or_else(|| error.source())
}

/// More levels than any library nests; ends a cyclic chain.
const MAX_CAUSES: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("cannot read the file")]
    struct Outer(#[source] std::io::Error);

    impl Explain for Outer {
        fn hint(&self) -> Option<Hint> {
            Some("look at it".into())
        }
    }

    #[test]
    fn error_chain_is_printed_once_and_the_hint_separately() {
        let failure = Failure::from(Outer(std::io::Error::other("it is gone")));
        assert_eq!(failure.to_string(), "cannot read the file: it is gone");
        assert_eq!(failure.hint, Some("look at it".into()));
        assert_eq!(failure.status, ExitStatus::Failed);
    }

    #[test]
    fn context_keeps_the_hint_and_the_exit_code() {
        let cause: Result<(), _> = Err(Failure::usage("no file").with_hint("name one"));
        let failure = cause.context(|| "cannot join").unwrap_err();
        assert_eq!(failure, Failure::usage("cannot join: no file").with_hint("name one"));
        let cause: Result<(), _> = Err(std::io::Error::other("it is gone"));
        assert_eq!(cause.context(|| "cannot read").unwrap_err(), Failure::new("cannot read: it is gone"));
    }
}
