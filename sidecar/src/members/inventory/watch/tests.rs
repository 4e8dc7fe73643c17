use std::time::{Duration, Instant};

use futures_util::future::join_all;
use k8s_openapi::ByteString;
use kube::runtime::watcher::Event;

use super::super::renewal::Renewals;
use super::super::{Error, Inventory};
use kubectl_mc_api::names::ENROLLMENT_UNTIL;

use super::*;
use crate::host::fake::host;
use crate::identity::Identity;
use crate::identity::authorization::Attributes;
use crate::limits::in_flight::{Caller, MemberLimits, MemberSize, Size};
use crate::members::cluster::Cluster;
use crate::members::on_demand_access::{OnDemandAccess, Outcome};
use crate::observe::readiness::{Part, Readiness};
use crate::outbound::upstream::grant::Lacking;

mod beside_hub;

const ONE: Size = Size::new(1, 0);
const ONE_EACH: MemberSize = MemberSize { in_flight: ONE, watches: ONE };

struct Host {
    state: State,
    read: mpsc::Receiver<Read>,
    readiness: Readiness,
}

impl Host {
    fn new() -> Self {
        Self::with(secret("m1", "old"))
    }

    /// A host that responds with this Secret when a Secret is read by name.
    fn with(asked_for: Secret) -> Self {
        crate::connection::tls::install_provider();
        let (client, _) = host(move |_| (200, serde_json::to_value(&asked_for).unwrap()));
        let (renewals, read) = Renewals::new(client.clone(), "ns", &Inventories::default());
        let readiness = Readiness::default();
        let (_, registry) = clusters::Registry::new();
        let state = State::new(Watch {
            namespace: "ns".to_owned(),
            inventories: Inventories::default(),
            inventory: Arc::new(Inventory::new(renewals, OnDemandAccess::new(client, "ns"))),
            registry,
            fleet: watch::Sender::default(),
            hub_clusters: watch::Sender::default(),
            metrics: Metrics::default(),
            requests: Arc::default(),
            tunnels: AgentTunnels::none(),
            limits: MemberLimits::new(ONE_EACH),
            pending: Some(readiness.pending(Part::Members)),
        });
        Self { state, read, readiness }
    }

    /// A host with member m1, whose lists are read.
    fn synced() -> Self {
        Self::new().listed()
    }

    fn listed(self) -> Self {
        let mut host = self;
        host.state.member(Event::Init);
        host.state.member(Event::InitApply(member("m1")));
        host.state.member(Event::InitDone);
        host.state.secret(Event::Init);
        host.state.secret(Event::InitApply(secret("m1", "old")));
        host.state.secret(Event::InitDone);
        host
    }

    /// Renews the credential of `refused`, and does the watch's part.
    async fn renewed(&mut self, refused: &Cluster) -> Option<Arc<Cluster>> {
        let inventory = self.state.watch.inventory.clone();
        let mut renewed = std::pin::pin!(inventory.renewed(refused));
        loop {
            tokio::select! {
                renewed = &mut renewed => return renewed,
                Some(Read { origin, secret, applied }) = self.read.recv() => {
                    self.state.read(origin, secret);
                    applied.send(()).unwrap();
                }
            }
        }
    }

    fn find(&self, name: &str) -> Result<Arc<Cluster>, Error> {
        self.state.watch.inventory.find(&name.parse().unwrap())
    }
}

/// The member's Secret with this resource version.
fn secret_at(version: u64, token: &str) -> Secret {
    let mut secret = secret("m1", token);
    secret.metadata.resource_version = Some(version.to_string());
    secret
}

fn member(name: &str) -> MemberCluster {
    MemberCluster::new(name, kubectl_mc_api::MemberClusterSpec::default())
}

fn secret(name: &str, token: &str) -> Secret {
    let text = |text: &str| ByteString(text.as_bytes().to_vec());
    let mut secret = Secret::default();
    secret.metadata.name = Some(format!("{name}.member"));
    secret.metadata.resource_version = Some("1".to_owned());
    secret.type_ = Some(SECRET_TYPE.to_owned());
    secret.data = Some(
        [("server", "https://203.0.113.7"), ("insecure-skip-tls-verify", "true"), ("token", token)]
            .map(|(key, value)| (key.to_owned(), text(value)))
            .into(),
    );
    secret
}

#[tokio::test]
async fn nothing_is_published_before_both_lists_are_read() {
    let mut host = Host::new();
    host.state.member(Event::Init);
    host.state.member(Event::InitDone);
    assert!(matches!(host.find("m1"), Err(Error::NotSynced)));
    assert!(!host.readiness.is_ready());
    host.state.secret(Event::Init);
    host.state.secret(Event::InitDone);
    assert!(matches!(host.find("m1"), Err(Error::Unknown(..))));
    assert!(host.readiness.is_ready());
}

#[tokio::test]
async fn proxy_is_off_for_a_member_without_a_secret() {
    let mut host = Host::synced();
    assert!(host.find("m1").is_ok());
    host.state.member(Event::Apply(member("m2")));
    assert!(host.find("m2").unwrap_err().to_string().contains("Secret m2.member does not exist"));
    host.state.secret(Event::Delete(secret("m1", "old")));
    assert!(matches!(host.find("m1"), Err(Error::ProxyOff { .. })));
    host.state.member(Event::Delete(member("m1")));
    assert!(matches!(host.find("m1"), Err(Error::Unknown(..))));
}

#[tokio::test]
async fn invalid_secret_is_named_with_its_key() {
    let mut host = Host::synced();
    host.state.secret(Event::Apply(secret("m1", "")));
    let error = host.find("m1").unwrap_err().to_string();
    assert!(error.contains("Secret m1.member") && error.contains("key token"), "{error}");
}

#[tokio::test]
async fn change_of_a_member_rebuilds_no_other() {
    let mut host = Host::synced();
    let before = host.find("m1").unwrap();
    host.state.member(Event::Apply(member("m2")));
    host.state.secret(Event::Apply(secret("m2", "other")));
    assert!(host.find("m2").is_ok());
    assert!(Arc::ptr_eq(&before, &host.find("m1").unwrap()));
    host.state.member(Event::Apply(member("m1")));
    assert!(!Arc::ptr_eq(&before, &host.find("m1").unwrap()));
}

#[tokio::test]
async fn fault_78_only_a_new_token_creates_a_new_upstream() {
    let mut host = Host::synced();
    let old = host.find("m1").unwrap().upstream.clone();
    host.state.member(Event::Apply(member("m1")));
    let mut relabelled = secret("m1", "old");
    relabelled.metadata.resource_version = Some("2".to_owned());
    host.state.secret(Event::Apply(relabelled));
    assert!(Arc::ptr_eq(&old, &host.find("m1").unwrap().upstream));
    host.state.secret(Event::Apply(secret("m1", "new")));
    let new = host.find("m1").unwrap().upstream.clone();
    assert_eq!(new.connection().authorization().unwrap(), "Bearer new");
}

#[tokio::test]
async fn fault_73_streams_survive_a_new_token_not_a_new_address() {
    let mut host = Host::synced();
    let open = host.find("m1").unwrap().gone.clone();
    host.state.secret(Event::Apply(secret("m1", "new")));
    assert!(!open.is_cancelled());
    let mut elsewhere = secret("m1", "new");
    elsewhere.data.as_mut().unwrap().insert("server".to_owned(), ByteString(b"https://203.0.113.8".to_vec()));
    host.state.secret(Event::Apply(elsewhere));
    assert!(open.is_cancelled());

    let open = host.find("m1").unwrap().gone.clone();
    let mut again = member("m1");
    again.metadata.uid = Some("2".to_owned());
    host.state.member(Event::Apply(again));
    assert!(open.is_cancelled(), "a member of the same name is another member");

    let open = host.find("m1").unwrap().gone.clone();
    host.state.member(Event::Delete(member("m1")));
    assert!(open.is_cancelled());
}

#[tokio::test]
async fn streams_survive_new_proxy_certificate_not_new_authority() {
    let mut host = Host::synced();
    let certificate = || {
        let key = rcgen::KeyPair::generate().unwrap();
        let certificate = rcgen::CertificateParams::default().self_signed(&key).unwrap();
        (certificate.pem(), key.serialize_pem())
    };
    let (authority, _) = certificate();
    let with = |keys: &[(&str, &str)]| {
        let mut secret = secret("m1", "old");
        let keys = keys.iter().map(|(key, value)| ((*key).to_owned(), ByteString(value.as_bytes().to_vec())));
        secret.data.as_mut().unwrap().extend(keys);
        secret
    };
    let shows = |(chain, key): &(String, String)| {
        with(&[("proxy-url", "https://proxy"), ("proxy-tls.crt", chain), ("proxy-tls.key", key)])
    };
    host.state.secret(Event::Apply(shows(&certificate())));
    let open = host.find("m1").unwrap();
    host.state.secret(Event::Apply(shows(&certificate())));
    let renewed = host.find("m1").unwrap();
    assert!(!open.gone.is_cancelled() && !Arc::ptr_eq(&open.upstream, &renewed.upstream));
    host.state.secret(Event::Apply(with(&[("proxy-url", "https://proxy"), ("proxy-ca.crt", &authority)])));
    assert!(open.gone.is_cancelled() && !host.find("m1").unwrap().gone.is_cancelled());
}

#[tokio::test]
async fn fault_73_streams_end_with_their_credential() {
    let mut none = secret("m1", "old");
    none.data.as_mut().unwrap().remove("token");
    for off in [none, secret("m1", "")] {
        let mut host = Host::synced();
        let open = host.find("m1").unwrap().gone.clone();
        host.state.secret(Event::Apply(off));
        assert!(host.find("m1").is_err() && open.is_cancelled());
        host.state.secret(Event::Apply(secret("m1", "new")));
        assert!(!host.find("m1").unwrap().gone.is_cancelled(), "what begins afterwards is not ended by it");
    }
}

#[tokio::test]
async fn member_limits_survive_a_new_secret() {
    let mut host = Host::synced();
    let user = Caller::of_hash(1);
    let due = Some(Instant::now() + Duration::from_secs(60));
    let permit = host.find("m1").unwrap().admit(user, due).await.unwrap();
    host.state.secret(Event::Apply(secret("m1", "new")));
    assert!(host.find("m1").unwrap().admit(user, due).await.is_err());
    drop(permit);
    assert!(host.find("m1").unwrap().admit(user, due).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn waiter_limit_survives_a_new_secret() {
    let mut host = Host::synced();
    let mut manager = secret("m1", "manager");
    manager.metadata.name = Some("m1.manager".to_owned());
    host.state.secret(Event::Apply(manager));
    let before = host.find("m1").unwrap();
    host.state.secret(Event::Apply(secret("m1", "new")));
    let after = host.find("m1").unwrap();
    assert!(!Arc::ptr_eq(&before, &after));

    let silent = tower::service_fn(|_: http::Request<kube::client::Body>| {
        std::future::pending::<std::io::Result<http::Response<kube::client::Body>>>()
    });
    let access = OnDemandAccess::new(kube::Client::new(silent, "default"), "ns");
    let rights = vec![Attributes::impersonate("", "users", "", "", "jane")];
    let lacking = Lacking { rights, words: Arc::from("") };
    let people: Vec<_> = (0..40).map(|number| Arc::new(person(number))).collect();
    let come = people.iter().zip([&before, &after].into_iter().cycle());
    let ended = join_all(come.map(|(person, cluster)| access.acquire(cluster, person, &lacking))).await;
    let of = |end: Outcome| ended.iter().filter(|answer| answer.outcome == end).count();
    assert_eq!((of(Outcome::Late), of(Outcome::Busy)), (32, 8), "{ended:?}");
    // The slots are free again.
    assert_eq!(access.acquire(&after, &person(40), &lacking).await.outcome, Outcome::Late);
}

fn person(number: usize) -> Identity {
    Identity { user: format!("jane-{number}"), ..Identity::default() }
}

#[tokio::test]
async fn relist_publishes_one_snapshot() {
    let mut host = Host::synced();
    let mut told = host.state.watch.fleet.subscribe();
    let mut publications = 0;
    let mut look = || {
        publications += usize::from(told.has_changed().unwrap());
        told.mark_unchanged();
    };
    let names: Vec<_> = (0..100).map(|number| format!("m{number}")).collect();
    host.state.member(Event::Init);
    for name in &names {
        host.state.member(Event::InitApply(member(name)));
        look();
    }
    host.state.member(Event::InitDone);
    look();
    host.state.secret(Event::Init);
    for name in &names {
        host.state.secret(Event::InitApply(secret(name, "old")));
        look();
    }
    host.state.secret(Event::InitDone);
    look();
    assert_eq!(publications, 2, "one for each of the two lists");
}

#[tokio::test]
async fn fault_77_relist_removes_deleted_members() {
    let mut host = Host::synced();
    host.state.member(Event::Init);
    host.state.member(Event::InitApply(member("m2")));
    assert!(host.find("m1").is_ok(), "half a list takes nobody away");
    host.state.member(Event::InitDone);
    assert!(matches!(host.find("m1"), Err(Error::Unknown(..))));
}

#[tokio::test]
async fn secret_of_the_manager_is_not_the_members_connection() {
    let mut host = Host::synced();
    let mut manager = secret("m1", "manager");
    manager.metadata.name = Some("m1.manager".to_owned());
    host.state.secret(Event::Apply(manager));
    assert_eq!(host.find("m1").unwrap().upstream.connection().authorization().unwrap(), "Bearer old");
}

#[tokio::test]
async fn refused_credential_is_reread_before_the_watch_event() {
    let mut host = Host::with(secret_at(2, "new")).listed();
    let refused = host.find("m1").unwrap();
    let renewed = host.renewed(&refused).await.unwrap();
    assert_eq!(renewed.upstream.connection().authorization().unwrap(), "Bearer new");
    assert!(!refused.gone.is_cancelled(), "what is open lives on");
    assert!(Arc::ptr_eq(&host.renewed(&refused).await.unwrap().upstream, &renewed.upstream));
}

#[tokio::test]
async fn unchanged_credential_is_not_retried() {
    let mut host = Host::with(secret_at(1, "old")).listed();
    let refused = host.find("m1").unwrap();
    assert!(host.renewed(&refused).await.is_none());
}

#[tokio::test]
async fn reread_secret_does_not_replace_a_newer_watch_event() {
    let mut host = Host::synced();
    host.state.secret(Event::Apply(secret_at(3, "newest")));
    host.state.read(Origin::MemberCluster, secret_at(2, "new"));
    assert_eq!(host.find("m1").unwrap().upstream.connection().authorization().unwrap(), "Bearer newest");
    host.state.secret(Event::Delete(secret_at(3, "newest")));
    host.state.read(Origin::MemberCluster, secret_at(2, "new"));
    assert!(matches!(host.find("m1"), Err(Error::ProxyOff { .. })), "a deleted Secret stays deleted");
}

#[tokio::test]
async fn request_is_not_retried_on_another_server() {
    let mut elsewhere = secret_at(2, "new");
    elsewhere.data.as_mut().unwrap().insert("server".to_owned(), ByteString(b"https://203.0.113.8".to_vec()));
    let mut host = Host::with(elsewhere).listed();
    let refused = host.find("m1").unwrap();
    assert!(host.renewed(&refused).await.is_none());
}

#[tokio::test]
async fn proxy_off_message_has_the_end_of_the_enrollment() {
    let mut host = Host::synced();
    let mut waits = |until: &str| {
        let mut waiting = secret("m1", "");
        waiting.data = Some([("via".to_owned(), ByteString(b"agent".to_vec()))].into());
        waiting.metadata.annotations = Some([(ENROLLMENT_UNTIL.to_owned(), until.to_owned())].into());
        host.state.secret(Event::Apply(waiting));
        let Err(error) = host.state.watch.inventory.find(&"m1".parse().unwrap()) else { panic!("it is on") };
        error.to_string()
    };
    let said = waits("2026-11-24T14:05:00Z");
    assert!(said.contains("agent enrolls, which is open until 2026-11-24T14:05:00Z"), "{said}");
    assert!(said.contains("`kubectl mc join m1 --agent --enroll` opens it again"), "{said}");
    // The enrollment was opened again.
    assert!(waits("2026-11-24T18:00:00Z").contains("2026-11-24T18:00:00Z"));
}
