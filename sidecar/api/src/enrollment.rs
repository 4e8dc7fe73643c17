//! The time in which a member's agent may enroll: hand over the member's CA and the tokens of the sidecar's two accounts.
//! `kubectl mc join --agent --enroll` opens it by an annotation on the member's Secrets, and the leader closes it.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;

use crate::names::ENROLLMENT_UNTIL;

/// The longest enrollment, and the default.
pub const LONGEST: Duration = Duration::from_secs(3600);
/// The clocks of the host and of the sidecar may differ by so much.
const LEEWAY: Duration = Duration::from_secs(300);

/// Where the enrollment of a member stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Enrollment {
    Open(Timestamp),
    Over(Timestamp),
    /// The annotation is no time, or one that is too far away. It counts as closed.
    Invalid,
}

impl Enrollment {
    /// What the annotations of a member's Secret say, if they have one of an enrollment.
    pub fn parse(annotations: Option<&BTreeMap<String, String>>, now: Timestamp) -> Option<Self> {
        let until = annotations?.get(ENROLLMENT_UNTIL)?;
        let Ok(until) = until.parse::<Timestamp>() else { return Some(Self::Invalid) };
        let is_too_late = now.checked_add(LONGEST + LEEWAY).is_ok_and(|latest| until > latest);
        Some(match until > now {
            _ if is_too_late => Self::Invalid,
            true => Self::Open(until),
            false => Self::Over(until),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(until: &str) -> Option<Enrollment> {
        let annotations = BTreeMap::from([(ENROLLMENT_UNTIL.to_owned(), until.to_owned())]);
        Enrollment::parse(Some(&annotations), "2026-11-24T13:00:00Z".parse().unwrap())
    }

    #[test]
    fn enrollment_is_open_until_its_end() {
        let open = |text: &str| Some(Enrollment::Open(text.parse().unwrap()));
        assert_eq!(parse("2026-11-24T13:00:01Z"), open("2026-11-24T13:00:01Z"));
        assert_eq!(parse("2026-11-24T14:00:00Z"), open("2026-11-24T14:00:00Z"));
        assert_eq!(parse("2026-11-24T15:04:59+01:00"), open("2026-11-24T14:04:59Z"), "clocks differ");
        assert_eq!(
            parse("2026-11-24T13:00:00Z"),
            Some(Enrollment::Over("2026-11-24T13:00:00Z".parse().unwrap()))
        );
    }

    #[test]
    fn end_that_is_too_far_away_or_no_time_counts_as_closed() {
        for text in
            ["2026-11-24T14:05:01Z", "9999-12-30T22:00:00Z", "", "tomorrow", "1764000000", "2026-11-24"]
        {
            assert_eq!(parse(text), Some(Enrollment::Invalid), "{text:?}");
        }
        assert_eq!(Enrollment::parse(None, Timestamp::now()), None);
        assert_eq!(Enrollment::parse(Some(&BTreeMap::new()), Timestamp::now()), None);
    }
}
