use super::*;

#[test]
fn errors_name_the_server_instead_of_a_member() {
    let cluster = || NAME.parse().unwrap();
    for (error, expected) in [
        (
            upstream::Error::Unreachable { cluster: cluster(), reason: "connection refused".to_owned() },
            "karmada-aggregated-apiserver is unreachable: connection refused",
        ),
        (
            upstream::Error::Redirect { cluster: cluster(), status: StatusCode::FOUND },
            "karmada-aggregated-apiserver sent an invalid response: it redirects (302 Found)",
        ),
    ] {
        assert_eq!(Error::from(error).to_string(), expected);
    }
    let untrusted = Error::from(upstream::Error::Credential { cluster: cluster() }).to_string();
    assert!(untrusted.contains("--requestheader-client-ca-file"), "{untrusted}");
}

#[test]
fn unreadable_file_is_named_by_its_flag() {
    let config = Config {
        server: "https://aa.example".parse().unwrap(),
        ca: "/does/not/exist".into(),
        certificate: "/does/not/exist".into(),
        key: "/does/not/exist".into(),
        namespace: "karmada-cluster".to_owned(),
    };
    let error = config.read().unwrap_err().to_string();
    assert!(error.starts_with("--karmada-server-ca-file: cannot read /does/not/exist: "), "{error}");
}
