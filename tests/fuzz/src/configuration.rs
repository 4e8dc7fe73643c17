//! Fuzzes the data of ConfigMap extension-apiserver-authentication, with a line `key: value` for each key. In
//! a value `\n` is a line end and `@CA@` the certificate of an authority, which signed the certificate of a
//! front proxy called `front`. That certificate is trusted only if the data allow it.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use http::HeaderName;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType, ExtendedKeyUsagePurpose,
    IsCa, KeyPair, date_time_ymd,
};
use rustls_pki_types::CertificateDer;
use serde_json::Value;
use sidecar::identity::trust::Trust;

pub fn run(input: &[u8]) {
    let Ok(input) = std::str::from_utf8(input) else { return };
    let ca = &*CA;
    let data: BTreeMap<String, String> = input
        .lines()
        .filter_map(|line| line.split_once(": "))
        .map(|(key, value)| (key.to_owned(), value.replace("\\n", "\n").replace("@CA@", &ca.pem)))
        .collect();
    let lists =
        ["username", "uid", "group"].map(|what| list(&data, &format!("requestheader-{what}-headers")));
    let prefixes = list(&data, "requestheader-extra-headers-prefix");
    let allowed = list(&data, "requestheader-allowed-names");
    let Ok(trust) = Trust::parse(&data) else { return };

    // If a value is not a list of names, the whole configuration is refused.
    let [users, uids, groups] = lists.map(|list| list.expect("a list that is none was accepted"));
    let (prefixes, allowed) = (prefixes.expect("no prefixes"), allowed.expect("no names"));
    let is_ours = |key: &str| data.get(key).is_some_and(|pem| pem.contains(&ca.pem));
    let proven = trust.prove(std::slice::from_ref(&ca.leaf));
    if proven.front_proxy {
        assert!(is_ours("requestheader-client-ca-file"), "{data:?}");
        assert!(allowed.is_empty() || allowed.contains(&"front".to_owned()), "{data:?}");
    }
    if let Some(user) = proven.user {
        assert!(is_ours("client-ca-file"), "{data:?}");
        assert_eq!((user.user.as_str(), &user.groups[0]), ("front", &"dev".to_owned()));
    }
    let Some(names) = &trust.front_proxy else { return };
    assert!(!users.is_empty() && data.contains_key("requestheader-client-ca-file"), "{data:?}");
    let lower = |names: &[String]| names.iter().map(|name| name.to_lowercase()).collect::<Vec<_>>();
    for (named, read) in [(users, &names.user), (uids, &names.uid), (groups, &names.group)] {
        assert_eq!(lower(&named), read.iter().map(HeaderName::to_string).collect::<Vec<_>>());
    }
    assert_eq!(lower(&prefixes), names.extra);
    // An empty prefix would turn every header into an identity.
    assert!(
        !names.owns(&HeaderName::from_static("a"))
            || prefixes.iter().any(|p| p.eq_ignore_ascii_case("a"))
            || named_a(names)
    );
}

fn named_a(names: &sidecar::identity::request_header::HeaderNames) -> bool {
    [&names.user, &names.uid, &names.group].iter().any(|names| names.iter().any(|name| name == "a"))
}

/// A list of strings in JSON; empty if the key is missing or empty.
fn list(data: &BTreeMap<String, String>, key: &str) -> Option<Vec<String>> {
    let Some(json) = data.get(key).filter(|json| !json.is_empty()) else { return Some(Vec::new()) };
    let Ok(Value::Array(items)) = serde_json::from_str(json) else { return None };
    items.iter().map(|item| item.as_str().map(str::to_owned)).collect()
}

struct Ca {
    pem: String,
    leaf: CertificateDer<'static>,
}

static CA: LazyLock<Ca> = LazyLock::new(|| {
    sidecar::connection::tls::install_provider();
    certified().expect("a certificate")
});

fn certified() -> Result<Ca, rcgen::Error> {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let ca = CertifiedIssuer::self_signed(params, KeyPair::generate()?)?;
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::OrganizationName, "dev");
    params.distinguished_name.push(DnType::CommonName, "front");
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    params.not_before = date_time_ymd(2020, 1, 1);
    let leaf = params.signed_by(&KeyPair::generate()?, &ca)?.der().clone();
    Ok(Ca { pem: ca.pem(), leaf })
}
