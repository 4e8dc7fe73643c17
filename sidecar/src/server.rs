//! Serves the ports: connections, TLS, and the state of the peer of each connection.

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
