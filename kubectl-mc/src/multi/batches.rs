//! Parses the batches of a rollout: `1,25%,rest`.

use crate::error::Failure;

/// The sizes of the batches, in order.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Batches(Vec<Turn>);

#[derive(Clone, Copy, Debug, PartialEq)]
enum Turn {
    Clusters(usize),
    /// Percentage of all clusters, rounded up.
    Percent(usize),
    Rest,
}

impl Batches {
    /// Parses `1,25%,rest`.
    pub(crate) fn parse(text: &str) -> Result<Self, Failure> {
        let turn = |word: &str| {
            let number = |text: &str| text.parse().ok().filter(|number| *number > 0);
            match word.strip_suffix('%') {
                _ if word == "rest" => Some(Turn::Rest),
                Some(share) => number(share).filter(|share| *share <= 100).map(Turn::Percent),
                None => number(word).map(Turn::Clusters),
            }
        };
        let turns = text
            .split(',')
            .map(|word| turn(word.trim()).ok_or_else(|| invalid(word)))
            .collect::<Result<Vec<_>, _>>()?;
        match turns.iter().position(|turn| *turn == Turn::Rest) {
            Some(at) if at + 1 < turns.len() => Err(invalid(text)),
            _ => Ok(Self(turns)),
        }
    }

    /// The number of clusters in each batch, for `all` clusters. The last size repeats until every cluster is
    /// in a batch.
    pub(crate) fn sizes(&self, all: usize) -> Vec<usize> {
        let mut sizes = Vec::new();
        let mut left = all;
        let mut turns = self.0.iter();
        let mut turn = Turn::Rest;
        while left > 0 {
            turn = turns.next().copied().unwrap_or(turn);
            let size = match turn {
                Turn::Clusters(clusters) => clusters,
                Turn::Percent(share) => (all * share).div_ceil(100),
                Turn::Rest => left,
            };
            sizes.push(size.min(left));
            left -= size.min(left);
        }
        sizes
    }
}

fn invalid(batch: &str) -> Failure {
    Failure::usage(format!("invalid batch {batch:?}: expected a number, a percentage, or `rest` at the end"))
        .with_hint("for example: --batch=1,25%,rest")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_cover_each_cluster_once() {
        for (text, all, sizes) in [
            ("1,25%,rest", 40, &[1, 10, 29][..]),
            ("1,25%", 10, &[1, 3, 3, 3]),
            ("5", 12, &[5, 5, 2]),
            ("rest", 3, &[3]),
            ("1,1%,rest", 3, &[1, 1, 1]),
            ("10,rest", 4, &[4]),
        ] {
            assert_eq!(Batches::parse(text).unwrap().sizes(all), sizes, "{text} of {all}");
        }
    }

    #[test]
    fn invalid_batches_are_refused() {
        for text in ["", "0", "0%", "101%", "rest,1", "1,,2", "-1", "some"] {
            assert!(Batches::parse(text).is_err(), "{text:?}");
        }
    }
}
