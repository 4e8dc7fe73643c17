//! Parses the name or the id of a cluster as one segment of a path.

use std::fmt;
use std::str::FromStr;

use crate::ClusterName;

/// One path segment of unreserved characters. It is never a dot segment and needs no escaping, so a server
/// that decodes or normalizes paths does not change it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Segment(String);

impl Segment {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Segment {
    type Err = InvalidSegment;

    fn from_str(text: &str) -> Result<Self, InvalidSegment> {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
        let is_segment = !text.is_empty() && text.len() <= LONGEST && text.bytes().all(is_plain);
        if is_segment && !text.starts_with('.') { Ok(Self(text.to_owned())) } else { Err(InvalidSegment) }
    }
}

impl From<&ClusterName> for Segment {
    fn from(name: &ClusterName) -> Self {
        Self(name.as_str().to_owned())
    }
}

impl fmt::Display for Segment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it is not one plain path segment")]
pub struct InvalidSegment;

/// The maximum length of an object's name.
const LONGEST: usize = 253;
