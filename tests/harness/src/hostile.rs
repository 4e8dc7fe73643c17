//! Hostile clients, agents, hubs, kubeconfigs and shells' words, each bounded in number and time.
//! Good callers that run at the same time show that the attacked server withstands the clients.
//!
//! - [`agents`]: tunnels of an agent in the hands of an attacker
//! - [`attack`]: runs clients in threads until the test stops them or their time is up
//! - [`unread`]: requests whose answers the client never reads
//! - [`cancels`]: requests that the client cancels at once
//! - [`floods`]: heads that are large in memory, made-up tokens, made-up users
//! - [`trickles`]: heads and bodies that arrive byte by byte
//! - [`crowds`]: connections without a request
//! - [`trap`]: the attacker's server, which records the credentials that it gets
//! - [`kubeconfigs`]: kubeconfigs that point to the trap, or cost time or memory to read
//! - [`hubs`]: hosts that lie to the plugin
//! - [`texts`]: names and texts that attack terminals and shells; [`shells`]: shells that read such names

pub mod agents;
pub mod attack;
pub mod cancels;
pub mod crowds;
pub mod floods;
pub mod hubs;
pub mod kubeconfigs;
pub mod shells;
pub mod texts;
pub mod trap;
pub mod trickles;
pub mod unread;

/// The protocol of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    Http1,
    Http2,
}

impl Protocol {
    pub const ALL: [Self; 2] = [Self::Http1, Self::Http2];
}
