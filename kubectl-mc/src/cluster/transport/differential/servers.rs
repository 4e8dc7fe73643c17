//! Connections of both programs to servers with many kinds of certificates.

use std::io::Write;
use std::net::TcpListener;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    date_time_ymd,
};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use super::{ClientGo, Question, folder, loaded};
use crate::argv::Scanned;
use crate::cluster::client;

type Issuer = CertifiedIssuer<'static, KeyPair>;

/// A certificate and its key.
struct Served {
    chain: Vec<CertificateDer<'static>>,
    pem: String,
    key: KeyPair,
}

fn parameters(names: &[&str]) -> CertificateParams {
    CertificateParams::new(names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>()).unwrap()
}

fn authority(change: impl FnOnce(&mut CertificateParams)) -> Issuer {
    let mut parameters = parameters(&[]);
    parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    parameters.distinguished_name.push(rcgen::DnType::CommonName, "authority");
    change(&mut parameters);
    CertifiedIssuer::self_signed(parameters, KeyPair::generate().unwrap()).unwrap()
}

fn signed(by: &Issuer, change: impl FnOnce(&mut CertificateParams)) -> Served {
    let (mut parameters, key) = (parameters(&["127.0.0.1"]), KeyPair::generate().unwrap());
    change(&mut parameters);
    served(&parameters.signed_by(&key, by).unwrap(), key)
}

fn own(change: impl FnOnce(&mut CertificateParams)) -> Served {
    let (mut parameters, key) = (parameters(&["127.0.0.1"]), KeyPair::generate().unwrap());
    change(&mut parameters);
    served(&parameters.self_signed(&key).unwrap(), key)
}

fn served(certificate: &rcgen::Certificate, key: KeyPair) -> Served {
    Served { chain: vec![certificate.der().clone()], pem: certificate.pem(), key }
}

fn expired(parameters: &mut CertificateParams) {
    (parameters.not_before, parameters.not_after) = (date_time_ymd(2020, 1, 1), date_time_ymd(2021, 1, 1));
}

/// Serves `200` to each request, and returns the port.
fn serve(served: &Served) -> u16 {
    let key = PrivateKeyDer::try_from(served.key.serialize_der()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder =
        ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config = Arc::new(builder.with_no_client_auth().with_single_cert(served.chain.clone(), key).unwrap());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for socket in listener.incoming() {
            let Ok(connection) = ServerConnection::new(Arc::clone(&config)) else { return };
            let Ok(socket) = socket else { return };
            let mut stream = StreamOwned::new(connection, socket);
            // A client that does not trust the certificate ends the handshake.
            let _ = std::io::Read::read(&mut stream, &mut [0; 4096]);
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}");
            stream.conn.send_close_notify();
            let _ = stream.flush();
        }
    });
    port
}

/// Whether the plugin gets an answer, or its error.
fn connected(question: &Question) -> Result<(), String> {
    let (host, env) = loaded(question)?;
    let runtime = client::runtime().map_err(|error| error.to_string())?;
    runtime.block_on(async {
        let client = client::connection(&host, &Scanned::default(), &env).await;
        let client = client.map_err(|error| crate::error::chain(&error))?;
        let reply = client::get_by(&client, "/version", "application/json").await;
        reply.map(drop).map_err(|error| crate::error::chain(&error))
    })
}

/// The plugin's result, which equals client-go's.
fn outcome(
    client_go: &mut ClientGo,
    name: &str,
    trusted: &str,
    more: &str,
    served: &Served,
) -> Result<(), String> {
    let port = serve(served);
    let kubeconfig = format!(
        "clusters: [{{name: k, cluster: {{server: 'https://127.0.0.1:{port}', certificate-authority-data: {}{more}}}}}]\n\
         users: [{{name: u, user: {{token: t}}}}]\ncontexts: [{{name: c, context: {{cluster: k, user: u}}}}]\n",
        STANDARD.encode(trusted)
    );
    let (_folder, question) = folder(kubeconfig.as_bytes());
    let question = Question { connect: true, ..question };
    let (theirs, ours) = (client_go.ask(&question), connected(&question));
    let is_accepted = theirs.error.is_empty() && theirs.connected == "200 OK";
    assert_eq!(ours.is_ok(), is_accepted, "{name}: client-go: {theirs:?}\nplugin: {ours:?}");
    ours
}

#[test]
fn servers_are_trusted_as_by_client_go() {
    let mut client_go = ClientGo::start();
    let (good, other) = (authority(|_| {}), authority(|_| {}));
    let no_ca = authority(|parameters| parameters.is_ca = IsCa::ExplicitNoCa);
    let old = authority(expired);
    let middle = {
        let mut parameters = parameters(&[]);
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        parameters.distinguished_name.push(rcgen::DnType::CommonName, "middle");
        CertifiedIssuer::signed_by(parameters, KeyPair::generate().unwrap(), &good).unwrap()
    };
    let chained = || {
        let mut served = signed(&middle, |_| {});
        served.chain.push(middle.der().clone());
        served
    };
    let own_ca = || own(|parameters| parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained));
    let wrong_name = |parameters: &mut CertificateParams| *parameters = self::parameters(&["other.example"]);
    let for_clients = |parameters: &mut CertificateParams| {
        parameters.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    };
    // Whether the bundle has the server's own certificate, or these authorities.
    let mut check =
        |name: &str, served: Served, authorities: Option<&[&Issuer]>, more: &str, accepted: bool| {
            let bundle = match authorities {
                None => served.pem.clone(),
                Some(authorities) => authorities.iter().map(|issuer| issuer.pem()).collect(),
            };
            let ours = outcome(&mut client_go, name, &bundle, more, &served);
            assert_eq!(ours.is_ok(), accepted, "{name}: {ours:?}");
            ours.err().unwrap_or_default()
        };
    check("signed by the authority", signed(&good, |_| {}), Some(&[&good]), "", true);
    check("signed by another authority", signed(&other, |_| {}), Some(&[&good]), "", false);
    check("one of two authorities", signed(&other, |_| {}), Some(&[&good, &other]), "", true);
    check("self-signed", own(|_| {}), None, "", true);
    check("self-signed authority as its own server", own_ca(), None, "", true);
    check("pinned certificate of an authority", signed(&other, |_| {}), None, "", true);
    check("pinned with another name", signed(&other, wrong_name), None, "", false);
    check(
        "pinned with another name that is given",
        signed(&other, wrong_name),
        None,
        ", tls-server-name: other.example",
        true,
    );
    check("pinned and expired", signed(&other, expired), None, "", false);
    check("pinned for clients", signed(&other, for_clients), None, "", false);
    check("self-signed and expired", own(expired), None, "", false);
    check("expired", signed(&good, expired), Some(&[&good]), "", false);
    check("issuer that is no authority", signed(&no_ca, |_| {}), Some(&[&no_ca]), "", false);
    check("intermediate, and the root is trusted", chained(), Some(&[&good]), "", true);
    check("intermediate, which is trusted itself", chained(), Some(&[&middle]), "", true);
    check(
        "other name given",
        signed(&good, |_| {}),
        Some(&[&good]),
        ", tls-server-name: other.example",
        false,
    );
    check("address given", signed(&good, |_| {}), Some(&[&good]), ", tls-server-name: 127.0.0.1", true);
    let error = check("expired authority", signed(&old, |_| {}), Some(&[&old]), "", false);
    assert!(error.contains("a certificate-authority of the kubeconfig has expired"), "{error}");
}
