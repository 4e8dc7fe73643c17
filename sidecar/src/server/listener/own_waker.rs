//! Wraps a future so that it is polled only after its own wake-ups. Otherwise a future that is polled
//! together with a busy one would be polled at each wake-up of either.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use futures_util::task::AtomicWaker;
use pin_project_lite::pin_project;

pin_project! {
    /// A future with its own waker.
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
        // Registered before the check, so that no wake-up is lost.
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
    async fn future_is_polled_only_after_its_own_wake_ups() {
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
