use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
};

use super::*;
use crate::identity::peer::Peer;

pub(super) struct Ca(CertifiedIssuer<'static, KeyPair>);

impl Ca {
    pub(super) fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    pub(super) fn pem(&self) -> String {
        self.0.pem()
    }

    fn leaf(&self, name: &str, usage: ExtendedKeyUsagePurpose) -> Vec<CertificateDer<'static>> {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.extended_key_usages = vec![usage];
        let key = KeyPair::generate().unwrap();
        vec![params.signed_by(&key, &self.0).unwrap().der().clone()]
    }
}

fn trust(client: &Ca, front: &Ca, allowed: &str) -> Trust {
    let entry = |key: &str, value: &str| (key.to_owned(), value.to_owned());
    Trust::parse(&BTreeMap::from([
        entry("client-ca-file", &client.pem()),
        entry("requestheader-client-ca-file", &front.pem()),
        entry("requestheader-allowed-names", allowed),
        entry("requestheader-username-headers", r#"["X-Remote-User"]"#),
        entry("requestheader-group-headers", r#"["X-Remote-Group"]"#),
    ]))
    .unwrap()
}

/// A host's front proxy, for tests of other modules.
pub(crate) struct FrontProxy {
    ca: Ca,
    clients: Ca,
}

pub(crate) fn front_proxy() -> FrontProxy {
    crate::connection::tls::install_provider();
    FrontProxy { ca: Ca::new(), clients: Ca::new() }
}

impl FrontProxy {
    pub(crate) fn trust(&self) -> Trust {
        trust(&self.clients, &self.ca, r#"["front"]"#)
    }

    /// Its end of a connection.
    pub(crate) fn peer(&self) -> Peer {
        let certificates = self.ca.leaf("front", ExtendedKeyUsagePurpose::ClientAuth);
        Peer::new(([127, 0, 0, 1], 1).into(), Some(&certificates), None)
    }
}

#[test]
fn fault_02_03_front_proxy_needs_its_ca_and_an_allowed_name() {
    let (client, front) = (Ca::new(), Ca::new());
    let trust = trust(&client, &front, r#"["front"]"#);
    let usage = ExtendedKeyUsagePurpose::ClientAuth;
    assert!(trust.prove(&front.leaf("front", usage.clone())).front_proxy);
    let other = trust.prove(&front.leaf("other", usage.clone()));
    assert!(!other.front_proxy && other.user.is_none());
    assert!(other.refused.unwrap().contains("other"));
    let user = trust.prove(&client.leaf("front", usage));
    assert!(!user.front_proxy, "a user's certificate with the front proxy's name is still a user's");
    assert_eq!(user.user.unwrap().user, "front");
}

#[test]
fn empty_allowed_names_accept_every_name_of_the_front_proxy_ca() {
    let (client, front) = (Ca::new(), Ca::new());
    let proven = trust(&client, &front, "[]").prove(&front.leaf("any", ExtendedKeyUsagePurpose::ClientAuth));
    assert!(proven.front_proxy);
}

#[test]
fn fault_02_unknown_chain_or_server_certificate_proves_nothing() {
    let (client, front) = (Ca::new(), Ca::new());
    let trust = trust(&client, &front, "[]");
    for chain in [
        Ca::new().leaf("jane", ExtendedKeyUsagePurpose::ClientAuth),
        client.leaf("jane", ExtendedKeyUsagePurpose::ServerAuth),
        front.leaf("front", ExtendedKeyUsagePurpose::ServerAuth),
    ] {
        let proven = trust.prove(&chain);
        assert!(!proven.front_proxy && proven.user.is_none() && proven.refused.is_some());
    }
}

#[test]
fn host_without_a_front_proxy_is_no_error() {
    let trust = Trust::parse(&BTreeMap::new()).unwrap();
    assert!(trust.front_proxy.is_none());
}

#[test]
fn invalid_key_is_named_in_the_error() {
    for (key, value) in [
        ("client-ca-file", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----"),
        ("client-ca-file", "no certificate"),
        ("requestheader-allowed-names", "front"),
        ("requestheader-username-headers", r#"["not a name"]"#),
        ("requestheader-extra-headers-prefix", r#"["X-Remote-Extra-", ""]"#),
    ] {
        let error = Trust::parse(&BTreeMap::from([(key.to_owned(), value.to_owned())])).unwrap_err();
        assert!(error.to_string().starts_with(key), "{error}");
    }
}
