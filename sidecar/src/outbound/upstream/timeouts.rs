//! Bounds how long a connection to a member may take, and recognizes when TCP gave up.

use std::error::Error as StdError;
use std::io::ErrorKind;
use std::time::Duration;

use crate::base::causes::causes;

/// Whether TCP timed out.
pub(super) fn is_timeout(error: &(dyn StdError + 'static)) -> bool {
    let io = |error: &(dyn StdError + 'static)| {
        error.downcast_ref::<std::io::Error>().is_some_and(|error| error.kind() == ErrorKind::TimedOut)
    };
    causes(error).any(io)
}

/// For name resolution, TCP, proxy and TLS together (client-go: 30 s for TCP, 10 s for TLS).
pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
