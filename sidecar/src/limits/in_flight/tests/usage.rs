//! Tests of the usage that the bounds report.

use super::*;

#[tokio::test]
async fn usage_counts_held_and_waiting_requests() {
    let limits = Limits::new(size(1, 1), size(4, 0), 5, 6, 7);
    let _held = limits.admit(true, POLITE, in_a_minute()).await.unwrap();
    let mut waiting = std::pin::pin!(limits.admit(true, FLOODER, in_a_minute()));
    assert!(futures_util::poll!(&mut waiting).is_pending());
    let _tunnel = limits.admit_tunnel(POLITE).unwrap();
    let usage = limits.usage().map(|usage| (usage.in_use, usage.waiting, usage.limit));
    assert_eq!(usage, [(1, 1, 1), (0, 0, 4), (1, 0, 5), (0, 0, 6), (0, 0, 7)]);
}

#[tokio::test]
async fn share_of_a_caller_may_be_smaller_than_the_usual_one() {
    let bound = Bound::new(Size::new(4, 0).with_share(1));
    let _held = at_once(&bound, FLOODER).unwrap();
    assert!(at_once(&bound, FLOODER).is_none());
    assert!(at_once(&bound, POLITE).is_some());
}

#[tokio::test]
async fn members_are_counted_until_they_are_removed() {
    let limits = MemberLimits::new(MemberSize { in_flight: size(4, 0), watches: size(4, 0) });
    let member = "m1".parse().unwrap();
    let (first, second) = (limits.bounds(), limits.bounds());
    let _request = first.admit(&member, POLITE, Some(in_a_minute())).await.unwrap();
    let _watches = [first.admit(&member, POLITE, None).await, second.admit(&member, POLITE, None).await];
    let third = limits.bounds();
    assert_eq!(limits.in_use(), (1, 2));
    assert_eq!(first.usage().map(|usage| (usage.in_use, usage.limit)), [(1, 4), (1, 4)]);
    drop((second, third));
    let _fourth = limits.bounds();
    assert_eq!(limits.known(), 2);
}
