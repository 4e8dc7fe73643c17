//! Tests members of a hub's inventory together with those of kubectl-mc's own.

use kubectl_mc_api::member_cluster::{Forwarded, Forwarding};
use kubectl_mc_api::names::INVENTORY;
use serde_json::json;

use super::*;
use crate::members::inventory::hub::karmada::{KarmadaCluster, Reference};
use crate::members::inventory::hub::kubeadmiral::FederatedCluster;
use crate::members::inventory::hub::{Hub, KarmadaFlags};

/// A host with member m1 of the own inventory, whose lists are read; Karmada's are not.
fn with_karmada(order: &[Origin]) -> Host {
    with_flags(order, KarmadaFlags::default())
}

fn with_flags(order: &[Origin], karmada: KarmadaFlags) -> Host {
    let mut host = Host::new();
    host.state.watch.inventories.order = order.into();
    let hub = Hub { origin: Origin::Karmada, namespace: "karmada-cluster".to_owned(), karmada };
    host.state.hub = Some(FromHub::new(hub));
    host.listed()
}

const BOTH: [Origin; 2] = [Origin::MemberCluster, Origin::Karmada];

impl Host {
    /// Reads the hub's lists, which are empty.
    fn hub_listed(mut self) -> Self {
        for event in [Event::Init, Event::InitDone] {
            self.state.hub(|hub| hub.cluster(event));
        }
        for event in [Event::Init, Event::InitDone] {
            self.state.hub(|hub| hub.secret(event));
        }
        self
    }

    fn cluster(&mut self, cluster: KarmadaCluster) {
        self.state.hub(|hub| hub.cluster(Event::Apply(cluster.into())));
    }

    fn token(&mut self, name: &str, token: &str) {
        let mut secret = secret(name, token);
        secret.metadata.name = Some(format!("{name}-impersonator"));
        self.state.hub.as_ref().unwrap().reduce(&mut secret);
        self.state.hub(|hub| hub.secret(Event::Apply(secret)));
    }

    /// Secret NAME with the account that Karmada itself uses.
    fn all_rights(&mut self, name: &str, token: &str) {
        let mut secret = secret(name, token);
        secret.metadata.name = Some(name.to_owned());
        secret.data.as_mut().unwrap().insert("caBundle".to_owned(), ByteString(authority().into_bytes()));
        self.state.hub.as_ref().unwrap().reduce(&mut secret);
        self.state.hub(|hub| hub.secret(Event::Apply(secret)));
    }

    fn registered(&self, name: &str) -> Registered {
        self.state.watch.fleet.borrow()[&name.parse::<ClusterName>().unwrap()].clone()
    }

    /// A Cluster of Karmada with its Secret and its MemberCluster.
    fn joined(mut self, name: &str) -> Self {
        self.cluster(cluster(name, "u-1", "https://203.0.113.8"));
        self.token(name, "first");
        self.state.member(Event::Apply(mirrored(name)));
        self
    }

    fn in_two(&self, name: &str) -> bool {
        self.state.watch.fleet.borrow()[&name.parse::<ClusterName>().unwrap()].in_two
    }
}

fn cluster(name: &str, uid: &str, server: &str) -> KarmadaCluster {
    let cluster = json!({
        "apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster", "metadata": {"name": name, "uid": uid},
        "spec": {
            "syncMode": "Pull", "apiEndpoint": server,
            "impersonatorSecretRef": {"namespace": "karmada-cluster", "name": format!("{name}-impersonator")},
        },
        "status": {"kubernetesVersion": "v1.36.3"},
    });
    serde_json::from_value(cluster).unwrap()
}

fn mirrored(name: &str) -> MemberCluster {
    let mut member = member(name);
    member.metadata.labels = Some([(INVENTORY.to_owned(), "karmada".to_owned())].into());
    member
}

#[tokio::test]
async fn karmada_member_is_served_beside_own_members() {
    let host = with_karmada(&BOTH).hub_listed().joined("k1");
    let k1 = host.find("k1").unwrap();
    assert_eq!(k1.origin, Origin::Karmada);
    assert_eq!((k1.forwarded.uid, k1.forwarded.extra), (Forwarding::Omit, Forwarding::Omit));
    assert_eq!(k1.upstream.connection().authorization().unwrap(), "Bearer first");
    assert_eq!(host.find("m1").unwrap().origin, Origin::MemberCluster);
    let known = host.state.watch.hub_clusters.borrow().clone().unwrap();
    assert_eq!(known.labels.keys().map(ClusterName::as_str).collect::<Vec<_>>(), ["k1"]);
}

/// uid and extra are forwarded once the member's rules allow them, even while a later sync fails.
#[tokio::test]
async fn karmada_member_with_written_rights_gets_uid_and_extra() {
    let flags = KarmadaFlags { member_rbac: true, ..KarmadaFlags::default() };
    let mut host = with_flags(&BOTH, flags).hub_listed().joined("k1");
    assert!(!host.find("k1").unwrap().managed, "the Cluster refers to no account that could write rights");
    let why = host.registered("k1").hub_account.unwrap().unwrap_err();
    assert_eq!(&*why, "spec.secretRef is missing");

    host.cluster(push("k1"));
    host.all_rights("k1", "everything");
    let k1 = host.find("k1").unwrap();
    assert!(k1.managed && host.registered("k1").manager.is_none());
    assert_eq!(k1.forwarded.uid, Forwarding::Omit, "the rights are not written yet");
    let account = host.registered("k1").hub_account.unwrap().unwrap();
    assert_eq!(account.data.as_ref().unwrap()["token"].0, b"everything");
    // The same Secret as long as its content is the same: a sync is not due.
    host.token("k1", "second");
    assert!(Arc::ptr_eq(&account, &host.registered("k1").hub_account.unwrap().unwrap()));

    for (synced, expected) in
        [("Unknown", Forwarding::Omit), ("True", Forwarding::Forward), ("False", Forwarding::Forward)]
    {
        let mut member = mirrored("k1");
        let condition = json!({
            "type": "AuthSynced", "status": synced, "reason": "r", "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        });
        member.status = serde_json::from_value(json!({"conditions": [condition]})).unwrap();
        host.state.member(Event::Apply(member));
        let Forwarded { uid, extra, .. } = host.find("k1").unwrap().forwarded;
        assert_eq!((uid, extra), (expected, expected), "AuthSynced is {synced}");
    }
    host.cluster(cluster("k1", "u-1", "https://203.0.113.8"));
    assert_eq!(host.find("k1").unwrap().forwarded.uid, Forwarding::Omit, "the account is not bound any more");
}

/// A certificate authority (PEM).
fn authority() -> String {
    let key = rcgen::KeyPair::generate().unwrap();
    rcgen::CertificateParams::default().self_signed(&key).unwrap().pem()
}

/// A Cluster as `karmadactl join` makes it.
fn push(name: &str) -> KarmadaCluster {
    let mut cluster = cluster(name, "u-1", "https://203.0.113.8");
    cluster.spec.secret_ref =
        Some(Reference { namespace: "karmada-cluster".to_owned(), name: name.to_owned() });
    cluster
}

#[tokio::test]
async fn karmada_grant_finds_karmada_members_only() {
    let host = with_karmada(&BOTH).hub_listed().joined("k1");
    let find = |name: &str| {
        host.state.watch.inventory.find_in(Origin::Karmada, Some(Origin::Karmada), &name.parse().unwrap())
    };
    assert!(find("k1").is_ok());
    assert!(matches!(find("m1"), Err(Error::Unknown(..))));
}

#[tokio::test]
async fn karmada_changes_take_effect_immediately() {
    let mut host = with_karmada(&BOTH).hub_listed().joined("k1");
    let first = host.find("k1").unwrap();
    // Karmada writes the status often.
    host.cluster(cluster("k1", "u-1", "https://203.0.113.8"));
    assert!(Arc::ptr_eq(&first.upstream, &host.find("k1").unwrap().upstream));
    host.token("k1", "second");
    let rotated = host.find("k1").unwrap();
    assert_eq!(rotated.upstream.connection().authorization().unwrap(), "Bearer second");
    assert!(!first.gone.is_cancelled(), "a new token ends nothing");
    host.cluster(cluster("k1", "u-1", "https://203.0.113.9"));
    assert!(rotated.gone.is_cancelled(), "another server ends what is open");
    let moved = host.find("k1").unwrap();
    host.cluster(cluster("k1", "u-2", "https://203.0.113.9"));
    assert!(moved.gone.is_cancelled(), "another Cluster of the same name ends what is open");
    let last = host.find("k1").unwrap();
    let gone = cluster("k1", "u-2", "https://203.0.113.9");
    host.state.hub(|hub| hub.cluster(Event::Delete(gone.into())));
    assert!(last.gone.is_cancelled());
    assert!(host.find("k1").unwrap_err().to_string().ends_with("Cluster k1 of Karmada does not exist"));
}

#[tokio::test]
async fn invalid_cluster_turns_the_proxy_off_with_a_reason() {
    let mut host = with_karmada(&BOTH).hub_listed().joined("k1");
    let before = host.find("k1").unwrap();
    host.cluster(cluster("k1", "u-1", "http://203.0.113.8"));
    assert!(before.gone.is_cancelled());
    let error = host.find("k1").unwrap_err().to_string();
    assert_eq!(
        error,
        "the proxy to member k1 is off: Cluster k1 of Karmada cannot be used: spec.apiEndpoint must begin with https://"
    );
}

#[tokio::test]
async fn name_in_two_inventories_is_served_from_the_first() {
    for order in [BOTH, [Origin::Karmada, Origin::MemberCluster]] {
        let mut host = with_karmada(&order).hub_listed().joined("k1");
        assert!(!host.in_two("m1") && !host.in_two("k1"));
        host.cluster(cluster("m1", "u-1", "https://203.0.113.8"));
        host.token("m1", "karmada's");
        assert_eq!(host.find("m1").unwrap().origin, order[0]);
        assert!(host.in_two("m1"));
        host.state.hub(|hub| hub.cluster(Event::Delete(cluster("m1", "u-1", "").into())));
        assert_eq!(host.find("m1").unwrap().origin, Origin::MemberCluster);
        assert!(!host.in_two("m1"));
    }
}

#[tokio::test]
async fn only_karmada_members_wait_for_the_karmada_inventory() {
    let mut host = with_karmada(&BOTH);
    host.state.member(Event::Apply(mirrored("k1")));
    assert!(host.find("m1").is_ok());
    assert!(host.find("k1").unwrap_err().to_string().contains("not read yet"));
    assert!(host.state.watch.hub_clusters.borrow().is_none(), "nothing is deleted for what is not read");
    assert!(!host.readiness.is_ready());
    host.state.waited_for_hub();
    assert!(host.readiness.is_ready());
    assert!(with_karmada(&BOTH).hub_listed().readiness.is_ready());
}

#[tokio::test]
async fn member_of_a_disabled_inventory_is_off() {
    let mut host = Host::synced();
    host.state.member(Event::Apply(mirrored("k1")));
    let error = host.find("k1").unwrap_err().to_string();
    assert!(error.contains("the sidecar's flag --inventory does not have karmada"), "{error}");
    let host = with_karmada(&[Origin::Karmada]).hub_listed();
    let error = host.find("m1").unwrap_err().to_string();
    assert!(error.contains("--inventory does not have membercluster"), "{error}");
}

/// The right to write MemberClusters does not allow choosing a server or a credential.
#[tokio::test]
async fn inventory_label_alone_gives_no_connection() {
    let mut host = with_karmada(&BOTH).hub_listed();
    host.state.member(Event::Apply(mirrored("m1")));
    assert!(host.find("m1").unwrap_err().to_string().contains("Cluster m1 of Karmada does not exist"));
}

/// A host with member m1 of the own inventory and FederatedCluster f1 of KubeAdmiral.
fn with_kubeadmiral(endpoint: &str) -> Host {
    let mut host = Host::new();
    host.state.watch.inventories.order = Arc::from([Origin::MemberCluster, Origin::KubeAdmiral]);
    let hub = Hub {
        origin: Origin::KubeAdmiral,
        namespace: "kube-admiral-system".to_owned(),
        karmada: KarmadaFlags::default(),
    };
    host.state.hub = Some(FromHub::new(hub));
    let mut host = host.listed().hub_listed();
    host.federated("u-1", endpoint);
    host.admirals("first");
    let mut mirrored = member("f1");
    mirrored.metadata.labels = Some([(INVENTORY.to_owned(), "kubeadmiral".to_owned())].into());
    host.state.member(Event::Apply(mirrored));
    host
}

impl Host {
    fn federated(&mut self, uid: &str, endpoint: &str) {
        let cluster = json!({
            "apiVersion": "core.kubeadmiral.io/v1alpha1", "kind": "FederatedCluster",
            "metadata": {"name": "f1", "uid": uid, "labels": {"env": "prod"}},
            "spec": {
                "apiEndpoint": endpoint, "insecure": true, "useServiceAccount": true, "secretRef": {"name": "f1"},
            },
        });
        let cluster: FederatedCluster = serde_json::from_value(cluster).unwrap();
        self.state.hub(|hub| hub.cluster(Event::Apply(cluster.into())));
    }

    fn admirals(&mut self, token: &str) {
        let mut secret = Secret::default();
        secret.metadata.name = Some("f1".to_owned());
        let data = [("service-account-token-data".to_owned(), ByteString(token.as_bytes().to_vec()))];
        secret.data = Some(data.into());
        self.state.hub.as_ref().unwrap().reduce(&mut secret);
        self.state.hub(|hub| hub.secret(Event::Apply(secret)));
    }
}

#[tokio::test]
async fn kubeadmiral_member_is_served_with_uid_and_extra() {
    let host = with_kubeadmiral("203.0.113.8:6443");
    let f1 = host.find("f1").unwrap();
    assert_eq!(f1.origin, Origin::KubeAdmiral);
    assert_eq!((f1.forwarded.uid, f1.forwarded.extra), (Forwarding::Forward, Forwarding::Forward));
    assert_eq!(f1.upstream.connection().authorization().unwrap(), "Bearer first");
    let find = |name: &str| {
        host.state.watch.inventory.find_in(
            Origin::KubeAdmiral,
            Some(Origin::KubeAdmiral),
            &name.parse().unwrap(),
        )
    };
    assert!(find("f1").is_ok());
    assert!(matches!(find("m1"), Err(Error::Unknown(..))));
    let known = host.state.watch.hub_clusters.borrow().clone().unwrap();
    assert_eq!((known.origin, known.labels.len()), (Origin::KubeAdmiral, 1));
}

#[tokio::test]
async fn kubeadmiral_changes_take_effect_immediately() {
    let mut host = with_kubeadmiral("203.0.113.8");
    let first = host.find("f1").unwrap();
    host.admirals("second");
    let rotated = host.find("f1").unwrap();
    assert_eq!(rotated.upstream.connection().authorization().unwrap(), "Bearer second");
    assert!(!first.gone.is_cancelled(), "a new token ends nothing");
    host.federated("u-1", "203.0.113.9");
    assert!(rotated.gone.is_cancelled(), "another server ends what is open");
    let moved = host.find("f1").unwrap();
    host.federated("u-1", "http://203.0.113.9");
    assert!(moved.gone.is_cancelled());
    let error = host.find("f1").unwrap_err().to_string();
    assert!(error.contains("FederatedCluster f1 of KubeAdmiral cannot be used: spec.apiEndpoint"), "{error}");
}
