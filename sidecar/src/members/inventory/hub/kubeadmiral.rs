//! Converts a FederatedCluster of KubeAdmiral and its Secret into the data of a member's Secret. No IO
//! happens here.
//!
//! The Secret must have the name of the FederatedCluster, as in KubeAdmiral's documentation. Its namespace
//! has Secrets of other kinds too, so a Secret without the keys of a member is not used. The credential has
//! all rights on the member, including impersonation.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::CustomResource;
use kubectl_mc_api::ClusterName;
use serde::{Deserialize, Serialize};

use super::{INSECURE, Known, entry, value};

/// What counts of a FederatedCluster of KubeAdmiral.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[kube(group = "core.kubeadmiral.io", version = "v1alpha1", kind = "FederatedCluster", schema = "disabled")]
#[kube(derive = "Default")]
#[serde(rename_all = "camelCase", default)]
pub struct FederatedClusterSpec {
    pub api_endpoint: String,
    pub insecure: bool,
    pub use_service_account: bool,
    pub secret_ref: Reference,
}

/// A Secret by its name, in KubeAdmiral's namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Reference {
    pub name: String,
}

/// The data of a member's Secret that is equivalent to a FederatedCluster, or why that cannot be used.
pub(super) fn connection(
    namespace: &str,
    name: &ClusterName,
    spec: &FederatedClusterSpec,
    known: &impl Known,
) -> Result<BTreeMap<String, ByteString>, String> {
    let FederatedClusterSpec { api_endpoint, insecure, use_service_account, secret_ref } = spec;
    if secret_ref.name != name.as_str() {
        return Err(format!("spec.secretRef.name is {:?}, and must be {:?}", secret_ref.name, name.as_str()));
    }
    let secret = known.secret(name.as_str());
    let secret = secret.ok_or_else(|| format!("Secret {namespace}/{name} does not exist"))?;
    let required =
        |key: &str| value(secret, key).ok_or_else(|| format!("Secret {namespace}/{name} has no {key}"));
    let mut data = BTreeMap::from([entry("server", server(api_endpoint)?.as_bytes())]);
    match value(secret, AUTHORITY) {
        Some(_) if *insecure => {
            return Err(format!(
                "spec.insecure is refused, because Secret {namespace}/{name} has {AUTHORITY}"
            ));
        }
        Some(authority) => data.extend([entry("ca.crt", authority)]),
        None if *insecure => data.extend([entry(INSECURE, b"true")]),
        None => return Err(format!("Secret {namespace}/{name} has no {AUTHORITY}")),
    }
    if *use_service_account {
        data.extend([entry("token", required(TOKEN)?)]);
    } else {
        data.extend([entry("tls.crt", required(CERTIFICATE)?), entry("tls.key", required(KEY)?)]);
    }
    Ok(data)
}

/// The URL of an endpoint. KubeAdmiral accepts a host with an optional port, or a URL.
fn server(endpoint: &str) -> Result<String, String> {
    match endpoint.trim() {
        "" => Err("spec.apiEndpoint is missing".to_owned()),
        url if url.starts_with("https://") => Ok(url.to_owned()),
        url if url.contains("://") => {
            Err("spec.apiEndpoint is a URL that does not begin with https://".to_owned())
        }
        host => Ok(format!("https://{host}")),
    }
}

/// Removes unused data from a Secret, because the namespace also has KubeAdmiral's own Secrets.
pub(super) fn reduce(secret: &mut Secret) {
    if let Some(data) = &mut secret.data {
        data.retain(|key, _| [AUTHORITY, CERTIFICATE, KEY, TOKEN].contains(&key.as_str()));
    }
    secret.metadata.annotations = None;
}

const AUTHORITY: &str = "certificate-authority-data";
const CERTIFICATE: &str = "client-certificate-data";
const KEY: &str = "client-key-data";
const TOKEN: &str = "service-account-token-data";

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::outbound::upstream::connection::Connection;

    /// The Secrets of KubeAdmiral's namespace.
    struct Secrets(BTreeMap<&'static str, Secret>);

    impl Known for Secrets {
        fn has_cluster(&self, _: &str) -> bool {
            false
        }

        fn secret(&self, name: &str) -> Option<&Secret> {
            self.0.get(name)
        }
    }

    fn secret(data: &[(&str, &str)]) -> Secret {
        let data = data.iter().map(|(key, value)| entry(key, value.as_bytes())).collect();
        let mut secret = Secret { data: Some(data), ..Secret::default() };
        super::reduce(&mut secret);
        secret
    }

    fn joined() -> Secrets {
        let keys = |of: &'static str| {
            secret(&[(AUTHORITY, "CA"), (CERTIFICATE, of), (KEY, of), (TOKEN, of), ("other", "secret")])
        };
        Secrets([("m1", keys("m1's")), ("m2", keys("m2's"))].into())
    }

    /// Parses the FederatedCluster of KubeAdmiral's documentation, with some fields changed.
    fn read(changes: Value, known: &Secrets) -> Result<BTreeMap<String, String>, String> {
        let mut spec = json!({
            "apiEndpoint": "203.0.113.7:6443", "secretRef": {"name": "m1"}, "useServiceAccount": true, "taints": [],
        });
        for (key, value) in changes.as_object().unwrap() {
            spec[key] = value.clone();
        }
        let spec = serde_json::from_value(spec).unwrap();
        let data = connection("kube-admiral-system", &"m1".parse().unwrap(), &spec, known)?;
        Ok(data.into_iter().map(|(key, value)| (key, String::from_utf8(value.0).unwrap())).collect())
    }

    fn map(data: &[(&str, &str)]) -> BTreeMap<String, String> {
        data.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect()
    }

    #[test]
    fn cluster_of_the_documentation_is_parsed() {
        let server = ("server", "https://203.0.113.7:6443");
        let by_token = map(&[("ca.crt", "CA"), server, ("token", "m1's")]);
        assert_eq!(read(json!({}), &joined()).unwrap(), by_token);
        let by_certificate = map(&[("ca.crt", "CA"), server, ("tls.crt", "m1's"), ("tls.key", "m1's")]);
        assert_eq!(read(json!({"useServiceAccount": false}), &joined()).unwrap(), by_certificate);
        for (endpoint, server) in [
            ("https://m1.example/base", "https://m1.example/base"),
            ("m1.example", "https://m1.example"),
            (" [2001:db8::7]:6443\n", "https://[2001:db8::7]:6443"),
        ] {
            let data = read(json!({"apiEndpoint": endpoint}), &joined()).unwrap();
            assert_eq!(data["server"], server);
        }
    }

    #[test]
    fn invalid_field_turns_the_proxy_off() {
        for (changes, expected) in [
            (json!({"secretRef": {"name": "m2"}}), "spec.secretRef.name is \"m2\", and must be \"m1\""),
            (json!({"secretRef": {"name": ""}}), "spec.secretRef.name is \"\", and must be \"m1\""),
            (json!({"secretRef": {}}), "spec.secretRef.name is \"\", and must be \"m1\""),
            (json!({"apiEndpoint": " "}), "spec.apiEndpoint is missing"),
            (
                json!({"apiEndpoint": "http://203.0.113.7"}),
                "spec.apiEndpoint is a URL that does not begin with https://",
            ),
            (
                json!({"apiEndpoint": "HTTP://203.0.113.7"}),
                "spec.apiEndpoint is a URL that does not begin with https://",
            ),
            (
                json!({"insecure": true}),
                "spec.insecure is refused, because Secret kube-admiral-system/m1 has certificate-authority-data",
            ),
        ] {
            assert_eq!(read(changes.clone(), &joined()).unwrap_err(), expected, "{changes}");
        }
    }

    #[test]
    fn missing_key_turns_the_proxy_off() {
        for (keys, service_account, expected) in [
            (&[][..], true, "has no certificate-authority-data"),
            (&[(AUTHORITY, "CA"), (TOKEN, " ")], true, "has no service-account-token-data"),
            (&[(AUTHORITY, "CA"), (TOKEN, "t")], false, "has no client-certificate-data"),
            (&[(AUTHORITY, "CA"), (CERTIFICATE, "c")], false, "has no client-key-data"),
        ] {
            let known = Secrets([("m1", secret(keys))].into());
            let why = read(json!({"useServiceAccount": service_account}), &known).unwrap_err();
            assert_eq!(why, format!("Secret kube-admiral-system/m1 {expected}"));
        }
        let none = Secrets(BTreeMap::new());
        let why = read(json!({}), &none).unwrap_err();
        assert_eq!(why, "Secret kube-admiral-system/m1 does not exist");
    }

    #[test]
    fn server_without_a_known_ca_may_be_unverified() {
        let known = Secrets([("m1", secret(&[(TOKEN, "t")]))].into());
        let read = read(json!({"insecure": true}), &known).unwrap();
        assert_eq!(read, map(&[(INSECURE, "true"), ("server", "https://203.0.113.7:6443"), ("token", "t")]));
    }

    #[test]
    fn unused_keys_of_a_secret_are_dropped() {
        let Secrets(secrets) = joined();
        let keys: Vec<_> = secrets["m1"].data.as_ref().unwrap().keys().collect();
        assert_eq!(keys, [AUTHORITY, CERTIFICATE, KEY, TOKEN]);
    }

    /// An endpoint cannot add a user, a query or another credential to the connection.
    #[test]
    fn endpoint_is_parsed_as_strictly_as_an_own_server() {
        crate::connection::tls::install_provider();
        let known = Secrets([("m1", secret(&[(TOKEN, "t")]))].into());
        let name: ClusterName = "m1".parse().unwrap();
        for (endpoint, is_accepted) in [
            ("m1.example:6443", true),
            ("user@m1.example", false),
            ("m1.example?x=y", false),
            ("m1.example#x", false),
            ("m1.example:x", false),
            ("a b", false),
        ] {
            let spec = FederatedClusterSpec {
                api_endpoint: endpoint.to_owned(),
                insecure: true,
                use_service_account: true,
                secret_ref: Reference { name: "m1".to_owned() },
            };
            let data = connection("kube-admiral-system", &name, &spec, &known).unwrap();
            assert_eq!(Connection::parse(&data).is_ok(), is_accepted, "{endpoint}");
        }
    }
}
