//! The body of a merged answer: a task writes it, and the client's reading sets its pace. The stream ends normally only
//! if the task reports success: if the task fails or panics, the response is aborted.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::Frame;
use tokio::sync::mpsc;
use tokio_util::task::AbortOnDropHandle;
use tracing::Instrument;

use crate::outbound::body::{self, Body};

/// Where the task writes.
pub(super) struct Out(mpsc::Sender<Piece>);

/// What becomes the body.
pub(super) struct Begun {
    pieces: mpsc::Receiver<Piece>,
    out: mpsc::Sender<Piece>,
}

#[derive(Debug)]
enum Piece {
    Data(Bytes),
    End,
    Broken(body::Error),
}

struct Stream {
    pieces: mpsc::Receiver<Piece>,
    has_ended: bool,
    /// Ends with the body.
    _task: AbortOnDropHandle<()>,
}

/// One piece waits for the client while the next one is made.
pub(super) fn channel() -> (Out, Begun) {
    let (out, pieces) = mpsc::channel(1);
    (Out(out.clone()), Begun { pieces, out })
}

impl Out {
    /// Waits until the client has read the piece before.
    pub(super) async fn send(&self, data: Bytes) -> Result<(), body::Error> {
        if data.is_empty() {
            return Ok(());
        }
        let sent = self.0.send(Piece::Data(data)).await;
        sent.map_err(|_| body::Error::Broken("the client is gone".to_owned()))
    }
}

impl Begun {
    /// The body that `work` writes.
    pub(super) fn run(self, work: impl Future<Output = Result<(), body::Error>> + Send + 'static) -> Body {
        let Self { pieces, out } = self;
        let task = async move {
            let end = match work.await {
                Ok(()) => Piece::End,
                Err(error) => Piece::Broken(error),
            };
            let _ = out.send(end).await;
        };
        let task = AbortOnDropHandle::new(tokio::spawn(task.in_current_span()));
        Body::made(Stream { pieces, has_ended: false, _task: task })
    }
}

impl http_body::Body for Stream {
    type Data = Bytes;
    type Error = body::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, body::Error>>> {
        if self.has_ended {
            return Poll::Ready(None);
        }
        self.pieces.poll_recv(cx).map(|piece| match piece {
            Some(Piece::Data(data)) => Some(Ok(Frame::data(data))),
            Some(Piece::End) => {
                self.has_ended = true;
                None
            }
            Some(Piece::Broken(error)) => Some(Err(error)),
            None => Some(Err(body::Error::Broken("the answer was not finished".to_owned()))),
        })
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;

    use super::*;

    #[tokio::test]
    async fn only_a_finished_answer_ends_well() {
        let (out, begun) = channel();
        let body = begun.run(async move { out.send(Bytes::from_static(b"a")).await });
        assert_eq!(body.collect().await.unwrap().to_bytes(), "a");
        let (_out, begun) = channel();
        let failed = begun.run(async { Err(body::Error::Broken("m1".to_owned())) });
        assert!(failed.collect().await.is_err());
        let (out, begun) = channel();
        let panicked = begun.run(async move {
            out.send(Bytes::from_static(b"a")).await?;
            panic!("in the task")
        });
        assert!(panicked.collect().await.is_err());
    }
}
