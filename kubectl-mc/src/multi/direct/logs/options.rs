//! Which part of a log to request.

use std::time::Duration;

use kubectl_mc_api::go_duration;

/// Which part of a log to request.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct LogOptions {
    pub(super) follow: bool,
    pub(super) previous: bool,
    pub(super) since: Since,
    pub(super) tail: Option<u64>,
}

impl LogOptions {
    /// The same options for the whole log.
    pub(super) fn whole(&self) -> Self {
        Self { follow: self.follow, previous: self.previous, since: Since::Ever, tail: None }
    }
}

/// The start of the log.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Since {
    Ever,
    Seconds(u64),
    Time(String),
}

impl Since {
    /// Parses the flags `--since` and `--since-time`; `None` if they are invalid.
    pub(super) fn parse(since: Option<String>, time: Option<String>) -> Option<Self> {
        Some(match (since, time) {
            (None, None) => Self::Ever,
            (Some(ago), None) => Self::Seconds(go_seconds(&ago)?),
            (None, Some(time)) => Self::Time(time.parse::<jiff::Timestamp>().ok().map(|_| time)?),
            (Some(_), Some(_)) => return None,
        })
    }
}

/// Parses a duration in Go's notation, rounded to seconds.
fn go_seconds(text: &str) -> Option<u64> {
    let ago = go_duration::parse(text).ok().flatten()?;
    // kubectl handles durations below a second.
    let seconds = ago.as_secs_f64().round();
    (seconds >= 1.0).then(|| Duration::from_secs_f64(seconds).as_secs())
}
