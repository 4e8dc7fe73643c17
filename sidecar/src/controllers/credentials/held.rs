//! The credential of a member in one Secret, and the state of its renewal.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use tokio::time::Instant;

use super::assess::Trouble;
use crate::host::token::{Credential, Token};

/// The credential in one Secret, and the state of its renewal.
pub(super) struct Held {
    pub(super) secret: Option<Arc<Secret>>,
    pub(super) credential: Credential,
    /// When it was first seen.
    pub(super) seen: Now,
    /// No renewal starts before this time, because one is in progress, has just ended or has failed.
    pub(super) not_before: Option<Instant>,
    pub(super) failed: u32,
    pub(super) trouble: Option<Trouble>,
}

/// The current time of the wall clock, which can be changed, and of the monotonic clock.
#[derive(Clone, Copy, Debug)]
pub(super) struct Now {
    pub(super) clock: Timestamp,
    pub(super) steady: Instant,
}

impl Now {
    pub(super) fn read() -> Self {
        Self { clock: Timestamp::now(), steady: Instant::now() }
    }
}

impl Held {
    pub(super) fn of(secret: Option<Arc<Secret>>, now: Now) -> Self {
        let data = secret.as_ref().and_then(|secret| secret.data.as_ref());
        let credential = data.map_or(Credential::None, Credential::of);
        Self { secret, credential, seen: now, not_before: None, failed: 0, trouble: None }
    }

    /// The state for the new content of the Secret. After a renewal, the next one is delayed.
    pub(super) fn followed_by(&self, secret: Option<Arc<Secret>>, now: Now) -> Self {
        let renewed = self.not_before.is_some() && self.failed == 0;
        Self { not_before: renewed.then(|| now.steady + APART), ..Self::of(secret, now) }
    }

    /// Whether this is the credential in the Secret.
    pub(super) fn has(&self, secret: Option<&Secret>) -> bool {
        self.secret.as_deref().map(|secret| &secret.data) == secret.map(|secret| &secret.data)
    }

    pub(super) fn token(&self) -> Option<&Token> {
        match &self.credential {
            Credential::Token(token) => Some(token),
            Credential::None | Credential::Certificate(_) => None,
        }
    }

    /// The current time for a token: by the wall clock, or by the time since the token was first seen,
    /// whichever is later.
    pub(super) fn latest(&self, now: Now) -> Timestamp {
        let passed = now.steady.saturating_duration_since(self.seen.steady);
        self.seen.clock.checked_add(passed).map_or(now.clock, |steady| steady.max(now.clock))
    }

    /// The times until the next events of this credential.
    pub(super) fn waits(&self, part: f64, now: Now) -> impl Iterator<Item = Duration> {
        let token = self.token();
        let due = token.and_then(|token| token.due(part)).map(|time| time.duration_since(self.latest(now)));
        let times =
            [token.and_then(|token| token.life).map(|life| life.at(overdue(part))), self.credential.ends()];
        let times = times.into_iter().flatten().map(move |time| time.duration_since(now.clock));
        let waits = due.into_iter().chain(times).filter(|wait| wait.is_positive());
        let not_before = self.not_before.and_then(|time| time.checked_duration_since(now.steady));
        waits.map(|wait| wait.unsigned_abs()).chain(not_before.filter(|wait| !wait.is_zero()))
    }

    /// The token, if it is due for renewal.
    pub(super) fn due(&self, part: f64, now: Now) -> Option<Token> {
        let token = self.token().filter(|token| token.account.is_some())?;
        let may = self.not_before.is_none_or(|time| time <= now.steady);
        (may && token.due(part)? <= self.latest(now)).then(|| token.clone())
    }
}

/// The part of a token's lifetime after which a missing renewal is a warning: a quarter of the
/// remaining time after it is due.
pub(super) fn overdue(renewal_fraction: f64) -> f64 {
    0.75_f64.mul_add(renewal_fraction, 0.25)
}

/// The shortest interval between renewals of one token. A new token that is due immediately means that the
/// clock is ahead of the member's, so another renewal does not help.
pub(super) const APART: Duration = Duration::from_secs(20);
