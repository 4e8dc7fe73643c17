use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair};

use super::*;
use crate::outbound::upstream::connection::Connection;

/// A self-signed certificate that is also an authority, and its key.
fn certificate() -> (String, String) {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    (params.self_signed(&key).unwrap().pem(), key.serialize_pem())
}

fn parse(keys: &[(&str, &str)]) -> Result<Connection, Error> {
    let (ca, _) = certificate();
    let always = [("server", "https://203.0.113.7:6443"), ("ca.crt", &ca), ("token", "t")];
    let entry = |(key, value): &(&str, &str)| ((*key).to_owned(), ByteString(value.as_bytes().to_vec()));
    Connection::parse(&always.iter().chain(keys).map(entry).collect())
}

const HTTPS: (&str, &str) = ("proxy-url", "https://proxy:3128");

#[test]
fn https_proxy_accepts_authority_and_client_certificate() {
    let (chain, key) = certificate();
    let (ca, certificate) =
        ((AUTHORITY, chain.as_str()), [(KEYS.chain, chain.as_str()), (KEYS.key, key.as_str())]);
    let shown = |keys: &[(&str, &str)]| {
        let proxy = parse(keys).unwrap().proxy.unwrap();
        proxy.tls.unwrap().client_auth_cert_resolver.has_certs()
    };
    assert!(!shown(&[HTTPS]));
    assert!(!shown(&[HTTPS, ca]));
    assert!(shown(&[HTTPS, certificate[0], certificate[1]]));
    assert!(shown(&[HTTPS, ca, certificate[0], certificate[1]]));
    // The proxy's certificate is not used for the member.
    let connection = parse(&[HTTPS, certificate[0], certificate[1]]).unwrap();
    assert!(!connection.tls.client_auth_cert_resolver.has_certs() && !connection.has_certificate());
}

#[test]
fn tls_keys_need_an_https_proxy() {
    let (chain, key) = certificate();
    let certificate = [(KEYS.chain, chain.as_str()), (KEYS.key, key.as_str())];
    for url in [None, Some("http://proxy"), Some("socks5://proxy"), Some("socks5h://proxy")] {
        let with = |keys: &[(&str, &str)]| {
            let keys: Vec<_> =
                url.map(|url| ("proxy-url", url)).into_iter().chain(keys.iter().copied()).collect();
            parse(&keys).unwrap_err().to_string()
        };
        assert_eq!(
            with(&[(AUTHORITY, &chain)]),
            "key proxy-ca.crt: it needs a proxy-url that begins with https://"
        );
        assert_eq!(with(&certificate), "key proxy-tls.crt: it needs a proxy-url that begins with https://");
        assert_eq!(
            with(&certificate[1..]),
            "key proxy-tls.key: it needs a proxy-url that begins with https://"
        );
        // An empty value is not ignored either.
        assert!(with(&[(AUTHORITY, "")]).starts_with("key proxy-ca.crt:"));
    }
}

#[test]
fn invalid_tls_keys_are_named_without_their_values() {
    let ((chain, key), (_, other)) = (certificate(), certificate());
    let (certificate, private) = ((KEYS.chain, chain.as_str()), (KEYS.key, key.as_str()));
    let broken = "-----BEGIN CERTIFICATE-----\nc2VjcmV0\n-----END CERTIFICATE-----\n";
    for (keys, said) in [
        (&[(AUTHORITY, "nonsense")][..], "key proxy-ca.crt: it is no PEM certificate"),
        (&[(AUTHORITY, "")], "key proxy-ca.crt: it is no PEM certificate"),
        (&[(AUTHORITY, &key)], "key proxy-ca.crt: it is no PEM certificate"),
        (&[(AUTHORITY, broken)], "key proxy-ca.crt: it is no certificate authority"),
        (&[certificate], "key proxy-tls.key: it is missing, though proxy-tls.crt is there"),
        (&[private], "key proxy-tls.crt: it is missing, though proxy-tls.key is there"),
        (&[("proxy-tls.crt", "nonsense"), private], "key proxy-tls.crt: it is no PEM certificate"),
        (&[("proxy-tls.crt", ""), private], "key proxy-tls.crt: it is no PEM certificate"),
        (&[("proxy-tls.crt", broken), private], "key proxy-tls.crt: it does not fit proxy-tls.key"),
        (&[certificate, ("proxy-tls.key", "nonsense")], "key proxy-tls.key: it is no PEM key"),
        (&[certificate, ("proxy-tls.key", &chain)], "key proxy-tls.key: it is no PEM key"),
        (&[certificate, ("proxy-tls.key", &other)], "key proxy-tls.crt: it does not fit proxy-tls.key"),
    ] {
        let keys: Vec<_> = [HTTPS].iter().chain(keys).copied().collect();
        assert_eq!(parse(&keys).unwrap_err().to_string(), said);
    }
}

#[test]
fn proxy_url_needs_a_known_scheme_and_a_host() {
    for url in ["ftp://proxy", "https://", "proxy:3128", "https:///", "a b"] {
        let error = parse(&[("proxy-url", url)]).unwrap_err().to_string();
        assert!(error.starts_with("key proxy-url:"), "{url}: {error}");
    }
}
