//! The reasons why a request must be retried later.

/// Why a request must be retried later.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("too many requests are in progress, try again later")]
    InAll,
    #[error("too many tunnels are open, try again later")]
    Tunnels,
    #[error("too many tunnels of members' agents are open, try again later")]
    Agents,
    #[error("too many watches and other long-running requests of this user are open, try again later")]
    Watches,
    #[error("too many watches and other long-running requests to member {0} are open, try again later")]
    WatchesOfMember(String),
    #[error("too many requests from this address wait for a login, try again later")]
    Strangers,
    #[error("too many requests to member {0} are in progress, try again later")]
    ForMember(String),
}
