//! Priority levels and their nominal shares of a bound (apiserver: `apis/flowcontrol/bootstrap`). A level
//! protects its requests from floods in other levels; within a level each caller has a share.

use std::fmt;
use std::str::FromStr;

/// A priority level, the most important first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// Never waits and is never refused, in the bounds of all requests.
    Exempt,
    System,
    WorkloadHigh,
    Interactive,
    CatchAll,
}

impl Level {
    pub const ALL: [Self; 5] =
        [Self::Exempt, Self::System, Self::WorkloadHigh, Self::Interactive, Self::CatchAll];
    pub const COUNT: usize = Self::ALL.len();

    /// The name of the level in a kube-apiserver, if it has this level.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Exempt => "exempt",
            Self::System => "system",
            Self::WorkloadHigh => "workload-high",
            Self::Interactive => "interactive",
            Self::CatchAll => "catch-all",
        }
    }

    /// How much of its nominal share a level lends to the others while it is idle, in percent. The numbers
    /// are upstream's; Interactive has those of global-default.
    pub(super) const fn lendable_percent(self) -> usize {
        match self {
            Self::Exempt | Self::CatchAll => 0,
            Self::System => 33,
            Self::WorkloadHigh | Self::Interactive => 50,
        }
    }
}

/// The nominal shares of the levels, like upstream's nominalConcurrencyShares: only their proportions matter.
/// A level without a share has no seats itself, and borrows them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shares([u16; Level::COUNT]);

impl Shares {
    /// The share of one level.
    pub const fn of(self, level: Level) -> u16 {
        self.0[level as usize]
    }
}

impl Default for Shares {
    fn default() -> Self {
        Self([0, 30, 40, 40, 5])
    }
}

impl fmt::Display for Shares {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, level) in LIMITED.into_iter().enumerate() {
            let comma = if number == 0 { "" } else { "," };
            write!(f, "{comma}{}={}", level.as_str(), self.of(level))?;
        }
        Ok(())
    }
}

/// Levels that the text does not name keep their default.
impl FromStr for Shares {
    type Err = InvalidShares;

    fn from_str(text: &str) -> Result<Self, InvalidShares> {
        let (mut shares, mut named) = (Self::default(), [false; Level::COUNT]);
        for item in text.split(',').map(str::trim).filter(|item| !item.is_empty()) {
            let invalid = || InvalidShares::Item(item.to_owned());
            let (name, share) = item.split_once('=').ok_or_else(invalid)?;
            let level = LIMITED.into_iter().find(|level| level.as_str() == name);
            let level = level.ok_or_else(|| InvalidShares::Level(name.to_owned()))?;
            if std::mem::replace(&mut named[level as usize], true) {
                return Err(InvalidShares::Twice(name.to_owned()));
            }
            let share = share.parse().ok().filter(|share| *share <= MAX_SHARE && share_is_plain(item));
            shares.0[level as usize] = share.ok_or_else(invalid)?;
        }
        Ok(shares)
    }
}

/// Whether the share has no plus sign. Rust also parses `+5`.
fn share_is_plain(item: &str) -> bool {
    !item.contains('+')
}

/// The levels that have a share.
const LIMITED: [Level; 4] = [Level::System, Level::WorkloadHigh, Level::Interactive, Level::CatchAll];
const MAX_SHARE: u16 = 10_000;

/// Why a list of shares is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidShares {
    #[error("{0:?} is not LEVEL=SHARE with a whole share from 0 to {MAX_SHARE}")]
    Item(String),
    #[error("{0:?} is not a priority level with a share: system, workload-high, interactive or catch-all")]
    Level(String),
    #[error("the level {0:?} is given twice")]
    Twice(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_round_trip_through_text() {
        let shares: Shares = "system=1,catch-all=0".parse().unwrap();
        assert_eq!(shares.to_string(), "system=1,workload-high=40,interactive=40,catch-all=0");
        assert_eq!(shares.to_string().parse(), Ok(shares));
        assert_eq!("".parse(), Ok(Shares::default()));
    }

    #[test]
    fn invalid_shares_are_named_in_the_error() {
        for (text, message) in [
            ("system", "\"system\" is not LEVEL=SHARE with a whole share from 0 to 10000"),
            ("system=", "\"system=\" is not LEVEL=SHARE"),
            ("system=-1", "\"system=-1\" is not LEVEL=SHARE"),
            ("system=+1", "\"system=+1\" is not LEVEL=SHARE"),
            ("system=1.5", "\"system=1.5\" is not LEVEL=SHARE"),
            ("system=10001", "\"system=10001\" is not LEVEL=SHARE"),
            ("exempt=5", "\"exempt\" is not a priority level with a share"),
            ("People=5", "\"People\" is not a priority level with a share"),
            ("system=5,system=6", "the level \"system\" is given twice"),
        ] {
            let error = text.parse::<Shares>().unwrap_err().to_string();
            assert!(error.starts_with(message), "{text}: {error}");
        }
    }
}
