//! HTTP/2 connections that end now and then, so that clients spread over the replicas (apiserver:
//! `filters/goaway.go`). There a header of the answer makes Go's server say GOAWAY; hyper's takes it
//! out, so that the connection is told to retire instead: what is under way on it goes on.

use crate::random;

/// The chance of a request to be the last but those under way.
#[derive(Clone, Copy, Debug)]
pub struct Goaway {
    chance: f64,
}

impl Goaway {
    /// `None` if `--goaway-chance` has no such value: between 0 and 0.02.
    pub fn new(chance: f64) -> Option<Self> {
        (0.0..=MAX_CHANCE).contains(&chance).then_some(Self { chance })
    }

    /// Throws the dice for one request.
    pub fn hits(self) -> bool {
        self.chance > 0.0 && random::fraction() < self.chance
    }
}

/// Upstream's: more would be all handshakes.
const MAX_CHANCE: f64 = 0.02;

#[cfg(test)]
mod tests {
    use super::*;

    fn hits(chance: f64) -> usize {
        let goaway = Goaway::new(chance).unwrap();
        (0..100_000).filter(|_| goaway.hits()).count()
    }

    #[test]
    fn as_many_are_hit_as_the_chance_says() {
        assert_eq!(hits(0.0), 0);
        let hits = hits(0.02);
        assert!((1_500..2_500).contains(&hits), "{hits}");
    }

    #[test]
    fn a_chance_is_small() {
        for chance in [-0.001, 0.021, 1.0, f64::NAN] {
            assert!(Goaway::new(chance).is_none(), "{chance}");
        }
    }
}
