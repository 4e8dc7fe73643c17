use kube::runtime::watcher::Event;
use kubectl_mc_api::MemberCluster;

use super::*;
use crate::controllers::tests::context;

/// The controller of so many members, whose Secrets cannot be used: a sync of one is done at once.
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
async fn no_more_members_are_synced_at_once_than_there_are_places() {
    crate::server::tls::install_provider();
    let mut access = access(3 * MAX_UNDER_WAY);
    let (mut syncs, mut synced) = (JoinSet::new(), 0);
    loop {
        access.begin(&mut syncs);
        // Of all that are due, as many as there is place for.
        assert_eq!(syncs.len(), MAX_UNDER_WAY.min(3 * MAX_UNDER_WAY - synced), "after {synced}");
        let without_a_place = (3 * MAX_UNDER_WAY - synced).saturating_sub(MAX_UNDER_WAY);
        assert_eq!(usize::try_from(access.queue.depth()), Ok(without_a_place), "after {synced}");
        // Those without a place are no reason to look again before one is done.
        assert!(access.next(syncs.len()) > Instant::now(), "after {synced}");
        let Some(done) = syncs.join_next().await else { break };
        let (cluster, work, outcome) = done.unwrap();
        access.done(&cluster, work, outcome);
        synced += 1;
    }
    assert_eq!(synced, 3 * MAX_UNDER_WAY);
}
