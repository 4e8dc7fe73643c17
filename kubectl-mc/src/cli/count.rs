//! Parses the value of a flag that counts.

use std::str::FromStr;

/// Parses a number that is at least one.
pub(super) fn count<T: FromStr>(text: &str) -> Result<T, &'static str> {
    text.parse().map_err(|_| "expected a number of at least 1")
}
