use std::pin::pin;
use std::sync::atomic::Ordering;

use kubectl_mc_api::MemberCluster;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::controllers::metrics::Metrics;
use crate::controllers::tests::context;
use crate::members::cluster::tests::{cluster, upstream};
use crate::outbound::upstream::sidecar_client::tests::Member;

/// Every member has one such task.
#[tokio::test]
async fn probe_memory_is_freed_between_probes() {
    let (_told, context) = context();
    let (upstream, cluster) = (upstream(), "m1".parse().unwrap());
    let probing = size_of_val(&probe::probe(&upstream));
    let (queue, turns) = (context.metrics.queue("health"), Arc::new(Turns::new(1)));
    let (_renewals, upstream) = watch::channel(upstream);
    let context = Arc::new(context);
    let asked = Asked { context, queue, cluster, upstream, turns };
    let waiting = size_of_val(&asked.run_with_restarts(true));
    assert!(waiting < 1024 && waiting < probing, "{waiting} bytes, and {probing} for a probe");
}

/// Hundreds of members that do not answer would delay the probes of the others.
#[tokio::test(start_paused = true)]
async fn member_that_does_not_answer_takes_no_turn_of_the_others() {
    let (_told, context) = context();
    let (queue, turns) = (context.metrics.queue("health"), Arc::new(Turns::new(1)));
    let _others = turns.take(false).await.unwrap();
    let ((_renewals, upstream), cluster) = (watch::channel(upstream()), "m1".parse().unwrap());
    let context = Arc::new(context);
    let asked = Asked { context, queue: queue.clone(), cluster, upstream, turns: turns.clone() };
    let (hour, mut probing) = (Duration::from_secs(3600), pin!(asked.run_with_restarts(false)));
    assert!(timeout(hour, &mut probing).await.is_err());
    assert_eq!(queue.depth(), 1, "it waits after its first probe");
    assert_eq!(turns.answering.available_permits(), 1);
}

/// One lost probe after a renewal must not make a member unreachable.
#[tokio::test]
async fn renewed_credential_keeps_the_counts_of_probes() {
    let (up, down) = (Member::start(false).await, Member::that_serves(async |stream| drop(stream)).await);
    let (_told, mut context) = context();
    let mut registry = crate::observe::metrics::registry();
    context.metrics = Arc::new(Metrics::register(&mut registry));
    context.settings.member_monitor_period = Duration::from_millis(100);
    let mut monitor = Monitor {
        turns: Arc::new(Turns::new(1)),
        monitored: HashMap::new(),
        spread: false,
        queue: context.metrics.queue("health"),
        context: Arc::new(context),
    };
    let gone = CancellationToken::new();
    let mut follow = |upstream: &Arc<Upstream>| {
        let cluster = Cluster { gone: gone.clone(), ..cluster(upstream.clone()) };
        let member = MemberCluster::new("m1", Default::default());
        let registered = Registered {
            member: Arc::new(member),
            origin: Origin::default(),
            is_read: true,
            in_two: false,
            connection: None,
            manager: None,
            hub_account: None,
            way: Ok(Arc::new(cluster)),
        };
        monitor.follow(&[("m1".parse().unwrap(), registered)].into());
    };
    let is = async |state: u8| {
        let line = format!("mc_sidecar_member_reachable{{cluster=\"m1\"}} {state}\n");
        let reached = async {
            while !crate::observe::metrics::text(&registry).contains(&line) {
                tokio::task::yield_now().await;
            }
        };
        timeout(Duration::from_secs(60), reached).await.expect("the state is reached");
    };
    follow(&up.upstream);
    is(1).await;
    follow(&down.upstream);
    is(0).await;
    assert_eq!(down.connections.load(Ordering::Relaxed), DOWN as usize);
}

#[test]
fn state_changes_only_after_several_results_in_a_row() {
    let mut steady = Steady::new(3, 2);
    assert!(steady.takes(true));
    for (good, counts) in [
        (false, false),
        (false, false),
        // It recovered before the third failure.
        (true, true),
        (false, false),
        (false, false),
        (false, true),
        (false, true),
        (true, false),
        (false, true),
        (true, false),
        (true, true),
    ] {
        assert_eq!(steady.takes(good), counts, "{steady:?}");
    }
}

#[test]
fn first_failure_counts_immediately() {
    assert!(Steady::new(3, 2).takes(false));
}
