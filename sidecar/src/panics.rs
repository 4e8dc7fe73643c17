//! A panic ends the one request that caused it (apiserver: `filters/wrap.go`): the server, the
//! connection and the other requests on it go on. It is a defect all the same, so it is logged
//! where it happens ([`crate::log`]) and counted by the request's record.

use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::Poll;

const _: () = assert!(cfg!(panic = "unwind"), "a panic that aborts the process cannot be caught");

/// What was asked for panicked.
#[derive(Debug, thiserror::Error)]
#[error("This request caused mc-sidecar to panic. Look in the logs for details.")]
pub struct Panicked;

/// What `future` makes, unless it panics. Whatever it was working on is dropped then; what it shares
/// with others is changed in single steps only.
pub async fn caught<T>(mut future: Pin<&mut impl Future<Output = T>>) -> Result<T, Panicked> {
    poll_fn(|cx| match caught_in(|| future.as_mut().poll(cx)) {
        Ok(polled) => polled.map(Ok),
        Err(panicked) => Poll::Ready(Err(panicked)),
    })
    .await
}

/// The same for one step of a stream, which must not be asked for another one afterwards.
pub fn caught_in<T>(step: impl FnOnce() -> T) -> Result<T, Panicked> {
    catch_unwind(AssertUnwindSafe(step)).map_err(|_| Panicked)
}
