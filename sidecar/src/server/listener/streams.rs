//! Runs the tasks of an HTTP/2 connection's streams. hyper gives each task to an executor right after it
//! called the service for it, so the request's [`Cutoff`] belongs to that task. Dropping the task resets the
//! stream (h2 discards its queued data and sends RST_STREAM).

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use hyper::rt::Executor;
use pin_project_lite::pin_project;

use crate::base::locked::Locked;
use crate::limits::cutoff::Cutoff;

/// The executor of one connection.
#[derive(Clone, Debug, Default)]
pub(super) struct Streams {
    next: Arc<Locked<Option<Arc<Cutoff>>>>,
}

impl Streams {
    /// The cutoff of the stream whose task is spawned next.
    pub(super) fn begin(&self) -> Arc<Cutoff> {
        let cutoff: Arc<Cutoff> = Arc::default();
        self.next.with(|next| *next = Some(cutoff.clone()));
        cutoff
    }
}

impl<F> Executor<F> for Streams
where
    F: Future + Send + 'static,
    F::Output: Send,
{
    fn execute(&self, stream: F) {
        let cutoff = self.next.with(Option::take).unwrap_or_default();
        tokio::spawn(UnlessCut { stream, cutoff });
    }
}

pin_project! {
    /// A future that is dropped when it is cut off, and its task with it.
    pub(super) struct UnlessCut<F> {
        #[pin]
        stream: F,
        cutoff: Arc<Cutoff>,
    }
}

impl<F> UnlessCut<F> {
    pub(super) fn new(stream: F, cutoff: Arc<Cutoff>) -> Self {
        Self { stream, cutoff }
    }
}

impl<F: Future> Future for UnlessCut<F> {
    type Output = Option<F::Output>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        if this.cutoff.poll_cut(cx).is_ready() {
            return Poll::Ready(None);
        }
        this.stream.poll(cx).map(Some)
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::time::Duration;

    use bytes::Bytes;
    use http::{Request, Response};
    use http_body_util::{BodyExt, Empty, Full};
    use hyper::body::Incoming;
    use hyper::client::conn::http2 as client;
    use hyper::server::conn::http2 as server;
    use hyper::service::service_fn;
    use hyper_util::rt::{TokioExecutor, TokioIo};
    use tokio::io::duplex;
    use tokio::sync::mpsc;
    use tokio::time::timeout;

    use super::*;

    /// A client whose window is 0, and the cutoffs of its requests as they arrive.
    async fn stalled() -> (client::SendRequest<Empty<Bytes>>, mpsc::UnboundedReceiver<Arc<Cutoff>>) {
        let (near, far) = duplex(64 * 1024);
        let (begun, cutoffs) = mpsc::unbounded_channel();
        let streams = Streams::default();
        let executor = streams.clone();
        let service = service_fn(move |_: Request<Incoming>| {
            let _ = begun.send(streams.begin());
            async { Ok::<_, Infallible>(Response::new(Full::new(Bytes::from_static(b"answer")))) }
        });
        tokio::spawn(server::Builder::new(executor).serve_connection(TokioIo::new(far), service));
        let mut builder = client::Builder::new(TokioExecutor::new());
        builder.initial_stream_window_size(0);
        let (sender, connection) = builder.handshake(TokioIo::new(near)).await.unwrap();
        tokio::spawn(connection);
        (sender, cutoffs)
    }

    fn request() -> Request<Empty<Bytes>> {
        Request::builder().uri("https://x/").body(Empty::new()).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn unread_stream_is_reset() {
        let (mut sender, mut cutoffs) = stalled().await;
        let mut body = sender.send_request(request()).await.unwrap().into_body();
        let cutoff = cutoffs.recv().await.unwrap();
        let stuck = timeout(Duration::from_secs(3600), body.frame()).await;
        assert!(stuck.is_err(), "it was read");
        cutoff.cut();
        let end = timeout(Duration::from_secs(1), body.frame()).await.unwrap();
        assert!(end.unwrap().is_err(), "it ended in good order");
        assert_eq!(Arc::strong_count(&cutoff), 1, "its task is still there");
    }

    #[tokio::test(start_paused = true)]
    async fn each_stream_has_its_own_cutoff() {
        let (mut sender, mut cutoffs) = stalled().await;
        let mut first = sender.send_request(request()).await.unwrap().into_body();
        let mut second = sender.send_request(request()).await.unwrap().into_body();
        cutoffs.recv().await.unwrap().cut();
        assert!(first.frame().await.unwrap().is_err());
        assert!(timeout(Duration::from_secs(60), second.frame()).await.is_err(), "another's was cut");
    }
}
