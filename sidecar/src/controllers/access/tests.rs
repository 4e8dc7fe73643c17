use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::runtime::watcher::Event;
use kubectl_mc_api::MemberCluster;
use kubectl_mc_api::access::ObservedUser;

use super::*;
use crate::controllers::tests::context;
use crate::members::inventory::fleet::HubAccount;

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
            hub_account: None,
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
    crate::connection::tls::install_provider();
    let mut access = access(3 * MAX_UNDER_WAY);
    let (mut syncs, mut synced) = (JoinSet::new(), 0);
    loop {
        access.begin(&mut syncs);
        // As many of the due syncs have begun as the limit allows.
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

/// Members that do not answer must not repeatedly take all slots.
#[tokio::test(start_paused = true)]
async fn members_that_waited_longest_are_synced_first() {
    let mut access = access(2 * MAX_UNDER_WAY);
    tokio::time::advance(Duration::from_secs(1)).await;
    let now = Instant::now();
    let (first, later): (Vec<_>, Vec<_>) =
        access.members.keys().cloned().enumerate().partition(|(place, _)| place % 2 == 0);
    for (_, cluster) in &later {
        access.members.get_mut(cluster).unwrap().turn.postpone(now);
    }
    access.begin(&mut JoinSet::new());
    for (_, cluster) in first {
        assert!(access.members[&cluster].turn.next().is_none(), "{cluster} waits");
    }
}

/// What happens to a member, and whether its reviews are kept.
type Change = (fn(&mut Access, &ClusterName), bool);

#[tokio::test(start_paused = true)]
async fn only_changed_rules_or_members_discard_reviews() {
    let at = Time(Timestamp::UNIX_EPOCH);
    let jane = ObservedUser { user: "jane".to_owned(), groups: Vec::new(), at };
    let (m0, period) = ("m0".parse::<ClusterName>().unwrap(), Duration::from_secs(180));
    let changes: [Change; 4] = [
        (|access, m0| access.due(m0, Instant::now()), true),
        (|access, m0| access.affected(&Affected::Named([m0.clone()].into())), false),
        (|access, _| access.affected(&Affected::All), false),
        (
            |access, m0| {
                let mut fleet = (*access.told).clone();
                fleet.get_mut(m0).unwrap().member = Arc::new(MemberCluster {
                    metadata: kube::api::ObjectMeta { uid: Some("u".to_owned()), ..Default::default() },
                    ..MemberCluster::new("m0", Default::default())
                });
                access.follow(Arc::new(fleet));
            },
            false,
        ),
    ];
    for (number, (change, are_kept)) in changes.into_iter().enumerate() {
        let mut access = access(2);
        let reviews = &mut access.members.get_mut(&m0).unwrap().reviews;
        let (of_sync, _) = reviews.begin(Instant::now(), period);
        reviews.update(of_sync.with([&jane].into_iter()));
        change(&mut access, &m0);
        assert_eq!(access.members[&m0].reviews.allow(&jane), are_kept, "change {number}");
    }
}

/// A member of Karmada with this account.
fn of_karmada(hub_account: HubAccount) -> Registered {
    Registered {
        member: Arc::new(MemberCluster::new("m1", Default::default())),
        origin: Origin::Karmada,
        is_read: true,
        in_two: false,
        connection: None,
        manager: None,
        hub_account,
        way: Err(Arc::from("")),
    }
}

#[test]
fn condition_says_why_the_account_of_a_hub_is_not_used() {
    let m1 = "m1".parse().unwrap();
    let without = |hub_account| manager(&m1, &of_karmada(hub_account)).unwrap_err();
    assert!(!without(None).message().contains("--karmada-member-rbac"));
    let unused = without(Some(Err(Arc::from("spec.secretRef is missing"))));
    assert_eq!(unused.reason(), "KeptByKarmada");
    assert!(unused.message().ends_with("has no effect: spec.secretRef is missing"), "{}", unused.message());
    assert!(manager(&m1, &of_karmada(Some(Ok(Arc::default())))).is_ok());
}

/// Otherwise the condition would keep the old reason.
#[test]
fn another_reason_or_account_of_a_hub_is_a_change() {
    let [first, second] =
        ["spec.secretRef is missing", "Secret k/m1 has no token"].map(|why| Some(Err(Arc::from(why))));
    let before = of_karmada(first);
    assert!(is_same(&before, &before.clone()));
    for hub_account in [second, Some(Ok(Arc::default())), None] {
        assert!(!is_same(&before, &Registered { hub_account, ..before.clone() }));
    }
}
