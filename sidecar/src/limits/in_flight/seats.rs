//! Computes how many seats of a limit each priority level has. A level's nominal seats are its share. Other levels may
//! borrow a part of them; the rest is reserved, so a flood in other levels cannot take it (apiserver: nominalCL and
//! minCL of `util/flowcontrol`). A borrowed seat is returned when its request ends: a level below its nominal seats
//! gets the next free seat before a level above them.

use super::level::{Level, Shares};

/// A number for each level.
pub(super) type ByLevel<T> = [T; Level::COUNT];

/// The seats of a bound, by level.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seats {
    pub(super) nominal: ByLevel<usize>,
    /// The seats that a level does not lend.
    guaranteed: ByLevel<usize>,
}

impl Seats {
    /// The seats of a bound without levels.
    pub(super) const fn without_levels(places: usize) -> Self {
        let mut nominal = [0; Level::COUNT];
        nominal[WITHOUT_LEVELS as usize] = places;
        Self { nominal, guaranteed: [0; Level::COUNT] }
    }

    /// The seats of each level by its share. Guaranteed seats are rounded down, so their sum is at most
    /// `places`.
    pub(super) fn new(places: usize, shares: Shares) -> Self {
        let total: u128 = Level::ALL.iter().map(|level| u128::from(shares.of(*level))).sum();
        let part = |level: Level, percent: usize| {
            let share = u128::from(shares.of(level)) * percent as u128;
            let part = places as u128 * share / (total.max(1) * 100);
            usize::try_from(part).unwrap_or(places)
        };
        Self {
            nominal: Level::ALL.map(|level| part(level, 100)),
            guaranteed: Level::ALL.map(|level| part(level, 100 - level.lendable_percent())),
        }
    }

    /// How many of the free seats a level may take, given what all levels hold.
    pub(super) fn available(&self, level: Level, free: usize, held: impl Fn(Level) -> usize) -> usize {
        let kept = |other: &Level| self.guaranteed[*other as usize].saturating_sub(held(*other));
        let kept: usize = Level::ALL.iter().filter(|other| **other != level).map(kept).sum();
        free.saturating_sub(kept)
    }

    /// How much of its nominal seats a level holds, for comparison between levels.
    pub(super) fn load(&self, level: Level, held: usize) -> usize {
        held.saturating_mul(1000) / self.nominal[level as usize].max(1)
    }
}

/// The level of all callers in a bound without levels.
pub(super) const WITHOUT_LEVELS: Level = Level::Interactive;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_shares_have_upstreams_proportions() {
        let seats = Seats::new(100, Shares::default());
        assert_eq!(seats.nominal, [0, 26, 34, 34, 4]);
        assert_eq!(seats.guaranteed, [0, 17, 17, 17, 4]);
    }

    /// The defaults of the limits assume this.
    #[test]
    fn one_level_has_100_places_of_a_member_by_default() {
        let seats = Seats::new(160, Shares::default());
        for level in [Level::System, Level::WorkloadHigh, Level::Interactive] {
            assert_eq!(seats.available(level, 160, |_| 0), 100, "{level:?}");
        }
    }

    #[test]
    fn guaranteed_places_never_exceed_the_total() {
        let shares =
            ["", "system=10000", "system=0,workload-high=0,interactive=0,catch-all=0", "catch-all=9999"];
        for shares in shares.map(|text| text.parse::<Shares>().unwrap()) {
            for places in [1, 2, 3, 7, 100, 2000, usize::MAX] {
                let seats = Seats::new(places, shares);
                let sum: u128 = seats.guaranteed.iter().map(|seats| *seats as u128).sum();
                assert!(sum <= places as u128, "{places} {shares}: {seats:?}");
            }
        }
    }

    #[test]
    fn load_is_relative_to_the_level() {
        let seats = Seats::new(100, Shares::default());
        let [interactive, catch_all] =
            [Level::Interactive, Level::CatchAll].map(|level| seats.load(level, 4));
        assert!(interactive < 1000 && catch_all == 1000, "{interactive} {catch_all}");
        assert!(seats.load(Level::Interactive, 8) > interactive);
    }

    #[test]
    fn small_bounds_guarantee_no_places() {
        for places in 1..5 {
            let seats = Seats::new(places, Shares::default());
            assert_eq!(seats.available(Level::CatchAll, places, |_| 0), places, "{seats:?}");
        }
    }
}
