use super::*;

fn ca() -> String {
    let mut params = rcgen::CertificateParams::default();
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    params.self_signed(&rcgen::KeyPair::generate().unwrap()).unwrap().pem()
}

fn parse(entries: &[(&str, &str)]) -> Result<Connection, Error> {
    let ca = ca();
    let mut data = BTreeMap::from([
        ("server".to_owned(), ByteString(b"https://203.0.113.7:6443".to_vec())),
        ("ca.crt".to_owned(), ByteString(ca.into_bytes())),
        ("token".to_owned(), ByteString(b"s3cret\n".to_vec())),
    ]);
    for (key, value) in entries {
        match value.is_empty() {
            true => data.remove(*key),
            false => data.insert((*key).to_owned(), ByteString(value.as_bytes().to_vec())),
        };
    }
    Connection::parse(&data)
}

#[test]
fn only_the_secret_determines_a_requests_destination() {
    let connection = parse(&[("server", "https://rancher.example/k8s/clusters/c-1/")]).unwrap();
    let target = connection.target("/api/v1/namespaces/a%2Fb", Some("x=%2F;y")).unwrap();
    assert_eq!(target, "/k8s/clusters/c-1/api/v1/namespaces/a%2Fb?x=%2F;y");
    assert_eq!(connection.host(), "rancher.example");
    assert_eq!(connection.address().unwrap(), "https://rancher.example/");
    for path in ["//evil.example/api", "/@evil.example", "/https://evil.example"] {
        assert_eq!(connection.target(path, None).unwrap().authority(), None);
    }
}

#[test]
fn token_is_trimmed_and_never_shown() {
    let connection = parse(&[]).unwrap();
    let value = connection.authorization().unwrap();
    assert_eq!(value, "Bearer s3cret");
    assert!(!format!("{connection:?} {value:?}").contains("s3cret"));
}

#[test]
fn invalid_key_is_named_without_its_value() {
    for (key, value, named) in [
        ("server", "", "server"),
        ("server", "http://m1", "server"),
        ("server", "https://user:pass@m1", "server"),
        ("server", "https://m1?x=y", "server"),
        ("server", "https://m1:99999", "server"),
        ("server", "m1:6443", "server"),
        ("token", "", "token"),
        ("token", "a\u{1}b", "token"),
        ("ca.crt", "nonsense", "ca.crt"),
        ("tls-server-name", "a b", "tls-server-name"),
        ("insecure-skip-tls-verify", "yes", "insecure-skip-tls-verify"),
        ("proxy-url", "ftp://proxy", "proxy-url"),
        ("tls.crt", "nonsense", "tls.key"),
    ] {
        let error = parse(&[(key, value)]).unwrap_err().to_string();
        assert!(error.starts_with(&format!("key {named}:")), "{key}={value}: {error}");
        assert!(value.is_empty() || !error.contains(value), "{error}");
    }
}

#[test]
fn tls_server_name_overrides_the_host() {
    assert_eq!(parse(&[]).unwrap().server_name, ServerName::try_from("203.0.113.7").unwrap());
    let named = parse(&[("tls-server-name", "kubernetes.default")]).unwrap();
    assert_eq!(named.server_name, ServerName::try_from("kubernetes.default").unwrap());
    let v6 = parse(&[("server", "https://[2001:db8::1]:6443")]).unwrap();
    assert_eq!(v6.server_name, ServerName::try_from("2001:db8::1").unwrap());
}
