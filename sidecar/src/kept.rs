//! Answers of others, kept for a time: at most so many, and whoever asks for one that is under way waits
//! for it instead of asking again.

use std::fmt;
use std::hash::Hash;
use std::time::Duration;

use ahash::RandomState;
use quick_cache::sync::{Cache, DefaultLifecycle};
use quick_cache::{Equivalent, UnitWeighter};
use tokio::time::Instant;

/// Answers of type `V` to questions of type `K`.
pub(crate) struct Kept<K, V> {
    answers: Cache<K, Answer<V>, UnitWeighter, RandomState>,
    time: Duration,
}

#[derive(Clone)]
struct Answer<V> {
    value: V,
    until: Instant,
}

impl<K: Hash + Eq + Clone, V: Clone> Kept<K, V> {
    /// Keeps each answer for `time`, and `capacity` of them: those that are asked for least go first.
    pub(crate) fn new(capacity: usize, time: Duration) -> Self {
        let (weighter, lifecycle) = (UnitWeighter, DefaultLifecycle::default());
        let answers = Cache::with(capacity, capacity as u64, weighter, RandomState::new(), lifecycle);
        Self { answers, time }
    }

    /// The answer, if there is one.
    pub(crate) fn get<Q: Hash + Equivalent<K> + ?Sized>(&self, key: &Q) -> Option<V> {
        let answer = self.answers.get(key)?;
        (Instant::now() < answer.until).then_some(answer.value)
    }

    /// The answer, or what asking comes to, for everybody who came meanwhile. It is kept if it `lasts`.
    pub(crate) async fn get_or_ask<Q>(
        &self,
        key: &Q,
        ask: impl Future<Output = V>,
        lasts: fn(&V) -> bool,
    ) -> V
    where
        Q: Hash + Equivalent<K> + ToOwned<Owned = K> + ?Sized,
    {
        let now = Instant::now();
        self.answers.remove_if(key, |answer| answer.until <= now);
        match self.answers.get_value_or_guard_async(key).await {
            Ok(answer) => answer.value,
            Err(place) => {
                let value = ask.await;
                let now = Instant::now();
                let until = if lasts(&value) { now + self.time } else { now };
                // It fails if somebody cleared everything meanwhile: then it is not kept.
                let _ = place.insert(Answer { value: value.clone(), until });
                value
            }
        }
    }

    /// Forgets everything.
    pub(crate) fn clear(&self) {
        self.answers.clear();
    }
}

impl<K, V> fmt::Debug for Kept<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kept").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures_util::future::join_all;
    use tokio::sync::Semaphore;
    use tokio::task::yield_now;
    use tokio::time::advance;

    use super::*;

    const TIME: Duration = Duration::from_secs(10);

    /// Answers with how often it was asked.
    struct Asked(AtomicUsize);

    impl Asked {
        async fn ask(&self) -> usize {
            yield_now().await;
            self.0.fetch_add(1, Ordering::SeqCst) + 1
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_is_kept_for_its_time_and_no_longer() {
        let (kept, asked) = (Kept::new(8, TIME), Asked(AtomicUsize::new(0)));
        assert_eq!(kept.get("a"), None);
        assert_eq!(kept.get_or_ask("a", asked.ask(), |_| true).await, 1);
        advance(TIME - Duration::from_millis(1)).await;
        assert_eq!(kept.get("a"), Some(1));
        assert_eq!(kept.get_or_ask("a", asked.ask(), |_| true).await, 1);
        advance(Duration::from_millis(1)).await;
        assert_eq!(kept.get("a"), None);
        assert_eq!(kept.get_or_ask("a", asked.ask(), |_| true).await, 2);
    }

    #[tokio::test(start_paused = true)]
    async fn who_asks_meanwhile_shares_even_an_answer_that_is_not_kept() {
        let (kept, asked) = (Kept::new(8, TIME), Asked(AtomicUsize::new(0)));
        let answers = join_all((0..100).map(|_| kept.get_or_ask("a", asked.ask(), |_| false))).await;
        assert!(answers.iter().all(|answer| *answer == 1), "{answers:?}");
        assert_eq!(kept.get("a"), None);
        assert_eq!(kept.get_or_ask("a", asked.ask(), |_| false).await, 2);
    }

    #[tokio::test(start_paused = true)]
    async fn one_who_goes_away_while_he_asks_leaves_it_to_the_next() {
        let (kept, asked) = (Arc::new(Kept::new(8, TIME)), Asked(AtomicUsize::new(0)));
        let started = Arc::new(Semaphore::new(0));
        let first = tokio::spawn({
            let (kept, started) = (kept.clone(), started.clone());
            async move {
                let forever = async {
                    started.add_permits(1);
                    std::future::pending().await
                };
                kept.get_or_ask("a", forever, |_| true).await
            }
        });
        let _ = started.acquire().await.unwrap();
        let second = kept.get_or_ask("a", asked.ask(), |_| true);
        let (_, second) = tokio::join!(async { first.abort() }, second);
        assert_eq!(second, 1);
    }

    #[tokio::test(start_paused = true)]
    async fn no_more_are_kept_than_there_is_room_for() {
        let kept = Kept::new(64, TIME);
        for key in 0..10_000 {
            kept.get_or_ask(&key, async { key }, |_| true).await;
        }
        let there = (0..10_000).filter(|key| kept.get(key).is_some()).count();
        assert!((1..=64).contains(&there), "{there}");
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_cleared_is_asked_for_again() {
        let (kept, asked) = (Kept::new(8, TIME), Asked(AtomicUsize::new(0)));
        kept.get_or_ask("a", asked.ask(), |_| true).await;
        kept.clear();
        assert_eq!(kept.get_or_ask("a", asked.ask(), |_| true).await, 2);
    }
}
