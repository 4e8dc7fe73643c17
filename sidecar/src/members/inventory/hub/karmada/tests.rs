use std::collections::BTreeSet;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use kubectl_mc_api::Origin;
use serde_json::{Value, json};

use super::*;
use crate::outbound::upstream::connection::Connection;

#[derive(Default)]
struct Inventory {
    clusters: BTreeSet<String>,
    secrets: BTreeMap<String, Secret>,
}

impl Known for Inventory {
    fn has_cluster(&self, name: &str) -> bool {
        self.clusters.contains(name)
    }

    fn secret(&self, name: &str) -> Option<&Secret> {
        self.secrets.get(name)
    }
}

fn secret(name: &str, data: &[(&str, &str)]) -> (String, Secret) {
    let mut secret = Secret::default();
    secret.metadata.name = Some(name.to_owned());
    secret.data = Some(data.iter().map(|(key, value)| entry(key, value.as_bytes())).collect());
    reduce(&mut secret, KarmadaFlags { member_rbac: true, ..KarmadaFlags::default() });
    (name.to_owned(), secret)
}

/// The objects that `karmadactl join` creates for member m1 and for another member.
fn joined() -> Inventory {
    Inventory {
        clusters: ["m1", "m2"].map(str::to_owned).into(),
        secrets: [
            secret("m1", &[("caBundle", "CA"), ("token", "everything")]),
            secret("m1-impersonator", &[("token", "m1's")]),
            secret("m2", &[("caBundle", "CA"), ("token", "everything")]),
            secret("m2-impersonator", &[("token", "m2's")]),
        ]
        .into(),
    }
}

/// A Cluster as `karmadactl join` creates it, with some fields changed; null removes a field.
fn spec(changes: Value) -> ClusterSpec {
    let mut spec = json!({
        "id": "6f4c", "syncMode": "Push", "apiEndpoint": "https://203.0.113.7:6443",
        "secretRef": {"namespace": "karmada-cluster", "name": "m1"},
        "impersonatorSecretRef": {"namespace": "karmada-cluster", "name": "m1-impersonator"},
    });
    for (key, value) in changes.as_object().unwrap() {
        match value {
            Value::Null => _ = spec.as_object_mut().unwrap().remove(key),
            value => spec[key] = value.clone(),
        }
    }
    serde_json::from_value(spec).unwrap()
}

fn read(changes: Value, known: &Inventory) -> Result<BTreeMap<String, String>, String> {
    read_by(false, changes, known)
}

fn hub(karmada: KarmadaFlags) -> Hub {
    Hub { origin: Origin::Karmada, namespace: "karmada-cluster".to_owned(), karmada }
}

fn read_by(allow_refs: bool, changes: Value, known: &Inventory) -> Result<BTreeMap<String, String>, String> {
    let karmada = KarmadaFlags { allow_refs, ..KarmadaFlags::default() };
    let data = connection(&hub(karmada), &"m1".parse().unwrap(), &spec(changes), known)?;
    Ok(data.into_iter().map(|(key, value)| (key, String::from_utf8(value.0).unwrap())).collect())
}

#[test]
fn cluster_of_karmadactl_join_is_parsed() {
    let expected = [("ca.crt", "CA"), ("server", "https://203.0.113.7:6443"), ("token", "m1's")];
    let expected = expected.map(|(key, value)| (key.to_owned(), value.to_owned()));
    assert_eq!(read(json!({}), &joined()).unwrap(), expected.into());
    let proxied = read(json!({"proxyURL": "socks5://203.0.113.1:1080"}), &joined()).unwrap();
    assert_eq!(proxied["proxy-url"], "socks5://203.0.113.1:1080");
}

#[test]
fn cluster_without_a_ca_is_verified_by_the_system_roots() {
    let mut known = joined();
    known.secrets.remove("m1");
    let read = |changes| read(changes, &known);
    assert!(!read(json!({"secretRef": null})).unwrap().contains_key("ca.crt"));
    let insecure = json!({"secretRef": null, "insecureSkipTLSVerification": true});
    assert_eq!(read(insecure).unwrap()[INSECURE], "true");
}

#[test]
fn invalid_field_turns_the_proxy_off() {
    let reference = |namespace: &str, name: &str| json!({"namespace": namespace, "name": name});
    let other = [("karmada-cluster", "m2"), ("kube-system", "m1"), ("", "m1"), ("karmada-cluster", "")];
    for (namespace, name) in other {
        let why = read(json!({"secretRef": reference(namespace, name)}), &joined()).unwrap_err();
        assert_eq!(why, format!("spec.secretRef is {namespace}/{name}, and must be karmada-cluster/m1"));
    }
    for (namespace, name) in [("karmada-cluster", "m2-impersonator"), ("x", "m1-impersonator")] {
        let why = read(json!({"impersonatorSecretRef": reference(namespace, name)}), &joined()).unwrap_err();
        assert!(why.starts_with(&format!("spec.impersonatorSecretRef is {namespace}/{name}")), "{why}");
    }
    for (changes, expected) in [
        (json!({"impersonatorSecretRef": null}), "spec.impersonatorSecretRef is missing"),
        (json!({"apiEndpoint": null}), "spec.apiEndpoint is missing"),
        (json!({"apiEndpoint": "http://203.0.113.7"}), "spec.apiEndpoint must begin with https://"),
        (json!({"apiEndpoint": "203.0.113.7:6443"}), "spec.apiEndpoint must begin with https://"),
        (json!({"proxyHeader": {"Proxy-Authorization": "x"}}), "spec.proxyHeader is not supported"),
        (
            json!({"insecureSkipTLSVerification": true}),
            "spec.insecureSkipTLSVerification is refused, because Secret karmada-cluster/m1 has a caBundle",
        ),
        // The Secret applies although the Cluster does not refer to it.
        (
            json!({"insecureSkipTLSVerification": true, "secretRef": null}),
            "spec.insecureSkipTLSVerification is refused, because Secret karmada-cluster/m1 has a caBundle",
        ),
    ] {
        assert_eq!(read(changes.clone(), &joined()).unwrap_err(), expected, "{changes}");
    }
}

/// `--inventory-allow-refs` lifts only the binding by name, within the namespace.
#[test]
fn allowed_references_reach_secrets_of_the_namespace_only() {
    let of_m2 = json!({
        "secretRef": {"namespace": "karmada-cluster", "name": "m2"},
        "impersonatorSecretRef": {"namespace": "karmada-cluster", "name": "m2-impersonator"},
    });
    assert_eq!(read_by(true, of_m2.clone(), &joined()).unwrap()["token"], "m2's");
    assert!(read_by(false, of_m2.clone(), &joined()).is_err());
    let name: ClusterName = "m1".parse().unwrap();
    assert_eq!(
        unbound(&name, &spec(of_m2)).unwrap(),
        "spec.secretRef is karmada-cluster/m2, spec.impersonatorSecretRef is karmada-cluster/m2-impersonator"
    );
    assert_eq!(unbound(&name, &spec(json!({}))), None);
    for (namespace, name) in [("kube-system", "m2"), ("", "m2"), ("karmada-cluster", "")] {
        let changes = json!({"secretRef": {"namespace": namespace, "name": name}});
        let why = read_by(true, changes, &joined()).unwrap_err();
        assert_eq!(
            why,
            format!(
                "spec.secretRef is {namespace}/{name}, and must be a Secret of namespace karmada-cluster"
            )
        );
    }
    for changes in [
        json!({"apiEndpoint": "http://203.0.113.7"}),
        json!({"insecureSkipTLSVerification": true}),
        json!({"proxyHeader": {"x": "y"}}),
    ] {
        assert_eq!(read_by(true, changes.clone(), &joined()), read(changes, &joined()));
    }
}

#[test]
fn missing_secret_turns_the_proxy_off() {
    for (name, expected) in [
        ("m1", "Secret karmada-cluster/m1 does not exist"),
        ("m1-impersonator", "Secret karmada-cluster/m1-impersonator does not exist"),
    ] {
        let mut known = joined();
        known.secrets.remove(name);
        assert_eq!(read(json!({}), &known).unwrap_err(), expected);
    }
    for (name, expected) in [
        ("m1", "Secret karmada-cluster/m1 has no caBundle"),
        ("m1-impersonator", "Secret karmada-cluster/m1-impersonator has no token"),
    ] {
        let mut known = joined();
        known.secrets.extend([secret(name, &[("token", " \n"), ("caBundle", "")])]);
        assert_eq!(read(json!({}), &known).unwrap_err(), expected);
    }
}

/// Secret m1-impersonator would be the credential of Cluster m1-impersonator, with full rights.
#[test]
fn cluster_named_like_a_secret_of_another_is_refused() {
    let mut known = joined();
    known.clusters.insert("m1-impersonator".to_owned());
    assert!(read(json!({}), &known).unwrap_err().contains("Cluster m1-impersonator"));
    let name: ClusterName = "m1-impersonator".parse().unwrap();
    let spec = spec(json!({"secretRef": {"namespace": "karmada-cluster", "name": "m1-impersonator"}}));
    let why = connection(&hub(KarmadaFlags::default()), &name, &spec, &joined()).unwrap_err();
    assert!(why.contains("ends in -impersonator"), "{why}");
}

#[test]
fn token_with_all_rights_is_kept_only_if_flags_permit_its_use() {
    let [refs, rbac] = [(true, false), (false, true)]
        .map(|(allow_refs, member_rbac)| KarmadaFlags { allow_refs, member_rbac });
    for (karmada, kept) in [(KarmadaFlags::default(), 0), (refs, 2), (rbac, 2)] {
        let mut secrets = joined().secrets;
        secrets.values_mut().for_each(|secret| reduce(secret, karmada));
        assert!(value(&secrets["m1-impersonator"], "token").is_some());
        let all_rights = ["m1", "m2"].into_iter().filter(|name| value(&secrets[*name], "token").is_some());
        assert_eq!(all_rights.count(), kept, "{karmada:?}");
    }
}

/// The data of the account that may write rights on member m1.
fn managed(
    karmada: KarmadaFlags,
    changes: Value,
    known: &Inventory,
) -> Result<BTreeMap<String, ByteString>, String> {
    let (hub, name, spec) = (hub(karmada), "m1".parse().unwrap(), spec(changes));
    let connection = connection(&hub, &name, &spec, known).unwrap();
    account(&hub, &name, &spec, &connection, known)
}

#[test]
fn account_of_karmada_has_the_connection_of_the_member() {
    let data = managed(KarmadaFlags::default(), json!({"proxyURL": "socks5://203.0.113.1:1080"}), &joined())
        .unwrap();
    let expected = [
        ("ca.crt", "CA"),
        ("proxy-url", "socks5://203.0.113.1:1080"),
        ("server", "https://203.0.113.7:6443"),
        ("token", "everything"),
    ];
    assert_eq!(data, expected.map(|(key, value)| entry(key, value.as_bytes())).into());
}

/// A writer of Clusters must not choose the server that gets a token with all rights.
#[test]
fn unbound_or_unverified_account_writes_no_rights() {
    let refs = KarmadaFlags { allow_refs: true, ..KarmadaFlags::default() };
    let of_m2 = json!({"secretRef": {"namespace": "karmada-cluster", "name": "m2"}});
    let why = managed(refs, of_m2, &joined()).unwrap_err();
    assert_eq!(why, "spec.secretRef is karmada-cluster/m2");
    let why = managed(KarmadaFlags::default(), json!({"secretRef": null}), &joined()).unwrap_err();
    assert_eq!(why, "spec.secretRef is missing");

    let mut known = joined();
    known.secrets.extend([secret("m1", &[("token", "everything")])]);
    let insecure = json!({"insecureSkipTLSVerification": true});
    let why = managed(KarmadaFlags::default(), insecure, &known).unwrap_err();
    assert_eq!(why, "spec.insecureSkipTLSVerification is true");
    known.secrets.extend([secret("m1", &[("caBundle", "CA")])]);
    let why = managed(KarmadaFlags::default(), json!({}), &known).unwrap_err();
    assert_eq!(why, "Secret karmada-cluster/m1 has no token");

    // The rights would be bound to another account than the one in use.
    for (subject, refused) in
        [("other:karmada-impersonator", true), ("karmada-cluster:karmada-impersonator", false)]
    {
        let mut known = joined();
        let claims = json!({"sub": format!("system:serviceaccount:{subject}")}).to_string();
        let token = format!("e30.{}.s", URL_SAFE_NO_PAD.encode(claims));
        known.secrets.extend([secret("m1-impersonator", &[("token", &token)])]);
        let found = managed(KarmadaFlags::default(), json!({}), &known);
        assert_eq!(found.is_err_and(|why| why.contains("is of account other/")), refused, "{subject}");
    }
}

#[test]
fn parsed_cluster_is_a_valid_connection() {
    crate::connection::tls::install_provider();
    let mut known = joined();
    known.secrets.remove("m1");
    let spec = spec(json!({"secretRef": null, "proxyURL": "http://203.0.113.1:3128"}));
    let data = connection(&hub(KarmadaFlags::default()), &"m1".parse().unwrap(), &spec, &known).unwrap();
    let connection = Connection::parse(&data).unwrap();
    assert_eq!(connection.authorization().unwrap(), "Bearer m1's");
}
