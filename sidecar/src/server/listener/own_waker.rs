//! What is waited for beside something that happens all the time. A future that is polled with another
//! one is asked whenever either of them is woken; this one is asked only when it was itself.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use futures_util::task::AtomicWaker;
use pin_project_lite::pin_project;

pin_project! {
    /// A future with a waker of its own.
    #[derive(Debug)]
    pub(super) struct WithOwnWaker<F> {
        #[pin]
        future: F,
        state: Arc<State>,
        waker: Waker,
    }
}

#[derive(Debug)]
struct State {
    woken: AtomicBool,
    task: AtomicWaker,
}

impl Wake for State {
    fn wake(self: Arc<Self>) {
        self.woken.store(true, Ordering::Release);
        self.task.wake();
    }
}

impl<F> WithOwnWaker<F> {
    pub(super) fn new(future: F) -> Self {
        let state = Arc::new(State { woken: AtomicBool::new(true), task: AtomicWaker::new() });
        let waker = Waker::from(state.clone());
        Self { future, state, waker }
    }
}

impl<F: Future> Future for WithOwnWaker<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        // Before it is looked whether it was woken: so that no wake is lost.
        this.state.task.register(cx.waker());
        if !this.state.woken.load(Ordering::Acquire) {
            return Poll::Pending;
        }
        this.state.woken.store(false, Ordering::Release);
        this.future.poll(&mut Context::from_waker(this.waker))
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::future::poll_fn;
    use std::time::Duration;

    use tokio::time::{Instant, sleep};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn it_is_asked_when_it_was_woken_and_not_when_others_are() {
        let asked = Cell::new(0);
        let begin = Instant::now();
        let mut rare = Box::pin(sleep(Duration::from_secs(60)));
        let rare = poll_fn(|cx| {
            asked.set(asked.get() + 1);
            rare.as_mut().poll(cx)
        });
        let often = async {
            loop {
                sleep(Duration::from_secs(1)).await;
            }
        };
        tokio::select! {
            biased;
            () = often => unreachable!(),
            () = WithOwnWaker::new(rare) => {}
        }
        assert_eq!((asked.get(), begin.elapsed().as_secs()), (2, 60));
    }
}
