//! Work at many members at once, whose answers are taken in the members' order: each as soon as
//! those before it are complete. What is ahead of its turn waits in a channel that soon is full, so
//! memory does not grow with the answers.

use std::future::Future;
use std::ops::ControlFlow;
use std::sync::Arc;

use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinHandle;
use tokio::time::Instant;

/// Who takes the pieces.
pub(super) trait Sink<P> {
    /// Takes the next piece of the one at this place; breaks when nobody reads any more.
    fn take(&mut self, place: usize, piece: P) -> ControlFlow<()>;

    /// When what was taken must be shown, if something is held back.
    fn due(&self) -> Option<Instant> {
        None
    }

    /// Shows what is held back.
    fn show(&mut self) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }
}

/// Does `work` for every one of `what`, at most `at_once` at a time, and gives the pieces to the sink
/// in order. What each work came to, in the same order; `None` when nobody reads any more.
pub(super) async fn run<T, P, R, W>(
    what: impl IntoIterator<Item = T>,
    at_once: usize,
    work: impl Fn(T, mpsc::Sender<P>) -> W,
    sink: &mut impl Sink<P>,
) -> Option<Vec<Option<R>>>
where
    P: Send + 'static,
    R: Send + 'static,
    W: Future<Output = R> + Send + 'static,
{
    let turns = Arc::new(Semaphore::new(at_once.max(1)));
    let running: Vec<_> = what
        .into_iter()
        .map(|what| {
            let (sender, receiver) = mpsc::channel(AHEAD);
            let (turns, work) = (Arc::clone(&turns), work(what, sender));
            let task = tokio::spawn(async move {
                let _turn = turns.acquire_owned().await;
                work.await
            });
            (Abort(task), receiver)
        })
        .collect();
    let mut results = Vec::with_capacity(running.len());
    for (place, (mut task, mut receiver)) in running.into_iter().enumerate() {
        while let Some(piece) = next(&mut receiver, sink).await? {
            if sink.take(place, piece).is_break() {
                return None;
            }
        }
        results.push((&mut task.0).await.ok());
    }
    Some(results)
}

/// The next piece, or `Some(None)` when there is none. Shows what is held back when it is due.
async fn next<P>(receiver: &mut mpsc::Receiver<P>, sink: &mut impl Sink<P>) -> Option<Option<P>> {
    while let Some(due) = sink.due() {
        // A receiver loses nothing when it is not waited for any longer.
        match tokio::time::timeout_at(due, receiver.recv()).await {
            Ok(piece) => return Some(piece),
            Err(_) if sink.show().is_break() => return None,
            Err(_) => {}
        }
    }
    Some(receiver.recv().await)
}

/// A task that ends when nobody waits for it any more.
struct Abort<R>(JoinHandle<R>);

impl<R> Drop for Abort<R> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Pieces of one member that may wait for their turn.
const AHEAD: usize = 1;

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Taken(Vec<(usize, u32)>, Option<usize>);

    impl Sink<u32> for Taken {
        fn take(&mut self, place: usize, piece: u32) -> ControlFlow<()> {
            self.0.push((place, piece));
            if self.1.is_some_and(|most| self.0.len() >= most) {
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        }
    }

    fn in_runtime<T>(what: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            .build()
            .unwrap()
            .block_on(what)
    }

    #[test]
    fn pieces_come_in_the_order_of_the_members_however_fast_each_is() {
        let mut taken = Taken::default();
        let results = in_runtime(run(
            [30, 10, 20],
            2,
            |delay, sender: mpsc::Sender<u32>| async move {
                for piece in 0..3 {
                    tokio::time::sleep(std::time::Duration::from_secs(delay)).await;
                    sender.send(piece).await.unwrap();
                }
                delay
            },
            &mut taken,
        ));
        assert_eq!(results, Some(vec![Some(30), Some(10), Some(20)]));
        let expected: Vec<_> = (0..3).flat_map(|place| (0..3).map(move |piece| (place, piece))).collect();
        assert_eq!(taken.0, expected);
    }

    #[test]
    fn nothing_goes_on_when_nobody_reads() {
        let mut taken = Taken(Vec::new(), Some(1));
        let results = in_runtime(run(
            [(), ()],
            2,
            |(), sender: mpsc::Sender<u32>| async move { while sender.send(1).await.is_ok() {} },
            &mut taken,
        ));
        assert_eq!((results, taken.0.len()), (None, 1));
    }
}
