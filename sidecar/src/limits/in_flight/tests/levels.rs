//! Floods in one priority level while there are requests in the others.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use prometheus_client::registry::Registry;

use super::*;

const LIMITED: [Level; 4] = [Level::System, Level::WorkloadHigh, Level::Interactive, Level::CatchAll];

fn caller(level: Level, key: u64) -> Caller {
    Caller { key, level }
}

fn with_levels(places: usize, queued_per_caller: usize) -> Size {
    size(places, queued_per_caller).with_levels(Shares::default())
}

fn member(places: usize, queued_per_caller: usize) -> Bound {
    Bound::new(with_levels(places, queued_per_caller))
}

fn of_all(places: usize, queued_per_caller: usize) -> Bound {
    Bound::of_all(with_levels(places, queued_per_caller))
}

/// The permits of a thousand callers in one level who take as many as they can.
fn flood(bound: &Bound, level: Level) -> Vec<Permit> {
    (0..3).flat_map(|_| (0..1000).filter_map(|key| bound.admit_now(caller(level, key)))).collect()
}

#[test]
fn flood_in_one_level_leaves_the_others_their_places() {
    // The seats that each level does not lend of its 26, 34, 34 and 4.
    let guaranteed = [17, 17, 17, 4];
    for (flooded, own) in LIMITED.into_iter().zip(guaranteed) {
        let bound = member(100, 0);
        let flooding = flood(&bound, flooded);
        let all: usize = guaranteed.iter().sum();
        assert_eq!(flooding.len(), 100 - (all - own), "{flooded:?}");
        assert!(bound.admit_now(caller(flooded, 5000)).is_none());
        for (level, places) in LIMITED.into_iter().zip(guaranteed).filter(|(level, _)| *level != flooded) {
            let held = flood(&bound, level);
            assert_eq!(held.len(), places, "{level:?} beside {flooded:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn bound_without_levels_has_one_queue() {
    let bound = bound_of(1, 1);
    let _held = at_once(&bound, caller(Level::Interactive, 1));
    let levels = [Level::CatchAll, Level::System, Level::Exempt];
    let mut waiting = levels.map(|level| Box::pin(bound.admit(caller(level, 2), in_a_minute())));
    let rejected = waiting.iter_mut().filter_map(|admitted| admitted.now_or_never()).count();
    assert_eq!(rejected, 2);
}

#[test]
fn one_caller_gets_three_quarters_of_its_levels_places() {
    let bound = member(100, 0);
    let jane = caller(Level::Interactive, 1);
    let held: Vec<_> = std::iter::from_fn(|| at_once(&bound, jane)).collect();
    assert_eq!(held.len(), 47);
    assert!(at_once(&bound, caller(Level::Interactive, 2)).is_some());
}

#[tokio::test(start_paused = true)]
async fn lent_places_return_to_the_level_below_its_share() {
    for (flooding, late) in
        [(Level::Interactive, Level::WorkloadHigh), (Level::WorkloadHigh, Level::Interactive)]
    {
        let bound = member(100, 100);
        let (mut first, second) = (flood(&bound, flooding), flood(&bound, late));
        assert_eq!((first.len(), second.len()), (62, 17));
        let wait = |level, key| {
            let mut turn: BoxFuture<'_, _> = Box::pin(bound.admit(caller(level, key), in_a_minute()));
            assert!((&mut turn).now_or_never().is_none());
            (level, turn)
        };
        let all = [flooding, late].into_iter().flat_map(|level| (0..60).map(move |key| (level, key)));
        let mut queued: Vec<_> = all.map(|(level, key)| wait(level, key)).collect();
        let mut admitted = Vec::new();
        while admitted.len() < 20 {
            first.pop();
            queued.retain_mut(|(level, turn)| {
                let permit = turn.now_or_never();
                let is_admitted = permit.is_some();
                admitted.extend(permit.map(|permit| (*level, permit.unwrap())));
                !is_admitted
            });
        }
        let levels: Vec<_> = admitted.iter().map(|(level, _)| *level).collect();
        // Up to its 34 nominal seats the late level has priority.
        assert_eq!(levels[..17], [late; 17], "beside {flooding:?}");
        let held = bound.0.snapshot().held[late as usize];
        assert!(held.abs_diff(34) <= 3, "{held} beside {flooding:?}");
    }
}

#[tokio::test]
async fn exempt_requests_pass_a_full_bound() {
    let bound = of_all(20, 0);
    let _floods: Vec<_> = LIMITED.into_iter().map(|level| flood(&bound, level)).collect();
    let before = bound.0.snapshot().held;
    let root = caller(Level::Exempt, 1);
    let exempt: Vec<_> = (0..1000).map(|_| at_once(&bound, root).unwrap()).collect();
    assert!(exempt.iter().all(|permit| permit.caller().is_none()), "exempt requests take no places");
    assert_eq!(bound.0.snapshot().held[Level::Exempt as usize], 1000);
    drop(exempt);
    assert_eq!(bound.0.snapshot().held, before);
}

#[test]
fn exempt_callers_use_system_level_places_of_a_member() {
    let bound = member(100, 0);
    let _people = flood(&bound, Level::Interactive);
    let exempt = flood(&bound, Level::Exempt);
    assert_eq!(exempt.len(), 17);
    assert!(bound.admit_now(caller(Level::System, 5000)).is_none());
}

#[test]
fn bound_without_levels_treats_all_callers_alike() {
    let bound = bound_of(100, 0);
    let held = flood(&bound, Level::CatchAll);
    assert_eq!(held.len(), 100);
    assert!(bound.admit_now(caller(Level::System, 1)).is_none());
    assert!(bound.admit_now(caller(Level::Exempt, 1)).is_none());
}

#[test]
fn levels_without_shares_get_no_guaranteed_places() {
    let none = "system=0,workload-high=0,interactive=0,catch-all=0".parse().unwrap();
    let bound = Bound::new(size(100, 0).with_levels(none));
    assert_eq!(flood(&bound, Level::CatchAll).len(), 100);
}

/// An attacker who may create namespaces, or users, can have as many.
#[test]
fn thousand_namespaces_leave_people_their_places() {
    let bound = of_all(2000, 0);
    let _accounts: Vec<_> = (0..50)
        .flat_map(|_| (0..1000).filter_map(|key| bound.admit_now(caller(Level::WorkloadHigh, key))))
        .collect();
    assert_eq!(flood(&bound, Level::Interactive).len(), 347);
}

#[test]
fn caller_with_changing_level_returns_all_places() {
    let bound = of_all(20, 0);
    let mut held = Vec::new();
    for _ in 0..20 {
        held.extend(Level::ALL.into_iter().filter_map(|level| bound.admit_now(caller(level, 1))));
    }
    let held_by = |bound: &Bound| bound.0.snapshot().held.into_iter().skip(1).sum::<usize>();
    assert!(held_by(&bound) <= 20);
    drop(held);
    assert!(is_idle(&bound, 20));
}

#[tokio::test(start_paused = true)]
async fn full_queue_of_one_level_leaves_room_in_the_others() {
    let bound = member(4, 1);
    let _held: Vec<_> = (0..4).map(|key| at_once(&bound, caller(Level::CatchAll, key)).unwrap()).collect();
    let ask = |level, key| {
        let mut turn = Box::pin(bound.admit(caller(level, key), in_a_minute()));
        (&mut turn).now_or_never().is_none().then_some(turn)
    };
    let queued: Vec<_> = (10..20).filter_map(|key| ask(Level::CatchAll, key)).collect();
    assert_eq!(queued.len(), 4);
    assert!(ask(Level::System, 1).is_some());
}

/// Callers of all levels acquire, wait, give up and release in a pseudorandom order.
#[tokio::test(start_paused = true)]
async fn no_place_is_lost_between_levels() {
    for (places, seed) in [(1, 1), (8, 2), (20, 3), (100, 4)] {
        let bound = of_all(places, 50);
        let (mut held, mut turns, mut state) = (Vec::new(), Vec::new(), seed);
        for step in 0..5_000 {
            state = 6_364_136_223_846_793_005_u64.wrapping_mul(state).wrapping_add(1);
            let dice = usize::try_from(state >> 33).unwrap();
            match dice % 7 {
                0..=2 if !held.is_empty() => drop(held.swap_remove(dice / 7 % held.len())),
                3 if !turns.is_empty() => drop(turns.swap_remove(dice / 7 % turns.len())),
                _ => {
                    let level = Level::ALL[dice / 7 % Level::COUNT];
                    turns.push(Box::pin(bound.admit(caller(level, state >> 40 & 3), in_a_minute())));
                }
            }
            turns.retain_mut(|turn| turn.now_or_never().map(|permit| held.extend(permit)).is_none());
            assert!(bound.0.is_fair(), "{places} places, step {step}");
        }
        drop((held, turns));
        assert!(is_idle(&bound, places));
    }
}

/// A level below its guaranteed seats always has a free seat, regardless of what the others hold.
#[test]
fn guaranteed_places_are_free_in_every_state() {
    let (bound, guaranteed) = (member(100, 0), [17, 17, 17, 4]);
    let (mut held, mut state) = (Vec::new(), 7_u64);
    for step in 0..20_000 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let dice = usize::try_from(state >> 33).unwrap();
        if dice.is_multiple_of(3) && !held.is_empty() {
            held.swap_remove(dice / 3 % held.len());
        } else {
            held.extend(bound.admit_now(caller(LIMITED[dice / 3 % 4], state >> 40 & 15)));
        }
        let now = bound.0.snapshot().held;
        for (level, places) in LIMITED.into_iter().zip(guaranteed) {
            if now[level as usize] < places {
                assert!(
                    bound.admit_now(caller(level, 1 << 50)).is_some(),
                    "step {step}: {level:?} of {now:?}"
                );
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn metrics_count_by_level_and_limit() {
    let limits = Arc::new(Limits::new(with_levels(4, 1), with_levels(0, 1), 4, 4, 0));
    let members = MemberLimits::new(MemberSize { in_flight: with_levels(1, 0), watches: size(9, 0) });
    let mut registry = Registry::default();
    limits.register(members.clone(), &mut registry);
    let jane = caller(Level::Interactive, 1);
    let mut held: Vec<_> = (0..3).map(|_| limits.admit(true, jane, in_a_minute()).now_or_never()).collect();
    held.push(limits.admit(false, caller(Level::Exempt, 1), in_a_minute()).now_or_never());
    let waiting = limits.admit(true, jane, in_a_minute());
    assert!(limits.admit(true, jane, in_a_minute()).await.is_err(), "nothing is given back");
    drop(waiting);
    let tunnels: Vec<_> = (0..4).map(|_| limits.admit_tunnel(jane)).collect();
    let (bounds, name) = (members.bounds(), "m1".parse().unwrap());
    let _first = bounds.admit(&name, jane, Some(in_a_minute())).await.unwrap();
    assert!(bounds.admit(&name, jane, Some(in_a_minute())).await.is_err());
    let text = crate::observe::metrics::text(&registry);
    for line in [
        "apiserver_flowcontrol_nominal_limit_seats{priority_level=\"interactive\"} 1",
        "apiserver_flowcontrol_current_executing_requests{priority_level=\"interactive\"} 3",
        "apiserver_flowcontrol_current_executing_requests{priority_level=\"exempt\"} 1",
        "apiserver_flowcontrol_current_inqueue_requests{priority_level=\"interactive\"} 0",
        "apiserver_flowcontrol_dispatched_requests_total{priority_level=\"interactive\"} 3",
        "apiserver_flowcontrol_rejected_requests_total{priority_level=\"interactive\",reason=\"time-out\"} 1",
        "apiserver_flowcontrol_request_wait_duration_seconds_count{priority_level=\"interactive\",execute=\"true\"} 3",
        "apiserver_flowcontrol_request_wait_duration_seconds_bucket{le=\"15.0\",priority_level=\"interactive\",execute=\"false\"} 1",
        "apiserver_current_inflight_requests{request_kind=\"readOnly\"} 3",
        "apiserver_current_inflight_requests{request_kind=\"mutating\"} 1",
        "mc_sidecar_limit_in_use{limit=\"tunnels\"} 3",
        "mc_sidecar_limit{limit=\"tunnels\"} 4",
        "mc_sidecar_limit_refused_total{limit=\"tunnels\"} 1",
        "mc_sidecar_limit_in_use{limit=\"member\"} 1",
        "mc_sidecar_limit_refused_total{limit=\"member\"} 1",
        "mc_sidecar_limit{limit=\"agents\"} 0",
        "mc_sidecar_limit{limit=\"member-watches\"} 9",
    ] {
        assert!(text.lines().any(|got| got == line), "{line} is not in\n{text}");
    }
    drop((held, tunnels));
}
