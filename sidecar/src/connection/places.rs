//! Limits connections, and the memory that they may use before their peer is known. Each address (a /64 in
//! IPv6) has a share of the slots, so that one machine cannot take all of them.
//!
//! - Every connection takes a slot. A separate set of slots is kept for the host's front proxy, which
//!   carries all other users. If there is no slot left, or none for this address, a connection may still
//!   prove in its handshake that it is the front proxy's.
//! - After its handshake a connection whose certificate proves nothing takes a slot of the unknown peers, until a
//!   request on it is authenticated.
//! - A request on such a connection takes a slot too: its head is in memory while the host reviews a token.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use ahash::RandomState;

use crate::base::locked::Locked;
use crate::limits::in_flight::{Bound, Caller, Error, Permit, Size, Usage};

/// The slots of this process.
#[derive(Debug)]
pub struct Places {
    connections: Bound,
    front_proxy: Bound,
    proving: Bound,
    strangers: Bound,
    requests: Bound,
    addresses: RandomState,
}

/// The slot of one connection, until the connection ends.
#[derive(Debug)]
pub struct Place {
    places: Arc<Places>,
    address: Caller,
    held: Locked<Held>,
}

#[derive(Debug)]
struct Held {
    /// Replaced by one of the front proxy's slots when the handshake proves the front proxy.
    _connection: Permit,
    stranger: Option<Permit>,
    /// Whether only the front proxy's connection may stay.
    must_prove: bool,
}

/// What a peer's certificate proved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proof {
    FrontProxy,
    User,
    Nothing,
}

impl Default for Places {
    fn default() -> Self {
        let addresses = RandomState::new();
        Self {
            connections: Bound::new(Size::without_queue(MAX_CONNECTIONS)),
            front_proxy: Bound::new(Size::without_queue(FRONT_PROXYS).with_share(FRONT_PROXYS)),
            proving: Bound::new(Size::without_queue(PROVING).with_share(PROVING / 4)),
            strangers: Bound::new(Size::without_queue(STRANGERS).with_share(STRANGERS / 4)),
            requests: Bound::new(Size::without_queue(REQUESTS).with_share(REQUESTS / 4)),
            addresses,
        }
    }
}

impl Places {
    /// A slot for a connection, if there is one.
    pub fn connection(self: &Arc<Self>, address: SocketAddr) -> Option<Place> {
        let address = self.holder(address.ip());
        let general = self.connections.admit_now(address);
        let must_prove = general.is_none();
        let connection = general.or_else(|| self.proving.admit_now(address))?;
        let held = Held { _connection: connection, stranger: None, must_prove };
        Some(Place { places: self.clone(), address, held: Locked::new(held) })
    }

    /// Usage by all connections, by the front proxy's connections, and by those of unknown peers.
    pub fn usage(&self) -> [Usage; 3] {
        let [mut connections, front_proxy, strangers] =
            [&self.connections, &self.front_proxy, &self.strangers].map(Bound::usage);
        connections.in_use += front_proxy.in_use;
        [connections, front_proxy, strangers]
    }

    fn holder(&self, address: IpAddr) -> Caller {
        Caller::of_hash(match address.to_canonical() {
            IpAddr::V4(address) => self.addresses.hash_one(address.octets()),
            IpAddr::V6(address) => self.addresses.hash_one(&address.octets()[..8]),
        })
    }
}

impl Place {
    /// Whether the connection may stay after its handshake.
    pub fn after_handshake(&self, proof: Proof) -> bool {
        let front_proxy =
            (proof == Proof::FrontProxy).then(|| self.places.front_proxy.admit_now(FRONT_PROXY)).flatten();
        let stranger = (proof == Proof::Nothing).then(|| self.places.strangers.admit_now(self.address));
        self.held.with(|held| {
            match (front_proxy, stranger) {
                (Some(place), _) => {
                    held._connection = place;
                    held.must_prove = false;
                }
                (None, Some(None)) => return false,
                (None, Some(Some(place))) => held.stranger = Some(place),
                (None, None) => {}
            }
            !held.must_prove
        })
    }

    /// Releases the slot of the unknown peers.
    pub fn known(&self) {
        let stranger = self.held.with(|held| held.stranger.take());
        // Dropped outside the lock.
        drop(stranger);
    }

    /// A slot for a request before the peer is known.
    pub fn request(&self) -> Result<Permit, Error> {
        self.places.requests.admit_now(self.address).ok_or(Error::Strangers)
    }

    /// The address as a holder of slots, here and in the limit on token reviews.
    pub fn holder(&self) -> Caller {
        self.address
    }
}

/// All front proxies of a host are one holder.
const FRONT_PROXY: Caller = Caller::of_hash(0);

/// Each takes a task, a socket and TLS buffers.
const MAX_CONNECTIONS: usize = 16_384 - FRONT_PROXYS - PROVING;
/// For the tunnels of a host's users, and a few other connections.
const FRONT_PROXYS: usize = 2_560;
const PROVING: usize = 64;
/// One address may have a quarter of these. After its handshake, each takes about 20 KiB plus the
/// bytes that it may send before it is known (64 KiB).
const STRANGERS: usize = 2_048;
/// Requests of unknown peers in total: each takes up to 40 KiB with its head.
const REQUESTS: usize = 2_048;

#[cfg(test)]
mod tests {
    use super::*;

    fn from(last: u8) -> SocketAddr {
        ([192, 0, 2, last], 1234).into()
    }

    fn fill(places: &Arc<Places>, address: SocketAddr) -> Vec<Place> {
        let connection =
            || places.connection(address).filter(|place| !place.held.with(|held| held.must_prove));
        std::iter::from_fn(connection).collect()
    }

    /// Each address takes three quarters of the remaining slots.
    fn fill_all(places: &Arc<Places>) -> Vec<Place> {
        (0..100).flat_map(|last| fill(places, from(last))).collect()
    }

    #[test]
    fn one_address_cannot_take_all_connections() {
        let places = Arc::new(Places::default());
        let held = fill(&places, from(1));
        assert_eq!(held.len(), MAX_CONNECTIONS - MAX_CONNECTIONS / 4);
        assert!(!fill(&places, from(2)).is_empty());
    }

    #[test]
    fn front_proxy_is_admitted_when_all_places_are_taken() {
        let places = Arc::new(Places::default());
        let _held = fill_all(&places);
        let stranger = places.connection(from(103)).unwrap();
        assert!(!stranger.after_handshake(Proof::Nothing));
        let user = places.connection(from(103)).unwrap();
        assert!(!user.after_handshake(Proof::User), "a place that is kept is given away");
        let proxy = places.connection(from(103)).unwrap();
        assert!(proxy.after_handshake(Proof::FrontProxy));
    }

    #[test]
    fn proving_places_are_shared_by_address() {
        let places = Arc::new(Places::default());
        let _held = fill_all(&places);
        let proving: Vec<_> = std::iter::from_fn(|| places.connection(from(103))).collect();
        assert_eq!(proving.len(), PROVING / 4);
        assert!(places.connection(from(104)).is_some());
    }

    #[test]
    fn unknown_peers_have_a_share_by_address() {
        let places = Arc::new(Places::default());
        let strangers: Vec<_> = std::iter::from_fn(|| {
            places.connection(from(1)).filter(|place| place.after_handshake(Proof::Nothing))
        })
        .collect();
        assert_eq!(strangers.len(), STRANGERS / 4);
        assert!(places.connection(from(2)).unwrap().after_handshake(Proof::Nothing));
        strangers[0].known();
        assert!(places.connection(from(1)).unwrap().after_handshake(Proof::Nothing));
        assert!(places.connection(from(1)).unwrap().after_handshake(Proof::User));
    }

    #[test]
    fn requests_of_unknown_peers_have_a_share_by_address() {
        let places = Arc::new(Places::default());
        let (one, other) = (places.connection(from(1)).unwrap(), places.connection(from(2)).unwrap());
        let held: Vec<_> = std::iter::from_fn(|| one.request().ok()).collect();
        assert_eq!(held.len(), REQUESTS / 4);
        assert!(other.request().is_ok());
    }

    #[test]
    fn ipv6_network_counts_as_one_address() {
        let places = Arc::new(Places::default());
        let holder = |text: &str| places.holder(text.parse().unwrap());
        assert_eq!(holder("2001:db8::1"), holder("2001:db8::2:3"));
        assert_ne!(holder("2001:db8::1"), holder("2001:db8:0:1::1"));
        assert_eq!(holder("::ffff:192.0.2.1"), holder("192.0.2.1"));
    }
}
