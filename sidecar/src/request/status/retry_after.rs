//! Chooses the `Retry-After` of a response.

use http::HeaderValue;
use jiff::Timestamp;
use jiff::fmt::rfc2822::DateTimePrinter;

use crate::outbound::upstream::breaker::Unreachable;

/// The time after which a client may retry, in one of the two forms of RFC 9110, 10.2.3.
///
/// client-go and kube wait for a number of seconds and repeat the request silently. That helps in a short
/// failure and would hide a long outage. Neither of them reads a date.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RetryAfter {
    Seconds(u32),
    Date(Timestamp),
}

impl RetryAfter {
    pub(super) fn of(cause: &Unreachable) -> Self {
        let seconds = cause.retry_after();
        if cause.is_short() {
            return Self::Seconds(seconds);
        }
        Self::at(seconds)
    }

    /// An agent that lost its tunnel either reconnects within seconds or stays away.
    pub(super) fn of_agent(gone_since: Timestamp) -> Self {
        let gone = Timestamp::now().duration_since(gone_since);
        if gone.as_secs() < AGENT_RECONNECTS { Self::Seconds(1) } else { Self::at(AGENT_RETRY) }
    }

    fn at(seconds: u32) -> Self {
        // A date has no fraction, so it is rounded up: an earlier retry would fail.
        let date = Timestamp::from_second(Timestamp::now().as_second() + 1 + i64::from(seconds));
        date.map_or(Self::Seconds(seconds), Self::Date)
    }

    pub(super) fn value(self) -> Option<HeaderValue> {
        match self {
            Self::Seconds(seconds) => Some(seconds.into()),
            Self::Date(date) => {
                let date = DateTimePrinter::new().timestamp_to_rfc9110_string(&date).ok()?;
                HeaderValue::try_from(date).ok()
            }
        }
    }

    /// For `metav1.Status`, which supports only seconds.
    pub(super) fn seconds(self) -> Option<u32> {
        match self {
            Self::Seconds(seconds) => Some(seconds),
            Self::Date(_) => None,
        }
    }
}

/// Seconds within which most agents reconnect after a connection broke.
const AGENT_RECONNECTS: i64 = 15;
const AGENT_RETRY: u32 = 30;
pub(super) const A_SECOND: Option<RetryAfter> = Some(RetryAfter::Seconds(1));
