//! Iterates over the causes of an error.

use std::error::Error;
use std::io;
use std::iter::successors;

/// The error and its causes, from the outermost to the innermost, including those inside an `io::Error`.
pub(crate) fn causes<'a>(
    error: &'a (dyn Error + 'static),
) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    let next = |&error: &&'a (dyn Error + 'static)| {
        let inner = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        inner.map_or_else(|| error.source(), |inner| Some(inner as &(dyn Error + 'static)))
    };
    successors(Some(error), next).take(MAX)
}

/// The text of the innermost cause, which says what happened; the outer ones only give the context.
pub(crate) fn innermost(error: &(dyn Error + 'static)) -> String {
    causes(error).last().map_or_else(String::new, ToString::to_string)
}

/// No chain of causes is longer, unless it has a cycle.
const MAX: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("outer")]
    struct Outer(#[source] io::Error);

    #[test]
    fn cause_inside_an_io_error_is_visited() {
        let error = Outer(io::Error::other(Outer(io::Error::other("inner"))));
        let texts: Vec<_> = causes(&error).map(ToString::to_string).collect();
        assert_eq!(texts, ["outer", "outer", "outer", "inner", "inner"]);
        assert_eq!(innermost(&error), "inner");
    }
}
