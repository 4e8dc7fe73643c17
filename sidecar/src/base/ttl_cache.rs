//! An LRU cache with a TTL; concurrent lookups of a key are coalesced.

use std::borrow::Borrow;
use std::fmt;
use std::hash::Hash;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use ahash::RandomState;
use lru::LruCache;
use tokio::sync::OnceCell;
use tokio::time::Instant;

use crate::base::locked::Locked;

/// Values of type `V` by keys of type `K`.
pub(crate) struct TtlCache<K, V> {
    answers: Locked<Answers<K, V>>,
    time: Duration,
}

/// A lookup in progress is an empty cell, which all its waiters share.
type Answers<K, V> = LruCache<K, Arc<OnceCell<Answer<V>>>, RandomState>;

struct Answer<V> {
    value: V,
    until: Instant,
}

impl<K: Hash + Eq, V: Clone> TtlCache<K, V> {
    /// A cache of up to `capacity` answers, each kept for `time`.
    pub(crate) fn new(capacity: usize, time: Duration) -> Self {
        let capacity = NonZeroUsize::new(capacity).unwrap_or(NonZeroUsize::MIN);
        // Created without a bound at first, so that it does not allocate its full capacity at once.
        let mut answers = LruCache::unbounded_with_hasher(RandomState::new());
        answers.resize(capacity);
        Self { answers: Locked::new(answers), time }
    }

    /// The cached answer, if there is one.
    pub(crate) fn get<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        let now = Instant::now();
        self.answers.with(|answers| {
            let answer = answers.get(key)?.get()?;
            (now < answer.until).then(|| answer.value.clone())
        })
    }

    /// The cached answer, or the result of `ask`, which all concurrent callers share. It is cached if it
    /// `lasts`.
    pub(crate) async fn get_or_fetch<Q>(
        &self,
        key: &Q,
        ask: impl Future<Output = V>,
        lasts: fn(&V) -> bool,
    ) -> V
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        self.get_or_fetch_for(key, ask, |value| if lasts(value) { self.time } else { Duration::ZERO }).await
    }

    /// The same with a TTL that depends on the answer; a TTL of zero means not cached.
    pub(crate) async fn get_or_fetch_for<Q>(
        &self,
        key: &Q,
        ask: impl Future<Output = V>,
        time: impl Fn(&V) -> Duration,
    ) -> V
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        let answer = async {
            let value = ask.await;
            Answer { until: Instant::now() + time(&value), value }
        };
        self.cell(key).get_or_init(|| answer).await.value.clone()
    }

    /// The cell for the present or future answer.
    fn cell<Q>(&self, key: &Q) -> Arc<OnceCell<Answer<V>>>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        let now = Instant::now();
        self.answers.with(|answers| {
            if let Some(cell) = answers.get(key)
                && cell.get().is_none_or(|answer| now < answer.until)
            {
                return cell.clone();
            }
            let cell = Arc::default();
            answers.put(key.to_owned(), Arc::clone(&cell));
            cell
        })
    }

    /// Drops expired values. The least recently used ones are at the end, so checking that end is enough; a
    /// value in use is replaced when it expires.
    pub(crate) fn forget_expired(&self) {
        let now = Instant::now();
        let is_expired = |cell: &Arc<OnceCell<Answer<V>>>| match cell.get() {
            Some(answer) => answer.until <= now,
            // A lookup that all its callers cancelled.
            None => Arc::strong_count(cell) == 1,
        };
        loop {
            let mut expired = Vec::new();
            self.answers.with(|answers| {
                while expired.len() < AT_ONCE && answers.peek_lru().is_some_and(|(_, cell)| is_expired(cell))
                {
                    expired.extend(answers.pop_lru());
                }
            });
            if expired.is_empty() {
                return;
            }
        }
    }

    /// Number of cached answers and of lookups in progress.
    pub(crate) fn len(&self) -> usize {
        self.answers.with(|answers| answers.len())
    }

    /// Removes one answer.
    pub(crate) fn forget<Q: Hash + Eq + ?Sized>(&self, key: &Q)
    where
        K: Borrow<Q>,
    {
        self.answers.with(|answers| answers.pop(key));
    }

    /// Removes all answers. Later callers do not join the lookups in progress.
    pub(crate) fn clear(&self) {
        self.answers.with(LruCache::clear);
    }
}

impl<K, V> fmt::Debug for TtlCache<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TtlCache").finish_non_exhaustive()
    }
}

/// Maximum number of values dropped under one lock.
const AT_ONCE: usize = 64;

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

    /// Counts the lookups in its answers.
    struct Asked(AtomicUsize);

    impl Asked {
        async fn ask(&self) -> usize {
            yield_now().await;
            self.0.fetch_add(1, Ordering::SeqCst) + 1
        }
    }

    #[tokio::test(start_paused = true)]
    async fn answer_expires_after_its_ttl() {
        let (kept, asked) = (TtlCache::new(8, TIME), Asked(AtomicUsize::new(0)));
        assert_eq!(kept.get("a"), None);
        assert_eq!(kept.get_or_fetch("a", asked.ask(), |_| true).await, 1);
        advance(TIME - Duration::from_millis(1)).await;
        assert_eq!(kept.get("a"), Some(1));
        assert_eq!(kept.get_or_fetch("a", asked.ask(), |_| true).await, 1);
        advance(Duration::from_millis(1)).await;
        assert_eq!(kept.get("a"), None);
        assert_eq!(kept.get_or_fetch("a", asked.ask(), |_| true).await, 2);
    }

    #[tokio::test(start_paused = true)]
    async fn ttl_can_depend_on_the_answer() {
        let (cache, time) = (TtlCache::new(8, TIME), |value: &u64| Duration::from_secs(*value));
        for value in [0, 1, 100] {
            cache.get_or_fetch_for(&value, async { value }, time).await;
        }
        assert_eq!([0, 1, 100].map(|key| cache.get(&key)), [None, Some(1), Some(100)]);
        advance(TIME).await;
        assert_eq!([0, 1, 100].map(|key| cache.get(&key)), [None, None, Some(100)]);
    }

    #[tokio::test(start_paused = true)]
    async fn expired_values_are_dropped_and_others_stay() {
        let cache = TtlCache::new(1000, TIME);
        for key in 0..500 {
            cache.get_or_fetch(&key, async { key }, |_| true).await;
        }
        advance(TIME / 2).await;
        cache.get_or_fetch(&500, async { 500 }, |_| true).await;
        cache.forget_expired();
        assert_eq!(cache.len(), 501);
        advance(TIME / 2).await;
        cache.forget_expired();
        assert_eq!(cache.len(), 1);
        assert_eq!(cache.get(&500), Some(500));
    }

    #[tokio::test(start_paused = true)]
    async fn concurrent_lookups_share_even_an_uncached_answer() {
        let (kept, asked) = (TtlCache::new(8, TIME), Asked(AtomicUsize::new(0)));
        let answers = join_all((0..100).map(|_| kept.get_or_fetch("a", asked.ask(), |_| false))).await;
        assert!(answers.iter().all(|answer| *answer == 1), "{answers:?}");
        assert_eq!(kept.get("a"), None);
        assert_eq!(kept.get_or_fetch("a", asked.ask(), |_| false).await, 2);
    }

    #[tokio::test(start_paused = true)]
    async fn cancelled_lookup_is_taken_over_by_the_next_caller() {
        let (kept, asked) = (Arc::new(TtlCache::new(8, TIME)), Asked(AtomicUsize::new(0)));
        let started = Arc::new(Semaphore::new(0));
        let first = tokio::spawn({
            let (kept, started) = (kept.clone(), started.clone());
            async move {
                let forever = async {
                    started.add_permits(1);
                    std::future::pending().await
                };
                kept.get_or_fetch("a", forever, |_| true).await
            }
        });
        let _ = started.acquire().await.unwrap();
        let second = kept.get_or_fetch("a", asked.ask(), |_| true);
        let (_, second) = tokio::join!(async { first.abort() }, second);
        assert_eq!(second, 1);
    }

    #[tokio::test(start_paused = true)]
    async fn least_recently_used_value_is_evicted_first() {
        let kept = TtlCache::new(3, TIME);
        for key in [1, 2, 3] {
            kept.get_or_fetch(&key, async { key }, |_| true).await;
        }
        assert_eq!(kept.get(&1), Some(1));
        kept.get_or_fetch(&4, async { 4 }, |_| true).await;
        assert_eq!([1, 2, 3, 4].map(|key| kept.get(&key)), [Some(1), None, Some(3), Some(4)]);
    }

    #[tokio::test(start_paused = true)]
    async fn lookup_in_progress_during_a_clear_is_not_cached() {
        let kept = Arc::new(TtlCache::new(8, TIME));
        let (begun, go) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
        let first = tokio::spawn({
            let (kept, begun, go) = (kept.clone(), begun.clone(), go.clone());
            async move {
                let ask = async {
                    begun.add_permits(1);
                    go.acquire().await.unwrap().forget();
                    1
                };
                kept.get_or_fetch("a", ask, |_| true).await
            }
        });
        begun.acquire().await.unwrap().forget();
        kept.clear();
        go.add_permits(1);
        assert_eq!(first.await.unwrap(), 1);
        assert_eq!(kept.get("a"), None);
    }

    #[tokio::test(start_paused = true)]
    async fn cleared_value_is_fetched_again() {
        let (kept, asked) = (TtlCache::new(8, TIME), Asked(AtomicUsize::new(0)));
        kept.get_or_fetch("a", asked.ask(), |_| true).await;
        kept.clear();
        assert_eq!(kept.get_or_fetch("a", asked.ask(), |_| true).await, 2);
    }
}
