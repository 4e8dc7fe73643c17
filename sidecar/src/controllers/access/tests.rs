use kube::runtime::watcher::Event;
use kubectl_mc_api::MemberCluster;

use super::*;
use crate::controllers::tests::context;

/// A controller with this many members. Their Secrets are invalid, so each sync ends immediately.
fn access(members: usize) -> Access {
    let (_told, context) = context();
    let registered = |number: usize| {
        let name = format!("m{number}");
        let registered = Registered {
            member: Arc::new(MemberCluster::new(&name, Default::default())),
            origin: Default::default(),
            is_read: true,
            in_two: false,
            connection: None,
            manager: Some(Arc::default()),
            way: Err(Arc::from("")),
        };
        (name.parse().unwrap(), registered)
    };
    let mut access = Access {
        queue: context.metrics.queue("access"),
        context,
        told: Arc::default(),
        rbac: HostRbac::default(),
        observed: ObservedUsers::default(),
        members: HashMap::new(),
    };
    for event in [Event::Init, Event::InitDone] {
        access.rbac.take(host::Change::Role(event));
    }
    for event in [Event::Init, Event::InitDone] {
        access.rbac.take(host::Change::Binding(event));
    }
    for event in [Event::Init, Event::InitDone] {
        access.observed.take(event);
    }
    access.follow(Arc::new((0..members).map(registered).collect()));
    access
}

#[tokio::test(start_paused = true)]
async fn concurrent_syncs_do_not_exceed_the_limit() {
    crate::server::tls::install_provider();
    let mut access = access(3 * MAX_UNDER_WAY);
    let (mut syncs, mut synced) = (JoinSet::new(), 0);
    loop {
        access.begin(&mut syncs);
        // As many of the due syncs as the limit allows.
        assert_eq!(syncs.len(), MAX_UNDER_WAY.min(3 * MAX_UNDER_WAY - synced), "after {synced}");
        let without_a_place = (3 * MAX_UNDER_WAY - synced).saturating_sub(MAX_UNDER_WAY);
        assert_eq!(usize::try_from(access.queue.depth()), Ok(without_a_place), "after {synced}");
        // Waiting members do not wake the controller before a sync ends.
        assert!(access.next(syncs.len()) > Instant::now(), "after {synced}");
        let Some(done) = syncs.join_next().await else { break };
        let (cluster, work, outcome) = done.unwrap();
        access.done(&cluster, work, outcome);
        synced += 1;
    }
    assert_eq!(synced, 3 * MAX_UNDER_WAY);
}
