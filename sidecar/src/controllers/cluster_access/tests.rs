use jiff::SignedDuration;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::runtime::watcher::Event;
use kubectl_mc_api::MemberCluster;
use serde_json::json;

use super::*;
use crate::controllers::tests::context;
use crate::members::inventory::fleet::Registered;

/// A controller with this many members. Their Secrets are invalid, so each sync ends immediately.
fn controller(members: usize) -> Controller {
    crate::connection::tls::install_provider();
    let (_told, context) = context();
    let mut controller = Controller::new(context);
    controller.follow(fleet(members, Some(Arc::default())));
    controller.is_fleet_known = true;
    controller
}

fn fleet(members: usize, manager: Option<Arc<Secret>>) -> Arc<Fleet> {
    let registered = |number: usize| {
        let name = format!("m{number}");
        let registered = Registered {
            member: Arc::new(MemberCluster::new(&name, Default::default())),
            origin: Default::default(),
            is_read: true,
            in_two: false,
            connection: None,
            manager: manager.clone(),
            hub_account: None,
            way: Err(Arc::from("")),
        };
        (name.parse().unwrap(), registered)
    };
    Arc::new((0..members).map(registered).collect())
}

fn access(name: &str, annotation: &str) -> ClusterAccess {
    serde_json::from_value(json!({
        "apiVersion": "fleet.kubectl-mc.dev/v1alpha1", "kind": "ClusterAccess",
        "metadata": {"name": name, "generation": 1, "annotations": {"note": annotation}},
        "spec": {"subjects": [{"kind": "User", "name": "jane"}], "roleRef": {"name": "view"}, "clusterSelector": {}},
    }))
    .unwrap()
}

fn read(controller: &mut Controller, accesses: &[ClusterAccess]) {
    controller.take(Ok(Event::Init));
    accesses.iter().for_each(|access| controller.take(Ok(Event::InitApply(access.clone()))));
    controller.take(Ok(Event::InitDone));
}

/// Runs all due work and returns the number of synced members.
async fn settle(controller: &mut Controller) -> usize {
    let (mut under_way, mut synced) = (JoinSet::new(), 0);
    loop {
        controller.begin(&mut under_way);
        let Some(done) = under_way.join_next().await else { return synced };
        let done = done.unwrap();
        synced += usize::from(matches!(done, Done::Member(..)));
        controller.done(done);
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_is_synced_before_everything_is_read() {
    let mut controller = controller(3);
    controller.take(Ok(Event::Init));
    controller.take(Ok(Event::InitApply(access("a", ""))));
    assert_eq!(settle(&mut controller).await, 0);
    assert!(controller.next(0) > Instant::now());
    controller.is_fleet_known = false;
    controller.take(Ok(Event::InitDone));
    assert_eq!(settle(&mut controller).await, 0, "the members were not read");
    controller.is_fleet_known = true;
    assert_eq!(settle(&mut controller).await, 3);
}

#[tokio::test(start_paused = true)]
async fn waiting_members_do_not_wake_the_controller() {
    let mut controller = controller(3 * MAX_UNDER_WAY);
    read(&mut controller, &[access("a", "")]);
    let mut under_way = JoinSet::new();
    controller.begin(&mut under_way);
    assert!(under_way.len() >= MAX_UNDER_WAY);
    // The statuses are written later.
    controller.writes.begin(LONG, &controller.queue.clone());
    assert!(controller.next(under_way.len()) > Instant::now());
    let mut synced = 0;
    while let Some(done) = under_way.join_next().await {
        let done = done.unwrap();
        synced += usize::from(matches!(done, Done::Member(..)));
        controller.done(done);
        controller.begin(&mut under_way);
    }
    assert_eq!(synced, 3 * MAX_UNDER_WAY);
}

#[tokio::test(start_paused = true)]
async fn annotation_change_syncs_members_and_status_change_does_not() {
    let mut controller = controller(2);
    read(&mut controller, &[access("a", "")]);
    settle(&mut controller).await;
    controller.members.values_mut().for_each(|member| member.turn.postpone(Instant::now() + LONG));
    let mut told = access("a", "");
    told.status = Some(Default::default());
    controller.take(Ok(Event::Apply(told)));
    assert_eq!(settle(&mut controller).await, 0);
    controller.take(Ok(Event::Apply(access("a", "look again"))));
    assert_eq!(settle(&mut controller).await, 2);
}

#[tokio::test(start_paused = true)]
async fn member_that_gets_a_manager_is_synced() {
    let mut controller = controller(0);
    controller.follow(fleet(1, None));
    read(&mut controller, &[access("a", "")]);
    assert_eq!(settle(&mut controller).await, 0);
    let states = |controller: &Controller| {
        controller.members.values().map(|member| member.states["a"].reason).collect::<Vec<_>>()
    };
    assert_eq!(states(&controller), ["NoManager"]);
    controller.follow(fleet(1, Some(Arc::default())));
    assert_eq!(settle(&mut controller).await, 1);
    assert_eq!(states(&controller), ["MemberUnreachable"]);
}

#[tokio::test(start_paused = true)]
async fn expiration_is_noticed_without_an_event() {
    let mut controller = controller(1);
    let ending = |seconds: i64| {
        let mut access = access("a", "");
        let end = Timestamp::now() + SignedDuration::from_secs(seconds);
        access.spec.expiration_timestamp = Some(Time(end));
        access
    };
    read(&mut controller, &[ending(3600)]);
    settle(&mut controller).await;
    assert_eq!(controller.wanted.host.len(), 1);
    // The clock is checked even if the expiration is far in the future.
    assert!(controller.next(0) <= Instant::now() + CLOCK_CHECK);
    // Simulates that the grant has expired.
    controller.accesses.insert("a".to_owned(), Arc::new(ending(-1)));
    controller.begin(&mut JoinSet::new());
    assert_eq!(controller.wanted.host.len(), 1, "the end is not due yet");
    controller.wanted.next_end = Some(Timestamp::now());
    controller.begin(&mut JoinSet::new());
    assert!(controller.wanted.host.is_empty());
}
