//! Closes a random share of HTTP/2 connections gracefully, so that clients spread over the replicas
//! (apiserver: `filters/goaway.go`). Go's server sends GOAWAY when an answer has a certain header, which
//! hyper's removes. So the connection is retired instead, and its open requests continue.

use crate::base::random;

/// The probability that a request retires its connection.
#[derive(Clone, Copy, Debug)]
pub struct Goaway {
    chance: f64,
}

impl Goaway {
    /// `None` unless the value of `--goaway-chance` is between 0 and 0.02.
    pub fn new(chance: f64) -> Option<Self> {
        (0.0..=MAX_CHANCE).contains(&chance).then_some(Self { chance })
    }

    /// Draws a random number for one request.
    pub fn hits(self) -> bool {
        self.chance > 0.0 && random::fraction() < self.chance
    }
}

/// Upstream's maximum: with more, most work would be handshakes.
const MAX_CHANCE: f64 = 0.02;

#[cfg(test)]
mod tests {
    use super::*;

    fn hits(chance: f64) -> usize {
        let goaway = Goaway::new(chance).unwrap();
        (0..100_000).filter(|_| goaway.hits()).count()
    }

    #[test]
    fn share_of_hits_matches_the_chance() {
        assert_eq!(hits(0.0), 0);
        let hits = hits(0.02);
        assert!((1_500..2_500).contains(&hits), "{hits}");
    }

    #[test]
    fn chance_above_the_maximum_is_refused() {
        for chance in [-0.001, 0.021, 1.0, f64::NAN] {
            assert!(Goaway::new(chance).is_none(), "{chance}");
        }
    }
}
