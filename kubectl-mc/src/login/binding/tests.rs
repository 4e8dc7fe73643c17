use rcgen::{CertificateParams, KeyPair};
use serde_json::{Value, json};

use super::*;

fn certificate() -> String {
    CertificateParams::new(Vec::new()).unwrap().self_signed(&KeyPair::generate().unwrap()).unwrap().pem()
}

/// A `spec.cluster` for this server, with additional fields.
fn cluster(server: &str, more: Value) -> Value {
    let mut cluster = json!({"server": server});
    cluster.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    cluster
}

fn requested(login: &str, server: &str) -> Result<Binding, Failure> {
    Binding::requested("hub", login, &cluster(server, json!({})))
}

#[test]
fn members_below_the_host_share_its_binding() {
    let host = requested("https://h:6443", "https://h:6443").unwrap();
    let member = "https://h:6443/apis/proxy.kubectl-mc.dev/v1alpha1/clusters/m1/proxy";
    assert_eq!(requested("https://h:6443", member).unwrap().key(), host.key());
    assert_eq!(requested("https://H:6443/", "https://h:6443/").unwrap().key(), host.key());
    let usual = requested("https://h", "https://h:443/api").unwrap();
    assert_eq!(usual.key(), requested("https://h:443", "https://h").unwrap().key());
    let below = requested("https://h/k8s/c1", "https://h/k8s/c1/apis").unwrap();
    assert_eq!(below.server(), "https://h/k8s/c1");
    assert_ne!(below.key(), requested("https://h/k8s/c2", "https://h/k8s/c2").unwrap().key());
}

#[test]
fn other_servers_get_nothing() {
    for (login, asked) in [
        ("https://h:6443", "https://evil:6443"),
        ("https://h:6443", "https://h:6444"),
        ("https://h:6443", "https://h"),
        ("https://h:6443", "https://h.evil:6443"),
        ("https://h:6443", "https://h:64430"),
        ("https://h/k8s/c1", "https://h/k8s/c10"),
        ("https://h/k8s/c1", "https://h/k8s"),
        ("https://h/k8s/c1", "https://h/other"),
    ] {
        let error = requested(login, asked).unwrap_err();
        assert!(error.to_string().starts_with("the credential is for "), "{asked}: {error}");
    }
}

#[test]
fn ambiguous_addresses_are_refused() {
    for asked in [
        "https://h/k8s/c1/../c2",
        "https://h/k8s/c1/./x",
        "https://h/k8s/c1/%2e%2e/c2",
        "https://h/k8s/c1//x",
        "https://h@evil/k8s/c1",
        "https://evil@h/k8s/c1",
        "https://h/k8s/c1?x",
        "h/k8s/c1",
        "",
    ] {
        assert!(requested("https://h/k8s/c1", asked).is_err(), "{asked}");
    }
    let error = requested("http://h", "http://h").unwrap_err();
    assert!(error.to_string().starts_with("http://h is reached without TLS"), "{error}");
    assert_eq!(requested("https://h", "http://h").unwrap_err(), error);
}

#[test]
fn authority_and_name_are_part_of_the_binding() {
    let [one, other] = [certificate(), certificate()];
    let with = |pem: &str, more: Value| {
        let mut cluster = cluster("https://h", more);
        cluster["certificate-authority-data"] = STANDARD.encode(pem).into();
        Binding::requested("hub", "https://h", &cluster).map(|binding| binding.key())
    };
    let key = with(&one, json!({})).unwrap();
    assert_eq!(with(&format!("# a comment\n{one}\n"), json!({})).unwrap(), key);
    assert_eq!(with(&format!("{one}{one}"), json!({})).unwrap(), key);
    assert_eq!(with(&one, json!({"server": "h"})).unwrap(), key, "https, because there is an authority");
    assert!(requested("https://h", "h").is_err(), "kubectl would use http");
    assert_ne!(with(&other, json!({})).unwrap(), key);
    assert_ne!(with(&format!("{one}{other}"), json!({})).unwrap(), key, "another authority beside it");
    assert_eq!(
        with(&format!("{one}{other}"), json!({})).unwrap(),
        with(&format!("{other}{one}"), json!({})).unwrap()
    );
    assert_ne!(requested("https://h", "https://h").unwrap().key(), key, "those of the system");
    assert_ne!(with(&one, json!({"tls-server-name": "evil"})).unwrap(), key);
    let error = with(&one, json!({"insecure-skip-tls-verify": true})).unwrap_err();
    assert!(error.to_string().contains("is not verified"), "{error}");
    assert!(with("no PEM", json!({})).unwrap_err().to_string().ends_with("it is not PEM"));
}

#[test]
fn requests_without_a_server_get_nothing() {
    for cluster in [Value::Null, json!({}), json!({"server": ""}), json!("https://h")] {
        assert_eq!(Binding::requested("hub", "https://h", &cluster), Err(no_server()), "{cluster}");
    }
}

#[test]
fn two_contexts_of_one_host_have_separate_logins() {
    let key =
        |name: &str| Binding::requested(name, "https://h", &cluster("https://h", json!({}))).unwrap().key();
    assert_ne!(key("hub"), key("hub-admin"));
}
