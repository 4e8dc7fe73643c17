//! Limits a panic to the request that caused it (apiserver: `filters/wrap.go`): the server, the connection
//! and its other requests continue. A panic is still a defect, so it is logged where it happens
//! ([`crate::programs::log`]) and counted by the request's record.

use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::Poll;

const _: () = assert!(cfg!(panic = "unwind"), "a panic that aborts the process cannot be caught");

/// The code of a request panicked.
#[derive(Debug, thiserror::Error)]
#[error("This request caused mc-sidecar to panic. Look in the logs for details.")]
pub struct Panicked;

/// The result of `future`, unless it panics. Its own state is dropped after a panic; state that it shares
/// with others changes only in single steps.
pub async fn caught<T>(mut future: Pin<&mut impl Future<Output = T>>) -> Result<T, Panicked> {
    poll_fn(|cx| match caught_in(|| future.as_mut().poll(cx)) {
        Ok(polled) => polled.map(Ok),
        Err(panicked) => Poll::Ready(Err(panicked)),
    })
    .await
}

/// The same for one step of a stream. After a panic the stream must not be polled again.
pub fn caught_in<T>(step: impl FnOnce() -> T) -> Result<T, Panicked> {
    catch_unwind(AssertUnwindSafe(step)).map_err(|_| Panicked)
}
