//! Parses the deadline until which a member's agent may enroll, that is, send the member's CA and the tokens
//! of the sidecar's two accounts. `kubectl mc join --agent --enroll` opens the enrollment by an annotation on
//! the member's Secrets, and the leader closes it.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;

use crate::names::ENROLLMENT_UNTIL;

/// The maximum and default duration of an enrollment.
pub const LONGEST: Duration = Duration::from_secs(3600);
/// The tolerated difference between the clocks of the host and of the sidecar.
const LEEWAY: Duration = Duration::from_secs(300);

/// The state of a member's enrollment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Enrollment {
    Open(Timestamp),
    Over(Timestamp),
    /// The annotation is not a time, or is too far in the future. It counts as closed.
    Invalid,
}

impl Enrollment {
    /// Reads the annotations of a member's Secret; `None` without an enrollment annotation.
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
    fn enrollment_is_open_until_its_deadline() {
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
    fn invalid_enrollment_deadline_counts_as_closed() {
        for text in
            ["2026-11-24T14:05:01Z", "9999-12-30T22:00:00Z", "", "tomorrow", "1764000000", "2026-11-24"]
        {
            assert_eq!(parse(text), Some(Enrollment::Invalid), "{text:?}");
        }
        assert_eq!(Enrollment::parse(None, Timestamp::now()), None);
        assert_eq!(Enrollment::parse(Some(&BTreeMap::new()), Timestamp::now()), None);
    }
}
