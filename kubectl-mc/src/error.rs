//! Represents a failed command for the user: the chain of causes, a hint and an exit code. Each module has
//! its own error type; [`Explain`] adds the hint and the exit code. A mistake on the command line that is
//! only displayed needs no type ([`Failure::usage`]).

use std::error::Error;
use std::fmt;

use crate::exit::ExitStatus;

/// An error with a hint for the user.
pub(crate) trait Explain: Error + Send + Sync + 'static {
    /// The next step, as a sentence or a command.
    fn hint(&self) -> Option<String> {
        None
    }

    /// The exit code for this kind of failure.
    fn status(&self) -> ExitStatus {
        ExitStatus::Failed
    }
}

/// A failed command, ready to be printed.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) status: ExitStatus,
    pub(crate) hint: Option<String>,
    error: Box<dyn Error + Send + Sync>,
}

impl Failure {
    /// An invalid command line, and the next step.
    pub(crate) fn usage(error: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { status: ExitStatus::Usage, hint: Some(hint.into()), error: error.into().into() }
    }
}

impl<E: Explain> From<E> for Failure {
    fn from(error: E) -> Self {
        Self { status: error.status(), hint: error.hint(), error: Box::new(error) }
    }
}

/// The chain of causes on one line: `outer: inner: innermost`.
impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&chain(&*self.error))
    }
}

impl Error for Failure {}

/// An error and its causes on one line.
pub(crate) fn chain(error: &(dyn Error + 'static)) -> String {
    let mut line = error.to_string();
    let mut last = line.clone();
    for cause in causes(error).skip(1) {
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

/// More levels than any library nests, so that a cyclic chain ends.
const MAX_CAUSES: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("cannot read the file")]
    struct Outer(#[source] std::io::Error);

    impl Explain for Outer {
        fn hint(&self) -> Option<String> {
            Some("look at it".to_owned())
        }
    }

    #[test]
    fn error_chain_is_printed_once_and_the_hint_separately() {
        let failure = Failure::from(Outer(std::io::Error::other("it is gone")));
        assert_eq!(failure.to_string(), "cannot read the file: it is gone");
        assert_eq!(failure.hint.as_deref(), Some("look at it"));
        assert_eq!(failure.status, ExitStatus::Failed);
    }
}
