use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair};
use tempfile::TempDir;

use super::*;

/// A folder with `a.crt`, `a.key`, `b.crt`, `b.key` and invalid files.
fn files() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    for name in ["a", "b"] {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        write(&format!("{name}.crt"), &params.self_signed(&key).unwrap().pem());
        write(&format!("{name}.key"), &key.serialize_pem());
    }
    write("empty", "");
    write("nonsense", "secret nonsense");
    write("broken.crt", "-----BEGIN CERTIFICATE-----\nc2VjcmV0\n-----END CERTIFICATE-----\n");
    write(
        "locked.key",
        "-----BEGIN ENCRYPTED PRIVATE KEY-----\nc2VjcmV0\n-----END ENCRYPTED PRIVATE KEY-----\n",
    );
    folder
}

/// The files of the authority, the certificate and the key; an empty name means no flag.
fn read_of(folder: &TempDir, files: [&str; 3], proxy_url: Option<&str>) -> Result<ProxyTls, Failure> {
    let [proxy_certificate_authority, proxy_client_certificate, proxy_client_key] =
        files.map(|name| Some(folder.path().join(name).into_os_string()).filter(|_| !name.is_empty()));
    let flags = ConnectionArgs {
        proxy_certificate_authority,
        proxy_client_certificate,
        proxy_client_key,
        ..ConnectionArgs::default()
    };
    ProxyTls::read(&flags, proxy_url)
}

const HTTPS: Option<&str> = Some("https://proxy:3128");

#[test]
fn files_become_the_keys_of_the_secret() {
    let folder = files();
    let data = |files| {
        let mut data = BTreeMap::new();
        read_of(&folder, files, HTTPS).unwrap().insert_into(&mut data);
        data
    };
    let content = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
    assert_eq!(data(["", "", ""]), BTreeMap::new());
    assert_eq!(data(["a.crt", "", ""]), BTreeMap::from([("proxy-ca.crt", content("a.crt"))]));
    let pair = [("proxy-tls.crt", content("b.crt")), ("proxy-tls.key", content("b.key"))];
    assert_eq!(data(["", "b.crt", "b.key"]), BTreeMap::from(pair.clone()));
    assert_eq!(data(["a.crt", "b.crt", "b.key"]).len(), 3);
    // Each flag uses its own block of a combined file.
    let all = format!("$(comment)\n{}x\r\n{}", content("b.key"), content("b.crt").replace('\n', "\r\n"));
    std::fs::write(folder.path().join("all"), all).unwrap();
    assert_eq!(data(["", "all", "all"]), BTreeMap::from(pair));
    let shown = format!("{:?}", read_of(&folder, ["a.crt", "b.crt", "b.key"], HTTPS).unwrap());
    assert!(!shown.contains("PRIVATE KEY") && !shown.contains(content("b.key").lines().nth(1).unwrap()));
}

#[test]
fn flags_need_an_https_proxy() {
    let folder = files();
    for (files, flag) in [
        (["a.crt", "", ""], "--proxy-certificate-authority"),
        (["", "a.crt", "a.key"], "--proxy-client-certificate"),
        (["", "", "a.key"], "--proxy-client-key"),
    ] {
        let error = read_of(&folder, files, None).unwrap_err();
        assert_eq!(error.to_string(), format!("{flag} needs an https proxy, and there is no --proxy-url"));
        assert_eq!(
            error.hint.unwrap().to_string(),
            format!("set the proxy by --proxy-url=https://…, or leave out {flag}")
        );
        for scheme in ["http", "socks5", "socks5h"] {
            let error =
                read_of(&folder, files, Some(&format!("{scheme}://u:secret@p"))).unwrap_err().to_string();
            assert_eq!(
                error,
                format!("{flag} needs an https proxy, and the URL of the proxy begins with {scheme}://")
            );
        }
    }
}

#[test]
fn unusable_files_are_named_and_not_shown() {
    let folder = files();
    for (files, said) in [
        (["gone", "", ""], "cannot read the file of --proxy-certificate-authority, DIR/gone"),
        (["", "gone", "a.key"], "cannot read the file of --proxy-client-certificate, DIR/gone"),
        (["", "a.crt", "gone"], "cannot read the file of --proxy-client-key, DIR/gone"),
        (["", "a.crt", ""], "--proxy-client-certificate needs --proxy-client-key too"),
        (["", "", "a.key"], "--proxy-client-key needs --proxy-client-certificate too"),
        (
            ["", "a.crt", "b.key"],
            "the key of --proxy-client-key, DIR/b.key, does not match the certificate of --proxy-client-certificate, DIR/a.crt",
        ),
    ] {
        let error = read_of(&folder, files, HTTPS).unwrap_err().to_string();
        let error = error.replace(folder.path().to_str().unwrap(), "DIR");
        // The cause is a text of the system.
        assert_eq!(error.split(": No such file").next().unwrap(), said);
    }
    let (bundle, certificate, key) = (
        "it is not a PEM bundle of certificate authorities",
        "it is not a PEM certificate",
        "it is not a PEM private key without a password",
    );
    for (files, reason) in [
        (["empty", "", ""], bundle),
        (["nonsense", "", ""], bundle),
        (["a.key", "", ""], bundle),
        (["broken.crt", "", ""], bundle),
        (["", "empty", "a.key"], certificate),
        (["", "nonsense", "a.key"], certificate),
        (["", "a.crt", "empty"], key),
        (["", "a.crt", "nonsense"], key),
        (["", "a.crt", "locked.key"], key),
    ] {
        let error = read_of(&folder, files, HTTPS).unwrap_err().to_string();
        assert!(error.ends_with(reason) && !error.contains("secret"), "{files:?}: {error}");
    }
}
