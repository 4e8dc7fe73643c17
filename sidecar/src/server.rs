//! The ports: connections, TLS, and what is known of the peer at the other end.

pub mod admin;
pub mod cors;
pub mod goaway;
pub mod head_limit;
pub mod listener;
pub mod peer;
pub mod places;
pub mod shutdown;
pub mod tls;
pub mod webhook;
