//! Keeps the host's answers about the recorded users of one member between syncs. Each recorded user starts a
//! sync, so without them every new user would cost a review of each earlier one.
//!
//! The answers last until the next periodic sync, which reviews all users again. A right that the host
//! revokes outside of RBAC is therefore noticed within `--member-resync-period`, as without them. A change of
//! the host's RBAC or of the member discards them. Only allowed users are kept.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::digest::{SHA256, SHA256_OUTPUT_LEN, digest};
use kubectl_mc_api::access::ObservedUser;
use serde_json::json;
use tokio::time::Instant;

use crate::base::retry;

/// The reviews of one member's users.
#[derive(Clone, Debug, Default)]
pub(super) struct Reviews {
    allowed: Arc<HashSet<Digest>>,
    /// When all users are reviewed again; `None` without a review.
    until: Option<Instant>,
}

/// Identifies a user with groups, which can be kilobytes.
type Digest = [u8; SHA256_OUTPUT_LEN];

impl Reviews {
    /// The answers that a sync may use, and the time until the next periodic sync.
    pub(super) fn begin(&mut self, now: Instant, period: Duration) -> (Self, Duration) {
        let until = self.until.filter(|until| now < *until).unwrap_or_else(|| {
            self.allowed = Arc::default();
            now + retry::jittered(period)
        });
        self.until = Some(until);
        (self.clone(), until - now)
    }

    pub(super) fn discard(&mut self) {
        *self = Self::default();
    }

    /// Stores the answers of a sync, unless it began before a [`discard`](Self::discard).
    pub(super) fn update(&mut self, of_sync: Self) {
        if self.until == of_sync.until {
            *self = of_sync;
        }
    }

    /// Whether the host has allowed this user with these groups.
    pub(super) fn allow(&self, entry: &ObservedUser) -> bool {
        self.allowed.contains(&of(entry))
    }

    /// The same period with these users.
    pub(super) fn with<'a>(self, allowed: impl Iterator<Item = &'a ObservedUser>) -> Self {
        Self { allowed: Arc::new(allowed.map(of).collect()), ..self }
    }
}

fn of(entry: &ObservedUser) -> Digest {
    let text = json!([entry.user, entry.groups]).to_string();
    let mut bytes = Digest::default();
    bytes.copy_from_slice(digest(&SHA256, text.as_bytes()).as_ref());
    bytes
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    use super::*;

    const PERIOD: Duration = Duration::from_secs(180);

    fn user(user: &str, groups: &[&str]) -> ObservedUser {
        let groups = groups.iter().map(|&group| group.to_owned()).collect();
        ObservedUser { user: user.to_owned(), groups, at: Time(jiff::Timestamp::UNIX_EPOCH) }
    }

    /// Reviews in which the host allowed jane of group `dev`, and the time until the periodic sync.
    fn reviewed(now: Instant) -> (Reviews, Duration) {
        let mut reviews = Reviews::default();
        let (of_sync, rest) = reviews.begin(now, PERIOD);
        reviews.update(of_sync.with([&user("jane", &["dev"])].into_iter()));
        (reviews, rest)
    }

    #[test]
    fn answer_is_for_one_user_with_its_groups() {
        let (reviews, _) = reviewed(Instant::now());
        assert!(reviews.allow(&user("jane", &["dev"])));
        assert!(!reviews.allow(&user("jane", &["dev", "ops"])));
        assert!(!reviews.allow(&user("jane", &[])));
        assert!(!reviews.allow(&user("bob", &["dev"])));
    }

    #[test]
    fn further_syncs_do_not_extend_the_period() {
        let now = Instant::now();
        let (mut reviews, rest) = reviewed(now);
        for second in (10..180).step_by(10).map(Duration::from_secs) {
            let (of_sync, left) = reviews.begin(now + second, PERIOD);
            assert!(of_sync.allow(&user("jane", &["dev"])));
            assert_eq!(left, rest - second);
            reviews.update(of_sync);
        }
        let (of_sync, left) = reviews.begin(now + rest, PERIOD);
        assert!(!of_sync.allow(&user("jane", &["dev"])) && left >= PERIOD);
    }

    #[test]
    fn sync_from_before_a_change_leaves_no_answers() {
        let now = Instant::now();
        let (mut reviews, _) = reviewed(now);
        let (of_sync, _) = reviews.begin(now, PERIOD);
        reviews.discard();
        reviews.update(of_sync);
        assert!(!reviews.begin(now, PERIOD).0.allow(&user("jane", &["dev"])));
    }
}
