use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::FutureExt;
use tokio::task::JoinSet;
use tokio::time::{self, sleep};

use super::*;

mod levels;
mod usage;

const FLOODER: Caller = Caller::of_hash(1);
const POLITE: Caller = Caller::of_hash(2);

fn size(places: usize, queued_per_caller: usize) -> Size {
    Size::new(places, queued_per_caller)
}

fn bound_of(places: usize, queued_per_caller: usize) -> Bound {
    Bound::new(size(places, queued_per_caller))
}

fn in_a_minute() -> Instant {
    // tokio's clock, which tests can pause.
    time::Instant::now().into_std() + Duration::from_secs(60)
}

/// Admits a caller without waiting, or returns `None`.
fn at_once(bound: &Bound, caller: Caller) -> Option<Permit> {
    bound.admit(caller, in_a_minute()).now_or_never().flatten()
}

fn is_idle(bound: &Bound, places: usize) -> bool {
    bound.0.is_idle(places)
}

#[tokio::test]
async fn reads_and_writes_have_separate_places() {
    let limits = Limits::new(size(1, 0), size(1, 0), 0, 0, 0);
    let due = in_a_minute();
    let read = limits.admit(true, POLITE, due).await.unwrap();
    assert!(matches!(limits.admit(true, POLITE, due).await, Err(Error::InAll)));
    let write = limits.admit(false, POLITE, due).await.unwrap();
    drop(read);
    assert!(limits.admit(true, POLITE, due).await.is_ok());
    drop(write);
}

#[tokio::test]
async fn zero_means_no_limit() {
    let bound = bound_of(0, 0);
    let permits: Vec<_> = (0..10_000).map(|_| at_once(&bound, FLOODER).unwrap()).collect();
    assert_eq!(permits.len(), 10_000);
}

#[tokio::test]
async fn first_caller_gets_75_of_100_places_and_the_next_19() {
    let bound = bound_of(100, 0);
    let held: Vec<_> = std::iter::from_fn(|| at_once(&bound, FLOODER)).collect();
    assert_eq!(held.len(), 75);
    let others: Vec<_> = std::iter::from_fn(|| at_once(&bound, POLITE)).collect();
    assert_eq!(others.len(), 19);
    drop((held, others));
    assert!(is_idle(&bound, 100));
}

#[tokio::test]
async fn greedy_callers_leave_places_for_another_caller() {
    let bound = bound_of(100, 0);
    let mut held = Vec::new();
    for _ in 0..100 {
        held.extend((10..20).filter_map(|number| at_once(&bound, Caller::of_hash(number))));
    }
    assert_eq!(held.len(), 97);
    assert!(at_once(&bound, POLITE).is_some());
}

/// Five callers acquire and release in a pseudorandom order.
#[tokio::test(start_paused = true)]
async fn no_eligible_request_waits_while_a_place_is_free() {
    let bound = bound_of(8, 50);
    let (mut held, mut turns, mut state) = (Vec::new(), Vec::new(), 1_u64);
    for step in 0..5_000 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let dice = usize::try_from(state >> 33).unwrap();
        if dice % 2 == 0 && !held.is_empty() {
            held.swap_remove(dice / 2 % held.len());
        } else {
            turns.push(Box::pin(bound.admit(Caller::of_hash(state >> 40 & 3), in_a_minute())));
        }
        turns.retain_mut(|turn| turn.now_or_never().map(|permit| held.extend(permit)).is_none());
        assert!(bound.0.is_fair(), "step {step}");
    }
    drop((held, turns));
    assert!(is_idle(&bound, 8));
}

#[tokio::test]
async fn one_caller_can_fill_a_tiny_bound() {
    for limit in 1..4 {
        let bound = bound_of(limit, 0);
        let held: Vec<_> = std::iter::from_fn(|| at_once(&bound, FLOODER)).collect();
        assert_eq!(held.len(), limit);
    }
}

/// The order in which queued requests are admitted to the only seat.
async fn admitted(callers: &[u64]) -> Vec<u64> {
    let bound = bound_of(1, 50);
    let held = at_once(&bound, Caller::of_hash(0)).unwrap();
    let (sender, mut order) = tokio::sync::mpsc::unbounded_channel();
    let mut waiting = JoinSet::new();
    for caller in callers.iter().copied() {
        let (bound, sender) = (bound.clone(), sender.clone());
        waiting.spawn(async move {
            let permit = bound.admit(Caller::of_hash(caller), in_a_minute()).await.unwrap();
            sender.send(caller).unwrap();
            drop(permit);
        });
        tokio::task::yield_now().await;
    }
    drop((sender, held));
    let mut admitted = Vec::new();
    while let Some(caller) = order.recv().await {
        admitted.push(caller);
    }
    admitted
}

#[tokio::test]
async fn waiting_callers_take_turns() {
    assert_eq!(admitted(&[1, 1, 1, 1, 2, 2, 3]).await, [1, 2, 3, 1, 2, 1, 1]);
}

#[tokio::test(start_paused = true)]
async fn full_queue_refuses_its_caller_alone() {
    let bound = bound_of(4, 2);
    let _held: Vec<_> = (0..3).map(|_| at_once(&bound, FLOODER).unwrap()).collect();
    let mut queued: Vec<_> = (0..2).map(|_| Box::pin(bound.admit(FLOODER, in_a_minute()))).collect();
    for turn in &mut queued {
        assert!(turn.now_or_never().is_none());
    }
    assert!(bound.admit(FLOODER, in_a_minute()).now_or_never().unwrap().is_none());
    assert!(at_once(&bound, POLITE).is_some());
}

#[tokio::test(start_paused = true)]
async fn request_waits_at_most_a_quarter_of_its_timeout() {
    let bound = bound_of(1, 9);
    let held = at_once(&bound, FLOODER).unwrap();
    for (seconds, wait) in [(60, 15.0), (600, 15.0), (8, 2.0), (0, 0.0)] {
        let began = time::Instant::now();
        let due = began.into_std() + Duration::from_secs(seconds);
        assert!(bound.admit(POLITE, due).await.is_none());
        assert!((began.elapsed().as_secs_f64() - wait).abs() < 0.1, "{seconds}: {:?}", began.elapsed());
    }
    drop(held);
    assert!(is_idle(&bound, 1));
}

#[tokio::test(start_paused = true)]
async fn cancelled_wait_takes_no_place() {
    let bound = bound_of(1, 9);
    let held = at_once(&bound, FLOODER).unwrap();
    let mut first = Box::pin(bound.admit(POLITE, in_a_minute()));
    assert!((&mut first).now_or_never().is_none());
    drop(first);
    let mut second = Box::pin(bound.admit(POLITE, in_a_minute()));
    assert!((&mut second).now_or_never().is_none());
    // The receiver is dropped while the seat is already being sent to it.
    drop(held);
    drop(second);
    assert!(is_idle(&bound, 1));
    assert!(at_once(&bound, POLITE).is_some());
}

/// One caller keeps 200 requests running, each of which takes a second; another caller sends a request now
/// and then.
#[tokio::test(start_paused = true)]
async fn polite_caller_is_admitted_during_a_flood() {
    let limits = Arc::new(Limits::new(size(20, 50), size(20, 50), 0, 0, 0));
    let refused = Arc::new(AtomicUsize::new(0));
    let mut flood = JoinSet::new();
    for _ in 0..200 {
        let (limits, refused) = (limits.clone(), refused.clone());
        flood.spawn(async move {
            loop {
                match limits.admit(true, FLOODER, in_a_minute()).await {
                    Ok(_permit) => sleep(Duration::from_secs(1)).await,
                    Err(_) => {
                        refused.fetch_add(1, Ordering::Relaxed);
                        sleep(Duration::from_millis(100)).await;
                    }
                }
            }
        });
    }
    for _ in 0..100 {
        sleep(Duration::from_millis(300)).await;
        let began = time::Instant::now();
        let permit = limits.admit(true, POLITE, in_a_minute()).await.unwrap();
        assert!(began.elapsed() < Duration::from_millis(1), "it waited {:?}", began.elapsed());
        sleep(Duration::from_millis(50)).await;
        drop(permit);
    }
    assert!(refused.load(Ordering::Relaxed) > 1_000, "that was no flood");
}

#[tokio::test(start_paused = true)]
async fn polite_caller_is_admitted_during_floods_of_three_callers() {
    let limits = Arc::new(Limits::new(size(20, 50), size(20, 50), 0, 0, 0));
    let mut flood = JoinSet::new();
    for number in 0..200 {
        let limits = limits.clone();
        flood.spawn(async move {
            let caller = Caller::of_hash(100 + number % 3);
            loop {
                match limits.admit(true, caller, in_a_minute()).await {
                    Ok(_permit) => sleep(Duration::from_secs(1)).await,
                    Err(_) => sleep(Duration::from_millis(100)).await,
                }
            }
        });
    }
    for _ in 0..100 {
        sleep(Duration::from_millis(300)).await;
        let began = time::Instant::now();
        assert!(limits.admit(true, POLITE, in_a_minute()).await.is_ok());
        assert!(began.elapsed() < Duration::from_millis(1), "it waited {:?}", began.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn full_queue_evicts_from_the_caller_with_most_requests() {
    let bound = bound_of(4, 4);
    let _held: Vec<_> = (0..4).map(|n| at_once(&bound, Caller::of_hash(10 + n)).unwrap()).collect();
    let mut queued: Vec<_> = (0..4).map(|_| Box::pin(bound.admit(FLOODER, in_a_minute()))).collect();
    for turn in &mut queued {
        assert!(turn.now_or_never().is_none());
    }
    for (number, left) in [(1, 3), (2, 2)] {
        let mut polite = Box::pin(bound.admit(POLITE, in_a_minute()));
        assert!((&mut polite).now_or_never().is_none(), "the polite caller's request {number} waits");
        queued.retain_mut(|turn| turn.now_or_never().is_none());
        assert_eq!(queued.len(), left);
        std::mem::forget(polite);
    }
    assert!(bound.admit(POLITE, in_a_minute()).now_or_never().unwrap().is_none(), "both have two");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn every_place_is_returned_after_random_requests() {
    let bound = bound_of(8, 4);
    let most = Arc::new(AtomicUsize::new(0));
    let now = Arc::new(AtomicUsize::new(0));
    let mut requests = JoinSet::new();
    for number in 0..2_000_u64 {
        let (bound, most, now) = (bound.clone(), most.clone(), now.clone());
        requests.spawn(async move {
            let patience = Duration::from_micros(number % 7 * 50);
            let admitted =
                time::timeout(patience, bound.admit(Caller::of_hash(number % 5), in_a_minute())).await;
            if let Ok(Some(_permit)) = admitted {
                most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                tokio::task::yield_now().await;
                now.fetch_sub(1, Ordering::SeqCst);
            }
        });
    }
    requests.join_all().await;
    assert!(most.load(Ordering::SeqCst) <= 8);
    assert!(is_idle(&bound, 8));
}

#[test]
fn fault_74_one_caller_cannot_take_all_tunnels() {
    let limits = Limits::new(size(1, 0), size(1, 0), 4, 0, 0);
    let (many, other) =
        (limits.caller(Level::Interactive, "many"), limits.caller(Level::Interactive, "other"));
    let open: Vec<_> = (0..3).map(|_| limits.admit_tunnel(many).unwrap()).collect();
    assert!(matches!(limits.admit_tunnel(many), Err(Error::Tunnels)));
    let others = limits.admit_tunnel(other).unwrap();
    drop(open);
    assert!(limits.admit_tunnel(many).is_ok());
    drop(others);
}
